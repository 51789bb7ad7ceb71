"""Every notebook in a real JupyterLab: it runs without an error of any kind, and its widgets answer the keyboard."""
import os
import shutil
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook
from playwright.sync_api import sync_playwright

from browser.lab import Lab, copy_of_course
from browser.page import OpenNotebook, label_of, press, wait
from house import Lesson
from house.outputs import QUESTION, WIDGET_VIEW

COURSE = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((COURSE / "notebooks").glob("*.ipynb"))
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
VERDICTS = ("Right", "Not right yet", "Not this time")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


FAULTY_CELLS = [
    """import ipywidgets
from transformer_lab.draw.canvas import Picture
from transformer_lab.widgets.controls import slider
from transformer_lab.widgets.explorer import Explorer

class Bar(Picture):
    size = staticmethod(lambda result: (2, 1))
    layout = staticmethod(lambda result: 0)

    def __init__(self, figure, result):
        self.update(result)

    def update(self, result):
        pass

def explorer(compute):
    return Explorer(compute=compute, picture=Bar, describe=str, controls={"x": slider("x", 0, 1, 0)})""",
    "explorer(lambda x: 'always the same')",
    "explorer(lambda x: 1 // (1 - x))",
    """deaf = ipywidgets.IntSlider(description="raises")
deaf.observe(lambda change: 1 // 0, names="value")
deaf""",
]


@pytest.fixture(scope="session")
def chromium():
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None and os.environ.get("CI") == "true":
        pytest.fail(f"CI needs a browser: none of {', '.join(BROWSERS)} is installed")
    if program is None:
        pytest.skip(f"no browser: install one of {', '.join(BROWSERS)} to try the widgets as a reader does")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def lab(tmp_path_factory):
    root = tmp_path_factory.mktemp("course")
    copy_of_course(COURSE, root)
    server = Lab(root, tmp_path_factory.mktemp("lab"))
    yield server
    server.stop()


@pytest.fixture
def faulty(chromium, lab):
    """A notebook in which everything goes wrong that the tests below must notice."""
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3 (ipykernel)"}}
    notebook = new_notebook(cells=[new_code_cell(source) for source in FAULTY_CELLS], metadata=kernel)
    nbformat.write(notebook, lab.root / "notebooks" / "faulty.ipynb")
    page = chromium.new_page()
    opened = OpenNotebook(page, lab.url, "faulty.ipynb")
    opened.run_all(explorers=2, questions=0)
    yield opened
    page.close()
    lab.close_kernels()


@pytest.fixture(scope="module", params=NOTEBOOKS, ids=lambda path: path.stem)
def notebook(request, chromium, lab):
    """The notebook, open and run once for all its tests."""
    stored = [data for _, data in Lesson(request.param).bundles if WIDGET_VIEW in data]
    page = chromium.new_page(viewport={"width": 1300, "height": 1000})
    opened = OpenNotebook(page, lab.url, request.param.name)
    opened.run_all(
        explorers=sum("image/png" in data for data in stored),
        questions=sum(data["text/plain"].startswith(QUESTION) for data in stored),
    )
    yield opened
    page.close()
    lab.close_kernels()


def test_runs_without_errors(notebook):
    assert notebook.errors() == []


def test_every_picture_is_drawn(notebook):
    for box in notebook.explorers:
        assert notebook.colours(box) > 2, box.inner_text()


def test_explorers_answer_the_keyboard(notebook):
    for box in notebook.explorers:
        moves = [notebook.move(box, control) for control in notebook.controls(box)]
        for move in moves:
            error = move.after["error"]
            # What is typed may be refused, and so may a setting that contradicts another one.
            refusable = move.control.startswith(("text", "number")) or (error and "Change one of them." in error)
            assert error is None or refusable, (move.control, error)
        told = {move.control: move.changed for move in moves}
        assert not moves or any(changed == {"picture", "alt", "sentence"} for changed in told.values()), told
    assert notebook.kernel.errors + notebook.console == []


def test_questions_answer_the_keyboard(notebook):
    for question in notebook.questions:
        said = notebook.answer(question)
        assert any(verdict in said for verdict in VERDICTS), said
    assert notebook.kernel.errors + notebook.console == []


def test_every_control_has_a_visible_label(notebook):
    for box in notebook.explorers + notebook.questions:
        for control in notebook.controls(box):
            assert label_of(control), f"a control without a label in: {box.inner_text()[:80]}"


def test_the_faults_of_a_notebook_are_noticed(faulty):
    assert faulty.errors() == []
    frozen, failing = faulty.explorers
    assert faulty.colours(frozen) == 1
    assert faulty.move(frozen, faulty.controls(frozen)[0]).changed == set()
    assert "ZeroDivisionError" in faulty.move(failing, faulty.controls(failing)[0]).after["error"]
    assert any("ZeroDivisionError" in error for error in faulty.errors())

    in_a_callback = len(faulty.kernel.errors)
    press(faulty.page, faulty.page.locator(".noUi-handle").last)
    wait(faulty.page, lambda: len(faulty.kernel.errors) > in_a_callback, 10, "the error in a callback was not seen")

    faulty.page.evaluate("console.error('a script failed'); fetch('http://example.org').catch(() => null)")
    wait(faulty.page, lambda: "a script failed" in faulty.errors(), 10, "the script's error was not seen")
    wait(faulty.page, lambda: "http://example.org/" in faulty.errors(), 10, "the far request was not seen")
