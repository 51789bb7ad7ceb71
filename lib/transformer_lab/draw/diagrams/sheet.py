"""The few primitives every diagram is made of: a sheet measured in page pixels, boxes, arrows, text and cells.

The origin is the top left corner, x runs right and y runs down, so a diagram is laid out as it is read. One unit is
one CSS pixel of the saved SVG at its natural size, for positions, line widths and type alike.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyArrowPatch, FancyBboxPatch, Rectangle

from transformer_lab.draw import style

Point = tuple[float, float]
PIXELS_PER_INCH = 96
POINTS = 72 / PIXELS_PER_INCH  # points in a pixel

LINE = 2.0  # the one stroke width; FINE is for the rules between cells
FINE = 1.2
CAPITALS = 0.73  # height of a capital letter of DejaVu Sans, as a share of the font size


@dataclass(frozen=True)
class Box:
    """A rectangle on the sheet, with the points where arrows start and end."""

    x: float
    y: float
    width: float
    height: float

    def at(self, across: float, down: float) -> Point:
        """The point at these fractions of width and height: at(0.5, 1) is the middle of the bottom edge."""
        return self.x + across * self.width, self.y + down * self.height

    @property
    def left(self) -> Point:
        return self.at(0, 0.5)

    @property
    def right(self) -> Point:
        return self.at(1, 0.5)

    @property
    def top(self) -> Point:
        return self.at(0.5, 0)

    @property
    def bottom(self) -> Point:
        return self.at(0.5, 1)

    @property
    def centre(self) -> Point:
        return self.at(0.5, 0.5)


class Sheet:
    """A white, rounded sheet of paper of width × height pixels to draw a diagram on; `figure` is the result."""

    def __init__(self, width: float, height: float):
        self.width, self.height = width, height
        self.figure: Figure = style.new_figure(width / PIXELS_PER_INCH, height / PIXELS_PER_INCH)
        self.figure.patch.set_visible(False)  # the rounded sheet below is the background
        self.axes = self.figure.add_axes((0, 0, 1, 1))
        self.axes.set_xlim(0, width)
        self.axes.set_ylim(height, 0)
        self.axes.axis("off")
        self.box(0.5, 0.5, width - 1, height - 1, fill=style.BACKGROUND, edge=style.GRID, radius=12, line=1)

    def text(self, x, y, words, size=16, colour=style.TEXT, ha="center", va="center", bold=False, turn=0):
        """Words at a point; size in pixels. One line of level text is set on a common baseline, so that
        neighbours with and without descenders line up.
        """
        weight = "bold" if bold else "normal"
        if va == "center" and turn == 0 and "\n" not in words:
            y, va = y + CAPITALS / 2 * size, "baseline"
        self.axes.text(
            x, y, words, fontsize=size * POINTS, color=colour, ha=ha, va=va, fontweight=weight, rotation=turn,
            fontfamily=style.FONT, linespacing=1.3, parse_math=False, zorder=6,
        )  # fmt: skip

    def box(
        self, x, y, width, height, words="", *, fill=style.BACKGROUND, edge=style.TEXT, size=16, colour=None,
        bold=False, radius=6, line=LINE, dashed=False, hatch=None, turn=0, zorder=2,
    ) -> Box:  # fmt: skip
        """A rounded box with words in the middle; the words take a colour that reads on the fill."""
        self.axes.add_patch(
            FancyBboxPatch(
                (x, y), width, height, boxstyle=f"round,pad=0,rounding_size={radius}", facecolor=fill,
                edgecolor=edge, linewidth=line * POINTS, linestyle=(0, (4, 3)) if dashed else "-", zorder=zorder,
            )
        )  # fmt: skip
        if hatch:
            self._hatch(x, y, width, height, hatch, style.HATCH_INK, zorder)
        place = Box(x, y, width, height)
        if words:
            ink = colour or (style.TEXT if style.contrast(style.TEXT, fill) > 4.5 else style.text_on(fill))
            self.text(*place.centre, words, size=size, colour=ink, bold=bold, turn=turn)
        return place

    def _hatch(self, x, y, width, height, hatch, ink, zorder):
        patch = Rectangle((x, y), width, height, fill=False, edgecolor=ink, hatch=hatch)
        patch.set(linewidth=0, zorder=zorder)
        patch.set_hatch_linewidth(1.2 * POINTS)
        self.axes.add_patch(patch)

    def line(self, *points: Point, colour=style.TEXT, width=LINE, dashed=False, zorder=3):
        """A line through the points."""
        xs, ys = zip(*points, strict=True)
        dashes = (0, (4, 3)) if dashed else "-"
        self.axes.plot(
            xs, ys, color=colour, linewidth=width * POINTS, linestyle=dashes, solid_joinstyle="round", zorder=zorder
        )

    def arrow(self, *points: Point, colour=style.TEXT, width=LINE, dashed=False, curve=0.0, head=16, zorder=4):
        """An arrow through the points whose tip touches the last one; curve bends a two-point arrow."""
        if len(points) > 2:
            self.line(*points[:-1], colour=colour, width=width, dashed=dashed, zorder=zorder)
        self.axes.add_patch(
            FancyArrowPatch(
                points[-2], points[-1], arrowstyle="-|>,head_length=0.5,head_width=0.28", shrinkA=0, shrinkB=0,
                mutation_scale=head * POINTS, connectionstyle=f"arc3,rad={curve}", color=colour,
                linewidth=width * POINTS, linestyle=(0, (4, 3)) if dashed else "-", joinstyle="miter",
                capstyle="butt", zorder=zorder,
            )
        )  # fmt: skip

    def dot(self, x, y, radius=4, fill=style.TEXT, edge=None, words="", size=15, line=LINE):
        """A disc, with a word or a sign in it if asked."""
        self.axes.add_patch(
            Circle((x, y), radius, facecolor=fill, edgecolor=edge or fill, linewidth=line * POINTS, zorder=5)
        )
        if words:
            self.text(x, y, words, size=size, colour=style.TEXT, bold=True)

    def cells(self, x, y, fills: Sequence[Sequence], size=28, edge=style.BACKGROUND, frame=style.TEXT) -> Box:
        """A grid of coloured cells from rows of fills; a fill of None is a forbidden cell, hatched."""
        rows, columns = len(fills), len(fills[0])
        for row, line in enumerate(fills):
            for column, fill in enumerate(line):
                left, top = x + column * size, y + row * size
                ground = style.FORBIDDEN if fill is None else fill
                self.axes.add_patch(Rectangle((left, top), size, size, facecolor=ground, linewidth=0, zorder=2))
                if fill is None:
                    self._hatch(left, top, size, size, style.FORBIDDEN_HATCH, style.FORBIDDEN_INK, zorder=2)
        for column in range(1, columns):
            across = x + column * size
            self.line((across, y), (across, y + rows * size), colour=edge, width=FINE, zorder=2)
        for row in range(1, rows):
            down = y + row * size
            self.line((x, down), (x + columns * size, down), colour=edge, width=FINE, zorder=2)
        return self.box(x, y, columns * size, rows * size, fill="none", edge=frame, radius=2, line=FINE, zorder=3)
