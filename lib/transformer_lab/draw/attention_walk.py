"""One sentence through one head: the map, and one query's row lifted out below it; the mixing stands beside them."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path

from transformer_lab.draw import style
from transformer_lab.draw.attention_mix import Mixing
from transformer_lab.draw.attention_place import BAR, LEFT, N_ROWS, NUMBER, WIDTH, Place, number
from transformer_lab.draw.canvas import Area, region
from transformer_lab.draw.sheet import SheetPicture, boxes

STEPS = ("scores", "scaled", "masked", "weights", "mixed")
HEADINGS = {
    "scores": "scores: query · key",
    "scaled": "scores, scaled",
    "masked": "scores, masked",
    "weights": "weights: every row sums to 1",
    "mixed": "weights: every row sums to 1",
}


class AttentionWalkPicture(SheetPicture):
    """Draws an attention walk: tokens, parts, scores, scaled, allowed, weights, value, output, and what is chosen."""

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
        return WIDTH, Place(len(result.tokens)).height

    @staticmethod
    def layout(result: Any) -> tuple:
        return result.tokens, result.parts

    def _draw_labels(self, result: Any) -> None:
        crowded = self._place.crowded
        size = "small" if self._n > 4 else "normal"
        lean = {"rotation": 38, "ha": "left", "rotation_mode": "anchor"} if crowded else {}
        above = self._place.top - 0.06
        for i, token in enumerate(result.tokens):
            x, y = self._place.centre(i)
            self.text(x - 0.04 * crowded, above, token, size=size, color=style.KEY, va="bottom", **lean)
            self.text(LEFT - 0.1, y, token, size=size, color=style.QUERY, ha="right")
        for words, higher, colour in (("query ↓", 0.14, style.QUERY), ("key →", 0.36, style.KEY)):
            y = self._place.top - higher
            self.text(LEFT - 0.1, y, words, size="small", color=colour, ha="right", style="italic")

    def _make_map(self) -> None:
        self._heading = self.stamp(LEFT, 0.22, size="large", ha="left", weight="bold")
        self._map = self.cells(zorder=2, linewidths=1.2)
        self._map_numbers = []
        if not self._place.crowded:
            middles = [self._place.centre(i) for i in range(self._n)]
            self._map_numbers = self.stamps([(x, y) for _, y in middles for x, _ in middles])
        self._hatch = PathPatch(
            Path(np.zeros((0, 2))), facecolor=style.FORBIDDEN, edgecolor=style.HATCH_INK, hatch=style.FORBIDDEN_HATCH,
            linewidth=0, animated=True, zorder=3,
        )  # fmt: skip
        self.axes.add_patch(self._hatch)
        (self._frame,) = self.axes.plot([], [], color=style.ACCENT, lw=2.6, animated=True, zorder=6,
                                               solid_joinstyle="miter")  # fmt: skip
        (self._pointer,) = self.axes.plot([], [], color=style.TEXT, lw=1.8, animated=True, zorder=7)

    def _make_lifted_row(self) -> None:
        self._lifted_title = self.stamp(LEFT + 0.07, self._place.lifted - 0.17, ha="left", weight="bold")
        tops = [self._place.lifted + r * (BAR + NUMBER) for r in range(N_ROWS)]
        self._bar_tops = np.array(tops)
        self._here = self.cells(zorder=1, facecolors=[style.tint(style.ACCENT, 0.8)], linewidths=0)
        self._bars = self.cells(zorder=2, linewidths=0.8, edgecolors=style.MUTED, snap=True)
        self._row_names = self.stamps([(LEFT - 0.1, top + 0.27) for top in tops], ha="right")
        places = [(self._place.centre(k)[0], top + BAR + 0.5 * NUMBER) for top in tops for k in range(self._n)]
        self._row_numbers = self.stamps(places)

    def update(self, result: Any) -> None:
        step = min(STEPS.index(result.step), 3)
        scaled, allowed = np.asarray(result.scaled), np.asarray(result.allowed)
        masked = np.where(allowed, scaled, -np.inf)
        walked = (np.asarray(result.scores), scaled, masked, np.asarray(result.weights))[: step + 1]
        self._update_map(result, walked, allowed)
        self._update_lifted_row(result, [matrix[result.query_index] for matrix in walked])
        self._mixing.update(result)

    def _update_map(self, result: Any, walked: tuple, allowed: np.ndarray) -> None:
        shown = walked[-1]
        colours = _colours(shown, _limit(walked), weights=len(walked) == 4).reshape(-1, 4)
        q, k = np.divmod(np.arange(self._n**2), self._n)
        column, row = self._place.column, self._place.row
        cells = boxes(LEFT + k * column, self._place.top + q * row, column, row)
        self._map.set_verts(cells)
        self._map.set_facecolors(colours)
        self._heading.set_text(HEADINGS[result.step] + (f" ÷ {result.divisor:.3g}" if result.step == "scaled" else ""))
        for text, value, colour in zip(self._map_numbers, shown.flat, colours, strict=False):
            text.set_text("" if np.isneginf(value) else number(value))
            text.set_color(style.text_on(colour))
        forbidden = cells[~allowed.ravel()] if len(walked) > 2 else []
        self._hatch.set_path(Path.make_compound_path(*[Path(box[[0, 1, 2, 3, 0]], closed=True) for box in forbidden])
                             if len(forbidden) else Path(np.zeros((0, 2))))  # fmt: skip
        right, top = LEFT + self._n * column, self._place.top + result.query_index * row
        middle, low = top + row, self._place.low
        # The row, and below it the drawer in which its numbers stand.
        self._frame.set_data(
            [LEFT, LEFT, right, right, LEFT, LEFT, right, right],
            [middle, top, top, middle, middle, low, low, middle],
        )
        x = LEFT + result.key_index * column
        inner = boxes([x + 0.04], [top + 0.04], column - 0.08, row - 0.08)[0]
        self._pointer.set_data(*inner[[0, 1, 2, 3, 0]].T)

    def _update_lifted_row(self, result: Any, mine: list[np.ndarray]) -> None:
        name = result.tokens[result.query_index]
        self._lifted_title.set_text(f"row “{name}”")
        step = len(mine) - 1
        limit = _limit(mine)
        finite = np.concatenate([row[np.isfinite(row)] for row in mine[:3]])
        lowest, highest = min(0.0, float(finite.min())), max(1e-6, float(finite.max()))
        bars, colours = [], []
        for r, (row, top) in enumerate(zip(mine, self._bar_tops, strict=False)):
            weights = r == 3
            low, high = (0.0, 1.0) if weights else (lowest, highest)
            unit = (BAR - 0.06) / (high - low)
            zero, lengths = top + 0.04 + unit * high, unit * np.where(np.isfinite(row), row, 0.0)
            lefts = LEFT + (np.arange(self._n) + 0.22) * self._place.column
            bars.append(boxes(lefts, zero - lengths, 0.56 * self._place.column, lengths))
            colours.append(_colours(row, limit, weights))
        self._bars.set_verts(np.concatenate(bars))
        self._bars.set_facecolors(np.concatenate(colours))
        self._here.set_verts(boxes([LEFT], [self._bar_tops[step]], self._n * self._place.column, BAR + NUMBER))
        names = ("scores", f"scaled\n÷ {result.divisor:.3g}", "masked", "weights")
        for r, (text, words) in enumerate(zip(self._row_names, names, strict=True)):
            text.set(text=words, color=style.TEXT if r <= step else style.MUTED)
            text.set_weight("bold" if r == step else "normal")
        for i, text in enumerate(self._row_numbers):
            r, k = divmod(i, self._n)
            value = mine[r][k] if r <= step else None
            text.set_text("" if value is None else number(value))
            text.set_weight("bold" if r == step == 3 and value == mine[3].max() else "normal")

    def regions(self, result: Any) -> list[Area]:
        found = []
        for q, asking in enumerate(result.tokens):
            for k, answering in enumerate(result.tokens):
                x, y = LEFT + k * self._place.column, self._place.top + q * self._place.row
                numbers = (f"score {number(float(result.scores[q, k]))}, scaled {number(float(result.scaled[q, k]))}, "
                           f"weight {float(result.weights[q, k]):.2f}")  # fmt: skip
                if not result.allowed[q, k]:
                    numbers = f"score {number(float(result.scores[q, k]))}, masked, weight 0"
                words = f"query {asking}, key {answering}: {numbers}"
                found.append(region(self.axes, (x, x + self._place.column), (y, y + self._place.row), words))
        return found


def _limit(walked: tuple | list) -> float:
    """The largest size among the scores, before and after scaling; never 0."""
    return max(1e-6, *(float(np.abs(scores).max()) for scores in walked[:2]))


def _colours(values: np.ndarray, limit: float, weights: bool) -> np.ndarray:
    if weights:
        return style.WEIGHTS(values.astype(float))
    return style.SIGNED(0.5 + np.where(np.isfinite(values), values, 0.0) / (2 * limit))
