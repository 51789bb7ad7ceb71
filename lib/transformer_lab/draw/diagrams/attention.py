"""Diagrams of attention itself: its place in the block, and the steps inside it."""

import numpy as np
from matplotlib.figure import Figure

from transformer_lab.draw import style
from transformer_lab.draw.diagrams.sheet import FINE, LINE, Box, Point, Sheet


def rhythm() -> Figure:
    """Attention mixes between tokens, feed-forward works on each alone; add and norm after each; N times."""
    sheet = Sheet(900, 486)
    lanes = (176, 230, 284, 338)
    sheet.text(444, 32, "N such blocks, one after another, each with its own weights", size=17)
    for shift in (16, 8, 0):  # the sheets behind stand for the other blocks
        sheet.box(150 + shift, 76 - shift, 588, 356, edge=style.TEXT, radius=10, line=FINE)
    for token, y in zip(("The", "cat", "sleeps", "here"), lanes, strict=True):
        start = sheet.box(24, y - 19, 84, 38, token, size=18)
        sheet.line(start.right, (738, y))
        end = sheet.box(792, y - 19, 84, 38, token, size=18)
        sheet.arrow((738, y), end.left)
    mixing = sheet.box(196, 148, 176, 218, fill=style.tint(style.ACCENT, 0.6), zorder=3)
    for source in lanes:
        for target in lanes:
            sheet.arrow((204, source), (366, target), width=FINE, head=11)
    for y in lanes:
        alone = sheet.box(480, y - 19, 146, 38, fill=style.tint(style.ACCENT, 0.6), zorder=4)
        sheet.arrow((488, y), (620, y), width=FINE, head=11, zorder=5)
    for middle, name, words in (
        (mixing.centre[0], "1  Attention", "mixes between tokens"),
        (alone.centre[0], "2  Feed-forward", "each token alone"),
    ):
        sheet.text(middle, 102, name, size=20, bold=True)
        sheet.text(middle, 130, words, size=17)
    for fork, x in ((174, 394), (457, 650)):
        add = sheet.box(x, 148, 42, 218, "Add & norm", fill=style.GRID, turn=90, size=17, zorder=4)
        sheet.dot(fork, lanes[-1])
        sheet.arrow((fork, lanes[-1]), (fork, 386), (add.bottom[0], 386), add.bottom, width=LINE)
    sheet.text(444, 403, "residual stream: carried past each step, then added back", size=16)
    sheet.text(450, 460, "Mix between tokens. Work on each alone. Repeat.", size=19, bold=True)
    return sheet.figure


def attention_flow() -> Figure:
    """X to Q, K and V, to scores, scaled, masked, weights and output, with a shape at every stage (n = 4).

    The colours of the cells are computed: a seeded X and seeded projections go through the steps that are drawn.
    """
    steps = _attention_by_hand()
    sheet = Sheet(900, 560)
    x = sheet.cells(28, 212, [[style.tint(style.TEXT, 0.8)] * 5] * 4, size=20)
    sheet.text(x.centre[0], 192, "X", size=20, bold=True)
    sheet.text(x.centre[0], 312, "4 × d_model", size=16)
    query, key, value = (
        _projection(sheet, x.right, top, letter, colour)
        for top, letter, colour in ((54, "Q", style.QUERY), (212, "K", style.KEY), (398, "V", style.VALUE))
    )

    top, size = 96, 28
    scores = sheet.cells(404, top, _signed(steps["scores"], steps["scores"]), size=size)
    scaled = sheet.cells(584, top, _signed(steps["scaled"], steps["scores"]), size=size)
    masked = sheet.cells(764, top, _signed(steps["masked"], steps["scores"]), size=size)
    join = _product(sheet, 366, scores.left[1])
    sheet.arrow(query.right, (join.top[0], query.right[1]), join.top, colour=style.QUERY)
    sheet.arrow(key.right, (join.bottom[0], key.right[1]), join.bottom, colour=style.KEY)
    sheet.arrow(join.right, scores.left)
    sheet.arrow(scores.right, scaled.left)
    sheet.arrow(scaled.right, masked.left)
    for grid, name in ((scores, "scores = Q Kᵀ"), (scaled, "scaled"), (masked, "masked")):
        sheet.text(grid.centre[0], 42, name, size=17, bold=True)
        sheet.text(grid.centre[0], 72, "4 × 4", size=16)
    sheet.text(550, top + 36, "÷ √d_k", size=16)
    sheet.text(730, top + 36, "mask", size=16)

    fills = [[None if weight == 0 else style.WEIGHTS(weight) for weight in row] for row in steps["weights"]]
    weights = sheet.cells(404, 338, fills, size=size)
    sheet.arrow(masked.bottom, (masked.bottom[0], 268), (weights.top[0], 268), weights.top)
    sheet.box(542, 252, 196, 32, "softmax, row by row", edge=style.BACKGROUND, size=17, zorder=5)
    sheet.text(weights.centre[0], 470, "weights", size=17, bold=True)
    sheet.text(weights.centre[0], 496, "4 × 4, rows sum to 1", size=16)
    mix = _product(sheet, 640, weights.right[1])
    output = sheet.cells(
        764, mix.right[1] - 40, [[style.tint(style.OUTPUT, 0.45)] * 3] * 4, size=20, frame=style.OUTPUT
    )
    sheet.arrow(weights.right, mix.left)
    start = value.at(1, 0.75)
    sheet.arrow(start, (346, start[1]), (346, 530), (mix.bottom[0], 530), mix.bottom, colour=style.VALUE)
    sheet.arrow(mix.right, output.left)
    sheet.text(output.centre[0], output.y - 20, "output", size=17, bold=True, colour=style.OUTPUT)
    sheet.text(output.centre[0], output.bottom[1] + 20, "4 × d_v", size=16)
    return sheet.figure


def _projection(sheet: Sheet, start: Point, top: float, letter: str, colour: str) -> Box:
    """X through one learned projection: the arrow from X, the weight box, and the grid of results."""
    middle, turn = top + 40, 150
    weight = sheet.box(172, middle - 20, 58, 40, f"W_{letter}", fill=style.tint(colour), edge=colour, size=17)
    sheet.arrow(start, (turn, start[1]), (turn, middle), weight.left)
    grid = sheet.cells(266, top, [[style.tint(colour, 0.45)] * 3] * 4, size=20, frame=colour)
    sheet.arrow(weight.right, grid.left, colour=colour)
    sheet.text(grid.centre[0], top - 20, letter, size=20, bold=True, colour=colour)
    sheet.text(grid.centre[0], top + 100, "4 × d_v" if letter == "V" else "4 × d_k", size=16)
    return grid


def _product(sheet: Sheet, x: float, y: float) -> Box:
    """A matrix product: a cross in a ring, with points for arrows around it."""
    sheet.dot(x, y, radius=15, fill=style.BACKGROUND, edge=style.TEXT, words="×")
    return Box(x - 15, y - 15, 30, 30)


def _attention_by_hand() -> dict[str, np.ndarray]:
    """The steps for four tokens with d_model = 5 and d_k = 3; masked scores are minus infinity."""
    random = np.random.default_rng(3)
    x = random.normal(size=(4, 5)) * 0.6
    query, key = x @ random.normal(size=(5, 3)), x @ random.normal(size=(5, 3))
    scores = query @ key.T
    scaled = scores / np.sqrt(3)
    masked = np.where(np.tri(4, dtype=bool), scaled, -np.inf)
    raised = np.exp(masked - masked.max(axis=1, keepdims=True))
    return {"scores": scores, "scaled": scaled, "masked": masked, "weights": raised / raised.sum(1, keepdims=True)}


def _signed(values: np.ndarray, reference: np.ndarray) -> list[list]:
    """Colours of signed values on the reference's own range; minus infinity is a forbidden cell."""
    limit = np.abs(reference).max()
    return [[None if np.isneginf(v) else style.SIGNED(0.5 + v / (2 * limit)) for v in row] for row in values]
