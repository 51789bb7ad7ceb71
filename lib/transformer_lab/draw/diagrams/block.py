"""Diagram of the block: the norm after the sum and before the sublayer, side by side."""

from matplotlib.figure import Figure

from transformer_lab.draw import style
from transformer_lab.draw.diagrams.sheet import LINE, Sheet

WIDTH, HEIGHT = 176, 44
STREAM = 5.0  # width of the line that is the stream


def block_orders() -> Figure:
    """One post-norm block and one pre-norm block, from the input above to the output below."""
    sheet = Sheet(900, 640)
    sheet.line((450, 30), (450, 586), colour=style.GRID)
    _block(sheet, 180, "Post-norm", "norm(x + f(x))", ("sublayer", "sum", "norm"))
    _block(sheet, 630, "Pre-norm", "x + f(norm(x))", ("norm", "sublayer", "sum"))
    sheet.text(220, 606, "The stream passes through every norm.", size=16)
    sheet.text(670, 606, "The stream meets one norm, after all blocks.", size=16)
    return sheet.figure


def _block(sheet: Sheet, x: float, title: str, formula: str, order: tuple[str, ...]) -> None:
    sheet.text(x + 40, 34, title, size=20, bold=True)
    sheet.text(x + 40, 64, formula, size=17)
    y = 92
    sheet.text(x, y + 4, "x", size=18, bold=True)
    y += 18
    for name in ("Attention", "Feed-forward"):
        y = _residual(sheet, x, y, name, order)
    sheet.arrow((x, y), (x, y + 34), width=STREAM, head=26)
    sheet.text(x, y + 52, "next block", size=16)


def _residual(sheet: Sheet, x: float, y: float, name: str, order: tuple[str, ...]) -> float:
    """One sublayer with its shortcut and norm, from ``y`` down; returns where it ends."""
    fork = y + 12
    sheet.line((x, y), (x, fork), width=STREAM)
    place = fork
    for part in order:
        if part == "sum":
            place += 36
            sheet.arrow((x, place - 36), (x, place - 14))
            around = x + WIDTH / 2 + 50
            sheet.arrow((x, fork), (around, fork), (around, place), (x + 14, place), width=STREAM, head=26)
            sheet.dot(x, place, radius=14, fill=style.BACKGROUND, edge=style.TEXT, words="+")
            place += 14
            continue
        is_norm = part == "norm"
        carries = is_norm and order[-1] == "norm"  # the stream itself goes through this one
        sheet.arrow((x, place), (x, place + 26), width=STREAM if carries else LINE, head=26 if carries else 16)
        sheet.box(
            x - WIDTH / 2, place + 26, WIDTH, HEIGHT, "norm" if is_norm else name, bold=not is_norm, size=17,
            fill=style.GRID if is_norm else style.tint(style.ACCENT, 0.6), radius=20 if is_norm else 6, zorder=4,
        )  # fmt: skip
        place += 26 + HEIGHT
    return place
