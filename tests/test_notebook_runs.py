"""The test run itself: stored outputs are compared, a notebook stays on one worker, and nothing can hang."""
import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

ROOT = Path(__file__).resolve().parents[1]


def write_notebook(path: Path, *cells: tuple[str, str]) -> None:
    """A notebook of cells given as source and the stored text that it printed."""
    code = []
    for count, (source, printed) in enumerate(cells, start=1):
        outputs = [new_output("stream", name="stdout", text=printed)] if printed else []
        code.append(new_code_cell(source, execution_count=count, outputs=outputs))
    nbformat.write(new_notebook(cells=code), path)


def run_pytest(folder: Path, *options: str) -> tuple[int, str]:
    """Run pytest with the course's settings on another folder; returns its exit status and what it printed."""
    command = [sys.executable, "-m", "pytest", "-c", str(ROOT / ".pytest.ini"), "--rootdir", str(folder)]
    command += ["-p", "conftest", "-p", "no:cacheprovider", "-v", *options, str(folder)]
    paths = os.pathsep.join([str(ROOT / "tests"), os.environ["PYTHONPATH"]])  # where that conftest is
    environment = os.environ | {"PYTHONPATH": paths}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=200, env=environment)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def run_of_notebooks(tmp_path_factory) -> str:
    """What a run over one good notebook, one with an untrue output and one whose kernel dies says."""
    folder = tmp_path_factory.mktemp("notebooks")
    write_notebook(folder / "good.ipynb", ("x = 2", ""), *[("print(2 * x)", "4\n")] * 4)
    write_notebook(folder / "false.ipynb", ("x = 2", ""), *[("x = 3", "")] * 3, ("print(2 * x)", "4\n"))
    write_notebook(folder / "dead.ipynb", ("import os\nos._exit(1)", ""), *[("x = 1", "")] * 4)
    status, said = run_pytest(folder, "--nbval-cell-timeout=5")
    assert status == 1, said
    return said


def results(said: str, name: str) -> list[tuple[str, str]]:
    """(worker, verdict) of every cell of a notebook."""
    return re.findall(rf"\[(gw\d)\] \S*\s*\S* (\w+) {name}\W+ipynb::Cell", said)


def test_a_stored_output_is_compared(run_of_notebooks):
    assert [verdict for _, verdict in results(run_of_notebooks, "good")] == ["PASSED"] * 5
    assert [verdict for _, verdict in results(run_of_notebooks, "false")] == ["PASSED"] * 4 + ["FAILED"]


def test_a_notebook_stays_on_one_worker(run_of_notebooks):
    workers = {name: {worker for worker, _ in results(run_of_notebooks, name)} for name in ("good", "false", "dead")}
    assert all(len(used) == 1 for used in workers.values()), workers
    assert len(set.union(*workers.values())) == 2, "one worker did everything"


@pytest.mark.case("J05")
def test_a_dead_kernel_fails_its_cell_and_no_later_one_passes(run_of_notebooks):
    # nbval expects the cells after a time-out to fail, and reports them so
    assert [verdict for _, verdict in results(run_of_notebooks, "dead")] == ["FAILED"] + ["XFAIL"] * 4


def test_a_hanging_test_is_ended(tmp_path):
    (tmp_path / "test_hang.py").write_text("import time\ndef test_hang():\n    time.sleep(300)\n")
    status, said = run_pytest(tmp_path, "-o", "faulthandler_timeout=2")  # raises when it takes over 200 s
    assert status == 1 and "test_hang" in said, said
