"""The engine behind `check`: compare an answer with a reference, and recognise the mistake that was made.

This is for exercises in which the learner writes a function; ``values.py`` is for those with a value as the answer.

To add one, write its reference with one keyword per thing that can go wrong, neutral by default, and describe
every wrong setting of a keyword as a ``Mistake``::

    def row_sums(x, *, over="columns", divided=False):
        total = x.sum(-2 if over == "rows" else -1)
        return total / x.shape[-1] if divided else total

    ROW_SUMS = FunctionExercise(
        name="row_sums",
        title="sum every row",
        reference=row_sums,
        cases=lambda: (Case("a square input", {"x": seeded(4, 4)}), Case("a wide input", {"x": seeded(3, 5)})),
        outputs=(Output("result", ("row",)),),
        mistakes=(
            Mistake({"over": "rows"}, "The sum runs down the columns", "Each row needs one number: sum axis -1."),
            Mistake({"divided": True}, "This is the mean", "Leave out the division."),
        ),
    )

The engine then recognises each mistake and each pair of them, by running the reference with those settings
beside the learner's function. ``auditing.weak_points`` says where the cases are too easy to tell a mistake from
the right answer; a test holds it empty for every exercise. Last, give the exercise a function in ``check.py``.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import torch

from transformer_lab.practice import comparing, gradients, running, sentences
from transformer_lab.practice.feedback import NOTHING_YET, Feedback
from transformer_lab.practice.running import Raised


@dataclass(frozen=True)
class Case:
    """One input: ``label`` says what is special about it ("one head"), ``inputs`` names the arguments in order."""

    label: str
    inputs: dict[str, object]


@dataclass(frozen=True)
class Output:
    """The name and axes of one output; ``axes`` names places in feedback ("batch 0, query 2")."""

    name: str = "output"
    axes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Mistake:
    """A known mistake: the keyword settings of the reference that reproduce it, its title and one helpful sentence."""

    settings: dict[str, object]
    title: str
    message: str


@dataclass(frozen=True)
class FunctionExercise:
    """The learner writes a function.

    Args:
        name: the name in `check` and in the progress file.
        title: the task in a few words.
        reference: takes the inputs of a case in order, and keyword settings that reproduce mistakes.
        cases: builds the inputs; called once, when first needed. Every draw in it is seeded.
        outputs: one entry for a tensor or number, several for a tuple.
        mistakes: all that are recognised, alone and in pairs.
        spellings: settings that change no right answer but change what a mistake looks like (a mask filled with
            −∞ or with −1e9); each mistake is tried in each spelling.
        differentiable: the inputs whose gradients must be right.
        tolerance: absolute and relative, for floats.
    """

    name: str
    title: str
    reference: Callable
    cases: Callable[[], tuple[Case, ...]]
    outputs: tuple[Output, ...] = (Output(),)
    mistakes: tuple[Mistake, ...] = ()
    spellings: tuple[dict[str, object], ...] = ({},)
    differentiable: tuple[str, ...] = ()
    tolerance: float = 1e-5

    @cached_property
    @running.own_settings()
    def built_cases(self) -> tuple[Case, ...]:
        return self.cases()

    @cached_property
    @running.own_settings()
    def expected(self) -> tuple[object, ...]:
        return tuple(self.reference(*running.copies(case.inputs).values()) for case in self.built_cases)

    @cached_property
    @running.own_settings()
    def expected_gradients(self) -> tuple[gradients.Gradients, ...]:
        return tuple(gradients.of(self.reference, case.inputs, self.differentiable) for case in self.built_cases)

    @running.own_settings()
    def judge(self, answer: object) -> Feedback:
        """Run ``answer`` on every case and say what was found. Raises nothing that the learner's code raises."""
        if answer is None or answer is ... or (callable(answer) and running.is_stub(answer)):
            return NOTHING_YET
        names = tuple(self.built_cases[0].inputs)
        if not callable(answer):
            call = f"`check.{self.name}(my_function)`, without brackets after its name"
            return Feedback("wrong", "The check needs your function", (f"Hand over the function itself: {call}.",))
        mismatch = running.parameter_problem(answer, names)
        if mismatch:
            return Feedback("wrong", f"The parameters of {running.name_of(answer)} do not fit", (mismatch,))

        runs = [running.run(answer, case.inputs) for case in self.built_cases]
        given = [value for value, _ in runs]
        changed = tuple(dict.fromkeys(name for _, names_changed in runs for name in names_changed))
        if any(map(sentences.is_unfinished, given)):
            return sentences.unfinished(given)
        feedback = self._first_problem(answer, given)
        if feedback is not None:
            return (self._recognise(given) or feedback).with_message(sentences.changed(changed))
        if changed:
            return Feedback("wrong", "The numbers are right, but an input was changed", (sentences.changed(changed),))
        return self._gradient_problem(answer) or Feedback("right", self.title, (self._verified(),))

    def candidates(self) -> Iterator[tuple[Mistake, ...]]:
        """Every mistake alone, then every pair that can be made together."""
        for mistake in self.mistakes:
            yield (mistake,)
        for first, second in combinations(self.mistakes, 2):
            if not first.settings.keys() & second.settings.keys():
                yield first, second

    def outcome(self, mistakes: tuple[Mistake, ...], spelling: dict[str, object], case: Case) -> object:
        """What the reference gives on ``case`` with these mistakes built in; ``Raised`` where it cannot run."""
        settings = dict(spelling)
        for mistake in mistakes:
            settings |= mistake.settings
        try:
            return self.reference(*running.copies(case.inputs).values(), **settings)
        except Exception as error:  # a mistake may make shapes clash, as it does for the learner
            return Raised(error, "")

    def _recognise(self, given: list[object]) -> Feedback | None:
        # Many pairs of mistakes end in nothing but NaN, so NaN alone does not tell which pair it was.
        candidates = self.candidates() if tells_something(given) else ((mistake,) for mistake in self.mistakes)
        for mistakes in candidates:
            if any(self._reproduces(mistakes, spelling, given) for spelling in self.spellings):
                if len(mistakes) == 1:
                    return Feedback("wrong", mistakes[0].title, (mistakes[0].message,))
                messages = tuple(f"{mistake.title}. {mistake.message}" for mistake in mistakes)
                return Feedback("wrong", "Two things to repair", messages)
        return None

    def _reproduces(self, mistakes: tuple[Mistake, ...], spelling: dict[str, object], given: list[object]) -> bool:
        # Two answers that never run are alike only if they clash in the same way; one that runs shows what it does.
        never_runs = all(isinstance(value, Raised) for value in given)
        for case, value in zip(self.built_cases, given, strict=True):
            outcome = self.outcome(mistakes, spelling, case)
            if not outcomes_agree(outcome, value, self.tolerance):
                return False
            if never_runs and not running.same_error(outcome, value):
                return False
        return True

    def _first_problem(self, answer: Callable, given: list[object]) -> Feedback | None:
        for number, (case, expected, value) in enumerate(zip(self.built_cases, self.expected, given, strict=True), 1):
            if isinstance(value, Raised):
                return sentences.raised(answer, value, case.inputs)
            found = self._problem(expected, value)
            if found is not None:
                title, sentence = found
                where = f"This was input {number} of {len(given)} ({case.label}): {running.inputs_text(case.inputs)}."
                return Feedback("wrong", title, (sentence, where))
        return None

    def _problem(self, expected: object, value: object) -> comparing.Problem | None:
        if not isinstance(expected, tuple):
            output = self.outputs[0]
            if isinstance(value, tuple) and isinstance(expected, torch.Tensor):
                return (
                    f"You return {len(value)} things",
                    f"The check wants the {output.name} alone; `return a, b` makes a tuple.",
                )
            return comparing.problem(expected, value, output.name, output.axes, self.tolerance)
        names = ", ".join(output.name for output in self.outputs)
        if not isinstance(value, tuple | list) or len(value) != len(expected):
            code = f"`return {', '.join(output.name.replace(' ', '_') for output in self.outputs)}`"
            return f"The check wants {len(expected)} things: {names}", f"Return them in this order: {code}."
        for output, wanted, got in zip(self.outputs, expected, value, strict=True):
            found = comparing.problem(wanted, got, output.name, output.axes, self.tolerance)
            if found is not None:
                return found
        return None

    def _gradient_problem(self, answer: Callable) -> Feedback | None:
        if not self.differentiable:
            return None
        cases = [(case.label, case.inputs) for case in self.built_cases]
        return gradients.problem(answer, cases, self.expected_gradients, self.differentiable)

    def _verified(self) -> str:
        labels = [case.label for case in self.built_cases]
        gradients = f"; gradients reach {sentences.join(list(self.differentiable))}" if self.differentiable else ""
        return f"Checked on {len(labels)} inputs: {sentences.join(labels)}. Your inputs stay unchanged{gradients}."


def outcomes_agree(first: object, second: object, tolerance: float) -> bool:
    """Whether two runs gave the same: both an error, or both the same answer."""
    if isinstance(first, Raised) or isinstance(second, Raised):
        return isinstance(first, Raised) and isinstance(second, Raised)
    return comparing.same(first, second, tolerance)


def tells_something(results: Sequence[object]) -> bool:
    """Whether the results hold any number, or are all errors; NaN alone shows nothing of how it came about."""
    ran = [result for result in results if not isinstance(result, Raised)]
    return not ran or not all(map(comparing.only_nan, ran))


def seeded(*shape: int, seed: int = 0) -> torch.Tensor:
    """A normal draw of its own seed, for building cases."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
