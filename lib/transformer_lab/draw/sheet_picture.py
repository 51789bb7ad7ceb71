"""A picture measured in inches from its top left corner, with the three things most of them are made of."""

from typing import Any

from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle
from matplotlib.text import Text

from transformer_lab.draw import style
from transformer_lab.draw.canvas import Picture


class SheetPicture(Picture):
    """One axes over the whole figure, in inches, y downwards. ``moves`` marks what `update` changes."""

    def __init__(self, figure: Figure, result: Any) -> None:
        width, height = self.size(result)
        self._sizes = style.current()
        self.axes = figure.add_axes((0, 0, 1, 1))
        self.axes.set(xlim=(0, width), ylim=(height, 0))
        self.axes.set_axis_off()

    def text(
        self, x: float, y: float, words: str = "", *, size: str = "normal", moves: bool = False, **kwargs: Any
    ) -> Text:
        """Words, centred on a point unless told otherwise; ``size`` is small, normal, large or title."""
        points = getattr(self._sizes, f"font_{size}")
        defaults = {
            "ha": "center", "va": "center", "color": style.TEXT, "fontsize": points, "family": style.FONT, "zorder": 5
        }  # fmt: skip
        return self.axes.text(x, y, words, animated=moves, **(defaults | kwargs))

    def box(self, x: float, y: float, width: float, height: float, *, moves: bool = False, **kwargs: Any) -> Rectangle:
        """A rectangle by its top left corner."""
        return self.axes.add_patch(Rectangle((x, y), width, height, animated=moves, **({"zorder": 2} | kwargs)))

    def frame(self, x: float, y: float, width: float, height: float, **kwargs: Any) -> FancyBboxPatch:
        """A rectangle with round corners that changes."""
        shape = "round,pad=0,rounding_size=0.06"
        return self.axes.add_patch(
            FancyBboxPatch((x, y), width, height, boxstyle=shape, animated=True, zorder=2, **kwargs)
        )

    def line(self, x: tuple[float, float], y: tuple[float, float], **kwargs: Any) -> None:
        """A rule that stays."""
        self.axes.plot(x, y, **({"color": style.GRID, "lw": 1, "zorder": 1} | kwargs))
