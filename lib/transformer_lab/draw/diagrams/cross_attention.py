"""Diagrams of the encoder–decoder of 2017, and of the cross-attention that joins its two stacks."""

from matplotlib.figure import Figure

from transformer_lab.draw import style
from transformer_lab.draw.diagrams.sheet import FINE, Box, Sheet

SUBLAYER = style.tint(style.ACCENT, 0.6)
SOURCE, TARGET = ("the", "white", "cow"), ("<start>", "la", "vache")
PADDED = (*SOURCE, "<pad>", "<pad>")


def encoder_decoder() -> Figure:
    """Six encoder blocks make one vector a source token; six decoder blocks read them while they write."""
    sheet = Sheet(900, 700)
    sheet.text(226, 38, "Encoder: reads", size=20, bold=True)
    sheet.text(660, 38, "Decoder: writes", size=20, bold=True)
    encoder = _stack(sheet, 112, SOURCE, ("self-attention", "feed-forward"))
    decoder = _stack(sheet, 546, TARGET, ("causal self-attention", "cross-attention", "feed-forward"))
    sheet.text(52, encoder["frame"].centre[1], "6 ×", size=18, bold=True)
    sheet.text(848, decoder["frame"].centre[1], "6 ×", size=18, bold=True)
    memory = [
        sheet.box(140 + 58 * place, 214, 52, 30, fill=style.tint(style.TEXT, 0.75), edge=style.TEXT, radius=3)
        for place in range(3)
    ]
    sheet.arrow(encoder["top"].top, (226, 246))
    sheet.text(226, 158, "memory: one vector", size=16, bold=True)
    sheet.text(226, 186, "for each source token", size=16)
    logits = sheet.box(546, 128, 228, 34, "linear, softmax", fill=style.tint(style.OUTPUT), edge=style.OUTPUT)
    sheet.arrow(decoder["top"].top, logits.bottom)
    sheet.arrow(logits.top, (660, 106))
    for place, word in enumerate(("la", "vache", "blanche")):
        sheet.box(546 + 78 * place, 70, 72, 34, word, size=15)
    cross, last = decoder["cross-attention"], memory[-1]
    for share, x, name, colour in ((0.28, 472, "K", style.KEY), (0.72, 446, "V", style.VALUE)):
        start, end = last.at(1, share), cross.at(0, share)
        sheet.arrow(start, (x, start[1]), (x, end[1]), end, colour=colour)
        sheet.text(494, end[1] + (-14 if name == "K" else 15), name, size=17, bold=True, colour=colour)
    sheet.text(636, cross.bottom[1] + 15, "Q", size=17, bold=True, colour=style.QUERY)
    sheet.text(450, 674, "Cross-attention is the decoder's only wire to the source.", size=17)
    return sheet.figure


def _stack(sheet: Sheet, left: float, words: tuple[str, ...], sublayers: tuple[str, ...]) -> dict[str, Box]:
    """One stack, drawn upwards from its tokens: its sublayers by name, its "frame" and its "top"."""
    middle, step = left + 114, 112
    for place, word in enumerate(words):
        sheet.box(left + 78 * place, 614, 72, 34, word, size=15)
    embedding = sheet.box(left, 560, 228, 34, "embedding + position", fill=style.GRID)
    sheet.arrow((middle, 614), embedding.bottom)
    top = 412 - step * (len(sublayers) - 1)
    boxes = {"frame": sheet.box(left - 30, top, 312, 538 - top, edge=style.TEXT, radius=10, line=FINE)}
    below = embedding
    for number, name in enumerate(sublayers):
        y = 468 - step * number
        box = boxes[name] = sheet.box(left, y, 228, 36, name, fill=SUBLAYER, bold=name == "cross-attention")
        add = boxes["top"] = sheet.box(left, y - 40, 228, 28, "add & norm", fill=style.GRID, size=15)
        sheet.arrow(below.top, box.bottom, colour=style.QUERY if name == "cross-attention" else style.TEXT)
        sheet.arrow(box.top, add.bottom, head=12)
        fork = (middle, box.bottom[1] + 24)
        sheet.dot(*fork, radius=3)
        sheet.arrow(fork, (left + 250, fork[1]), (left + 250, add.right[1]), add.right, width=FINE, head=12)
        below = add
    return boxes


def cross_attention() -> Figure:
    """Queries from the decoder's states, keys and values from the memory: a map that is not square."""
    sheet = Sheet(900, 500)
    cell, size = 20, 25
    target = sheet.cells(92, 121, [[style.tint(style.TEXT, 0.8)] * 4] * 3, size=cell)
    memory = sheet.cells(92, 305, [[style.tint(style.TEXT, 0.6)] * 4] * 5, size=cell)
    for words, grid in ((TARGET, target), (PADDED, memory)):
        for place, word in enumerate(words):
            sheet.text(82, grid.y + (place + 0.5) * cell, word, size=15, ha="right")
    for name, width, grid in (("decoder states", "3 × d_model", target), ("memory", "5 × d_model", memory)):
        sheet.text(grid.centre[0], grid.y - 46, name, size=17, bold=True)
        sheet.text(grid.centre[0], grid.y - 20, width, size=15)
    grids = {}
    for letter, start, middle, rows, colour in (
        ("Q", target, 151, 3, style.QUERY), ("K", memory, 285, 5, style.KEY), ("V", memory, 425, 5, style.VALUE),
    ):  # fmt: skip
        weight = sheet.box(214, middle - 19, 52, 38, f"W_{letter}", fill=style.tint(colour), edge=colour, size=17)
        sheet.arrow(start.right, (192, start.right[1]), (192, middle), weight.left)
        fills = [[style.tint(colour, 0.45)] * 3] * rows
        grid = grids[letter] = sheet.cells(296, middle - rows * cell / 2, fills, size=cell, frame=colour)
        sheet.arrow(weight.right, grid.left, colour=colour)
        sheet.text(grid.x + grid.width + 20, grid.y + 8, letter, size=20, bold=True, colour=colour)
    query, key, value = grids["Q"], grids["K"], grids["V"]
    y = query.right[1]
    weights = sheet.cells(446, y - 1.5 * size, [[style.tint(style.QUERY, 0.7)] * 5] * 3, size=size)
    sheet.text(weights.centre[0], 52, "weights", size=17, bold=True)
    sheet.text(weights.centre[0], 78, "3 × 5: target × source", size=15)
    sheet.text(weights.centre[0], 216, "÷ √d_k, then softmax", size=15)
    sheet.text(weights.centre[0], 240, "row by row", size=15)
    sheet.dot(408, y, radius=15, fill=style.BACKGROUND, edge=style.TEXT, words="×")
    sheet.arrow(query.right, (393, y), colour=style.QUERY)
    sheet.arrow(key.right, (408, key.right[1]), (408, y + 15), colour=style.KEY)
    sheet.arrow((423, y), weights.left)
    sheet.dot(610, y, radius=15, fill=style.BACKGROUND, edge=style.TEXT, words="×")
    sheet.arrow(weights.right, (595, y))
    sheet.arrow(value.right, (610, value.right[1]), (610, y + 15), colour=style.VALUE)
    mixed, output = (
        sheet.cells(x, y - 1.5 * cell, [[style.tint(style.OUTPUT, pale)] * columns] * 3, size=cell, frame=style.OUTPUT)
        for x, columns, pale in ((646, 3, 0.7), (800, 4, 0.45))
    )
    sheet.text(mixed.centre[0], 210, "3 × d_v", size=15)
    back = sheet.box(728, y - 19, 52, 38, "W_O", fill=style.tint(style.OUTPUT), edge=style.OUTPUT, size=17)
    sheet.arrow((625, y), mixed.left)
    sheet.arrow(mixed.right, back.left, colour=style.OUTPUT)
    sheet.arrow(back.right, output.left, colour=style.OUTPUT)
    sheet.text(output.centre[0], 75, "output", size=17, bold=True, colour=style.OUTPUT)
    sheet.text(output.centre[0], 101, "3 × d_model", size=15)
    return sheet.figure
