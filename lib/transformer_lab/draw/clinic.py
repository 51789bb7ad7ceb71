"""The chart of one patient of the bug clinic: four tests, each empty until it is run, and the diagnosis below."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from transformer_lab.draw import style
from transformer_lab.draw.canvas import Area, region
from transformer_lab.draw.sheet import SheetPicture

WIDTH, HEIGHT = 9.0, 6.75
PANEL = (4.3, 2.85)
PLACES = {"future": (0.12, 0.1), "padding": (4.58, 0.1), "rows": (0.12, 3.05), "labels": (4.58, 3.05)}
TITLES = {
    "future": "Future test: replace a word",
    "padding": "Padding test: add 3 pads",
    "rows": "Row sums, with 3 pads",
    "labels": "Label check, with 3 pads",
}
MOVED = 1e-5  # below this a difference is rounding
WORD_FILL, PAD_FILL = style.tint(style.VALUE, 0.3), style.tint(style.PAD, 0.45)
HATCHED = {"facecolor": PAD_FILL, "edgecolor": style.HATCH_INK, "hatch": style.PAD_HATCH, "lw": 0.8}


class ClinicPicture(SheetPicture):
    """Draws an examination: ``found`` by test name, ``words``, ``n_pads``, a diagnosis's ``title``, ``correct``."""

    def __init__(self, figure: Figure, result: Any) -> None:
        self.open_sheet(figure, result)
        self._words = result.words
        for name, (left, top) in PLACES.items():
            self.rectangle(left, top, *PANEL, facecolor="none", edgecolor=style.GRID, lw=1)
            self.text(left + 0.12, top + 0.22, TITLES[name], size="large", ha="left", weight="bold")
        self._make_future(*PLACES["future"])
        self._make_padding(*PLACES["padding"])
        self._make_rows(*PLACES["rows"], result.n_pads)
        self._make_labels(*PLACES["labels"], result.n_pads)
        self._covers = {name: self._cover(*place) for name, place in PLACES.items()}
        self._frame = self.box(0.12, HEIGHT - 0.68, WIDTH - 0.26, 0.54, radius=0.06, moves=True, zorder=2)
        self._verdict = self.text(WIDTH / 2, HEIGHT - 0.41, size="large", moves=True, weight="bold")

    @staticmethod
    def size(result: Any) -> tuple[float, float]:
        return WIDTH, HEIGHT

    @staticmethod
    def layout(result: Any) -> tuple:
        return result.words, result.n_pads

    def _cover(self, left: float, top: float) -> tuple:
        """A blank sheet over a panel, for a test that was not run."""
        blank = self.rectangle(
            left + 0.06, top + 0.4, PANEL[0] - 0.12, PANEL[1] - 0.46, moves=True, facecolor=style.BACKGROUND, zorder=8
        )
        note = self.text(left + PANEL[0] / 2, top + 1.55, "not run yet", moves=True, color=style.MUTED, zorder=9)
        return blank, note

    def _texts(self, places: Sequence[tuple[float, float]], **kwargs: Any) -> list:
        return [self.text(x, y, size="small", moves=True, **kwargs) for x, y in places]

    def _boxes(self, places: Sequence[tuple[float, float]], width: float, height: float, **kwargs: Any) -> list:
        return [self.rectangle(x, y, width, height, moves=True, **kwargs) for x, y in places]

    def _make_future(self, left: float, top: float) -> None:
        n = len(self._words)
        cell, row = 0.58, 0.34
        self._map = (left + 1.15, top + 0.86, cell, row)
        x0, y0 = self._map[:2]
        self.text(x0, y0 - 0.32, "replaced word →", size="small", ha="left", color=style.MUTED)
        self.text(left + 0.12, y0 - 0.13, "moved output ↓", size="small", ha="left", color=style.MUTED)
        for i, word in enumerate(self._words):
            self.text(x0 + (i + 0.5) * cell, y0 - 0.13, word, size="small")
            self.text(x0 - 0.1, y0 + (i + 0.5) * row, word, size="small", ha="right")
        corners = [(x0 + j * cell, y0 + i * row) for i in range(n) for j in range(n)]
        self._cells = self._boxes(corners, cell, row, edgecolor=style.MUTED, lw=0.6)
        self._cell_numbers = self._texts([(x + cell / 2, y + row / 2) for x, y in corners])
        self.text(x0 + n * cell / 2, y0 + n * row + 0.14, "above the diagonal lies the future", size="small",
                  color=style.MUTED)  # fmt: skip

    def _make_padding(self, left: float, top: float) -> None:
        slot = 0.78
        self._padding_base, x0 = top + 2.18, left + 0.2
        self.text(left + 0.12, top + 0.5, "how far each word’s logits move", size="small", ha="left", color=style.MUTED)
        self.line((x0, x0 + slot * len(self._words)), (self._padding_base,) * 2, color=style.MUTED)
        self._padding_slots = [(x0 + i * slot, slot) for i in range(len(self._words))]
        for (x, _), word in zip(self._padding_slots, self._words, strict=True):
            self.rectangle(
                x + 0.06, self._padding_base + 0.08, slot - 0.12, 0.3, facecolor=style.tint(style.VALUE, 0.72),
                edgecolor=style.VALUE,
            )  # fmt: skip
            self.text(x + slot / 2, self._padding_base + 0.23, word)
        self._padding_bars = self._boxes(
            [(x + 0.14, self._padding_base) for x, _ in self._padding_slots], slot - 0.28, 0,
            facecolor=style.KEY, edgecolor=style.KEY,
        )  # fmt: skip
        self._padding_numbers = self._texts(
            [(x + slot / 2, self._padding_base) for x, _ in self._padding_slots], va="bottom"
        )

    def _make_rows(self, left: float, top: float, n_pads: int) -> None:
        names = ("pad",) * n_pads + self._words
        self._one, x0, y0, step = 2.8, left + 0.75, top + 0.66, 0.26
        self._rows_left = x0
        self.text(x0, top + 0.5, "0", size="small", color=style.MUTED)
        self.text(x0 + self._one, top + 0.5, "1", size="small", color=style.MUTED)
        self.text(x0 + self._one / 2, top + 0.5, "green: on words   hatched: on pads", size="small", color=style.MUTED)
        for x in (x0, x0 + self._one):
            self.line((x, x), (y0 - 0.06, y0 + len(names) * step), color=style.MUTED)
        for i, name in enumerate(names):
            self.text(x0 - 0.1, y0 + (i + 0.4) * step, name, size="small", ha="right",
                      color=style.MUTED if i < n_pads else style.TEXT)  # fmt: skip
        tops = [(x0, y0 + i * step) for i in range(len(names))]
        self._row_words = self._boxes(tops, 0, 0.8 * step, facecolor=WORD_FILL, edgecolor=style.VALUE)
        self._row_pads = self._boxes(tops, 0, 0.8 * step, **HATCHED)
        self._row_totals = self._texts([(x0 + self._one + 0.12, y + 0.4 * step) for _, y in tops], ha="left")

    def _make_labels(self, left: float, top: float, n_pads: int) -> None:
        n, slot = n_pads + len(self._words), 0.52
        x0 = left + 0.07
        self._label_y, self._label_slot = top + 1.5, slot
        self.text(left + 0.12, top + 0.58, "input", size="small", ha="left", color=style.MUTED)
        self.text(left + 0.12, top + 2.0, "label: what this position is trained to predict", size="small", ha="left",
                  color=style.MUTED)  # fmt: skip
        for i, name in enumerate(("pad",) * n_pads + self._words):
            looks = HATCHED if i < n_pads else {"facecolor": style.tint(style.VALUE, 0.72), "edgecolor": style.VALUE}
            self.rectangle(x0 + i * slot + 0.02, top + 0.74, slot - 0.04, 0.32, **looks)
            words = self.text(x0 + (i + 0.5) * slot, top + 0.9, name, size="small")
            if i < n_pads:
                words.set_bbox({"facecolor": style.BACKGROUND, "edgecolor": "none", "pad": 1})
            self.text(x0 + (i + 0.5) * slot, top + 1.27, "↓", color=style.MUTED)
        places = [(x0 + i * slot + 0.02, self._label_y) for i in range(n)]
        self._label_boxes = self._boxes(places, slot - 0.04, 0.32)
        self._label_words = self._texts([(x + slot / 2 - 0.02, y + 0.16) for x, y in places])
        self._loss = self.text(left + 0.12, top + 2.42, moves=True, ha="left")

    def update(self, result: Any) -> None:
        setters = {
            "future": self._set_future, "padding": self._set_padding, "rows": self._set_rows, "labels": self._set_labels
        }  # fmt: skip
        for name, set_evidence in setters.items():
            for artist in self._covers[name]:
                artist.set_visible(name not in result.found)
            if name in result.found:
                set_evidence(result.found[name])
        colour = {None: style.MUTED, True: style.VALUE, False: style.KEY}[result.correct]
        mark = {None: "No diagnosis yet", True: "✓ Right: ", False: "✗ Not this: "}[result.correct]
        self._frame.set(facecolor=style.tint(colour, 0.88), edgecolor=colour)
        self._verdict.set(
            text=f"Patient {result.number} of ward {result.ward}   ·   {mark}{result.title}", color=colour
        )

    def _set_future(self, found: Any) -> None:
        moved = np.asarray(found.moved)
        largest = max(float(moved.max()), MOVED)
        for index, (cell, number) in enumerate(zip(self._cells, self._cell_numbers, strict=True)):
            row, column = divmod(index, len(moved))
            value = moved[row, column]
            leaks = column > row and value > MOVED
            shade = style.tint(style.KEY if leaks else style.QUERY, 1 - 0.15 - 0.85 * value / largest)
            cell.set_facecolor(shade if value > MOVED else style.BACKGROUND)
            number.set(text=_amount(value), color=style.text_on(shade) if value > MOVED else style.MUTED)

    def _set_padding(self, found: Any) -> None:
        tallest = 1.25 / max(*found.moved, 0.1)
        for bar, number, value in zip(self._padding_bars, self._padding_numbers, found.moved, strict=True):
            height = value * tallest if value > MOVED else 0.0
            bar.set(y=self._padding_base - height, height=height, visible=height > 0)
            number.set(text=_amount(value), y=self._padding_base - height - 0.04)

    def _set_rows(self, found: Any) -> None:
        for i, (on_words, on_pads) in enumerate(zip(found.on_words, found.on_pads, strict=True)):
            self._row_words[i].set_width(on_words * self._one)
            self._row_pads[i].set(x=self._rows_left + on_words * self._one, width=on_pads * self._one)
            self._row_words[i].set_visible(on_words > MOVED)
            self._row_pads[i].set_visible(on_pads > MOVED)
            self._row_totals[i].set_text(f"{on_words + on_pads:.2f}")

    def _set_labels(self, found: Any) -> None:
        for box, words, label in zip(self._label_boxes, self._label_words, found.labels, strict=True):
            real = label not in ("", "pad")
            box.set(facecolor=style.tint(style.OUTPUT, 0.8) if real else PAD_FILL if label else style.BACKGROUND)
            box.set(edgecolor=style.OUTPUT if real else style.HATCH_INK if label else style.GRID)
            words.set(text=label or "–", color=style.TEXT if label else style.MUTED)
        self._loss.set_text(f"loss: {found.loss:.3f} with 3 pads, {found.loss_with_more_pads:.3f} with 12")

    def regions(self, result: Any) -> list[Area]:
        if "future" not in result.found:
            return []
        found, moved = [], result.found["future"].moved
        left, top, cell, row = self._map
        for i, output in enumerate(self._words):
            for j, replaced in enumerate(self._words):
                x, y = left + j * cell, top + i * row
                words = f"replace “{replaced}”: the output at “{output}” moves by {_amount(moved[i][j])}"
                found.append(region(self.axes, (x, x + cell), (y, y + row), words))
        return found


def _amount(value: float) -> str:
    return f"{value:.2f}" if value >= 0.005 else "0" if value <= MOVED else "< 0.01"
