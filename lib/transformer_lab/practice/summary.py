"""The table that `progress.show()` puts on the page."""

from dataclasses import dataclass
from html import escape


@dataclass(frozen=True, repr=False)
class Summary:
    """Exercises and questions with what became of them, in the order of their names."""

    exercises: dict[str, dict]
    questions: dict[str, dict]

    def _rows(self) -> list[tuple[str, str, str]]:
        solved = [(n, e["solved"], "solved" if e["solved"] else "not solved yet", e) for n, e in self.exercises.items()]
        first = [
            (n, q["first_right"], "right at first" if q["first_right"] else "not right at first", q)
            for n, q in self.questions.items()
        ]
        return [
            (f"{'✓' if good else '○'} {name}", word, f"{entry['tries']} {'try' if entry['tries'] == 1 else 'tries'}")
            for name, good, word, entry in sorted(solved) + sorted(first)
        ]

    def _headline(self) -> str:
        solved = sum(entry["solved"] for entry in self.exercises.values())
        return f"Exercises solved: {solved} of {len(self.exercises)} tried. Questions answered: {len(self.questions)}."

    def __repr__(self) -> str:
        rows = self._rows()
        widths = [max((len(row[i]) for row in rows), default=0) for i in range(3)]
        table = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        return "\n".join([self._headline(), *table])

    def _repr_html_(self) -> str:
        body = "".join(
            "<tr>" + "".join(f'<td style="text-align:left">{escape(cell)}</td>' for cell in row) + "</tr>"
            for row in self._rows()
        )
        return f"<p>{escape(self._headline())}</p><table>{body}</table>"
