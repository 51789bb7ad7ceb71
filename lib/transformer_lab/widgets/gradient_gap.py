"""Widget: how much a change is still felt a number of steps later."""

from transformer_lab.draw.recurrence import GapCurves, power_of_ten
from transformer_lab.experiments.gradient_gap import ACTIVATIONS, LONGEST, GradientGap, explore_gap
from transformer_lab.widgets import controls
from transformer_lab.widgets.explorer import Explorer

VANISHED, EXPLODED = 1e-3, 1e2


def gradient_gap(radius: float = 1.1, activation: str = "linear", forget_bias: float = 0.0, gap: int = 50) -> Explorer:
    """Gradient against gap for an RNN, an LSTM, a GRU and attention: spectral radius, forget bias, gap, clipping."""
    return Explorer(
        controls={
            "radius": controls.slider("RNN: spectral radius", 0.5, 1.5, radius, 0.05),
            "activation": controls.choice("RNN: activation", ACTIVATIONS, activation, buttons=True),
            "forget_bias": controls.slider("LSTM: forget bias", -2.0, 6.0, forget_bias, 0.5, live=False),
            "gap": controls.slider("gap", 1, LONGEST, gap),
            "clip": controls.toggle("clip to length 1", False),
        },
        compute=explore_gap,
        picture=GapCurves,
        describe=describe,
    )


def describe(result: GradientGap) -> str:
    """Norm of each model at the gap, who has lost the signal, and what clipping has done."""
    norms = {name: result.at_gap(name) for name in result.curves}
    values = ", ".join(f"{name} {figure(norm)}" for name, norm in norms.items())
    free = {name: norm for name, norm in norms.items() if name not in result.unclipped}
    groups = {
        "Vanished": [name for name, norm in free.items() if norm < VANISHED],
        "Exploded": [name for name, norm in free.items() if norm > EXPLODED],
    }
    verdict = [f"{word}: {', '.join(names)}." for word, names in groups.items() if names]
    if result.unclipped:
        factors = [f"{name} ÷ {figure(max(curve))}" for name, curve in result.unclipped.items()]
        verdict.append(f"Clipped, at every gap alike: {', '.join(factors)}.")
    steps = "1 step" if result.gap == 1 else f"{result.gap} steps"
    return f"After {steps}: {values}. {' '.join(verdict) or 'None of them has vanished or exploded.'}"


def figure(value: float) -> str:
    """Two significant digits; powers of ten where plain digits would be long."""
    if 0.001 <= value < 100:
        return f"{value:.2g}"
    if 100 <= value < 1000:
        return f"{value:.0f}"
    if value == 0:
        return "0"
    digits, power = f"{value:.0e}".split("e")
    return f"{digits}·{power_of_ten(int(power))}"
