"""One blank before two readers, and what the causal one writes on."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from transformer_lab.draw import style
from transformer_lab.draw.canvas import Area, region
from transformer_lab.draw.sheet import SheetPicture, boxes

WIDTH, HEIGHT = 9.0, 4.7
CHIPS_LEFT, CHIP, CHIP_HEIGHT = 2.3, 1.02, 0.36
ROWS = (0.3, 0.85)  # tops of the two readers' sentences
PANELS, BARS_TOP, BAR, BAR_WIDTH = (1.15, 5.6), 2.0, 0.34, 2.25
WRITTEN = 4.12
COLOURS = (style.QUERY, style.VALUE)


def percent(share: float) -> str:
    """A share with one digit after the point where it needs one: 100%, 12.5%, 16.7%."""
    return f"{100 * share:.1f}".removesuffix(".0") + "%"


class FilledBlankPicture(SheetPicture):
    """Draws a filled blank: words, place, readers, best, fits, written, ended and grammatical."""

    def __init__(self, figure: Figure, result: Any) -> None:
        self.open_sheet(figure, result)
        self._n = len(result.words)
        self._lefts = CHIPS_LEFT + CHIP * np.arange(self._n)
        self._chips, self._names, self._words, self._bars, self._shares, self._ceilings = [], [], [], [], [], []
        for reader, top, left, colour in zip(result.readers, ROWS, PANELS, COLOURS, strict=True):
            self.text(CHIPS_LEFT - 0.15, top + CHIP_HEIGHT / 2, f"{reader.name} model reads", ha="right", color=colour)
            chips = self.cells(edgecolors=style.MUTED, linewidths=0.9)
            chips.set_verts(boxes(self._lefts, top, CHIP * 0.94, CHIP_HEIGHT))
            self._chips.append(chips)
            self._names.append(self.stamps([(x + CHIP * 0.47, top + CHIP_HEIGHT / 2) for x in self._lefts]))
            self._make_panel(reader, left, colour)
        self.line((0.3, WIDTH - 0.3), (WRITTEN - 0.42, WRITTEN - 0.42))
        self.text(0.3, WRITTEN, "causal model writes on", ha="left", color=COLOURS[1])
        self._written = self.stamps([(2.85 + 0.93 * i, WRITTEN) for i in range(7)], size="normal")
        self._verdict = self.stamp(2.5, WRITTEN + 0.34, ha="left")

    def _make_panel(self, reader: Any, left: float, colour: str) -> None:
        self.text(left, BARS_TOP - 0.42, f"{reader.name} model says", weight="bold", ha="left", color=colour)
        middles = [BARS_TOP + row * BAR for row in range(len(reader.words))]
        self._words.append(self.stamps([(left - 0.12, y) for y in middles], size="normal", ha="right"))
        bars = self.cells(linewidths=0.0, facecolors=colour)
        self._bars.append((bars, left, np.array(middles) - BAR * 0.36))
        self._shares.append(self.stamps([(left + BAR_WIDTH + 0.1, y) for y in middles], ha="left"))
        for y in middles:
            self.rectangle(left, y - BAR * 0.36, BAR_WIDTH, BAR * 0.72, facecolor="none", edgecolor=style.GRID)
        self._ceilings.append(self.stamp(left, BARS_TOP + len(middles) * BAR + 0.02, ha="left", color=style.MUTED))

    @staticmethod
    def size(result: Any) -> tuple[float, float]:
        return WIDTH, HEIGHT

    @staticmethod
    def layout(result: Any) -> tuple:
        return len(result.words), len(result.readers[0].words)

    def update(self, result: Any) -> None:
        for row, reader in enumerate(result.readers):
            read = style.tint(COLOURS[row], 0.75)
            colours = [read if seen else style.FORBIDDEN for seen in reader.reads]
            colours[result.place] = style.ACCENT
            self._chips[row].set_facecolors(colours)
            for place, (name, word) in enumerate(zip(self._names[row], result.words, strict=True)):
                blank, hidden = place == result.place, not reader.reads[place]
                name.set_text("?" if blank else "hidden" if hidden else word)
                name.set_color(style.MUTED if hidden and not blank else style.TEXT)
            bars, left, tops = self._bars[row]
            bars.set_verts(boxes(left, tops, BAR_WIDTH * np.array(reader.shares), BAR * 0.72))
            for word, share, stamp, number in zip(
                reader.words, reader.shares, self._words[row], self._shares[row], strict=True
            ):
                stamp.set_text(word)
                mark = "✓ fits" if word in result.fits else "✗" if result.fits else "–"
                number.set_text(f"{share:.0%} {mark}")
                number.set_color(style.TEXT if word in result.fits else style.MUTED)
            ceiling = f"best possible from {('both sides', 'the left')[row]}: {percent(result.best[row])} right"
            self._ceilings[row].set_text(ceiling if result.fits else "no word makes this a sentence")
        line = (*result.words[: result.place], *result.written, *(["<end>"] if result.ended else []))
        for place, stamp in enumerate(self._written):
            stamp.set_text(line[place] if place < len(line) else "")
            new = place >= result.place
            stamp.set_color(style.OUTPUT if new else style.TEXT)
        verdict = "✓ a sentence of the language" if result.grammatical else "✗ no sentence of the language"
        self._verdict.set_text(f"{verdict} (its own tokens in purple)")

    def regions(self, result: Any) -> list[Area]:
        found = []
        for reader, (_, left, tops) in zip(result.readers, self._bars, strict=True):
            for word, share, top in zip(reader.words, reader.shares, tops, strict=True):
                words = f"{reader.name} model: {word} {share:.1%}"
                found.append(region(self.axes, (left, left + BAR_WIDTH), (top, top + BAR * 0.72), words))
        return found
