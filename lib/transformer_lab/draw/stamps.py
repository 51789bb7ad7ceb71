"""Changing text, drawn fast: the same words in the same look are rasterised once and then stamped.

Rasterising is most of what a changing picture costs. The numbers of a map repeat from one update to the next, so a kept
bitmap of each saves nearly all of it.
"""

import functools

import numpy as np
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.text import Text

from transformer_lab.draw import style


def draw_text(text: Text, renderer: RendererAgg) -> None:
    """Draw ``text`` as `Text.draw` does, from a kept bitmap where it is plain: level, unclipped, without a box."""
    words = text.get_text()
    if not words or not text.get_visible():
        return
    # A text of a figure may be clipped, but has nothing to be clipped by.
    clipped = text.get_clip_on() and not (text.get_clip_box() is None and text.get_clip_path() is None)
    if text.get_rotation() or text.get_bbox_patch() or clipped or text.get_path_effects():
        text.draw(renderer)
        return
    font = text.get_fontproperties()
    look = (tuple(font.get_family()), font.get_style(), font.get_weight(), font.get_size())
    placing = (text.get_ha(), text.get_va(), text._linespacing, text.get_parse_math(), text.get_alpha())
    stamp, left, low = _stamp(words, renderer.dpi, look, text.get_color(), placing)
    x, y = np.rint(text.get_transform().transform(text.get_unitless_position()))
    context = renderer.new_gc()
    renderer.draw_image(context, x + left, y + low, stamp)
    context.restore()


@functools.lru_cache(maxsize=4096)
def _stamp(words: str, dpi: float, look: tuple, colour: str | tuple, placing: tuple) -> tuple[np.ndarray, int, int]:
    """The bitmap of ``words``, bottom row first, and where its lower left corner lies seen from the anchor."""
    figure = _sheet(dpi)
    renderer = figure.canvas.get_renderer()
    renderer.clear()
    middle = np.rint(figure.bbox.size / 2)
    family, slant, weight, size = look
    ha, va, linespacing, parse_math, alpha = placing
    text = Text(
        *middle, words, color=colour, ha=ha, va=va, linespacing=linespacing, parse_math=parse_math, alpha=alpha,
        fontproperties=FontProperties(family=list(family), style=slant, weight=weight, size=size),
    )  # fmt: skip
    text.set_figure(figure)
    text.draw(renderer)
    pixels = np.asarray(figure.canvas.buffer_rgba())[::-1]
    rows, columns = (np.flatnonzero(pixels[..., 3].any(axis=axis)) for axis in (1, 0))
    if not rows.size:  # blanks alone
        return pixels[:1, :1].copy(), 0, 0
    stamp = pixels[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1].copy()
    return stamp, int(columns[0] - middle[0]), int(rows[0] - middle[1])


@functools.lru_cache(maxsize=2)
def _sheet(dpi: float) -> Figure:
    """A transparent sheet, wider than two pictures, on which one text at a time is rasterised."""
    figure = style.new_figure(20.0, 3.0)
    figure.dpi = dpi
    return figure
