"""Which distances look alike to a trained RoPE attention: what each pair adds to a score, and where a query looks."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from transformer_lab.experiments.extrapolation import LONGEST, TESTED, LookingBack
from transformer_lab.model.positions import RotaryPositions
from transformer_lab.model.recording import record_attention
from transformer_lab.tasks.looking_back import two_back

WANTED = 2  # how far back the answer stands
SEQUENCES = 200  # that a look is averaged over
TURNS = range(1, int((TESTED - WANTED) / (2 * math.pi)) + 1)
ALIKE = tuple(round(WANTED + 2 * math.pi * turn) for turn in TURNS)  # distances that are 2 again to the fastest pair


@dataclass(frozen=True)
class Lookalikes:
    """One head, by distance back: ``pairs`` is (pair, distance), what each pair adds to the mean score.

    ``weights[distance]`` is how the query at ``position``, counted from 1, shares out its attention.
    """

    head: int
    position: int
    farthest_trained: int
    pairs: Tensor
    weights: tuple[float, ...]

    @property
    def favourite(self) -> int:
        """The distance that gets most of the attention."""
        return max(range(len(self.weights)), key=self.weights.__getitem__)


@torch.no_grad()
def pair_scores(model: LookingBack, n_distances: int = TESTED) -> Float[Tensor, "heads pair {n_distances}"]:
    """What each pair of components adds to the scaled score, by distance back, averaged over query and key symbols.

    A score is linear in the query and in the key, so the mean over all pairs of symbols is the score of the mean query
    with the mean key.

    Raises:
        ValueError: a model with another scheme.
    """
    if not isinstance(model.position, RotaryPositions):
        raise ValueError(f"the model has {type(model.position).__name__}; only RoPE turns pairs of components.")
    attention, symbols = model.attention, model.embedding.weight
    query, key = (
        project(symbols).mean(dim=0).unflatten(0, (attention.n_heads, 1, attention.d_head))
        for project in (attention.query_projection, attention.key_projection)
    )
    distance = torch.arange(n_distances)[None]
    turned = model.position.rotate(query.expand(-1, n_distances, -1)[None], distance)[0]  # the key stands at 0
    by_component = turned * key / math.sqrt(attention.d_head)
    return by_component.unflatten(-1, (-1, 2)).sum(dim=-1).transpose(1, 2)


@torch.no_grad()
def mean_weights(model: LookingBack, seed: int = 1) -> Float[Tensor, "heads query key"]:
    """The attention weights on unseen sequences of 64 symbols, averaged over the sequences."""
    tokens, _ = two_back(SEQUENCES, TESTED, generator=torch.Generator().manual_seed(seed))
    with record_attention(model) as maps:
        model(tokens)
    return maps["attention"][0].mean(dim=0)


def lookalikes(pairs: Tensor, weights: Tensor, head: int, position: int) -> Lookalikes:
    """One ``head``, counted from 0, of what `pair_scores` and `mean_weights` found."""
    back = weights[head, position - 1, :position].flip(0)
    return Lookalikes(head, position, LONGEST - 1, pairs[head], tuple(back.tolist()))
