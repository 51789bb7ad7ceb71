"""Line charts: several curves on one axis, each named where it ends, told apart by colour, marker and dash."""

import textwrap
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

from transformer_lab.draw import style
from transformer_lab.draw.canvas import Area, Picture, region

_NAME_LETTERS = 20
_READ_OUTS = 60  # strips that answer to the pointer
_MARKERS = 9  # markers along a curve
_STEPS = (1, 2, 2.5, 5, 10)  # between ticks, times a power of ten
_MOST_CURVES = 12  # that still have room for their names


@dataclass(frozen=True)
class LineChart:
    """What `Curves` draws.

    Args:
        series: each curve's name, and its x and y values. NaN leaves a gap.
        x_label, y_label: what the axes measure.
        title: a few words above the chart.
        x_log, y_log: logarithmic axes; values that are not positive are left out.
        x_range, y_range: limits of the axes; found from the values unless given.
        levels: named horizontal lines to compare the curves with, such as "chance".
        looks: numbers of the colour and of the dash and marker of a curve, for curves that form families; each curve
            takes the number of its place for both unless it is named here.
    """

    series: Mapping[str, tuple[Sequence[float], Sequence[float]]]
    x_label: str
    y_label: str
    title: str = ""
    x_log: bool = False
    y_log: bool = False
    x_range: tuple[float, float] | None = None
    y_range: tuple[float, float] | None = None
    levels: Mapping[str, float] = field(default_factory=dict)
    looks: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 1 <= len(self.series) <= _MOST_CURVES:
            raise ValueError(f"a chart shows 1 to {_MOST_CURVES} curves; got {len(self.series)}.")
        looks = [self.look(name) for name in self.series]
        if len(set(looks)) < len(looks) or max(map(max, looks)) >= len(style.SERIES):
            raise ValueError(
                f"the curves look alike: there are {len(style.SERIES)} colours and as many dashes, numbered from 0. "
                "Give looks= a different pair of numbers for each curve."
            )
        for name, (x, y) in self.series.items():
            if len(x) != len(y) or not len(x):
                raise ValueError(f"curve {name!r} has {len(x)} x values and {len(y)} y values; give each x one y.")

    def look(self, name: str) -> tuple[int, int]:
        """Numbers of the colour and of the dash and marker of a curve."""
        place = list(self.series).index(name)
        return self.looks.get(name, (place, place))


class Curves(Picture):
    """Draws a `LineChart`. To chart another kind of result, subclass it and override `chart`."""

    @staticmethod
    def chart(result: Any) -> LineChart:
        """The chart of a result; the result itself if it is one."""
        return result

    @staticmethod
    def size(result: Any) -> tuple[float, float]:
        return 8.4, 3.5

    @classmethod
    def layout(cls, result: Any) -> Hashable:
        chart = cls.chart(result)
        return (
            tuple(chart.series), chart.x_label, chart.y_label, chart.title, chart.x_log, chart.y_log,
            tuple(chart.levels.items()), tuple(map(chart.look, chart.series)), _limits(chart, 0), _limits(chart, 1),
        )  # fmt: skip

    def __init__(self, figure: Figure, result: Any) -> None:
        chart, sizes = self.chart(result), style.current()
        names = [_wrap(name) for name in (*chart.series, *chart.levels)]
        longest = max(len(line) for name in names for line in name.split("\n"))
        bottom, top = 0.17, 0.88 if chart.title else 0.95
        right = 1 - (0.55 + 0.085 * longest) / self.size(result)[0]
        axes = self.axes = figure.add_axes((0.095, bottom, right - 0.095, top - bottom))
        axes.set_xlabel(chart.x_label, fontsize=sizes.font_normal, color=style.TEXT)
        axes.set_ylabel(chart.y_label, fontsize=sizes.font_normal, color=style.TEXT)
        axes.set_title(chart.title, fontsize=sizes.font_large, color=style.TEXT, loc="left")
        axes.set_xlim(_limits(chart, 0))
        axes.set_ylim(_limits(chart, 1))
        for axis, log in ((axes.xaxis, chart.x_log), (axes.yaxis, chart.y_log)):
            if log:
                getattr(axes, f"set_{axis.axis_name}scale")("log")
                axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
                axis.set_minor_formatter(NullFormatter())
            else:
                axis.set_major_locator(MaxNLocator(5, steps=_STEPS))
        axes.tick_params(labelsize=sizes.font_small, colors=style.MUTED, length=3)
        axes.grid(color=style.GRID, linewidth=0.7)
        axes.set_axisbelow(True)
        for edge in ("top", "right"):
            axes.spines[edge].set_visible(False)
        for level in chart.levels.values():
            axes.axhline(level, color=style.MUTED, linewidth=1.2, dashes=(2, 2))
        self._lines, self._samples, self._names = [], [], []
        looks = [
            {"color": style.SERIES[colour], "linestyle": style.DASHES[dash], "marker": style.MARKERS[dash]}
            for colour, dash in map(chart.look, chart.series)
        ]
        for index, name in enumerate(names):
            look = looks[index] if index < len(chart.series) else {"color": style.MUTED, "linestyle": ":"}
            look |= {"linewidth": 2.0, "markersize": 5.5, "animated": True}
            if index < len(chart.series):
                (line,) = axes.plot([], [], **look)
                line.set_clip_box(axes.bbox.padded(8))  # whole markers at the edge, and nothing over the title
                self._lines.append(line)
            sample = Line2D([1.02, 1.04, 1.06], [0, 0, 0], transform=axes.transAxes, markevery=[1], **look)
            sample.set_clip_on(False)
            self._samples.append(axes.add_line(sample))
            self._names.append(
                axes.text(
                    1.075, 0, name, transform=axes.transAxes, va="center", ha="left", fontsize=sizes.font_small + 1,
                    color=style.TEXT, linespacing=1.0, animated=True,
                )
            )  # fmt: skip

    def update(self, result: Any) -> None:
        chart = self.chart(result)
        ends = []
        for line, (x, y) in zip(self._lines, chart.series.values(), strict=True):
            x, y = _drawable(chart, x, y)
            line.set_data(x, y)
            line.set_markevery(max(1, len(x) // _MARKERS))
            shown = np.flatnonzero(np.isfinite(y))
            ends.append(y[shown[-1]] if len(shown) else self.axes.get_ylim()[0])
        ends += chart.levels.values()
        heights = self._spread(np.asarray(ends, dtype=float))
        for sample, name, height in zip(self._samples, self._names, heights, strict=True):
            sample.set_ydata([height] * 3)
            name.set_y(height)

    def _spread(self, ends: np.ndarray) -> np.ndarray:
        """Heights of the names, in shares of the axes: near the curves' ends and never on each other."""
        to_pixels, to_axes = self.axes.transData.transform, self.axes.transAxes.inverted().transform
        x = self.axes.get_xlim()[0]
        heights = to_axes(to_pixels([(x, end) for end in ends]))[:, 1].clip(0, 1)
        line = 1.5 * (style.current().font_small + 1) / 72 * self.axes.figure.dpi / self.axes.bbox.height
        needs = [line * (1 + 0.7 * name.get_text().count("\n")) for name in self._names]
        order = np.argsort(heights, kind="stable")
        for below, above in zip(order, order[1:], strict=False):
            heights[above] = max(heights[above], heights[below] + (needs[below] + needs[above]) / 2)
        # Pushed out at the top: come down again, the highest first.
        heights[order[-1]] = min(heights[order[-1]], 1.0)
        for above, below in zip(order[::-1], order[-2::-1], strict=False):
            heights[below] = min(heights[below], heights[above] - (needs[below] + needs[above]) / 2)
        return heights

    def regions(self, result: Any) -> list[Area]:
        chart = self.chart(result)
        points = np.unique(np.concatenate([np.asarray(x, dtype=float) for x, _ in chart.series.values()]))
        low, high = self.axes.get_xlim()
        points = points[(points >= low) & (points <= high)]
        points = points[np.unique(np.linspace(0, len(points) - 1, min(len(points), _READ_OUTS)).astype(int))]
        if not len(points):
            return []
        middles = np.sqrt(points[1:] * points[:-1]) if chart.x_log else (points[1:] + points[:-1]) / 2
        edges = [low, *middles, high]
        strips = zip(points, edges, edges[1:], strict=False)
        return [region(self.axes, (a, b), self.axes.get_ylim(), _read_out(chart, x)) for x, a, b in strips]


def _read_out(chart: LineChart, at: float) -> str:
    values = []
    for name, (x, y) in chart.series.items():
        here = np.flatnonzero(np.asarray(x, dtype=float) == at)
        if len(here):
            values.append(f"{name}: {y[here[0]]:.4g}")
    return f"{chart.x_label} {at:,.6g} — {'; '.join(values)}"


def _drawable(chart: LineChart, x: Sequence[float], y: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    x, y = np.array(x, dtype=float), np.array(y, dtype=float)
    hidden = ~np.isfinite(y)
    if chart.x_log:
        hidden |= x <= 0
    if chart.y_log:
        hidden |= y <= 0
    y[hidden] = np.nan
    return x, y


def _limits(chart: LineChart, axis: int) -> tuple[float, float]:
    """The range of an axis: as given, else a tidy one around the values."""
    given, log = ((chart.x_range, chart.x_log), (chart.y_range, chart.y_log))[axis]
    if given is not None:
        return given
    parts = [np.asarray(pair[axis], dtype=float) for pair in chart.series.values()]
    if axis == 1:
        parts.append(np.asarray(list(chart.levels.values()), dtype=float))
    values = np.concatenate(parts)
    values = values[np.isfinite(values) & ((values > 0) | (not log))]
    if not len(values):
        return (0.1, 1.0) if log else (0.0, 1.0)
    low, high = float(values.min()), float(values.max())
    if low == high:
        return (low / 2, high * 2) if log else (low - 0.5, high + 0.5)
    if axis == 0:
        return low, high
    if log:
        return 10.0 ** np.floor(np.log10(low)), 10.0 ** np.ceil(np.log10(high))
    ticks = MaxNLocator(6, steps=_STEPS).tick_values(low, high)
    return float(ticks[0]), float(ticks[-1])


def _wrap(name: str) -> str:
    return "\n".join(textwrap.wrap(name, _NAME_LETTERS)) or name
