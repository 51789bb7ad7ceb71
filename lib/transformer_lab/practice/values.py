"""Exercises whose answer is a value: a number worked out by hand, a row of numbers, a length.

    PATH_LENGTH = ValueExercise(
        name="path_length",
        title="From token 1 to token 5.",
        answer=4,
        verified="the number of transitions",
        known=(KnownValue(5, "You count the tokens", "Count the steps *between* them."),),
    )

Compute the answer and the wrong values from the same numbers that the lesson shows, so that they cannot drift apart.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from transformer_lab.practice import comparing, sentences
from transformer_lab.practice.checking import Output
from transformer_lab.practice.feedback import NOTHING_YET, Feedback


@dataclass(frozen=True)
class KnownValue:
    """A wrong value that learners give, its title and one helpful sentence."""

    value: object
    title: str
    message: str


@dataclass(frozen=True)
class ValueExercise:
    """The learner works out a value: a number, or a list of numbers.

    ``known`` holds the wrong values to recognise; each must lie further from ``answer`` than ``tolerance``.
    ``verified`` completes "Checked: …" when the answer is right.
    """

    name: str
    title: str
    answer: object
    verified: str
    known: tuple[KnownValue, ...] = ()
    tolerance: float = 0.005
    output: Output = Output("answer")

    def judge(self, answer: object) -> Feedback:
        """Compare ``answer`` (a number, list, array or tensor) with the right value and the known wrong ones."""
        if _holds(answer, _is_blank):
            return NOTHING_YET
        if callable(answer) and not isinstance(answer, torch.Tensor):
            return Feedback("wrong", "The check needs a value", ("Hand over the numbers, not a function.",))
        expected = as_tensor(self.answer)
        try:
            given = as_tensor(answer)
        except (TypeError, ValueError, RuntimeError, OverflowError):
            return self._not_numbers(answer, expected)
        if given.ndim > expected.ndim and given.squeeze().shape == expected.shape:
            given = given.squeeze()  # brackets around the whole answer are no mistake
        if comparing.same(expected, given, self.tolerance):
            return Feedback("right", self.title, (f"Checked: {self.verified}.",))
        for known in self.known:
            if comparing.same(as_tensor(known.value), given, self.tolerance):
                return Feedback("wrong", known.title, (known.message,))
        if given.shape == expected.shape:
            return Feedback("wrong", f"The {self.output.name} is not right yet", (self._what_is_off(expected, given),))
        title, sentence = comparing.problem(expected, given, self.output.name, self.output.axes, self.tolerance)
        return Feedback("wrong", title, (sentence,))

    def _not_numbers(self, answer: object, expected: torch.Tensor) -> Feedback:
        wanted = f"numbers of shape {comparing.shape_text(expected, self.output.axes)}, every row of the same length"
        wanted = wanted if expected.ndim else "one number"
        if _holds(answer, _is_text):
            return Feedback("wrong", "This is text", (f"Give {wanted}, without quotes.",))
        if _holds(answer, _is_truth):
            return Feedback("wrong", "True and False are no numbers here", (f"Give {wanted}.",))
        return Feedback("wrong", "This does not read as numbers", (f"Give {wanted}, and nothing around it.",))

    def _what_is_off(self, expected: torch.Tensor, given: torch.Tensor) -> str:
        """Which numbers are off. The right ones stay unsaid, because the learner is working them out."""
        numbers = list(zip(given.flatten(), expected.flatten(), strict=True))
        off = [i for i, (mine, right) in enumerate(numbers) if not comparing.same(right, mine, self.tolerance)]
        yours = sentences.join([comparing.figure(float(numbers[i][0])) for i in off])
        if len(numbers) == 1:
            return f"You have {yours}. Work it out once more."
        places = sentences.join([str(i + 1) for i in off])
        rest = "The others are right." if len(off) < len(numbers) else "None is right yet."
        return f"Counting from 1, number {places} of {len(numbers)} is off: you have {yours}. {rest}"


def as_tensor(value: object) -> torch.Tensor:
    """Numbers in any of their usual wrappings, in double precision; True and False are none."""
    if _holds(value, _is_truth):
        raise TypeError("not plain numbers")
    if isinstance(value, torch.Tensor):
        if value.is_complex() or value.is_nested or value.layout != torch.strided:
            raise TypeError("not plain numbers")
        return value.detach().to("cpu", torch.float64)
    return torch.as_tensor(value, dtype=torch.float64)


def _holds(answer: object, test: Callable[[object], bool]) -> bool:
    """Whether ``test`` is true of the answer, or of anything in its lists."""
    if isinstance(answer, list | tuple):
        return any(_holds(item, test) for item in answer)
    return test(answer)


def _is_blank(item: object) -> bool:
    return item is None or item is ...


def _is_text(item: object) -> bool:
    return isinstance(item, str)


def _is_truth(item: object) -> bool:
    """Whether this is True or False, or a mask: torch would read them as 1 and 0."""
    return isinstance(item, bool) or str(getattr(item, "dtype", "")) in ("bool", "torch.bool")
