"""Lesson 08's exercises: each mistake of a learner, written as a learner writes it, gets its own feedback."""

import pytest
import torch

from mistakes import assert_all_differ, assert_named, each_mistake, pairs_of_mistakes
from transformer_lab.practice import check
from transformer_lab.practice.auditing import weak_points
from transformer_lab.practice.exercises.objectives import MASK_WORDS, SHIFT_LABELS

IGNORE = -100
EXERCISES = {"masking": MASK_WORDS, "shifting": SHIFT_LABELS}
CHECKS = {"masking": check.mask_words, "shifting": check.shift_labels}


@pytest.fixture(autouse=True)
def own_progress(tmp_path, monkeypatch):
    monkeypatch.setenv("TRANSFORMER_LAB_PROGRESS", str(tmp_path))


# ------------------------------------------------------------------ right answers, in the spellings learners use


def masking_by_where(tokens, special, choose, kind, random_words, mask_id):
    chosen = (choose < 0.15) & ~special
    inputs = torch.where(chosen & (kind < 0.8), mask_id, tokens)
    inputs = torch.where(chosen & (kind >= 0.8) & (kind < 0.9), random_words, inputs)
    return inputs, torch.where(chosen, tokens, -100)


def masking_by_indexing(tokens, special, choose, kind, random_words, mask_id):
    inputs, labels = tokens.clone(), tokens.clone()
    chosen = torch.logical_and(choose < 0.15, special.logical_not())
    labels[~chosen] = -100
    swap = chosen & (0.8 <= kind) & (kind < 0.9)
    inputs[chosen & (kind < 0.8)] = mask_id
    inputs[swap] = random_words[swap]
    return inputs, labels


def masking_by_loops(tokens, special, choose, kind, random_words, mask_id):
    inputs, labels = tokens.clone(), torch.full_like(tokens, -100)
    for row in range(tokens.shape[0]):
        for place in range(tokens.shape[1]):
            if special[row, place] or choose[row, place] >= 0.15:
                continue
            labels[row, place] = tokens[row, place]
            if kind[row, place] < 0.8:
                inputs[row, place] = mask_id
            elif kind[row, place] < 0.9:
                inputs[row, place] = random_words[row, place]
    return [inputs, labels]


def shifting_by_filling(tokens, pad_id):
    labels = torch.full_like(tokens, -100)
    labels[:, :-1] = tokens[:, 1:]
    labels[labels == pad_id] = -100
    return labels


def shifting_by_cat(tokens, pad_id):
    labels = torch.cat((tokens[:, 1:], tokens.new_full((len(tokens), 1), pad_id)), dim=1)
    return labels.masked_fill(labels == pad_id, -100)


def shifting_by_roll(tokens, pad_id):
    labels = tokens.roll(-1, dims=1)
    labels[:, -1] = -100
    return torch.where(labels == pad_id, -100, labels)


RIGHT = {
    "masking": (masking_by_where, masking_by_indexing, masking_by_loops),
    "shifting": (shifting_by_filling, shifting_by_cat, shifting_by_roll),
}


@pytest.mark.parametrize(("name", "answer"), [(name, answer) for name, each in RIGHT.items() for answer in each])
def test_right_answers_pass_in_every_spelling(name, answer):
    feedback = CHECKS[name](answer)
    assert feedback.status == "right", feedback


@pytest.mark.parametrize("name", EXERCISES)
def test_the_cases_can_tell_every_mistake_from_the_others(name):
    assert weak_points(EXERCISES[name]) == []


def test_every_case_of_the_masking_holds_all_that_can_happen_to_a_word():
    for case in MASK_WORDS.built_cases:
        draws = case.inputs
        chosen = (draws["choose"] < 0.15) & ~draws["special"]
        for low, high in ((0, 0.8), (0.8, 0.9), (0.9, 1)):
            assert (chosen & (draws["kind"] >= low) & (draws["kind"] < high)).any(), case.label
        assert ((draws["choose"] < 0.15) & draws["special"]).any()
        assert (draws["random_words"] != draws["tokens"])[chosen].any()


def test_the_cases_of_the_shift_are_the_deliberate_ones():
    cases = [case.inputs for case in SHIFT_LABELS.built_cases]
    assert any(each["tokens"].shape[0] == each["tokens"].shape[1] for each in cases)
    assert len({each["pad_id"] for each in cases}) == 2
    assert any((each["tokens"] != each["pad_id"]).all() for each in cases)


# --------------------------------------------- wrong answers, one step each, so that any two can be put together


def masking(
    choose=lambda draw, special: (draw < 0.15) & ~special,
    masked=lambda kind, draw: kind < 0.8,
    swapped=lambda kind, draw: (kind >= 0.8) & (kind < 0.9),
    counted=lambda chosen, masked, swapped, special: chosen,
    source=lambda tokens, inputs: tokens,
    elsewhere=IGNORE,
):
    def my_mask_words(tokens, special, choose_draw, kind, random_words, mask_id):
        chosen = choose(choose_draw, special)
        is_masked, is_swapped = masked(kind, choose_draw), swapped(kind, choose_draw)
        inputs = torch.where(chosen & is_masked, mask_id, tokens)
        inputs = torch.where(chosen & is_swapped, random_words, inputs)
        at = counted(chosen, is_masked, is_swapped, special)
        return inputs, torch.where(at, source(tokens, inputs), elsewhere)

    def my_answer(tokens, special, choose, kind, random_words, mask_id):
        return my_mask_words(tokens, special, choose, kind, random_words, mask_id)

    return my_answer


def shifting(
    shift=lambda tokens: tokens.roll(-1, dims=1), last=-1, pads=lambda labels, tokens, pad_id: labels == pad_id,
    finish=lambda labels: labels,
):  # fmt: skip
    def my_shift_labels(tokens, pad_id):
        labels = shift(tokens)
        if last is not None:
            labels[:, last] = IGNORE
        return finish(labels.masked_fill(pads(labels, tokens, pad_id), IGNORE))

    return my_shift_labels


def without_end(labels):
    labels = labels.clone()
    for row in labels:
        row[(row != IGNORE).nonzero()[-1:]] = IGNORE
    return labels


def nothing(*tensors):
    return torch.zeros_like(tensors[0], dtype=torch.bool)


# name: (a part of its title, the steps it gets wrong). The curriculum's come first in each.
WRONG = {
    "masking": {
        "always replaced": (
            "Every chosen word becomes the mask",
            {"masked": lambda kind, draw: kind < 2, "swapped": lambda kind, draw: nothing(kind)},
        ),
        "specials": ("Special tokens are masked", {"choose": lambda draw, special: draw < 0.15}),
        "loss on all": ("counts every token", {"counted": lambda c, m, s, special: torch.ones_like(c)}),
        "10/10 swapped": ("changed places", {"swapped": lambda kind, draw: kind >= 0.9}),
        "unchosen labelled": ("get the label 0", {"elsewhere": 0}),
        "kept left out": ("stayed are left out", {"counted": lambda c, m, s, special: c & (m | s)}),
        "none kept": ("No chosen word is kept", {"swapped": lambda kind, draw: kind >= 0.8}),
        "none swapped": ("No chosen word is swapped", {"swapped": lambda kind, draw: nothing(kind)}),
        "turned round": ("85 % of the words", {"choose": lambda draw, special: (draw > 0.15) & ~special}),
        "one minus": ("below 0.85", {"choose": lambda draw, special: (draw < 0.85) & ~special}),
        "loss on words": ("counts every word", {"counted": lambda c, m, s, special: ~special}),
        "masks only": ("Only the masks count", {"counted": lambda c, m, s, special: c & m}),
        "labels from inputs": ("come from the masked inputs", {"source": lambda tokens, inputs: inputs}),
        "one draw": (
            "One draw decides both",
            {
                "masked": lambda kind, draw: draw < 0.12,
                "swapped": lambda kind, draw: (draw >= 0.12) & (draw < 0.135),
            },
        ),
    },
    "shifting": {
        "not shifted": ("not shifted", {"shift": torch.clone, "last": None}),
        "wrong way": ("the wrong way", {"shift": lambda tokens: tokens.roll(1, dims=1), "last": 0}),
        "one place short": ("one place short", {"finish": lambda labels: labels[:, :-1]}),
        "pads in the loss": ("pads are left in", {"pads": lambda labels, tokens, pad: nothing(labels)}),
        "last in the loss": ("last place still has", {"last": None}),
        "by two": ("by two", {"shift": lambda tokens: tokens.roll(-2, dims=1), "last": slice(-2, None)}),
        "pads by input": ("looked for in the inputs", {"pads": lambda labels, tokens, pad: tokens == pad}),
        "end ignored": ("last token of each sentence", {"finish": without_end}),
    },
}
BUILD = {"masking": masking, "shifting": shifting}
EACH = each_mistake(WRONG)


@pytest.mark.parametrize(("name", "mistake"), EACH)
def test_each_known_mistake_is_named(name, mistake):
    title, wrong = WRONG[name][mistake]
    assert_named(CHECKS[name](BUILD[name](**wrong)), title)


@pytest.mark.parametrize("name", WRONG)
def test_every_mistake_has_feedback_of_its_own(name):
    said = [CHECKS[name](BUILD[name](**wrong)) for _, wrong in WRONG[name].values()]
    assert_all_differ(said)
    assert len(said) == len(EXERCISES[name].mistakes)


def test_tokens_without_the_first_alone_are_named():
    assert_named(check.shift_labels(lambda tokens, pad_id: tokens[:, 1:].masked_fill(tokens[:, 1:] == pad_id, -100)),
                 "one place short")  # fmt: skip


# A label that came round to the last place and is then taken off again: two mistakes that make one right answer.
UNDONE = ("shifting", "last in the loss", "end ignored")
PAIRS = [pair for pair in pairs_of_mistakes(WRONG, WRONG) if pair != UNDONE]


@pytest.mark.parametrize(("name", "first", "second"), PAIRS)
def test_two_mistakes_at_once_are_never_passed(name, first, second):
    wrong_1, wrong_2 = (WRONG[name][mistake][1] for mistake in (first, second))
    feedback = CHECKS[name](BUILD[name](**wrong_1 | wrong_2))
    assert feedback.status == "wrong" and "First difference" not in " ".join(feedback.messages), feedback


@pytest.mark.parametrize(
    ("name", "first", "second"),
    [
        ("masking", "always replaced", "specials"),
        ("masking", "10/10 swapped", "loss on all"),
        ("shifting", "wrong way", "pads in the loss"),
        ("shifting", "last in the loss", "pads in the loss"),
    ],
)
def test_two_common_mistakes_at_once_are_both_named(name, first, second):
    (title_1, wrong_1), (title_2, wrong_2) = WRONG[name][first], WRONG[name][second]
    feedback = CHECKS[name](BUILD[name](**wrong_1 | wrong_2))
    said = feedback.title + " ".join(feedback.messages)
    assert title_1 in said and title_2 in said, feedback


def test_an_unplanned_mistake_gets_the_first_difference():
    def my_mask_words(tokens, special, choose, kind, random_words, mask_id):
        return tokens, torch.full_like(tokens, -100)

    for feedback in (check.mask_words(my_mask_words), check.shift_labels(lambda tokens, pad_id: tokens + 1)):
        assert feedback.status == "wrong" and "First difference at" in feedback.messages[0], feedback


def test_untouched_stubs_are_not_attempted():
    def my_mask_words(tokens, special, choose, kind, random_words, mask_id):
        ...

    def my_shift_labels(tokens, pad_id):
        ...

    assert check.mask_words(my_mask_words).status == "not attempted"
    assert check.shift_labels(my_shift_labels).status == "not attempted"


def test_writing_into_the_tokens_is_told():
    def my_shift_labels(tokens, pad_id):
        tokens[:, :-1] = tokens[:, 1:].clone()
        tokens[:, -1] = -100
        return tokens.masked_fill(tokens == pad_id, -100)

    assert "writes into its input tokens" in " ".join(check.shift_labels(my_shift_labels).messages)
