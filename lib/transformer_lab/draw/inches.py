"""A sheet measured in inches from its top left corner, for pictures that are laid out by hand."""

from collections.abc import Iterable

import numpy as np
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.text import Text

from transformer_lab.draw import style
from transformer_lab.draw.stamps import StampedText


class InchSheet:
    """One pair of axes over the whole figure; x runs right and y runs down, in inches."""

    def __init__(self, figure: Figure, width: float, height: float) -> None:
        self._sizes = style.current()
        self.axes = figure.add_axes((0, 0, 1, 1))
        self.axes.set(xlim=(0, width), ylim=(height, 0))
        self.axes.set_axis_off()

    def label(self, x: float, y: float, words: str, *, size: str = "small", **kwargs) -> Text:
        """Words that stay. ``size`` is small, normal, large or title."""
        return self.axes.text(x, y, words, **self._look(size, **kwargs))

    def _look(self, size: str = "small", **kwargs) -> dict:
        look = {"ha": "center", "va": "center", "color": style.TEXT, "zorder": 5, "family": style.FONT}
        return look | {"fontsize": getattr(self._sizes, f"font_{size}")} | kwargs

    def text(self, x: float, y: float, **kwargs) -> Text:
        """Words that change, empty at first."""
        text = StampedText(x, y, "", animated=True, transform=self.axes.transData, **self._look(**kwargs))
        return self.axes.add_artist(text)

    def texts(self, places: Iterable[tuple[float, float]], **kwargs) -> list[Text]:
        """One changing text at each place."""
        return [self.text(x, y, **kwargs) for x, y in places]

    def quads(self, zorder: float, **kwargs) -> PolyCollection:
        """Rectangles that change together: give them corners with ``set_verts(boxes(…))``."""
        quads = PolyCollection([], animated=True, zorder=zorder, **({"edgecolors": style.BACKGROUND} | kwargs))
        self.axes.add_collection(quads, autolim=False)
        return quads


def boxes(left, top, width, height) -> np.ndarray:
    """Corners of rectangles, one (4, 2) block each."""
    left, top, width, height = np.broadcast_arrays(left, top, width, height)
    xs = np.stack([left, left + width, left + width, left], axis=-1)
    ys = np.stack([top, top, top + height, top + height], axis=-1)
    return np.stack([xs, ys], axis=-1)


def number(value: float) -> str:
    """At most four characters and a sign: 0.60, −7.60, 70.5, 113, −∞."""
    if np.isneginf(value):
        return "−∞"
    digits = 2 if abs(value) < 9.995 else 1 if abs(value) < 99.95 else 0
    return f"{value:.{digits}f}".replace("-", "−")
