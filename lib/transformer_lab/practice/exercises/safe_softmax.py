"""Lesson 05: a softmax that survives an empty row, and numbers of any size."""

import math

import torch
from torch import Tensor

from transformer_lab.practice.checking import Case, FunctionExercise, Mistake, Output, seeded
from transformer_lab.practice.exercises.attention import WEAK_FILL


def safe_softmax_with_faults(
    scores: Tensor,
    mask: Tensor,
    *,
    empty: str = "zeros",
    masking: str = "before softmax",
    inverted: bool = False,
    axis: int = -1,
    fill: float = -math.inf,
    powers: str = "shifted",
    keepdim: bool = True,
    emptied: str = "rows without a key",
    rows_found_in: str = "what is used",
    crossed_out: bool = False,
    division: str = "rows apart",
) -> Tensor:
    """Softmax over the last axis of (query, key) scores where ``mask`` is True; a row without any True gives zeros."""
    given, mask = mask, ~mask if inverted else mask
    seen = given if rows_found_in == "what is given" else mask
    finds = seen.all if emptied == "rows with a hidden key" else seen.any
    nothing = ~finds(axis, keepdim=keepdim)
    if masking == "after softmax":
        return scores.softmax(axis).masked_fill(~mask, 0.0)
    if masking == "ignored":
        return scores.softmax(axis)
    if masking == "infinity times the mask":
        weights = (scores + ~mask * -math.inf).softmax(axis)
        weights = weights.masked_fill(nothing, 0.0) if rows_found_in == "what is given" else weights
        weights = weights.masked_fill(~mask, 0.0) if crossed_out else weights
        return weights.nan_to_num(0.0) if division == "NaN to zero" else weights
    if masking == "renormalised":
        weights = _shares(scores.softmax(axis).masked_fill(~mask, 0.0), axis, division)
    elif powers == "as they are":
        weights = _shares(scores.exp().masked_fill(~mask, 0.0), axis, division)
    else:
        has_key = mask.any(axis, keepdim=True)
        filled = scores.masked_fill(~mask, 0.0 if masking == "zeros" else fill)
        weights = (filled.masked_fill(~has_key, 0.0) if empty == "uniform" else filled).softmax(axis)
        weights = weights.masked_fill(~mask & has_key, 0.0) if crossed_out else weights
    return {
        "zeros": lambda: weights.masked_fill(nothing, 0.0),
        "uniform": lambda: weights,
        "NaN": lambda: weights.masked_fill(nothing, math.nan),
        "all NaN": lambda: weights * (math.nan if nothing.any() else 1.0),
    }[empty]()


def _shares(parts: Tensor, axis: int, division: str) -> Tensor:
    """Parts over their sum, in the ways that learners keep 0 / 0 away, or do not."""
    total = parts.sum(axis, keepdim=True)
    if division.startswith("by"):
        return parts / (total.clamp(min=1e-12) if division == "by at least a little" else total + 1e-9)
    return (parts / total).nan_to_num(0.0) if division == "NaN to zero" else parts / total


def _case(label: str, mask: list[list[int]], scores: Tensor | list[list[float]]) -> Case:
    return Case(label, {"scores": torch.as_tensor(scores), "mask": torch.tensor(mask, dtype=torch.bool)})


SAFE_SOFTMAX = FunctionExercise(
    name="safe_softmax",
    title="A softmax that survives an empty row.",
    reference=safe_softmax_with_faults,
    cases=lambda: (
        _case("a row with nothing to attend to", [[1, 1, 0, 0], [0, 0, 0, 0], [1, 1, 1, 0]], seeded(3, 4)),
        _case("as many queries as keys", [[1, 0, 1], [0, 1, 1], [1, 1, 0]], seeded(3, 3, seed=1)),
        _case("as many queries as keys, one of them empty", [[1, 0, 1], [0, 0, 0], [1, 1, 0]], seeded(3, 3, seed=5)),
        _case("scores up to a thousand", [[1, 0, 1, 1, 0]], [[998.0, 3.0, 1000.0, 999.0, 2.0]]),
        _case("a hidden score far above the rest", [[1, 0, 1]], [[-16.5, 88.0, -17.0]]),
        _case("scores near −20,000", [[1, 1, 0, 0]], [[-20_000.0, -20_001.0, 0.0, 0.0]]),
        _case("nothing but empty rows", [[0, 0], [0, 0]], seeded(2, 2, seed=3)),
        _case("nothing forbidden", [[1, 1, 1]], seeded(1, 3, seed=4)),
    ),
    outputs=(Output("weights", ("query", "key")),),
    differentiable=("scores",),
    spellings=(
        {},
        {"rows_found_in": "what is given"},
        {"fill": -1e9},
        {"crossed_out": True},
        {"division": "by at least a little"},
        {"division": "by a little more"},
        {"division": "NaN to zero"},
    ),
    mistakes=(
        Mistake(
            {"empty": "NaN"},
            "An empty row gives NaN",
            "A row without a key is 0 / 0. Find those rows with `mask.any(-1, keepdim=True)` and fill them with zeros.",
        ),
        Mistake(
            {"empty": "uniform"},
            "An empty row gives a uniform average",
            "Where every score is filled with the same number, the softmax shares evenly among keys that are all "
            "*forbidden*. Set those rows to zero after the softmax.",
        ),
        Mistake(
            {"empty": "all NaN"},
            "One empty row spoils all the others",
            "The NaN has spread: 0 · NaN is NaN, so multiplying by a mask cannot remove it. Use `masked_fill` or "
            "`torch.where`, row by row.",
        ),
        Mistake(
            {"masking": "after softmax"},
            "The mask is applied after the softmax",
            "Forbidden keys have already taken their share, and the rows that should sum to 1 sum to less. Forbid "
            "the *scores* first.",
        ),
        Mistake(
            {"masking": "renormalised"},
            "The forbidden keys set the scale",
            "Masking late and dividing by what is left is right on paper. But beside a large forbidden score the "
            "allowed powers underflow to 0, and nothing is left to divide. Forbid the *scores* first.",
        ),
        Mistake(
            {"masking": "zeros"},
            "Forbidden scores are set to 0",
            "e⁰ = 1 still counts in the softmax. A forbidden score becomes −∞, so that its share is 0.",
        ),
        Mistake(
            {"masking": "ignored"},
            "The mask is never used",
            "Forbidden keys still get weight. `masked_fill` returns a new tensor: keep its result.",
        ),
        Mistake(
            {"masking": "infinity times the mask"},
            "0 · ∞ is NaN: fill, do not multiply",
            "`~mask * -torch.inf` makes NaN of the scores that stay allowed, because there it multiplies ∞ by 0. "
            "`scores.masked_fill(~mask, -torch.inf)` touches the forbidden ones alone.",
        ),
        Mistake(
            {"fill": -1e4},
            WEAK_FILL,
            "A forbidden key wins where all allowed scores lie below your fill: here they are near −20,000. −∞ lies "
            "below every score.",
        ),
        Mistake(
            {"powers": "as they are"},
            "The exponential overflows",
            "e^1000 is ∞ in floating point, and ∞ / ∞ is NaN. Subtract the largest allowed score of the row first, as "
            "`softmax` does for you.",
        ),
        Mistake(
            {"keepdim": False},
            "The rows are found without `keepdim`",
            "`mask.any(-1)` has shape (query,). Against (query, key) it is read as one number a *key*: an error where "
            "the two sizes differ, columns instead of rows where they are equal. Write `mask.any(-1, keepdim=True)`.",
        ),
        Mistake(
            {"emptied": "rows with a hidden key"},
            "Rows with one hidden key are emptied",
            "`mask.all` asks whether *everything* may be seen. A row is empty when nothing may be: ask `mask.any`.",
        ),
        Mistake(
            {"inverted": True},
            "The mask is inverted",
            "True means *may attend*. Fill where the mask is False: `masked_fill(~mask, …)`.",
        ),
        Mistake(
            {"axis": -2},
            "The softmax runs over the queries",
            "Each query shares out one unit among its keys. Keys are the last axis: `softmax(-1)`.",
        ),
    ),
)
