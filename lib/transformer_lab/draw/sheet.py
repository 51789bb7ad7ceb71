"""A picture laid out on one sheet that is measured in inches from its top left corner."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle
from matplotlib.text import Text

from transformer_lab.draw import style
from transformer_lab.draw.canvas import Picture


class SheetPicture(Picture):
    """A `Picture` with one set of axes in inches; call `open_sheet` first. ``moves`` marks what `update` changes."""

    def open_sheet(self, figure: Figure, result: Any) -> None:
        width, height = self.size(result)
        self.axes = figure.add_axes((0, 0, 1, 1))
        self.axes.set(xlim=(0, width), ylim=(height, 0))
        self.axes.set_axis_off()

    def text(
        self, x: float, y: float, words: str = "", *, size: str = "normal", moves: bool = False, **kwargs: Any
    ) -> Text:
        """Words around a point; ``size`` is small, normal, large or title."""
        points = getattr(style.current(), f"font_{size}")
        look = {"ha": "center", "va": "center", "color": style.TEXT, "family": style.FONT, "zorder": 5} | kwargs
        return self.axes.text(x, y, words, fontsize=points, animated=moves, parse_math=False, **look)

    def stamp(self, x: float, y: float, *, size: str = "small", **kwargs: Any) -> Text:
        """Words that change, empty at first."""
        return self.text(x, y, size=size, moves=True, **kwargs)

    def stamps(self, places: Iterable[tuple[float, float]], **kwargs: Any) -> list[Text]:
        """One changing text at each place."""
        return [self.stamp(x, y, **kwargs) for x, y in places]

    def rectangle(
        self, x: float, y: float, width: float, height: float, *, moves: bool = False, **kwargs: Any
    ) -> Rectangle:
        """A rectangle by its top left corner."""
        return self.axes.add_patch(Rectangle((x, y), width, height, animated=moves, **({"zorder": 2} | kwargs)))

    def box(
        self, x: float, y: float, width: float, height: float, *, radius: float = 0.08, moves: bool = False,
        **kwargs: Any,
    ) -> FancyBboxPatch:  # fmt: skip
        """A rounded box by its top left corner."""
        shape = f"round,pad=0,rounding_size={radius}"
        return self.axes.add_patch(FancyBboxPatch((x, y), width, height, boxstyle=shape, animated=moves, **kwargs))

    def cells(self, **kwargs: Any) -> PolyCollection:
        """An empty collection of changing cells, to be given corners and colours."""
        look = {"edgecolors": style.BACKGROUND, "linewidths": 0.8, "zorder": 3} | kwargs
        collection = PolyCollection([], animated=True, **look)
        self.axes.add_collection(collection, autolim=False)
        return collection

    def line(self, x: Any = (), y: Any = (), *, moves: bool = False, **kwargs: Any):
        """A line through points."""
        return self.axes.plot(x, y, animated=moves, **{"color": style.GRID, "lw": 1, "zorder": 1, **kwargs})[0]


def strip(left: float, top: float, width: float, height: float, n: int) -> list[np.ndarray]:
    """The corners of ``n`` equal cells side by side."""
    edges = left + np.linspace(0, width, n + 1)
    low, high = top, top + height
    return [np.array([(a, low), (b, low), (b, high), (a, high)]) for a, b in zip(edges, edges[1:], strict=False)]


def boxes(left: Any, top: Any, width: Any, height: Any) -> np.ndarray:
    """The corners of cells anywhere, one (4, 2) block each; numbers and arrays mix as numpy broadcasts them."""
    left, top, width, height = np.broadcast_arrays(left, top, width, height)
    xs = np.stack([left, left + width, left + width, left], axis=-1)
    ys = np.stack([top, top, top + height, top + height], axis=-1)
    return np.stack([xs, ys], axis=-1)
