"""LayerNorm above, RMSNorm below: one row of numbers for every step, and the statistic beside it."""

from collections.abc import Hashable
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from transformer_lab.draw import style
from transformer_lab.draw.canvas import Area, region
from transformer_lab.draw.sheet import SheetPicture, boxes

LEFT, RIGHT, WIDEST = 1.95, 2.35, 0.72  # room for the names, for the statistics, and the width of a cell
CELL, GAP = 0.34, 0.06
TOPS = {"LayerNorm": 0.5, "RMSNorm": 2.72}
STEPS = {  # name of each row, and the field that it shows
    "LayerNorm": (
        ("the token x", "numbers"),
        ("x − mean", "centred"),
        ("÷ √(variance + ε)", "layer"),
        ("· scale + shift", "layer_output"),
    ),
    "RMSNorm": (
        ("the token x", "numbers"),
        ("÷ √(mean of x² + ε)", "rms"),
        ("· scale", "rms_output"),
    ),
}
REACH = 3.0  # the colour is full at this many times a unit; x and x − mean are coloured by their own largest number


class NormStepsPicture(SheetPicture):
    """A cell a component, coloured by sign and size; each norm's rows are measured by its own statistics."""

    @staticmethod
    def size(result: Any) -> tuple[float, float]:
        return 9.0, 4.05

    @staticmethod
    def layout(result: Any) -> Hashable:
        return len(result.numbers)

    def __init__(self, figure: Figure, result: Any) -> None:
        self.open_sheet(figure, result)
        n = len(result.numbers)
        self._width = min(WIDEST, (9.0 - LEFT - RIGHT - 0.1) / n)
        self._edge = LEFT + n * self._width
        self._cells = self.cells(edgecolors=style.GRID)
        self._numbers, self._notes = {}, {}
        for norm, steps in STEPS.items():
            self.text(0.1, TOPS[norm] - 0.24, norm, size="large", weight="bold", ha="left")
            for row, (name, field) in enumerate(steps):
                y = self._middle(norm, row)
                self.text(LEFT - 0.12, y, name, ha="right")
                places = [(LEFT + (column + 0.5) * self._width, y) for column in range(n)]
                self._numbers[norm, field] = self.stamps(places)
                self._notes[norm, field] = self.stamp(self._edge + 0.15, y, ha="left")

    def _middle(self, norm: str, row: int) -> float:
        return TOPS[norm] + row * (CELL + GAP) + CELL / 2

    def update(self, result: Any) -> None:
        corners, colours = [], []
        notes = _notes(result)
        for norm, steps in STEPS.items():
            for row, (_, field) in enumerate(steps):
                values = getattr(result, field).numpy()
                raw = field in ("numbers", "centred")
                limit = max(np.abs(result.numbers.numpy()).max(), 1e-12) if raw else REACH
                shades = style.SIGNED(0.5 + np.clip(values / limit, -1, 1) / 2)
                lefts = LEFT + np.arange(len(values)) * self._width
                corners.extend(boxes(lefts, self._middle(norm, row) - CELL / 2, self._width, CELL))
                colours.extend(shades)
                for stamp, value, shade in zip(self._numbers[norm, field], values, shades, strict=True):
                    stamp.set_text(short(float(value)))
                    stamp.set_color(style.text_on(shade))
                self._notes[norm, field].set_text(notes.get((norm, field), ""))
        self._cells.set_verts(corners)
        self._cells.set_facecolor(colours)

    def regions(self, result: Any) -> list[Area]:
        found = []
        for norm, steps in STEPS.items():
            for row, (name, field) in enumerate(steps):
                y = self._middle(norm, row)
                for column, value in enumerate(getattr(result, field).tolist()):
                    x = LEFT + column * self._width
                    words = f"{norm}, {name}, component {column + 1}: {value:.6g}".replace("-", "−")
                    found.append(region(self.axes, (x, x + self._width), (y - CELL / 2, y + CELL / 2), words))
        return found


def _notes(result: Any) -> dict[tuple[str, str], str]:
    eps = f"{result.eps:.5f}".rstrip("0").rstrip(".")
    deviation = float(np.sqrt(result.variance + result.eps))
    root = float(np.sqrt(result.mean_square + result.eps))
    return {
        ("LayerNorm", "numbers"): f"mean {short(result.mean)}",
        ("LayerNorm", "centred"): f"variance {short(result.variance)}",
        ("LayerNorm", "layer"): f"÷ {short(deviation)}   (ε = {eps})",
        ("LayerNorm", "layer_output"): f"scale {result.scale:g}, shift {result.shift:g}".replace("-", "−"),
        ("RMSNorm", "numbers"): f"mean of x² {short(result.mean_square)}",
        ("RMSNorm", "rms"): f"÷ {short(root)}   (ε = {eps})",
        ("RMSNorm", "rms_output"): f"scale {result.scale:g}; no shift".replace("-", "−"),
    }


def short(value: float) -> str:
    """At most three decimals and seven characters, with a true minus sign and none before a zero."""
    size = abs(value)
    if size < 5e-7:
        text = "0"
    elif size < 5e-4 or size >= 99_999.5:
        digits, power = f"{value:.{int(size > 1)}e}".split("e")
        text = f"{digits.removesuffix('.0')}e{int(power)}"
    else:
        decimals = 3 if size < 10 else 2 if size < 100 else 1 if size < 1_000 else 0
        text = f"{value:,.{decimals}f}"
        text = text.rstrip("0").rstrip(".") if "." in text else text
    return text.replace("-", "−")
