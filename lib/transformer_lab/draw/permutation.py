"""Two columns of tokens, before and after a shuffle, each token with its output vector as a strip of colours.

Every token has a number and a hue of its own, on its chip and on the line that joins it across: solid where its output
stayed the same, dashed where it changed. On the right a thin band repeats the old output above the new one, and a dot
marks every component that changed, in the area of the change.
"""

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path

from transformer_lab.draw import style
from transformer_lab.draw.canvas import Area, region
from transformer_lab.draw.sheet import SheetPicture, strip

WIDTH = 9.0
TOP, ROW, FOOT = 0.92, 0.62, 1.18
CHIP, BADGE, STRIP = 1.3, 0.28, 1.5  # widths
HEIGHT, BAND = 0.36, 0.12  # of chips and strips, and of the thin band with the old output
LEFT_CHIP, LEFT_STRIP = 0.44, 2.0
RIGHT_STRIP, RIGHT_CHIP = 4.78, 6.82
VERDICT = 8.24
SAME, CHANGED, NEUTRAL = style.VALUE, style.KEY, style.MUTED
HUES = ("#14A3B8", "#E05297", "#8C8A00", "#6457D6", "#8B6B4E", "#5FAE2B", "#56626E")  # of tokens; no role has these
VISIBLE = 1e-5  # smaller differences are rounding
FULL = 150  # area of the dot of a change of 1, in square points
HEADROOM = 1.1  # a strip after the shuffle may need a little more than those before


class PermutationPicture(SheetPicture):
    """Draws a shuffle: tokens, order, before, after, differences, changed, largest, moved, and picked tokens."""

    @staticmethod
    def size(result: Any) -> tuple[float, float]:
        return WIDTH, TOP + len(result.tokens) * ROW + FOOT

    @staticmethod
    def layout(result: Any) -> tuple:
        return result.tokens, result.before.shape[1]

    def __init__(self, figure: Figure, result: Any) -> None:
        self.open_sheet(figure, result)
        self._n, self._parts = result.before.shape
        self._draw_frame(result.tokens)
        self._lines = [self.axes.add_patch(PathPatch(Path(np.zeros((4, 2))), fill=False, animated=True, zorder=2))
                       for _ in range(self._n)]  # fmt: skip
        self._cells = self.cells()
        self._dots = self.axes.scatter([], [], animated=True, zorder=5, linewidths=0.7, edgecolors=style.BACKGROUND)
        self._dots.set_facecolor(style.TEXT)
        self._outlines = self.cells(facecolor="none", edgecolors=style.MUTED, linewidths=1.0, zorder=4)
        self._chips = [self._chip(RIGHT_CHIP, place, moves=True) for place in range(self._n)]
        self._marks = [self.text(VERDICT, self._middle(place), moves=True, ha="left", weight="bold")
                       for place in range(self._n)]  # fmt: skip
        ring = {"fill": False, "edgecolor": style.TEXT, "lw": 2.6, "zorder": 4}
        self._rings = [self.box(RIGHT_CHIP - BADGE, 0, CHIP + BADGE, HEIGHT, radius=0.1, moves=True, **ring)
                       for _ in range(2)]  # fmt: skip
        self._make_verdict()

    def _chip(self, left: float, place: int, moves: bool = False) -> tuple:
        """A badge for the number and a box for the word: the parts that `_name_chip` fills."""
        top, look = self._top(place), {"edgecolor": style.MUTED, "zorder": 3, "moves": moves}
        return (
            self.box(left - BADGE, top, CHIP + BADGE, HEIGHT, radius=0.1, **look),
            self.rectangle(left - BADGE + 0.03, top + 0.03, BADGE - 0.04, HEIGHT - 0.06, zorder=3, moves=moves),
            self.text(left - BADGE / 2, self._middle(place), moves=moves, weight="bold"),
            self.text(left + CHIP / 2, self._middle(place), moves=moves),
        )

    def _name_chip(self, chip: tuple, token: int, word: str) -> None:
        box, badge, number, name = chip
        box.set_facecolor(style.tint(HUES[token], 0.75))
        badge.set_facecolor(HUES[token])
        number.set(text=str(token + 1), color=style.text_on(HUES[token]))
        size = "normal" if len(word) <= 8 else "small"
        name.set(text=word, fontsize=getattr(style.current(), f"font_{size}"))

    def _draw_frame(self, tokens: tuple[str, ...]) -> None:
        heads = {"weight": "bold", "va": "baseline"}
        note = {"size": "small", "color": style.MUTED, "va": "baseline"}
        for left, name, words in ((LEFT_CHIP, "Before", "the tokens in order"),
                                  (RIGHT_CHIP, "After", "the same numbers, moved")):  # fmt: skip
            self.text(left + (CHIP - BADGE) / 2, 0.36, name, size="large", **heads)
            self.text(left + (CHIP - BADGE) / 2, 0.6, words, **note)
        for left, words in ((LEFT_STRIP, "one strip a token"), (RIGHT_STRIP, "thin band: before")):
            self.text(left + STRIP / 2, 0.36, "attention output", color=style.OUTPUT, **heads)
            self.text(left + STRIP / 2, 0.6, words, **note)
        self.text(VERDICT, 0.36, "change", ha="left", **heads)
        for place, token in enumerate(tokens):
            self._name_chip(self._chip(LEFT_CHIP, place), place, token)
            for x, away in ((LEFT_CHIP + CHIP + 0.13, "→"), (RIGHT_CHIP - BADGE - 0.13, "←")):
                self.text(x, self._middle(place), away, color=style.OUTPUT)

    def _make_verdict(self) -> None:
        left, top = LEFT_CHIP - BADGE, TOP + self._n * ROW + 0.08
        right = WIDTH - left
        self._frame = self.box(left, top, right - left, 0.46, moves=True, lw=1.2, zorder=2)
        words = {"size": "large", "moves": True, "weight": "bold"}
        self._count = self.text(left + 0.16, top + 0.23, ha="left", **words)
        self._largest = self.text(right - 0.16, top + 0.23, ha="right", **words)
        note = {"size": "small", "color": style.MUTED, "ha": "left"}
        steps = np.linspace(0, 1, 7)
        key = self.cells()
        key.set_animated(False)
        key.set_verts(strip(left + 0.16, top + 0.66, 0.9, 0.16, len(steps)))
        key.set(facecolor=style.SIGNED(steps), edgecolor=style.MUTED, linewidth=0.5)
        for x, sign in ((left, "−"), (left + 0.61, "0"), (left + 1.12, "+")):
            self.text(x, top + 0.74 + 0.19 * (sign == "0"), sign, **note | {"ha": "center" if sign == "0" else "left"})
        self.text(left + 1.42, top + 0.65, "dot: this component changed, the larger the more", **note)
        self.text(left + 1.42, top + 0.87, "line: solid where the output is the same, dashed where it changed", **note)
        self.text(RIGHT_CHIP - BADGE, top + 0.65, "framed: the two that “Swap them”", **note)
        self.text(RIGHT_CHIP - BADGE, top + 0.87, "exchanges", **note)

    def _top(self, place: int) -> float:
        return TOP + place * ROW

    def _middle(self, place: int) -> float:
        return self._top(place) + HEIGHT / 2

    def update(self, result: Any) -> None:
        before, after = result.before.numpy(), result.after.numpy()
        self._paint(result.order, before, after)
        self._set_dots(result.order, after - before)
        for place, token in enumerate(result.order):
            changed = result.changed[token]
            self._set_line(token, place, changed)
            self._name_chip(self._chips[place], token, result.tokens[token])
            difference = f"≠ {result.differences[token]:.2f}" if result.differences[token] >= 0.005 else "≠ 0.00…"
            self._marks[place].set(text=difference if changed else "= same", color=CHANGED if changed else SAME)
            self._marks[place].set_visible(result.moved)
        for index, ring in enumerate(self._rings):
            ring.set_visible(index < len(result.picked))
            if index < len(result.picked):
                ring.set_y(self._top(result.order.index(result.picked[index])))
        self._judge(result)

    def _judge(self, result: Any) -> None:
        count = sum(result.changed)
        colour = CHANGED if count else SAME if result.moved else NEUTRAL
        words = f"✗ {count} of {self._n} outputs changed" if count else "✓ every output followed its token"
        self._frame.set(facecolor=style.tint(colour, 0.86), edgecolor=colour)
        self._count.set(text=words if result.moved else "nothing has moved yet", color=colour)
        self._largest.set(text=f"largest difference {largest(result)}" if result.moved else "", color=colour)

    def _paint(self, order: tuple[int, ...], before: np.ndarray, after: np.ndarray) -> None:
        """Strips before, bands and strips after. One scale for all, set by those before: a shuffle keeps it."""
        limit = HEADROOM * np.abs(before).max()
        corners, values, outlines = [], [], []
        for place, token in enumerate(order):
            for left, top, height, row in (
                (LEFT_STRIP, self._top(place), HEIGHT, before[place]),
                (RIGHT_STRIP, self._top(place) - BAND - 0.03, BAND, before[token]),
                (RIGHT_STRIP, self._top(place), HEIGHT, after[token]),
            ):
                corners += strip(left, top, STRIP, height, self._parts)
                outlines += strip(left, top, STRIP, height, 1)
                values.append(row)
        self._cells.set_verts(corners)
        self._cells.set_facecolor(style.SIGNED(0.5 + np.concatenate(values) / (2 * limit)))
        self._outlines.set_verts(outlines)

    def _set_dots(self, order: tuple[int, ...], change: np.ndarray) -> None:
        centres = RIGHT_STRIP + (np.arange(self._parts) + 0.5) * STRIP / self._parts
        size = np.abs(change[list(order)])
        place, part = np.nonzero(size >= VISIBLE)
        ys = np.array([self._middle(p) for p in range(self._n)])
        self._dots.set_offsets(np.column_stack((centres[part], ys[place])))
        self._dots.set_sizes(np.clip(FULL * size[place, part], 2, FULL))

    def _set_line(self, token: int, place: int, changed: bool) -> None:
        start, end = (LEFT_STRIP + STRIP + 0.06, self._middle(token)), (RIGHT_STRIP - 0.06, self._middle(place))
        bend = 0.5 * (end[0] - start[0])
        points = [start, (start[0] + bend, start[1]), (end[0] - bend, end[1]), end]
        line = self._lines[token]
        line.set_path(Path(points, [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4]))
        line.set(edgecolor=HUES[token], linestyle=(0, (4, 1.6)) if changed else "-", linewidth=2.8)

    def regions(self, result: Any) -> list[Area]:
        found = []
        for place, token in enumerate(result.order):
            top = self._top(place)
            for left, y, index, row, when in (
                (LEFT_STRIP, top, place, result.before[place], "before"),
                (RIGHT_STRIP, top - BAND - 0.03, token, result.before[token], "before"),
                (RIGHT_STRIP, top, token, result.after[token], "after"),
            ):
                numbers = ", ".join(f"{number:.2f}".replace("-", "−") for number in row.tolist())
                words = f"{index + 1} {result.tokens[index]}, {when}: {numbers}"
                height = HEIGHT if y == top else BAND
                found.append(region(self.axes, (left, left + STRIP), (y, y + height), words))
        return found


def largest(result: Any) -> str:
    """The largest difference in three significant digits; five zeros where all is rounding."""
    return f"{result.largest:.3g}" if any(result.changed) else "0.00000"
