"""A diagram of a block's matrices, their areas to scale."""

from matplotlib.figure import Figure

from transformer_lab.draw import style
from transformer_lab.draw.diagrams.sheet import FINE, Sheet

D = 100  # pixels for d_model
GAP = 14
TOP = 112
ATTENTION, FEED_FORWARD = style.tint(style.QUERY, 0.75), style.tint(style.VALUE, 0.75)


def block_areas() -> Figure:
    """The matrices of one block, a row for every input and a column for every output, areas to scale."""
    sheet = Sheet(900, 545)
    sheet.text(450, 34, "The matrices of one block: every area is a number of parameters", size=18, bold=True)

    left, below = 45, TOP + 2 * D + GAP
    sheet.text(left, 82, "attention: 4 d²", size=18, bold=True, ha="left")
    for row, letters in enumerate(("QK", "VO")):
        for column, letter in enumerate(letters):
            x, y = left + column * (D + GAP), TOP + row * (D + GAP)
            _matrix(sheet, x, y, 1, 1, fill=ATTENTION)
            sheet.text(x + D / 2 - 6, y + D / 2, "W", size=20)
            sheet.text(x + D / 2 + 10, y + D / 2 + 6, letter, size=14)
    sheet.text(left + D + GAP / 2, below + 22, "each d × d", size=16)

    left = 319
    sheet.text(left, 82, "feed-forward: 8 d²", size=18, bold=True, ha="left")
    _matrix(sheet, left, TOP, 4, 1, "up: d × 4d", FEED_FORWARD)
    _matrix(sheet, left, TOP + D + GAP, 4, 1, "with a gate, a third: d × 4d")
    x = left + 4 * D + 36
    _matrix(sheet, x, TOP, 1, 4, fill=FEED_FORWARD)
    sheet.text(x + D / 2, TOP + 2 * D - 22, "down:", size=16)
    sheet.text(x + D / 2, TOP + 2 * D + 22, "4d × d", size=16)

    for y, name, squares in ((80, "plain block", "4 + 8 = 12 d²"), (132, "with a gate", "4 + 12 = 16 d²")):
        sheet.text(left, below + y, name, size=24, ha="left")
        sheet.text(left + 4 * D, below + y, squares, size=24, bold=True, ha="right")

    # Nine biases and two norms: 13 d numbers, drawn for d = 512 as a strip as wide as a matrix.
    left, share = 45, 13 / (12 * 512 + 13)
    sheet.text(left, below + 80, "biases and norms: 13 d", size=18, bold=True, ha="left")
    sheet.box(left, below + 106, D, 13 * D / 512, fill=style.TEXT, edge=style.TEXT, radius=0, line=0)
    sheet.text(left, below + 132, f"at d = 512: {share:.1%} of the block", size=16, ha="left")
    return sheet.figure


def _matrix(sheet: Sheet, x: float, y: float, columns: int, rows: int, words: str = "", fill: object = None) -> None:
    """A matrix whose sides are so many times d; lines mark the squares of d × d. Without a fill it is dashed."""
    sheet.box(
        x, y, columns * D, rows * D, words, fill=fill or style.BACKGROUND, edge=style.TEXT if fill else style.VALUE,
        radius=0, dashed=not fill,
    )  # fmt: skip
    for column in range(1, columns):
        for end in (y, y + D - 12):
            sheet.line((x + column * D, end), (x + column * D, end + 12), width=FINE)
    for row in range(1, rows):
        for end in (x, x + D - 12):
            sheet.line((end, y + row * D), (end + 12, y + row * D), width=FINE)
