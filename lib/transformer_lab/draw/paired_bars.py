"""Two shares a row as bars, row under row, in panels side by side."""

from collections.abc import Mapping
from dataclasses import dataclass

from matplotlib.figure import Figure

from transformer_lab.draw import style
from transformer_lab.draw.canvas import Area, region
from transformer_lab.draw.filling import percent
from transformer_lab.draw.sheet import SheetPicture

PANELS = {1: 6.8, 2: 4.4}  # width of a panel, by how many there are
LABELS, SHARES = 1.7, 0.75  # room for the words before the bars and for the numbers after them
LEGEND, TITLES, ROWS, ROW, BAR = 0.22, 0.62, 0.88, 0.58, 0.23


@dataclass(frozen=True)
class PairedShares:
    """What `PairedBars` draws.

    Args:
        names: what the upper and the lower bar of each row stand for.
        panels: one or two panels by title; a panel gives each of its rows two shares between 0 and 1.
        colours: of the upper and the lower bar, where their names have colours elsewhere in the lesson.
    """

    names: tuple[str, str]
    panels: Mapping[str, Mapping[str, tuple[float, float]]]
    colours: tuple[str, str] = (style.QUERY, style.ACCENT)

    def __post_init__(self) -> None:
        if not 1 <= len(self.panels) <= 2:
            raise ValueError(f"panels has {len(self.panels)} entries; there is room for 1 or 2 side by side.")
        for rows in self.panels.values():
            for label, shares in rows.items():
                if len(shares) != 2 or not all(0 <= share <= 1 for share in shares):
                    raise ValueError(f"row {label!r} is {shares}; give it two shares between 0 and 1.")


class PairedBars(SheetPicture):
    """Draws `PairedShares`, a still figure: other shares build it again."""

    def __init__(self, figure: Figure, result: PairedShares) -> None:
        self.open_sheet(figure, result)
        for bar, (name, colour) in enumerate(zip(result.names, result.colours, strict=True)):
            x = LABELS + bar * 2.6
            self.rectangle(x, LEGEND - 0.09, 0.25, 0.18, facecolor=colour)
            self.text(x + 0.35, LEGEND, f"{('upper', 'lower')[bar]}: {name}", size="small", ha="left")
        self._panel = PANELS[len(result.panels)]
        self._full = self._panel - LABELS - SHARES
        for panel, (title, rows) in enumerate(result.panels.items()):
            left = panel * self._panel + LABELS
            self.text(left, TITLES, title, weight="bold", ha="left")
            for row, (label, shares) in enumerate(rows.items()):
                self._make_row(left, ROWS + row * ROW, label, shares, result.colours)

    def _make_row(
        self, left: float, top: float, label: str, shares: tuple[float, float], colours: tuple[str, str]
    ) -> None:
        self.text(left - 0.15, top + BAR, label, ha="right")
        for bar, (share, colour) in enumerate(zip(shares, colours, strict=True)):
            y = top + bar * BAR
            self.rectangle(left, y, self._full, BAR * 0.85, facecolor="none", edgecolor=style.GRID)
            self.rectangle(left, y, self._full * share, BAR * 0.85, facecolor=colour)
            self.text(left + self._full + 0.1, y + BAR / 2, percent(share), size="small", ha="left")

    @staticmethod
    def size(result: PairedShares) -> tuple[float, float]:
        n_panels, n_rows = len(result.panels), max(map(len, result.panels.values()))
        return 0.1 + PANELS[n_panels] * n_panels, ROWS + ROW * n_rows

    @staticmethod
    def layout(result: PairedShares) -> tuple:
        panels = ((title, tuple((label, tuple(shares)) for label, shares in rows.items()))
                  for title, rows in result.panels.items())  # fmt: skip
        return result.names, result.colours, tuple(panels)

    def regions(self, result: PairedShares) -> list[Area]:
        found = []
        for panel, (title, rows) in enumerate(result.panels.items()):
            for row, (label, shares) in enumerate(rows.items()):
                values = ", ".join(f"{name} {percent(share)}" for name, share in zip(result.names, shares, strict=True))
                x, y = panel * self._panel, ROWS + row * ROW
                found.append(region(self.axes, (x, x + self._panel), (y, y + ROW), f"{title}, {label}: {values}"))
        return found
