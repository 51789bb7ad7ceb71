"""Exercises: minutes, a stub with its check, two hints, a folded solution that passes the check."""
import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from house.lesson import Lesson, rule

TITLE = re.compile(r"^### +Exercise\b.*$", re.MULTILINE)
DETAILS = re.compile(r"<details>\s*<summary>(.*?)</summary>(.*?)</details>", re.DOTALL)
PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
NOT_ATTEMPTED = "○ Not attempted yet"  # how the answer of a check to an untouched stub begins
RIGHT = "✓ Right"


@dataclass
class Exercise:
    title: str
    place: int  # of the cell with the heading
    hints: int = 0
    solution: str = ""
    cells: list = field(default_factory=list)  # its code cells, with their places

    @property
    def checks(self) -> list[str]:
        """The calls `check.…(…)` that stand as statements in the exercise's cells."""
        return [call for _, cell in self.cells for call in check_calls(cell.source)]


def check_calls(source: str) -> list[str]:
    statements = ast.parse(source).body
    return [
        ast.unparse(s) for s in statements if isinstance(s, ast.Expr) and ast.unparse(s).startswith("check.")
    ]


def exercises_of(lesson: Lesson) -> list[Exercise]:
    """The exercises of a lesson: everything from one `### Exercise` heading to the next heading of any kind."""
    found, current = [], None
    for place, cell in enumerate(lesson.notebook.cells, start=1):
        if cell.cell_type == "markdown":
            title = TITLE.search(cell.source)
            if title:
                current = Exercise(title[0], place)
                found.append(current)
            elif re.match(r"#{1,3} ", cell.source):
                current = None
            if current:
                for summary, body in DETAILS.findall(cell.source):
                    if "hint" in summary.lower():
                        current.hints += 1
                    if "solution" in summary.lower():
                        current.solution = "\n".join(PYTHON.findall(body))
        elif current and cell.cell_type == "code":
            current.cells.append((place, cell))
    return found


@rule
def exercises_are_complete(lesson: Lesson) -> Iterator[str]:
    for exercise in exercises_of(lesson):
        where = f"cell {exercise.place} ({exercise.title})"
        if not re.search(r"\b\d+\s*min", exercise.title):
            yield f"{where}: say the minutes in the heading, as in `### Exercise 1: … · 5 min`"
        if not exercise.checks:
            yield f"{where}: no stub with a `check.…(…)` line below it"
        if exercise.hints != 2:
            yield f"{where}: {exercise.hints} hints; two, each in <details><summary>Hint …</summary>, milder one first"
        if not exercise.solution:
            yield f"{where}: no <details><summary>Solution</summary> with a ```python block"


@rule
def a_lesson_has_exercises(lesson: Lesson) -> Iterator[str]:
    count = len(exercises_of(lesson))
    has_section = any(level == 2 and "exercises" in text.lower() for _, level, text in lesson.headings)
    if has_section and not 2 <= count <= 4:
        yield f"{count} exercises under `### Exercise …` headings; a lesson has two to four"


@rule
def untouched_exercises_say_so(lesson: Lesson) -> Iterator[str]:
    for exercise in exercises_of(lesson):
        for place, cell in exercise.cells:
            texts = [o.get("data", {}).get("text/plain", "") for o in cell.outputs]
            if check_calls(cell.source) and not any(text.startswith(NOT_ATTEMPTED) for text in texts):
                yield f"cell {place}: the stored answer of the check is {texts}, not {NOT_ATTEMPTED!r}"
