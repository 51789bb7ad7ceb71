"""Sentences of the English→French grammar as data: drawn, split without overlap, and turned into token ids.

Training never sees some noun–adjective combinations (*red flower*, say); every sentence of the test split holds one.
The validation split holds new sentences of combinations that training knows.
"""

import functools
import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from transformer_lab.tasks.french import ADJECTIVES, DETERMINERS, NOUNS, OBJECTS, SUBJECTS, VERBS, Noun
from transformer_lab.tasks.marks import END, PAD, START, words_between
from transformer_lab.tasks.translation import ENGLISH, Pair, translate

PAD_ID, BEGIN_ID, END_ID = 0, 1, 2
N_TRAIN, N_VALIDATION, N_TEST = 6000, 400, 400

_FRENCH = itertools.chain(
    *(each.french for each in (*DETERMINERS, *ADJECTIVES, *NOUNS, *VERBS)),
    (french for french, _ in SUBJECTS.values()),
    OBJECTS.values(),
    ("de", "ne", "pas"),
)
# One vocabulary for both languages, as in 2017. A word spelt alike in both, here only *me*, has one entry.
WORDS: tuple[str, ...] = (PAD, START, END, *dict.fromkeys(filter(None, (*ENGLISH, *_FRENCH))))
_IDS = {word: index for index, word in enumerate(WORDS)}
# One adjective of seven, shifted from noun to noun: every noun and every adjective is still seen in training.
HELD_OUT: frozenset[tuple[str, str]] = frozenset(
    (noun.english[0], adjective.english)
    for (n, noun), (a, adjective) in itertools.product(enumerate(NOUNS), enumerate(ADJECTIVES))
    if (3 * n + a) % 7 == 0
)


@dataclass(frozen=True)
class Splits:
    """Three lists of pairs that share no sentence."""

    train: tuple[Pair, ...]
    validation: tuple[Pair, ...]
    test: tuple[Pair, ...]


@functools.cache
def splits(seed: int = 0) -> Splits:
    """6,000 sentences to train on, 400 new ones to validate, 400 that each hold a combination never trained on."""
    generator = random.Random(seed)
    seen: set[tuple[str, ...]] = set()
    known, new = [], []
    while len(known) < N_TRAIN + N_VALIDATION or len(new) < N_TEST:
        words = _draw(generator)
        if words in seen:
            continue
        seen.add(words)
        pair = translate(words)
        (new if pair.combinations & HELD_OUT else known).append(pair)
    return Splits(tuple(known[:N_TRAIN]), tuple(known[N_TRAIN:][:N_VALIDATION]), tuple(new[:N_TEST]))


def _draw(generator: random.Random) -> tuple[str, ...]:
    """One English sentence: words of a kind are equally likely."""
    if generator.random() < 0.35:
        subject = [generator.choice(list(SUBJECTS))]
        with_s = subject[0] in ("he", "she")
    else:
        subject, plural = _draw_noun_phrase(generator, [noun for noun in NOUNS if noun.acts])
        with_s = not plural
    verb = generator.choice(VERBS)
    negated = generator.random() < 1 / 3
    middle = ["does" if with_s else "do", "not", verb.english[0]] if negated else [verb.english[with_s]]
    if generator.random() < 0.2:
        own = subject[0] in ("I", "we")
        object_ = [generator.choice([word for word in OBJECTS if not (own and word in ("me", "us"))])]
    else:
        object_, _ = _draw_noun_phrase(generator, NOUNS)
    return (*subject, *middle, *object_)


def _draw_noun_phrase(generator: random.Random, nouns: Sequence[Noun]) -> tuple[list[str], bool]:
    noun, plural = generator.choice(nouns), generator.random() < 0.5
    determiner = generator.choice([each for each in DETERMINERS if each.plural in (None, plural)])
    adjectives = [
        generator.choice([each for each in ADJECTIVES if each.in_front == in_front]).english
        for in_front in (True, False)
        if generator.random() < 0.5
    ]
    return [determiner.english, *adjectives, noun.english[plural]], plural


def encode(words: Sequence[str]) -> list[int]:
    """Token ids of words of either language.

    Raises:
        ValueError: a word without an id; `translate` says more about English ones.
    """
    for word in words:
        if word not in _IDS:
            raise ValueError(f"“{word[:20]}” is not one of the {len(WORDS)} words of this vocabulary.")
    return [_IDS[word] for word in words]


def decode(tokens: Sequence[int] | Int[Tensor, " position"]) -> tuple[str, ...]:
    """The words of token ids, up to the first ``<end>`` and without a leading ``<start>``."""
    return words_between([WORDS[int(token)] for token in tokens])


def batch(pairs: Sequence[Pair]) -> tuple[Int[Tensor, "batch source"], Int[Tensor, "batch target"]]:
    """Source ids with ``<end>`` behind them, target ids between ``<start>`` and ``<end>``, both padded on the right.

    Raises:
        ValueError: no pair.
    """
    if not pairs:
        raise ValueError("pairs is empty; a batch holds at least one pair.")
    sources = [[*encode(pair.source), END_ID] for pair in pairs]
    targets = [[BEGIN_ID, *encode(pair.target), END_ID] for pair in pairs]
    return _padded(sources), _padded(targets)


def _padded(rows: Sequence[Sequence[int]]) -> Int[Tensor, "batch position"]:
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[PAD_ID] * (longest - len(row))] for row in rows])
