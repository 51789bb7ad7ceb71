"""A grammar of 648 short English sentences in which determiner, noun and verb agree in number.

Every sentence is equally likely, so the lowest loss that any model can reach by predicting the next token is known
exactly: `best_loss`. A loss below it means that the model sees the answer.
"""

import itertools
import math

import torch
from torch import Tensor

from transformer_lab.tasks.marks import END, PAD, START, words_between

_ADJECTIVES = ("", "small", "old", "quiet")
_ENDINGS = ("", "here", "today")
_SINGULAR = (("the", "a", "this"), _ADJECTIVES, ("cat", "dog", "child"), ("sleeps", "runs", "sings"), _ENDINGS)
_PLURAL = (("the", "these", "many"), _ADJECTIVES, ("cats", "dogs", "children"), ("sleep", "run", "sing"), _ENDINGS)

SENTENCES: tuple[tuple[str, ...], ...] = tuple(
    tuple(word for word in words if word)
    for number in (_SINGULAR, _PLURAL)
    for words in itertools.product(*number)
)
WORDS = (PAD, START, END, *dict.fromkeys(itertools.chain.from_iterable(SENTENCES)))
PAD_ID, BEGIN_ID, END_ID = 0, 1, 2
LENGTH = max(map(len, SENTENCES)) + 2  # with <start> and <end>


def encode(sentence: tuple[str, ...]) -> list[int]:
    """Token ids of a sentence with ``<start>`` before and ``<end>`` after it, padded to ``LENGTH``."""
    ids = [BEGIN_ID, *map(WORDS.index, sentence), END_ID]
    return ids + [PAD_ID] * (LENGTH - len(ids))


def decode(tokens: Tensor) -> tuple[str, ...]:
    """The words of token ids (position,) between the leading ``<start>`` and the first ``<end>``.

    Everything after ``<start>`` if it never ends.
    """
    return words_between([WORDS[token] for token in tokens.tolist()])


def draw(n: int, generator: torch.Generator) -> Tensor:
    """``n`` sentences drawn at random, encoded: token ids (n, ``LENGTH``)."""
    return _ENCODED[torch.randint(len(SENTENCES), (n,), generator=generator)]


def is_sentence(words: tuple[str, ...]) -> bool:
    """Whether the grammar makes this sentence."""
    return words in _KNOWN


def best_loss() -> float:
    """The lowest cross-entropy a next-token model can reach on average, in nats a label: log 648 / `mean_labels`."""
    return math.log(len(SENTENCES)) / mean_labels()


def mean_labels() -> float:
    """How many labels a sentence has on average: its words and ``<end>``."""
    return sum(len(sentence) + 1 for sentence in SENTENCES) / len(SENTENCES)


_KNOWN = frozenset(SENTENCES)
_ENCODED = torch.tensor([encode(sentence) for sentence in SENTENCES])
