"""Code cells: short, of one idea, and with nothing that hides from a reader or from the tests."""
import re
from collections.abc import Iterator

from house.lesson import Lesson, rule

MOST_LINES = 18
FORBIDDEN = {
    r"\bimport \*": "names its imports, so that a reader sees where each comes from",
    r"\bsys\.path\b": "imports the installed library; no path surgery",
    r"^\s*[%!]": "is plain Python; no magics and no shell",
    r"(?i)\bnbval[_-]|\bPYTEST_VALIDATE": "is compared like every other; no marks that ignore or skip",
    r"\bplt\.|\bpyplot\b": "draws through transformer_lab.draw and show(), which give pictures their alt text",
    r"\bwarnings\.(filterwarnings|simplefilter)": "removes the cause of a warning instead of hiding it",
}


@rule
def code_cells_are_short(lesson: Lesson) -> Iterator[str]:
    for place, cell in lesson.code:
        lines = [line for line in cell.source.splitlines() if line.strip()]
        if len(lines) > MOST_LINES:
            yield f"cell {place} has {len(lines)} lines, more than {MOST_LINES}: split it, or move it into the library"


@rule
def code_is_plain(lesson: Lesson) -> Iterator[str]:
    for place, cell in lesson.code:
        for pattern, should in FORBIDDEN.items():
            found = re.search(pattern, cell.source, re.MULTILINE)
            if found:
                yield f"cell {place} holds {found[0].strip()!r}: a lesson {should}"


@rule
def no_cell_is_skipped_or_ignored(lesson: Lesson) -> Iterator[str]:
    for place, cell in lesson.code:
        marks = [t for t in cell.metadata.get("tags", []) if t.startswith("nbval") or t == "raises-exception"]
        if marks:
            yield f"cell {place} is tagged {marks}: every cell runs and is compared"


@rule
def one_set_up_cell_comes_first(lesson: Lesson) -> Iterator[str]:
    places = [place for place, cell in lesson.code if re.search(r"\bbegin\(", cell.source)]
    if not lesson.code or places != [lesson.code[0][0]]:
        yield f"begin() is called in cells {places}: the first code cell, and only it, sets the lesson up"
