"""ALiBi: one slope a head, and how far back a head with that slope still looks."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from transformer_lab.draw import style
from transformer_lab.draw.canvas import Area, region
from transformer_lab.draw.sheet import SheetPicture

WIDTH, HEIGHT = 9.0, 3.7
BASE, TALLEST = 2.95, 2.1
LEFT, SLOPES = 0.55, 3.45  # the slopes
RIGHT, REACH = 4.65, 4.05  # the weights by distance
DEEPEST = 8.0  # the smallest slope is 2^-8
TOP_WEIGHT = 0.6  # no slope up to 2^-1/2 gives the nearest key more


class SlopesPicture(SheetPicture):
    """Draws an ALiBi view: slopes, head, weights by distance, and how many heads follow the power of two."""

    @staticmethod
    def size(result: Any) -> tuple[float, float]:
        return WIDTH, HEIGHT

    @staticmethod
    def layout(result: Any) -> tuple:
        return result.slopes, len(result.weights)

    def __init__(self, figure: Figure, result: Any) -> None:
        self.open_sheet(figure, result)
        self._draw_slopes(result)
        self._make_weights(len(result.weights))

    def _draw_slopes(self, result: Any) -> None:
        self.text(LEFT, 0.3, "slope of each head", ha="left", weight="bold")
        for power in range(0, 9, 2):
            y = self._height(2.0**-power)
            self.line((LEFT, LEFT + SLOPES), (y, y))
            label = f"1/{2**power}" if power else "1"
            self.text(LEFT - 0.07, y, label, size="small", ha="right", color=style.MUTED)
        self._slot = SLOPES / len(result.slopes)
        for head, slope in enumerate(result.slopes):
            borrowed = head >= result.from_the_rule
            x, y = self._bar(head), self._height(slope)
            self.line((x, x), (BASE + 0.06, y), color=style.QUERY, lw=1.4, linestyle=":" if borrowed else "-", zorder=2)
            self.line((x,), (y,), color=style.QUERY, marker="D" if borrowed else "o", ms=7, zorder=3,
                      mfc=style.BACKGROUND if borrowed else style.QUERY)  # fmt: skip
            self.text(x, BASE + 0.22, str(head + 1), size="small")
        words = "head"
        if len(result.slopes) > result.from_the_rule:
            words += f"   (◇ slopes borrowed from {2 * result.from_the_rule} heads)"
        self.text(LEFT + SLOPES / 2, BASE + 0.5, words, size="small", color=style.MUTED)
        (self._ring,) = self.axes.plot([], [], marker="o", ms=16, mfc="none", mec=style.ACCENT, mew=3, animated=True,
                                       zorder=4)  # fmt: skip

    def _make_weights(self, n: int) -> None:
        self._title = self.text(RIGHT, 0.3, moves=True, ha="left", weight="bold")
        self.text(RIGHT - 0.44, BASE - TALLEST / 2, "weight", rotation=90, size="small", color=style.MUTED)
        self.line((RIGHT, RIGHT + REACH), (BASE, BASE), color=style.MUTED)
        for share in (0.0, 0.2, 0.4, 0.6):
            y = BASE - TALLEST * share / TOP_WEIGHT
            self.line((RIGHT, RIGHT + REACH), (y, y))
            self.text(RIGHT - 0.07, y, f"{share:.1f}", size="small", ha="right", color=style.MUTED)
        step = REACH / n
        self._edges = RIGHT + step * np.arange(n + 1)
        for distance in range(0, n, 5):
            self.text(self._edges[distance] + step / 2, BASE + 0.22, str(distance), size="small")
        self.text(RIGHT + REACH / 2, BASE + 0.5, "how far back the key stands", size="small", color=style.MUTED)
        self._bars = self.cells(facecolor=style.tint(style.QUERY, 0.3), edgecolors=style.BACKGROUND)

    def _height(self, slope: float) -> float:
        return BASE - TALLEST * (1 + np.log2(slope) / DEEPEST)

    def _bar(self, head: int) -> float:
        return LEFT + (head + 0.5) * self._slot

    def update(self, result: Any) -> None:
        slope = result.slopes[result.head]
        self._ring.set_data([self._bar(result.head)], [self._height(slope)])
        self._title.set_text(f"head {result.head + 1}: its weights over equal scores")
        tops = BASE - TALLEST * np.array(result.weights) / TOP_WEIGHT
        pairs = zip(self._edges, self._edges[1:], tops, strict=False)
        self._bars.set_verts([np.array([(a, BASE), (b, BASE), (b, top), (a, top)]) for a, b, top in pairs])

    def regions(self, result: Any) -> list[Area]:
        found = []
        for head, slope in enumerate(result.slopes):
            x = (self._bar(head) - self._slot / 2, self._bar(head) + self._slot / 2)
            found.append(region(self.axes, x, (BASE - TALLEST, BASE), f"head {head + 1}: slope {slope:.4g}"))
        for distance, weight in enumerate(result.weights):
            x = (self._edges[distance], self._edges[distance + 1])
            found.append(region(self.axes, x, (BASE - TALLEST, BASE), f"{distance} back: weight {weight:.3f}"))
        return found
