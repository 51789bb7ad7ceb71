"""Two columns of tokens, before and after a shuffle, each token with its output vector as a strip of colours.

A line joins the same token across. Where its output stayed the same the line is solid and green, where it changed
the line is dashed and vermilion, and a dot marks every component that changed, larger for a larger change.
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
TOP, ROW, FOOT = 0.92, 0.56, 0.72
CHIP, STRIP, HEIGHT = 1.3, 1.64, 0.38  # widths of a chip and a strip, and the height of both
LEFT_CHIP, LEFT_STRIP = 0.36, 1.74
RIGHT_STRIP, RIGHT_CHIP = 4.92, 6.64
VERDICT = 8.05
SAME, CHANGED = style.VALUE, style.KEY
VISIBLE = 1e-5  # smaller differences are rounding
FULL = 1.0  # a change that fills its dot


class PermutationPicture(SheetPicture):
    """Draws a shuffle: tokens, order, before, after, differences, changed, largest, and picked tokens."""

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
        self._dots = self.axes.scatter([], [], animated=True, zorder=4, linewidths=0.8, edgecolors=style.BACKGROUND)
        self._dots.set_facecolor(style.TEXT)
        self._words, self._marks = [], []
        for place in range(self._n):
            self._chip(RIGHT_CHIP, place)
            self._words.append(self.text(RIGHT_CHIP + CHIP / 2, self._middle(place), moves=True))
            self._marks.append(self.text(VERDICT, self._middle(place), moves=True, ha="left", weight="bold"))
        ring = {"fill": False, "edgecolor": style.TEXT, "lw": 2.6, "zorder": 4}
        self._rings = [self.box(RIGHT_CHIP, 0, CHIP, HEIGHT, radius=0.12, moves=True, **ring) for _ in range(2)]
        self._make_verdict()

    def _chip(self, left: float, place: int) -> None:
        fill = style.tint(style.ACCENT, 0.72)
        self.box(left, self._top(place), CHIP, HEIGHT, radius=0.12, facecolor=fill, edgecolor=style.MUTED, zorder=3)

    def _draw_frame(self, tokens: tuple[str, ...]) -> None:
        heads = {"weight": "bold", "va": "baseline"}
        self.text(LEFT_CHIP + CHIP / 2, 0.36, "Before", size="large", **heads)
        self.text(RIGHT_CHIP + CHIP / 2, 0.36, "After", size="large", **heads)
        for left in (LEFT_STRIP, RIGHT_STRIP):
            self.text(left + STRIP / 2, 0.36, "output vector", color=style.OUTPUT, **heads)
        note = {"size": "small", "color": style.MUTED, "va": "baseline"}
        self.text(LEFT_CHIP + CHIP / 2, 0.6, "the tokens in order", **note)
        self.text(RIGHT_CHIP + CHIP / 2, 0.6, "in the new order", **note)
        self.text((LEFT_STRIP + STRIP + RIGHT_STRIP) / 2, 0.6, "the same token", **note)
        for place, token in enumerate(tokens):
            self.text(0.18, self._middle(place), str(place + 1), size="small", color=style.MUTED)
            self._chip(LEFT_CHIP, place)
            self.text(LEFT_CHIP + CHIP / 2, self._middle(place), token, size=_size(token))

    def _make_verdict(self) -> None:
        top = TOP + self._n * ROW + 0.1
        self._frame = self.box(LEFT_CHIP, top, WIDTH - 2 * LEFT_CHIP, 0.46, moves=True, lw=1.2, zorder=2)
        words = {"size": "large", "moves": True, "weight": "bold"}
        self._count = self.text(LEFT_CHIP + 0.16, top + 0.23, ha="left", **words)
        self._largest = self.text(WIDTH - LEFT_CHIP - 0.16, top + 0.23, ha="right", **words)

    def _top(self, place: int) -> float:
        return TOP + place * ROW

    def _middle(self, place: int) -> float:
        return self._top(place) + HEIGHT / 2

    def update(self, result: Any) -> None:
        before, after = result.before.numpy(), result.after.numpy()
        limit = max(np.abs(before).max(), np.abs(after).max())
        corners, values = [], []
        for place, token in enumerate(result.order):
            for left, row in ((LEFT_STRIP, before[place]), (RIGHT_STRIP, after[token])):
                corners += strip(left, self._top(place), STRIP, HEIGHT, self._parts)
                values.append(row)
        values = np.concatenate(values)
        self._cells.set_verts(corners)
        self._cells.set_facecolor(style.SIGNED(0.5 + values / (2 * limit)))
        self._set_dots(result.order, after - before)
        for place, token in enumerate(result.order):
            self._set_line(token, place, result.changed[token])
            word = result.tokens[token]
            self._words[place].set(text=word, fontsize=getattr(style.current(), f"font_{_size(word)}"))
            changed = result.changed[token]
            difference = f"≠ {result.differences[token]:.2f}" if result.differences[token] >= 0.005 else "≠ 0.00…"
            self._marks[place].set(text=difference if changed else "= same", color=CHANGED if changed else SAME)
        for index, ring in enumerate(self._rings):
            ring.set_visible(index < len(result.picked))
            if index < len(result.picked):
                ring.set_y(self._top(result.order.index(result.picked[index])))
        colour, count = (CHANGED if any(result.changed) else SAME), sum(result.changed)
        self._frame.set(facecolor=style.tint(colour, 0.86), edgecolor=colour)
        words = f"✗ {count} of {self._n} outputs changed" if count else "✓ every output followed its token"
        if list(result.order) == sorted(result.order):
            words = "nothing has moved yet"
        self._count.set(text=words, color=colour)
        shown = result.largest if count else 0.0  # below the threshold it is rounding
        self._largest.set(text=f"largest difference {shown:.5f}", color=colour)

    def _set_dots(self, order: tuple[int, ...], change: np.ndarray) -> None:
        centres = RIGHT_STRIP + (np.arange(self._parts) + 0.5) * STRIP / self._parts
        moved = np.abs(change[list(order)])
        place, part = np.nonzero(moved >= VISIBLE)
        ys = np.array([self._middle(p) for p in range(self._n)])
        self._dots.set_offsets(np.column_stack((centres[part], ys[place])))
        self._dots.set_sizes(12 + 60 * np.clip(moved[place, part] / FULL, 0, 1))

    def _set_line(self, token: int, place: int, changed: bool) -> None:
        start, end = (LEFT_STRIP + STRIP + 0.06, self._middle(token)), (RIGHT_STRIP - 0.06, self._middle(place))
        bend = 0.5 * (end[0] - start[0])
        points = [start, (start[0] + bend, start[1]), (end[0] - bend, end[1]), end]
        line = self._lines[token]
        line.set_path(Path(points, [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4]))
        line.set(edgecolor=CHANGED if changed else SAME, linestyle=(0, (4, 2)) if changed else "-", linewidth=2.4)

    def regions(self, result: Any) -> list[Area]:
        found = []
        for place, token in enumerate(result.order):
            y = (self._top(place), self._top(place) + HEIGHT)
            for left, row, word, when in (
                (LEFT_STRIP, result.before[place], result.tokens[place], "before"),
                (RIGHT_STRIP, result.after[token], result.tokens[token], "after"),
            ):
                numbers = ", ".join(f"{number:.2f}".replace("-", "−") for number in row.tolist())
                found.append(region(self.axes, (left, left + STRIP), y, f"{word}, {when}: {numbers}"))
        return found


def _size(word: str) -> str:
    return "normal" if len(word) <= 8 else "small"
