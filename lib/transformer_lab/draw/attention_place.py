"""Where things stand in the picture of an attention walk, in inches, and how its numbers are written."""

import math
from dataclasses import dataclass

WIDTH, HEIGHT = 9.0, 4.9  # one size for every sentence, low enough to stand on one screen with its controls
LEFT, MAP_WIDTH = 1.02, 4.0  # the map and the row lifted out of it
LINES = 4 * 0.21  # the lines of numbers under the bars: scores, scaled, masked, weights
LEAN_ABOVE = 5  # tokens; more key labels than this lean
SHOW_NUMBERS_UP_TO = 6  # tokens; a larger map shows colour alone


@dataclass(frozen=True)
class Place:
    """The layout for ``n`` tokens."""

    n: int

    @property
    def crowded(self) -> bool:
        return self.n > SHOW_NUMBERS_UP_TO

    @property
    def leaning(self) -> bool:
        """Whether the key labels lean."""
        return self.n > LEAN_ABOVE

    @property
    def column(self) -> float:
        """How wide a cell of the map is."""
        return min(1.4, MAP_WIDTH / self.n)

    @property
    def row(self) -> float:
        """How high a cell of the map is."""
        return min(0.34, 1.7 / self.n)

    @property
    def top(self) -> float:
        """Where the map begins, under the finding, its heading and the key labels."""
        return 1.28 if self.leaning else 0.98

    @property
    def lifted(self) -> float:
        """Where the lifted row begins: the map ends here."""
        return self.top + self.n * self.row

    @property
    def bars(self) -> tuple[float, float]:
        """The top and the bottom of the bars."""
        return self.lifted + 0.36, self.lines - 0.06

    @property
    def lines(self) -> float:
        """Where the lines of numbers begin."""
        return self.low - LINES - 0.04

    @property
    def low(self) -> float:
        """Where the lifted row ends."""
        return HEIGHT - 0.06

    def centre(self, i: int) -> tuple[float, float]:
        """Middle of column i, middle of row i."""
        return LEFT + (i + 0.5) * self.column, self.top + (i + 0.5) * self.row


def number(value: float, short: bool = False) -> str:
    """At most four characters and a sign: 0.60, −7.60, 70.5, 113, −∞; ``short`` leaves the decimals out."""
    if math.isinf(value) and value < 0:
        return "−∞"
    digits = 0 if short or abs(value) >= 99.95 else 2 if abs(value) < 9.995 else 1
    return f"{round(value, digits) + 0.0:.{digits}f}".replace("-", "−")
