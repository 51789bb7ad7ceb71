"""Lesson 07: cross-attention of one head, from projections to output, and what people exchange in it."""

import math

import torch
from torch import Tensor

from transformer_lab.practice.checking import Case, FunctionExercise, Mistake, Output, seeded


def cross_attention_with_faults(
    target: Tensor,
    memory: Tensor,
    W_Q: Tensor,
    W_K: Tensor,
    W_V: Tensor,
    source_real: Tensor,
    *,
    queries: str = "target",
    keys: str = "memory",
    values: str = "memory",
    projections: str = "each its own",
    mask: str = "padding",
    turned: str = "transposed",
    divide_by: str = "√d_k",
    softmax_over: str = "keys",
    fill: float = -math.inf,
) -> Tensor:
    """(batch, target, d_v), with a switch for each way to get it wrong."""
    if mask == "memory set to 0":
        memory = memory * source_real[..., None]
    stream = {"target": target, "memory": memory}
    weights = {
        "each its own": (W_Q, W_K, W_V),
        "Q and K": (W_K, W_Q, W_V),
        "K and V": (W_Q, W_V, W_K),
        "Q and V": (W_V, W_K, W_Q),
        "no W_V": (W_Q, W_K, torch.eye(len(W_V))),
    }[projections]
    query, key, value = (stream[name] @ weight for name, weight in zip((queries, keys, values), weights, strict=True))
    batch, n_keys, d_k = key.shape
    scores = query @ (key.mT if turned == "transposed" else key.reshape(batch, d_k, n_keys))
    scores = scores / {
        "√d_k": math.sqrt(query.shape[-1]), "nothing": 1.0, "d_k": query.shape[-1], "√d_model": math.sqrt(len(W_Q)),
    }[divide_by]  # fmt: skip
    n_target, n_source = scores.shape[-2:]
    real = source_real[:, None, :]
    triangle = torch.ones(n_target, n_source, dtype=torch.bool).tril()
    allowed = {
        "padding": lambda: real,
        "none": lambda: torch.ones_like(real),
        "causal": lambda: triangle,
        "causal too": lambda: real & triangle,
        "inverted": lambda: ~real,
        "on the queries": lambda: source_real[:, :, None],
        "beside each other": lambda: source_real,
        "after the softmax": lambda: torch.ones_like(real),
        "memory set to 0": lambda: torch.ones_like(real),
    }[mask]()
    shares = scores.masked_fill(~allowed, fill).softmax({"keys": -1, "queries": -2, "batch": 0}[softmax_over])
    if mask == "after the softmax":
        shares = shares * real
    return shares @ value


def _case(label: str, batch: int, n_target: int, n_source: int, d_model: int, d_k: int, lengths: list[int]) -> Case:
    real = torch.arange(n_source) < torch.tensor(lengths)[:, None]
    tensors = {
        "target": seeded(batch, n_target, d_model, seed=1),
        "memory": seeded(batch, n_source, d_model, seed=2),
        "W_Q": seeded(d_model, d_k, seed=3),
        "W_K": seeded(d_model, d_k, seed=4),
        "W_V": seeded(d_model, d_k, seed=5),
    }
    return Case(label, tensors | {"source_real": real})


CROSS_ATTENTION = FunctionExercise(
    name="cross_attention",
    title="Cross-attention, with the pads of the source masked.",
    reference=cross_attention_with_faults,
    cases=lambda: (
        _case("three target tokens, five source tokens, pads in one source", 2, 3, 5, 6, 4, [5, 3]),
        _case("target longer than source", 2, 6, 4, 8, 5, [4, 2]),
        _case("target = source = batch", 4, 4, 4, 6, 3, [4, 1, 3, 2]),
        _case("d_model = d_k", 2, 4, 4, 5, 5, [2, 4]),
        _case("one target token, as in decoding", 1, 1, 4, 6, 4, [3]),
    ),
    outputs=(Output("output", ("batch", "target", "feature")),),
    differentiable=("target", "memory", "W_Q", "W_K", "W_V"),
    spellings=({}, {"fill": -1e9}),
    mistakes=(
        Mistake(
            {"keys": "target"},
            "The keys come from the decoder",
            "A key says what a place of the *source* offers. `memory @ W_K`: keys and values describe the same tokens, "
            "one of each for every source token.",
        ),
        Mistake(
            {"values": "target"},
            "The values come from the decoder",
            "What is mixed must come from the source, or nothing of it reaches the decoder: `memory @ W_V`.",
        ),
        Mistake(
            {"keys": "target", "values": "target"},
            "This is self-attention: the source is never read",
            "Keys and values both come from `target`. The decoder asks; the encoder's output answers.",
        ),
        Mistake(
            {"queries": "memory"},
            "The queries come from the encoder",
            "The decoder asks, one query for each target token, and gets one output for each of them: `target @ W_Q`.",
        ),
        Mistake(
            {"queries": "memory", "keys": "target", "values": "target"},
            "The two sides have changed places",
            "Here the source reads the target. In a decoder the target asks (`target @ W_Q`) and the memory answers "
            "(`memory @ W_K`, `memory @ W_V`).",
        ),
        Mistake(
            {"mask": "causal"},
            "The target's causal mask lies on the source",
            "The source is given as a whole: every target token may read every real source token, also a later one. "
            "What is hidden are the pads of the source: `source_real`.",
        ),
        Mistake(
            {"mask": "causal too"},
            "A causal mask hides source words besides the pads",
            "The pads are right. But the triangle belongs to the decoder's *self*-attention; the source lies before "
            "the decoder as a whole. Drop the `tril`.",
        ),
        Mistake(
            {"mask": "none"},
            "The pads of the source are read",
            "They are keys like any other unless you mask them, so the answer depends on the batch. Fill the scores "
            "where `source_real` is False.",
        ),
        Mistake(
            {"mask": "inverted"},
            "The mask is inverted",
            "`source_real` is True on real tokens, and `masked_fill` writes where its mask is True: give it "
            "`~source_real[:, None, :]`.",
        ),
        Mistake(
            {"mask": "on the queries"},
            "The mask stands on the queries",
            "Scores are (batch, target, source). Pads are *source* places, the last axis: `source_real[:, None, :]`.",
        ),
        Mistake(
            {"mask": "beside each other"},
            "The mask's batch axis meets the target tokens",
            "(batch, source) against (batch, target, source): where batch = target it runs and gives every target "
            "token another sentence's mask. Insert the axis of the target: `source_real[:, None, :]`.",
        ),
        Mistake(
            {"mask": "after the softmax"},
            "The mask comes after the softmax",
            "The weights of the pads, or their values, are set to 0. But the pads have already taken their share, and "
            "the rest no longer sums to 1. Fill the *scores* with −∞.",
        ),
        Mistake(
            {"mask": "memory set to 0"},
            "The pads of the memory are set to 0 instead of masked",
            "A key of zeros gives the score 0, and e⁰ is 1: the pad still takes a share. Leave the memory as it is and "
            "fill the *scores* with −∞.",
        ),
        Mistake(
            {"fill": 0.0},
            "The scores of the pads are filled with 0",
            "0 is a score like any other, and so is `1e-9`: e⁰ is 1, and the pad takes a share. Fill with −∞, or with "
            "`-1e9`, minus in front.",
        ),
        Mistake(
            {"fill": 1e9},
            "The pads get the highest score of all",
            "The minus is missing: fill with −∞, or with `-1e9`.",
        ),
        Mistake(
            {"turned": "view"},
            "The keys are reshaped, not transposed",
            "`view` and `reshape` cut the same numbers into rows of another length, which tears the keys apart. Swap "
            "the axes: `key.transpose(-2, -1)`.",
        ),
        Mistake(
            {"projections": "Q and K"},
            "W_Q and W_K are exchanged",
            "`W_Q` turns decoder states into queries, `W_K` turns the memory into keys.",
        ),
        Mistake(
            {"projections": "K and V"},
            "W_K and W_V are exchanged",
            "Both read the memory, but `W_K` makes what is compared and `W_V` what is handed over.",
        ),
        Mistake(
            {"projections": "Q and V"},
            "W_Q and W_V are exchanged",
            "`W_Q` belongs to the target, `W_V` to the memory.",
        ),
        Mistake(
            {"projections": "no W_V"},
            "The memory is mixed without W_V",
            "The weights are applied to the memory itself. The values are `memory @ W_V`.",
        ),
        Mistake(
            {"divide_by": "nothing"},
            "The scores are not divided by √d_k",
            "d_k is the width of a query, `W_Q.shape[-1]`. Without the division the softmax is too sharp.",
        ),
        Mistake(
            {"divide_by": "d_k"},
            "The scores are divided by d_k, not by its root",
            "The spread of a dot product grows with √d_k, so divide by `d_k ** 0.5`.",
        ),
        Mistake(
            {"divide_by": "√d_model"},
            "The scores are divided by √d_model",
            "A score sums over the d_k components of a projected query: `W_Q.shape[-1]`, not `W_Q.shape[0]`.",
        ),
        Mistake(
            {"softmax_over": "queries"},
            "The softmax runs over the target",
            "Each *query* shares out 1 among the source tokens: the last axis, `softmax(-1)`.",
        ),
        Mistake(
            {"softmax_over": "batch"},
            "The softmax runs over the batch",
            "The sentences of a batch have nothing to do with each other. The keys are the last axis, `softmax(-1)`.",
        ),
    ),
)
