"""The visual vocabulary of the course: one colour per idea, one type scale, two sizes.

Every drawing takes its colours and sizes from here, so query, key, value and padding look the same from the
first figure to the last. The role colours are darkened members of the Okabe-Ito palette (Okabe and Ito 2008):
each is readable as text on white, and they stay apart under the common colour-vision deficiencies. Colour is
never the only signal: padding and forbidden cells are hatched, and every role is also named.
"""

from dataclasses import dataclass

import numpy as np
from matplotlib import colormaps
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import ListedColormap, to_rgb
from matplotlib.figure import Figure

FONT = "DejaVu Sans"  # ships with matplotlib, so it is there on every machine

QUERY = "#00569E"  # blue
KEY = "#C24E00"  # vermilion
VALUE = "#00825E"  # green
OUTPUT = "#8A2D70"  # purple
PAD = "#B4B4B4"  # grey, always with PAD_HATCH
FORBIDDEN = "#ECECEC"  # pale grey, always with FORBIDDEN_HATCH
ACCENT = "#E69F00"  # amber: outlines and highlights, never text on white
TEXT = "#1F2328"
MUTED = "#59636E"  # secondary text
GRID = "#D0D7DE"  # rules, frames and unused cells
BACKGROUND = "#FFFFFF"

PAD_HATCH = "///"
FORBIDDEN_HATCH = "xx"
HATCH_INK = "#6E6E6E"  # lines of the padding hatch
FORBIDDEN_INK = "#ABABAB"  # lines of the forbidden hatch, fainter so that a mark on it stays clear

# Curves of one chart: give each its own entry of all three.
SERIES = (QUERY, KEY, VALUE, OUTPUT, ACCENT, TEXT)
MARKERS = ("o", "s", "^", "D", "v", "X")
DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (1, 1)))

SCREEN_DPI = 110


@dataclass(frozen=True)
class Style:
    """How large things are drawn. Font sizes are in points; lines are in points too."""

    name: str
    css_scale: float
    font_small: float = 9.0
    font_normal: float = 11.0
    font_large: float = 13.0
    font_title: float = 15.0
    line: float = 1.6

    @property
    def dpi(self) -> float:
        """Pixels per inch of the drawing; a picture is shown pixel for pixel, so it sets its size too."""
        return SCREEN_DPI * self.css_scale


_STYLES = {"screen": Style("screen", css_scale=1.0), "projector": Style("projector", css_scale=1.5)}
_current = _STYLES["screen"]


def use(name: str) -> Style:
    """Choose "screen" or "projector" for every picture drawn from now on, and return it.

    A projector picture is the same picture drawn larger. Raises ValueError for any other name.
    """
    global _current
    if name not in _STYLES:
        raise ValueError(f'style must be "screen" or "projector", got {name!r}; choose one of these two')
    _current = _STYLES[name]
    return _current


def current() -> Style:
    """The style in use."""
    return _current


def scale() -> float:
    """How much larger than on a screen things are drawn: 1.0, or 1.5 for a projector."""
    return _current.css_scale


def new_figure(width: float, height: float) -> Figure:
    """An empty white figure of width × height inches, at the current dpi, on an Agg canvas (no pyplot)."""
    figure = Figure(figsize=(width, height), dpi=_current.dpi, facecolor=BACKGROUND)
    FigureCanvasAgg(figure)
    return figure


def tint(colour, amount: float = 0.85) -> tuple[float, float, float]:
    """The colour mixed with white: amount 0 leaves it alone, 1 gives white. For fills behind dark text."""
    if not 0 <= amount <= 1:
        raise ValueError(f"amount must lie between 0 and 1, got {amount}; 0.85 gives a pale fill")
    return tuple(channel + (1 - channel) * amount for channel in to_rgb(colour))


def luminance(colour) -> float:
    """Relative luminance of a colour, 0 for black to 1 for white (WCAG 2.2)."""
    channels = np.asarray(to_rgb(colour))
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ (0.2126, 0.7152, 0.0722))


def contrast(first, second) -> float:
    """Contrast ratio of two colours, 1 to 21 (WCAG 2.2). Text wants at least 4.5."""
    darker, lighter = sorted((luminance(first), luminance(second)))
    return (lighter + 0.05) / (darker + 0.05)


def text_on(colour) -> str:
    """White or black, whichever reads better on this background (at least 4.5 to 1); RGBA is welcome."""
    return max(("#FFFFFF", "#000000"), key=lambda ink: contrast(ink, colour))


def lightness(colour) -> float:
    """Perceived lightness L* of a colour, 0 to 100 (CIE 1976)."""
    relative = luminance(colour)
    return 116 * np.cbrt(relative) - 16 if relative > 216 / 24389 else relative * 24389 / 27


def _evenly(colours, darkest: float, steps: int) -> np.ndarray:
    """A dense ramp of colours, white end first, made into steps that are each darker by the same lightness."""
    dense = np.asarray(colours)[:, :3]
    light = np.array([lightness(colour) for colour in dense])
    wanted = np.linspace(light[0], darkest, steps)
    return np.stack([np.interp(-wanted, -light, channel) for channel in dense.T], axis=1)


def _from_white(colour: str) -> np.ndarray:
    return np.stack([tint(colour, amount) for amount in np.linspace(1, 0, 256)])


# Weights from 0 to 1: white means none, dark blue means all.
WEIGHTS = ListedColormap(_evenly(colormaps["Blues"](np.linspace(0, 1, 256)), darkest=22, steps=256), name="weights")
# Signed values: brown below zero, white at zero, petrol above; equally dark at both ends, and no role's colour.
_NEGATIVE, _POSITIVE = (_evenly(_from_white(end), darkest=36, steps=128) for end in ("#6B4423", "#0B5566"))
SIGNED = ListedColormap(np.vstack([_NEGATIVE[::-1], _POSITIVE]), name="signed")
