"""Vectors that turn: sinusoids as the hands of clocks, and the pairs of a query and a key under RoPE."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Wedge

from transformer_lab.draw import style
from transformer_lab.draw.canvas import Area, region
from transformer_lab.draw.sheet import SheetPicture, strip

WIDTH = 9.0
LABELS = 1.0  # left of the strips
HERE, THERE = style.TEXT, style.OUTPUT  # the hand of a position, and that of the shifted one


class Dial:
    """A ring with hands that change. Points are (x to the right, y up), as on paper."""

    def __init__(self, sheet: SheetPicture, x: float, y: float, radius: float, reach: float = 1.0) -> None:
        self.x, self.y, self.radius, self.reach = x, y, radius, reach
        self._sheet = sheet
        sheet.axes.add_patch(Circle((x, y), radius, facecolor=style.BACKGROUND, edgecolor=style.GRID, lw=1.6))
        for turn in np.arange(0, 2 * np.pi, np.pi / 6):
            inner, outer = (share * radius * np.array([np.cos(turn), np.sin(turn)]) for share in (0.9, 1.0))
            sheet.line((x + inner[0], x + outer[0]), (y + inner[1], y + outer[1]))

    def hand(self, colour: str, **kwargs: Any):
        """A hand with a tip; move it with `point`."""
        return self._sheet.line(
            moves=True, color=colour, **{"lw": 2.6, "zorder": 4, "marker": "o", "markevery": [1], "ms": 7, **kwargs}
        )

    def point(self, hand: Any, x: float, y: float) -> None:
        length = self.radius / self.reach
        hand.set_data((self.x, self.x + length * x), (self.y, self.y - length * y))


class ClockPicture(SheetPicture):
    """Draws a clock: position, shift, wavelengths, and the (sine, cosine) of two positions for every pair."""

    @staticmethod
    def size(result: Any) -> tuple[float, float]:
        return WIDTH, 3.95

    @staticmethod
    def layout(result: Any) -> tuple:
        return result.wavelengths

    def __init__(self, figure: Figure, result: Any) -> None:
        self.open_sheet(figure, result)
        count = len(result.wavelengths)
        slot = (WIDTH - LABELS - 0.15) / count
        radius = min(0.78, slot * 0.42)
        self._dials, self._hands, self._wedges, self._lefts = [], [], [], []
        for pair, wavelength in enumerate(result.wavelengths):
            x, y = LABELS + (pair + 0.5) * slot, 1.5
            dial = Dial(self, x, y, radius)
            wedge = Wedge((x, y), radius * 0.55, 0, 0, facecolor=style.tint(style.OUTPUT, 0.75), zorder=3)
            wedge.set_animated(True)
            self._wedges.append(self.axes.add_patch(wedge))
            self._hands.append((dial.hand(HERE), dial.hand(THERE, linestyle=(0, (3, 1.5)), marker="D", ms=6)))
            self._dials.append(dial)
            names = f"pair i = {pair}" if count <= 4 else f"i = {pair}"
            self.text(x, y - radius - 0.2, names, size="small", color=style.MUTED)
            self.text(x, y + radius + 0.22, f"once round in\n{_positions(wavelength, count)}", size="small", va="top")
            width = 0.84 * min(slot, 1.5)
            self._lefts.append((x - width / 2, width))
            for name, side in (("sin", -1), ("cos", 1)):
                self.text(x + side * width / 4, 3.02, name, size="small", color=style.MUTED, va="baseline")
        self._here = self.text(0.3, 0.28, size="large", moves=True, ha="left", weight="bold", color=HERE)
        self._there = self.text(2.6, 0.28, size="large", moves=True, ha="left", weight="bold", color=THERE)
        self._dot = self.text(WIDTH - 0.3, 0.28, size="large", moves=True, ha="right", weight="bold")
        self._strips = self.cells(linewidths=0.8, edgecolors=style.MUTED)
        self._strip_y = 3.12
        for row, colour, name in ((0, HERE, "● PE(p)"), (1, THERE, "◆ PE(p + k)")):
            y = self._strip_y + 0.4 * row + 0.17
            self.text(0.12, y, name, ha="left", size="small", weight="bold", color=colour)

    def update(self, result: Any) -> None:
        self._here.set_text(f"● PE({result.position})")
        self._there.set_text(f"◆ PE({result.position + result.shift})")
        self._dot.set_text(f"PE({result.position}) · PE({result.position + result.shift}) = {_signed(result.dot)}")
        first, second = result.first.numpy(), result.second.numpy()
        corners = []
        for pair, dial in enumerate(self._dials):
            for hand, (sine, cosine) in zip(self._hands[pair], (first[pair], second[pair]), strict=True):
                dial.point(hand, sine, cosine)
            # The hands start at twelve and go clockwise; a wedge is measured from three, and y runs down the sheet.
            # Whole turns do not show, and of the two angles between the hands the smaller one is shaded.
            start = np.degrees(np.arctan2(first[pair][0], first[pair][1])) - 90
            between = (360 * result.shift / result.wavelengths[pair] + 180) % 360 - 180
            self._wedges[pair].set(theta1=start + min(between, 0), theta2=start + max(between, 0))
            left, width = self._lefts[pair]
            for row in range(2):
                corners += strip(left, self._strip_y + 0.4 * row, width, 0.34, 2)
        values = np.stack((first, second), axis=1).reshape(-1)  # pair, row, component: the order of the corners
        self._strips.set_verts(corners)
        self._strips.set_facecolor(style.SIGNED(0.5 + values / 2))

    def regions(self, result: Any) -> list[Area]:
        found = []
        for pair, dial in enumerate(self._dials):
            (a, b), (c, d) = result.first[pair].tolist(), result.second[pair].tolist()
            words = f"pair {pair}: sin {_signed(a)}, cos {_signed(b)}; then sin {_signed(c)}, cos {_signed(d)}"
            reach = dial.radius
            x, y = (dial.x - reach, dial.x + reach), (dial.y - reach, dial.y + reach)
            found.append(region(self.axes, x, y, words))
        return found


class RopePairPicture(SheetPicture):
    """Draws a RoPE pair: positions, pairs, the query and the key as they are and turned, and what each pair scores."""

    @staticmethod
    def size(result: Any) -> tuple[float, float]:
        return WIDTH, 3.6

    @staticmethod
    def layout(result: Any) -> tuple:
        return result.pairs

    def __init__(self, figure: Figure, result: Any) -> None:
        self.open_sheet(figure, result)
        self._dials, self._hands, self._added = [], [], []
        longest = max(float(vectors.norm(dim=1).max()) for vectors in (result.query, result.key)) * 1.06
        for index, (first, second) in enumerate(result.pairs):
            x = 1.35 + 2.6 * index
            dial = Dial(self, x, 1.85, 1.05, longest)
            for vector, colour in ((result.query[index], style.QUERY), (result.key[index], style.KEY)):
                pale = self.line(color=style.tint(colour, 0.6), lw=1.6, zorder=2, dashes=(3, 2))
                dial.point(pale, *vector.tolist())
            self._hands.append((dial.hand(style.QUERY), dial.hand(style.KEY, marker="D", ms=6.5)))
            self._dials.append(dial)
            self.text(x, 0.55, f"components {first} and {second}", weight="bold")
            self._added.append(self.text(x, 3.2, moves=True))
        self._draw_right(result)

    def _draw_right(self, result: Any) -> None:
        left, width = 5.75, 2.9
        self._places = [
            self.text(left, y, moves=True, ha="left", weight="bold", color=colour)
            for y, colour in ((0.55, style.QUERY), (0.86, style.KEY))
        ]
        self.line((left, left + 0.4), (1.12, 1.12), color=style.MUTED, lw=1.6, dashes=(3, 2))
        self.text(left + 0.5, 1.12, "as it was before turning", ha="left", size="small", color=style.MUTED)
        self.text(left, 1.46, "which components turn together", ha="left", size="small", color=style.MUTED)
        partner = {component: index for index, pair in enumerate(result.pairs) for component in pair}
        for component in range(4):
            fill = (style.tint(style.ACCENT, 0.55), style.tint(style.OUTPUT, 0.7))[partner[component]]
            hatch = (None, "///")[partner[component]]
            x = left + component * width / 4
            self.box(x, 1.6, width / 4 - 0.05, 0.4, radius=0.03, facecolor=fill, edgecolor=style.MUTED, hatch=hatch)
            label = {"boxstyle": "round,pad=0.2", "facecolor": style.BACKGROUND, "edgecolor": "none"}
            self.text(x + width / 8, 1.8, str(component), bbox=label)
        self.box(left, 2.2, width, 1.05, facecolor=style.tint(style.VALUE, 0.9), edgecolor=style.VALUE, lw=1.2)
        self._distance = self.text(left + 0.15, 2.5, moves=True, ha="left")
        self._score = self.text(left + 0.15, 2.93, moves=True, ha="left", size="large", weight="bold")

    def update(self, result: Any) -> None:
        for index, (dial, hands) in enumerate(zip(self._dials, self._hands, strict=True)):
            dial.point(hands[0], *result.turned_query[index].tolist())
            dial.point(hands[1], *result.turned_key[index].tolist())
            self._added[index].set_text(f"adds {_signed(result.scores[index])}")
        self._places[0].set_text(f"● query at position {result.query_position}")
        self._places[1].set_text(f"◆ key at position {result.key_position}")
        self._distance.set_text(f"distance {_whole(result.query_position - result.key_position)}")
        self._score.set_text(f"score {_signed(result.score)}")


def _positions(wavelength: float, count: int) -> str:
    number = f"{wavelength:.1f}" if wavelength < 100 else f"{wavelength:,.0f}"
    return f"{number} positions" if count <= 4 else number


def _signed(number: float) -> str:
    return f"{number:.3f}".replace("-", "−") if round(number, 3) else "0.000"


def _whole(number: int) -> str:
    return str(number).replace("-", "−")
