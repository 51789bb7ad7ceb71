"""Diagrams about who may look at whom: the causal triangle and the padding bug."""

from matplotlib.figure import Figure

from transformer_lab.draw import style
from transformer_lab.draw.diagrams.sheet import Sheet


def causal_triangle() -> Figure:
    """A causal mask, queries down and keys across, and the label that each row predicts."""
    tokens = ("The", "cat", "sleeps", "on", "mats")
    labels = (*tokens[1:], "<end>")
    sheet = Sheet(900, 520)
    left, top, size = 196, 116, 74
    allowed = style.tint(style.QUERY, 0.35)
    fills = [[allowed if key <= query else None for key in range(5)] for query in range(5)]
    grid = sheet.cells(left, top, fills, size=size, edge=style.TEXT)
    sheet.text(grid.centre[0], 36, "keys: may be looked at", size=18, colour=style.KEY, bold=True)
    sheet.text(44, grid.centre[1], "queries: who looks", size=18, colour=style.QUERY, bold=True, turn=90)
    sheet.text(762, 36, "labels: the next token", size=18, colour=style.OUTPUT, bold=True)
    for index, (token, label) in enumerate(zip(tokens, labels, strict=True)):
        middle = top + (index + 0.5) * size
        sheet.box(left + index * size + 3, 66, size - 6, 36, token, fill=style.tint(style.KEY), edge=style.KEY, size=17)
        sheet.box(74, middle - 20, 108, 40, token, fill=style.tint(style.QUERY), edge=style.QUERY, size=18)
        target = sheet.box(708, middle - 20, 108, 40, label, fill=style.tint(style.OUTPUT), edge=style.OUTPUT, size=18)
        sheet.arrow((left + 5 * size, middle), target.left, colour=style.OUTPUT)
        for key in range(5):
            sheet.text(left + (key + 0.5) * size, middle, "✓" if key <= index else "✗", size=26, bold=True)
    sheet.text(637, top + size * 0.5 - 16, "predicts", size=16, colour=style.OUTPUT)
    return sheet.figure


def padding_bug() -> Figure:
    """One sentence in two batches: where its attention goes without the mask and with it.

    The bars are drawn for equal scores, where every key that may be seen gets the same share.
    """
    sheet = Sheet(900, 466)
    for left, name, pads in ((24, "Batch A: 3 pads", 3), (464, "Batch B: 124 pads", 124)):
        _padded_batch(sheet, left, name, pads)
    sheet.line((450, 24), (450, 366), colour=style.GRID)
    sheet.text(450, 404, "Same sentence. Without the mask, its answer depends on the batch.", size=19, bold=True)
    sheet.text(450, 438, "Drawn for equal scores: every visible key gets the same share.", size=15, colour=style.MUTED)
    return sheet.figure


def _padded_batch(sheet: Sheet, left: float, name: str, pads: int) -> None:
    words = ("The", "film", "was", "great")
    width, word = 412, 58
    fill, pad = style.tint(style.VALUE, 0.7), style.tint(style.PAD, 0.4)
    sheet.text(left, 40, name, size=20, ha="left", bold=True)
    for index, token in enumerate(words):
        sheet.box(left + index * word, 66, word, 42, token, fill=fill, edge=style.VALUE, size=16)
    rest = left + len(words) * word
    if pads <= 3:
        for index in range(pads):
            _hatched(sheet, rest + index * 60, 66, 60, 42, "pad", pad)
    else:
        for index in range(2):
            _hatched(sheet, rest + index * 60, 66, 60, 42, "pad", pad)
        sheet.text(rest + 150, 87, "…", size=24, bold=True)
    share = len(words) / (len(words) + pads)
    for top, title, seen in ((150, "No mask", share), (272, "With the mask", 1.0)):
        sheet.text(left, top - 4, title, size=18, ha="left", bold=True)
        sheet.box(left, top + 14, width * seen, 50, fill=fill, edge=style.VALUE, radius=0)
        sheet.text(left, top + 84, f"words {seen:.0%}", size=17, ha="left", colour=style.VALUE, bold=True)
        if seen < 1:
            _hatched(sheet, left + width * seen, top + 14, width * (1 - seen), 50, "", pad)
        sheet.text(left + width, top + 84, f"pads {1 - seen:.0%}", size=17, ha="right", colour=style.MUTED, bold=True)


def _hatched(sheet: Sheet, x, y, width, height, words, fill) -> None:
    sheet.box(x, y, width, height, fill=fill, edge=style.HATCH_INK, hatch=style.PAD_HATCH, radius=0)
    if words:
        sheet.box(x + width / 2 - 19, y + 9, 38, height - 18, words, fill=style.BACKGROUND, edge=style.BACKGROUND)
