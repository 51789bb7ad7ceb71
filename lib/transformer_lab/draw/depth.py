"""The gradient at every block of a deep model, on one logarithmic axis."""

from typing import Any

from transformer_lab.draw.curves import Curves, LineChart

LOWEST, HIGHEST, DEEPEST = 1e-12, 1e2, 24


class DepthCurve(Curves):
    """From the first block to the last; a gradient of exactly 0 has no place on the axis and leaves a gap."""

    @staticmethod
    def chart(result: Any) -> LineChart:
        blocks = range(1, result.depth + 1)
        return LineChart(
            {"this model": (blocks, result.gradients), "shortcuts switched": (blocks, result.other_gradients)},
            "block, counted from the input", "size of the gradient", title="How strongly the loss pulls on each block",
            y_log=True, x_range=(0.5, DEEPEST + 0.5), y_range=(LOWEST, HIGHEST),
        )  # fmt: skip
