"""The right side of the attention walk: the values, the arithmetic of one cell, and the mixed output."""

import math
from typing import Any

import numpy as np

from transformer_lab.draw import style
from transformer_lab.draw.attention_place import Place, number
from transformer_lab.draw.canvas import Area, region
from transformer_lab.draw.sheet import SheetPicture, boxes

VALUES, PART = 6.4, 0.63  # where the value cells begin, and how wide one is
LINE = 0.3  # a line of the arithmetic


class Mixing:
    """The value of every token, and below it the arithmetic of the chosen cell or, at the last step, the output."""

    def __init__(self, sheet: SheetPicture, place: Place, result: Any) -> None:
        self._sheet, self._place = sheet, place
        self._n, self._parts = len(result.tokens), len(result.parts)
        self._middles = VALUES + (np.arange(self._parts) + 0.5) * PART
        self._base = place.low - 0.26  # where the columns of the output stand
        self._tints = [style.tint(style.OUTPUT, t) for t in np.linspace(0.2, 0.75, self._n)]  # a token keeps its own
        self._areas: list[Area] = []
        for x, part in zip(self._middles, result.parts, strict=True):
            sheet.text(x, place.top - 0.06, part, size="small", va="bottom", color=style.VALUE)
        self._make_values()
        self._make_output()
        self._make_arithmetic()

    def _make_values(self) -> None:
        self._values_title = self._sheet.stamp(VALUES, 0.53, ha="left", color=style.MUTED)
        self._cells = self._sheet.cells(zorder=2, linewidths=1.0, edgecolors=style.GRID)
        self._chosen = self._sheet.line(moves=True, color=style.TEXT, lw=1.8, zorder=7)
        ys = [self._place.centre(k)[1] for k in range(self._n)]
        self._takers = self._sheet.stamps([(VALUES - 0.08, y) for y in ys], ha="right", color=style.VALUE)
        self._cell_numbers = self._sheet.stamps([(x, y) for y in ys for x in self._middles])

    def _make_output(self) -> None:
        self._stack = self._sheet.cells(zorder=2, linewidths=0.8)
        self._ground = self._sheet.cells(zorder=3, linewidths=0, facecolors=[style.MUTED])
        look = {"size": "normal", "color": style.OUTPUT, "weight": "bold"}
        self._output_title = self._sheet.stamp(VALUES, self._place.lifted + 0.22, ha="left", **look)
        self._output_numbers = self._sheet.stamps([(x, self._base + 0.15) for x in self._middles], **look)
        self._stack_names = self._sheet.stamps(np.zeros((self._parts, 2)))

    def _make_arithmetic(self) -> None:
        """Room for the arithmetic of one cell, in the place where the output will stand."""
        top = self._place.lifted + 0.5
        self._title = self._sheet.stamp(VALUES, top - 0.28, ha="left", weight="bold")
        self._lines = self._sheet.stamps([(VALUES, top + 0.15 + i * LINE) for i in range(3)], ha="left", size="normal")
        tops = top + 0.2 + LINE * np.arange(3)
        self._product_heads = self._sheet.stamps([(x, tops[0] - 0.07) for x in self._middles], color=style.MUTED,
                                                va="baseline")  # fmt: skip
        self._product_names = [
            self._sheet.stamp(VALUES - 0.08, top + LINE / 2, ha="right", color=colour)
            for top, colour in zip(tops, (style.QUERY, style.KEY, style.TEXT), strict=True)
        ]
        fills = [style.tint(colour, 0.8) for colour in (style.QUERY, style.KEY, style.MUTED) for _ in self._middles]
        self._product_cells = self._sheet.cells(zorder=2, linewidths=1.2, facecolors=fills)
        r, p = np.divmod(np.arange(3 * self._parts), self._parts)
        self._product_boxes = boxes(VALUES + p * PART, tops[r], PART, LINE)
        self._product_numbers = self._sheet.stamps([(x, top + LINE / 2) for top in tops for x in self._middles])
        self._product_sum = self._sheet.stamp(VALUES + self._parts * PART, tops[2] + LINE + 0.2, ha="right",
                                              size="normal", weight="bold")  # fmt: skip

    def update(self, result: Any) -> None:
        mixed = result.step == "mixed"
        row = np.asarray(result.weights)[result.query_index]
        taken = row[:, None] * np.asarray(result.value)
        self._update_values(result, row, taken if mixed else np.asarray(result.value), mixed)
        self._update_stack(result, taken, mixed)
        self._update_arithmetic(result)

    def regions(self) -> list[Area]:
        """What each token put into each part of the output."""
        return self._areas

    def _update_values(self, result: Any, row: np.ndarray, shown: np.ndarray, mixed: bool) -> None:
        place = self._place
        self._values_title.set_text("weight × value" if mixed else "values")
        k, p = np.divmod(np.arange(shown.size), self._parts)
        self._cells.set_verts(boxes(VALUES + p * PART, place.top + k * place.row, PART, place.row))
        fills = np.array([style.tint(style.VALUE, 1 - 0.9 * min(1.0, max(0.0, float(s)))) for s in shown.flat])
        self._cells.set_facecolors(fills)
        for text, amount, fill in zip(self._cell_numbers, shown.flat, fills, strict=True):
            text.set_text(number(amount) if amount else "")  # an empty cell is 0
            text.set_color(style.text_on(fill))
        for text, token, weight in zip(self._takers, result.tokens, row, strict=True):
            text.set_text(f"{weight:.2f} × {token}" if mixed else token)
        top = place.top + result.key_index * place.row
        self._chosen.set_data(*boxes([VALUES], [top], self._parts * PART, place.row)[0][[0, 1, 2, 3, 0]].T)

    def _update_stack(self, result: Any, taken: np.ndarray, mixed: bool) -> None:
        """Each part of the output as a column, built from what each token put in."""
        names = result.names
        asking = names[result.query_index]
        self._stack.set_verts([])
        self._areas = []
        self._ground.set_verts(boxes([VALUES], [self._base], self._parts * PART, 0.012) if mixed else [])
        self._output_title.set_text(f"output of “{asking}”" if mixed else "")
        for text in (*self._stack_names, *self._output_numbers):
            text.set_text("")
        if not mixed:
            return
        tallest = self._base - self._place.lifted - 0.42
        ends = np.cumsum(taken, axis=0) * tallest
        lefts = np.broadcast_to(self._middles - 0.47 * PART, taken.shape)
        self._stack.set_verts(boxes(lefts.ravel(), (self._base - ends).ravel(), 0.94 * PART, (taken * tallest).ravel()))
        self._stack.set_facecolors(np.repeat(self._tints, self._parts, axis=0))
        edges = np.full(self._n, style.BACKGROUND, dtype=object)
        edges[result.key_index] = style.TEXT
        self._stack.set_edgecolors(np.repeat(edges, self._parts).tolist())
        for text, total in zip(self._output_numbers, np.asarray(result.output)[result.query_index], strict=True):
            text.set_text(number(total))
        for p, (label, most) in enumerate(zip(self._stack_names, taken.argmax(axis=0), strict=True)):
            height = taken[most, p] * tallest
            if height > 0.17:  # room for a name
                label.set_text(result.tokens[most].lower())
                label.set_position((self._middles[p], self._base - ends[most, p] + height / 2))
                label.set_color(style.text_on(self._tints[most]))
        for k, p in zip(*np.nonzero(taken > 0.02), strict=True):
            words = f"{names[k]} puts {number(taken[k, p])} {result.parts[p]} into the output of {asking}"
            y = self._base - ends[k, p]
            self._areas.append(region(self._sheet.axes, (lefts[k, p], lefts[k, p] + 0.94 * PART),
                                      (y, y + taken[k, p] * tallest), words))  # fmt: skip

    def _update_arithmetic(self, result: Any) -> None:
        """The chosen cell, worked out: as a table where a score has components that can be read, else in lines."""
        asking, answering = result.tokens[result.query_index], result.tokens[result.key_index]
        shown = result.step != "mixed"
        named = result.step == "scores" and result.query.shape[-1] == self._parts
        self._title.set_text(f"“{asking}” meets “{answering}”" if shown else "")
        lines = () if named else _arithmetic(result)
        for text, words in zip(self._lines, (*lines, "", "", ""), strict=False):
            text.set_text(words)
            text.set_weight("bold" if words and words == lines[-1] else "normal")
        score = float(result.scores[result.query_index, result.key_index])
        self._product_sum.set_text(f"q · k = {number(score)}" if named else "")
        for text, words in zip(self._product_heads, result.parts, strict=True):
            text.set_text(words if named else "")
        names = (f"{asking} asks", f"{answering} offers", "product") if named else ("", "", "")
        for text, words in zip(self._product_names, names, strict=True):
            text.set_text(words)
        self._product_cells.set_verts(self._product_boxes if named else [])
        numbers = [""] * len(self._product_numbers)
        if named:
            query, key = np.asarray(result.query)[result.query_index], np.asarray(result.key)[result.key_index]
            numbers = [number(amount) for amount in np.stack([query, key, query * key]).flat]
        for text, words in zip(self._product_numbers, numbers, strict=True):
            text.set_text(words)


def _arithmetic(result: Any) -> tuple[str, ...]:
    """How the chosen cell came to its number at the chosen step."""
    q, k = result.query_index, result.key_index
    score, scaled = float(result.scores[q, k]), float(result.scaled[q, k])
    if result.step == "scores":
        return f"{result.query.shape[-1]:,} products, added up", f"q · k = {number(score)}"
    if result.step == "scaled":
        return (f"{number(score)} ÷ {result.divisor:.3g} = {number(scaled)}",)
    if result.step == "masked":
        return ("the mask lets it through", number(scaled)) if result.allowed[q, k] else ("the mask forbids it", "−∞")
    if result.step == "weights":
        weight = f"{float(result.weights[q, k]):.2f}"
        if not result.allowed[q, k]:
            return "e^−∞ = 0", f"weight {weight}"
        row = np.asarray(result.scaled)[q][np.asarray(result.allowed)[q]]
        if np.abs(row).max() > 9:  # the powers are too large or too small to print
            return "softmax of the row", f"weight {weight}"
        power, total = math.exp(scaled), float(np.exp(row).sum())
        return (
            f"e^{number(scaled)} = {power:.3g}",
            f"sum over the row: {total:.3g}",
            f"{power:.3g} ÷ {total:.3g} = {weight}",
        )
    return ()
