"""Lesson 02: attention in three lines, and one row of values mixed by hand."""

import math

import torch
from torch import Tensor

from transformer_lab.practice.checking import Case, FunctionExercise, Mistake, Output, seeded
from transformer_lab.practice.values import KnownValue, ValueExercise


def attention_with_faults(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor,
    *,
    softmax_over: str = "keys",
    divide_by: str = "√d_head",
    transpose: str = "last two axes",
    masking: str = "before softmax",
    returned: str = "output",
    fill: float = -math.inf,
) -> Tensor:
    """softmax(Q Kᵀ / √d_head) V over the keys that ``mask`` allows, with a switch for each way to get it wrong.

    At its defaults it is the right answer. Tensors are ``(batch, heads, position, d_head)``; ``mask`` is boolean,
    True = may attend, and leaves every query at least one key. ``fill`` is what forbidden scores become.
    """
    heads, length, d_head = query.shape[1:]
    turned = {
        "last two axes": lambda: key.mT,
        "none": lambda: key,
        "all axes": lambda: key.permute(3, 2, 1, 0),
        "heads and positions": lambda: key.transpose(1, 2),
    }[transpose]()
    divisor = {
        "√d_head": math.sqrt(d_head),
        "nothing": 1.0,
        "d_head": d_head,
        "√d_model": math.sqrt(heads * d_head),
        "1 / √d_head": 1 / math.sqrt(d_head),
        "√length": math.sqrt(length),
    }[divide_by]
    axis = {"keys": -1, "queries": -2, "heads": 1}[softmax_over]

    scores = query @ turned / divisor
    if masking == "before softmax":
        scores = scores.masked_fill(~mask, fill)
    elif masking == "inverted":
        scores = scores.masked_fill(mask, fill)
    elif masking == "added":
        scores = scores + mask
    elif masking == "zeros before softmax":
        scores = scores.masked_fill(~mask, 0.0)
    weights = scores.softmax(axis)
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


ATTENTION = FunctionExercise(
    name="attention",
    title="Attention in three lines.",
    reference=attention_with_faults,
    cases=_attention_cases,
    outputs=(Output("output", ("batch", "heads", "query", "d_head")),),
    differentiable=("query", "key", "value"),
    spellings=({}, {"fill": -1e9}),
    mistakes=(
        Mistake(
            {"softmax_over": "queries"},
            "The softmax runs over the queries",
            "Each query shares out one unit of attention among the *keys*, so every row of weights sums to 1. Scores "
            "are (batch, heads, query, key): the keys are the last axis, `softmax(-1)`.",
        ),
        Mistake(
            {"softmax_over": "heads"},
            "The softmax runs over the heads",
            "`softmax(1)` makes the heads compete with each other. Scores are (batch, heads, query, key): the keys are "
            "the last axis. Counting from the end, `softmax(-1)`, stays right whatever stands in front.",
        ),
        Mistake(
            {"divide_by": "nothing"},
            "The scores are not scaled",
            "The variance of q·k grows with d_head, so wide heads saturate the softmax. Divide the scores by √d_head "
            "before the softmax.",
        ),
        Mistake(
            {"divide_by": "d_head"},
            "The scores are divided by d_head, without the root",
            "q·k has *variance* d_head, so its typical size is √d_head. Dividing by d_head flattens the weights "
            "towards a plain average. Take the square root.",
        ),
        Mistake(
            {"divide_by": "√d_model"},
            "The scores are divided by √d_model",
            "Each score sums over the components of *one head*, d_head of them. d_model = heads · d_head counts all "
            "the heads together. Use `query.shape[-1]`.",
        ),
        Mistake(
            {"divide_by": "1 / √d_head"},
            "The scores are multiplied by √d_head",
            "The factor brings large scores back to a size of about 1. Multiplying makes them larger still: divide.",
        ),
        Mistake(
            {"divide_by": "√length"},
            "The scores are divided by the root of the number of queries",
            "`shape[-2]` is the number of positions; a score sums over the components of a head. Use `shape[-1]`.",
        ),
        Mistake(
            {"transpose": "none"},
            "K is not transposed",
            "`query @ key` multiplies components with positions. It runs only where length happens to equal d_head, "
            "and is wrong there too. Every query must meet every key: `query @ key.transpose(-2, -1)`.",
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
    ),
)


# "The bank approved it": what the query "it" takes from each of the four tokens. The values are not the lesson's.
HAND_WEIGHTS = (0.10, 0.60, 0.20, 0.10)
HAND_VALUES = ((2.0, 0.0, 1.0, 0.0), (1.0, 3.0, 0.0, 2.0), (0.0, 1.0, 4.0, 0.0), (0.0, 0.0, 2.0, 5.0))


def _mixed_row() -> ValueExercise:
    weights, values = torch.tensor(HAND_WEIGHTS), torch.tensor(HAND_VALUES)
    answer = weights @ values
    shares = weights[:, None] * values
    winner = int(weights.argmax())
    return ValueExercise(
        name="mixed_row",
        title="One row, mixed by hand.",
        answer=answer,
        verified="all four coordinates, each to within 0.005",
        output=Output("mixed row", ("d_value",)),
        known=(
            KnownValue(
                values[winner],
                "This is the winner's value vector",
                "The largest weight is 0.60, not 1. The other three tokens put in the remaining 0.40: add their "
                "shares.",
            ),
            KnownValue(
                shares[winner],
                "This is only the winner's share",
                "0.60 times the second vector is one of four shares. Add the other three.",
            ),
            KnownValue(
                values.mean(0),
                "This is the plain mean",
                "A mean gives every token 0.25. Here each token has its own weight: multiply first, then add.",
            ),
            KnownValue(
                values.sum(0),
                "This is the sum without the weights",
                "Multiply every vector by its token's weight before adding.",
            ),
            KnownValue(
                answer / len(weights),
                "The weighted sum is divided once more",
                "The weights already sum to 1, so the weighted sum is the average. Leave out the division by 4.",
            ),
            KnownValue(
                values @ weights,
                "The weights are applied to the coordinates",
                "There is one weight per *token*, and a token is a row of the table. Multiply each row by its weight, "
                "then add down the columns.",
            ),
            KnownValue(
                weights.flip(0) @ values,
                "The weights are in reverse order",
                "The first weight belongs to the first token, `The`; the 0.60 belongs to `bank`.",
            ),
            KnownValue(
                shares,
                "The shares are not added yet",
                "You have the four weighted vectors. Add them, coordinate by coordinate, into one vector.",
            ),
            KnownValue(
                answer.sum(),
                "The coordinates are added together",
                "The output is a vector as long as a value vector: keep the four coordinates apart.",
            ),
        ),
    )


MIXED_ROW = _mixed_row()
