"""Text that changes often, drawn fast: the same words in the same look are rasterised once and then stamped.

Rasterising is most of what a changing picture costs. The numbers of a map repeat from one update to the next, so a kept
bitmap of each saves nearly all of it.
"""

import functools

import numpy as np
from matplotlib.figure import Figure
from matplotlib.text import Text

from transformer_lab.draw import style


class StampedText(Text):
    """A `Text` whose bitmap is kept and used again: level text in one look, without a box behind it."""

    def set_rotation(self, angle) -> None:
        """Refuse any turn, with ValueError: a stamp is level."""
        if angle not in (None, 0, "horizontal"):
            raise ValueError(f"rotation is {angle!r}, but a stamp is level; use a plain Text for turned words.")
        super().set_rotation(angle)

    def draw(self, renderer) -> None:
        words = self.get_text()
        if not words or not self.get_visible():
            return
        look = (self.get_fontsize(), self.get_weight(), self.get_style(), self.get_color())
        stamp, left, low = _stamp(words, renderer.dpi, *look, self.get_ha(), self.get_va())
        x, y = np.rint(self.get_transform().transform(self.get_unitless_position()))
        context = renderer.new_gc()
        renderer.draw_image(context, x + left, y + low, stamp)
        context.restore()


@functools.lru_cache(maxsize=4096)
def _stamp(words, dpi, size, weight, slant, colour, ha, va) -> tuple[np.ndarray, int, int]:
    """The bitmap of ``words``, bottom row first, and where its lower left corner lies seen from the anchor."""
    figure = _sheet(dpi)
    renderer = figure.canvas.get_renderer()
    renderer.clear()
    middle = np.rint(figure.bbox.size / 2)
    text = Text(
        *middle, words, fontsize=size, weight=weight, style=slant, color=colour, ha=ha, va=va, family=style.FONT,
        linespacing=1.05,
    )  # fmt: skip
    text.set_figure(figure)
    text.draw(renderer)
    pixels = np.asarray(figure.canvas.buffer_rgba())[::-1]
    rows, columns = (np.flatnonzero(pixels[..., 3].any(axis=axis)) for axis in (1, 0))
    top, right = rows[-1] + 1, columns[-1] + 1
    stamp = pixels[rows[0] : top, columns[0] : right].copy()
    return stamp, int(columns[0] - middle[0]), int(rows[0] - middle[1])


@functools.lru_cache(maxsize=2)
def _sheet(dpi: float) -> Figure:
    """A transparent sheet on which one text at a time is rasterised."""
    figure = style.new_figure(12.0, 2.0)
    figure.dpi = dpi
    return figure
