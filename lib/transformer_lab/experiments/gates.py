"""A hand-set LSTM with one unit of memory, stepped through a sequence; any gate can be forced at any step."""

import copy
import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from transformer_lab.model.recurrence import LSTMCell, LSTMStep

SYMBOLS = {
    "+": "store plus one",
    "-": "store minus one",
    ".": "noise, of −0.75",
    "?": "read the memory",
    "x": "erase the memory",
}
MOST_SYMBOLS = 16
GATES = ("input", "forget", "output")
KEEPS = 12.0  # the forget bias with which nothing leaks
FORCES = ("nothing", *(f"{gate} gate {state}" for gate in GATES for state in ("open", "shut")))
_OPEN = 12.0  # put into σ or tanh: 0 or ±1 to the last digit shown
_NOISE = math.atanh(-0.75)
_FORCED = 40.0  # σ is 1 or 0 to the last digit shown


@dataclass(frozen=True)
class GateWalk:
    """Every gate and state after each symbol, and the step (from 0) that is looked at and forced."""

    symbols: str
    steps: LSTMStep  # every field is (position,)
    step: int
    force: str

    @property
    def before(self) -> float:
        """The cell state that this step found."""
        return self.steps.cell[self.step - 1].item() if self.step else 0.0

    def now(self, name: str) -> float:
        """One field of the step that is looked at."""
        return getattr(self.steps, name)[self.step].item()


def memory_cell(forget_bias: float = KEEPS) -> LSTMCell:
    """One unit that stores on ``+`` and ``-``, keeps while there is noise, shows on ``?`` and forgets on ``x``.

    Its gates look at the symbol alone (U = 0), so each weight can be read. A trained cell's gates also look at h.
    """
    weights = {  # the weight of each symbol, and the bias
        "input": ({"+": 2 * _OPEN, "-": 2 * _OPEN}, -_OPEN),
        "forget": ({"+": -2 * _OPEN, "-": -2 * _OPEN, "x": -2 * _OPEN}, forget_bias),
        "candidate": ({"+": _OPEN, "-": -_OPEN, ".": _NOISE}, 0.0),
        "output": ({"?": 2 * _OPEN}, -_OPEN),
    }
    cell = LSTMCell(len(SYMBOLS), 1)
    with torch.no_grad():
        cell.from_hidden.weight.zero_()
        for row, (by_symbol, bias) in enumerate(weights.values()):
            cell.from_input.weight[row] = torch.tensor([by_symbol.get(symbol, 0.0) for symbol in SYMBOLS])
            cell.from_input.bias[row] = bias
    return cell


def force_gate(cell: LSTMCell, gate: str, value: int) -> LSTMCell:
    """A copy of the cell in which one gate is always open (``value`` 1) or shut (0): its weights no longer count."""
    forced = copy.deepcopy(cell)
    block = ("input", "forget", "candidate", "output").index(gate)
    with torch.no_grad():
        forced.from_input.weight.chunk(4)[block].zero_()
        forced.from_hidden.weight.chunk(4)[block].zero_()
        forced.from_input.bias.chunk(4)[block].fill_(_FORCED if value else -_FORCED)
    return forced


@torch.no_grad()
def walk_gates(sequence: str, step: int = 0, force: str = "nothing", forget_bias: float = KEEPS) -> GateWalk:
    """Run `memory_cell` along ``sequence``, with one gate forced at one step if asked.

    Raises:
        ValueError: an empty or too long sequence, an unknown symbol, a step outside it, an unknown ``force``.
    """
    symbols = "".join(sequence.split()).lower()
    known = ", ".join(f"{symbol} ({meaning})" for symbol, meaning in SYMBOLS.items())
    if not 1 <= len(symbols) <= MOST_SYMBOLS:
        raise ValueError(f"The sequence has {len(symbols)} symbols; type 1 to {MOST_SYMBOLS} of these: {known}.")
    unknown = [symbol for symbol in symbols if symbol not in SYMBOLS]
    if unknown:
        raise ValueError(f"“{unknown[0]}” is no symbol of this memory; use {known}.")
    if not 0 <= step < len(symbols):
        raise ValueError(f"step is {step}, but the sequence has {len(symbols)} symbols.")
    if force not in FORCES:
        raise ValueError(f"force is {force!r}; choose one of {', '.join(FORCES)}.")
    cell = memory_cell(forget_bias)
    forced = cell if force == "nothing" else force_gate(cell, force.split()[0], int(force.endswith("open")))
    places = torch.tensor([list(SYMBOLS).index(symbol) for symbol in symbols])
    x = F.one_hot(places, len(SYMBOLS)).float()
    state = cell.start(1)
    steps = []
    for position in range(len(symbols)):
        state = (forced if position == step else cell)(x[position : position + 1], state)
        steps.append(state)
    return GateWalk(symbols, LSTMStep(*(torch.cat(field).flatten() for field in zip(*steps, strict=True))), step, force)
