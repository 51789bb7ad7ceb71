"""Wrong answers as learners write them, by exercise: ``{exercise: {mistake: (words of its title, changed steps)}}``."""

from collections.abc import Iterable
from itertools import combinations

from transformer_lab.practice.feedback import Feedback

Wrong = dict[str, dict[str, tuple[str, dict]]]


def each_mistake(wrong: Wrong) -> list[tuple[str, str]]:
    """(exercise, mistake) of every wrong answer."""
    return [(name, mistake) for name, mistakes in wrong.items() for mistake in mistakes]


def pairs_of_mistakes(wrong: Wrong, names: Iterable[str]) -> list[tuple[str, str, str]]:
    """Two mistakes in different steps; those that replace the same step cannot both be made."""
    return [
        (name, a, b)
        for name in names
        for a, b in combinations(wrong[name], 2)
        if not wrong[name][a][1].keys() & wrong[name][b][1].keys()
    ]


def assert_named(feedback: Feedback, title: str) -> None:
    """The check refused the answer and its title holds these words."""
    assert feedback.status == "wrong"
    assert title in feedback.title, feedback


def assert_says(feedback: Feedback, *words: str) -> None:
    """The check refused the answer, and title and messages together hold all these words."""
    assert feedback.status == "wrong"
    said = feedback.title + " ".join(feedback.messages)
    assert all(each in said for each in words), feedback


def assert_all_differ(said: list[Feedback]) -> None:
    """No two mistakes get the same title or the same messages."""
    assert len({each.title for each in said}) == len({each.messages for each in said}) == len(said)
