"""What the position schemes do to vectors and scores, measured."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from transformer_lab.model.positions import AlibiPositions, RotaryPositions, alibi_slopes, sinusoidal_table, sinusoids

FARTHEST = 32  # distances shown for ALiBi
ROPE_BASE = 100.0  # small, so that the slow pair of the picture turns visibly
QUERY, KEY = (1.0, 0.2, -0.8, 0.6), (0.9, -0.4, 0.5, 1.0)  # the two vectors that the RoPE picture turns


def wavelengths(d_model: int) -> tuple[float, ...]:
    """2π · 10000^(2i / d_model): after how many positions the sinusoids of pair i come round, fastest first."""
    return tuple(2 * math.pi * 10_000 ** (2 * i / d_model) for i in range((d_model + 1) // 2))


def shift_rotation(k: int, d_model: int) -> Float[Tensor, "d_model d_model"]:
    """R_k with PE(p + k) = R_k · PE(p) for every p: a block that turns one (sin, cos) pair, for every pair.

    Raises:
        ValueError: an odd ``d_model``, whose last sine has no cosine to turn with.
    """
    if d_model % 2:
        raise ValueError(f"d_model is {d_model}; the rotation turns (sin, cos) pairs, so it must be even.")
    blocks = []
    for wavelength in wavelengths(d_model):
        angle = 2 * math.pi * k / wavelength
        # sin(a + b) = cos b · sin a + sin b · cos a, cos(a + b) = −sin b · sin a + cos b · cos a
        blocks.append(torch.tensor([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]]))
    return torch.block_diag(*blocks)


@dataclass(frozen=True)
class Norms:
    """Mean lengths of token vectors and of position vectors before they are added."""

    content: float
    scaled_content: float
    position: float


def compare_norms(d_model: int, n_tokens: int = 64, seed: int = 0) -> Norms:
    """Embeddings drawn with standard deviation 1/√d_model, times √d_model or not, beside sinusoids."""
    draw = torch.randn(n_tokens, d_model, generator=torch.Generator().manual_seed(seed))
    embedding = draw / math.sqrt(d_model)
    scaled = embedding * math.sqrt(d_model)
    lengths = (tensor.norm(dim=1).mean().item() for tensor in (embedding, scaled, sinusoidal_table(n_tokens, d_model)))
    return Norms(*lengths)


@dataclass(frozen=True)
class Clock:
    """Two positions as hands on one dial a pair: ``first`` and ``second`` are (pair, 2), sine then cosine."""

    position: int
    shift: int
    wavelengths: tuple[float, ...]
    first: Tensor
    second: Tensor

    @property
    def dot(self) -> float:
        """The inner product of the two position vectors."""
        return (self.first * self.second).sum().item()


def clock(d_model: int, position: int, shift: int) -> Clock:
    """The sinusoids of ``position`` and ``position + shift``, pair by pair."""
    both = sinusoids(torch.tensor([position, position + shift]), d_model).unflatten(-1, (-1, 2))
    return Clock(position, shift, wavelengths(d_model), both[0], both[1])


@dataclass(frozen=True)
class RopePair:
    """A query and a key of width 4, as they are and turned to their positions; ``pairs`` name their components.

    ``query``, ``key``, ``turned_query`` and ``turned_key`` are (pair, 2).
    """

    query_position: int
    key_position: int
    layout: str
    pairs: tuple[tuple[int, int], ...]
    query: Tensor
    key: Tensor
    turned_query: Tensor
    turned_key: Tensor

    @property
    def scores(self) -> tuple[float, ...]:
        """What each pair adds to the score."""
        return tuple((self.turned_query * self.turned_key).sum(dim=1).tolist())

    @property
    def score(self) -> float:
        return sum(self.scores)


def rope_pair(query_position: int, key_position: int, shift: int, layout: str) -> RopePair:
    """Turn the two vectors to their positions, both moved on by ``shift``."""
    rope = RotaryPositions(layout=layout, base=ROPE_BASE)
    pairs = ((0, 1), (2, 3)) if layout == "interleaved" else ((0, 2), (1, 3))
    query, key = torch.tensor(QUERY), torch.tensor(KEY)
    m, n = query_position + shift, key_position + shift
    turned = (
        rope.rotate(vector[None, None, None], torch.tensor([[place]]))[0, 0, 0]
        for vector, place in ((query, m), (key, n))
    )
    take = torch.tensor(pairs)
    return RopePair(m, n, layout, pairs, query[take], key[take], *(vector[take] for vector in turned))


@dataclass(frozen=True)
class AlibiView:
    """The slopes of all heads, and how one head shares out its attention over equal scores, by distance."""

    slopes: tuple[float, ...]
    head: int
    weights: tuple[float, ...]

    @property
    def from_the_rule(self) -> int:
        """How many heads have the slopes of the power of two; the others borrow from twice as many heads."""
        return 2 ** int(math.log2(len(self.slopes)))

    @property
    def half(self) -> int:
        """How many of the nearest keys together get at least half the weight."""
        total, count = 0.0, 0
        while total < 0.5 - 1e-6:  # equal shares add up to a half with a rounding error
            total, count = total + self.weights[count], count + 1
        return count


def alibi_view(n_heads: int, head: int) -> AlibiView:
    """``head`` counts from 0. The weights are those of the last of 32 positions, nearest key first."""
    places = torch.arange(FARTHEST)[None]
    bias = AlibiPositions().bias(places[:, -1:], places, n_heads)
    weights = bias[0, head, 0].softmax(dim=-1).flip(0)
    return AlibiView(tuple(alibi_slopes(n_heads).tolist()), head, tuple(weights.tolist()))
