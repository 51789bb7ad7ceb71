"""Diagram of content plus position: two vectors of one width are added, and the width stays."""

import numpy as np
from matplotlib.figure import Figure

from transformer_lab.draw import style
from transformer_lab.draw.diagrams.sheet import Sheet

_TOKENS = ("dog", "bites", "dog")
_WIDTH = 6


def content_plus_position() -> Figure:
    """The same word at two places: equal embeddings, other positions, other sums. The position cells are computed."""
    content, position = _vectors()
    sheet = Sheet(900, 432)
    for x, name, note in ((132, "content", "one row a word"), (404, "position", "one row a place"),
                          (676, "what attention reads", "the width stays d_model")):  # fmt: skip
        sheet.text(x + 81, 38, name, size=18, bold=True)
        sheet.text(x + 81, 66, note, size=15, colour=style.MUTED)
    for row, token in enumerate(_TOKENS):
        y = 104 + 84 * row
        sheet.box(24, y + 2, 82, 42, token, fill=style.tint(style.ACCENT, 0.72), edge=style.MUTED, size=17)
        for x, values in ((132, content[row]), (404, position[row]), (676, content[row] + position[row])):
            sheet.cells(x, y + 10, [[style.SIGNED(0.5 + value / 4) for value in values]], size=27)
        sheet.text(349, y + 24, "+", size=26, bold=True)
        sheet.text(621, y + 24, "=", size=26, bold=True)
    for y in (127, 295):
        sheet.arrow((870, y), (848, y), colour=style.OUTPUT, head=14)
    sheet.line((870, 127), (870, 295), colour=style.OUTPUT)
    sheet.text(450, 362, "One word, two places: the same content, another position, another sum.", size=18, bold=True)
    sheet.text(450, 396, "Added, not appended: no component is set aside for the place.", size=16, colour=style.MUTED)
    return sheet.figure


def _vectors() -> tuple[np.ndarray, np.ndarray]:
    """Seeded embeddings, one a word, and the sinusoids of positions 0, 1 and 2 (Vaswani et al. 2017, section 3.5)."""
    random = np.random.default_rng(5)
    words = {word: random.uniform(-1, 1, _WIDTH) for word in dict.fromkeys(_TOKENS)}
    angle = np.arange(len(_TOKENS))[:, None] / 10_000 ** (np.arange(0, _WIDTH, 2) / _WIDTH)
    position = np.stack((np.sin(angle), np.cos(angle)), axis=-1).reshape(len(_TOKENS), _WIDTH)
    return np.array([words[token] for token in _TOKENS]), position
