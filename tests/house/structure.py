"""The order of a lesson: title, set-up, sections, trap, exercises, interview corner, recap, sources."""
import re
from collections.abc import Iterator

from house.lesson import Lesson, rule

SECTIONS = ["trap", "exercises", "interview corner", "recap", "sources"]
# The opening notebook teaches no subject, and the review's misunderstandings and questions take these places.
EXEMPT = {"00": set(SECTIONS), "14": {"trap", "exercises", "interview corner"}}


@rule
def opens_with_title_minutes_and_needs(lesson: Lesson) -> Iterator[str]:
    titles = [place for place, level, _ in lesson.headings if level == 1]
    if titles != [1]:
        yield f"titles (`# …`) stand in cells {titles}: one title, in the first cell"
    opening = lesson.markdown[0][1].source if lesson.markdown else ""
    if not re.search(r"\b\d+\s*min", opening):
        yield "the first cell does not say how many minutes the lesson takes"
    if not re.search(r"\bneed\b", opening):
        yield "the first cell does not say what the reader needs first"


@rule
def sections_stand_in_the_house_order(lesson: Lesson) -> Iterator[str]:
    wanted = [name for name in SECTIONS if name not in EXEMPT.get(lesson.number, set())]
    places = []
    for name in wanted:
        found = [
            index for index, (_, level, text) in enumerate(lesson.headings) if level == 2 and name in text.lower()
        ]
        if not found:
            yield f"there is no section `## {name.capitalize()}`"
        else:
            places.append(found[-1])
    if places != sorted(places):
        yield f"the sections must stand in this order: {', '.join(wanted)}"


@rule
def sections_are_slides(lesson: Lesson) -> Iterator[str]:
    for place, cell in lesson.markdown:
        if re.match(r"##? ", cell.source) and cell.metadata.get("slideshow", {}).get("slide_type") != "slide":
            yield f'cell {place} opens a section but no slide: its metadata need "slideshow": {{"slide_type": "slide"}}'


@rule
def a_heading_opens_its_cell(lesson: Lesson) -> Iterator[str]:
    """A section heading in the middle of a cell cannot start a slide."""
    for place, prose in lesson.prose:
        if re.search(r"\n##? ", prose):
            yield f"cell {place}: a section heading in the middle of a cell; start a new cell with it"
