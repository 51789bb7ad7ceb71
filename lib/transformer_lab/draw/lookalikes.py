"""What each pair of a RoPE head says about a distance, above where a query of that head looks."""

from typing import Any

import numpy as np
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from transformer_lab.draw import style
from transformer_lab.draw.canvas import Area, Picture, region
from transformer_lab.draw.sheet import boxes

FAST, SECOND, SUM = style.QUERY, style.OUTPUT, style.TEXT
LOWEST, HIGHEST = -17.0, 13.0  # of the scores
FIRST_GUESS = 2  # the distance that was to be found


class LookalikesPicture(Picture):
    """Draws lookalikes: head, position, farthest_trained, pairs, weights and favourite."""

    @staticmethod
    def size(result: Any) -> tuple[float, float]:
        return 9.0, 5.0

    @staticmethod
    def layout(result: Any) -> tuple:
        return result.pairs.shape[1], result.farthest_trained

    def __init__(self, figure: Figure, result: Any) -> None:
        self._distances = np.arange(result.pairs.shape[1])
        self._scores = self._axes(figure, 0.52, 0.36, (LOWEST, HIGHEST), result)
        self._looks = self._axes(figure, 0.11, 0.24, (0, 1), result)
        self._scores.set_ylabel("adds to the score", **_words())
        self._looks.set_ylabel("weight", **_words())
        self._looks.set_xlabel("how far back the key stands", **_words())
        self._scores.set_xticklabels([])
        self._make_curves(figure)
        self._bars = self._looks.add_collection(PolyCollection([], animated=True, zorder=3), autolim=False)
        self._winner = self._looks.text(0, 0, "", animated=True, va="bottom", weight="bold", zorder=6, **_words())
        self._title = figure.text(0.085, 0.375, "", animated=True, weight="bold", **_words())
        veil = {"facecolor": style.BACKGROUND, "alpha": 0.8, "animated": True, "zorder": 4}
        self._veils = [axes.add_patch(Rectangle((0, -100), 200, 200, **veil)) for axes in (self._scores, self._looks)]

    def _axes(self, figure: Figure, bottom: float, height: float, limits: tuple[float, float], result: Any):
        axes = figure.add_axes((0.085, bottom, 0.9, height))
        last = self._distances[-1]
        fast = 2 * np.pi
        axes.set(xlim=(-0.7, last + 0.7), ylim=limits)
        axes.set_xticks([round(FIRST_GUESS + fast * turn) for turn in range(int((last - FIRST_GUESS) / fast) + 1)])
        axes.tick_params(labelsize=style.current().font_small, colors=style.MUTED, length=3)
        axes.axvspan(-0.7, result.farthest_trained + 0.5, facecolor=style.tint(style.ACCENT, 0.75), zorder=0)
        axes.grid(axis="x", color=style.MUTED, linewidth=0.8, linestyle=":")
        axes.set_axisbelow(True)
        for edge in ("top", "right"):
            axes.spines[edge].set_visible(False)
        return axes

    def _make_curves(self, figure: Figure) -> None:
        self._scores.axhline(0, color=style.GRID, lw=1, zorder=1)
        looks = (
            ("fastest pair", FAST, "-", 1.6),
            ("second pair", SECOND, "--", 2.2),
            ("all pairs together", SUM, "-", 2.8),
        )
        self._curves = []
        for index, (name, colour, dash, width) in enumerate(looks):
            self._curves += self._scores.plot([], [], color=colour, linestyle=dash, lw=width, animated=True, zorder=3)
            x = 0.36 + 0.18 * index
            figure.add_artist(Line2D((x, x + 0.035), (0.945, 0.945), color=colour, linestyle=dash, lw=width))
            figure.text(x + 0.045, 0.945, name, color=colour, va="center", weight="bold", **_words())
        figure.text(0.085, 0.945, "what a distance scores", va="center", weight="bold", **_words())
        self._scores.text(7.5, LOWEST + 0.5, "distances in training", ha="center", **_words("small"))

    def update(self, result: Any) -> None:
        pairs = result.pairs.numpy()
        for curve, values in zip(self._curves, (pairs[0], pairs[1], pairs.sum(axis=0)), strict=True):
            curve.set_data(self._distances, values)
        weights = np.array(result.weights)
        back = np.arange(len(weights))
        self._bars.set_verts(boxes(back - 0.4, 0, 0.8, weights))
        colours = [style.VALUE if distance == FIRST_GUESS else style.KEY for distance in back]
        self._bars.set_facecolor(colours)
        favourite = result.favourite
        side, ha = (-0.8, "right") if favourite > self._distances[-1] - 12 else (0.8, "left")
        self._winner.set(x=favourite + side, y=min(weights[favourite], 0.8), ha=ha, color=colours[favourite])
        self._winner.set_text(f"{favourite} back: {weights[favourite]:.2f}")
        self._title.set_text(f"where the query at position {result.position} looks, head {result.head + 1}")
        for veil in self._veils:
            veil.set_x(result.position - 0.5)

    def regions(self, result: Any) -> list[Area]:
        found, pairs = [], result.pairs
        for distance in self._distances.tolist():
            x = (distance - 0.5, distance + 0.5)
            first, second, total = pairs[0, distance], pairs[1, distance], pairs[:, distance].sum()
            words = f"{distance} back: fastest pair {first:.1f}, second pair {second:.1f}, all pairs {total:.1f}"
            found.append(region(self._scores, x, (LOWEST, HIGHEST), words.replace("-", "−")))
            if distance < len(result.weights):
                words = f"{distance} back: weight {result.weights[distance]:.2f}"
                found.append(region(self._looks, x, (0, 1), words))
        return found


def _words(size: str = "normal") -> dict[str, Any]:
    return {"fontsize": getattr(style.current(), f"font_{size}")}
