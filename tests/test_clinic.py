"""Lesson 05's bug clinic: every bug can be found, no bug is given away, every diagnosis gets its own answer."""

from dataclasses import replace
from itertools import combinations, permutations

import pytest
import torch
from torch.testing import assert_close

from legibility import unreadable
from transformer_lab.draw.canvas import Canvas
from transformer_lab.draw.clinic import ClinicPicture
from transformer_lab.experiments.clinic import (
    BUGS,
    HEALTHY,
    MOVED,
    N_PADS,
    TESTS,
    WORDS,
    Patient,
    admit,
    padded,
    run_test,
)
from transformer_lab.experiments.diagnosis import TITLES, differing_tests, evidence, examine
from transformer_lab.model.averages import IGNORE
from transformer_lab.widgets.bug_clinic import FIRST_WARD, REASONS, bug_clinic, clauses, describe, finding

ALL = {test: True for test in TESTS}


def patient_with(bug: str) -> int:
    """The number of the first patient of the first ward who has this bug."""
    return next(number for number in range(len(BUGS)) if admit(FIRST_WARD, number) == bug)


def chart(bug: str, *tests: str, diagnosis: str = ""):
    return examine(FIRST_WARD, patient_with(bug), **{test: test in tests for test in TESTS}, diagnosis=diagnosis)


# ------------------------------------------------------------------ the models are really broken


def test_the_healthy_model_passes_every_test():
    future, padding, rows, labels = (run_test(test, Patient()) for test in TESTS)
    assert [[value > MOVED for value in row] for row in future.moved] == torch.ones(5, 5).tril().bool().tolist()
    assert max(padding.moved) < MOVED
    assert rows.on_words == pytest.approx([0] * N_PADS + [1] * 5, abs=1e-5) and not any(rows.on_pads)
    assert labels.labels == ("", "", "", *WORDS[1:], "<end>")
    assert labels.loss == pytest.approx(labels.loss_with_more_pads, abs=1e-5)


def test_the_bugs_show_where_they_must():
    upper = evidence("upper_triangle", "future").pattern
    assert upper == tuple(map(tuple, torch.ones(5, 5).triu().bool().tolist()))
    assert all(map(all, evidence("no_causal", "future").pattern))
    assert all(map(all, evidence("after_softmax", "future").pattern))  # the denominator leaks
    late = evidence("after_softmax", "rows")
    assert all(0 < total < 0.99 for total in late.on_words[N_PADS:]) and not any(late.on_pads)
    assert evidence("diagonal_excluded", "rows").on_words[N_PADS] == 0
    assert not any(map(any, evidence("padding_inverted", "future").pattern))  # without pads it attends to nothing
    assert evidence("padding_inverted", "rows").on_pads == pytest.approx([1] * 8)
    ignored, on_queries = (evidence(bug, "rows") for bug in ("padding_ignored", "padding_on_queries"))
    assert ignored.on_pads[:N_PADS] == pytest.approx([1] * N_PADS) and not any(on_queries.on_pads[:N_PADS])
    assert (
        ignored.on_pads[N_PADS:] == pytest.approx(on_queries.on_pads[N_PADS:]) and min(ignored.on_pads[N_PADS:]) > 0.1
    )
    assert evidence("labels_unshifted", "labels").labels[N_PADS:] == WORDS
    assert evidence("labels_shifted_twice", "labels").labels[N_PADS:] == (*WORDS[2:], "<end>", "")
    pads = evidence("pads_in_loss", "labels")
    assert "" not in pads.labels and abs(pads.loss - pads.loss_with_more_pads) > 0.01


def test_all_patients_share_the_weights_of_the_healthy_one():
    """So whatever differs is the bug."""
    expected = Patient().state_dict()
    for bug in BUGS:
        own = Patient(bug).state_dict()
        assert own.keys() == expected.keys()
        assert all(torch.equal(own[name], expected[name]) for name in own)


@pytest.mark.parametrize("bug", BUGS)
def test_row_sums_come_from_the_pass_that_made_the_logits(bug):
    """Recording must not change what the model computes."""
    from transformer_lab.model.recording import record_attention

    patient = Patient(bug)
    with torch.no_grad():
        plain = patient(padded(N_PADS))
        with record_attention(patient):
            recorded = patient(padded(N_PADS))
    assert_close(plain, recorded, atol=1e-6, rtol=0)


def test_labels_of_a_batch_row_by_row():
    tokens = torch.cat([padded(1), padded(1).roll(2, dims=1)])
    labels = Patient().labels(tokens)
    assert labels.shape == tokens.shape
    assert labels[0].tolist() == [IGNORE, *tokens[0, 2:].tolist(), 1]
    assert (labels[tokens == 0] == IGNORE).all()


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: Patient("flu"), "bug is 'flu'"),
        (lambda: run_test("blood", Patient()), "no test 'blood'"),
        (lambda: examine(0, 0, True, True, True, True, "flu"), "diagnosis is 'flu'"),
    ],
)
def test_unknown_names_are_refused(call, named):
    with pytest.raises(ValueError, match=named):
        call()


# ------------------------------------------------------------------ every bug can be found


@pytest.mark.parametrize(("one", "other"), list(combinations(BUGS, 2)))
def test_any_two_bugs_are_told_apart_by_what_can_be_seen_and_by_what_is_said(one, other):
    tests = differing_tests(one, other)
    assert tests
    for test in tests:
        assert finding(evidence(one, test)) != finding(evidence(other, test))


def test_every_test_is_needed():
    """Each test is the only one that tells some pair of bugs apart, except the padding test, which points the way."""
    alone = {tests[0] for pair in combinations(BUGS, 2) if len(tests := differing_tests(*pair)) == 1}
    assert alone == {"future", "rows", "labels"}
    assert any("padding" in differing_tests(HEALTHY, bug) for bug in BUGS)


def test_every_ward_brings_every_bug_once_a_round_in_its_own_order():
    rounds = [
        [admit(ward, number + len(BUGS) * turn) for number in range(len(BUGS))] for ward in range(4) for turn in (0, 1)
    ]
    assert all(set(order) == set(BUGS) for order in rounds)
    assert len({tuple(order) for order in rounds}) == len(rounds)


# ------------------------------------------------------------------ a judged diagnosis


@pytest.mark.parametrize("bug", BUGS)
def test_the_right_diagnosis_is_explained(bug):
    sentence = describe(chart(bug, *TESTS, diagnosis=bug))
    assert sentence == f"Right, {TITLES[bug]}: {REASONS[bug]}"


@pytest.mark.parametrize(("bug", "wrong"), list(permutations(BUGS, 2)))
def test_a_wrong_diagnosis_meets_the_evidence_against_it_and_learns_no_more(bug, wrong):
    full = chart(bug, *TESTS, diagnosis=wrong)
    assert full.correct is False and full.against in differing_tests(bug, wrong)
    sentence = describe(full)
    assert sentence.startswith(f"Not “{TITLES[wrong]}”")
    would, does = sentence.split("It would show: ")[1].removesuffix(".").split(". This patient shows: ")
    ours, theirs = (clauses(evidence(one, full.against)) for one in (wrong, bug))
    assert ours != theirs
    for expected, found in zip(ours, theirs, strict=True):  # what both would show says nothing and is left out
        assert (expected in would) == (found in does) == (expected != found)
    blind = describe(chart(bug, diagnosis=wrong))
    assert "You have run no test" in blind
    for said in (sentence, blind):
        assert TITLES[bug] not in said.replace(TITLES[wrong], "") and REASONS[bug] not in said


def test_every_wrong_diagnosis_of_one_patient_is_answered_in_its_own_words():
    for bug in BUGS:
        said = [describe(chart(bug, *TESTS, diagnosis=wrong)) for wrong in BUGS if wrong != bug]
        assert len(set(said)) == len(said)


def test_a_test_that_was_run_is_quoted_before_one_that_was_not():
    assert chart("after_softmax", "rows", diagnosis="no_causal").against == "rows"
    unseen = chart("padding_on_queries", "future", diagnosis="padding_ignored")
    assert unseen.against == "rows" and "run that next" in describe(unseen)


def test_a_lucky_guess_is_told_what_else_would_have_fitted():
    guess = chart("padding_on_queries", "future", "padding", diagnosis="padding_on_queries")
    assert guess.correct and guess.also_fit == ("padding_ignored",)
    assert "lucky" in describe(guess) and "Run the row sums to be sure" in describe(guess)
    assert "lucky" not in describe(chart("padding_on_queries", *TESTS, diagnosis="padding_on_queries"))


# ------------------------------------------------------------------ the widget


def test_the_first_display_gives_nothing_away_and_is_the_same_every_time():
    clinic = bug_clinic()
    assert clinic.error is None and clinic.result.correct is None
    bug = admit(FIRST_WARD, 0)
    alike = [other for other in BUGS if other != bug and "future" not in differing_tests(bug, other)]
    assert len(alike) >= 4
    assert (clinic.sentence, clinic.png) == (bug_clinic().sentence, bug_clinic().png)
    bundle = clinic._repr_mimebundle_()
    assert not any(title in bundle["text/plain"] or title in clinic._view.value for title in TITLES.values())


def test_patients_with_the_same_evidence_look_the_same_before_a_diagnosis():
    """Sentence and picture tell no more than the tests that were run; only the patient's number differs."""
    canvas, compared = Canvas(ClinicPicture), 0
    for one, other in combinations(BUGS, 2):
        same = [test for test in TESTS if test not in differing_tests(one, other) and test != "labels"]
        first, second = (replace(chart(bug, *same), number=1) for bug in (one, other))
        assert first.correct is None and not first.title and not first.against and set(first.found) == set(same)
        if first.found == second.found:
            compared += 1
            assert describe(first) == describe(second)
            assert canvas.render(first).png == canvas.render(second).png
    assert compared > 10


@pytest.mark.parametrize("bug", BUGS)
def test_every_patient_and_every_diagnosis_is_drawn(bug):
    clinic = bug_clinic()
    clinic.set(next_patient=patient_with(bug), **ALL)
    assert clinic.error is None
    undiagnosed = clinic.png
    for diagnosis in (bug, BUGS[BUGS.index(bug) - 1]):
        clinic.set(diagnosis=diagnosis)
        assert clinic.error is None and clinic.png != undiagnosed
        assert clinic.sentence.startswith("Right" if diagnosis == bug else "Not")


def test_a_new_patient_comes_without_a_diagnosis():
    clinic = bug_clinic()
    clinic.set(diagnosis=HEALTHY)
    clinic.controls["next_patient"].click()
    assert clinic.values["diagnosis"] == "" and clinic.result.number == 2 and clinic.result.correct is None
    clinic.set(diagnosis=HEALTHY)
    clinic.controls["ward"].value = 999
    assert clinic.values["diagnosis"] == "" and clinic.error is None
    clinic.set(diagnosis=HEALTHY, rows=True)
    assert clinic.values["diagnosis"] == HEALTHY  # the same patient keeps it


def test_tests_that_were_not_run_show_nothing():
    clinic = bug_clinic().set(future=False)
    assert clinic.sentence.startswith("No test has been run") and clinic.result.found == {}
    blank = clinic.png
    clinic.set(next_patient=1)
    other = clinic.set(next_patient=0)
    assert other.png == blank
    for test in TESTS:
        assert clinic.set(**{name: name == test for name in TESTS}).png != blank
        assert set(clinic.result.found) == {test}


def test_a_ward_beyond_the_limits_moves_nothing():
    clinic = bug_clinic()
    before = clinic.png
    assert "between 0 and 999" in clinic.set(ward=1000).error
    assert clinic.png == before and clinic.values["ward"] == FIRST_WARD


def test_every_word_of_the_picture_can_be_read():
    results = [chart(bug, *TESTS, diagnosis=diagnosis) for bug in BUGS for diagnosis in ("", bug, "padding_on_queries")]
    assert unreadable(ClinicPicture, results) == []


def test_the_pointer_reads_out_the_future_test():
    clinic = bug_clinic()
    texts = [area.text for area in clinic.regions]
    assert len(texts) == 25 and "replace “the”: the output at “cat” moves by 0.44" in texts
    assert not clinic.set(future=False).regions
