"""Is an exercise able to see every mistake it claims to know, and every input? Tests ask this of every exercise."""

from collections.abc import Callable
from itertools import combinations, product

import torch

from transformer_lab.practice import comparing
from transformer_lab.practice.checking import Case, FunctionExercise, outcomes_agree, tells_something
from transformer_lab.practice.running import Raised
from transformer_lab.practice.values import ValueExercise, as_tensor


def weak_points(exercise: FunctionExercise | ValueExercise) -> list[str]:
    """Where an exercise would let a mistake pass or take one mistake for another; empty for a sound exercise."""
    if isinstance(exercise, ValueExercise):
        values = [("the answer", exercise.answer)] + [(known.title, known.value) for known in exercise.known]
        return [
            f"{a} and {b} are the same value"
            for (a, first), (b, second) in combinations(values, 2)
            if comparing.same(as_tensor(first), as_tensor(second), 2 * exercise.tolerance)
        ]
    found = []
    outcomes = {}
    only_nan = set()  # one mistake may be known by giving nothing but NaN, but no pair can be
    for mistakes in exercise.candidates():
        title = " + ".join(mistake.title for mistake in mistakes)
        runs = tells = False
        for spelling in exercise.spellings:
            results = [exercise.outcome(mistakes, spelling, case) for case in exercise.built_cases]
            runs |= not all(isinstance(result, Raised) for result in results)
            tells |= tells_something(results)
            if all(map(outcomes_agree, exercise.expected, results, [exercise.tolerance] * len(results))):
                found.append(f"{title}: equals the right answer on every case")
            if len(mistakes) == 1:
                outcomes.setdefault(title, []).append(results)
        if not tells and len(mistakes) == 1:
            only_nan.add(title)
        elif not tells and not any(mistake.title in only_nan for mistake in mistakes):
            found.append(f"{title}: gives nothing but NaN on every case")
        if not runs:
            found.append(f"{title}: no case lets it run, so it is known by its error alone")
    for (a, firsts), (b, seconds) in combinations(outcomes.items(), 2):
        if any(all(map(outcomes_agree, x, y, [exercise.tolerance] * len(x))) for x in firsts for y in seconds):
            found.append(f"{a} and {b}: the cases cannot tell them apart")
    return found


_MOVES: dict[str, Callable[[torch.Tensor, int], torch.Tensor]] = {
    "reversed": lambda value, axis: value.flip(axis),
    "moved on by one": lambda value, axis: value.roll(1, axis),
    "sorted": lambda value, axis: value.sort(axis).values,
}


def unseen_inputs(exercise: FunctionExercise) -> list[str]:
    """What an answer may get wrong about its inputs and still pass; empty for a sound exercise.

    A number that is the same in all cases can be written into the answer, and a function among the inputs need not be
    called if that of another case does as well. A tensor whose entries may change places can be read in any order.
    """
    found = []
    for name, value in exercise.built_cases[0].inputs.items():
        values = [case.inputs[name] for case in exercise.built_cases]
        if isinstance(value, torch.Tensor):
            for axis, (order, move) in product(range(max(each.ndim for each in values)), _MOVES.items()):
                moved = [move(each, axis) if axis < each.ndim else each for each in values]
                if not any(_changes(exercise, number, name, other) for number, other in enumerate(moved)):
                    found.append(f"{name}: {order} along axis {axis} changes no answer")
        elif callable(value):
            if not any(_changes(exercise, i, name, values[j]) for i, j in combinations(range(len(values)), 2)):
                found.append(f"{name}: the function of one case does for all")
        elif all(each == value for each in values):
            found.append(f"{name}: always {value!r}")
    return found


def _changes(exercise: FunctionExercise, number: int, name: str, other: object) -> bool:
    case = exercise.built_cases[number]
    outcome = exercise.outcome((), {}, Case(case.label, case.inputs | {name: other}))
    return not outcomes_agree(exercise.expected[number], outcome, exercise.tolerance)
