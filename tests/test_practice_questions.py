"""The question bank: its form is checked, and so is what it promises a learner."""

from collections import Counter

import pytest

from transformer_lab.practice import questions
from transformer_lab.practice.questions import Choice, QuestionError, get, load, select

GOOD = """
[[question]]
id = "one"
lesson = "02"
use = "predict"
kind = "choice"
prompt = "Which?"
[[question.option]]
text = "The first"
why = "No: count again."
[[question.option]]
text = "The second"
right = true
why = "Yes, by counting."

[[question]]
id = "two"
lesson = "05"
use = "review"
kind = "number"
prompt = "How many?"
answer = 12
tolerance = 0.5
explanation = "Three times four."
[[question.wrong]]
value = 7
why = "You added; multiply."
"""


@pytest.fixture
def bank(tmp_path):
    def read(text):
        path = tmp_path / "bank.toml"
        path.write_text(text, encoding="utf-8")
        load.cache_clear()
        return load(path)

    yield read
    load.cache_clear()


def test_a_good_bank_is_read(bank):
    one, two = bank(GOOD).values()
    assert one.answer == 1 and one.is_right(1) and not one.is_right(0)
    assert one.why(0) == "No: count again." and one.explanation == "Yes, by counting." and one.text_of(0) == "The first"
    assert two.is_right(12.5) and two.is_right(11.5) and not two.is_right(12.6)
    assert two.why(7.2) == "You added; multiply." and two.why(12) == "Three times four."
    assert two.why(99) == "That is too large." and two.why(-1) == "That is too small."


def test_a_wrong_number_may_have_a_tolerance_of_its_own(bank):
    assert bank(GOOD)["two"].why(7.5) == "You added; multiply."
    narrow = bank(GOOD.replace("value = 7", "value = 7\ntolerance = 0.1"))["two"]
    assert narrow.why(7.1) == "You added; multiply." and narrow.why(7.5) == "That is too small."


FAULTS = [
    ('id = "one"', 'id = ""', "`id` is missing or empty"),
    ('id = "one"', 'id = "One two"', "lower-case words"),
    ('id = "two"', 'id = "one"', "'one' is taken"),
    ('lesson = "02"', "lesson = 2", "`lesson` is not text: 2"),
    ('lesson = "02"', 'lesson = "2"', "two digits"),
    ('use = "predict"', 'use = "quiz"', "predict, interview, review"),
    ('kind = "choice"', 'kind = "open"', "`kind` is choice or number"),
    ('prompt = "Which?"', 'prompt = "  "', "`prompt` is missing or empty"),
    ('prompt = "Which?"', 'prompt = "Which?"\nhint = "x"', "unknown `hint`"),
    ('why = "No: count again."', "", "option 1: `why` is missing"),
    ('why = "No: count again."', 'why = "Not this, but the second."', "gives the right answer away"),
    ("right = true", "", "here 0 have it"),
    ('text = "The first"', 'text = "The first"\nright = true', "here 2 have it"),
    ('text = "The first"', 'text = "The first"\nright = "yes"', "`right` is true or false"),
    ('text = "The first"', 'text = "the SECOND"', "same text"),
    ('text = "The first"', 'text = "The first"\nnote = "x"', "unknown `note`"),
    ("answer = 12", "", "`answer` must be a number, not None"),
    ("answer = 12", "answer = nan", "`answer` must be a number, not nan"),
    ("answer = 12", "answer = true", "`answer` must be a number, not True"),
    ("tolerance = 0.5", "tolerance = -1", "negative"),
    ("tolerance = 0.5", "tolerance = 3", "too close to another answer"),
    ('explanation = "Three times four."', "", "`explanation` is missing"),
    ("value = 7", "value = 12.5", "too close"),
    ("value = 7", "value = 7\ntolerance = 4.6", "too close"),
    ("value = 7", "value = 7\ntolerance = -1", "negative"),
    ('why = "You added; multiply."', 'why = "No, it is 12."', "gives the right answer away"),
    ("[[question.wrong]]", "[question.wrong]", "`wrong` is missing"),
    ('kind = "number"', 'kind = "number"\noption = 3', "unknown `option`"),
    ("[[question]]", "[[questions]]", "unknown top-level `questions`"),
    ("answer = 12", "answer = ", "not valid TOML"),
]


@pytest.mark.parametrize(("before", "after", "message"), FAULTS, ids=[fault[2] for fault in FAULTS])
def test_each_fault_is_refused_and_named(bank, before, after, message):
    assert before in GOOD
    with pytest.raises(QuestionError) as refused:
        bank(GOOD.replace(before, after))
    assert message in str(refused.value)


def test_a_choice_of_one_is_refused(bank):
    alone = GOOD.replace('[[question.option]]\ntext = "The first"\nwhy = "No: count again."\n', "")
    with pytest.raises(QuestionError, match="at least two options"):
        bank(alone)


def test_an_unknown_id_is_answered_with_the_nearest():
    with pytest.raises(QuestionError, match="Did you mean 'attention-scores-shape'"):
        get("attention-score-shape")


def test_select_filters_by_lesson_and_use():
    lesson = select(lesson="02")
    assert len(lesson) >= 8 and {q.lesson for q in lesson} == {"02"}
    assert {q.use for q in lesson} == set(questions.USES)
    assert set(select("02", "predict")) == {q for q in lesson if q.use == "predict"}
    assert select(lesson="99") == ()


# ------------------------------------------------------------------------------------------ the bank of the course


@pytest.mark.parametrize("question", load().values(), ids=lambda q: q.id)
def test_every_question_of_the_course_explains_itself(question):
    if isinstance(question, Choice):
        reasons = [option.why for option in question.options]
        assert 3 <= len(reasons) <= 6
    else:
        reasons = [question.explanation, *(wrong.why for wrong in question.wrong)]
        assert question.wrong, "name at least one wrong number"
    assert len(set(reasons)) == len(reasons)
    assert all(len(reason.split()) >= 6 for reason in reasons)
    assert all(reason.endswith((".", "?", "!")) for reason in reasons)


def test_the_right_option_has_no_favourite_place():
    places = Counter(q.answer for q in load().values() if isinstance(q, Choice))
    assert len(places) >= 3
    assert max(places.values()) <= 0.5 * places.total()


def test_the_right_option_is_not_told_by_its_length():
    choices = [q for q in load().values() if isinstance(q, Choice)]
    longest = sum(max(q.options, key=lambda o: len(o.text)).right for q in choices)
    assert longest <= 0.5 * len(choices), f"the right option is the longest in {longest} of {len(choices)}"
