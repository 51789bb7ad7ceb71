"""A reader runs cells twice and fills in exercises: every notebook bears both, in a kernel of its own."""
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from house import Lesson
from house.exercises import NOT_ATTEMPTED, RIGHT, exercises_of

NOTEBOOKS = sorted((Path(__file__).resolve().parents[1] / "notebooks").glob("*.ipynb"))
CELL_SECONDS = 120


def used_twice(lesson: Lesson) -> tuple[list, list]:
    """Every code cell twice in a row, and after each exercise its folded solution with its checks.

    Returns the cells, and the pairs of a check's cell and the words that its answer must hold.
    """
    solutions = {e.cells[-1][0]: e for e in exercises_of(lesson) if e.cells}
    cells, expected = [], []
    for place, cell in lesson.code:
        cells += [new_code_cell(cell.source), new_code_cell(cell.source)]
        if place in solutions:
            exercise = solutions[place]
            untouched = [new_code_cell(call) for call in exercise.checks]
            solved = [new_code_cell(call) for call in exercise.checks]
            cells += [*untouched, new_code_cell(exercise.solution), *solved]
            expected += [(check, NOT_ATTEMPTED, exercise.title) for check in untouched]
            expected += [(check, RIGHT, exercise.title) for check in solved]
    return cells, expected


def answer_of(check) -> str:
    return "\n".join(output.get("data", {}).get("text/plain", "") for output in check.outputs)


def faults(path: Path) -> list[str]:
    """What goes wrong when the notebook at this path is used that way. A cell that raises raises here."""
    cells, expected = used_twice(Lesson(path))
    client = NotebookClient(
        new_notebook(cells=cells),
        timeout=CELL_SECONDS,
        kernel_name="python3",
        resources={"metadata": {"path": str(path.parent)}},
    )
    client.execute()
    outputs = [output for cell in cells for output in cell.outputs]
    found = [f"on stderr: {output.text}" for output in outputs if output.get("name") == "stderr"]
    for check, words, title in expected:
        said = answer_of(check)
        if not said.startswith(words):
            found.append(f"{title}: {check.source} says {said!r}, not {words!r}")
    return found


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_cells_run_twice_and_solutions_pass_their_checks(path):
    assert faults(path) == []


LEARNER = """### Exercise 1: a causal mask · 5 min

<details><summary>Solution</summary>

```python
def my_causal_mask(n_query, n_key):
    return torch.ones(n_query, n_key, dtype=torch.bool).{half}(n_key - n_query)
```

</details>"""
STUB = "def my_causal_mask(n_query, n_key):\n    ...\n\ncheck.causal_mask(my_causal_mask)"


@pytest.mark.parametrize(("half", "problems"), [("tril", 0), ("triu", 1)])
def test_a_wrong_folded_solution_is_noticed(tmp_path, half, problems):
    imports = new_code_cell("import torch\nfrom transformer_lab.practice import check")
    cells = [imports, new_markdown_cell(LEARNER.format(half=half)), new_code_cell(STUB)]
    nbformat.write(new_notebook(cells=cells), tmp_path / "01_masks.ipynb")
    found = faults(tmp_path / "01_masks.ipynb")
    assert len(found) == problems, found


def test_a_cell_that_bears_one_run_only_is_noticed(tmp_path):
    cells = [new_code_cell("numbers = [1, 2]"), new_code_cell("first, last = numbers.pop(), numbers.pop()")]
    nbformat.write(new_notebook(cells=cells), tmp_path / "01_pop.ipynb")
    with pytest.raises(CellExecutionError, match="pop from empty list"):
        faults(tmp_path / "01_pop.ipynb")
