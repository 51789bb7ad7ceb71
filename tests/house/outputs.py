"""What a committed notebook stores: a clean run, nothing of the machine, a picture wherever a reader expects one."""
import base64
import io
import re
from collections.abc import Iterator

from PIL import Image

from house.lesson import Lesson, rule

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
QUESTION = "Question: "  # how the text of a question widget begins
TRAINING = "The progress of the training"  # and that of a bar that lives only while its cell runs
SCREEN_LINES = 45
SCREEN_CHARACTERS = 4_000
LARGEST_FILE = 3_000_000
METADATA = {"kernelspec", "language_info"}
CELL_METADATA = {"slideshow", "tags", "jupyter"}
ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{6,}")


@rule
def executed_in_order(lesson: Lesson) -> Iterator[str]:
    counts = [cell.execution_count for _, cell in lesson.code]
    if counts != list(range(1, len(counts) + 1)):
        yield f"execution counts are {counts}: run .ci/refresh on it, and leave no empty code cell"


@rule
def no_errors_and_nothing_on_stderr(lesson: Lesson) -> Iterator[str]:
    for place, output in lesson.outputs:
        if output.output_type == "error":
            yield f"cell {place} holds the error {output.ename}: {output.evalue}"
        if output.get("name") == "stderr":
            yield f"cell {place} wrote on stderr: {output.text.strip()[:100]!r}; silence its cause, not the stream"


@rule
def no_traces_of_the_machine(lesson: Lesson) -> Iterator[str]:
    extra = set(lesson.notebook.metadata) - METADATA
    if extra:
        yield f"the notebook stores {sorted(extra)} (widget state, timestamps or settings): run .ci/refresh on it"
    if dict(lesson.notebook.metadata.get("language_info", {})) != {"name": "python"}:
        yield "language_info names more than the language: run .ci/refresh on it"
    for place, cell in enumerate(lesson.notebook.cells, start=1):
        extra = set(cell.metadata) - CELL_METADATA
        if extra:
            yield f"cell {place} stores {sorted(extra)}: run .ci/refresh on it"


@rule
def cells_have_stable_ids(lesson: Lesson) -> Iterator[str]:
    ids = [cell.get("id") for cell in lesson.notebook.cells]
    if None in ids or len(set(ids)) < len(ids):
        yield "cells without an id, or two with the same one: save it as nbformat 4.5 with unique ids"


@rule
def small_enough_to_open(lesson: Lesson) -> Iterator[str]:
    size = lesson.path.stat().st_size
    if size > LARGEST_FILE:
        yield f"the file holds {size:,} bytes, more than {LARGEST_FILE:,}: fewer or smaller pictures"


@rule
def widgets_show_a_picture_without_a_kernel(lesson: Lesson) -> Iterator[str]:
    for place, data in lesson.bundles:
        if WIDGET_VIEW not in data or data.get("text/plain", "").startswith((QUESTION, TRAINING)):
            continue
        if "image/png" not in data:
            yield f"cell {place}: a widget with no image/png beside it; show it through Explorer"


@rule
def pictures_have_alt_text(lesson: Lesson) -> Iterator[str]:
    """Only the house's own display gives a picture alt text in JupyterLab; its sentence is also the text/plain."""
    for place, data in lesson.bundles:
        if "image/png" not in data:
            continue
        if WIDGET_VIEW not in data:
            yield f"cell {place}: a bare picture has no alt text; display it with show(picture, result, sentence)"
        elif len(data.get("text/plain", "").split()) < 4:
            yield f"cell {place}: the picture's sentence is {data.get('text/plain')!r}; say what it shows"


@rule
def pictures_are_not_blank(lesson: Lesson) -> Iterator[str]:
    for place, data in lesson.bundles:
        if "image/png" in data:
            picture = Image.open(io.BytesIO(base64.b64decode(data["image/png"]))).convert("RGB")
            colours = picture.getcolors(maxcolors=1_000_000)
            if colours is not None and len(colours) <= 2:
                yield f"cell {place}: the stored picture has {len(colours)} colour(s); it is blank"


@rule
def text_is_the_same_on_every_machine(lesson: Lesson) -> Iterator[str]:
    for place, output in lesson.outputs:
        for text in (output.get("text", ""), output.get("data", {}).get("text/plain", "")):
            found = ADDRESS.search(text)
            if found:
                yield f"cell {place} prints the memory address {found[0]}: give the object a repr, or end with `_ = …`"


@rule
def outputs_fit_a_screen(lesson: Lesson) -> Iterator[str]:
    for place, cell in lesson.code:
        texts = [output.get("text") or output.get("data", {}).get("text/plain", "") for output in cell.outputs]
        lines = sum(text.count("\n") + 1 for text in texts)
        characters = sum(map(len, texts))
        if lines > SCREEN_LINES or characters > SCREEN_CHARACTERS:
            yield f"cell {place} prints {lines} lines, {characters} characters: show less, or a summary of it"
        for output in cell.outputs:
            rows = output.get("data", {}).get("text/html", "").count("<tr")
            if rows > SCREEN_LINES:
                yield f"cell {place} shows a table of {rows} rows: at most {SCREEN_LINES} fit a screen"
