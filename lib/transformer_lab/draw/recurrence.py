"""Line charts of the recurrence lesson: gradient against gap, recall against gap, time against length."""

import math
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from transformer_lab.draw import style
from transformer_lab.draw.curves import Curves, LineChart

# One colour a family of models, one dash a member of it.
_LOOKS = {
    "RNN linear 0.9": (0, 0), "RNN linear 1.0": (0, 1), "RNN linear 1.1": (0, 3),
    "RNN tanh 0.9": (1, 0), "RNN tanh 1.0": (1, 1), "RNN tanh 1.1": (1, 3),
    "LSTM, bias 0": (2, 0), "LSTM, bias 5": (2, 1),
    "RNN": (0, 0), "LSTM": (2, 1), "GRU": (3, 2), "attention": (5, 5),
}  # fmt: skip


class GapCurves(Curves):
    """‖∂h_T/∂h_1‖ against the gap for several models; the gap that is looked at is a line across.

    Curves that clipping has shortened stand faintly behind as they were.
    """

    @staticmethod
    def size(result: Any) -> tuple[float, float]:
        return 8.6, 4.4

    @staticmethod
    def chart(result: Any) -> LineChart:
        gaps = range(1, 1 + max(len(curve) for curve in result.curves.values()))
        return LineChart(
            {name: (gaps[: len(curve)], curve) for name, curve in result.curves.items()},
            x_label="gap T − 1, in steps",
            y_label="",
            title="‖∂h_T / ∂h_1‖: how much a change of h_1 counts at step T",
            y_log=True,
            x_range=(1, gaps[-1]),
            y_range=(1e-9, 1e6),
            looks={name: _LOOKS[name] for name in result.curves},
        )

    def __init__(self, figure: Figure, result: Any) -> None:
        super().__init__(figure, result)
        self.axes.set_xticks([1, *range(20, int(self.axes.get_xlim()[1]) + 1, 20)])
        self.axes.yaxis.set_major_formatter(FuncFormatter(_tick))
        self._here = self.axes.axvline(1, color=style.ACCENT, linewidth=3, animated=True, zorder=1)
        inside = self.axes.bbox.padded(8, 0)  # whole markers at the sides; a curve that leaves stops at the edge
        self._before = {}
        for name, line in zip(result.curves, self._lines, strict=True):
            line.set_clip_box(inside)
            look = {"color": line.get_color(), "alpha": 0.35, "linewidth": 4, "animated": True, "zorder": 1.5}
            (self._before[name],) = self.axes.plot([], [], **look)

    def update(self, result: Any) -> None:
        super().update(result)
        self._here.set_visible(result.gap > 0)
        self._here.set_xdata([result.gap, result.gap])
        for name, line in self._before.items():
            curve = result.unclipped.get(name, ())
            line.set_data(range(1, 1 + len(curve)), curve)


class RecallCurves(Curves):
    """Accuracy against the number of distractors, a curve for each model."""

    @staticmethod
    def chart(result: Any) -> LineChart:
        return LineChart(
            {name: (result.gaps, values) for name, values in result.accuracy.items()},
            x_label="distractors between the symbol and the question",
            y_label="share recalled",
            y_range=(0, 1.05),
            levels={"chance": result.chance},
            looks={name: _LOOKS[name] for name in result.accuracy},
        )


class TimeCurves(Curves):
    """Milliseconds for one forward pass against the number of tokens, and the ratio to attention at the end."""

    @staticmethod
    def chart(result: Any) -> LineChart:
        ratios = [f"{name} {result.times_attention(name):.0f} ×" for name in result.seconds if name != "attention"]
        return LineChart(
            {name: (result.lengths, [1000 * s for s in values]) for name, values in result.seconds.items()},
            x_label="tokens n",
            y_label="milliseconds",
            title=f"At {result.lengths[-1]} tokens: {', '.join(ratios)} the time of attention",
            looks={name: _LOOKS[name] for name in result.seconds},
        )


def power_of_ten(power: int) -> str:
    """10 to a whole power as it is written: 10⁻³."""
    return "10" + str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def _tick(value: float, _: int) -> str:
    return "1" if value == 1 else power_of_ten(round(math.log10(value)))
