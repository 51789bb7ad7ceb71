"""The checks a learner calls: `from transformer_lab.practice import check`, then `check.attention(my_attention)`.

Every check returns feedback that shows itself, and keeps the result in the learner's progress file. An untouched
stub is "not attempted yet", never an error.

To add one: write the exercise in ``exercises/<topic>.py``, give it a function here and a place in ``EXERCISES``.
"""

from collections.abc import Callable

from transformer_lab.practice import progress
from transformer_lab.practice.checking import FunctionExercise
from transformer_lab.practice.exercises.attention import ATTENTION, MIXED_ROW
from transformer_lab.practice.feedback import Feedback
from transformer_lab.practice.values import ValueExercise

EXERCISES = (ATTENTION, MIXED_ROW)


def attention(my_attention: Callable) -> Feedback:
    """Check `my_attention(query, key, value, mask)`, which returns the output of scaled dot-product attention.

    ``query`` is (batch, heads, query, d_head), ``key`` and ``value`` are (batch, heads, key, d_head). ``mask`` is
    boolean, True = may attend, and fits the scores (batch, heads, query, key) by broadcasting; every query may
    attend to at least one key. The output is (batch, heads, query, d_head).
    """
    return _checked(ATTENTION, my_attention)


def mixed_row(my_row: object) -> Feedback:
    """Check one output row worked out by hand: four numbers, as a list or a tensor.

    The weights are ``HAND_WEIGHTS`` and the value vectors ``HAND_VALUES``, both in ``exercises/attention.py``.
    """
    return _checked(MIXED_ROW, my_row)


def _checked(exercise: FunctionExercise | ValueExercise, answer: object) -> Feedback:
    feedback = exercise.judge(answer)
    if feedback.status == "not attempted":
        return feedback
    return feedback.with_message(progress.record_exercise(exercise.name, feedback.status == "right"))
