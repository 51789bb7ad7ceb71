"""Lesson 02: attention in three lines, and what goes wrong in them with or without a mask, a batch and heads."""

import math

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
    exchanged: bool = False,
) -> Tensor:
    """softmax(Q Kᵀ / √d_head) V over the keys that ``mask`` allows, with a switch for each way to get it wrong.

    At its defaults it is the right answer. Tensors are ``(position, d_head)``, or ``(batch, heads, position,
    d_head)``; ``mask`` is boolean, True = may attend, and leaves every query at least one key. ``fill`` is what
    forbidden scores become.
    """
    if exchanged:
        key, value = value, key
    length, d_head = query.shape[-2:]
    scores = {
        "last two axes": lambda: query @ key.mT,
        "none": lambda: query @ key,
        "all axes": lambda: query @ key.permute(3, 2, 1, 0),
        "heads and positions": lambda: query @ key.transpose(1, 2),
        "the query": lambda: key @ query.mT,
        "a view": lambda: query @ key.reshape(*key.shape[:-2], key.shape[-1], key.shape[-2]),
    }[transpose]()
    scores = scores / {
        "√d_head": lambda: math.sqrt(d_head),
        "nothing": lambda: 1.0,
        "d_head": lambda: d_head,
        "√d_model": lambda: math.sqrt(query.shape[-3] * d_head),
        "1 / √d_head": lambda: 1 / math.sqrt(d_head),
        "√length": lambda: math.sqrt(length),
        "√keys": lambda: math.sqrt(key.shape[-2]),
        "d_head / 2": lambda: d_head / 2,
        "2 · d_head": lambda: 2 * d_head,
        "√batch": lambda: math.sqrt(len(query)),
        "√d_head, too late": lambda: 1.0,
    }[divide_by]()
    if masking == "before softmax" and mask is not None:
        scores = scores.masked_fill(~mask, fill)
    elif masking == "inverted":
        scores = scores.masked_fill(mask, fill)
    elif masking == "infinity times the mask":
        scores = scores + ~mask * -math.inf
    elif masking == "added":
        scores = scores + mask
    elif masking == "zeros before softmax":
        scores = scores.masked_fill(~mask, 0.0)
    axis = {"keys": -1, "keys, twice": -1, "queries": -2, "heads": -3, "batch": -4, "nothing": None}[softmax_over]
    weights = scores if axis is None else scores.softmax(axis)
    weights = weights.softmax(axis) if softmax_over == "keys, twice" else weights
    if divide_by == "√d_head, too late":
        weights = weights / math.sqrt(d_head)
    if masking == "after softmax":
        weights = weights.masked_fill(~mask, 0.0)
    elif masking == "infinity after softmax":
        weights = weights.masked_fill(~mask, fill)
    return {"output": lambda: weights @ value, "weights": lambda: weights, "scores": lambda: scores}[returned]()


STEPS = (
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
        {"divide_by": "√keys"},
        "The scores are divided by the root of the number of keys",
        "That is how many positions there are; a score sums over the components of a key. Use `key.shape[-1]`.",
    ),
    Mistake(
        {"divide_by": "d_head / 2"},
        "The scores are divided by d_k / 2",
        "`d_k ** 1/2` is (d_k ** 1) / 2, because powers come before divisions. Write `d_k ** 0.5` or `math.sqrt(d_k)`.",
    ),
    Mistake(
        {"divide_by": "2 · d_head"},
        "The scores are divided by 2 · d_k",
        "`scores / d_k ** 1/2` divides by d_k and then by 2, because powers come before divisions. Write "
        "`d_k ** 0.5` or `math.sqrt(d_k)`.",
    ),
    Mistake(
        {"softmax_over": "keys, twice"},
        "The softmax is applied twice",
        "Weights lie between 0 and 1, so a second softmax makes them all nearly equal. Apply it once, to the scores.",
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
        {"transpose": "a view"},
        "K is reshaped, not transposed",
        "`view` and `reshape` keep the numbers in their order and only cut them anew, so the result mixes the keys. "
        "Exchange the axes: `key.mT`.",
    ),
    Mistake(
        {"exchanged": True},
        "Key and value have changed places",
        "The *keys* are compared with the query, the *values* are mixed: `query @ key.mT`, then `weights @ value`.",
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
    mistakes=STEPS,
)
