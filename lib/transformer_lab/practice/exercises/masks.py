"""Lesson 05: a causal mask, and a padding mask from lengths."""

import math

import torch
from torch import Tensor

from transformer_lab.practice.checking import Case, FunctionExercise, Mistake, Output


def causal_mask_with_faults(
    n_query: int,
    n_key: int,
    *,
    diagonal: int = 0,
    triangle: str = "lower",
    corner: str = "bottom right",
    inverted: bool = False,
    kind: str = "boolean",
    numbers: torch.dtype = torch.float32,
    fill: float = -math.inf,
) -> Tensor:
    """(query, key), True where the key is not after the query; the queries are the last positions of the keys."""
    offset = {"bottom right": n_key - n_query, "top left": 0}[corner] + diagonal
    whole = torch.ones(n_query, n_key, dtype=torch.bool)
    mask = {"lower": whole.tril(offset), "upper": whole.triu(offset), "both": whole}[triangle]
    mask = ~mask if inverted else mask
    return _written_as(mask, kind, numbers, fill)


def _written_as(mask: Tensor, kind: str, numbers: torch.dtype, fill: float) -> Tensor:
    return {
        "boolean": lambda: mask,
        "0 and 1": lambda: mask.to(numbers),
        "0 and −∞": lambda: torch.zeros(mask.shape).masked_fill(~mask, fill),
    }[kind]()


_SPELLINGS = ({}, {"numbers": torch.int64}, {"numbers": torch.int32}, {"fill": -1e9}, {"fill": -1e4})
_KINDS = (
    Mistake(
        {"kind": "0 and 1"},
        "The mask holds the numbers 0 and 1",
        "Added to scores, 1 nudges and 0 forbids nothing. A mask is boolean here, so that it cannot be added by "
        "accident: start from `dtype=torch.bool`, or from a comparison.",
    ),
    Mistake(
        {"kind": "0 and −∞"},
        "This is an additive mask",
        "0 and −∞ (or a large negative number) are what is added to the scores; the course calls that a `bias`. Return "
        "the boolean, True = may attend.",
    ),
)


CAUSAL_MASK = FunctionExercise(
    name="causal_mask",
    title="A causal mask, also for fewer queries than keys.",
    reference=causal_mask_with_faults,
    cases=lambda: (
        Case("five queries, five keys", {"n_query": 5, "n_key": 5}),
        Case("the last two of six tokens ask", {"n_query": 2, "n_key": 6}),
        Case("the last three of four tokens ask", {"n_query": 3, "n_key": 4}),
        Case("one token", {"n_query": 1, "n_key": 1}),
        Case("one new token after a cache", {"n_query": 1, "n_key": 7}),
    ),
    outputs=(Output("mask", ("query", "key")),),
    spellings=_SPELLINGS,
    mistakes=(
        *_KINDS,
        Mistake(
            {"triangle": "upper"},
            "This is the upper triangle",
            "Every token sees itself and the future, and the past is hidden. Keys run along the columns, so the past "
            "lies to the *left* of the diagonal: keep the lower triangle, `tril`.",
        ),
        Mistake(
            {"triangle": "both"},
            "Nothing is hidden",
            "Every query sees every key. `tril` returns a new tensor and leaves the old one as it is: keep its result.",
        ),
        Mistake(
            {"diagonal": -1},
            "The diagonal is excluded",
            "A token may look at itself: its label is the *next* token, so nothing is given away. Without the "
            "diagonal the first query has no key at all.",
        ),
        Mistake(
            {"diagonal": 1},
            "Every query sees one token too many",
            "The first key after each query is the label it should predict. Move the diagonal back by one.",
        ),
        Mistake(
            {"corner": "top left"},
            "The triangle sits in the top left corner",
            "With fewer queries than keys, the queries are the *last* tokens: query 0 stands at position "
            "`n_key - n_query`. Shift the diagonal by that much.",
        ),
        Mistake(
            {"inverted": True},
            "The mask is inverted",
            "True means *may attend*. Yours is True where attention is forbidden, which is the convention of "
            "`nn.MultiheadAttention`. Turn it round with `~`.",
        ),
    ),
)


def padding_mask_with_faults(
    lengths: Tensor,
    n_key: int,
    *,
    hides: str = "keys",
    inverted: bool = False,
    side: str = "right",
    extra: int = 0,
    compared: str = "each sentence",
    layout: str = "(batch, 1, 1, key)",
    one_by_one: str = "a row a sentence",
    kind: str = "boolean",
    numbers: torch.dtype = torch.float32,
    fill: float = -math.inf,
) -> Tensor:
    """(batch, 1, 1, key), True on the first ``lengths[b]`` keys of sentence b."""
    place = torch.arange(n_key)
    place = place.flip(0) if side == "left" else place
    limit = lengths + extra
    real = {
        "each sentence": lambda: place < limit[:, None],
        "position by position": lambda: {
            "a row a sentence": lambda real: real.expand(len(lengths), n_key),
            "one row": lambda real: real[None],
            "no batch axis": lambda real: real,
        }[one_by_one](place < limit),
        "transposed": lambda: place[:, None] < limit,
    }[compared]()
    real = _written_as(~real if inverted else real, kind, numbers, fill)
    if hides == "queries":
        return real[:, None, :, None]
    if hides == "both":
        return real[:, None, None, :] * real[:, None, :, None]
    return {
        "(batch, 1, 1, key)": lambda: real[:, None, None, :],
        "(batch, key)": lambda: real,
        "(batch, 1, key)": lambda: real[:, None, :],
    }[layout]()


PADDING_MASK = FunctionExercise(
    name="padding_mask",
    title="A padding mask from lengths.",
    reference=padding_mask_with_faults,
    cases=lambda: (
        Case("three sentences", {"lengths": torch.tensor([5, 2, 3]), "n_key": 6}),
        Case("batch = length", {"lengths": torch.tensor([4, 1, 3, 2]), "n_key": 4}),
        Case("one sentence without padding", {"lengths": torch.tensor([3]), "n_key": 3}),
        Case("a sentence of nothing but pads", {"lengths": torch.tensor([2, 0]), "n_key": 5}),
    ),
    outputs=(Output("mask", ("batch", "heads", "query", "key")),),
    spellings=(*_SPELLINGS, {"one_by_one": "one row"}, {"one_by_one": "no batch axis"}),
    mistakes=(
        *_KINDS,
        Mistake(
            {"hides": "queries"},
            "The mask hides queries instead of keys",
            "Your axes are (batch, 1, query, 1): a pad may not *ask*, but every word still reads the pads. Padding "
            "must not be *read*: put the key axis last, `[:, None, None, :]`.",
        ),
        Mistake(
            {"hides": "both"},
            "The mask hides queries as well as keys",
            "Hiding the keys is enough: nobody reads a pad. Emptying the pads' own rows adds rows with nothing to "
            "attend to, and those are where NaN comes from.",
        ),
        Mistake(
            {"inverted": True},
            "The mask is inverted",
            "True means *may attend*, so it stands on the real tokens. Yours is True on the pads, the convention of "
            "`key_padding_mask`. Compare with `<`.",
        ),
        Mistake(
            {"compared": "position by position"},
            "Positions are compared with the lengths one by one",
            "`torch.arange(n_key) < lengths` pairs position 0 with sentence 0, position 1 with sentence 1. Where batch "
            "and length differ that raises an error; where they are equal it runs and is wrong. Every sentence needs "
            "all positions: `lengths[:, None]`.",
        ),
        Mistake(
            {"compared": "transposed"},
            "Sentences and positions have changed places",
            "`arange[:, None] < lengths` gives (key, batch). Where batch = length that fits without an error. The "
            "batch comes first: `lengths[:, None]`.",
        ),
        Mistake(
            {"layout": "(batch, key)"},
            "The mask has only (batch, key)",
            "Two dimensions always mean (query, key). Where batch = length it would fit the scores and mean something "
            "else. Add the axes for heads and queries: `[:, None, None, :]`.",
        ),
        Mistake(
            {"layout": "(batch, 1, key)"},
            "The mask has three axes",
            "Against scores (batch, heads, query, key), your batch axis meets the heads. Two axes of size 1 stand "
            "between batch and key: `[:, None, None, :]`.",
        ),
        Mistake(
            {"extra": 1},
            "One pad too many is let through",
            "With positions counted from 0, a sentence of 2 tokens fills positions 0 and 1: `<`, not `<=`.",
        ),
        Mistake(
            {"side": "left"},
            "The pads are on the left",
            "Here the words come first and the pads follow. True stands on the first `lengths[b]` positions.",
        ),
    ),
)
