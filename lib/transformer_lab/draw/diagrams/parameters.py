"""A diagram of a block's matrices, their areas to scale."""

from matplotlib.figure import Figure

from transformer_lab.draw import style
from transformer_lab.draw.diagrams.sheet import FINE, Box, Sheet

D = 76  # pixels for d_model
GAP = 14
ATTENTION, FEED_FORWARD = style.tint(style.QUERY, 0.75), style.tint(style.VALUE, 0.75)


def block_areas() -> Figure:
    """The matrices of one block, a row for every input and a column for every output, areas to scale."""
    sheet = Sheet(900, 500)
    sheet.text(450, 34, "The matrices of one block: every area is a number of parameters", size=18, bold=True)

    left, top = 50, 118
    sheet.text(left, 78, "attention: 4 d²", size=17, bold=True, ha="left")
    for row, names in enumerate((("W_Q", "W_K"), ("W_V", "W_O"))):
        for column, name in enumerate(names):
            _matrix(sheet, left + column * (D + GAP), top + row * (D + GAP), 1, 1, name, ATTENTION)
    sheet.text(left, top + 2 * (D + GAP) + 14, "each d × d", size=16, ha="left")

    left = 310
    sheet.text(left, 78, "feed-forward: 8 d²", size=17, bold=True, ha="left")
    _matrix(sheet, left, top, 4, 1, "up: d × 4d", FEED_FORWARD)
    _matrix(sheet, left + 4 * D + GAP + 34, top, 1, 4, "down", FEED_FORWARD)
    sheet.text(left + 4 * D + GAP + 34 + D / 2, top + 4 * D + 22, "4d × d", size=16)
    gate = sheet.box(
        left, top + D + GAP, 4 * D, D, "with a gate, a third: d × 4d", fill=style.BACKGROUND, edge=style.VALUE,
        radius=0, dashed=True,
    )  # fmt: skip
    sheet.text(left, gate.y + D + 22, "12 d² become 16 d²", size=16, ha="left")

    # Nine biases and two norms: 13 d numbers, drawn for d = 512 as a strip as wide as a matrix.
    strip = 13 * D / 512
    y = 392
    sheet.text(50, y - 24, "norms and biases: 13 d", size=17, bold=True, ha="left")
    sheet.box(50, y, D, strip, fill=style.TEXT, edge=style.TEXT, radius=0, line=0)
    sheet.text(50, y + 26, "to scale at d = 512:", size=16, ha="left")
    sheet.text(50, y + 50, f"{13 / (12 * 512 + 13):.1%} of the block", size=16, ha="left")
    return sheet.figure


def _matrix(sheet: Sheet, x: float, y: float, columns: int, rows: int, words: str, fill: object) -> Box:
    """A matrix whose sides are so many times d; lines mark the squares of d × d."""
    box = sheet.box(x, y, columns * D, rows * D, fill=fill, radius=0)
    sheet.text(x + columns * D / 2, y + D / 2, words)
    for column in range(1, columns):
        for end in (y, y + D - 14):
            sheet.line((x + column * D, end), (x + column * D, end + 14), width=FINE)
    for row in range(1, rows):
        for end in (x, x + D - 14):
            sheet.line((end, y + row * D), (end + 14, y + row * D), width=FINE)
    return box
