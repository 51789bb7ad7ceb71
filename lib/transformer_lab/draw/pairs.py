"""A square of pairs: who may look at whom when everyone may look at everyone."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from transformer_lab.draw import style
from transformer_lab.draw.canvas import Area, Picture, region

LARGEST = 12


class PairsPicture(Picture):
    """Draws a number of tokens as the square of its pairs, inside the square of the largest number."""

    def __init__(self, figure: Figure, result: Any) -> None:
        sizes = style.current()
        self._axes = figure.add_axes((0.14, 0.03, 0.8, 0.82))
        self._axes.set(xlim=(0.5, LARGEST + 0.5), ylim=(LARGEST + 0.5, 0.5), aspect="equal", anchor="W")
        self._axes.set_axis_off()
        numbers = np.arange(1, LARGEST + 1)
        rows, columns = np.meshgrid(numbers, numbers, indexing="ij")
        self._axes.scatter(columns, rows, marker="s", s=150, facecolor="none", edgecolor=style.GRID)
        self._pairs = self._axes.scatter([], [], marker="s", s=170, facecolor=style.OUTPUT, animated=True)
        figure.text(0.98, 0.93, "who looks ↓ at whom →", ha="right", fontsize=sizes.font_small, family=style.FONT,
                    color=style.MUTED)  # fmt: skip
        self._title = figure.text(0.02, 0.93, "", fontsize=sizes.font_large, weight="bold", family=style.FONT,
                                  color=style.TEXT, animated=True)  # fmt: skip

    @staticmethod
    def size(result: Any) -> tuple[float, float]:
        return 4.6, 4.3

    def update(self, result: Any) -> None:
        numbers = np.arange(1, result + 1)
        rows, columns = np.meshgrid(numbers, numbers, indexing="ij")
        self._pairs.set_offsets(np.column_stack([columns.ravel(), rows.ravel()]))
        self._title.set_text(f"{result} × {result} = {result * result}")

    def regions(self, result: Any) -> list[Area]:
        span = range(1, result + 1)
        return [
            region(self._axes, (whom - 0.5, whom + 0.5), (who - 0.5, who + 0.5), f"token {who} looks at token {whom}")
            for who in span
            for whom in span
        ]
