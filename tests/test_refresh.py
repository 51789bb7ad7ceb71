"""The script that executes notebooks leaves a clean file, and leaves it alone when a cell fails."""
import subprocess
import sys
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_notebook

from house import RULES, Lesson

REFRESH = Path(__file__).resolve().parents[1] / ".ci" / "refresh"


def refresh(path: Path) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, str(REFRESH), str(path)], capture_output=True, text=True, timeout=120)


def test_a_notebook_is_executed_and_cleaned(tmp_path):
    cells = [
        new_code_cell("import ipywidgets, sys\nprint(1)\nsys.stdout.flush()\nprint(2)", execution_count=9),
        new_code_cell("ipywidgets.IntSlider()", metadata={"execution": {"iopub.status.busy": "2020"}}),
    ]
    path = tmp_path / "01_first.ipynb"
    nbformat.write(new_notebook(cells=cells, metadata={"widgets": {"state": {}}}), path)
    assert refresh(path).returncode == 0
    lesson = Lesson(path)
    for rule in ("executed_in_order", "no_traces_of_the_machine", "cells_have_stable_ids"):
        assert list(RULES[rule](lesson)) == []
    assert [cell.id for _, cell in lesson.code] == [cell.id for cell in cells]
    assert [output.text for _, output in lesson.outputs if "text" in output] == ["1\n2\n"]
    before = path.read_bytes()
    refresh(path)
    assert path.read_bytes() == before, "a second refresh changes the file"


def test_a_failing_notebook_is_left_alone(tmp_path):
    path = tmp_path / "01_first.ipynb"
    cells = [new_code_cell("x = 1"), new_code_cell("def half(n):\n    1 / n\nhalf(0)")]
    nbformat.write(new_notebook(cells=cells), path)
    before = path.read_bytes()
    done = refresh(path)
    assert done.returncode == 1
    assert "half(0)" in done.stdout and "ZeroDivisionError" in done.stdout
    assert path.read_bytes() == before
