"""Accuracy by position, inside and past the lengths that were trained, one panel a task."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from transformer_lab.draw import style
from transformer_lab.draw.canvas import Area, Picture, region

NAMES = {"none": "none", "learned": "learned table", "sinusoidal": "sinusoidal", "rope": "RoPE", "alibi": "ALiBi"}
TITLES = {"two back": "Say the symbol two back", "nearest mark": "Say the nearest earlier mark"}
PANELS, PANEL = (0.07, 0.56), 0.325  # left edges and width, in shares of the figure
NAME_GAP = 0.075  # between names, in accuracy


class ExtrapolationPicture(Picture):
    """Draws a tuple of extrapolations: task, positions, trained_to, and accuracy by scheme."""

    @staticmethod
    def size(result: Any) -> tuple[float, float]:
        return 9.0, 4.0

    def __init__(self, figure: Figure, result: Any) -> None:
        sizes = style.current()
        self._axes = []
        for left, runs in zip(PANELS, result, strict=True):
            axes = figure.add_axes((left, 0.14, PANEL, 0.7))
            axes.set(xlim=(1, runs.positions[-1] + 2), ylim=(0, 1.03), xticks=(1, 16, 32, 48, 64))
            axes.axvspan(1, runs.trained_to, facecolor=style.tint(style.ACCENT, 0.75), zorder=0)
            middle = (1 + runs.trained_to) / 2
            axes.text(middle, 0.04, "trained", fontsize=sizes.font_small, ha="center", color=style.TEXT)
            axes.text(40, 0.04, "never seen in training", fontsize=sizes.font_small, ha="center", color=style.MUTED)
            axes.set_title(TITLES[runs.task], fontsize=sizes.font_large, loc="left", color=style.TEXT, pad=10)
            axes.set_xlabel("position", fontsize=sizes.font_normal, color=style.TEXT)
            axes.tick_params(labelsize=sizes.font_small, colors=style.MUTED, length=3)
            axes.grid(color=style.GRID, linewidth=0.7)
            axes.set_axisbelow(True)
            for edge in ("top", "right"):
                axes.spines[edge].set_visible(False)
            self._draw_curves(axes, runs)
            self._axes.append(axes)
        self._axes[0].set_ylabel("share of right answers", fontsize=sizes.font_normal, color=style.TEXT)

    def _draw_curves(self, axes: Any, runs: Any) -> None:
        ends = {}
        for index, (scheme, values) in enumerate(runs.accuracy.items()):
            x, colour = np.array(runs.positions[: len(values)]), style.SERIES[index]
            axes.plot(x, values, color=colour, linestyle=style.DASHES[index], marker=style.MARKERS[index], ms=5, lw=1.8,
                      markevery=(index, 7), clip_on=False, zorder=3)  # fmt: skip
            if len(values) == len(runs.positions):
                ends[scheme] = (values[-1], colour, style.MARKERS[index])
            else:  # the curve stops where the table ends: say so there
                axes.plot(x[-1], values[-1], marker="X", ms=11, color=colour, zorder=4)
                words = NAMES[scheme].replace(" ", "\n") + "\nends"
                self._name(axes, 8.5, 0.55, words, colour, ha="center")
                axes.plot((x[-1], 11), (values[-1] - 0.05, 0.65), color=colour, lw=1)
        heights = _spread([value for value, _, _ in ends.values()])
        for (scheme, (_, colour, marker)), height in zip(ends.items(), heights, strict=True):
            last = runs.positions[-1] + 3.2
            axes.plot(last, height, marker=marker, color=colour, ms=6, clip_on=False)
            self._name(axes, last + 1.6, height, NAMES[scheme], colour)

    def _name(self, axes: Any, x: float, y: float, words: str, colour: str, ha: str = "left") -> None:
        axes.text(x, y, words, color=style.TEXT if colour == style.ACCENT else colour, ha=ha, va="center",
                  fontsize=style.current().font_small + 1, weight="bold", linespacing=1.1)  # fmt: skip

    def regions(self, result: Any) -> list[Area]:
        found = []
        for axes, runs in zip(self._axes, result, strict=True):
            for index, position in enumerate(runs.positions):
                reached = {scheme: values for scheme, values in runs.accuracy.items() if index < len(values)}
                here = "; ".join(f"{NAMES[scheme]} {values[index]:.2f}" for scheme, values in reached.items())
                found.append(region(axes, (position - 0.5, position + 0.5), (0, 1), f"position {position}: {here}"))
        return found


def _spread(ends: Sequence[float]) -> np.ndarray:
    """Heights for the names: near the ends of the curves, and never on each other."""
    heights, order = np.array(ends, dtype=float), np.argsort(ends, kind="stable")
    for below, above in zip(order, order[1:], strict=False):
        heights[above] = max(heights[above], heights[below] + NAME_GAP)
    return heights
