"""A grammar of 648 short English sentences in which determiner, noun and verb agree in number.

Every sentence is equally likely, so the lowest loss that any model can reach by predicting the next token is known
exactly: `best_loss`. A loss below it means that the model sees the answer.
"""

import itertools
import math

import torch
from torch import Tensor

PAD, BEGIN, END = "<pad>", "<s>", "</s>"
_ADJECTIVES = ("", "small", "old", "quiet")
_ENDINGS = ("", "here", "today")
_SINGULAR = (("the", "a", "this"), _ADJECTIVES, ("cat", "dog", "child"), ("sleeps", "runs", "sings"), _ENDINGS)
_PLURAL = (("the", "these", "many"), _ADJECTIVES, ("cats", "dogs", "children"), ("sleep", "run", "sing"), _ENDINGS)

SENTENCES: tuple[tuple[str, ...], ...] = tuple(
    tuple(word for word in words if word)
    for number in (_SINGULAR, _PLURAL)
    for words in itertools.product(*number)
)
WORDS = (PAD, BEGIN, END, *dict.fromkeys(itertools.chain.from_iterable(SENTENCES)))
PAD_ID, BEGIN_ID, END_ID = 0, 1, 2
LENGTH = max(map(len, SENTENCES)) + 2  # with <s> and </s>


def encode(sentence: tuple[str, ...]) -> list[int]:
    """Token ids of a sentence with ``<s>`` before and ``</s>`` after it, padded to ``LENGTH``."""
    ids = [BEGIN_ID, *map(WORDS.index, sentence), END_ID]
    return ids + [PAD_ID] * (LENGTH - len(ids))


def decode(tokens: Tensor) -> tuple[str, ...]:
    """The words of token ids (position,) between the leading ``<s>`` and the first ``</s>``.

    Everything after ``<s>`` if it never ends.
    """
    words = [WORDS[token] for token in tokens.tolist()]
    words = words[1:] if words[:1] == [BEGIN] else words
    return tuple(words[: words.index(END)] if END in words else words)


def draw(n: int, generator: torch.Generator) -> Tensor:
    """``n`` sentences drawn at random, encoded: token ids (n, ``LENGTH``)."""
    return _ENCODED[torch.randint(len(SENTENCES), (n,), generator=generator)]


def is_sentence(words: tuple[str, ...]) -> bool:
    """Whether the grammar makes this sentence."""
    return words in _KNOWN


def best_loss() -> float:
    """The lowest mean cross-entropy a next-token model can reach, in nats a label: log 648 over the mean length.

    ``</s>`` is a label too.
    """
    labels = sum(len(sentence) + 1 for sentence in SENTENCES) / len(SENTENCES)
    return math.log(len(SENTENCES)) / labels


_KNOWN = frozenset(SENTENCES)
_ENCODED = torch.tensor([encode(sentence) for sentence in SENTENCES])
