"""Query heads above the key/value heads they share, and what the sharing saves."""

from typing import Any

from matplotlib.figure import Figure

from transformer_lab.draw import style
from transformer_lab.draw.canvas import Region, region
from transformer_lab.draw.sheet import SheetPicture, boxes

WIDTH, HEIGHT = 8.8, 3.95
LEFT, RIGHT = 0.3, 8.5
QUERY_TOP, SHARED_TOP, HEAD = 0.45, 1.3, 0.4  # HEAD: how tall a head is
ROWS, ROW = 2.75, 0.45
BAR_LEFT, BAR_RIGHT = 2.75, 6.6


class KVSharingPicture(SheetPicture):
    """Draws a sharing: heads, key/value heads, tokens, cache bytes and weights beside those of multi-head attention."""

    def __init__(self, figure: Figure, result: Any) -> None:
        self.open_sheet(figure, result)
        self._make_heads(result.n_heads, result.n_kv_heads)
        self._rows = _rows(result)
        self._bars, self._figures = [], []
        for row, (name, _, _, colour) in enumerate(self._rows):
            y = ROWS + row * ROW
            self.text(LEFT, y, name, ha="left")
            self.box(BAR_LEFT, y - 0.14, BAR_RIGHT - BAR_LEFT, 0.28, radius=0.0, facecolor="none",
                     edgecolor=style.MUTED, linestyle=(0, (4, 3)))  # fmt: skip
            self._bars.append(self.cells(facecolors=[colour], linewidths=0.0))
            self._figures.append(self.stamp(BAR_RIGHT + 0.12, y, size="normal", ha="left"))
        self.text(BAR_LEFT, ROWS - 0.35, "dashed: multi-head attention", size="small", color=style.MUTED, ha="left")

    @staticmethod
    def size(result: Any) -> tuple[float, float]:
        return WIDTH, HEIGHT

    @staticmethod
    def layout(result: Any) -> tuple:
        return result.n_heads, result.n_kv_heads

    def _make_heads(self, n_heads: int, n_kv_heads: int) -> None:
        slot, group = (RIGHT - LEFT) / n_heads, n_heads // n_kv_heads
        self.text(LEFT, QUERY_TOP - 0.22, "query heads", size="small", color=style.QUERY, ha="left")
        below = SHARED_TOP + 2 * HEAD
        self.text(LEFT, below + 0.17, "key/value heads", size="small", color=style.MUTED, ha="left")
        for head in range(n_heads):
            x = LEFT + head * slot
            self._head(x + 0.06, QUERY_TOP, slot - 0.12, f"Q {head + 1}", style.QUERY)
            middle = x + slot / 2
            target = LEFT + (head // group + 0.5) * slot * group
            self.line((middle, target), (QUERY_TOP + HEAD, SHARED_TOP), color=style.MUTED, lw=1.4)
        for head in range(n_kv_heads):
            x, width = LEFT + head * slot * group, slot * group
            # As wide as one query head, whoever shares it: that is what is saved.
            x, width = x + (width - slot) / 2 + 0.06, slot - 0.12
            self._head(x, SHARED_TOP, width, f"K {head + 1}", style.KEY)
            self._head(x, SHARED_TOP + HEAD, width, f"V {head + 1}", style.VALUE)

    def _head(self, x: float, y: float, width: float, name: str, colour: str) -> None:
        self.box(x, y, width, HEAD, radius=0.05, facecolor=style.tint(colour, 0.8), edgecolor=colour, zorder=2)
        self.text(x + width / 2, y + HEAD / 2, name, color=colour, weight="bold")

    def update(self, result: Any) -> None:
        self._rows = _rows(result)
        for row, (_, amount, full, _) in enumerate(self._rows):
            width = (BAR_RIGHT - BAR_LEFT) * amount / full
            self._bars[row].set_verts(boxes(BAR_LEFT, ROWS + row * ROW - 0.14, width, 0.28)[None])
            self._figures[row].set_text(f"{amount:,} {'bytes' if row == 0 else 'weights'}")

    def regions(self, result: Any) -> list[Region]:
        return [
            region(self.axes, (LEFT, RIGHT), (ROWS + (row - 0.5) * ROW, ROWS + (row + 0.5) * ROW),
                   f"{name}: {amount:,}, in multi-head attention {full:,}")
            for row, (name, amount, full, _) in enumerate(_rows(result))
        ]  # fmt: skip


def _rows(result: Any) -> list[tuple[str, int, int, str]]:
    """Name, amount, amount in multi-head attention, and colour of each bar."""
    few, full = result.weights, result.full_weights
    return [
        ("K/V cache", result.cache_bytes, result.full_cache_bytes, style.ACCENT),
        ("W_K and W_V", few["W_K"] + few["W_V"], full["W_K"] + full["W_V"], style.KEY),
        ("W_Q and W_O", few["W_Q"] + few["W_O"], full["W_Q"] + full["W_O"], style.QUERY),
    ]
