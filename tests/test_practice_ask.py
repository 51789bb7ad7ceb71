"""Question widgets, without a browser: nothing shows before it should, and nothing goes wrong unseen."""

import json

import ipywidgets
import pytest

from transformer_lab.practice import ask as asking
from transformer_lab.practice import progress, questions
from transformer_lab.practice.ask import ask, predict, read_number
from transformer_lab.practice.questions import Choice, Number, Option, WrongNumber

CHOICE = Choice(
    "one",
    "02",
    "predict",
    "Which `tensor` is *right*, <b>x</b>?",
    (Option("The first", "Count again."), Option("<i>second</i>", "By counting.", True), Option("Third", "Too far.")),
)
KNOWN = (WrongNumber(7, "Multiply."),)
NUMBER = Number("two", "02", "predict", "How many?", 12, 0.5, "Three times four.", "heads", KNOWN)


@pytest.fixture(autouse=True)
def own_progress(tmp_path, monkeypatch):
    monkeypatch.setenv("TRANSFORMER_LAB_PROGRESS", str(tmp_path))
    return tmp_path


def everything_shown(widget):
    """All the words a reader of the widget can see, option labels aside."""
    parts = [widget.value] if isinstance(widget, ipywidgets.HTML) else []
    for child in getattr(widget, "children", ()):
        parts.append(everything_shown(child))
    return " ".join(parts)


def button(widget, text):
    return next(b for b in widget._buttons.children if text in b.description)


def test_a_wrong_answer_is_explained_and_may_be_tried_again():
    widget = ask(CHOICE)
    widget.choose(0)
    widget.commit()
    assert "Count again." in widget.feedback and not widget.revealed
    widget.choose(1)
    widget.commit()
    assert "By counting." in widget.feedback and widget.revealed
    assert "✓" in everything_shown(widget) and "Right." in everything_shown(widget)
    assert all(b.disabled for b in widget._buttons.children) and widget._control.disabled


@pytest.mark.parametrize("question", questions.load().values(), ids=lambda q: q.id)
def test_no_wrong_answer_of_the_bank_shows_the_right_one(question):
    if isinstance(question, Choice):
        wrong = [i for i, option in enumerate(question.options) if not option.right]
    else:
        far = 1000 + question.tolerance
        wrong = [w.value for w in question.wrong] + [question.answer + far, question.answer - far]
    truth, explanation = question.text_of(question.answer), question.explanation
    widget = ask(question)
    for answer in wrong:
        widget.choose(answer)
        widget.commit()
        assert question.why(answer).split("`")[0].split("*")[0] in widget.feedback
        assert not questions._contains(widget.feedback, truth) and explanation not in widget.feedback
        assert not widget.revealed
    assert not questions._contains(widget._said.value, truth)  # as words: a style may hold the same figures


def test_giving_up_is_a_labelled_step_after_one_attempt():
    widget = ask(CHOICE)
    surrender = button(widget, "Give up and show the answer")
    assert surrender.disabled
    widget.give_up()
    assert "Commit one answer first" in widget.feedback and not widget.revealed
    widget.choose(2)
    button(widget, "Commit").click()
    assert not surrender.disabled
    surrender.click()
    assert widget.revealed and "By counting." in widget.feedback and "second" in widget.feedback


def test_nothing_selected_and_nothing_typed_are_answered_with_a_sentence():
    for question, sentence in ((CHOICE, "Choose one of the options first."), (NUMBER, "Type a number first.")):
        for widget in (ask(question), predict(question)):
            widget.commit()
            assert widget.feedback == sentence and not widget.revealed
    assert progress.answers() == {}


def test_a_prediction_shuts_the_reveal_until_it_is_committed():
    calls = []
    widget = predict(CHOICE, lambda: calls.append(1) or "the `truth` <b>")
    widget.choose(0)
    assert calls == [] and not widget.revealed
    assert "By counting" not in everything_shown(widget) and "truth" not in everything_shown(widget)
    widget.commit()
    assert calls == [1] and widget.revealed
    shown = everything_shown(widget)
    assert "Your guess: The first. The truth: &lt;i&gt;second&lt;/i&gt;." in shown
    assert "Count again." in shown and "By counting." in shown and "the <code>truth</code> &lt;b&gt;" in shown
    widget.choose(1)
    widget.commit()
    assert calls == [1] and progress.answers()["one"]["tries"] == 1


def test_a_right_prediction_says_so():
    widget = predict(NUMBER)
    widget.choose(12)
    widget.commit()
    assert widget.feedback.count("12 heads") == 1 and "The truth" not in widget.feedback
    assert widget.feedback.count("Three times four.") == 1 and "Right" in widget._said.value


def test_a_reveal_may_be_a_widget_or_a_picture_with_its_sentence():
    inner = ipywidgets.HTML("inside")
    widget = predict(CHOICE, lambda: inner)
    widget.choose(1)
    widget.commit()
    assert widget._extra.children == (inner,)

    class Picture:
        png = b"\x89PNG"
        sentence = 'bars & "lines"'

    widget = predict(CHOICE, lambda: Picture())
    widget.choose(1)
    widget.commit()
    shown = everything_shown(widget)
    assert 'alt="bars &amp; &quot;lines&quot;"' in shown and "data:image/png;base64,iVBORw==" in shown


def leaves():
    raise SystemExit


@pytest.mark.parametrize("reveal", [lambda: 1 / 0, lambda: 3, lambda: None, leaves])
def test_a_failing_reveal_is_said_and_the_truth_still_shows(reveal):
    widget = predict(CHOICE, reveal)
    widget.choose(1)
    widget.commit()
    assert "By counting." in widget.feedback and "The reveal could not be shown: " in everything_shown(widget)


@pytest.mark.parametrize("question", [None, 5, ["one"], CHOICE.options])
def test_what_is_no_question_is_refused_at_once(question):
    for make in (ask, predict):
        with pytest.raises(TypeError, match="question must be the id of a question, such as '.*'; got"):
            make(question)


def test_every_option_stands_in_the_text():
    options = [Option(f"Option {number}", "Because.", number == 11) for number in range(12)]
    text = ask(Choice("many", "02", "predict", "Which?", tuple(options))).as_text()
    assert "○ J. Option 9" in text and text.endswith("○ L. Option 11")


def test_a_reveal_that_is_no_function_is_refused_at_once():
    with pytest.raises(TypeError, match="function without arguments"):
        predict(CHOICE, reveal="text")


def test_an_unexpected_error_in_a_callback_becomes_a_sentence(monkeypatch):
    monkeypatch.setattr(asking.progress, "record_answer", lambda *a: 1 / 0)
    widget = ask(CHOICE)
    widget.choose(1)
    button(widget, "Commit").click()
    assert "ZeroDivisionError" in widget.feedback and "ZeroDivisionError" in widget._said.value


def test_the_first_guess_is_kept_and_later_ones_are_counted():
    for answer in (2, 1, 1):
        widget = ask(CHOICE)
        widget.choose(answer)
        widget.commit()
    entry = progress.answers()["one"]
    assert entry["first_answer"] == 2 and entry["first_right"] is False
    assert entry["tries"] == 3 and entry["right_in_a_row"] == 2


def test_building_a_question_commits_nothing(own_progress):
    ask(CHOICE), predict(NUMBER, lambda: "x")
    assert list(own_progress.iterdir()) == []


def test_the_page_text_is_the_same_before_and_after_answers_and_never_tells():
    fresh = ask(CHOICE)._repr_mimebundle_()
    widget = ask(CHOICE)
    widget.choose(1)
    widget.commit()
    again = ask(CHOICE)
    assert again._repr_mimebundle_()["text/plain"] == widget._repr_mimebundle_()["text/plain"] == fresh["text/plain"]
    assert "answered this before; your first answer was right" in again._said.value and not again.revealed
    assert set(fresh) == {"text/plain", "application/vnd.jupyter.widget-view+json"}
    assert fresh["text/plain"] == (
        "Question: Which tensor is right, <b>x</b>?\n  ○ A. The first\n  ○ B. <i>second</i>\n  ○ C. Third"
    )
    assert "By counting" not in json.dumps(fresh)
    assert predict(NUMBER)._repr_mimebundle_()["text/plain"] == "Question: How many?\n  Your answer: ____ heads"


def test_prompt_and_feedback_are_escaped():
    widget = ask(CHOICE)
    widget.choose(1)
    widget.commit()
    shown = everything_shown(widget)
    assert "<b>" not in shown and "<i>" not in shown
    assert "<code>tensor</code>" in shown and "<em>right</em>" in shown
    number = ask(NUMBER)
    number._control.value = "<img src=x>"
    number.commit()
    assert "<img" not in everything_shown(number) and "does not read as a number" in number.feedback


def test_controls_have_visible_labels():
    assert [label for label, _ in ask(CHOICE)._control.options] == ["The first", "<i>second</i>", "Third"]
    assert ask(NUMBER)._control.description == "Your answer (heads)"
    assert button(ask(NUMBER), "Commit answer")


@pytest.mark.parametrize(
    ("typed", "value"),
    [("12", 12), (" 1,024 ", 1024), ("1 024", 1024), ("6,738,149,376", 6738149376), ("-.5", -0.5), ("−3", -3),
     ("1/4", 0.25), ("2e-5", 2e-5), ("1_000", 1000), ("3.", 3), ("1,000.5", 1000.5)],
)  # fmt: skip
def test_typed_numbers(typed, value):
    assert read_number(typed) == value


@pytest.mark.parametrize(
    ("typed", "sentence"),
    [("", "Type a number"), ("0,5", "with a point"), ("1,00", "with a point"), ("twelve", "in digits"),
     ("nan", "in digits"), ("inf", "in digits"), ("1/0", "infinite"), ("1e999", "infinite"), ("1/2/3", "in digits"),
     ("__import__('os')", "in digits")],
)  # fmt: skip
def test_typed_text_that_is_no_number_is_explained(typed, sentence):
    widget = ask(NUMBER)
    widget._control.value = typed
    widget.commit()
    assert sentence in widget.feedback and not widget.revealed


def test_a_broken_progress_file_does_not_stop_a_question(own_progress):
    (own_progress / "progress.json").write_text("{", encoding="utf-8")
    widget = ask(CHOICE)
    widget.choose(1)
    widget.commit()
    assert widget.revealed and progress.answers()["one"]["first_right"]
