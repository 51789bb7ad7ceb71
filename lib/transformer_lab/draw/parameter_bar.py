"""Where a model's parameters sit: one bar split by part, a row for every part, and the bytes of the weights."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from transformer_lab.draw import style
from transformer_lab.draw.canvas import Area, region
from transformer_lab.draw.sheet import SheetPicture, boxes

WIDTH, HEIGHT = 9.0, 4.75
LEFT, RIGHT = 0.2, WIDTH - 0.2
BAR_TOP, BAR_HEIGHT = 0.95, 0.5
ROWS, ROW = 1.95, 0.33
NOTES, COUNTS, SHARES = 2.45, 5.4, 6.05  # left edge of the notes, right edges of the numbers
BYTES, DECIMAL, BINARY = 6.4, 8.0, RIGHT  # left edge of the precisions, right edges of GB and GiB
LETTER = 0.085  # inches that a small letter takes at most, on average

COLOURS = (
    style.ACCENT, style.tint(style.ACCENT, 0.55), style.QUERY, style.tint(style.QUERY, 0.6), style.VALUE, style.TEXT,
    style.tint(style.OUTPUT, 0.6), style.OUTPUT,
)  # fmt: skip


class ParameterBarPicture(SheetPicture):
    """Draws a calculation: its ``name``, ``total``, eight ``groups`` and ``bytes_table``, rows of three words."""

    def __init__(self, figure: Figure, result: Any) -> None:
        self.open_sheet(figure, result)
        self._title = self.stamp(LEFT, 0.3, size="title", weight="bold", ha="left")
        self._outline = self.stamp(LEFT, 0.66, ha="left", color=style.MUTED)
        self.rectangle(LEFT, BAR_TOP, RIGHT - LEFT, BAR_HEIGHT, facecolor="none", edgecolor=style.GRID)
        self._bar = self.cells(linewidths=1.0)
        self._inside = self.stamps([(LEFT, BAR_TOP + BAR_HEIGHT / 2)] * len(result.groups), zorder=6)
        self._counts, self._shares, self._notes, self._names = [], [], [], []
        for x, words, side in (
            (LEFT, "part", "left"), (COUNTS, "parameters", "right"), (SHARES, "share", "right"),
            (BYTES, "the weights in", "left"),
        ):  # fmt: skip
            self.text(x, ROWS - 0.26, words, size="small", ha=side, color=style.MUTED)
        for row, (group, colour) in enumerate(zip(result.groups, COLOURS, strict=True)):
            y = ROWS + (row + 0.5) * ROW - 0.1
            self.rectangle(LEFT, y - 0.09, 0.18, 0.18, facecolor=colour, edgecolor=style.MUTED, linewidth=0.5)
            self.text(LEFT + 0.28, y, group.name, size="small", ha="left")
            self._notes.append(self.stamp(NOTES, y, ha="left", color=style.MUTED))
            self._counts.append(self.stamp(COUNTS, y, ha="right"))
            self._shares.append(self.stamp(SHARES, y, ha="right"))
        self.line([BYTES - 0.17] * 2, [ROWS - 0.35, HEIGHT - 0.15])
        self._bytes = []
        for row, (precision, _, _) in enumerate(result.bytes_table):
            y = ROWS + (row + 0.5) * ROW - 0.1
            self.text(BYTES, y, precision, size="small", ha="left")
            self._bytes += self.stamps([(DECIMAL, y), (BINARY, y)], ha="right")
        words = "a GB is 10⁹ bytes,\na GiB is 2³⁰ bytes"
        self.text(BYTES, ROWS + 5.8 * ROW, words, size="small", ha="left", color=style.MUTED)

    @staticmethod
    def size(result: Any) -> tuple[float, float]:
        return WIDTH, HEIGHT

    def update(self, result: Any) -> None:
        counts = np.array([group.count for group in result.groups], dtype=float)
        widths = (RIGHT - LEFT) * counts / counts.sum()
        lefts = LEFT + np.concatenate([[0.0], widths.cumsum()[:-1]])
        shown = widths > 0
        self._bar.set_verts(boxes(lefts[shown], BAR_TOP, widths[shown], BAR_HEIGHT))
        self._bar.set_facecolor([colour for colour, there in zip(COLOURS, shown, strict=True) if there])
        self._title.set_text(f"{result.name}: {result.total:,} parameters")
        self._outline.set_text(result.outline)
        for row, group in enumerate(result.groups):
            share = group.count / result.total
            inside = self._inside[row]
            inside.set_position((lefts[row] + widths[row] / 2, BAR_TOP + BAR_HEIGHT / 2))
            inside.set_text(_fitting(widths[row], (f"{group.name} {share:.0%}", f"{share:.0%}")))
            inside.set_color(style.text_on(COLOURS[row]))
            self._notes[row].set_text(group.note)
            self._counts[row].set_text(f"{group.count:,}")
            self._shares[row].set_text(percent(group.count, result.total) if group.count else "")
        for text, words in zip(self._bytes, (word for row in result.bytes_table for word in row[1:]), strict=True):
            text.set_text(words)

    def regions(self, result: Any) -> list[Area]:
        found, left = [], LEFT
        for row, group in enumerate(result.groups):
            note = f" ({group.note})" if group.note else ""
            words = f"{group.name}: {group.count:,}, {percent(group.count, result.total)}{note}"
            y = ROWS + row * ROW - 0.1
            found.append(region(self.axes, (LEFT, SHARES), (y, y + ROW), words))
            width = (RIGHT - LEFT) * group.count / result.total
            if width > 0.03:
                found.append(region(self.axes, (left, left + width), (BAR_TOP, BAR_TOP + BAR_HEIGHT), words))
            left += width
        return found


def percent(count: int, total: int) -> str:
    """A share with one decimal; what is there but rounds to nothing is said to be below."""
    return "< 0.1 %" if 0 < count < total / 2000 else f"{100 * count / total:.1f} %"


def _fitting(width: float, choices: tuple[str, ...]) -> str:
    return next((words for words in choices if len(words) * LETTER + 0.1 <= width), "")
