"""The wiring selector: choose a family and a token, and see what it may read and what it is asked."""

from collections.abc import Mapping

import ipywidgets

from transformer_lab.draw.wiring import WiringPicture
from transformer_lab.experiments.wiring import FAMILIES, Wiring, look_at_wiring, sequence_of
from transformer_lab.widgets import controls
from transformer_lab.widgets.explorer import Explorer

N_PADS = 2


def wiring_selector(family: str = "encoder-only", asks: int = 3, *, padded: bool = False) -> Explorer:
    """The three families on one sentence; each mask is recorded from a forward pass.

    Args:
        asks: the number of the token that is looked at.
        padded: whether two pads stand behind what the first stack reads.
    """
    return Explorer(
        controls={
            "family": controls.choice("Family", FAMILIES, family, buttons=True),
            "padded": controls.toggle("two pads", padded),
            "asks": controls.choice("Token", _tokens(family, padded), asks),
        },
        adjust=_adjust,
        compute=lambda family, padded, asks: look_at_wiring(family, asks, N_PADS * padded),
        picture=WiringPicture,
        describe=describe,
    )


def _tokens(family: str, padded: bool) -> list[tuple[str, int]]:
    tokens, n_source = sequence_of(family, N_PADS * padded)
    two_stacks = 0 < n_source < len(tokens)
    side = ["source: " if i < n_source else "target: " for i in range(len(tokens))] if two_stacks else [""] * 99
    return [(f"{side[i]}{token}", i) for i, token in enumerate(tokens) if token != "<pad>"]


def _adjust(found: Mapping[str, ipywidgets.Widget]) -> None:
    """The same token stays chosen where it still stands, though its number may be another."""
    asks = found["asks"]
    chosen, tokens = asks.label, _tokens(found["family"].value, found["padded"].value)
    same = [place for label, place in tokens if label == chosen]
    alike = [place for label, place in tokens if label.split()[-1] == chosen.split()[-1]]
    controls.set_options(asks, tokens)
    if same or alike:
        asks.value = (same or alike)[0]


def describe(wiring: Wiring) -> str:
    """What the token may read, and what the objective asks it."""
    who, read = wiring.shown[wiring.asks], wiring.read
    hidden = len(wiring.shown) - len(read)
    sentence = f"{wiring.family}: “{who}” reads {len(read)} of {len(wiring.shown)} tokens"
    sentence += f" ({', '.join(read)})" if hidden else ", itself included"
    if wiring.answer is None:
        return f"{sentence}. The objective asks nothing here: {wiring.question.removeprefix('Nothing: ')}"
    return f"{sentence}. {wiring.question} Right is “{wiring.answer}”."
