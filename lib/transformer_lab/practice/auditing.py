"""Is an exercise able to see every mistake it claims to know? A test asks this of every exercise of the course."""

from itertools import combinations

from transformer_lab.practice import comparing
from transformer_lab.practice.checking import FunctionExercise, outcomes_agree, tells_something
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
