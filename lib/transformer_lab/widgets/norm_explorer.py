"""Widget: type numbers, and watch both norms work on them step by step."""

from transformer_lab.draw.norm_steps import NormStepsPicture, short
from transformer_lab.experiments.norms import NormSteps, is_constant, norm_steps, read_numbers
from transformer_lab.widgets import controls
from transformer_lab.widgets.explorer import Explorer

EPSILONS = (("0", 0.0), ("0.00001", 1e-5), ("0.01", 0.01), ("1", 1.0))


def norm_explorer(numbers: str = "3 4", eps: float = 1e-5, scale: float = 1.0, shift: float = 0.0) -> Explorer:
    """LayerNorm and RMSNorm of the typed numbers, which stand for one token; ε, scale and shift as controls."""
    return Explorer(
        controls={
            "numbers": controls.text("Numbers", numbers),
            "eps": controls.choice("ε", EPSILONS, eps, buttons=True),
            "scale": controls.slider("scale", -2.0, 2.0, scale, 0.25),
            "shift": controls.slider("shift", -2.0, 2.0, shift, 0.25),
        },
        compute=lambda numbers, eps, scale, shift: norm_steps(read_numbers(numbers), eps, scale, shift),
        picture=NormStepsPicture,
        describe=describe,
        reset=True,
    )


def describe(steps: NormSteps) -> str:
    """Both results with the statistics behind them, and what a constant token becomes."""
    numbers, layer, rms = (
        ", ".join(map(short, vector.tolist())) for vector in (steps.numbers, steps.layer_output, steps.rms_output)
    )
    found = (
        f"LayerNorm makes {numbers} into {layer} (mean {short(steps.mean)}, variance {short(steps.variance)}). "
        f"RMSNorm makes it into {rms} (mean of squares {short(steps.mean_square)})."
    )
    if is_constant(steps.numbers):
        found += " All numbers are equal: without its mean nothing is left for LayerNorm; ε keeps 0 / 0 away."
    elif steps.variance < steps.eps:
        found += " The variance is smaller than ε, so LayerNorm leaves the numbers small."
    return found
