"""One step of a translation: the map with the current row lifted out, the next word's candidates, the French so far."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from transformer_lab.draw import style
from transformer_lab.draw.canvas import Area, region
from transformer_lab.draw.sheet import SheetPicture, boxes

WIDTH = 9.0
MAP_LEFT, MAP_TOP, MAP_WIDTH, CELL = 1.2, 1.25, 4.2, 0.27  # of the map; its rows are CELL high
BARS_LEFT, BARS_WIDTH = 6.5, 1.4  # of the lifted row
STRIP = 1.45  # room under the map for candidates and the sentence


class TranslationPicture(SheetPicture):
    """Draws a `TranslationStep`; another sentence or another way of writing it builds the picture again."""

    def __init__(self, figure: Figure, result: Any) -> None:
        self.open_sheet(figure, result)
        shown = result.translation
        self._n_steps, self._n_source = len(shown.written), len(shown.source)
        self._bottom = MAP_TOP + _rows(shown) * CELL
        self._make_map(shown)
        self._make_lifted_row(shown)
        self._make_strip(shown)

    @staticmethod
    def size(result: Any) -> tuple[float, float]:
        return WIDTH, MAP_TOP + _rows(result.translation) * CELL + STRIP

    @staticmethod
    def layout(result: Any) -> tuple:
        shown = result.translation
        return shown.source, shown.written, shown.right, shown.cut

    def _make_map(self, shown: Any) -> None:
        width = MAP_WIDTH / self._n_source
        self._lefts = MAP_LEFT + width * np.arange(self._n_source)
        self._tops = MAP_TOP + CELL * np.arange(self._n_steps)
        self.text(MAP_LEFT, 0.2, "cross-attention map", size="large", weight="bold", ha="left")
        if shown.cut:
            self.text(MAP_LEFT + 2.25, 0.2, "cut: every weight is 0", color=style.KEY, ha="left")
        for y, words, colour in ((0.4, "key →", style.KEY), (0.16, "query ↓", style.QUERY)):
            self.text(MAP_LEFT - 0.1, MAP_TOP - y, words, size="small", color=colour, ha="right", style="italic")
        for left, word in zip(self._lefts, shown.source, strict=True):
            self.text(
                left + width / 2, MAP_TOP - 0.06, word, size="small", color=style.KEY, va="bottom", rotation=60,
                ha="left", rotation_mode="anchor",
            )  # fmt: skip
        self._cells = self.cells(edgecolors=style.GRID, linewidths=0.5)
        grid_lefts, grid_tops = np.meshgrid(self._lefts, self._tops)
        self._cells.set_verts(boxes(grid_lefts.ravel(), grid_tops.ravel(), width, CELL))
        self._rows = [
            self.stamp(MAP_LEFT - 0.1, top + CELL / 2, color=style.QUERY, ha="right") for top in self._tops
        ]
        self._frame = self.rectangle(
            MAP_LEFT, MAP_TOP, MAP_WIDTH, CELL, moves=True, fill=False, edgecolor=style.ACCENT, lw=2.6, zorder=6
        )
        self._bridge = self.line(moves=True, color=style.ACCENT, lw=1.6, zorder=1)

    def _make_lifted_row(self, shown: Any) -> None:
        self._title = self.stamp(BARS_LEFT - 0.75, 0.2, size="large", weight="bold", ha="left")
        self.text(BARS_LEFT - 0.75, 0.48, "where this step looks", size="small", color=style.MUTED, ha="left")
        self._bar_tops = MAP_TOP - 0.62 + CELL * np.arange(self._n_source)
        for top, word in zip(self._bar_tops, shown.source, strict=True):
            self.text(BARS_LEFT - 0.12, top + CELL / 2, word, size="small", color=style.KEY, ha="right")
        self.rectangle(
            BARS_LEFT, self._bar_tops[0], BARS_WIDTH, CELL * self._n_source, facecolor="none", edgecolor=style.GRID
        )
        self._bars = self.cells(linewidths=0.0)
        self._numbers = self.stamps(
            [(BARS_LEFT + BARS_WIDTH + 0.08, top + CELL / 2) for top in self._bar_tops], ha="left"
        )
        self._mark = self.stamp(BARS_LEFT + BARS_WIDTH + 0.4, 0.0, ha="left")

    def _make_strip(self, shown: Any) -> None:
        top = self._bottom + 0.28
        self.text(0.25, top, "next word:", color=style.MUTED, ha="left")
        self._candidates = self.stamps([(1.35 + 2.1 * place, top) for place in range(3)], size="normal", ha="left")
        for y, name in ((top + 0.44, "written:"), (top + 0.86, "right:")):
            self.text(0.25, y, name, color=style.MUTED, ha="left")
        longest = max(len(shown.written), len(shown.right))
        widths = [
            max(len(words[place]) if place < len(words) else 0 for words in (shown.written, shown.right))
            for place in range(longest)
        ]
        room = (WIDTH - 1.35) / sum(width + 2 for width in widths)
        ends = 1.15 + np.cumsum([(width + 2) * min(room, 0.13) for width in widths])
        starts = np.concatenate(([1.15], ends[:-1]))
        self._chips = self.cells(edgecolors=style.BACKGROUND, linewidths=2.0)
        self._chips.set_verts(boxes(starts, top + 0.28, ends - starts, 0.32)[: self._n_steps])
        middles = (starts + ends) / 2
        self._written = self.stamps([(x, top + 0.44) for x in middles[: self._n_steps]])
        for x, word in zip(middles, shown.right, strict=False):
            self.text(x, top + 0.86, word, size="small", color=style.MUTED)

    def update(self, result: Any) -> None:
        shown, row = result.translation, result.step - 1
        weights = shown.weights.numpy()
        colours = style.WEIGHTS(weights)
        colours[row + 1 :] = (*style.tint(style.GRID, 0.7), 1.0)  # not written yet
        self._cells.set_facecolors(colours.reshape(-1, 4))
        for place, (stamp, word) in enumerate(zip(self._rows, shown.written, strict=True)):
            stamp.set_text(word if place <= row else "·")
            stamp.set_weight("bold" if place == row else "normal")
        top = self._tops[row]
        self._frame.set_y(top)
        lifted = self._bar_tops[0], self._bar_tops[-1] + CELL
        right = MAP_LEFT + MAP_WIDTH
        self._bridge.set_data(
            (right, right + 0.18, np.nan, right + 0.18, right + 0.18),
            (top + CELL / 2, top + CELL / 2, np.nan, min(lifted[0], top), max(lifted[1], top + CELL / 2)),
        )
        self._title.set_text(f"step {result.step}: {result.word}")
        self._bars.set_verts(boxes(BARS_LEFT, self._bar_tops + 0.04, BARS_WIDTH * weights[row], CELL - 0.08))
        self._bars.set_facecolors([style.QUERY] * self._n_source)
        for stamp, weight in zip(self._numbers, weights[row], strict=True):
            stamp.set_text(f"{weight:.2f}")
        aligned = shown.alignment[row] if result.so_far_right else None
        self._mark.set_text("" if aligned is None else "◂ aligned")
        if aligned is not None:
            self._mark.set_y(self._bar_tops[aligned] + CELL / 2)
        for stamp, (word, share) in zip(self._candidates, shown.candidates[row], strict=True):
            stamp.set_text(f"{word} {share:.2f}")
            stamp.set_weight("bold" if word == result.word else "normal")
        self._show_written(shown, row)

    def _show_written(self, shown: Any, row: int) -> None:
        fills = []
        for place, (stamp, word) in enumerate(zip(self._written, shown.written, strict=True)):
            right = place < len(shown.right) and shown.right[place] == word
            stamp.set_text(word if place <= row else "")
            stamp.set_color(style.TEXT if right else style.KEY)
            fills.append(
                style.BACKGROUND if place > row
                else style.tint(style.ACCENT, 0.45) if place == row
                else style.tint(style.VALUE if right else style.KEY, 0.82)
            )  # fmt: skip
        self._chips.set_facecolors(fills)

    def regions(self, result: Any) -> list[Area]:
        shown, width = result.translation, MAP_WIDTH / self._n_source
        found = []
        for row, column in np.ndindex(result.step, self._n_source):
            words = (
                f"step {row + 1} ({shown.written[row]}) puts {shown.weights[row, column]:.2f} on "
                f"{shown.source[column]}"
            )
            x, y = self._lefts[column], self._tops[row]
            found.append(region(self.axes, (x, x + width), (y, y + CELL), words))
        return found


def _rows(shown: Any) -> int:
    """How many rows high the picture is: the map and the lifted row stand side by side."""
    return max(len(shown.written), len(shown.source) - 2)
