"""Two questions about earlier symbols, asked at every position, to see what a position scheme can tell.

``two_back``: which symbol stood exactly two places before? Only the distance answers it, never the content.
``nearest_mark``: which of the four marks came last, this place included? Content says what a mark is; of several
marks, the nearest one counts, however far back it stands.
"""

import torch
from torch import Tensor

N_SYMBOLS = 10
MARKS = 4  # the symbols 0 … 3 are marks, the rest are letters
MARK_SHARE = 0.2  # of the symbols in ``nearest_mark``
NO_ANSWER = -100  # the label where there is nothing to look back to


def two_back(batch: int, length: int, *, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Symbols ``(batch, length)`` and, at each place, the symbol two places before it; none at the first two.

    Raises:
        ValueError: a batch or a length below 1.
    """
    _check(batch, length)
    tokens = torch.randint(N_SYMBOLS, (batch, length), generator=generator)
    labels = torch.full_like(tokens, NO_ANSWER)
    labels[:, 2:] = tokens[:, :-2]
    return tokens, labels


def nearest_mark(batch: int, length: int, *, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Symbols ``(batch, length)`` and, at each place, the last mark so far; none before the first mark.

    Raises:
        ValueError: a batch or a length below 1.
    """
    _check(batch, length)
    letters = torch.randint(MARKS, N_SYMBOLS, (batch, length), generator=generator)
    marks = torch.randint(MARKS, (batch, length), generator=generator)
    tokens = torch.where(torch.rand(batch, length, generator=generator) < MARK_SHARE, marks, letters)
    place = torch.where(tokens < MARKS, torch.arange(length), -1).cummax(dim=1).values
    return tokens, torch.where(place < 0, NO_ANSWER, tokens.gather(1, place.clamp(min=0)))


TASKS = {"two back": two_back, "nearest mark": nearest_mark}


def _check(batch: int, length: int) -> None:
    if batch < 1 or length < 1:
        raise ValueError(f"batch is {batch} and length is {length}; both must be at least 1.")
