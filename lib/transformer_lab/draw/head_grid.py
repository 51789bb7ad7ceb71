"""The heads of a layer side by side, some of them switched off, and what the model answers then."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from transformer_lab.draw import style
from transformer_lab.draw.canvas import Region, region
from transformer_lab.draw.sheet import SheetPicture, boxes

WIDTH, HEIGHT = 9.0, 4.6
LEFT, GAP, TOP = 0.7, 0.2, 0.72
LARGEST = 1.9  # side of a map, when there are few heads
STRIP, CHIP = 2.95, 0.5  # top of the sequence, and the width of a symbol in it
ROWS, ROW = 4.03, 0.36  # where the answers begin
BAR_LEFT, BAR_WIDTH = 4.3, 3.7


class HeadGridPicture(SheetPicture):
    """Draws a head grid: symbols, maps, place, answers, given, questions and accuracy on many sequences."""

    def __init__(self, figure: Figure, result: Any) -> None:
        self.open_sheet(figure, result)
        self._n_heads, self._n = result.maps.shape[:2]
        room = WIDTH - LEFT - 0.15 - GAP * (self._n_heads - 1)
        self._side = min(room / self._n_heads, LARGEST)
        self._lefts = [LEFT + head * (self._side + GAP) for head in range(self._n_heads)]
        self._middles = TOP + (np.arange(self._n) + 0.5) * self._side / self._n
        self._make_maps()
        self._make_sequence()
        self._make_answers(result)

    @staticmethod
    def size(result: Any) -> tuple[float, float]:
        return WIDTH, HEIGHT

    @staticmethod
    def layout(result: Any) -> tuple:
        return result.maps.shape, result.questions

    def _make_maps(self) -> None:
        self._images, self._titles, self._keys, self._curtains, self._off_words, self._rows = [], [], [], [], [], []
        for left in self._lefts:
            corners = (left, left + self._side, TOP + self._side, TOP)
            image = self.axes.imshow(
                np.zeros((self._n, self._n)), cmap=style.WEIGHTS, vmin=0, vmax=1, extent=corners, aspect="auto",
                interpolation="nearest", animated=True, zorder=1,
            )  # fmt: skip
            self._images.append(image)
            square = {"animated": True, "clip_on": False}
            self.axes.add_patch(
                Rectangle((left, TOP), self._side, self._side, fill=False, edgecolor=style.MUTED, lw=0.8, zorder=4,
                          **square)
            )  # fmt: skip
            self._curtains.append(
                self.axes.add_patch(
                    Rectangle((left, TOP), self._side, self._side, facecolor=style.FORBIDDEN, alpha=0.93,
                              edgecolor=style.PAD, hatch=style.FORBIDDEN_HATCH, zorder=3, **square)
                )
            )  # fmt: skip
            centre = left + self._side / 2, TOP + self._side / 2
            self._off_words.append(
                self.text(*centre, "off", size="title", weight="bold", moves=True, backgroundcolor=style.BACKGROUND)
            )
            self._rows.append(
                self.axes.add_patch(
                    Rectangle((left, TOP), self._side, self._side / self._n, fill=False, edgecolor=style.ACCENT,
                              lw=2.4, zorder=6, **square)
                )
            )  # fmt: skip
            self._titles.append(self.stamp(left + self._side / 2, 0.22, size="large", weight="bold"))
            across = left + (np.arange(self._n) + 0.5) * self._side / self._n
            self._keys.append(self.stamps([(x, TOP - 0.13) for x in across], color=style.KEY))
        self._queries = self.stamps([(LEFT - 0.14, y) for y in self._middles], color=style.QUERY)
        self.text(LEFT - 0.1, 0.33, "key →", size="small", color=style.KEY, ha="right", style="italic")
        self.text(LEFT - 0.03, TOP - 0.2, "query ↓", size="small", color=style.QUERY, ha="right", style="italic")

    def _make_sequence(self) -> None:
        lefts = LEFT + CHIP * np.arange(self._n)
        self._chips = self.cells(edgecolors=style.MUTED, linewidths=0.9)
        self._chips.set_verts(boxes(lefts, STRIP, CHIP * 0.9, 0.36))
        middles = lefts + CHIP * 0.45
        self._symbols = self.stamps([(x, STRIP + 0.19) for x in middles], size="normal")
        self._names = self.stamps([(x, STRIP + 0.5) for x in middles])

    def _make_answers(self, result: Any) -> None:
        self.text(LEFT, ROWS - 0.3, "asked", size="small", color=style.MUTED, ha="left")
        self.text(1.95, ROWS - 0.3, "answered here", size="small", color=style.MUTED, ha="left")
        self.text(BAR_LEFT, ROWS - 0.3, "right on 500 sequences", size="small", color=style.MUTED, ha="left")
        middles = [ROWS + row * ROW for row in range(len(result.questions))]
        for y, question in zip(middles, result.questions, strict=True):
            self.text(LEFT, y, f"{question}?", ha="left")
            self.box(BAR_LEFT, y - 0.12, BAR_WIDTH, 0.24, radius=0.0, facecolor="none", edgecolor=style.GRID)
        self._answers = [self.stamp(1.95, y, size="normal", ha="left", weight="bold") for y in middles]
        self._bars = self.cells(linewidths=0.0)
        self._shares = [self.stamp(BAR_LEFT + BAR_WIDTH + 0.1, y, size="normal", ha="left") for y in middles]
        self._bar_tops = np.array(middles) - 0.12

    def update(self, result: Any) -> None:
        row = result.place - 1
        for head, map_ in enumerate(result.maps.numpy()):
            off = head in result.on_many.off
            self._images[head].set_data(map_)
            self._curtains[head].set_visible(off)
            self._off_words[head].set_visible(off)
            self._rows[head].set_y(TOP + row * self._side / self._n)
            self._titles[head].set_text(f"head {head + 1}")
            self._titles[head].set_color(style.MUTED if off else style.TEXT)
            for stamp, symbol in zip(self._keys[head], result.symbols, strict=True):
                stamp.set_text(symbol)
        for stamps in (self._queries, self._symbols):
            for stamp, symbol in zip(stamps, result.symbols, strict=True):
                stamp.set_text(symbol)
        names = [""] * self._n
        names[row], names[row - 1], names[0] = "asks", "before", "first"
        colours = [style.BACKGROUND] * self._n
        colours[row] = style.tint(style.QUERY, 0.75)
        colours[row - 1] = colours[0] = style.tint(style.KEY, 0.75)
        self._chips.set_facecolors(colours)
        for stamp, name in zip(self._names, names, strict=True):
            stamp.set_text(name)
        for stamp, given, answer in zip(self._answers, result.given, result.answers, strict=True):
            right = given == answer
            stamp.set_text(f"{given}  ✓" if right else f"{given}  ✗  it was {answer}")
            stamp.set_color(style.VALUE if right else style.KEY)
        accuracy = np.array(result.on_many.accuracy)
        self._bars.set_verts(boxes(BAR_LEFT, self._bar_tops, BAR_WIDTH * accuracy, 0.24))
        self._bars.set_facecolors([style.VALUE if share > 0.95 else style.ACCENT for share in accuracy])
        for stamp, share in zip(self._shares, accuracy, strict=True):
            stamp.set_text(f"{share:.0%}")

    def regions(self, result: Any) -> list[Region]:
        cell = self._side / self._n
        found = []
        for head, (left, map_) in enumerate(zip(self._lefts, result.maps.tolist(), strict=True)):
            for query, key in np.ndindex(self._n, self._n):
                words = (
                    f"head {head + 1}: place {query + 1} ({result.symbols[query]}) puts {map_[query][key]:.2f} on "
                    f"place {key + 1} ({result.symbols[key]})"
                )
                x, y = left + key * cell, TOP + query * cell
                found.append(region(self.axes, (x, x + cell), (y, y + cell), words))
        return found
