"""Every notebook keeps every house rule, and every rule can be broken (tests/house/ holds the rules)."""
import base64
import io
from pathlib import Path

import nbformat.v4
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from PIL import Image

from house import RULES, Lesson
from house.exercises import exercises_of

NOTEBOOKS = sorted((Path(__file__).resolve().parents[1] / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES.keys())
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_house_rule(path, rule):
    breaches = list(rule(Lesson(path)))
    assert not breaches, "\n".join([path.name, *breaches])


# ------------------------------------------------------- the rules themselves: a good notebook, broken in every way


def png(*colours: str) -> str:
    picture = Image.new("RGB", (len(colours), 4))
    for x, colour in enumerate(colours):
        picture.paste(colour, (x, 0, x + 1, 4))
    buffer = io.BytesIO()
    picture.save(buffer, "PNG")
    return base64.b64encode(buffer.getvalue()).decode()


def section(text: str):
    return new_markdown_cell(text, metadata={"slideshow": {"slide_type": "slide"}})


def display(**data):
    return new_output("display_data", {key.replace("_", "/", 1): value for key, value in data.items()})


def exercise(number: int) -> list:
    folded = "<details><summary>{}</summary>\n\n{}\n\n</details>"
    return [
        new_markdown_cell(f"### Exercise {number}: double it · 5 min\n\nReturn twice the number."),
        new_code_cell(
            "def double(x):\n    return None\n\ncheck.double(double)",
            outputs=[new_output("execute_result", {"text/plain": "○ Not attempted yet."})],
        ),
        new_markdown_cell(
            "\n\n".join(
                [
                    folded.format("Hint 1", "What is one more x?"),
                    folded.format("Hint 2", "Add x to itself."),
                    folded.format("Solution", "```python\ndef double(x):\n    return x + x\n```"),
                ]
            )
        ),
    ]


def good_cells() -> list:
    explorer = {"application/vnd.jupyter.widget-view+json": {"model_id": "1"}, "image/png": png("red", "blue", "white")}
    return [
        section("# Doubling\n\nWhat is twice a number? 20 minutes. You need nothing first."),
        new_code_cell("from transformer_lab.lesson import begin\n\nbegin()"),
        section("## Look\n\n![two bars](bars.svg) Then [go on](02_next.ipynb#Next-steps)."),
        new_code_cell(
            "show(Bars, 4, '…')",
            outputs=[new_output("display_data", explorer | {"text/plain": "Two bars of height 4."})],
        ),
        new_code_cell("ask('q')", outputs=[new_output("display_data", {"text/plain": "Question: what is 2 × 2?"})]),
        new_code_cell("print(4)", outputs=[new_output("stream", name="stdout", text="4\n")]),
        section("## The trap\n\nIt is not the square."),
        section("## Exercises"),
        *exercise(1),
        *exercise(2),
        section("## Interview corner\n\nWhy does $M_1$ not count?"),
        section("## Recap\n\nTwice is a sum."),
        section("## Sources\n\nEuclid, long ago."),
    ]


@pytest.fixture
def write_lesson(tmp_path):
    """Writes cells as the notebook 01_doubling.ipynb, beside what it links to."""
    (tmp_path / "bars.svg").write_text("<svg/>")
    following = new_notebook(cells=[new_markdown_cell("# Next\n\n## Next steps")])
    nbformat.write(following, tmp_path / "02_next.ipynb")

    def write(cells: list, metadata: dict | None = None) -> Lesson:
        code = [cell for cell in cells if cell.cell_type == "code"]
        for count, cell in enumerate(code, start=1):
            cell.execution_count = count if cell.execution_count is None else cell.execution_count
        notebook = new_notebook(metadata={"language_info": {"name": "python"}} | (metadata or {}))
        notebook.cells = cells
        path = tmp_path / "01_doubling.ipynb"
        path.write_text(nbformat.v4.writes(notebook), encoding="utf-8")
        return Lesson(path)

    return write


def changed(place: int, **change):
    """The good cells with the attributes of one of them replaced."""
    cells = good_cells()
    for name, value in change.items():
        cells[place][name] = value
    return cells


def with_output(**output):
    return changed(3, outputs=[display(**output)])


def with_code(source: str):
    return changed(3, source=source)


def with_prose(source: str):
    return changed(2, source=f"## Look\n\n{source}")


def with_heading_removed(text: str):
    return [cell for cell in good_cells() if not cell.source.startswith(text)]


WIDGET_ONLY = {"application_vnd.jupyter.widget-view+json": {"model_id": "1"}, "text_plain": "Two bars of height 4."}
# rule -> notebooks that break it
BROKEN = {
    "executed_in_order": [lambda: changed(3, execution_count=7)],
    "no_errors_and_nothing_on_stderr": [
        lambda: changed(3, outputs=[new_output("error", ename="ValueError", evalue="no", traceback=[])]),
        lambda: changed(3, outputs=[new_output("stream", name="stderr", text="Warning: no\n")]),
    ],
    "no_traces_of_the_machine": [lambda: changed(3, metadata={"execution": {"iopub.status.busy": "2020"}})],
    "widgets_show_a_picture_without_a_kernel": [lambda: with_output(**WIDGET_ONLY)],
    "pictures_have_alt_text": [
        lambda: with_output(image_png=png("red", "blue", "white"), text_plain="<Figure size 4x4 with 1 Axes>"),
        lambda: with_output(**WIDGET_ONLY | {"image_png": png("red", "blue", "white"), "text_plain": "Bars"}),
    ],
    "pictures_are_not_blank": [
        lambda: with_output(**WIDGET_ONLY | {"image_png": png("white", "white", "black")}),
    ],
    "text_is_the_same_on_every_machine": [lambda: with_output(text_plain="<Bars object at 0x7f00deadbeef>")],
    "outputs_fit_a_screen": [
        lambda: changed(3, outputs=[new_output("stream", name="stdout", text="line\n" * 60)]),
        lambda: with_output(text_plain="long " * 1_000),
        lambda: with_output(text_html="<tr></tr>" * 60, text_plain="a table"),
    ],
    "code_cells_are_short": [lambda: with_code("x = 1\n" * 19)],
    "code_is_plain": [
        lambda: with_code("from math import *"),
        lambda: with_code("import sys\nsys.path.insert(0, '..')"),
        lambda: with_code("%matplotlib inline"),
        lambda: with_code("!pip list"),
        lambda: with_code("# NBVAL_IGNORE_OUTPUT\nx = 1"),
        lambda: with_code("plt.plot([1])"),
        lambda: with_code("import warnings\nwarnings.filterwarnings('ignore')"),
    ],
    "no_cell_is_skipped_or_ignored": [lambda: changed(3, metadata={"tags": ["nbval-skip"]})],
    "one_set_up_cell_comes_first": [
        lambda: changed(1, source="x = 1"),
        lambda: with_code("begin()"),
    ],
    "paragraphs_are_short": [lambda: with_prose("word " * 81), lambda: with_prose("- short\n- " + "word " * 81)],
    "words_do_not_belittle": [lambda: with_prose("You just add it."), lambda: with_prose("Of course it is four.")],
    "claim_ids_stay_in_the_tests": [
        lambda: with_prose("As A4 says, it grows."),
        lambda: with_code("x = 2  # M14"),
        lambda: with_output(text_plain="P13 holds"),
    ],
    "images_exist_and_have_alt_text": [
        lambda: with_prose("![two bars](gone.svg)"),
        lambda: with_prose("![](bars.svg)"),
        lambda: with_prose('<img src="bars.svg">'),
        lambda: with_prose("![two bars](https://example.org/bars.svg)"),
    ],
    "links_lead_somewhere": [
        lambda: with_prose("[on](03_gone.ipynb)"),
        lambda: with_prose("[on](02_next.ipynb#No-such-heading)"),
        lambda: with_prose("Read `04_gone.ipynb` next."),
    ],
    "opens_with_title_minutes_and_needs": [
        lambda: changed(0, source="## Doubling\n\n20 minutes. You need nothing."),
        lambda: changed(0, source="# Doubling\n\nYou need nothing."),
        lambda: changed(0, source="# Doubling\n\n20 minutes."),
    ],
    "sections_stand_in_the_house_order": [
        lambda: with_heading_removed("## The trap"),
        lambda: with_heading_removed("## Sources") + [section("## Interview corner")],
    ],
    "sections_are_slides": [lambda: changed(2, metadata={})],
    "a_heading_opens_its_cell": [lambda: changed(2, source="Before.\n\n## Look")],
    "exercises_are_complete": [
        lambda: changed(8, source="### Exercise 1: double it"),
        lambda: changed(9, source="x = 1"),
        lambda: changed(10, source="<details><summary>Hint 1</summary>\n\nOne.\n\n</details>"),
    ],
    "a_lesson_has_exercises": [lambda: good_cells()[:11] + good_cells()[14:]],
    "untouched_exercises_say_so": [lambda: changed(9, outputs=[display(text_plain="✓ Right.")])],
    "cells_have_stable_ids": [lambda: changed(3, id="same")[:4] + changed(4, id="same")[4:]],
}


@pytest.mark.parametrize("rule", RULES)
def test_a_good_notebook_keeps_the_rule(write_lesson, rule):
    assert list(RULES[rule](write_lesson(good_cells()))) == []


@pytest.mark.parametrize(
    ("rule", "cells"),
    [pytest.param(rule, cells, id=f"{rule}-{i}") for rule, broken in BROKEN.items() for i, cells in enumerate(broken)],
)
def test_a_bad_notebook_breaks_the_rule(write_lesson, rule, cells):
    breaches = list(RULES[rule](write_lesson(cells())))
    assert breaches and all(len(breach.split()) > 3 for breach in breaches)


@pytest.mark.case("J03")
def test_stored_widget_state_is_a_breach(write_lesson):
    lesson = write_lesson(good_cells(), metadata={"widgets": {"state": {}}})
    assert "widgets" in next(RULES["no_traces_of_the_machine"](lesson))


@pytest.mark.case("J01")
def test_a_warning_on_stderr_is_found_before_strict_comparison_trips_over_it(write_lesson):
    lesson = write_lesson(changed(3, outputs=[new_output("stream", name="stderr", text="careful\n")]))
    assert "stderr" in next(RULES["no_errors_and_nothing_on_stderr"](lesson))


def test_a_huge_file_is_a_breach(write_lesson):
    lesson = write_lesson(changed(3, source="#" * 3_100_000))
    assert "bytes" in next(RULES["small_enough_to_open"](lesson))


def test_no_rule_is_without_a_breach():
    assert set(BROKEN) | {"small_enough_to_open"} == set(RULES)


def test_exercises_are_found_with_their_parts(write_lesson):
    first, second = exercises_of(write_lesson(good_cells()))
    assert (first.hints, first.checks) == (2, ["check.double(double)"])
    assert first.solution == "def double(x):\n    return x + x\n"
    assert second.title.startswith("### Exercise 2")
