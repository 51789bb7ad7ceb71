"""Who reads whom in each family, recorded from a forward pass, and what each token is asked."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import torch
from jaxtyping import Bool
from torch import Tensor, nn

from transformer_lab.experiments.objectives import SMALL, cut_gap, real
from transformer_lab.model.config import FAMILIES
from transformer_lab.model.families import build
from transformer_lab.model.recording import record_attention
from transformer_lab.tasks import cloze
from transformer_lab.training import seeded

WORDS = ("these", "old", "dogs", "barked", "here")
GAP_AT, N_MISSING = 1, 2  # the source misses "old dogs"
PARTS = ("encoder self-attention", "decoder self-attention", "cross-attention")


@dataclass(frozen=True)
class Wiring:
    """Who may read whom, and what one token is asked.

    Args:
        tokens: what stands on both axes; in an encoder–decoder the source and then the target.
        n_source: how many of them the encoder reads.
        sees: (query, key), True where a recorded weight is above 0.
        asks: the number of the token that is looked at.
        shown: the tokens as the model gets them while this one is asked: the masked objective hides its word.
        question, answer: what the objective asks this token, and the right answer; ``None`` where it asks nothing.
    """

    family: str
    tokens: tuple[str, ...]
    n_source: int
    sees: Bool[Tensor, "query key"]
    asks: int
    shown: tuple[str, ...]
    question: str
    answer: str | None

    @property
    def parts(self) -> tuple[tuple[str, ...], ...]:
        """Which attention joins each (query, key); ``""`` for none: the encoder never reads the target."""
        places = range(len(self.tokens))
        return tuple(tuple(_part_of(self.n_source, query, key) for key in places) for query in places)

    @property
    def read(self) -> tuple[str, ...]:
        """The tokens that the looked-at one may read."""
        return tuple(token for token, seen in zip(self.shown, self.sees[self.asks].tolist(), strict=True) if seen)


def look_at_wiring(family: str, asks: int, n_pads: int = 0) -> Wiring:
    """Run the family on one sentence, record its attention and say what token number ``asks`` is asked.

    Raises:
        ValueError: a family that does not exist, a token that does not or that is a pad.
    """
    tokens, n_source = sequence_of(family, n_pads)
    if not 0 <= asks < len(tokens) or tokens[asks] == cloze.PAD:
        raise ValueError(f"asks is {asks}; choose one of the {len(tokens)} tokens that is no pad.")
    sees = _recorded(family, n_pads)
    question, answer, shown = _asked(family, tokens, n_source, asks)
    return Wiring(family, tokens, n_source, sees, asks, shown, question, answer)


def sequence_of(family: str, n_pads: int = 0) -> tuple[tuple[str, ...], int]:
    """The tokens that the family reads, and how many of them are the encoder's. Pads stand behind the first stack's."""
    pads = (cloze.PAD,) * n_pads
    source, missing = cut_gap(WORDS, GAP_AT, N_MISSING)
    if family == "encoder-only":
        tokens = (cloze.START, *WORDS, cloze.END, *pads)
        return tokens, len(tokens)
    if family == "decoder-only":
        return (cloze.START, *WORDS, *pads), 0
    if family == "encoder-decoder":
        first = (cloze.START, *source, cloze.END, *pads)
        return (*first, cloze.START, *missing), len(first)
    raise ValueError(f"family is {family!r}; it must be one of {', '.join(FAMILIES)}.")


def _part_of(n_source: int, query: int, key: int) -> str:
    if query < n_source:
        return PARTS[0] if key < n_source else ""
    return PARTS[2] if key < n_source else PARTS[1]


def parameter_names(model: nn.Module) -> frozenset[str]:
    """The kinds of parameters of a model's blocks, such as ``feedforward.sublayer.up.weight``."""
    return frozenset(name.split(".", 3)[3] for name, _ in model.named_parameters() if ".blocks." in name)


@cache
def _recorded(family: str, n_pads: int) -> Tensor:
    with seeded(0):
        model = build(replace(SMALL, family=family))
    tokens, n_source = sequence_of(family, n_pads)
    with torch.no_grad(), record_attention(model) as maps:
        if family == "encoder-decoder":
            source, target = _ids(tokens[:n_source]), _ids(tokens[n_source:])
            model(source, target, source_mask=real(source))
        else:
            ids = _ids(tokens)
            model(ids, mask=real(ids))
    found = {name: calls[0][0].mean(dim=0) > 0 for name, calls in maps.items()}
    sees = torch.zeros(len(tokens), len(tokens), dtype=torch.bool)
    for name, seen in found.items():
        rows = slice(0, n_source) if name.startswith("encoder") else slice(n_source, None)
        columns = slice(n_source, None) if name.startswith("decoder") and "self" in name else slice(0, n_source)
        sees[rows, columns] = seen
    return sees


def _ids(tokens: Sequence[str]) -> Tensor:
    return torch.tensor([[cloze.WORDS.index(token) for token in tokens]])


def _asked(
    family: str, tokens: tuple[str, ...], n_source: int, asks: int
) -> tuple[str, str | None, tuple[str, ...]]:
    if family == "encoder-only":
        if tokens[asks] in cloze.SPECIALS:
            return "Nothing: special tokens are never hidden.", None, tokens
        shown = (*tokens[:asks], cloze.MASK, *tokens[asks + 1 :])
        return "Which word is hidden here?", tokens[asks], shown
    if asks < n_source:
        return "Nothing: the encoder is only read.", None, tokens
    rest = [token for token in tokens[asks + 1 :] if token != cloze.PAD]
    return "Which word comes next?", rest[0] if rest else cloze.END, tokens
