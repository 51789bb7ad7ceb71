"""Questions on the page: `ask("id")` to answer until it is right, `predict("id", reveal)` to commit before you see.

    ask("attention-what-is-learned")
    predict("attention-scores-shape", reveal=lambda: f"scores: {tuple(scores.shape)}")

End a cell with one of them. ``reveal`` takes no argument and is called only after the learner has committed; it
returns a sentence, a widget, or something with a ``png`` (bytes). Without a kernel the output still reads as text:
the prompt and the options, never the answer.

For tests: ``choose(index_or_number)``, ``commit()``, ``give_up()``, ``feedback``, ``revealed``.
"""

import base64
import html
import re
import textwrap
from collections.abc import Callable

import ipywidgets

from transformer_lab.practice import progress, questions
from transformer_lab.practice.feedback import panel
from transformer_lab.practice.markup import plain, to_html
from transformer_lab.practice.questions import Choice, Question

# Long options wrap beside their button instead of being cut off; the class keeps the rules to these controls.
_STYLE = """<style>
.tl-options label { display: flex !important; align-items: flex-start; height: auto !important; margin: 2px 0;
  white-space: normal !important; overflow: visible !important; line-height: 1.45 !important; }
.tl-options label input { order: -1; flex: none; float: none !important; margin: 0 0.6em 0 1px !important; }
</style>"""
_COLUMN = "max-width:46em;line-height:1.45"


def ask(question: str | Question) -> "Ask":
    """A question with feedback on every answer, open until it is right or the learner gives up."""
    return Ask(_question(question))


def predict(question: str | Question, reveal: Callable[[], object] | None = None) -> "Predict":
    """A question to commit to; the truth, the explanation and ``reveal()`` appear only afterwards."""
    if reveal is not None and not callable(reveal):
        raise TypeError(f"reveal must be a function without arguments (`lambda: …`); got {type(reveal).__name__}")
    return Predict(_question(question), reveal)


class QuestionWidget(ipywidgets.VBox):
    """What both kinds share: the prompt, the control, the commit button, the feedback, the text fallback."""

    def __init__(self, question: Question) -> None:
        self.question = question
        self.feedback = ""
        self.revealed = False
        self._control = _control(question)
        self._commit = ipywidgets.Button(description="Commit answer", button_style="primary")
        self._commit.on_click(lambda _: self.commit())
        self._said = ipywidgets.HTML(_earlier(question))
        self._buttons = ipywidgets.HBox([self._commit])
        self._extra = ipywidgets.VBox([])
        prompt = ipywidgets.HTML(f'{_STYLE}<div style="{_COLUMN}">{to_html(question.prompt)}</div>')
        super().__init__([prompt, self._control, self._buttons, self._said, self._extra])
        self.add_class("tl-question")

    def choose(self, answer: int | float) -> None:
        """Select an option by its index from 0, or type a number. Nothing is committed."""
        if isinstance(self.question, Choice):
            self._control.index = answer
        else:
            self._control.value = str(answer)

    def commit(self) -> None:
        """Judge what is selected. Anything that goes wrong becomes a sentence: an error in a callback is invisible."""
        self._guarded(self._judge)

    def _guarded(self, step: Callable[[], None]) -> None:
        try:
            step()
        except _NoAnswer as missing:
            self._say("note", str(missing))
        except Exception as error:  # see commit
            self._say("note", f"This did not work: {type(error).__name__}: {error}")

    def _judge(self) -> None:
        if self.revealed:
            return
        answer = _answer(self.question, self._control)
        right = self.question.is_right(answer)
        note = progress.record_answer(self.question.id, answer, right)
        self._react(answer, right, note)

    def _react(self, answer: int | float, right: bool, note: str | None) -> None:
        raise NotImplementedError

    def _close(self) -> None:
        self.revealed = True
        self._control.disabled = True
        for button in self._buttons.children:
            button.disabled = True

    def _say(self, status: str, headline: str, *paragraphs: str | None, word: str | None = None) -> None:
        said = tuple(paragraph for paragraph in paragraphs if paragraph)
        self.feedback = " ".join(plain(part) for part in (headline, *said) if part)
        self._said.value = panel(status, headline, said, word)

    def as_text(self) -> str:
        """The prompt and the options, as a page without a kernel shows them."""
        lines = textwrap.wrap(f"Question: {plain(self.question.prompt)}", 100)
        if isinstance(self.question, Choice):
            for number, option in enumerate(self.question.options):
                letter = chr(ord("A") + number)
                lines += textwrap.wrap(
                    plain(option.text), 100, initial_indent=f"  ○ {letter}. ", subsequent_indent="       "
                )
        else:
            lines.append(f"  Your answer: ____ {self.question.unit}".rstrip())
        return "\n".join(lines)

    def _repr_mimebundle_(self, **kwargs: object) -> dict:
        # the same whatever the learner has answered before, so that a rerun gives the same page
        return {**super()._repr_mimebundle_(**kwargs), "text/plain": self.as_text()}


class Ask(QuestionWidget):
    """Answer, read why, try again. The right answer shows when it is found, or on request after one attempt."""

    def __init__(self, question: Question) -> None:
        super().__init__(question)
        self._surrender = ipywidgets.Button(
            description="Give up and show the answer", disabled=True, layout=ipywidgets.Layout(width="auto")
        )
        self._surrender.on_click(lambda _: self.give_up())
        self._buttons.children = (self._commit, self._surrender)

    def give_up(self) -> None:
        """Show the right answer; possible after the first attempt."""
        self._guarded(self._show_answer)

    def _react(self, answer: int | float, right: bool, note: str | None) -> None:
        if right:
            self._close()
            self._say("right", "", self.question.why(answer), note)
        else:
            self._surrender.disabled = False
            self._say("wrong", self.question.text_of(answer), self.question.why(answer), "Try another answer.", note)

    def _show_answer(self) -> None:
        if self.revealed:
            return
        if self._surrender.disabled:
            raise _NoAnswer("Commit one answer first; even a guess helps you remember.")
        self._close()
        truth = self.question.text_of(self.question.answer)
        self._say("note", truth, self.question.explanation, word="The answer")


class Predict(QuestionWidget):
    """Commit once; then your guess stands beside the truth, with the explanation and what `reveal` gives."""

    def __init__(self, question: Question, reveal: Callable[[], object] | None = None) -> None:
        super().__init__(question)
        self._reveal = reveal

    def _react(self, answer: int | float, right: bool, note: str | None) -> None:
        self._close()
        guess, truth = self.question.text_of(answer), self.question.text_of(self.question.answer)
        both = f"{truth}." if guess == truth else f"Your guess: {guess}. The truth: {truth}."
        reason = None if right else self.question.why(answer)
        word = None if right else "Not this time"
        self._say("right" if right else "wrong", both, reason, self.question.explanation, note, word=word)
        if self._reveal is not None:
            self._extra.children = (_revealed(self._reveal),)


class _NoAnswer(Exception):
    """Nothing to judge yet; the message says what to do."""


def _question(question: str | Question) -> Question:
    if isinstance(question, str):
        return questions.get(question)
    if not isinstance(question, Question):
        example = next(iter(questions.load()))
        raise TypeError(f"question must be the id of a question, such as {example!r}; got {question!r}")
    return question


def _control(question: Question) -> ipywidgets.DOMWidget:
    if isinstance(question, Choice):
        labels = [plain(option.text) for option in question.options]
        options = [(label, i) for i, label in enumerate(labels)]
        layout = ipywidgets.Layout(width="auto", max_width="46em")
        return ipywidgets.RadioButtons(options=options, index=None, layout=layout).add_class("tl-options")
    unit = f" ({question.unit})" if question.unit else ""
    return ipywidgets.Text(
        description=f"Your answer{unit}",
        placeholder="a number",
        style={"description_width": "initial"},
        layout=ipywidgets.Layout(width="22em"),
    )


def _answer(question: Question, control: ipywidgets.DOMWidget) -> int | float:
    if isinstance(question, Choice):
        if control.index is None:
            raise _NoAnswer("Choose one of the options first.")
        return control.index
    return read_number(control.value)


def read_number(text: str) -> float:
    """The number that a learner typed: `1,024`, `1 024`, `0.25`, `1/4`, `2e-5`. Raises a sentence otherwise."""
    compact = re.sub(r"[\s_]", "", text).replace("−", "-")
    if not compact:
        raise _NoAnswer("Type a number first.")
    if "," in compact:
        if not re.fullmatch(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?", compact):
            raise _NoAnswer("Write decimals with a point: 0.5. A comma separates thousands: 1,024.")
        compact = compact.replace(",", "")
    figure = r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d{1,3})?"
    if not re.fullmatch(rf"{figure}(/{figure})?", compact, re.IGNORECASE):
        raise _NoAnswer("That does not read as a number. Write it in digits, such as 12, 0.5, 1/4 or 2e-5.")
    top, _, bottom = compact.partition("/")
    divisor = float(bottom or 1)
    value = float(top) / divisor if divisor else float("inf")
    if abs(value) == float("inf"):
        raise _NoAnswer("That number is infinite. Type a finite one.")
    return value


def _earlier(question: Question) -> str:
    entry = progress.answers().get(question.id)
    if entry is None:
        return ""
    first = "right" if entry["first_right"] else "not right"
    return f"<small>You have answered this before; your first answer was {first}.</small>"


def _revealed(reveal: Callable[[], object]) -> ipywidgets.Widget:
    """What ``reveal`` gives, as a widget; its failure as a sentence."""
    try:
        thing = reveal()
        if isinstance(thing, ipywidgets.Widget):
            return thing
        if isinstance(thing, str):
            return ipywidgets.HTML(f'<div style="{_COLUMN};white-space:pre-line">{to_html(thing)}</div>')
        picture = base64.b64encode(thing.png).decode()
        alt = html.escape(str(getattr(thing, "sentence", "The picture that answers the question")))
        return ipywidgets.HTML(f'<img style="max-width:100%" alt="{alt}" src="data:image/png;base64,{picture}">')
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # an error here would be invisible, and `exit()` would end more than the reveal
        said = f"The reveal could not be shown: {type(error).__name__}: {error}"
        return ipywidgets.HTML(panel("note", said, ()))
