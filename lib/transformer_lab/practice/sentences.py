"""The engine's own sentences: what it says when no known mistake explains an answer."""

import dis
import re
from collections.abc import Callable, Sequence

from transformer_lab.practice import running
from transformer_lab.practice.feedback import Feedback
from transformer_lab.practice.running import Raised

# torch raises NotImplementedError too, where an operation does not exist for a dtype.
_NO_KERNEL = re.compile(r"""["'](\w+)["'] not implemented for""")


def is_unfinished(value: object) -> bool:
    """Whether a `...` of the stub came back from a function, or was stumbled over inside it."""
    if isinstance(value, tuple):
        return any(map(is_unfinished, value))
    if isinstance(value, Raised):
        text = running.message_of(value.error)
        missing = isinstance(value.error, NotImplementedError) and not _NO_KERNEL.search(text)
        return missing or "ellipsis" in text.lower()
    return value is ...


def unfinished(given: Sequence[object]) -> Feedback:
    """Some of the stub is still there. Not a mistake: the learner is on the way."""
    lines = [value.line for value in given if isinstance(value, Raised) and value.line]
    where = f" It is needed in {lines[0]}." if lines else ""
    return Feedback("not attempted", "", (f"A part of the function is still waiting for your code.{where}",))


def raised(function: Callable, what: Raised, inputs: dict[str, object]) -> Feedback:
    """An error of the learner's own code: type, message and line, and the shapes it was given."""
    where = f", in {what.line}" if what.line else ""
    given = f"The input was: {running.inputs_text(inputs)}."
    if isinstance(what.error, running.EndlessError):
        advice = (
            "Leave the loop after as many steps as the task allows, whatever comes out of them. Look also whether what "
            "the loop tests ever changes."
        )
        title = f"The loop in {running.name_of(function)} does not end"
        return Feedback("wrong", title, (f"Stopped after many calls{where}. {advice}", given))
    hint = _hint(function, what.error)
    return Feedback(
        "wrong",
        f"{running.name_of(function, start='Your')} raises {type(what.error).__name__}",
        (f"It says: {_first_line(what.error)}{where}.", *hint, given),
    )


def raised_backward(function: Callable, what: Raised, inputs: dict[str, object]) -> Feedback:
    """An error that comes only when gradients are asked for; without them, the numbers were right."""
    text = running.message_of(what.error)
    where = f" It is in {what.line}." if what.line else ""
    if "modified by an inplace operation" in text or "used in an in-place operation" in text:
        advice = (
            "A step in place, such as `x += …`, `x /= …` or `x[…] = …`, overwrites numbers that the gradient still "
            "needs. Make a new tensor instead: `x = x + …`."
        )
    elif "requires grad" in text and "numpy" in text:
        advice = "No gradient passes through numpy. Stay in torch from input to output."
    else:
        said = f"Asking {running.name_of(function)} for gradients raises {type(what.error).__name__}"
        advice = f"{said}: {_first_line(what.error)}."
    given = f"The input was: {running.inputs_text(inputs)}."
    return Feedback("wrong", "The numbers are right, but the backward pass fails", (advice + where, given))


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


def _hint(function: Callable, error: BaseException) -> tuple[str, ...]:
    """What to do about an error of torch whose own words do not say it."""
    text = running.message_of(error)
    if "Boolean value of Tensor" in text:
        return (
            "`if`, `and` and Python's own `max` want a single True or False, and a tensor holds many. Number by "
            "number: `torch.relu(x)` or `x.clamp(min=0)` for `max(0, x)`, `torch.where` for `if`, `&` for `and`.",
        )
    if (kernel := _NO_KERNEL.search(text)) and "bitwise" in kernel[1]:
        return ("`&` and `|` bind more tightly than `<` and `==`: put each comparison in brackets, `(a < b) & ~c`.",)
    if kernel:
        return ("This operation does not exist for the dtype it was given: `.float()` makes numbers it can work with.",)
    if re.search(r"size of tensor a .* must match the size of tensor b", text) and _drops_an_axis(function):
        return (
            "Does one side come from a `mean`, `sum` or `var`? It drops its axis, and the rest lines up with the wrong "
            "one. `keepdim=True` keeps the axis with size 1.",
        )
    return ()


def _drops_an_axis(function: Callable) -> bool:
    """Whether the code reduces a tensor and nowhere keeps the axis."""
    code = running.code_of(function)
    if code is None:
        return False
    names = {i.argval for i in dis.get_instructions(code) if i.opname in ("LOAD_METHOD", "LOAD_ATTR")}
    kept = any(isinstance(value, tuple) and "keepdim" in value for value in code.co_consts) or "unsqueeze" in names
    return not kept and bool(names & {"mean", "sum", "var", "std", "amax", "norm"})


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
