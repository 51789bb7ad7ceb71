"""The question bank: every question of the course, with a reason beside every option.

The questions stand in ``questions.toml``. A choice::

    [[question]]
    id = "attention-scores-shape"       # unique, kept in the learner's progress
    lesson = "02"                       # two digits, the number of the notebook
    use = "predict"                     # where it is asked: predict, interview or review
    kind = "choice"
    prompt = "What shape do the scores have?"     # may carry `code` and *emphasis*
    [[question.option]]
    text = "4 × 4"
    right = true                        # on exactly one option
    why = "Each of the 4 queries meets each of the 4 keys."
    [[question.option]]
    text = "4 × 64"
    why = "That is the shape of Q and K. The components are summed away."

A number::

    [[question]]
    id = "attention-variance"
    lesson = "02"
    use = "predict"
    kind = "number"
    prompt = "…"
    answer = 64
    tolerance = 0.5                     # how far off still counts as right
    unit = ""                           # optional
    explanation = "A sum of 64 independent terms of variance 1."
    [[question.wrong]]
    value = 8
    why = "That is the standard deviation."
    tolerance = 0.1                     # optional; the question's own where it is left out

The reason of a wrong option says why it is wrong and does not contain the right answer: a learner reads it and
tries again. Vary the place of the right option from question to question.
"""

import math
import re
import tomllib
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path

USES = ("predict", "interview", "review")
BANK = Path(__file__).with_name("questions.toml")


class QuestionError(ValueError):
    """A fault in the bank; the message names the question and the field."""


@dataclass(frozen=True)
class Option:
    text: str
    why: str
    right: bool = False


@dataclass(frozen=True)
class Choice:
    """A question with options, exactly one of them right. An answer is the index of an option, from 0."""

    id: str
    lesson: str
    use: str
    prompt: str
    options: tuple[Option, ...]

    @property
    def answer(self) -> int:
        return next(i for i, option in enumerate(self.options) if option.right)

    @property
    def explanation(self) -> str:
        return self.options[self.answer].why

    def is_right(self, answer: int) -> bool:
        return self.options[answer].right

    def why(self, answer: int) -> str:
        """Why this option is right or wrong."""
        return self.options[answer].why

    def text_of(self, answer: int) -> str:
        return self.options[answer].text


@dataclass(frozen=True)
class WrongNumber:
    value: float
    why: str
    tolerance: float | None = None  # the question's own


@dataclass(frozen=True)
class Number:
    """A question with a number as its answer."""

    id: str
    lesson: str
    use: str
    prompt: str
    answer: float
    tolerance: float
    explanation: str
    unit: str = ""
    wrong: tuple[WrongNumber, ...] = ()

    def is_right(self, answer: float) -> bool:
        return _matches(answer, self.answer, self.tolerance)

    def why(self, answer: float) -> str:
        """The explanation, the reason of a known wrong number, or whether the answer is too large or too small."""
        if self.is_right(answer):
            return self.explanation
        for wrong in self.wrong:
            if _matches(answer, wrong.value, self.reach_of(wrong)):
                return wrong.why
        return "That is too large." if answer > self.answer else "That is too small."

    def reach_of(self, wrong: WrongNumber) -> float:
        """How far off still counts as this wrong number."""
        return self.tolerance if wrong.tolerance is None else wrong.tolerance

    def text_of(self, answer: float) -> str:
        figure = f"{answer:,.10g}"
        return f"{figure} {self.unit}".rstrip()


Question = Choice | Number


def _matches(answer: float, value: float, tolerance: float) -> bool:
    # a hair more than the tolerance, so that 0.3 ± 0.1 takes 0.2 and 0.4 as typed
    return abs(answer - value) <= tolerance * (1 + 1e-9) + 1e-12


def get(question_id: str) -> Question:
    """The question of this id. Raises ``QuestionError`` for an unknown one, with the nearest ids."""
    bank = load()
    if question_id in bank:
        return bank[question_id]
    near = get_close_matches(str(question_id), bank, n=3)
    hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
    raise QuestionError(f"There is no question {question_id!r}.{hint}")


def select(lesson: str | None = None, use: str | None = None) -> tuple[Question, ...]:
    """The questions of a lesson, of a use, or of both, in the order of the bank."""
    return tuple(q for q in load().values() if lesson in (None, q.lesson) and use in (None, q.use))


@cache
def load(path: Path = BANK) -> dict[str, Question]:
    """Every question by id, checked. Raises ``QuestionError`` at the first fault."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise QuestionError(f"{path.name} is not valid TOML: {error}") from None
    unknown = data.keys() - {"question"}
    if unknown:
        raise QuestionError(f"{path.name}: unknown top-level {_list(unknown)}; every entry starts with [[question]]")
    bank: dict[str, Question] = {}
    for number, entry in enumerate(_tables(data, "question", path.name), 1):
        question = _question(entry, f"question {number} ({entry.get('id', 'without id')})")
        if question.id in bank:
            raise QuestionError(f"question {number}: the id {question.id!r} is taken")
        bank[question.id] = question
    return bank


def _question(entry: dict, where: str) -> Question:
    shared = {name: _text(entry, name, where) for name in ("id", "lesson", "use", "prompt")}
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", shared["id"]):
        raise QuestionError(f"{where}: an id is lower-case words joined by hyphens")
    if not re.fullmatch(r"\d\d", shared["lesson"]):
        raise QuestionError(f"{where}: `lesson` is two digits such as '02', not {shared['lesson']!r}")
    if shared["use"] not in USES:
        raise QuestionError(f"{where}: `use` is one of {', '.join(USES)}, not {shared['use']!r}")
    kind = _text(entry, "kind", where)
    if kind == "choice":
        return _choice(entry, shared, where)
    if kind == "number":
        return _number(entry, shared, where)
    raise QuestionError(f"{where}: `kind` is choice or number, not {kind!r}")


def _choice(entry: dict, shared: dict[str, str], where: str) -> Choice:
    _known(entry, {*shared, "kind", "option"}, where)
    options = []
    for number, item in enumerate(_tables(entry, "option", where), 1):
        place = f"{where}, option {number}"
        _known(item, {"text", "why", "right"}, place)
        right = item.get("right", False)
        if not isinstance(right, bool):
            raise QuestionError(f"{place}: `right` is true or false, not {right!r}")
        options.append(Option(_text(item, "text", place), _text(item, "why", place), right))
    if len(options) < 2:
        raise QuestionError(f"{where}: a choice needs at least two options")
    if len({option.text.casefold() for option in options}) < len(options):
        raise QuestionError(f"{where}: two options have the same text")
    right = [option for option in options if option.right]
    if len(right) != 1:
        raise QuestionError(f"{where}: exactly one option has `right = true`; here {len(right)} have it")
    for number, option in enumerate(options, 1):
        if not option.right and _contains(option.why, right[0].text):
            raise QuestionError(f"{where}, option {number}: its `why` gives the right answer away")
    return Choice(**shared, options=tuple(options))


def _number(entry: dict, shared: dict[str, str], where: str) -> Number:
    _known(entry, {*shared, "kind", "answer", "tolerance", "unit", "explanation", "wrong"}, where)
    question = Number(
        **shared,
        answer=_figure(entry, "answer", where),
        tolerance=_figure(entry, "tolerance", where),
        explanation=_text(entry, "explanation", where),
        unit=_text(entry, "unit", where) if "unit" in entry else "",
        wrong=tuple(
            _wrong(item, f"{where}, wrong {n}")
            for n, item in enumerate(_tables(entry, "wrong", where) if "wrong" in entry else [], 1)
        ),
    )
    values = [(question.answer, question.tolerance)]
    values += [(wrong.value, question.reach_of(wrong)) for wrong in question.wrong]
    if any(reach < 0 for _, reach in values):
        raise QuestionError(f"{where}: `tolerance` is negative")
    for i, (value, reach) in enumerate(values):
        if any(abs(value - other) <= reach + others_reach for other, others_reach in values[:i]):
            raise QuestionError(f"{where}: {value:g} is too close to another answer to be told from it")
    for number, wrong in enumerate(question.wrong, 1):
        if _contains(wrong.why, f"{question.answer:g}") or _contains(wrong.why, f"{question.answer:,.10g}"):
            raise QuestionError(f"{where}, wrong {number}: its `why` gives the right answer away")
    return question


def _wrong(item: dict, where: str) -> WrongNumber:
    _known(item, {"value", "why", "tolerance"}, where)
    tolerance = _figure(item, "tolerance", where) if "tolerance" in item else None
    return WrongNumber(_figure(item, "value", where), _text(item, "why", where), tolerance)


def _text(entry: dict, name: str, where: str) -> str:
    value = entry.get(name)
    if not isinstance(value, str) or not value.strip():
        state = "missing or empty" if value in (None, "") or isinstance(value, str) else f"not text: {value!r}"
        raise QuestionError(f"{where}: `{name}` is {state}")
    return value.strip()


def _figure(entry: dict, name: str, where: str) -> float:
    value = entry.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise QuestionError(f"{where}: `{name}` must be a number, not {value!r}")
    return value


def _tables(entry: dict, name: str, where: str) -> list[dict]:
    value = entry.get(name)
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        header = name if name == "question" else f"question.{name}"
        raise QuestionError(f"{where}: `{name}` is missing; write every entry as [[{header}]]")
    return value


def _known(entry: dict, names: set[str], where: str) -> None:
    unknown = entry.keys() - names
    if unknown:
        raise QuestionError(f"{where}: unknown {_list(unknown)}; known are {_list(names)}")


def _contains(text: str, answer: str) -> bool:
    """Whether ``answer`` stands in ``text`` as words of its own."""
    return re.search(rf"(?<![\w.,]){re.escape(answer)}(?!\w|[.,]\d)", text, re.IGNORECASE) is not None


def _list(names: set[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))
