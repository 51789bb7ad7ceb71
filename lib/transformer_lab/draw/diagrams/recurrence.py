"""Diagrams of recurrence: the chain of hidden states, and the gates inside an LSTM and a GRU."""

from matplotlib.figure import Figure

from transformer_lab.draw import style
from transformer_lab.draw.diagrams.sheet import Box, Sheet

_GATE = {"fill": style.tint(style.TEXT, 0.9), "edge": style.TEXT, "size": 17}
_CANDIDATE = {"fill": style.BACKGROUND, "edge": style.MUTED, "size": 17}
_CELL = {"fill": style.tint(style.ACCENT, 0.6), "edge": style.ACCENT, "size": 18}
_HIDDEN = {"fill": style.tint(style.OUTPUT), "edge": style.OUTPUT, "size": 18}


def rnn_chain() -> Figure:
    """Five tokens: through their hidden states it takes four transitions from the first to the fifth, or one look."""
    sheet = Sheet(900, 430)
    lefts = [40 + 180 * index for index in range(5)]
    words = ("The", "cat", "that", "I", "saw")
    tokens = [sheet.box(left, 200, 100, 46, word, size=18) for left, word in zip(lefts, words, strict=True)]
    hidden = [sheet.box(left, 84, 100, 50, f"h_{index}", **_HIDDEN) for index, left in enumerate(lefts, 1)]
    for token, state in zip(tokens, hidden, strict=True):
        sheet.arrow(token.top, state.bottom)
    for step, (left, right) in enumerate(zip(hidden, hidden[1:], strict=False), 1):
        sheet.arrow(left.right, right.left, colour=style.OUTPUT)
        sheet.text((left.right[0] + right.left[0]) / 2, 92, str(step), size=18, colour=style.OUTPUT, bold=True)
    sheet.text(450, 44, "Recurrence: 4 transitions, one after another", size=17, colour=style.OUTPUT, bold=True)
    look = sheet.box(lefts[4], 312, 100, 50, "output", fill=style.tint(style.QUERY), edge=style.QUERY, size=18)
    first = tokens[0].bottom
    sheet.arrow(first, (first[0], look.left[1]), look.left, colour=style.QUERY)
    sheet.arrow(tokens[4].bottom, look.top)
    sheet.text(450, 384, "Attention: 1 step, whatever lies between", size=17, colour=style.QUERY, bold=True)
    return sheet.figure


def lstm_cell() -> Figure:
    """The cell state runs along the top: the forget gate keeps, the input gate writes, the output gate shows."""
    sheet = Sheet(900, 480)
    belt, row = 110, 270
    old, new = sheet.box(24, belt - 25, 100, 50, "old c", **_CELL), sheet.box(776, belt - 25, 100, 50, "new c", **_CELL)
    forget = sheet.box(160, row - 34, 120, 68, "forget\ngate f", **_GATE)
    put_in = sheet.box(310, row - 34, 106, 68, "input\ngate i", **_GATE)
    candidate = sheet.box(444, row - 34, 116, 68, "candidate\ng", **_CANDIDATE)
    shown = sheet.box(590, row - 34, 106, 68, "output\ngate o", **_GATE)
    hidden = sheet.box(776, row - 25, 100, 50, "new h", **_HIDDEN)
    write, show = 430, 736
    sheet.line(old.right, (show, belt), colour=style.ACCENT, width=5)
    sheet.arrow((show, belt), new.left, colour=style.ACCENT, width=5, head=26)
    sheet.arrow(forget.top, (forget.top[0], belt + 15))
    for source, side in ((put_in, -15), (candidate, 15)):
        sheet.arrow(source.top, (source.top[0], 190), (write + side, 190))
    sheet.arrow((write, 175), (write, belt + 15))
    sheet.arrow((show, belt), (show, 166))
    sheet.box(show - 34, 166, 68, 36, "tanh", size=16)
    sheet.arrow((show, 202), (show, row - 15))
    sheet.arrow(shown.right, (show - 15, row))
    sheet.arrow((show + 15, row), hidden.left)
    for x, y, sign in ((forget.top[0], belt, "×"), (write, belt, "+"), (write, 190, "×"), (show, row, "×")):
        sheet.dot(x, y, radius=15, fill=style.BACKGROUND, edge=style.TEXT, words=sign)
    _feed(sheet, 384, forget, put_in, candidate, shown)
    for x, words in ((forget.top[0], "keep"), (write, "write"), (show, "show")):
        sheet.text(x, 62, words, size=18, bold=True)
    sheet.text(450, 448, "c' = f ⊙ c + i ⊙ g          h' = o ⊙ tanh(c')", size=19)
    return sheet.figure


def gru_cell() -> Figure:
    """The hidden state runs along the top: one gate decides between old and new, one what the new part reads."""
    sheet = Sheet(900, 480)
    belt, row = 110, 270
    old, new = (sheet.box(x, belt - 25, 100, 50, words, **_HIDDEN) for x, words in ((24, "old h"), (776, "new h")))
    update = sheet.box(180, row - 34, 120, 68, "update\ngate z", **_GATE)
    rest = sheet.box(346, row - 25, 90, 50, "1 − z", **_GATE)
    candidate = sheet.box(500, row - 34, 120, 68, "candidate\nn", **_CANDIDATE)
    reset = sheet.box(730, row - 34, 120, 68, "reset\ngate r", **_GATE)
    keep, write = update.top[0], candidate.top[0]
    sheet.line(old.right, (write, belt), colour=style.OUTPUT, width=5)
    sheet.arrow((write, belt), new.left, colour=style.OUTPUT, width=5, head=26)
    sheet.arrow(update.top, (keep, belt + 15))
    sheet.arrow(update.right, rest.left)
    sheet.arrow(rest.top, (rest.top[0], 190), (write - 15, 190))
    sheet.arrow(candidate.top, (write, 205))
    sheet.arrow((write, 175), (write, belt + 15))
    sheet.arrow(reset.left, candidate.right)
    sheet.text(675, 216, "how much of\nold h it reads", size=15)
    for x, y, sign in ((keep, belt, "×"), (write, belt, "+"), (write, 190, "×")):
        sheet.dot(x, y, radius=15, fill=style.BACKGROUND, edge=style.TEXT, words=sign)
    _feed(sheet, 384, update, candidate, reset)
    for x, words in ((keep, "keep"), (write, "write")):
        sheet.text(x, 62, words, size=18, bold=True)
    sheet.text(450, 448, "h' = z ⊙ h + (1 − z) ⊙ n", size=19)
    return sheet.figure


def _feed(sheet: Sheet, y: float, *readers: Box) -> None:
    """The input of the step and the old hidden state, which every gate reads."""
    source = sheet.box(24, y - 25, 116, 50, "x, old h", size=17)
    sheet.line(source.right, (readers[-1].bottom[0], y))
    for reader in readers:
        sheet.arrow((reader.bottom[0], y), reader.bottom)
