"""Who may read whom in one family: the map of the whole model, one token's reading, and what it is asked."""

from math import ceil
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from transformer_lab.draw import style
from transformer_lab.draw.canvas import Area, region
from transformer_lab.draw.sheet import SheetPicture, boxes

WIDTH, HEIGHT = 9.0, 4.75
LEFT, TOP, SIDE = 0.85, 0.85, 3.25  # of the map
RIGHT = 4.55  # where the panel beside it begins
CHIP, CHIP_HEIGHT, PER_ROW, CHIPS_TOP = 0.62, 0.34, 7, 1.42
PARTS = {
    "encoder self-attention": style.tint(style.QUERY, 0.4),
    "decoder self-attention": style.tint(style.VALUE, 0.4),
    "cross-attention": style.tint(style.ACCENT, 0.2),
}
WIRES = {
    "encoder-only": "One stack. Every token reads every token.",
    "decoder-only": "One stack. Every token reads itself and the past.",
    "encoder-decoder": "Two stacks. The decoder also reads the encoder.",
}


class WiringPicture(SheetPicture):
    """Draws a wiring: family, tokens, n_source, sees, parts, asks, shown, question, answer."""

    def __init__(self, figure: Figure, result: Any) -> None:
        self.open_sheet(figure, result)
        self._n = len(result.tokens)
        self._cell = SIDE / self._n
        self._make_map(result)
        self._make_legend(result)
        self.text(RIGHT, 0.35, result.family, size="title", weight="bold", ha="left")
        self.text(RIGHT, 0.72, WIRES[result.family], ha="left")
        self._make_reading(result)

    @staticmethod
    def size(result: Any) -> tuple[float, float]:
        return WIDTH, HEIGHT

    @staticmethod
    def layout(result: Any) -> tuple:
        return result.family, result.tokens

    def _make_map(self, result: Any) -> None:
        self.rectangle(LEFT, TOP, SIDE, SIDE, facecolor=style.FORBIDDEN, edgecolor=style.FORBIDDEN_INK,
                       hatch=style.FORBIDDEN_HATCH, lw=0.8)  # fmt: skip
        for query, key in np.argwhere(result.sees.numpy()):
            colour = PARTS[result.parts[query][key]]
            self.rectangle(LEFT + key * self._cell, TOP + query * self._cell, self._cell, self._cell,
                           facecolor=colour, edgecolor=style.BACKGROUND, lw=1)  # fmt: skip
        middles = (np.arange(self._n) + 0.5) * self._cell
        self._keys = self.stamps([(LEFT + x, TOP - 0.07) for x in middles], color=style.KEY, rotation=90, va="bottom")
        self._queries = self.stamps([(LEFT - 0.07, TOP + y) for y in middles], color=style.QUERY, ha="right")
        if 0 < result.n_source < self._n:
            edge = result.n_source * self._cell
            self.line((LEFT - 0.75, LEFT + SIDE), (TOP + edge, TOP + edge), color=style.TEXT, lw=1.4, zorder=4)
            self.line((LEFT + edge, LEFT + edge), (TOP - 0.7, TOP + SIDE), color=style.TEXT, lw=1.4, zorder=4)
        self._row = self.rectangle(LEFT, TOP, SIDE, self._cell, moves=True, facecolor="none", edgecolor=style.TEXT,
                                   lw=2.6, zorder=6)  # fmt: skip

    def _make_legend(self, result: Any) -> None:
        used = [name for name in PARTS if name in {part for row in result.parts for part in row}]
        for line, name in enumerate([*used, "may not be read"]):
            x, y = LEFT + (line % 2) * 1.9 - 0.75, TOP + SIDE + 0.2 + (line // 2) * 0.23
            look = {"facecolor": PARTS.get(name, style.FORBIDDEN)}
            if name not in PARTS:
                look |= {"hatch": style.FORBIDDEN_HATCH, "edgecolor": style.FORBIDDEN_INK}
            self.rectangle(x, y - 0.08, 0.22, 0.16, **look)
            self.text(x + 0.3, y, name, size="small", ha="left")

    def _make_reading(self, result: Any) -> None:
        self._reads = self.stamp(RIGHT, 1.17, size="normal", ha="left")
        # The decoder's tokens open a row of their own; more than a row holds are shared out evenly.
        places, top = [], CHIPS_TOP
        for n_tokens in filter(None, (result.n_source, self._n - result.n_source)):
            n_rows = ceil(n_tokens / PER_ROW)
            per_row = ceil(n_tokens / n_rows)
            for token in range(n_tokens):
                row, column = divmod(token, per_row)
                places.append((RIGHT + column * CHIP, top + row * (CHIP_HEIGHT + 0.1)))
            top += n_rows * (CHIP_HEIGHT + 0.1)
        self._places = np.array(places)
        self._chips = self.cells(edgecolors=style.MUTED, linewidths=0.9)
        self._chips.set_verts(boxes(*self._places.T, CHIP * 0.94, CHIP_HEIGHT))
        self._asker = self.rectangle(0, 0, CHIP * 0.94, CHIP_HEIGHT, moves=True, facecolor="none",
                                     edgecolor=style.TEXT, lw=2.6, zorder=6)  # fmt: skip
        self._names = self.stamps([(x + CHIP * 0.47, y + CHIP_HEIGHT / 2) for x, y in places])
        self.text(RIGHT, 3.1, "The objective asks", color=style.MUTED, ha="left")
        self._question = self.stamp(RIGHT, 3.42, size="large", ha="left")
        self._answer = self.stamp(RIGHT, 3.85, size="title", weight="bold", color=style.OUTPUT, ha="left")

    def update(self, result: Any) -> None:
        asks = result.asks
        self._row.set_y(TOP + asks * self._cell)
        self._reads.set_text(f"“{result.shown[asks]}” reads {int(result.sees[asks].sum())} of {self._n} tokens:")
        seen = result.sees[asks].tolist()
        self._chips.set_facecolors(
            [PARTS[result.parts[asks][key]] if seen[key] else style.FORBIDDEN for key in range(self._n)]
        )
        x, y = self._places[asks]
        self._asker.set_xy((x, y))
        for *names, name, token, read in zip(self._keys, self._queries, self._names, result.shown, seen, strict=True):
            for each in (*names, name):
                each.set_text(token)
            name.set_color(style.TEXT if read else style.MUTED)
        self._question.set_text(result.question)
        self._answer.set_text("" if result.answer is None else f"→ {result.answer}")

    def regions(self, result: Any) -> list[Area]:
        found = []
        for query, key in np.ndindex(self._n, self._n):
            verb = f"reads, by {result.parts[query][key]}," if result.sees[query, key] else "may not read"
            x, y = LEFT + key * self._cell, TOP + query * self._cell
            words = f"{result.shown[query]} {verb} {result.shown[key]}"
            found.append(region(self.axes, (x, x + self._cell), (y, y + self._cell), words))
        return found
