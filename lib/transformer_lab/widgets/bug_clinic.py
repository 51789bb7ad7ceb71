"""The bug clinic: test a model with one hidden mask or label bug, name the bug, be told why."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from transformer_lab.draw.clinic import ClinicPicture
from transformer_lab.experiments.clinic import N_PADS, FutureTest, LabelTest, PaddingTest, RowTest
from transformer_lab.experiments.diagnosis import TITLES, Examination, differing_tests, examine
from transformer_lab.widgets import controls
from transformer_lab.widgets.explorer import Explorer

FIRST_WARD = 11
Evidence = FutureTest | PaddingTest | RowTest | LabelTest
TEST_NAMES = {
    "future": "the future test",
    "padding": "the padding test",
    "rows": "the row sums",
    "labels": "the labels",
}
REASONS = {
    "healthy": "no output sees a later word, pads change nothing, every word’s row sums to 1 and each label is the "
    "next word.",
    "no_causal": "every output moves with every word, the later ones too, while its rows still sum to 1. Combine "
    "causal_mask with the padding mask.",
    "upper_triangle": "outputs move with later words and not with earlier ones: the triangle is turned over. Row i may "
    "attend to keys 0 to i.",
    "diagonal_excluded": "only the first word’s row is empty, since it had no one but itself to attend to. A word may "
    "see itself: its label is the next one. A hidden word still moves its own output, because it also asks: its query "
    "sets the weights. Where a single key is visible, the weight stays 1 and nothing moves.",
    "after_softmax": "rows sum to less than 1. Forbidden keys still took part in the softmax, so later words and pads "
    "change the weights of the allowed ones. Mask the scores, before the softmax.",
    "padding_ignored": "word rows spend attention on pads, and pad rows are full too: nothing ever hides a pad. Pass "
    "the padding mask to the attention.",
    "padding_inverted": "words attend to pads and to nothing else; without pads every row is empty, so no word moves "
    "an output. True means may attend, so True belongs on real tokens.",
    "padding_on_queries": "pad rows are empty, yet word rows still spend attention on pads: the mask silenced the "
    "pads as queries. It belongs on the key axis.",
    "labels_unshifted": "each label is its own input, so copying is enough. Shift the labels by one.",
    "labels_shifted_twice": "each label is the word after next: the data shifted the labels and the model did it "
    "again. Shift once.",
    "pads_in_loss": "padded positions carry labels, so the loss depends on how much padding the batch holds. Leave "
    "those positions out of the loss.",
}


def bug_clinic(ward: int = FIRST_WARD) -> Explorer:
    """A model with one hidden bug, or none. Run tests on it, then choose a diagnosis.

    Args:
        ward: the seed of the order in which patients come.
    """
    diagnoses = [("– not yet –", "")] + [(title, bug) for bug, title in TITLES.items()]
    return Explorer(
        controls={
            "next_patient": controls.press("Next patient"),
            "ward": controls.number("Ward", 0, 999, ward),
            "future": controls.toggle("future test", True),
            "padding": controls.toggle("padding test", False),
            "rows": controls.toggle("row sums", False),
            "labels": controls.toggle("label check", False),
            "diagnosis": controls.choice("Diagnosis", diagnoses, ""),
        },
        compute=examine,
        picture=ClinicPicture,
        describe=describe,
        adjust=_new_patient_no_diagnosis(),
    )


def describe(examination: Examination) -> str:
    """The findings so far, or what speaks for or against the diagnosis."""
    if examination.correct is None:
        if not examination.found:
            return "No test has been run. Tick one of the four, read what it shows, then choose a diagnosis."
        findings = [f"{TEST_NAMES[test]}: {finding(found)}" for test, found in examination.found.items()]
        return f"So far, {'; '.join(findings)}. Choose a diagnosis when only one fits."
    if examination.correct:
        reason = f"Right, {examination.title}: {REASONS[examination.diagnosis]}"
        return reason + (_lucky(examination) if examination.also_fit else "")
    name, test = examination.title, examination.against
    if test not in examination.found:
        ran = "The tests you have run would fit it, but" if examination.found else "You have run no test, and"
        return f"Not “{name}”. {ran} {TEST_NAMES[test]} would not fit: run that next."
    expected, seen = differences(examination.expected, examination.found[test])
    return (
        f"Not “{name}”: {TEST_NAMES[test]} speak{'' if test in ('rows', 'labels') else 's'} against it. "
        f"It would show: {expected}. This patient shows: {seen}."
    )


def finding(found: Evidence) -> str:
    """One test's evidence in one sentence without its full stop."""
    return _join(clauses(found))


def clauses(found: Evidence) -> list[str]:
    """One test's evidence piece by piece: the same number of clauses for every model."""
    return _CLAUSES[type(found)](found)


def differences(expected: Evidence, seen: Evidence) -> tuple[str, str]:
    """What one and the same test shows on two models, without the clauses that are the same for both."""
    pairs = zip(clauses(expected), clauses(seen), strict=True)
    ours, theirs = zip(*(pair for pair in pairs if pair[0] != pair[1]), strict=True)
    return _join(ours), _join(theirs)


def _join(clauses: Sequence[str]) -> str:
    return clauses[0] if len(clauses) == 1 else f"{', '.join(clauses[:-1])} and {clauses[-1]}"


def _future(found: FutureTest) -> list[str]:
    moved = found.pattern
    n = len(moved)
    counts: dict[str, Sequence[bool]] = {
        "a later word": [moved[i][j] for i in range(n) for j in range(n) if j > i],
        "the word itself": [moved[i][i] for i in range(n)],
        "an earlier word": [moved[i][j] for i in range(n) for j in range(n) if j < i],
    }
    return [f"{cause} moves the output in {sum(hits)} of {len(hits)} cases" for cause, hits in counts.items()]


def _padding(found: PaddingTest) -> list[str]:
    moved = sum(found.pattern)
    if not moved:
        return [f"{N_PADS} pads move no word’s logits"]
    return [f"{N_PADS} pads move the logits of {moved} of {len(found.moved)} words, by up to {max(found.moved):.2f}"]


def _rows(found: RowTest) -> list[str]:
    words = _span(found.on_words[N_PADS:])
    lost = _span(found.on_pads[N_PADS:])
    pad_rows = _span([a + b for a, b in zip(found.on_words[:N_PADS], found.on_pads[:N_PADS], strict=True)])
    return [f"word rows put {words} on words", f"word rows put {lost} on pads", f"pad rows sum to {pad_rows}"]


def _labels(found: LabelTest) -> list[str]:
    pairs = list(zip(found.inputs, found.labels, strict=True))
    first = next(label for word, label in pairs if word != "pad")
    at_pads = "have labels" if any(label for word, label in pairs if word == "pad") else "have no label"
    return [
        f"“{found.inputs[N_PADS]}” is to predict “{first}”",
        f"pads {at_pads}",
        f"the loss is {found.loss:.3f} with 3 pads, {found.loss_with_more_pads:.3f} with 12",
    ]


_CLAUSES: Mapping[type, Callable[[Any], list[str]]] = {
    FutureTest: _future,
    PaddingTest: _padding,
    RowTest: _rows,
    LabelTest: _labels,
}


def _lucky(examination: Examination) -> str:
    others = [f"“{TITLES[bug]}”" for bug in examination.also_fit]
    needed = {differing_tests(examination.diagnosis, bug)[0] for bug in examination.also_fit}
    tests = " and ".join(TEST_NAMES[test] for test in TEST_NAMES if test in needed)
    listed = others[0] if len(others) == 1 else ", ".join(others[:-1]) + " and " + others[-1]
    fits = "fit" if examination.found else "leave open"
    return f" But you were lucky: the tests you ran also {fits} {listed}. Run {tests} to be sure."


def _span(values: Sequence[float]) -> str:
    low, high = f"{min(values):.2f}", f"{max(values):.2f}"
    return low if low == high else f"{low} to {high}"


def _new_patient_no_diagnosis() -> Callable[[Mapping[str, Any]], None]:
    """An `adjust` that takes the old diagnosis off the chart when another patient comes in."""
    present = None

    def adjust(found: Mapping[str, Any]) -> None:
        nonlocal present
        coming = found["ward"].value, found["next_patient"].value
        if present not in (None, coming):
            found["diagnosis"].value = ""
        present = coming

    return adjust
