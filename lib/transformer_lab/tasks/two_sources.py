"""Two questions at once: at every place, which symbol came just before, and which came first of all?

They are asked from the third symbol on; at the second, both have the same answer.
"""

import string

import torch
from jaxtyping import Int
from torch import Tensor

QUESTIONS = ("just before", "first")
LENGTH = 10
ASKED_FROM = 2  # the first place that is asked, counted from 0
SYMBOLS = string.ascii_uppercase + string.ascii_lowercase + string.digits + "+-"  # 64 of them


def draw_sequences(
    n: int, n_kinds: int, *, generator: torch.Generator
) -> tuple[Int[Tensor, "n position"], Int[Tensor, "n question asked"]]:
    """``n`` random sequences of ``LENGTH`` symbols out of ``n_kinds``, and the right answers to both questions.

    Raises:
        ValueError: no sequence, or a number of kinds outside 2 … 64.
    """
    if n < 1:
        raise ValueError(f"n is {n}; draw at least 1 sequence.")
    if not 2 <= n_kinds <= len(SYMBOLS):
        raise ValueError(f"n_kinds is {n_kinds}; it must lie between 2 and {len(SYMBOLS)}.")
    tokens = torch.randint(n_kinds, (n, LENGTH), generator=generator)
    just_before = tokens[:, ASKED_FROM - 1 : -1]
    first = tokens[:, :1].expand_as(just_before)
    return tokens, torch.stack((just_before, first), dim=1)


def spell(tokens: Int[Tensor, " position"]) -> str:
    """A sequence as letters: ``[0, 2, 1]`` is ACB."""
    return "".join(SYMBOLS[token] for token in tokens.tolist())
