"""The engine's own sentences: what it says when no known mistake explains an answer."""

from collections.abc import Callable, Sequence

from transformer_lab.practice import running
from transformer_lab.practice.feedback import Feedback
from transformer_lab.practice.running import Raised


def is_unfinished(value: object) -> bool:
    """Whether a `...` of the stub came back from a function, or was stumbled over inside it."""
    if isinstance(value, tuple):
        return any(map(is_unfinished, value))
    if isinstance(value, Raised):
        return isinstance(value.error, NotImplementedError) or "ellipsis" in running.message_of(value.error).lower()
    return value is ...


def unfinished(given: Sequence[object]) -> Feedback:
    """Some of the stub is still there. Not a mistake: the learner is on the way."""
    lines = [value.line for value in given if isinstance(value, Raised) and value.line]
    where = f" It is needed in {lines[0]}." if lines else ""
    return Feedback("not attempted", "", (f"A part of the function is still waiting for your code.{where}",))


def raised(function: Callable, what: Raised, inputs: dict[str, object]) -> Feedback:
    """An error of the learner's own code: type, message and line, and the shapes it was given."""
    text = _first_line(what.error)
    where = f", in {what.line}" if what.line else ""
    return Feedback(
        "wrong",
        f"{running.name_of(function, start='Your')} raises {type(what.error).__name__}",
        (f"It says: {text}{where}.", f"The input was: {running.inputs_text(inputs)}."),
    )


def not_judged(name: str, error: BaseException) -> Feedback:
    """The check itself has failed: with an answer of a kind that nobody thought of."""
    return Feedback(
        "wrong",
        "The check cannot read this answer",
        (
            f"Comparing it with the right one raises {type(error).__name__}: {_first_line(error)}.",
            f"Give plain tensors and numbers, nothing wrapped or nested; `help(check.{name})` says which.",
        ),
    )


def _first_line(error: BaseException) -> str:
    return (running.message_of(error).strip().splitlines() or ["no message"])[0][:200].rstrip(".")


def changed(names: Sequence[str]) -> str | None:
    """What to do about inputs that the learner's function has written into; None when there are none."""
    if not names:
        return None
    return (
        f"Your function writes into its input {join(names)}. Make a new tensor instead: `x = x + 1` rather than "
        "`x += 1`, `masked_fill` rather than `masked_fill_`."
    )


def join(names: Sequence[str]) -> str:
    """The names as a phrase: a, b and c."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
