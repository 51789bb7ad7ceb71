"""Judging a diagnosis in the bug clinic: by running the model it names and comparing what the tests show."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from transformer_lab.experiments.clinic import BUGS, N_PADS, TESTS, WORDS, Patient, admit, run_test

TITLES = {
    "healthy": "healthy: no bug",
    "no_causal": "no causal mask",
    "upper_triangle": "causal mask is the upper triangle",
    "diagonal_excluded": "causal mask without its diagonal",
    "after_softmax": "mask applied after the softmax",
    "padding_ignored": "padding mask not passed on",
    "padding_inverted": "padding mask inverted",
    "padding_on_queries": "padding mask on queries, not keys",
    "labels_unshifted": "labels not shifted",
    "labels_shifted_twice": "labels shifted twice",
    "pads_in_loss": "pads counted in the loss",
}


@functools.cache
def evidence(bug: str, test: str) -> Any:
    """What a test shows on a model with this bug. The models never change, so each is run once."""
    return run_test(test, Patient(bug))


@dataclass(frozen=True)
class Examination:
    """What the learner knows about a patient: never which bug it is.

    Attributes:
        ward, number: which patient this is; numbers count from 1.
        found: the evidence of the tests that were run.
        diagnosis: the bug that was named, or "".
        correct: whether it is the right one; ``None`` before a diagnosis.
        against: for a wrong one, a test that speaks against it; one that was run, if there is any.
        expected: what that test would show if the diagnosis were right.
        words, n_pads: the sentence that the tests use, and the pads put before it.
        also_fit: for a right one, the other bugs that the tests run so far do not rule out.
    """

    ward: int
    number: int
    found: Mapping[str, Any]
    diagnosis: str = ""
    correct: bool | None = None
    against: str = ""
    expected: Any = None
    also_fit: tuple[str, ...] = ()
    words: tuple[str, ...] = WORDS
    n_pads: int = N_PADS

    @property
    def title(self) -> str:
        """The diagnosis in words."""
        return TITLES.get(self.diagnosis, "")


def differing_tests(bug: str, other: str) -> tuple[str, ...]:
    """The tests whose pictures tell two bugs apart."""
    return tuple(test for test in TESTS if evidence(bug, test).pattern != evidence(other, test).pattern)


def examine(
    ward: int, next_patient: int, future: bool, padding: bool, rows: bool, labels: bool, diagnosis: str = ""
) -> Examination:
    """Run the chosen tests on a patient, and judge the diagnosis if there is one.

    Raises:
        ValueError: a diagnosis that is no bug of the clinic.
    """
    if diagnosis and diagnosis not in BUGS:
        raise ValueError(f"diagnosis is {diagnosis!r}; it must be one of {', '.join(BUGS)}.")
    bug = admit(ward, next_patient)
    chosen = [test for test, run in zip(TESTS, (future, padding, rows, labels), strict=True) if run]
    seen = {"ward": ward, "number": next_patient + 1, "found": {test: evidence(bug, test) for test in chosen}}
    if not diagnosis:
        return Examination(**seen)
    if diagnosis == bug:
        fitting = [other for other in BUGS if other != bug and not set(differing_tests(bug, other)) & set(chosen)]
        return Examination(**seen, diagnosis=diagnosis, correct=True, also_fit=tuple(fitting))
    speaking = differing_tests(bug, diagnosis)
    against = next((test for test in speaking if test in chosen), speaking[0])
    return Examination(
        **seen, diagnosis=diagnosis, correct=False, against=against, expected=evidence(diagnosis, against)
    )
