"""The stream of one token: a row for each sublayer, what it adds, the stream after it and the stream's length."""

from collections.abc import Hashable
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from transformer_lab.draw import style
from transformer_lab.draw.canvas import Area, region
from transformer_lab.draw.sheet import SheetPicture, boxes

ADDED, STREAM, BARS, WIDTH = 2.05, 5.07, 7.75, 9.0  # where the columns begin, and the whole width
STRIP, BAR = 2.4, 0.66  # width of a strip, and of the longest bar
TOP, ROW, CELL = 0.62, 0.5, 0.28


class BlockWalkPicture(SheetPicture):
    """Rows from the input down. Cells are coloured by sign and size, on one scale for all rows."""

    @staticmethod
    def size(result: Any) -> tuple[float, float]:
        return WIDTH, TOP + ROW * len(result.stages) + 0.1

    @staticmethod
    def layout(result: Any) -> Hashable:
        return tuple(stage.name for stage in result.stages), result.norm_order, result.shortcut

    def __init__(self, figure: Figure, result: Any) -> None:
        self.open_sheet(figure, result)
        for x, words in ((ADDED, "what the sublayer returns"), (STREAM, "the stream after it"), (BARS, "its length")):
            self.text(x, 0.24, words, weight="bold", ha="left")
        last = len(result.stages) - 1
        for row, stage in enumerate(result.stages):
            y = self._middle(row)
            self.text(ADDED - 0.14, y, stage.name, ha="right")
            if stage.added is not None:
                self.text((ADDED + STRIP + STREAM) / 2, y, self._joint(result), size="small", color=style.TEXT)
            if row < last:
                self._carry(result, row, result.stages[row + 1])
        self._cells = self.cells(edgecolors=style.GRID, linewidths=0.5)
        self._bars = self.cells(facecolors=style.OUTPUT)
        self._lengths = self.stamps([(BARS + 0.08, self._middle(row)) for row in range(last + 1)], ha="left")

    def _middle(self, row: int) -> float:
        return TOP + ROW * row + ROW / 2 - 0.1

    @staticmethod
    def _joint(result: Any) -> str:
        sign = "+" if result.shortcut else "→"
        return f"{sign} norm" if result.norm_order == "post" else sign

    def _carry(self, result: Any, row: int, following: Any) -> None:
        """The road from one row of the stream to the next: drawn where the stream is carried past the sublayer."""
        x, start, end = STREAM + STRIP / 2, self._middle(row) + CELL / 2, self._middle(row + 1) - CELL / 2
        if following.added is None:
            self.text(x, (start + end) / 2, "↓ norm", size="small")
        elif result.shortcut:
            self.rectangle(
                STREAM + 0.12, start, STRIP - 0.24, end - start, facecolor=style.tint(style.ACCENT, 0.55), zorder=1
            )
        else:
            self.text(x, (start + end) / 2, "✗", size="small", color=style.KEY, weight="bold")

    def update(self, result: Any) -> None:
        vectors = [(row, ADDED, stage.added) for row, stage in enumerate(result.stages) if stage.added is not None]
        vectors += [(row, STREAM, stage.stream) for row, stage in enumerate(result.stages)]
        limit = max(float(vector.abs().max()) for _, _, vector in vectors) or 1.0
        corners, colours = [], []
        for row, left, vector in vectors:
            width = STRIP / len(vector)
            corners.extend(boxes(left + np.arange(len(vector)) * width, self._middle(row) - CELL / 2, width, CELL))
            colours.extend(style.SIGNED(0.5 + vector.numpy() / limit / 2))
        self._cells.set_verts(corners)
        self._cells.set_facecolor(colours)
        longest = max(stage.length for stage in result.stages)
        full = [stage.length / longest * BAR for stage in result.stages]
        tops = [self._middle(row) - CELL / 2 for row in range(len(full))]
        self._bars.set_verts(boxes(BARS, np.array(tops), np.array(full), CELL))
        for stamp, stage, length in zip(self._lengths, result.stages, full, strict=True):
            stamp.set_x(BARS + length + 0.08)
            stamp.set_text(f"{stage.length:.2f}")

    def regions(self, result: Any) -> list[Area]:
        found = []
        for row, stage in enumerate(result.stages):
            low, high = self._middle(row) - CELL / 2, self._middle(row) + CELL / 2
            for left, words, vector in ((ADDED, "returns", stage.added), (STREAM, "stream", stage.stream)):
                if vector is None:
                    continue
                width = STRIP / len(vector)
                for place, value in enumerate(vector.tolist()):
                    x = left + place * width
                    text = f"{stage.name}, {words}, component {place + 1}: {value:.3f}".replace("-0.000", "0.000")
                    found.append(region(self.axes, (x, x + width), (low, high), text.replace(": -", ": −")))
        return found
