"""Pictures of masks: the painted mask under both conventions, and who moved in a leak test."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from transformer_lab.draw import style
from transformer_lab.draw.canvas import Area, Picture, region

_ALLOWED = style.tint(style.QUERY, 0.35)
_LEAK = style.KEY


class Grid:
    """A square table, queries down and keys across: allowed cells blue, forbidden ones hatched, leaks vermilion with !.

    A mask with fewer rows than columns lies at the bottom: its queries are the last tokens.
    """

    def __init__(self, axes: Axes, n: int, title: str) -> None:
        sizes = style.current()
        self.axes, self._n = axes, n
        axes.set_xlim(0, n)
        axes.set_ylim(n, 0)
        axes.set_xticks([])
        axes.set_yticks([])
        for spine in axes.spines.values():
            spine.set_visible(False)
        axes.set_title(title, fontsize=sizes.font_normal, color=style.TEXT, loc="left", pad=sizes.font_small * 2.2)
        # Hatching is dear to draw and stays: what is allowed is painted over it.
        axes.add_patch(
            Rectangle((0, 0), n, n, facecolor=style.FORBIDDEN, edgecolor=style.PAD, hatch=style.FORBIDDEN_HATCH)
        )
        for place in range(1, n):
            axes.axhline(place, color=style.BACKGROUND, linewidth=1.2)
            axes.axvline(place, color=style.BACKGROUND, linewidth=1.2)
        paint = {"edgecolor": style.BACKGROUND, "linewidth": 1.2, "animated": True}
        self._allowed = axes.add_collection(PolyCollection([], facecolor=_ALLOWED, **paint))
        self._leaks = axes.add_collection(PolyCollection([], facecolor=_LEAK, **paint))
        self._absent = axes.add_patch(
            Rectangle((-0.05, -0.05), n + 0.1, 0, facecolor=style.BACKGROUND, clip_on=False, animated=True)
        )
        self._note = axes.text(n / 2, 0, "", color=style.MUTED, ha="center", va="center",
                               fontsize=sizes.font_small, animated=True)  # fmt: skip
        self._row = axes.add_patch(
            Rectangle((0, 0), n, 1, fill=False, edgecolor=style.ACCENT, linewidth=3, clip_on=False, animated=True)
        )
        letters = {"fontsize": sizes.font_small, "clip_on": False, "animated": True}
        self._keys = [axes.text(i + 0.5, -0.12, "", color=style.KEY, ha="center", **letters) for i in range(n)]
        self._queries = [
            axes.text(-0.15, i + 0.5, "", color=style.QUERY, ha="right", va="center", **letters) for i in range(n)
        ]

    def update(
        self, mask: np.ndarray, queries: Sequence[str], keys: Sequence[str], *, row: int | None = None
    ) -> None:
        first = self._n - len(mask)
        self._allowed.set_verts(_squares(mask, first))
        self._absent.set_height(first + 0.05 if first else 0)
        self._note.set_y(first / 2)
        self._note.set_text("these tokens do not ask" if first else "")
        self._row.set_visible(row is not None)
        self._row.set_y(first + (row or 0))
        for text, word in zip(self._keys, keys, strict=True):
            text.set_text(word)
        for text, word in zip(self._queries, [""] * first + list(queries), strict=True):
            text.set_text(word)

    def name_axes(self) -> None:
        """Say which axis is which: queries run down, keys to the right."""
        small = {"fontsize": style.current().font_small, "ha": "right"}
        self.axes.text(-0.15, -0.12, "query ↓", color=style.QUERY, **small)
        self.axes.text(self._n, -0.66, "key →", color=style.KEY, **small)

    def mark_leaks(self, leaks: np.ndarray) -> None:
        """Paint cells in the colour of alarm, each with an exclamation mark."""
        self._leaks.set_verts(_squares(leaks, 0))
        for query, key in np.argwhere(leaks):
            self.axes.text(
                key + 0.5, query + 0.5, "!", color=style.text_on(_LEAK), weight="bold", ha="center", va="center",
                fontsize=style.current().font_normal, animated=True,
            )  # fmt: skip

    def regions(self, n_query: int, sentence: Callable[[int, int], str]) -> list[Area]:
        """One read-out a cell; ``sentence(query, key)`` says it."""
        first = self._n - n_query
        return [
            region(self.axes, (key, key + 1), (first + query, first + query + 1), sentence(query, key))
            for query in range(n_query)
            for key in range(self._n)
        ]


def _squares(cells: np.ndarray, first_row: int) -> list[np.ndarray]:
    corners = np.array([(0, 0), (1, 0), (1, 1), (0, 1)])
    return [corners + (key, query + first_row) for query, key in np.argwhere(cells)]


class PaintedMaskPicture(Picture):
    """One boolean tensor, read both ways: True = may attend on the left, True = ignore on the right."""

    @staticmethod
    def size(result: Any) -> tuple[float, float]:
        return 8.8, 3.9

    @staticmethod
    def layout(result: Any) -> int:
        return result.mask.shape[1]

    def __init__(self, figure: Figure, result: Any) -> None:
        titles = ("True = may attend (this course)", "The same tensor as True = ignore")
        self._grids = [
            Grid(figure.add_axes((left, 0.03, 0.415, 0.8)), result.mask.shape[1], title)
            for left, title in zip((0.07, 0.575), titles, strict=True)
        ]
        for grid in self._grids:
            grid.name_axes()

    def update(self, result: Any) -> None:
        mask = result.mask.numpy()
        for grid, reading in zip(self._grids, (mask, ~mask), strict=True):
            grid.update(reading, result.query_tokens, result.key_tokens, row=result.row)

    def regions(self, result: Any) -> list[Area]:
        mask = result.mask.tolist()

        def reader(opposite: bool) -> Callable[[int, int], str]:
            def sentence(query: int, key: int) -> str:
                verb = "may attend to" if mask[query][key] != opposite else "may not attend to"
                says = f"(the tensor holds {mask[query][key]})"
                return f"{result.query_tokens[query]} {verb} {result.key_tokens[key]} {says}"

            return sentence

        left, right = (
            grid.regions(len(mask), reader(opposite)) for grid, opposite in zip(self._grids, (False, True), strict=True)
        )
        return left + right


class LeakTestPicture(Picture):
    """Leak tests side by side: which output moved when which token was changed; above the diagonal that is a leak."""

    @staticmethod
    def size(result: Any) -> tuple[float, float]:
        return 8.8, 2.75

    def __init__(self, figure: Figure, result: Any) -> None:
        share, sizes = 1 / len(result), style.current()
        self._grids = []
        for index, test in enumerate(result):
            n = len(test.moved)
            grid = Grid(figure.add_axes((index * share + 0.058, 0.13, share - 0.07, 0.57)), n, _verdict(test))
            sees = test.sees.numpy()
            grid.update(sees, range(1, n + 1), range(1, n + 1))
            grid.mark_leaks(np.triu(sees, 1))
            middle = {"fontsize": sizes.font_small, "ha": "center", "va": "center"}
            grid.axes.text(n / 2, n + 0.4, "changed token", color=style.KEY, **middle)
            if index == 0:
                grid.axes.text(-0.8, n / 2, "output", color=style.QUERY, rotation=90, **middle)
            self._grids.append(grid)

    def regions(self, result: Any) -> list[Area]:
        def reader(moved: list[list[float]]) -> Callable[[int, int], str]:
            def sentence(output: int, token: int) -> str:
                return f"Changing token {token + 1} moves output {output + 1} by {moved[output][token]:.3g}"

            return sentence

        return [
            each for grid, test in zip(self._grids, result, strict=True)
            for each in grid.regions(len(test.moved), reader(test.moved.tolist()))
        ]  # fmt: skip


def _verdict(test: Any) -> str:
    return f"{test.name}\n{test.leaks or 'no'} {'leak' if test.leaks in (0, 1) else 'leaks'}"
