"""One review in two batches: where its attention goes, and the two sets of class logits side by side."""

from typing import Any

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from transformer_lab.draw import style
from transformer_lab.draw.canvas import Area, region
from transformer_lab.draw.sheet import SheetPicture

WIDTH, HEIGHT = 9.0, 5.4
PANELS = (0.2, 4.75)  # left edges of the two batches
PANEL_WIDTH = 4.05
STRIP = (0.6, 0.13)  # top and height of the batch drawn to scale
LONGEST = 128  # tokens that fill the width of a panel
BASE, TALLEST = 2.32, 1.2  # where the attention bars stand, and how tall weight 1 is
CHIP = 0.3
PAD_SLOT = 1.7  # width of the pads' slot, in word slots
LOGITS_TOP, ROW = 3.66, 0.5
LOGITS_LEFT, LOGITS_RIGHT = 1.25, 6.05
VERDICT = 6.65
FIRST, SECOND = style.MUTED, style.ACCENT  # the colours of the two batches
COLOURS = (FIRST, SECOND)


class PaddingPicture(SheetPicture):
    """Draws a comparison: classes, and first and second, each with words, pads, weights, logits and predicted class."""

    def __init__(self, figure: Figure, result: Any) -> None:
        self.open_sheet(figure, result)
        self._low, self._high = result.logit_range
        batches = zip(PANELS, (result.first, result.second), COLOURS, ("A", "B"), strict=True)
        self._batches = [_Batch(self, *batch) for batch in batches]
        self._make_logits(result)
        self._make_verdict()

    @staticmethod
    def size(result: Any) -> tuple[float, float]:
        return WIDTH, HEIGHT

    @staticmethod
    def layout(result: Any) -> tuple:
        return result.first.words, result.first.side, result.classes, result.logit_range

    def _make_logits(self, result: Any) -> None:
        self.line((PANELS[0], WIDTH - PANELS[0]), (LOGITS_TOP - 0.52,) * 2)
        self.text(PANELS[0], LOGITS_TOP - 0.25, "Class logits: A above, B below", ha="left", weight="bold")
        zero = self._logit_x(0.0)
        bottom = LOGITS_TOP + len(result.classes) * ROW
        self.line((zero, zero), (LOGITS_TOP - 0.04, bottom), color=style.MUTED, zorder=4)
        self._logit_bars, self._logit_numbers = [], []
        for row, name in enumerate(result.classes):
            top = LOGITS_TOP + row * ROW
            self.text(PANELS[0], top + 0.22, name, ha="left")
            for batch, colour in enumerate(COLOURS):
                y = top + 0.02 + 0.21 * batch
                self._logit_bars.append(
                    self.rectangle(zero, y, 0, 0.19, moves=True, facecolor=colour, edgecolor=style.TEXT, lw=0.6)
                )
                self._logit_numbers.append(self.text(zero, y + 0.1, size="small", moves=True))

    def _make_verdict(self) -> None:
        self._answers = []
        for row, (name, colour) in enumerate(zip("AB", COLOURS, strict=True)):
            y = LOGITS_TOP + 0.02 + 0.44 * row
            self.rectangle(VERDICT, y, 0.3, 0.34, facecolor=colour)
            self.text(VERDICT + 0.15, y + 0.175, name, weight="bold", color=style.text_on(colour))
            self._answers.append(
                self.text(VERDICT + 0.42, y + 0.175, size="large", moves=True, ha="left", weight="bold")
            )
        self.text(VERDICT, LOGITS_TOP - 0.25, "The user sees", ha="left", weight="bold")
        self._frame = self.box(VERDICT, LOGITS_TOP + 0.97, 2.15, 0.48, radius=0.06, moves=True, zorder=2)
        self._verdict = self.text(VERDICT + 1.075, LOGITS_TOP + 1.21, moves=True, linespacing=1.25, weight="bold")

    def _logit_x(self, value: float) -> float:
        share = (value - self._low) / (self._high - self._low)
        return LOGITS_LEFT + share * (LOGITS_RIGHT - LOGITS_LEFT)

    def update(self, result: Any) -> None:
        readings = (result.first, result.second)
        for batch, reading in zip(self._batches, readings, strict=True):
            batch.update(reading, result.masked)
        zero = self._logit_x(0.0)
        for index, (bar, number) in enumerate(zip(self._logit_bars, self._logit_numbers, strict=True)):
            logit = readings[index % 2].logits[index // 2]
            end = self._logit_x(logit)
            bar.set_x(min(zero, end))
            bar.set_width(abs(end - zero))
            number.set(
                text=_signed(logit), x=end + (0.07 if logit >= 0 else -0.07), ha="left" if logit >= 0 else "right"
            )
            number.set_weight("bold" if logit == max(readings[index % 2].logits) else "normal")
        same = result.first.predicted == result.second.predicted
        for text, reading in zip(self._answers, readings, strict=True):
            text.set_text(reading.predicted)
        self._answers[1].set_color(style.TEXT if same else style.KEY)
        locked = result.gap < 1e-5
        colour = style.VALUE if locked else style.MUTED if same else style.KEY
        verdict = "✓ locked together" if locked else "same answer" if same else "✗ two answers"
        self._frame.set(facecolor=style.tint(colour, 0.86), edgecolor=colour)
        self._verdict.set_text(f"{verdict}\nlargest gap {'0.00000' if locked else f'{result.gap:.2f}'}")
        self._verdict.set_color(colour)

    def regions(self, result: Any) -> list[Area]:
        found = []
        for index, (batch, reading) in enumerate(zip(self._batches, (result.first, result.second), strict=True)):
            found += batch.regions(reading, self.axes)
            for row, (name, logit) in enumerate(zip(result.classes, reading.logits, strict=True)):
                y = LOGITS_TOP + row * ROW + 0.02 + 0.21 * index
                words = f"batch {'AB'[index]}, {name}: logit {_signed(logit)}"
                found.append(region(self.axes, (LOGITS_LEFT, LOGITS_RIGHT), (y, y + 0.19), words))
        return found


class _Batch:
    """One batch's attention row: a bar a word, and one hatched bar for all its pads together."""

    def __init__(self, sheet: PaddingPicture, left: float, reading: Any, colour: str, name: str) -> None:
        self._name, words = name, reading.words
        slot = PANEL_WIDTH / (len(words) + PAD_SLOT)
        shift = PAD_SLOT * slot if reading.side == "left" else 0.0
        self._word_slots = [(left + shift + i * slot, slot) for i in range(len(words))]
        self._pad_slot = (left + (0.0 if shift else len(words) * slot), PAD_SLOT * slot)
        sheet.rectangle(left, 0.12, 0.3, 0.34, facecolor=colour)
        sheet.text(left + 0.15, 0.29, name, weight="bold", color=style.text_on(colour))
        self._title = sheet.text(left + 0.42, 0.29, size="large", moves=True, ha="left", weight="bold")
        fill, pad_fill = style.tint(style.VALUE, 0.72), style.tint(style.PAD, 0.45)
        self._bars, self._numbers = [], []
        for word, (x, width) in zip(words, self._word_slots, strict=True):
            self._bars.append(
                sheet.rectangle(
                    x + 0.14 * width, BASE, 0.72 * width, 0, moves=True, facecolor=style.tint(style.VALUE, 0.3),
                    edgecolor=style.VALUE, lw=1,
                )
            )  # fmt: skip
            self._numbers.append(sheet.text(x + width / 2, BASE, moves=True, va="bottom", size="small"))
            sheet.rectangle(x + 0.03, BASE + 0.06, width - 0.06, CHIP, facecolor=fill, edgecolor=style.VALUE, lw=1)
            sheet.text(x + width / 2, BASE + 0.06 + CHIP / 2, word, size="small" if len(word) > 5 else "normal")
        x, width = self._pad_slot
        hatched = {"edgecolor": style.HATCH_INK, "hatch": style.PAD_HATCH, "lw": 1}
        self._tower = sheet.rectangle(
            x + 0.14 * width, BASE, 0.72 * width, 0, moves=True, facecolor=pad_fill, **hatched
        )
        self._lost = sheet.text(x + width / 2, BASE, moves=True, va="bottom", size="large", weight="bold")
        self._chip = sheet.rectangle(x + 0.03, BASE + 0.06, width - 0.06, CHIP, moves=True, **hatched)
        self._pad_fill = pad_fill
        self._count = sheet.text(
            x + width / 2, BASE + 0.06 + CHIP / 2, moves=True,
            bbox={"facecolor": style.BACKGROUND, "edgecolor": "none", "pad": 1.5},
        )  # fmt: skip
        self._each = sheet.text(x + width / 2, BASE + CHIP + 0.2, moves=True, size="small", color=style.MUTED)
        middle = left + shift + len(words) * slot / 2
        sheet.text(middle, BASE + CHIP + 0.2, "share of the words’ attention", size="small", color=style.MUTED)
        self._left, self._mask = left, sheet.text(left + PANEL_WIDTH, 0.29, moves=True, ha="right", weight="bold")
        top, height = STRIP
        self._strip_words = sheet.rectangle(left, top, 0, height, moves=True, facecolor=style.tint(style.VALUE, 0.3))
        self._strip_pads = sheet.rectangle(
            left, top, 0, height, moves=True, facecolor=pad_fill, **(hatched | {"lw": 0.6})
        )
        sheet.line((left, left + PANEL_WIDTH), (BASE, BASE), color=style.MUTED, zorder=3)

    def update(self, reading: Any, masked: bool) -> None:
        self._title.set_text(f"Batch {self._name}: {pads(reading.n_pads)}")
        self._mask.set(text="mask on" if masked else "no mask", color=style.VALUE if masked else style.KEY)
        token = PANEL_WIDTH / LONGEST
        words, padding = len(reading.words) * token, reading.n_pads * token
        self._strip_words.set(x=self._left + (padding if reading.side == "left" else 0), width=words)
        self._strip_pads.set(x=self._left + (0 if reading.side == "left" else words), width=padding)
        for bar, number, weight in zip(self._bars, self._numbers, reading.word_weights, strict=True):
            _stand(bar, number, weight)
            number.set_text(percent(weight))
        _stand(self._tower, self._lost, reading.pad_share)
        self._tower.set_visible(reading.pad_share > 0)
        self._lost.set_text(f"{percent(reading.pad_share)} lost" if reading.n_pads else "")
        self._chip.set_facecolor(self._pad_fill if reading.n_pads else style.BACKGROUND)
        self._chip.set_hatch(style.PAD_HATCH if reading.n_pads else None)
        self._chip.set_edgecolor(style.HATCH_INK if reading.n_pads else style.GRID)
        self._count.set_text(pads(reading.n_pads))
        self._each.set_text(each_pad(reading))

    def regions(self, reading: Any, axes: Any) -> list[Area]:
        top, bottom = BASE - TALLEST - 0.2, BASE + 0.06 + CHIP
        found = []
        for word, weight, (x, width) in zip(reading.words, reading.word_weights, self._word_slots, strict=True):
            found.append(
                region(axes, (x, x + width), (top, bottom), f"batch {self._name}, {word}: weight {weight:.3f}")
            )
        x, width = self._pad_slot
        words = f"batch {self._name}, {pads(reading.n_pads)}: {reading.pad_share:.3f} of the attention"
        found.append(region(axes, (x, x + width), (top, bottom), words))
        return found


def _stand(bar: Rectangle, number: Any, weight: float) -> None:
    bar.set(y=BASE - TALLEST * weight, height=TALLEST * weight)
    number.set_y(BASE - TALLEST * weight - 0.04)


def pads(n_pads: int) -> str:
    """ "no pads", "1 pad", "124 pads"."""
    return f"{n_pads or 'no'} pad{'' if n_pads == 1 else 's'}"


def percent(share: float) -> str:
    """A share in words; what is not zero never reads as zero."""
    if 0 < share < 0.0005:
        return "< 0.1 %"
    return f"{share:.1%}".replace("%", " %") if 0 < share < 0.0095 else f"{share:.0%}".replace("%", " %")


def each_pad(reading: Any) -> str:
    """How much one pad takes, as one figure or as a range."""
    if not reading.n_pads:
        return ""
    low, high = (percent(bound) for bound in (min(reading.pad_weights), max(reading.pad_weights)))
    return f"each {low}" if low == high else f"each {low} to {high}"


def _signed(number: float) -> str:
    return f"{number:.2f}".replace("-", "−") if round(number, 2) else "0.00"
