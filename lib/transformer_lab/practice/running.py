"""Run a learner's function safely: on copies, its errors caught with their line, untouched stubs noticed."""

import copy
import dis
import inspect
import linecache
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType

import numpy
import torch

from transformer_lab.practice.comparing import shape_text

# What is left in the bytecode of a body that only passes, returns a constant or names a `...`.
_IDLE = {
    "RESUME", "NOP", "CACHE", "COPY_FREE_VARS", "POP_TOP", "RETURN_VALUE", "RETURN_CONST",
    "LOAD_CONST", "LOAD_FAST", "LOAD_FAST_BORROW", "STORE_FAST", "STORE_FAST_LOAD_FAST", "STORE_FAST_STORE_FAST",
}  # fmt: skip


@dataclass(frozen=True)
class Raised:
    """An error that came out of a function instead of an answer."""

    error: BaseException
    line: str  # "line 2 of my_attention: `scores = query @ key`", or empty when it is not known


class EndlessError(RuntimeError):
    """Raised where a learner's loop calls a function of its inputs without end."""


@dataclass
class Limited:
    """A function among the inputs that refuses to be called more than ``limit`` times in one run.

    For every exercise in which a loop ends by what such a function returns: a loop that does not end would hold up
    the notebook. Each run has its own count, because inputs are copied for it.
    """

    function: Callable
    limit: int
    calls: int = 0

    def __call__(self, *arguments: object) -> object:
        self.calls += 1
        if self.calls > self.limit:
            raise EndlessError(f"called {self.limit} times, and still no end")
        return self.function(*arguments)


def same_error(first: Raised, second: Raised) -> bool:
    """Whether two errors have one type and the same words: `a < b` and `b > a` clash with their sizes swapped."""
    words = [sorted(message_of(what.error).split()) for what in (first, second)]
    return type(first.error) is type(second.error) and words[0] == words[1]


def run(function: Callable, inputs: dict[str, object]) -> tuple[object, tuple[str, ...]]:
    """Call ``function`` on copies of ``inputs``, in order: its answer (or ``Raised``), and the inputs it changed."""
    given = copies(inputs)
    answer = attempt(function, lambda: function(*given.values()))
    changed = tuple(name for name in inputs if not _unchanged(inputs[name], given[name]))
    if any(answer is value for value in given.values()):
        answer = _copy(answer)
    return answer, changed


def attempt(function: Callable, step: Callable[[], object]) -> object:
    """What ``step`` gives, which calls ``function``; ``Raised``, with the line in ``function``, where it raises."""
    try:
        with own_settings():
            return step()
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # whatever the learner's code raises becomes a sentence, `exit()` too
        return Raised(error, _line_of(function, error))


@contextmanager
def own_settings() -> Iterator[None]:
    """Gradients on and float32 by default inside, whatever the notebook has set; put back what the code inside sets."""
    dtype = torch.get_default_dtype()
    states = torch.get_rng_state(), random.getstate(), numpy.random.get_state()
    try:
        with torch.inference_mode(False), torch.enable_grad():  # both go back by themselves
            torch.set_default_dtype(torch.float32)
            yield
    finally:
        torch.set_default_dtype(dtype)
        for restore, state in zip((torch.set_rng_state, random.setstate, numpy.random.set_state), states, strict=True):
            restore(state)


def message_of(error: BaseException) -> str:
    """The words of an error; empty when it cannot even say them."""
    try:
        return str(error)
    except Exception:  # a learner's class may fail at this too
        return ""


def copies(inputs: dict[str, object]) -> dict[str, object]:
    """Inputs of their own for one run; a generator starts where the original stands."""
    return {name: _copy(value) for name, value in inputs.items()}


def is_stub(function: Callable) -> bool:
    """Whether the body still does nothing: `...`, `pass`, `return None`, or names that are bound to `...`.

    A function that has only its arguments to give back (the identity) is an answer, not a stub.
    """
    code = code_of(function)
    if code is None:
        return False
    instructions = list(dis.get_instructions(code))
    if any(i.opname not in _IDLE for i in instructions):
        return False
    constants = [i.argval for i in instructions if i.opname in ("LOAD_CONST", "RETURN_CONST")]
    return all(value is None or value is ... for value in constants) and bool(constants)


def parameter_problem(function: Callable, names: tuple[str, ...]) -> str | None:
    """A sentence when ``function`` cannot be called with ``names`` in this order, else None."""
    try:
        signature = inspect.signature(function)
    except Exception:  # some built-in functions tell nothing about themselves, and odd objects fail when asked
        return None
    try:
        signature.bind(*names)
    except TypeError:
        gives = ", ".join(f"`{name}`" for name in names)
        named = [p.name for p in signature.parameters.values() if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
        if named:
            only = ", ".join(f"`{name}`" for name in named)
            return f"It takes {only} by name only; the check gives {len(names)} without names: {gives}. Drop the `*`."
        takes = ", ".join(f"`{name}`" for name in signature.parameters) or "no arguments"
        return f"It takes {takes}; the check gives it {len(names)}: {gives}."
    return None


def name_of(function: Callable, start: str = "your") -> str:
    """The name the learner gave the function, or "your function"; ``start`` may begin a sentence."""
    try:
        name = function.__name__
    except Exception:  # an object that is called has no name, or fails to tell it
        name = None
    return f"`{name}`" if isinstance(name, str) and name not in ("", "<lambda>") else f"{start} function"


def inputs_text(inputs: dict[str, object]) -> str:
    """``query (2, 3, 5, 4), length 7``: the shapes and small values a function was given."""
    return ", ".join(
        f"{name} {shape_text(value)}" if isinstance(value, torch.Tensor)
        else f"{name} {value!r}" if isinstance(value, bool | int | float | str | list | tuple | None)
        else name
        for name, value in inputs.items()
    )  # fmt: skip


def _copy(value: object) -> object:
    if isinstance(value, torch.Generator):
        return value.clone_state()
    return copy.deepcopy(value)


def _unchanged(before: object, after: object) -> bool:
    if isinstance(before, torch.Tensor):
        if before.shape != after.shape or before.dtype != after.dtype:
            return False
        return bool(torch.isclose(before.detach(), after.detach(), rtol=0, atol=0, equal_nan=True).all())
    if isinstance(before, torch.nn.Module):
        return _unchanged(before.state_dict(), after.state_dict())
    if isinstance(before, dict):
        return before.keys() == after.keys() and all(_unchanged(before[k], after[k]) for k in before)
    if isinstance(before, list | tuple):
        return len(before) == len(after) and all(map(_unchanged, before, after))
    if isinstance(before, int | float | str):
        return before == after
    return True  # functions and generators: nothing to compare


def code_of(function: Callable) -> CodeType | None:
    """The code of a Python function, also of one inside wrappers; None where there is none."""
    try:
        return getattr(inspect.unwrap(function), "__code__", None)
    except Exception:  # a chain of `__wrapped__` without an end, or an object that fails when asked
        return None


def _line_of(function: Callable, error: BaseException) -> str:
    code, line = code_of(function), None
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code is code:
            line = trace.tb_lineno
        trace = trace.tb_next
    if code is None or line is None:
        return ""
    source = linecache.getline(code.co_filename, line).strip()
    return f"line {line - code.co_firstlineno + 1} of {name_of(function)}" + (f": `{source}`" if source else "")
