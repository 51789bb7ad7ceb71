"""Lesson 06: LayerNorm."""

from torch import Tensor

from transformer_lab.practice.checking import Case, FunctionExercise, Mistake, Output, seeded

_EVERYTHING = (0, 1, 2)
_AXES = {  # of the mean, and of the variance
    "features": ((-1,), (-1,)),
    "positions": ((1,), (1,)),
    "batch": ((0,), (0,)),
    "positions and features": ((1, 2), (1, 2)),
    "everything": (_EVERYTHING, _EVERYTHING),
    "features, then everything": ((-1,), _EVERYTHING),
}


def layer_norm_with_faults(
    x: Tensor,
    scale: Tensor,
    shift: Tensor,
    eps: float,
    *,
    over: str = "features",
    divisor: str = "n",
    eps_stands: str = "inside",
    centred: str = "yes",
    divided_by: str = "root",
    scaled: str = "after",
    shifted: bool = True,
) -> Tensor:
    """(x − mean) / √(variance + eps) · scale + shift over the last axis, with a switch for each way to get it wrong."""
    if scaled == "before":
        x = x * scale
    mean_axes, axes = _AXES[over]
    mean = x.mean(mean_axes, keepdim=True)
    squares = (x - mean).square() if centred in ("yes", "below only") else x.square()
    total = squares.sum(axes, keepdim=True)
    n = squares.numel() // total.numel()
    spread = total / {"n": n, "n - 1": n - 1, "1": 1}[divisor]
    inside = {"inside": eps, "outside": 0.0, "nowhere": 0.0, "squared": eps * eps}[eps_stands]
    root = (spread + inside).sqrt() if divided_by == "root" else spread + inside
    if eps_stands == "outside":
        root = root + eps
    normed = (x - mean if centred in ("yes", "above only") else x) / root
    if scaled == "last":
        return (normed + shift if shifted else normed) * scale
    if scaled == "with the shift":
        return normed * (scale + shift)
    normed = normed * scale if scaled == "after" else normed
    return normed + shift if shifted else normed


def _norm_case(label: str, batch: int, length: int, width: int, eps: float, constant: bool = False) -> Case:
    x = 2 * seeded(batch, length, width, seed=width) + 1
    if constant:
        x[0, 0] = 1.5  # a token whose components are all equal: its variance is exactly 0
    inputs = {"x": x, "scale": seeded(width, seed=7) + 1, "shift": seeded(width, seed=8), "eps": eps}
    return Case(label, inputs)


LAYER_NORM = FunctionExercise(
    name="layer_norm",
    title="Bring every token to mean 0 and variance 1, then scale and shift.",
    reference=layer_norm_with_faults,
    cases=lambda: (
        _norm_case("a batch of two", 2, 3, 4, 1e-5),
        _norm_case("a large eps", 2, 5, 3, 0.5),
        _norm_case("batch = length = width", 4, 4, 4, 1e-5),
        _norm_case("a batch of three pairs", 3, 2, 6, 1e-5),
        _norm_case("a token of equal components", 2, 2, 8, 0.01, constant=True),
    ),
    outputs=(Output("output", ("batch", "position", "feature")),),
    differentiable=("x", "scale", "shift"),
    mistakes=(
        Mistake(
            {"over": "positions"},
            "The statistics run over the sequence",
            "Dim 1 counts the tokens, so every token's result depends on the others, and on the pads. Each token has a "
            "mean and a variance of its own: dim -1, with `keepdim=True`.",
        ),
        Mistake(
            {"over": "everything"},
            "One mean and one variance for the whole tensor",
            "`x.mean()` without a dim mixes all tokens of all sentences. Each token has its own: dim -1, with "
            "`keepdim=True`.",
        ),
        Mistake(
            {"over": "positions and features"},
            "One mean and one variance for a whole sentence",
            "The tokens of a sentence share your statistics, so one moves all of them. Average over dim -1 alone.",
        ),
        Mistake(
            {"over": "batch"},
            "The statistics run over the batch",
            "That is BatchNorm's way: a token's result then depends on which sentences stand beside it. Average over "
            "dim -1.",
        ),
        Mistake(
            {"divisor": "n - 1"},
            "The variance divides by n − 1",
            "That is the default of `x.var` and `x.std`, meant for samples. LayerNorm divides by n: "
            "`x.var(-1, keepdim=True, unbiased=False)`.",
        ),
        Mistake(
            {"divisor": "1"},
            "The squares are added up, not averaged",
            "The variance is the *mean* of the squared distances: `mean(-1, keepdim=True)` in place of `sum`.",
        ),
        Mistake(
            {"over": "features, then everything"},
            "One variance for the whole tensor",
            "Your mean is each token's own, your variance is shared by all tokens. It too needs dim -1, with "
            "`keepdim=True`.",
        ),
        Mistake(
            {"over": "everything", "divisor": "n - 1", "eps_stands": "nowhere"},
            "One mean and one deviation for the whole tensor, by n − 1 and without eps",
            "`x.mean()` and `x.std()` mix all tokens of all sentences, and `std` divides by n − 1. Each token has "
            "its own mean and variance: dim -1, `keepdim=True`, `unbiased=False`, and eps under the root.",
        ),
        Mistake(
            {"eps_stands": "outside"},
            "eps stands outside the root",
            "√variance + eps is not √(variance + eps). Add eps to the variance, then take the root.",
        ),
        Mistake(
            {"eps_stands": "nowhere"},
            "eps is not used",
            "A token of equal components has variance 0, and 0 / 0 is NaN. Add eps to the variance, under the root.",
        ),
        Mistake(
            {"eps_stands": "squared"},
            "eps is squared",
            "Under the root stands eps itself, added to the variance.",
        ),
        Mistake(
            {"centred": "never"},
            "The mean is not taken off: this is RMSNorm",
            "You divide by the root of the mean *square*. LayerNorm first takes the mean off, in the numerator and in "
            "the variance.",
        ),
        Mistake(
            {"centred": "below only"},
            "The mean is missing in the numerator",
            "Your variance is right. What it divides is x − mean, not x.",
        ),
        Mistake(
            {"centred": "above only"},
            "The mean is missing in the variance",
            "You divide by the root of the mean of x². The variance is the mean of (x − mean)².",
        ),
        Mistake(
            {"divided_by": "variance"},
            "You divide by the variance, not by its root",
            "The variance is measured in squares. Its root has the unit of x.",
        ),
        Mistake(
            {"scaled": "before"},
            "The scale comes before the norm",
            "The norm then undoes a part of it. First the norm, then `* scale + shift`.",
        ),
        Mistake(
            {"scaled": "last"},
            "The shift is scaled too",
            "You add shift and then multiply by scale. First `* scale`, then `+ shift`.",
        ),
        Mistake(
            {"scaled": "with the shift", "shifted": False},
            "You multiply by scale + shift",
            "Scale multiplies, shift is added afterwards: `* scale + shift`, without brackets around the two.",
        ),
        Mistake({"scaled": "never"}, "scale is not used", "After the division: `* scale`, one number a component."),
        Mistake({"shifted": False}, "shift is not used", "Last of all: `+ shift`, one number a component."),
    ),
)
