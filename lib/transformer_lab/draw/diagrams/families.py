"""The three families side by side: stacks, masks, and what each is asked."""

from matplotlib.figure import Figure

from transformer_lab.draw import style
from transformer_lab.draw.diagrams.sheet import Box, Sheet

CHIP, HEIGHT = 82, 34
OUT, STACK, IN, GRID, ASKED = 96, 170, 290, 378, 486  # tops of what stands in a column
SELF, CAUSAL, CROSS = (style.tint(colour, 0.4) for colour in (style.QUERY, style.VALUE, style.ACCENT))


def three_families() -> Figure:
    """An encoder that hides a word, a decoder that says the next one, and an encoder whose decoder fills a gap."""
    sheet = Sheet(900, 520)
    for x in (284, 560):
        sheet.line((x, 20), (x, 500), colour=style.GRID)
    _encoder_only(sheet, 20)
    _decoder_only(sheet, 298)
    _encoder_decoder(sheet, 572)
    return sheet.figure


def _encoder_only(sheet: Sheet, left: float) -> None:
    _title(sheet, left + 123, "Encoder-only", "BERT, RoBERTa")
    stack = sheet.box(left, STACK, 3 * CHIP, 72, "encoder blocks", fill=SELF, size=17, bold=True)
    _chips(sheet, left, IN, ("these", "<mask>", "dogs"), stack, up=True)
    _chips(sheet, left + CHIP, OUT, ("old",), stack, up=False)
    _grid(sheet, left + 84, [[SELF] * 3] * 3)
    sheet.text(left + 123, ASKED, "What is hidden?", size=17, colour=style.OUTPUT, bold=True)


def _decoder_only(sheet: Sheet, left: float) -> None:
    _title(sheet, left + 123, "Decoder-only", "GPT, Llama")
    stack = sheet.box(left, STACK, 3 * CHIP, 72, "decoder blocks", fill=CAUSAL, size=17, bold=True)
    _chips(sheet, left, IN, ("these", "old", "dogs"), stack, up=True)
    _chips(sheet, left, OUT, ("old", "dogs", "barked"), stack, up=False)
    _grid(sheet, left + 84, [[CAUSAL if key <= query else None for key in range(3)] for query in range(3)])
    sheet.text(left + 123, ASKED, "What comes next?", size=17, colour=style.OUTPUT, bold=True)


def _encoder_decoder(sheet: Sheet, left: float) -> None:
    width = 150
    right = left + width + 24
    _title(sheet, left + 157, "Encoder–decoder", "T5, the original")
    encoder = sheet.box(left, STACK, width - 12, 72, "encoder\nblocks", fill=SELF, size=17, bold=True)
    decoder = sheet.box(right, STACK, width - 12, 72, "decoder\nblocks", fill=CAUSAL, size=17, bold=True)
    sheet.arrow(encoder.right, decoder.left, colour=style.TEXT)
    chip = (width - 12) / 2
    _chips(sheet, left, IN, ("<gap>", "dogs"), encoder, up=True, width=chip)
    _chips(sheet, right, IN, ("<start>", "these"), decoder, up=True, width=chip)
    _chips(sheet, right, OUT, ("these", "old"), decoder, up=False, width=chip)
    rows = [[SELF, SELF, None, None]] * 2 + [[CROSS, CROSS, CAUSAL, None], [CROSS, CROSS, CAUSAL, CAUSAL]]
    _grid(sheet, left + 118, rows, size=20)
    sheet.text(left + 104, GRID + 20, "encoder", size=15, ha="right")
    sheet.text(left + 104, GRID + 60, "decoder", size=15, ha="right")
    sheet.text(left + 157, ASKED, "Which target word is next?", size=17, colour=style.OUTPUT, bold=True)


def _title(sheet: Sheet, x: float, name: str, models: str) -> None:
    sheet.text(x, 36, name, size=20, bold=True)
    sheet.text(x, 64, models, size=15, colour=style.MUTED)


def _chips(
    sheet: Sheet, left: float, top: float, words: tuple[str, ...], stack: Box, *, up: bool, width: float = CHIP
) -> None:
    """Words in a row, each with an arrow into the stack above, or out of the stack below."""
    for index, word in enumerate(words):
        colour = style.TEXT if up else style.OUTPUT
        fill = style.BACKGROUND if up else style.tint(style.OUTPUT)
        chip = sheet.box(left + index * width + 3, top, width - 6, HEIGHT, word, fill=fill, edge=colour,
                         size=15 if width == CHIP else 14)  # fmt: skip
        if up:
            sheet.arrow(chip.top, (chip.top[0], stack.bottom[1]), head=12)
        else:
            sheet.arrow((chip.bottom[0], stack.top[1]), chip.bottom, colour=colour, head=12)


def _grid(sheet: Sheet, left: float, rows: list, size: float = 26) -> None:
    grid = sheet.cells(left, GRID, rows, size=size, edge=style.TEXT)
    sheet.text(grid.centre[0], GRID - 18, "who reads whom", size=15, colour=style.MUTED)
