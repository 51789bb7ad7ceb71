"""The first widget of the course: it counts pairs, and shows that page and kernel talk to each other."""

from transformer_lab.draw.pairs import LARGEST, PairsPicture
from transformer_lab.widgets import controls
from transformer_lab.widgets.explorer import Explorer


def pairs_explorer() -> Explorer:
    """How many pairs there are when every token may look at every token. Control: the number of tokens."""
    return Explorer(
        controls={"n_tokens": controls.slider("tokens", 1, LARGEST, 4)},
        compute=lambda n_tokens: n_tokens,
        picture=PairsPicture,
        describe=_describe,
    )


def _describe(n_tokens: int) -> str:
    tokens, pairs = ("token", "pair") if n_tokens == 1 else ("tokens", "pairs")
    return f"The kernel heard {n_tokens} {tokens} and counted {n_tokens**2} {pairs}: each looks at each, and at itself."
