"""Shuffle the tokens and look whether every output follows its token."""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from transformer_lab.model.attention import MultiHeadAttention
from transformer_lab.model.positions import NoPositions, position_scheme
from transformer_lab.training import seeded

WIDTH, HEADS = 8, 4
MOST_TOKENS, MOST_LETTERS = 7, 10
LAST_LETTER = 0x0500  # up to here the figures' font has every letter
UNCHANGED = 1e-5  # differences below are rounding
SCHEMES = ("none", "learned", "sinusoidal", "rope", "alibi")


def permutation_gap(attend: Callable[[Tensor], Tensor], x: Tensor, order: Sequence[int]) -> float:
    """Largest |attend(x[order]) − attend(x)[order]| for ``x`` (batch, position, width): 0 if outputs follow tokens."""
    order = list(order)
    with torch.no_grad():
        return (attend(x[:, order]) - attend(x)[:, order]).abs().max().item()


@dataclass(frozen=True)
class Shuffle:
    """One attention run on the tokens as they stood, and again after the shuffle.

    ``order[place]`` is the former place of the token that now stands at ``place``. ``before`` and ``after`` are the
    outputs, one row a token, *both* in the tokens' former order: row i belongs to ``tokens[i]``.
    """

    tokens: tuple[str, ...]
    order: tuple[int, ...]
    scheme: str
    causal: bool
    before: Tensor
    after: Tensor
    picked: tuple[int, ...] = ()  # tokens to point out

    @property
    def differences(self) -> tuple[float, ...]:
        """The largest change in the output of each token."""
        return tuple((self.after - self.before).abs().amax(dim=1).tolist())

    @property
    def largest(self) -> float:
        return max(self.differences)

    @property
    def moved(self) -> bool:
        """Whether any token left its place."""
        return list(self.order) != sorted(self.order)

    @property
    def changed(self) -> tuple[bool, ...]:
        """Which tokens' outputs did not stay as they were."""
        return tuple(difference >= UNCHANGED for difference in self.differences)


def shuffle(
    tokens: Sequence[str],
    order: Sequence[int],
    scheme: str = "none",
    causal: bool = False,
    picked: Sequence[int] = (),
) -> Shuffle:
    """Run one attention on ``tokens`` and on ``tokens`` in the new ``order``, with the same weights.

    Raises:
        ValueError: an ``order`` that does not hold each place once, or an unknown scheme.
    """
    if sorted(order) != list(range(len(tokens))):
        raise ValueError(f"order is {list(order)}; it must hold each of the places 0 to {len(tokens) - 1} once.")
    attention, position = attention_with(scheme)
    x = torch.stack([word_vector(token) for token in tokens])[None]
    place = torch.arange(len(tokens))[None]
    with torch.no_grad():
        before = attention(position.add(x, place), causal=causal)[0]
        after = torch.empty_like(before)
        after[list(order)] = attention(position.add(x[:, list(order)], place), causal=causal)[0]
    return Shuffle(tuple(tokens), tuple(order), scheme, causal, before, after, tuple(picked))


def attention_with(scheme: str) -> tuple[MultiHeadAttention, NoPositions]:
    """The lab's attention, four heads of width 2, and its position scheme. Random weights, the same ones every time.

    Query and key projections are enlarged so that the weights differ clearly from an even split.
    """
    with seeded(0):
        position = position_scheme(scheme, d_model=WIDTH, n_positions=MOST_TOKENS)
    with seeded(2):
        attention = MultiHeadAttention(WIDTH, HEADS, bias=False, position=position)
    with torch.no_grad():
        for projection in (attention.query_projection, attention.key_projection):
            projection.weight.mul_(1.5)
    return attention.eval(), position


def word_vector(word: str) -> Tensor:
    """A random vector of the word's own: the same word has the same vector every time and on every machine."""
    generator = torch.Generator().manual_seed(zlib.crc32(word.lower().encode()))
    return torch.randn(WIDTH, generator=generator)


def tokenize(sentence: str) -> tuple[str, ...]:
    """The words of a sentence.

    Raises:
        ValueError: no word or only one, too many words, a very long one, or a letter that cannot be drawn.
    """
    tokens = tuple(sentence.split())
    if not 2 <= len(tokens) <= MOST_TOKENS:
        count = "1 word" if len(tokens) == 1 else f"{len(tokens)} words"
        raise ValueError(f"The sentence has {count}; please use 2 to {MOST_TOKENS}.")
    longest = max(tokens, key=len)
    if len(longest) > MOST_LETTERS:
        raise ValueError(f"“{longest[:MOST_LETTERS]}…” is too long to draw; please stay within {MOST_LETTERS} letters.")
    strange = [letter for letter in "".join(tokens) if ord(letter) >= LAST_LETTER or not letter.isprintable()]
    if strange:
        raise ValueError(f"{strange[0]!r} cannot be drawn; please use Latin, Greek or Cyrillic letters.")
    return tokens
