"""Diagrams of heads: eight of them side by side, with shapes, and patterns that a head may show."""

import numpy as np
from matplotlib.figure import Figure

from transformer_lab.draw import style
from transformer_lab.draw.diagrams.sheet import FINE, Sheet

WORDS = ("the", "cat", "saw", "the", "cat", "run")
SHADES = [style.tint(style.OUTPUT, pale) for pale in (0.1, 0.7, 0.35, 0.85, 0.2, 0.75, 0.55, 0.3)]  # one a head


def multiple_heads() -> Figure:
    """Four tokens of width 512 through eight heads of 64, the head outputs side by side again, then W_O."""
    sheet = Sheet(900, 470)
    x = _matrix(sheet, 28, 197, 80, [style.GRID])
    sheet.text(x.centre[0], 176, "X", size=20, bold=True)
    sheet.text(x.centre[0], 290, "4 × 512", size=16)
    joined = _matrix(sheet, 632, 197, 104, SHADES)
    weights = np.random.default_rng(3).dirichlet(np.full(4, 0.7), size=(3, 4))
    for row, (name, head) in enumerate((("head 1", 0), ("head 2", 1), ("head 8", 7))):
        y = (44, 170, 342)[row]
        sheet.text(182, y - 6, name, size=16, bold=True, ha="left")
        projections = sheet.box(182, y + 10, 118, 62, fill=style.tint(style.ACCENT, 0.8))
        sheet.text(projections.centre[0], y + 30, "Q, K, V", size=17, bold=True)
        sheet.text(projections.centre[0], y + 54, "4 × 64 each", size=15)
        scores = sheet.cells(356, y + 4, [[style.WEIGHTS(w) for w in line] for line in weights[row]], size=19)
        sheet.text(scores.centre[0], y - 9, "4 × 4", size=15)
        output = _matrix(sheet, 494, y + 4, 30, [SHADES[head]])
        sheet.text(output.centre[0], y - 9, "4 × 64", size=15)
        middle = y + 42
        sheet.line(x.right, (144, x.right[1]))
        sheet.arrow((144, x.right[1]), (144, middle), projections.at(0, (middle - y - 10) / 62))
        sheet.arrow((projections.right[0], middle), (scores.x, middle))
        sheet.arrow((scores.x + scores.width, middle), (output.x, middle))
        stripe = joined.x + joined.width * (head + 0.5) / 8
        if row == 1:
            sheet.arrow((output.right[0], middle), (580, middle), (580, joined.left[1]), joined.left)
        else:
            end = joined.y if row == 0 else joined.y + joined.height
            sheet.arrow((output.right[0], middle), (stripe, middle), (stripe, end))
    sheet.text(241, 298, "⋮", size=22, bold=True)
    sheet.text(394, 298, "⋮", size=22, bold=True)
    sheet.text(509, 298, "⋮", size=22, bold=True)
    sheet.text(702, 298, "side by side", size=16, ha="right")
    sheet.text(702, 322, "4 × 512", size=16, ha="right")
    mix = sheet.box(766, 213, 52, 48, "W_O", size=17, bold=True, fill=style.tint(style.ACCENT, 0.8))
    output = _matrix(sheet, 842, 197, 36, [style.GRID])
    sheet.arrow(joined.right, mix.left)
    sheet.arrow(mix.right, output.left)
    sheet.text(output.centre[0] - 6, 176, "output", size=16, bold=True)
    sheet.text(output.centre[0] - 8, 290, "4 × 512", size=16)
    sheet.text(450, 446, "Every head reads the whole X. Its own projections decide what it looks for.", size=17)
    return sheet.figure


def head_patterns() -> Figure:
    """Four patterns that heads are known to show, drawn by hand and labelled so."""
    n = len(WORDS)
    previous = np.eye(n)[np.maximum(np.arange(n) - 1, 0)]
    same = np.array([[float(a == b) for b in WORDS] for a in WORDS])
    patterns = (
        ("previous token", previous),
        ("first token", np.eye(n)[np.zeros(n, dtype=int)]),
        ("same word", same / same.sum(axis=1, keepdims=True)),
        ("everything alike", np.full((n, n), 1 / n)),
    )
    sheet = Sheet(900, 330)
    sheet.text(450, 34, "Illustrative: drawn by hand, not measured", size=18, bold=True)
    size, top = 28, 138
    for index, (name, weights) in enumerate(patterns):
        left = 72 + index * 208
        fills = [[style.WEIGHTS(0.9 * weight) for weight in row] for row in weights]
        grid = sheet.cells(left, top, fills, size=size, edge=style.GRID)
        for place, word in enumerate(WORDS):
            sheet.text(left + (place + 0.5) * size, top - 24, word, size=14, colour=style.KEY, turn=90)
            if index == 0:
                sheet.text(left - 10, top + (place + 0.5) * size, word, size=14, colour=style.QUERY, ha="right")
        sheet.text(grid.centre[0], 74, name, size=17, bold=True)
    return sheet.figure


def _matrix(sheet: Sheet, x: float, y: float, width: float, fills: list):
    """A matrix of four rows whose columns are painted in equal blocks."""
    cell, height = width / len(fills), 80
    for index, fill in enumerate(fills):
        sheet.box(x + index * cell, y, cell, height, fill=fill, edge=fill, radius=0, line=0)
    for row in range(1, 4):
        sheet.line((x, y + row * height / 4), (x + width, y + row * height / 4), colour=style.BACKGROUND, width=FINE)
    return sheet.box(x, y, width, height, fill="none", radius=2, line=FINE, zorder=3)
