"""Where things stand in the picture of an attention walk, in inches, and how its numbers are written."""

import math
from dataclasses import dataclass

WIDTH = 9.0
LEFT, MAP_WIDTH = 1.02, 4.4  # the map and the bars under it
LIFT = 0.52  # between the map and the row lifted out of it
BAR, NUMBER = 0.4, 0.22  # a row of bars, and the numbers under it
N_ROWS = 4  # scores, scaled, masked, weights
SHOW_NUMBERS_UP_TO = 6  # tokens; a larger map shows colour alone


@dataclass(frozen=True)
class Place:
    """The layout for ``n`` tokens."""

    n: int

    @property
    def crowded(self) -> bool:
        return self.n > SHOW_NUMBERS_UP_TO

    @property
    def column(self) -> float:
        """How wide a cell of the map is."""
        return min(1.1, MAP_WIDTH / self.n)

    @property
    def row(self) -> float:
        """How high a cell of the map is."""
        return min(0.5, max(0.28, 2.1 / self.n))

    @property
    def top(self) -> float:
        """Where the map begins, under its heading and the key labels, which lean when they are many."""
        return 1.12 if self.crowded else 0.86

    @property
    def lifted(self) -> float:
        """Where the lifted row begins."""
        return self.top + self.n * self.row + LIFT

    @property
    def low(self) -> float:
        """Where the lifted row ends."""
        return self.lifted + N_ROWS * (BAR + NUMBER)

    @property
    def height(self) -> float:
        return self.low + 0.12

    def centre(self, i: int) -> tuple[float, float]:
        """Middle of column i, middle of row i."""
        return LEFT + (i + 0.5) * self.column, self.top + (i + 0.5) * self.row

def number(value: float) -> str:
    """At most four characters and a sign: 0.60, −7.60, 70.5, 113, −∞."""
    if math.isinf(value) and value < 0:
        return "−∞"
    digits = 2 if abs(value) < 9.995 else 1 if abs(value) < 99.95 else 0
    return f"{value:.{digits}f}".replace("-", "−")
