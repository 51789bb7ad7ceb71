"""One sentence through one head: the map, and one query's row lifted out below it; the mixing stands beside them."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path

from transformer_lab.draw import style
from transformer_lab.draw.attention_mix import Mixing
from transformer_lab.draw.attention_place import HEIGHT, LEFT, LINES, WIDTH, Place, number
from transformer_lab.draw.canvas import Area, region
from transformer_lab.draw.sheet import SheetPicture, boxes

STEPS = ("scores", "scaled", "masked", "weights", "mixed")
HEADINGS = {
    "scores": "scores: query · key",
    "scaled": "scaled scores",
    "masked": "masked scores",
    "weights": "weights: every row sums to 1",
    "mixed": "weights: every row sums to 1",
}
WEIGHTS = 3  # the last of the steps that are a matrix


class AttentionWalkPicture(SheetPicture):
    """Draws an attention walk.

    It reads finding, tokens, names, parts, query, key, value, scores, scaled, allowed, weights, output and the choices.
    """

    def __init__(self, figure: Figure, result: Any) -> None:
        self._n = len(result.tokens)
        self._place = Place(self._n)
        self.open_sheet(figure, result)
        self._draw_labels(result)
        self._make_map()
        self._make_lifted_row()
        self._mixing = Mixing(self, self._place, result)

    @staticmethod
    def size(result: Any) -> tuple[float, float]:
        return WIDTH, HEIGHT

    @staticmethod
    def layout(result: Any) -> tuple:
        return result.tokens, result.parts

    def _draw_labels(self, result: Any) -> None:
        place = self._place
        size = "small" if self._n > 4 else "normal"
        lean = {"rotation": 38, "ha": "left", "rotation_mode": "anchor"} if place.leaning else {}
        for i, token in enumerate(result.tokens):
            x, y = place.centre(i)
            x -= 0.04 * place.leaning
            self.text(x, place.top - 0.06, token, size=size, color=style.KEY, va="bottom", **lean)
            self.text(LEFT - 0.1, y, token, size="small", color=style.QUERY, ha="right")
        for words, higher, colour in (("query ↓", 0.13, style.QUERY), ("key →", 0.32, style.KEY)):
            self.text(LEFT - 0.1, place.top - higher, words, size="small", color=colour, ha="right", style="italic")

    def _make_map(self) -> None:
        self._finding = self.stamp(0.1, 0.2, size="large", ha="left", weight="bold")
        self._heading = self.stamp(LEFT, 0.53, ha="left", color=style.MUTED)
        self._map = self.cells(zorder=2, linewidths=1.2)
        self._map_numbers = []
        if not self._place.crowded:
            middles = [self._place.centre(i) for i in range(self._n)]
            self._map_numbers = self.stamps([(x, y) for _, y in middles for x, _ in middles])
        self._hatch = PathPatch(
            Path(np.zeros((0, 2))), facecolor=style.FORBIDDEN, edgecolor=style.FORBIDDEN_INK,
            hatch=style.FORBIDDEN_HATCH, linewidth=0, animated=True, zorder=3,
        )  # fmt: skip
        self.axes.add_patch(self._hatch)
        self._frame = self.line(moves=True, color=style.ACCENT, lw=2.6, zorder=6, solid_joinstyle="miter")
        self._pointer = self.line(moves=True, color=style.TEXT, lw=1.8, zorder=7)

    def _make_lifted_row(self) -> None:
        place = self._place
        self._slots = self.cells(zorder=1, linewidths=0, facecolors=[style.tint(style.GRID, 0.55)])
        self._bars = self.cells(zorder=2, linewidths=0.8, edgecolors=style.MUTED, snap=True)
        self._winner = self.stamp(0, 0, size="large", weight="bold", va="bottom")
        self._row_title = self.stamp(LEFT - 0.1, sum(place.bars) / 2, ha="right", size="small", weight="bold")
        self._here = self.cells(zorder=1, facecolors=[style.tint(style.ACCENT, 0.8)], linewidths=0)
        self._line_names = self.stamps([(LEFT - 0.1, 0)] * len(STEPS[:4]), ha="right")
        self._line_numbers = [self.stamps([(place.centre(k)[0], 0) for k in range(self._n)]) for _ in STEPS[:4]]

    def update(self, result: Any) -> None:
        step = min(STEPS.index(result.step), WEIGHTS)
        scaled, allowed = np.asarray(result.scaled), np.asarray(result.allowed)
        masked = np.where(allowed, scaled, -np.inf)
        walked = (np.asarray(result.scores), scaled, masked, np.asarray(result.weights))[: step + 1]
        self._finding.set_text(result.finding)
        self._update_map(result, walked, allowed)
        mine = [matrix[result.query_index] for matrix in walked]
        self._update_bars(result, mine, walked)
        self._update_lines(result, mine)
        self._mixing.update(result)

    def _update_map(self, result: Any, walked: tuple, allowed: np.ndarray) -> None:
        shown = walked[-1]
        colours = _colours(shown, _limit(walked), weights=len(walked) > WEIGHTS).reshape(-1, 4)
        q, k = np.divmod(np.arange(self._n**2), self._n)
        column, row = self._place.column, self._place.row
        cells = boxes(LEFT + k * column, self._place.top + q * row, column, row)
        self._map.set_verts(cells)
        self._map.set_facecolors(colours)
        self._heading.set_text(HEADINGS[result.step] + (f": ÷ {result.divisor:.3g}" if result.step == "scaled" else ""))
        hidden = ~allowed.ravel() if len(walked) > 2 else np.zeros(self._n**2, dtype=bool)
        for text, value, colour, covered in zip(self._map_numbers, shown.flat, colours, hidden, strict=False):
            text.set_text("" if covered and len(walked) > WEIGHTS else number(value))
            text.set(color=style.TEXT if covered else style.text_on(colour), weight="bold" if covered else "normal")
        forbidden = cells[hidden]
        self._hatch.set_path(Path.make_compound_path(*[Path(box[[0, 1, 2, 3, 0]], closed=True) for box in forbidden])
                             if len(forbidden) else Path(np.zeros((0, 2))))  # fmt: skip
        right, top = LEFT + self._n * column, self._place.top + result.query_index * row
        middle, low = top + row, self._place.low
        # The row, and below the map the drawer in which its numbers stand.
        self._frame.set_data(
            [LEFT, LEFT, right, right, LEFT, LEFT, right, right],
            [middle, top, top, middle, middle, low, low, middle],
        )
        x = LEFT + result.key_index * column
        inner = boxes([x + 0.04], [top + 0.04], column - 0.08, row - 0.08)[0]
        self._pointer.set_data(*inner[[0, 1, 2, 3, 0]].T)

    def _update_bars(self, result: Any, mine: list[np.ndarray], walked: tuple) -> None:
        """The chosen row at the chosen step; scores keep one scale, so that a division makes them visibly smaller."""
        row, weights = mine[-1], len(mine) > WEIGHTS
        finite = np.concatenate([line[np.isfinite(line)] for line in mine[:3]])
        low, high = (0.0, 1.0) if weights else (min(0.0, float(finite.min())), max(1e-6, float(finite.max())))
        top, bottom = self._place.bars
        unit = (bottom - top) / (high - low)
        zero, lengths = top + unit * high, unit * np.where(np.isfinite(row), row, 0.0)
        lefts = LEFT + (np.arange(self._n) + 0.2) * self._place.column
        width = 0.6 * self._place.column
        self._bars.set_verts(boxes(lefts, zero - lengths, width, lengths))
        self._bars.set_facecolors(_colours(row, _limit(walked), weights))
        # Behind a weight stands the whole that is shared out.
        self._slots.set_verts(boxes(lefts, top, width, np.full(self._n, bottom - top)) if weights else [])
        best = int(row.argmax())
        alone = (row > row[best] - 0.005).sum() == 1
        self._winner.set_text(number(float(row[best])) if alone else "")
        self._winner.set_position((lefts[best] + width / 2, zero - max(0.0, float(lengths[best])) - 0.05))
        self._row_title.set_text(f"{result.tokens[result.query_index]}\n{STEPS[len(mine) - 1]}")

    def _update_lines(self, result: Any, mine: list[np.ndarray]) -> None:
        names = ["scores", f"÷ {result.divisor:.3g}", "masked", "weights"]
        shown = [r for r in range(len(names)) if r != 2 or not result.allowed.all()]
        pitch = LINES / len(shown)
        for text in (*self._line_names, *(text for line in self._line_numbers for text in line)):
            text.set_text("")
        for place, r in enumerate(shown):
            y = self._place.lines + (place + 0.5) * pitch
            here = r == len(mine) - 1
            row = mine[r] if r < len(mine) else ()
            short = self._place.crowded and any(9.995 <= abs(value) < np.inf for value in row)
            self._line_names[r].set(text=names[r], y=y, color=style.TEXT if r < len(mine) else style.MUTED)
            self._line_names[r].set_weight("bold" if here else "normal")
            for text, value in zip(self._line_numbers[r], row, strict=False):
                text.set(text=number(value, short), y=y, weight="bold" if here and not short else "normal")
            if here:
                self._here.set_verts(boxes([LEFT], [y - pitch / 2], self._n * self._place.column, pitch))

    def regions(self, result: Any) -> list[Area]:
        found = []
        for q, asking in enumerate(result.names):
            for k, answering in enumerate(result.names):
                x, y = LEFT + k * self._place.column, self._place.top + q * self._place.row
                numbers = (f"score {number(float(result.scores[q, k]))}, scaled {number(float(result.scaled[q, k]))}, "
                           f"weight {float(result.weights[q, k]):.2f}")  # fmt: skip
                if not result.allowed[q, k]:
                    numbers = f"score {number(float(result.scores[q, k]))}, masked, weight 0"
                words = f"query {asking}, key {answering}: {numbers}"
                found.append(region(self.axes, (x, x + self._place.column), (y, y + self._place.row), words))
        return found + self._mixing.regions()


def _limit(walked: tuple | list) -> float:
    """The largest size among the scores, before and after scaling; never 0."""
    return max(1e-6, *(float(np.abs(scores).max()) for scores in walked[:2]))


def _colours(values: np.ndarray, limit: float, weights: bool) -> np.ndarray:
    if weights:
        return style.WEIGHTS(values.astype(float))
    return style.SIGNED(0.5 + np.where(np.isfinite(values), values, 0.0) / (2 * limit))
