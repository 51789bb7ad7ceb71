"""Lesson 02: attention in three lines, then with a mask for a batch and its heads."""

import math

import torch
from torch import Tensor

from transformer_lab.practice.checking import Case, FunctionExercise, Mistake, Output, seeded


def attention_with_faults(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    softmax_over: str = "keys",
    divide_by: str = "√d_head",
    transpose: str = "last two axes",
    masking: str = "before softmax",
    returned: str = "output",
    fill: float = -math.inf,
) -> Tensor:
    """softmax(Q Kᵀ / √d_head) V over the keys that ``mask`` allows, with a switch for each way to get it wrong.

    At its defaults it is the right answer. Tensors are ``(position, d_head)``, or ``(batch, heads, position,
    d_head)``; ``mask`` is boolean, True = may attend, and leaves every query at least one key. ``fill`` is what
    forbidden scores become.
    """
    length, d_head = query.shape[-2:]
    scores = {
        "last two axes": lambda: query @ key.mT,
        "none": lambda: query @ key,
        "all axes": lambda: query @ key.permute(3, 2, 1, 0),
        "heads and positions": lambda: query @ key.transpose(1, 2),
        "the query": lambda: key @ query.mT,
    }[transpose]()
    scores = scores / {
        "√d_head": lambda: math.sqrt(d_head),
        "nothing": lambda: 1.0,
        "d_head": lambda: d_head,
        "√d_model": lambda: math.sqrt(query.shape[-3] * d_head),
        "1 / √d_head": lambda: 1 / math.sqrt(d_head),
        "√length": lambda: math.sqrt(length),
        "√batch": lambda: math.sqrt(len(query)),
        "√d_head, too late": lambda: 1.0,
    }[divide_by]()
    if masking == "before softmax" and mask is not None:
        scores = scores.masked_fill(~mask, fill)
    elif masking == "inverted":
        scores = scores.masked_fill(mask, fill)
    elif masking == "added":
        scores = scores + mask
    elif masking == "zeros before softmax":
        scores = scores.masked_fill(~mask, 0.0)
    axis = {"keys": -1, "queries": -2, "heads": -3, "batch": -4, "nothing": None}[softmax_over]
    weights = scores if axis is None else scores.softmax(axis)
    if divide_by == "√d_head, too late":
        weights = weights / math.sqrt(d_head)
    if masking == "after softmax":
        weights = weights.masked_fill(~mask, 0.0)
    elif masking == "infinity after softmax":
        weights = weights.masked_fill(~mask, fill)
    return {"output": lambda: weights @ value, "weights": lambda: weights, "scores": lambda: scores}[returned]()


def _mixed_mask(*shape: int) -> Tensor:
    """True about two times in three, and on the diagonal, so that every query keeps a key."""
    allowed = seeded(*shape, seed=7) > -0.4
    return allowed | torch.eye(shape[-2], shape[-1], dtype=torch.bool)


def _case(label: str, batch: int, heads: int, query: int, key: int, d_head: int, mask: Tensor) -> Case:
    tensors = {
        "query": 1.5 * seeded(batch, heads, query, d_head, seed=1),
        "key": seeded(batch, heads, key, d_head, seed=2),
        "value": seeded(batch, heads, key, d_head, seed=3),
    }
    return Case(label, tensors | {"mask": mask})


def _attention_cases() -> tuple[Case, ...]:
    causal = torch.ones(5, 5, dtype=torch.bool).tril()
    padding = (torch.arange(4) < torch.tensor([4, 2, 3, 1])[:, None])[:, None, None, :]  # (batch, 1, 1, key)
    return (
        _case("a causal mask", 2, 3, 5, 5, 4, causal),
        _case("one sentence with one head", 1, 1, 7, 7, 3, _mixed_mask(7, 7)),
        _case("batch = length with padding", 4, 2, 4, 4, 6, padding),
        # with as many queries as keys too, √d_head and √length would be one number wherever a wrong transpose runs
        _case("keys = d_head", 2, 2, 4, 6, 6, _mixed_mask(2, 1, 4, 6)),
        _case("batch = heads = keys = d_head", 3, 3, 2, 3, 3, _mixed_mask(3, 3, 2, 3)),
        _case("fewer queries than keys", 2, 2, 3, 8, 5, _mixed_mask(3, 8)),
    )


# What can go wrong with or without a mask, a batch and heads.
_STEPS = (
    Mistake(
        {"softmax_over": "queries"},
        "The softmax runs over the queries",
        "Each query shares out one unit of attention among the *keys*, so every row of weights sums to 1. The keys are "
        "the last axis of the scores: `softmax(-1)`.",
    ),
    Mistake(
        {"softmax_over": "nothing"},
        "The softmax is missing",
        "Scores are no shares yet: they can be negative and sum to anything. `softmax(-1)` makes weights of them.",
    ),
    Mistake(
        {"divide_by": "nothing"},
        "The scores are not scaled",
        "The variance of q·k grows with d_k, so wide heads saturate the softmax. Divide the scores by √d_k before the "
        "softmax.",
    ),
    Mistake(
        {"divide_by": "d_head"},
        "The scores are divided by d_k, without the root",
        "q·k has *variance* d_k, so its typical size is √d_k. Dividing by d_k flattens the weights towards a plain "
        "average. Take the square root.",
    ),
    Mistake(
        {"divide_by": "1 / √d_head"},
        "The scores are multiplied by √d_k",
        "The factor brings large scores back to a size of about 1. Multiplying makes them larger still: divide.",
    ),
    Mistake(
        {"divide_by": "√length"},
        "The scores are divided by the root of the number of queries",
        "That is how many positions there are; a score sums over the components of a query. Use `query.shape[-1]`.",
    ),
    Mistake(
        {"divide_by": "√d_head, too late"},
        "The division comes after the softmax",
        "There it makes all weights smaller, and a row no longer sums to 1. Divide the *scores*, one line up.",
    ),
    Mistake(
        {"transpose": "none"},
        "K is not transposed",
        "`query @ key` multiplies components with positions. It runs only where the number of positions happens to "
        "equal d_k, and is wrong there too. Every query must meet every key: `query @ key.mT`.",
    ),
    Mistake(
        {"transpose": "the query"},
        "Query and key have changed places",
        "`key @ query.mT` has a row for each *key*. The rows belong to the queries: `query @ key.mT`.",
    ),
    Mistake(
        {"returned": "weights"},
        "You return the weights",
        "One step is missing: the weights say how much of each value to take. Mix the values: `weights @ value`.",
    ),
    Mistake(
        {"returned": "scores"},
        "You return the scores",
        "Two steps are missing: the softmax turns scores into weights, and the weights mix the values.",
    ),
)


def _plain_case(label: str, n_queries: int, n_keys: int, d_k: int, d_v: int) -> Case:
    tensors = {
        "query": 1.5 * seeded(n_queries, d_k, seed=1),
        "key": seeded(n_keys, d_k, seed=2),
        "value": seeded(n_keys, d_v, seed=3),
    }
    return Case(label, tensors)


ATTENTION_STEPS = FunctionExercise(
    name="attention_steps",
    title="Attention in three lines.",
    reference=attention_with_faults,
    cases=lambda: (
        _plain_case("six tokens", 6, 6, 3, 5),
        _plain_case("as many tokens as components", 4, 4, 4, 4),
        _plain_case("more keys than queries", 3, 7, 5, 2),
        _plain_case("as many keys as components", 2, 6, 6, 4),
    ),
    outputs=(Output("output", ("query", "d_v")),),
    differentiable=("query", "key", "value"),
    mistakes=_STEPS,
)


ATTENTION = FunctionExercise(
    name="attention",
    title="Attention with a mask, for a batch and its heads.",
    reference=attention_with_faults,
    cases=_attention_cases,
    outputs=(Output("output", ("batch", "heads", "query", "d_head")),),
    differentiable=("query", "key", "value"),
    spellings=({}, {"fill": -1e9}),
    mistakes=(
        *_STEPS,
        Mistake(
            {"softmax_over": "batch"},
            "The softmax runs over the batch",
            "`softmax(0)` makes the sentences of a batch compete with each other. The keys are the last axis; counted "
            "from the end, `softmax(-1)`, it is right whatever stands in front.",
        ),
        Mistake(
            {"divide_by": "√batch"},
            "The scores are divided by the root of the batch size",
            "`len(query)` is the first axis, the batch. A score sums over the components of a query: "
            "`query.shape[-1]`.",
        ),
        Mistake(
            {"softmax_over": "heads"},
            "The softmax runs over the heads",
            "`softmax(1)` makes the heads compete with each other. Scores are (batch, heads, query, key): the keys are "
            "the last axis. Counting from the end, `softmax(-1)`, stays right whatever stands in front.",
        ),
        Mistake(
            {"divide_by": "√d_model"},
            "The scores are divided by √d_model",
            "Each score sums over the components of *one head*, d_head of them. d_model = heads · d_head counts all "
            "the heads together. Use `query.shape[-1]`.",
        ),
        Mistake(
            {"transpose": "all axes"},
            "`key.T` reverses all four axes",
            "Only positions and components change places; batch and heads stay where they are: `key.mT`, or "
            "`key.transpose(-2, -1)`.",
        ),
        Mistake(
            {"transpose": "heads and positions"},
            "The heads are swapped with the positions",
            "`key.transpose(1, 2)` exchanges heads and positions. The score needs positions and components exchanged: "
            "`key.transpose(-2, -1)`.",
        ),
        Mistake(
            {"masking": "ignored"},
            "The mask is never used",
            "Forbidden keys still receive weight. Beware: `masked_fill` returns a new tensor and leaves the old one as "
            "it was, so keep its result.",
        ),
        Mistake(
            {"masking": "after softmax"},
            "The mask is applied after the softmax",
            "The forbidden keys have already taken their share, so the rows no longer sum to 1. Set forbidden *scores* "
            "to −∞ first; the softmax then shares out everything among the allowed keys.",
        ),
        Mistake(
            {"masking": "infinity after softmax"},
            "The mask fills −∞ after the softmax",
            "−∞ belongs among the *scores*, where the softmax turns it into a weight of 0. As a weight it makes the "
            "output infinite or NaN. Move the mask one line up.",
        ),
        Mistake(
            {"masking": "inverted"},
            "The mask is inverted",
            "True means *may attend*. `masked_fill` writes where its mask is True, so give it the opposite: `~mask`.",
        ),
        Mistake(
            {"masking": "added"},
            "The mask is added as zeros and ones",
            "Adding a boolean mask raises the allowed scores by 1 and forbids nothing. A forbidden score must become "
            "−∞: `scores.masked_fill(~mask, -torch.inf)`.",
        ),
        Mistake(
            {"masking": "zeros before softmax"},
            "Forbidden scores are set to 0",
            "A score of 0 still counts: e⁰ = 1 enters the sum of the softmax. Only −∞ gives a weight of 0.",
        ),
    ),
)
