"""Lesson 08's exercises: each mistake of a learner, written as a learner writes it, gets its own feedback."""

import pytest
import torch

from mistakes import assert_all_differ, assert_named, assert_says, each_mistake, pairs_of_mistakes
from transformer_lab.practice import check
from transformer_lab.practice.exercises.mask_words import MASK_WORDS
from transformer_lab.practice.exercises.shift_labels import SHIFT_LABELS

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


def test_every_case_of_the_masking_holds_all_that_can_happen_to_a_word():
    for case in MASK_WORDS.built_cases:
        draws = case.inputs
        chosen = (draws["choose"] < 0.15) & ~draws["special"]
        for low, high in ((0, 0.8), (0.8, 0.9), (0.9, 1)):
            assert (chosen & (draws["kind"] >= low) & (draws["kind"] < high)).any(), case.label
        assert ((draws["choose"] < 0.15) & draws["special"]).any()
        assert (draws["random_words"] != draws["tokens"])[chosen].any()


def test_draws_lie_just_beside_every_threshold_of_the_masking_and_never_on_one():
    for case in MASK_WORDS.built_cases:
        words = ~case.inputs["special"]
        choose, kind = case.inputs["choose"][words], case.inputs["kind"][words]
        for draws, threshold in ((choose, 0.15), (kind[choose < 0.15], 0.8), (kind[choose < 0.15], 0.9)):
            for low, high in ((threshold - 0.0011, threshold), (threshold, threshold + 0.0011)):
                assert ((draws > low) & (draws < high)).any(), (case.label, threshold)
        assert not any(((each - t).abs() < 1e-4).any() for each, t in ((choose, 0.15), (kind, 0.8), (kind, 0.9)))


def test_nothing_about_the_masking_can_be_guessed_from_numbers():
    cases = [case.inputs for case in MASK_WORDS.built_cases]
    assert len({each["mask_id"] for each in cases}) > 1
    specials = [set(each["tokens"][each["special"]].tolist()) for each in cases]
    words = [set(each["tokens"][~each["special"]].tolist()) for each in cases]
    assert any(max(numbers) >= 5 for numbers in specials) and any(min(numbers) < 3 for numbers in words)


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
    first=lambda chosen, masked: chosen & masked,
    second=lambda chosen, swapped: chosen & swapped,
    goes_on_from=lambda tokens, inputs: inputs,
    the_mask=lambda mask_id: mask_id,
    counted=lambda chosen, masked, swapped, special: chosen,
    source=lambda tokens, inputs: tokens,
    elsewhere=IGNORE,
    finish=lambda inputs, labels: (inputs, labels),
):
    def my_mask_words(tokens, special, choose_draw, kind, random_words, mask_id):
        chosen = choose(choose_draw, special)
        is_masked, is_swapped = masked(kind, choose_draw), swapped(kind, choose_draw)
        inputs = torch.where(first(chosen, is_masked), the_mask(mask_id), tokens)
        inputs = torch.where(second(chosen, is_swapped), random_words, goes_on_from(tokens, inputs))
        at = counted(chosen, is_masked, is_swapped, special)
        return finish(inputs, torch.where(at, source(tokens, inputs), elsewhere))

    def my_answer(tokens, special, choose, kind, random_words, mask_id):
        return my_mask_words(tokens, special, choose, kind, random_words, mask_id)

    return my_answer


def shifting(
    shift=lambda tokens: tokens.roll(-1, dims=1), last=-1, pads=lambda labels, tokens, pad_id: labels == pad_id,
    last_label=None, finish=lambda labels: labels, ignored=IGNORE,
):  # fmt: skip
    def my_shift_labels(tokens, pad_id):
        labels = shift(tokens)
        if last is not None:
            labels[:, last] = IGNORE
        labels = labels.masked_fill(pads(labels, tokens, pad_id), IGNORE)
        if last_label is not None:
            labels[:, -1] = last_label(pad_id)
        labels = finish(labels)
        return labels.masked_fill(labels == IGNORE, ignored)

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
        "second from tokens": ("masks are lost", {"goes_on_from": lambda tokens, inputs: tokens}),
        "overwritten": ("overwrite the masks", {"swapped": lambda kind, draw: kind < 0.9}),
        "swapped everywhere": ("not chosen are swapped", {"second": lambda chosen, swapped: swapped}),
        "masked everywhere": ("not chosen become the mask", {"first": lambda chosen, masked: masked}),
        "branches exchanged": ("where nothing was chosen", {"counted": lambda c, m, s, special: ~c}),
        "mask is 3": ("always token 3", {"the_mask": lambda mask_id: 3}),
        "labels first": ("labels come first", {"finish": lambda inputs, labels: (labels, inputs)}),
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
        "last is pad": ("pad as its label", {"last_label": lambda pad: pad}),
        "pad is 0": ("taken to be token 0", {"pads": lambda labels, tokens, pad: labels == 0}),
        "along the batch": ("sentences have moved", {"shift": lambda tokens: tokens.roll(-1, 0)}),
        "minus one": ("−1 instead", {"ignored": -1}),
        "one hundred": ("100 instead", {"ignored": 100}),
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


def masking_near(special_is=lambda tokens, special: special, below=0.15, masked=0.8, swapped=0.9):
    """A right answer but for one number, or for how it finds the special tokens."""

    def my_mask_words(tokens, special, choose, kind, random_words, mask_id):
        chosen = (choose < below) & ~special_is(tokens, special)
        inputs = torch.where(chosen & (kind < masked), mask_id, tokens)
        inputs = torch.where(chosen & (kind >= masked) & (kind < swapped), random_words, inputs)
        return inputs, torch.where(chosen, tokens, -100)

    return my_mask_words


@pytest.mark.parametrize(
    "change",
    [
        *({"special_is": lambda tokens, special, n=n: tokens < n} for n in (1, 2, 3, 4, 5)),
        {"special_is": lambda tokens, special: special | (tokens < 5)},
        {"special_is": lambda tokens, special: special & (tokens < 5)},
        *({"below": number} for number in (0.14, 0.145, 0.155, 0.16)),
        *({"masked": number} for number in (0.79, 0.795, 0.805, 0.81)),
        *({"swapped": number} for number in (0.89, 0.91, 0.95)),
    ],
)
def test_an_answer_with_another_number_in_it_is_refused(change):
    assert check.mask_words(masking_near()).status == "right"
    assert check.mask_words(masking_near(**change)).status == "wrong"


def shift_without_assigning(tokens, pad_id):
    labels = tokens.roll(-1, dims=1)
    labels[:, -1] = -100
    labels.masked_fill(labels == pad_id, -100)
    return labels


def shift_and_fill_up_with_the_pad(tokens, pad_id):
    return torch.cat((tokens[:, 1:], tokens.new_full((len(tokens), 1), pad_id)), dim=1)


def shift_rows_by_slices(tokens, pad_id):
    labels = torch.full_like(tokens, -100)
    labels[:-1] = tokens[1:]
    return labels.masked_fill(labels == pad_id, -100)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (shift_without_assigning, ["pads are left in", "`masked_fill` returns a new tensor"]),
        (shift_and_fill_up_with_the_pad, ["pads are left in", "pad as its label"]),
        (shift_rows_by_slices, ["sentences have moved"]),
    ],
)
def test_other_spellings_of_a_wrong_shift_are_named(answer, says):
    assert_says(check.shift_labels(answer), *says)


# A label too many at the last place, and then the last label is taken off: two mistakes that make one right answer.
UNDONE = {("shifting", "last in the loss", "end ignored"), ("shifting", "end ignored", "last is pad")}
PAIRS = [pair for pair in pairs_of_mistakes(WRONG, WRONG) if pair not in UNDONE]


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
    assert_says(CHECKS[name](BUILD[name](**wrong_1 | wrong_2)), title_1, title_2)


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
