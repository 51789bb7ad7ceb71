"""What dividing by √d_k does to scores, to the softmax and to the gradient that passes through it."""

import functools
import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

WIDTHS = (4, 8, 16, 32, 64, 128, 256, 512, 1024)
N_QUERIES = 256


@dataclass(frozen=True)
class ScoreStatistics:
    """What the scores of one width do: each field averages over many random queries.

    ``gradient`` is the length of the gradient on the softmax's input when one of length 1 arrives at its output.
    """

    variance: float
    largest_weight: float
    entropy: float
    gradient: float


@dataclass(frozen=True)
class ScalingSweep:
    """Statistics for every width, unscaled and scaled, and the weights that one row of scores gets.

    The row is drawn once, at the smallest width. Stretched by the square root of the width it has the size that
    scores have at the chosen one, so that the same row can be watched from width to width.
    """

    widths: tuple[int, ...]
    unscaled: tuple[ScoreStatistics, ...]
    scaled: tuple[ScoreStatistics, ...]
    n_keys: int
    d_k: int
    divided: bool
    weights: Float[Tensor, " key"]

    @property
    def at_width(self) -> tuple[ScoreStatistics, ScoreStatistics]:
        """Unscaled and scaled statistics at the chosen width."""
        place = self.widths.index(self.d_k)
        return self.unscaled[place], self.scaled[place]

    @property
    def most_entropy(self) -> float:
        """The entropy of equal weights, in nats."""
        return math.log(self.n_keys)


def sweep_scaling(d_k: int = 64, divided: bool = False, n_keys: int = 16, seed: int = 0) -> ScalingSweep:
    """Unit-variance random queries and keys: statistics of their scores for every width in ``WIDTHS``.

    Raises:
        ValueError: a ``d_k`` that is not one of the widths, fewer than two keys.
    """
    if d_k not in WIDTHS:
        raise ValueError(f"d_k is {d_k}; the measured widths are {', '.join(map(str, WIDTHS))}.")
    if n_keys < 2:
        raise ValueError(f"n_keys is {n_keys}; a softmax needs at least 2 keys to choose from.")
    unscaled, scaled, row = _measure_all(n_keys, seed)
    weights = (row if divided else math.sqrt(d_k) * row).softmax(dim=-1)
    return ScalingSweep(WIDTHS, unscaled, scaled, n_keys, d_k, divided, weights)


def random_scores(
    d_k: int, n_queries: int, n_keys: int, *, generator: torch.Generator
) -> Float[Tensor, "query key"]:
    """q·k for unit-variance components; every query meets keys of its own, so that the scores vary freely."""
    query = torch.randn(n_queries, 1, d_k, generator=generator)
    key = torch.randn(n_queries, n_keys, d_k, generator=generator)
    return (query @ key.mT).squeeze(1)


def score_statistics(scores: Float[Tensor, "query key"], *, generator: torch.Generator) -> ScoreStatistics:
    """Variance of the scores, and what a softmax over the keys makes of them."""
    scores = scores.clone().requires_grad_()
    weights = scores.softmax(dim=-1)
    arriving = torch.nn.functional.normalize(torch.randn(scores.shape, generator=generator), dim=-1)
    (gradient,) = torch.autograd.grad(weights, scores, grad_outputs=arriving)
    weights = weights.detach()
    return ScoreStatistics(
        variance=scores.detach().var().item(),
        largest_weight=weights.amax(dim=-1).mean().item(),
        entropy=torch.special.entr(weights).sum(dim=-1).mean().item(),
        gradient=gradient.norm(dim=-1).mean().item(),
    )


@functools.lru_cache(maxsize=16)
def _measure_all(n_keys: int, seed: int) -> tuple[tuple, tuple, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    unscaled, scaled, rows = [], [], []
    for width in WIDTHS:
        scores = random_scores(width, N_QUERIES, n_keys, generator=generator)
        unscaled.append(score_statistics(scores, generator=generator))
        scaled.append(score_statistics(scores / math.sqrt(width), generator=generator))
        rows.append(scores[0] / math.sqrt(width))
    return tuple(unscaled), tuple(scaled), rows[0]
