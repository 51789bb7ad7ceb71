"""The right side of the attention walk: the values, the arithmetic of one score, and the mixed output."""

from typing import Any

import numpy as np

from transformer_lab.draw import style
from transformer_lab.draw.attention_place import Place, number
from transformer_lab.draw.sheet import SheetPicture, boxes

VALUES, PART = 6.85, 0.52  # where the value cells begin, and how wide one is
LINE = 0.34  # a line of the dot product


class Mixing:
    """The value of every token, below it the dot product of the chosen pair or, at the last step, the output."""

    def __init__(self, sheet: SheetPicture, place: Place, result: Any) -> None:
        self._sheet, self._place = sheet, place
        self._n, self._parts = len(result.tokens), len(result.parts)
        self._middles = VALUES + (np.arange(self._parts) + 0.5) * PART
        self._base = place.low - 0.3  # where the columns of the output stand
        for x, part in zip(self._middles, result.parts, strict=True):
            sheet.text(x, place.top - 0.06, part, size="small", va="bottom", color=style.VALUE)
        self._make_values()
        self._make_output()
        self._make_dot_product()

    def _make_values(self) -> None:
        self._values_title = self._sheet.stamp(VALUES, 0.22, size="large", ha="left", weight="bold")
        self._cells = self._sheet.cells(zorder=2, linewidths=1.0, edgecolors=style.GRID)
        ys = [self._place.centre(k)[1] for k in range(self._n)]
        self._takers = self._sheet.stamps([(VALUES - 0.08, y) for y in ys], ha="right", color=style.VALUE)
        self._cell_numbers = self._sheet.stamps([(x, y) for y in ys for x in self._middles])

    def _make_output(self) -> None:
        self._stack = self._sheet.cells(zorder=2, linewidths=0.8)
        self._ground = self._sheet.cells(zorder=3, linewidths=0, facecolors=[style.MUTED])
        look = {"size": "normal", "color": style.OUTPUT, "weight": "bold"}
        self._output_title = self._sheet.stamp(VALUES, self._place.lifted - 0.17, ha="left", **look)
        self._output_numbers = self._sheet.stamps([(x, self._base + 0.17) for x in self._middles], **look)
        self._stack_names = self._sheet.stamps(np.zeros((self._parts, 2)))

    def _make_dot_product(self) -> None:
        """The arithmetic of one score, in the place where the output will stand."""
        self._product_title = self._sheet.stamp(VALUES, self._place.lifted - 0.17, ha="left")
        tops = self._place.lifted + 0.34 + LINE * np.arange(3)
        self._product_heads = self._sheet.stamps([(x, tops[0] - 0.09) for x in self._middles], color=style.MUTED,
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
        right, below = VALUES + self._parts * PART, tops[2] + LINE + 0.22
        self._product_sum = self._sheet.stamp(right, below, ha="right", size="normal", weight="bold")

    def update(self, result: Any) -> None:
        mixed = result.step == "mixed"
        row = np.asarray(result.weights)[result.query_index]
        self._update_values(result, row, weighed=result.step in ("weights", "mixed"), mixed=mixed)
        self._update_dot_product(result, shown=not mixed)

    def _update_values(self, result: Any, row: np.ndarray, weighed: bool, mixed: bool) -> None:
        value = np.asarray(result.value)
        taken = row[:, None] * value
        self._values_title.set_text("weight × value" if mixed else "values")
        k, p = np.divmod(np.arange(value.size), self._parts)
        self._cells.set_verts(boxes(VALUES + p * PART, self._place.top + k * self._place.row, PART, self._place.row))
        strength = (taken if weighed else value).ravel()
        fills = np.array([style.tint(style.VALUE, 1 - 0.9 * min(1.0, max(0.0, float(s)))) for s in strength])
        self._cells.set_facecolors(fills)
        numbers = taken if mixed else value
        for text, amount, fill in zip(self._cell_numbers, numbers.flat, fills, strict=True):
            text.set_text(number(amount) if amount else "")  # an empty cell is 0
            text.set_color(style.text_on(fill))
        for text, token, weight in zip(self._takers, result.tokens, row, strict=True):
            text.set_text(f"{weight:.2f} × {token}" if weighed else token)
        self._output_title.set_text(f"output of “{result.tokens[result.query_index]}”" if mixed else "")
        self._update_stack(result, taken, mixed)

    def _update_stack(self, result: Any, taken: np.ndarray, mixed: bool) -> None:
        """Each part of the output as a column, built from what each token put in."""
        self._stack.set_verts([])
        self._ground.set_verts(boxes([VALUES], [self._base], self._parts * PART, 0.012) if mixed else [])
        for text in (*self._stack_names, *self._output_numbers):
            text.set_text("")
        if not mixed:
            return
        tallest = self._base - self._place.lifted - 0.12
        ends = np.cumsum(taken, axis=0) * tallest
        lefts = np.broadcast_to(self._middles - 0.46 * PART, taken.shape).ravel()
        self._stack.set_verts(boxes(lefts, (self._base - ends).ravel(), 0.92 * PART, (taken * tallest).ravel()))
        shades = np.where(np.arange(self._n) % 2, 0.35, 0.6)
        self._stack.set_facecolors([style.tint(style.OUTPUT, shade) for shade in np.repeat(shades, self._parts)])
        for text, total in zip(self._output_numbers, np.asarray(result.output)[result.query_index], strict=True):
            text.set_text(number(total))
        for p, (label, most) in enumerate(zip(self._stack_names, taken.argmax(axis=0), strict=True)):
            height = taken[most, p] * tallest
            if height > 0.2:  # room for a name
                label.set_text(_fitting(result.tokens[most]))
                label.set_position((self._middles[p], self._base - ends[most, p] + height / 2))
                label.set_color(style.text_on(style.tint(style.OUTPUT, shades[most])))

    def _update_dot_product(self, result: Any, shown: bool) -> None:
        asking, answering = result.tokens[result.query_index], result.tokens[result.key_index]
        named = shown and result.query.shape[-1] == self._parts
        self._product_title.set_text(f"“{asking}” meets “{answering}”" if shown else "")
        score = number(float(result.scores[result.query_index, result.key_index]))
        many = "" if named else f"{result.query.shape[-1]:,} products, summed:\n"
        self._product_sum.set_text(f"{many}q · k = {score}" if shown else "")
        for text, words in zip(self._product_heads, result.parts, strict=True):
            text.set_text(words if named else "")
        labels = (f"{asking} asks", f"{answering} offers", "product") if named else ("", "", "")
        for text, words in zip(self._product_names, labels, strict=True):
            text.set_text(words)
        self._product_cells.set_verts(self._product_boxes if named else [])
        for text in self._product_numbers:
            text.set_text("")
        if named:
            query, key = np.asarray(result.query)[result.query_index], np.asarray(result.key)[result.key_index]
            for text, amount in zip(self._product_numbers, np.stack([query, key, query * key]).flat, strict=True):
                text.set_text(number(amount))


def _fitting(token: str) -> str:
    """The name of a token, short enough for a column."""
    return token.lower() if len(token) <= 6 else token[:5].lower() + "…"
