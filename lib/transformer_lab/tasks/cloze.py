"""A language of 768 short sentences in which some blanks are filled from the left and some from the right.

    this old dog barked here            those wild owls hooted there again

The determiner agrees with words that come later: with the number of the noun and with the place. The verb follows
from the noun before it, the place from the determiner. The noun takes its number from the left and its animal from
the right. Nothing gives the adjective away. Every sentence is equally likely, so the best that any reader of one
side can do is known exactly: `best_accuracy`.
"""

import itertools
from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import cache

import torch
from torch import Tensor

from transformer_lab.tasks.marks import END, PAD, START, words_between

MASK, GAP = "<mask>", "<gap>"
SPECIALS = (PAD, START, END, MASK, GAP)
PAD_ID, START_ID, END_ID, MASK_ID, GAP_ID = range(len(SPECIALS))

_ONE, _MANY = {"here": "this", "there": "that"}, {"here": "these", "there": "those"}
_ADJECTIVES = ("old", "young", "small", "big", "brown", "white", "calm", "wild")
_ANIMALS = (
    ("dog", "dogs", "barked"), ("cat", "cats", "meowed"), ("lion", "lions", "roared"), ("owl", "owls", "hooted"),
    ("duck", "ducks", "quacked"), ("horse", "horses", "neighed"),
)  # fmt: skip
_PLACES = ("here", "there")
_ENDINGS = ("", "again", "today", "twice")

SLOTS = ("determiner", "adjective", "noun", "verb", "place", "ending")  # a sentence has its words in this order
SIDES = ("left", "right", "both")
SENTENCES: tuple[tuple[str, ...], ...] = tuple(
    tuple(filter(None, (determiner[place], adjective, noun, verb, place, ending)))
    for one, many, verb in _ANIMALS
    for determiner, noun in ((_ONE, one), (_MANY, many))
    for adjective, place, ending in itertools.product(_ADJECTIVES, _PLACES, _ENDINGS)
)
WORDS_OF = {slot: tuple(dict.fromkeys(s[i] for s in SENTENCES if len(s) > i)) for i, slot in enumerate(SLOTS)}
WORDS = (*SPECIALS, *itertools.chain.from_iterable(WORDS_OF.values()))
LENGTH = len(SLOTS) + 2  # with <start> and <end>


def check_words(words: Sequence[str]) -> None:
    """Refuse what is no word of the language, special tokens included, and more words than a sentence holds.

    Raises:
        ValueError: the message lists the words of the language.
    """
    for word in words:
        if word not in WORDS or word in SPECIALS:
            listed = "; ".join(", ".join(words) for words in WORDS_OF.values())
            raise ValueError(f"“{word[:20]}” is not a word of this language. It has: {listed}.")
    if len(words) > len(SLOTS):
        raise ValueError(f"There are {len(words)} words; a sentence of this language has at most {len(SLOTS)}.")


def encode(words: Sequence[str]) -> list[int]:
    """Token ids of words, perhaps with a ``<gap>``, ``<start>`` before and ``<end>`` after, padded to ``LENGTH``.

    Raises:
        ValueError: from `check_words`.
    """
    check_words([word for word in words if word != GAP])
    ids = [START_ID, *map(WORDS.index, words), END_ID]
    return ids + [PAD_ID] * (LENGTH - len(ids))


def decode(tokens: Tensor) -> tuple[str, ...]:
    """The words of token ids (position,) up to the first ``<end>``, without a leading ``<start>``."""
    return words_between([WORDS[token] for token in tokens.tolist()])


def is_sentence(words: Sequence[str]) -> bool:
    """Whether the grammar makes this sentence."""
    return tuple(words) in _KNOWN


def fitting_words(words: Sequence[str], place: int) -> tuple[str, ...]:
    """The words that make a sentence of the language at ``place`` (counted from 0), the others left as they are."""
    return tuple(
        word for word in WORDS[len(SPECIALS) :] if is_sentence((*words[:place], word, *words[place + 1 :]))
    )


@cache
def best_accuracy(side: str) -> dict[str, float]:
    """For each slot, how often the best reader of that side fills it rightly, over all sentences.

    The reader knows the grammar and sees the words before the blank (``"left"``), those after it (``"right"``) or
    ``"both"``; it says the word that is most frequent among the sentences that fit.

    Raises:
        ValueError: another side.
    """
    if side not in SIDES:
        raise ValueError(f"side is {side!r}; it must be one of {', '.join(SIDES)}.")
    fitting = defaultdict(Counter)  # (slot, what is seen) -> how often each word stands there
    for words, place in _PLACES_OF_BLANKS:
        fitting[place, _seen(words, place, side)][words[place]] += 1
    right, asked = Counter(), Counter()
    for (place, _), counts in fitting.items():
        right[place] += max(counts.values())
        asked[place] += counts.total()
    return {slot: right[place] / asked[place] for place, slot in enumerate(SLOTS)}


def side_needed(slot: str) -> str:
    """``"left"``, ``"right"`` or ``"both"``: what it takes to fill this slot as well as can be; ``"none"`` if nothing
    that stands around it helps.
    """
    left, right, both = (best_accuracy(side)[slot] for side in SIDES)
    if left == right == both:
        return "none"
    return "left" if left == both else "right" if right == both else "both"


def _seen(words: tuple[str, ...], place: int, side: str) -> tuple:
    before, after = words[:place], words[place + 1 :]
    return {"left": before, "right": after, "both": (before, after)}[side]


def _split(share: float = 0.2) -> tuple[Tensor, Tensor]:
    order = torch.randperm(len(SENTENCES), generator=torch.Generator().manual_seed(0))
    encoded = torch.tensor([encode(words) for words in SENTENCES])[order]
    held_out = round(share * len(SENTENCES))
    return encoded[held_out:], encoded[:held_out]


_KNOWN = frozenset(SENTENCES)
_PLACES_OF_BLANKS = [(words, place) for words in SENTENCES for place in range(len(words))]
TRAINING, HELD_OUT = _split()  # token ids (sentence, LENGTH); no sentence is in both


def draw(n: int, generator: torch.Generator) -> Tensor:
    """``n`` training sentences drawn at random: token ids (n, ``LENGTH``)."""
    return TRAINING[torch.randint(len(TRAINING), (n,), generator=generator)]
