"""Drawing fast: what stays is drawn once and kept as a background; only what changes is drawn again.

A `Picture` says what stays and what changes; a `Canvas` keeps the drawn background, restores it for every new
result, draws the changing artists over it and encodes the PNG. Nothing here uses pyplot, so no figure is left open
or shown twice.
"""

import io
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text
from PIL import Image

from transformer_lab.draw import style
from transformer_lab.draw.stamps import draw_text


@dataclass(frozen=True)
class Region:
    """A rectangle of a picture, in pixels from its top left corner, and what it reads out under the pointer."""

    left: int
    top: int
    right: int
    bottom: int
    text: str


@dataclass(frozen=True)
class Area:
    """A rectangle in the data coordinates of ``axes``, and what it reads out; made with `region`."""

    axes: Axes
    x: tuple[float, float]
    y: tuple[float, float]
    text: str


@dataclass(frozen=True)
class Rendering:
    """A drawn picture: its PNG, its size in pixels and its readable regions."""

    png: bytes
    width: int
    height: int
    regions: tuple[Region, ...]


class Picture:
    """One way to draw one kind of result. Subclass it; a lesson or a widget names the subclass.

    ``__init__`` draws everything on ``figure``: what stays, as usual, and what changes, with ``animated=True`` (that
    includes whatever must lie on top of a changing artist). ``update`` sets the changing artists to a new result.
    Margins are set by hand: ``bbox_inches="tight"`` and constrained layout cost more than the drawing.
    """

    def __init__(self, figure: Figure, result: Any) -> None:
        raise NotImplementedError

    @staticmethod
    def size(result: Any) -> tuple[float, float]:
        """Width and height in inches. At most 9 inches wide, so that it fits a notebook page."""
        raise NotImplementedError

    @staticmethod
    def layout(result: Any) -> Hashable:
        """What must stay equal for the picture to be updated; anything else and it is built again."""
        return None

    def update(self, result: Any) -> None:
        """Set the changing artists. A picture that never changes has none."""

    def regions(self, result: Any) -> list[Area]:
        """What the pointer can read, made with `region`."""
        return []


def region(axes: Axes, x: tuple[float, float], y: tuple[float, float], text: str) -> Area:
    """What the pointer reads between two data coordinates a side of ``axes``."""
    return Area(axes, x, y, text)


def still(picture_class: type[Picture], result: Any) -> Figure:
    """A figure of its own that shows ``result`` and stays, to be saved in any format."""
    figure = style.new_figure(*picture_class.size(result))
    picture_class(figure, result).update(result)
    for artist in figure.findobj(lambda artist: artist.get_animated()):
        artist.set_animated(False)
    return figure


class Canvas:
    """Draws results of one `Picture` class, reusing the figure while its layout stays the same."""

    def __init__(self, picture_class: type[Picture]) -> None:
        self._picture_class = picture_class
        self._built_for: Hashable = None

    def render(self, result: Any) -> Rendering:
        """Draw ``result`` and encode it."""
        wanted = (style.current(), self._picture_class.size(result), self._picture_class.layout(result))
        # A failure leaves the next result nothing to trust: build again.
        try:
            if wanted != self._built_for:
                self._build(result)
                self._built_for = wanted
            self._picture.update(result)
            canvas = self._figure.canvas
            canvas.restore_region(self._background)
            for artist in self._changing:
                if isinstance(artist, Text):
                    draw_text(artist, canvas.get_renderer())
                else:
                    self._figure.draw_artist(artist)
            return self._encode(result)
        except Exception:
            self._built_for = None
            raise

    def _build(self, result: Any) -> None:
        self._figure = style.new_figure(*self._picture_class.size(result))
        self._picture = self._picture_class(self._figure, result)
        self._figure.canvas.draw()
        self._background = self._figure.canvas.copy_from_bbox(self._figure.bbox)
        self._changing = sorted(
            self._figure.findobj(lambda artist: artist.get_animated()),
            key=lambda artist: (artist.axes.get_zorder() if artist.axes else 0, artist.get_zorder()),
        )

    def _encode(self, result: Any) -> Rendering:
        image = Image.fromarray(np.asarray(self._figure.canvas.buffer_rgba())).convert("RGB")
        file = io.BytesIO()
        # Level 3 was the fastest of those measured on these mostly flat pictures, and near the smallest.
        image.save(file, format="png", compress_level=3)
        return Rendering(file.getvalue(), *image.size, _in_pixels(self._picture.regions(result)))


def _in_pixels(areas: Sequence[Area]) -> tuple[Region, ...]:
    # One transform for all areas of an axes: a map has more than a hundred of them.
    found = {}
    for axes in dict.fromkeys(area.axes for area in areas):
        places = [i for i, area in enumerate(areas) if area.axes is axes]
        corners = [corner for i in places for corner in zip(areas[i].x, areas[i].y, strict=True)]
        pixels = np.rint(axes.transData.transform(corners)).astype(int).reshape(-1, 2, 2)
        height = round(axes.figure.bbox.height)
        for i, ((left, low), (right, high)) in zip(places, np.sort(pixels, axis=1).tolist(), strict=True):
            found[i] = Region(left, height - high, right, height - low, areas[i].text)
    return tuple(found[i] for i in range(len(areas)))
