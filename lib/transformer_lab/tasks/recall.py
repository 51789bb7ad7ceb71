"""Recall across a gap: the first symbol must be named after a row of distractors (after Hochreiter & Schmidhuber 1997).

A sequence is one symbol to keep and then ``n_distractors`` others, all drawn from the same symbols. Nothing but the
place says which one matters, and nothing helps to guess it: who forgets scores 1 / ``N_SYMBOLS``.
"""

import torch
from torch import Tensor

N_SYMBOLS = 10
CHANCE = 1 / N_SYMBOLS


def draw_sequences(batch: int, n_distractors: int, *, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Sequences ``(batch, 1 + n_distractors)`` of symbols, and the symbol to recall of each, ``(batch,)``.

    Raises:
        ValueError: a batch below 1 or a negative number of distractors.
    """
    if batch < 1 or n_distractors < 0:
        raise ValueError(f"batch is {batch} and n_distractors is {n_distractors}; they must be at least 1 and 0.")
    tokens = torch.randint(N_SYMBOLS, (batch, 1 + n_distractors), generator=generator)
    return tokens, tokens[:, 0].clone()
