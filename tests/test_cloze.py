"""The language of lesson 08: its sentences, and which blank needs which side."""

import pytest
import torch

from transformer_lab.tasks import cloze


def test_the_language_is_what_the_lesson_says():
    assert len(cloze.SENTENCES) == len(set(cloze.SENTENCES)) == 12 * 8 * 2 * 4 == 768
    for words in ("this old dog barked here", "those wild owls hooted there again"):
        assert cloze.is_sentence(words.split())
    for words in (
        "this old dogs barked here", "this old dog barked there", "these old dogs hooted here", "old dog barked here",
        "this old dog barked here here", "this old dog barked", "",
    ):  # fmt: skip
        assert not cloze.is_sentence(words.split()), words
    assert {len(words) for words in cloze.SENTENCES} == {5, 6}
    assert len(set(cloze.WORDS)) == len(cloze.WORDS) == 5 + 4 + 8 + 12 + 6 + 2 + 3


def test_agreement_holds_in_every_sentence():
    for words in cloze.SENTENCES:
        determiner, adjective, noun, verb, place = words[:5]
        assert (determiner in ("these", "those")) == noun.endswith("s")
        assert (determiner in ("this", "these")) == (place == "here")
        assert [verb] == sorted({s[3] for s in cloze.SENTENCES if s[2] == noun})


def test_best_accuracy_is_what_pencil_and_paper_give():
    """One of 4 determiners, 8 adjectives, 6 animals once the number is known, 2 numbers once the animal is."""
    left, right, both = map(cloze.best_accuracy, cloze.SIDES)
    assert left == pytest.approx(
        {"determiner": 1 / 4, "adjective": 1 / 8, "noun": 1 / 6, "verb": 1, "place": 1, "ending": 1 / 3}
    )
    assert right == pytest.approx(
        {"determiner": 1, "adjective": 1 / 8, "noun": 1 / 2, "verb": 1 / 6, "place": 1 / 2, "ending": 1 / 3}
    )
    assert both == pytest.approx(
        {"determiner": 1, "adjective": 1 / 8, "noun": 1, "verb": 1, "place": 1, "ending": 1 / 3}
    )


@pytest.mark.parametrize("side", cloze.SIDES)
def test_best_accuracy_by_asking_every_sentence(side):
    """Another way round: for each blank, look through all sentences that could be meant."""
    reads = {"left": lambda i, j: j < i, "right": lambda i, j: j > i, "both": lambda i, j: j != i}[side]
    for place, slot in enumerate(cloze.SLOTS):
        with_slot = [words for words in cloze.SENTENCES if len(words) > place]
        total = 0.0
        for words in with_slot[::7]:  # all kinds of blanks are among every seventh sentence
            fits = [
                other[place] for other in with_slot
                if all(other[j : j + 1] == words[j : j + 1] for j in range(6) if reads(place, j))
            ]  # fmt: skip
            total += max(fits.count(word) for word in set(fits)) / len(fits)
        assert total / len(with_slot[::7]) == pytest.approx(cloze.best_accuracy(side)[slot])


def test_which_side_is_needed():
    needed = {slot: cloze.side_needed(slot) for slot in cloze.SLOTS}
    assert needed == {
        "determiner": "right", "adjective": "none", "noun": "both", "verb": "left", "place": "left", "ending": "none",
    }  # fmt: skip


def test_fitting_words_are_those_that_make_a_sentence():
    words = "this old dog barked here".split()
    fits = [cloze.fitting_words(words, place) for place in range(5)]
    assert fits[0] == ("this",) and fits[2] == ("dog",) and fits[3] == ("barked",) and fits[4] == ("here",)
    assert fits[1] == cloze.WORDS_OF["adjective"]
    assert cloze.fitting_words(["this", "old", "dogs", "barked", "here"], 1) == ()


def test_no_sentence_is_in_both_parts_and_none_is_lost():
    training, held_out = (set(map(cloze.decode, part)) for part in (cloze.TRAINING, cloze.HELD_OUT))
    assert not training & held_out and training | held_out == set(cloze.SENTENCES)
    assert len(held_out) == 154
    assert {words[:5] for words in held_out} <= {words[:5] for words in training}  # as the lesson says
    assert {word for words in training for word in words} == set(cloze.WORDS[len(cloze.SPECIALS) :])


def test_drawn_sentences_are_training_sentences_and_repeat_with_the_seed():
    drawn = cloze.draw(50, torch.Generator().manual_seed(3))
    assert torch.equal(drawn, cloze.draw(50, torch.Generator().manual_seed(3)))
    assert set(map(cloze.decode, drawn)) <= set(map(cloze.decode, cloze.TRAINING))


@pytest.mark.parametrize("words", cloze.SENTENCES[::97])
def test_encoding_and_decoding_undo_each_other(words):
    ids = cloze.encode(words)
    assert len(ids) == cloze.LENGTH and ids[0] == cloze.START_ID and ids[len(words) + 1] == cloze.END_ID
    assert set(ids[len(words) + 2 :]) <= {cloze.PAD_ID}
    assert cloze.decode(torch.tensor(ids)) == words
    assert cloze.decode(torch.tensor(ids[1:])) == words


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: cloze.encode(["the", "dog"]), "“the” is not a word of this language. It has: this, that"),
        (lambda: cloze.encode(["x" * 500]), "is not a word"),
        (lambda: cloze.encode(["<mask>"]), "“<mask>” is not a word"),
        (lambda: cloze.check_words(["<gap>"]), "“<gap>” is not a word"),
        (lambda: cloze.encode(["old"] * 7), "There are 7 words; a sentence of this language has at most 6"),
        (lambda: cloze.best_accuracy("up"), "side is 'up'; it must be one of left, right, both"),
    ],
)
def test_mistakes_are_refused_by_name(call, says):
    with pytest.raises(ValueError) as refused:
        call()
    assert says in str(refused.value) and len(str(refused.value)) < 600
