"""Diagrams of the course itself: the map of its lessons and the loop inside each of them."""

from collections.abc import Collection
from dataclasses import dataclass

from matplotlib.figure import Figure

from transformer_lab.draw import style
from transformer_lab.draw.diagrams.sheet import LINE, Box, Sheet


@dataclass(frozen=True)
class Lesson:
    """One notebook: its number, short title, minutes, and the lessons it builds on."""

    number: int
    title: str
    minutes: int
    needs: tuple[int, ...] = ()


LESSONS = (
    Lesson(0, "Start here", 10),
    Lesson(1, "Recurrence", 40, (0,)),
    Lesson(2, "Attention, step by step", 40, (0,)),
    Lesson(3, "Heads", 30, (2,)),
    Lesson(4, "Positions", 50, (2,)),
    Lesson(5, "Masks", 45, (4,)),
    Lesson(6, "The block", 45, (3, 5)),
    Lesson(7, "Cross-attention", 45, (6,)),
    Lesson(8, "Three families", 45, (7,)),
    Lesson(9, "Counting parameters", 40, (6,)),
    Lesson(10, "Generation", 40, (6,)),
    Lesson(11, "What attention costs", 35, (10,)),
    Lesson(12, "Variants", 45, (8, 10)),
    Lesson(13, "Choosing an architecture", 50, (9, 11)),
    Lesson(14, "Review", 40, (13,)),
)

# Where each lesson stands on the map: (column, row).
_PLACES = {
    0: (1, 0),
    1: (0, 1), 2: (1, 1), 4: (2, 1),
    3: (1, 2), 5: (2, 2),
    6: (1, 3),
    7: (0, 4), 10: (1, 4), 9: (2, 4),
    8: (0, 5), 11: (1, 5),
    12: (0, 6), 13: (1, 6), 14: (2, 6),
}  # fmt: skip


def course_map(available: Collection[int]) -> Figure:
    """The lessons, their minutes, and an arrow from each lesson to those that need it.

    `available` holds the numbers of the lessons that exist; the others are drawn pale, dashed, and say "planned".
    Raises ValueError for a number that is not a lesson.
    """
    unknown = sorted(set(available) - {lesson.number for lesson in LESSONS})
    if unknown:
        raise ValueError(f"available holds {unknown}, but the lessons are numbered 0 to {len(LESSONS) - 1}")
    sheet = Sheet(900, 666)
    boxes = {lesson.number: _lesson(sheet, lesson, lesson.number in available) for lesson in LESSONS}
    for lesson in LESSONS:
        for need in lesson.needs:
            ready = lesson.number in available
            colour = style.TEXT if ready else style.MUTED
            sheet.arrow(*_route(boxes, need, lesson), colour=colour, dashed=not ready)
    _legend(sheet, len(set(available)))
    return sheet.figure


def _lesson(sheet: Sheet, lesson: Lesson, ready: bool) -> Box:
    column, row = _PLACES[lesson.number]
    x, y, width, height = 24 + column * 294, 24 + row * 93, 264, 60
    ink = style.TEXT if ready else style.MUTED
    fill = style.tint(style.ACCENT, 0.75) if ready else style.BACKGROUND
    box = sheet.box(x, y, width, height, fill=fill, edge=ink, dashed=not ready)
    sheet.text(x + 27, y + 30, f"{lesson.number:02d}", size=20, colour=ink, bold=True)
    sheet.text(x + 52, y + 20, lesson.title, size=14, colour=ink, ha="left", bold=True)
    minutes = f"{lesson.minutes} min" + ("" if ready else " · planned")
    sheet.text(x + 52, y + 42, minutes, size=14, colour=ink, ha="left")
    return box


def _route(boxes: dict[int, Box], start: int, lesson: Lesson):
    """Points of the arrow from one lesson to another: straight where they are in line, else along the gutters."""
    source, target = boxes[start], boxes[lesson.number]
    if source.x == target.x:
        return source.bottom, target.top
    if source.y == target.y:
        return source.right, target.left
    if (start, lesson.number) == (10, 12):  # down the gutter, past lesson 11
        gutter = source.x - 15
        return source.left, (gutter, source.left[1]), (gutter, target.right[1]), target.right
    taken = any(boxes[need].x == target.x for need in lesson.needs)  # an arrow comes straight down already
    landing = target.at(0.75, 0) if taken else target.top
    turn = target.y - 17
    return source.bottom, (source.bottom[0], turn), (landing[0], turn), landing


def _legend(sheet: Sheet, ready: int) -> None:
    sheet.arrow((28, 44), (76, 44))
    sheet.text(88, 44, "is needed by", size=15, ha="left")
    hours = sum(lesson.minutes for lesson in LESSONS) / 60
    total = f"{len(LESSONS)} lessons, about {hours:.0f} hours"
    sheet.text(614, 44, total, size=15, ha="left")
    if ready < len(LESSONS):
        sheet.text(614, 70, f"{ready} of them ready", size=15, ha="left")


def learning_loop() -> Figure:
    """The four steps of a section: predict, build, look, check, and round again."""
    sheet = Sheet(900, 230)
    steps = (
        ("Predict", "commit to\nan answer"),
        ("Build", "write it in\na few lines"),
        ("Look", "move it and\nwatch"),
        ("Check", "assert it, then\nwrite your own"),
    )
    boxes = []
    for index, (name, words) in enumerate(steps):
        box = sheet.box(24 + index * 224, 28, 180, 122, fill=style.tint(style.ACCENT, 0.75))
        sheet.text(box.centre[0], 56, name, size=22, bold=True)
        sheet.text(box.centre[0], 109, words, size=17)
        boxes.append(box)
    for left, right in zip(boxes, boxes[1:], strict=False):
        sheet.arrow(left.right, right.left)
    first, last = boxes[0], boxes[-1]
    sheet.arrow(last.bottom, (last.bottom[0], 192), (first.bottom[0], 192), first.bottom, width=LINE)
    sheet.box(360, 176, 180, 32, "the next question", edge=style.BACKGROUND, size=17, zorder=5)
    return sheet.figure
