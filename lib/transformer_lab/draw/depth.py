"""The gradient at every block of a deep model, on one logarithmic axis."""

import math
from collections.abc import Sequence
from typing import Any

from transformer_lab.draw.curves import Curves, LineChart

LOWEST, HIGHEST, DEEPEST = 1e-33, 1e2, 24


class DepthCurve(Curves):
    """From the first block to the last; a gradient below the axis leaves a gap."""

    @staticmethod
    def chart(result: Any) -> LineChart:
        blocks = range(1, result.depth + 1)
        other = "the same without shortcuts" if result.shortcut else "the same with shortcuts"
        return LineChart(
            {"this model": (blocks, _shown(result.gradients)), other: (blocks, _shown(result.other_gradients))},
            "block, counted from the input", "size of the gradient", title="How strongly the loss pulls on each block",
            y_log=True, x_range=(0.5, DEEPEST + 0.5), y_range=(LOWEST, HIGHEST),
        )  # fmt: skip


def _shown(sizes: Sequence[float]) -> list[float]:
    return [size if size >= LOWEST else math.nan for size in sizes]
