"""Widget: one hand-set LSTM unit, stepped through a sequence; any gate can be forced."""

from collections.abc import Mapping

import ipywidgets

from transformer_lab.draw.gates import GateTimeline, rounded
from transformer_lab.experiments.gates import FORCES, KEEPS, SYMBOLS, GateWalk, walk_gates
from transformer_lab.widgets import controls
from transformer_lab.widgets.explorer import Explorer


def gate_explorer(sequence: str = "+...?..x.?", step: int = 1, force: str = "nothing") -> Explorer:
    """Every gate and state of a one-unit LSTM at every step; force a gate at one step and watch the value it stores."""
    return Explorer(
        controls={
            "sequence": controls.text("Sequence", sequence),
            "step": controls.slider("Step", 1, max(len(sequence), 1), step),
            "force": controls.choice("At this step, force", FORCES, force),
            "forget_bias": controls.slider("Forget bias", -2.0, KEEPS, KEEPS, 0.5),
        },
        compute=lambda sequence, step, force, forget_bias: walk_gates(sequence, step - 1, force, forget_bias),
        picture=GateTimeline,
        describe=describe,
        adjust=_fit_steps,
    )


def describe(result: GateWalk) -> str:
    """What this step does to the memory, and what every reading of it returns."""
    symbol, number = result.symbols[result.step], result.step + 1
    kept, cell = result.now("forget_gate") * result.before, result.now("cell")
    forced = "" if result.force == "nothing" else f", {result.force} by force"
    reads = [
        f"{rounded(result.steps.hidden[place].item())} at step {place + 1}"
        for place, read in enumerate(result.symbols)
        if read == "?"
    ]
    return (
        f"Step {number}, “{symbol}” ({SYMBOLS[symbol]}){forced}: the cell held {rounded(result.before)}, keeps "
        f"{rounded(kept)}, adds {rounded(cell - kept)} and now holds {rounded(cell)}. The hidden state shows "
        f"{rounded(result.now('hidden'))}. " + (f"Readings: {', '.join(reads)}." if reads else "No “?” reads it.")
    )


def _fit_steps(by_name: Mapping[str, ipywidgets.Widget]) -> None:
    n = len("".join(by_name["sequence"].value.split()))
    if n:
        controls.set_range(by_name["step"], 1, n)
