"""An LSTM's gates and states along a sequence, as bars, and the arithmetic of one step beside them."""

from collections.abc import Hashable
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from transformer_lab.draw import style
from transformer_lab.draw.canvas import Area, Picture, region

# Rows from top to bottom: field, name, whether it runs from −1 to 1, colour.
_ROWS = (
    ("input_gate", "input gate i", False, style.TEXT),
    ("candidate", "candidate g", True, style.PAD),
    ("forget_gate", "forget gate f", False, style.TEXT),
    ("cell", "cell c", True, style.ACCENT),
    ("output_gate", "output gate o", False, style.TEXT),
    ("hidden", "hidden h", True, style.OUTPUT),
)
_REACH = 0.4  # of a row's height, to each side of its middle
_CELL_LIMIT = 1.1  # the cell state may pass 1; beyond this the bar stops and the number tells
_ROOM = 11  # columns that leave a number its full size


class GateTimeline(Picture):
    """A column for each symbol, a row for each gate and state. A full bar is an open gate; states grow up or down."""

    @staticmethod
    def size(result: Any) -> tuple[float, float]:
        return 9.0, 4.4

    @staticmethod
    def layout(result: Any) -> Hashable:
        return result.symbols

    def __init__(self, figure: Figure, result: Any) -> None:
        sizes, n = style.current(), len(result.symbols)
        axes = self.axes = figure.add_axes((0.135, 0.03, 0.545, 0.86))
        axes.set_xlim(-0.5, n - 0.5)
        axes.set_ylim(len(_ROWS) - 0.5, -0.5)
        axes.set_xticks(range(n), list(result.symbols), fontsize=sizes.font_title, fontweight="bold", color=style.TEXT)
        axes.set_yticks(range(len(_ROWS)), [name for _, name, _, _ in _ROWS], fontsize=sizes.font_normal)
        axes.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
        for edge in axes.spines.values():
            edge.set_color(style.GRID)
        for row, (_, _, signed, _) in enumerate(_ROWS):
            axes.axhline(row + 0.5, color=style.GRID, linewidth=1)
            axes.axhline(row if signed else row + _REACH, color=style.MUTED, linewidth=0.8)
        self._here = axes.add_patch(Rectangle((0, -0.5), 1, len(_ROWS), facecolor=style.tint(style.ACCENT, 0.75)))
        self._here.set(animated=True, zorder=0.5)
        self._bars = {
            field: axes.bar(range(n), 0, width=0.62, color=colour, edgecolor=style.TEXT, animated=True, zorder=2)
            for field, _, _, colour in _ROWS
        }
        self._forced = axes.add_patch(Rectangle((0, 0), 1, 1, fill=False, edgecolor=style.KEY, linewidth=2.6))
        self._forced.set(animated=True, zorder=3)
        size = sizes.font_small * min(1.0, _ROOM / n)
        self._readings = [
            axes.text(column, 0, "", ha="center", va="center", fontsize=size, color=style.TEXT, animated=True, zorder=3)
            for column in range(n)
        ]
        self._words = figure.text(
            0.7, 0.89, "", fontsize=sizes.font_normal, color=style.TEXT, va="top", linespacing=1.55, animated=True
        )

    def update(self, result: Any) -> None:
        for row, (field, _, signed, _) in enumerate(_ROWS):
            values = getattr(result.steps, field).numpy()
            limit = _CELL_LIMIT if field == "cell" else 1.0
            heights = np.clip(values, -limit, limit) / limit * (_REACH if signed else 2 * _REACH)
            bottom = row if signed else row + _REACH
            for bar, height in zip(self._bars[field], heights, strict=True):
                bar.set_bounds(bar.get_x(), bottom, bar.get_width(), -height)  # the axis runs downwards
        self._here.set_x(result.step - 0.5)
        for reading, symbol, value in zip(self._readings, result.symbols, result.steps.hidden.tolist(), strict=True):
            row = len(_ROWS) - 1  # in the empty half of the last row
            reading.set_y(row + 0.25 if value > -0.005 else row - 0.25)
            reading.set_text(rounded(value, 2) if symbol == "?" else "")
        gate = result.force.split()[0]
        self._forced.set_visible(gate != "nothing")
        if gate != "nothing":
            row = [field for field, _, _, _ in _ROWS].index(f"{gate}_gate")
            self._forced.set_bounds(result.step - 0.45, row - 0.45, 0.9, 0.9)
        self._words.set_text(_arithmetic(result))

    def regions(self, result: Any) -> list[Area]:
        return [
            region(self.axes, (column - 0.5, column + 0.5), (row - 0.5, row + 0.5), f"step {column + 1} “{symbol}”: "
                   f"{name} = {rounded(getattr(result.steps, field)[column].item())}")
            for row, (field, name, _, _) in enumerate(_ROWS)
            for column, symbol in enumerate(result.symbols)
        ]  # fmt: skip


def _arithmetic(result: Any) -> str:
    forced = "" if result.force == "nothing" else f"\n{result.force}, by force"
    kept, new = result.now("forget_gate") * result.before, result.now("input_gate") * result.now("candidate")
    return "\n".join(
        (
            f"Step {result.step + 1}: “{result.symbols[result.step]}”{forced}",
            "",
            "c = f · (old c) + i · g",
            f"  = {rounded(result.now('forget_gate'))} · {_bracketed(result.before)}",
            f"    + {rounded(result.now('input_gate'))} · {_bracketed(result.now('candidate'))}",
            f"  = {rounded(kept)} + {_bracketed(new)}",
            f"  = {rounded(result.now('cell'))}",
            "",
            "h = o · tanh(c)",
            f"  = {rounded(result.now('output_gate'))} · {_bracketed(np.tanh(result.now('cell')))}",
            f"  = {rounded(result.now('hidden'))}",
        )
    )


def rounded(value: float, decimals: int = 3) -> str:
    """The number with a fixed number of decimals, a true minus sign, and none before a zero."""
    text = f"{value:.{decimals}f}".replace("-", "−")
    return text if text.strip("−0.") else text.lstrip("−")  # no minus before a zero


def _bracketed(value: float) -> str:
    text = rounded(value)
    return f"({text})" if text.startswith("−") else text
