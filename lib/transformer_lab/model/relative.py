"""T5's positions: a learned bias for every head and every bucket of distances (Raffel et al. 2019, section 2.1)."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from transformer_lab.model.checks import check_switches, check_whole_numbers
from transformer_lab.model.positions import NoPositions, places_ahead


class RelativePositions(NoPositions):
    """What is added to a score depends on the head and on how far the key stands from the query, in buckets.

    All blocks of a stack share one table, so they are given one and the same object.

    Args:
        n_heads: query heads.
        n_buckets: rows of the table. Half of them hold one distance each, the other half ever longer ranges.
        max_distance: from here on, every distance shares the last bucket.
        bidirectional: keys ahead have buckets of their own (an encoder); otherwise keys ahead are masked anyway and
            count as distance 0 (a decoder).

    Raises:
        ValueError: a size below 1, or buckets that do not suffice.
    """

    def __init__(self, n_heads: int, *, n_buckets: int = 32, max_distance: int = 128, bidirectional: bool) -> None:
        super().__init__()
        check_whole_numbers(n_heads=n_heads, n_buckets=n_buckets, max_distance=max_distance)
        check_switches(bidirectional=bidirectional)
        check_buckets(n_buckets, max_distance, bidirectional=bidirectional)
        self.n_buckets, self.max_distance, self.bidirectional = n_buckets, max_distance, bidirectional
        self.table = nn.Embedding(n_buckets, n_heads)

    def bias(
        self, query_ids: Int[Tensor, "#batch query"], key_ids: Int[Tensor, "#batch key"], n_heads: int
    ) -> Float[Tensor, "#batch {n_heads} query key"]:
        ahead = places_ahead(query_ids, key_ids)
        if n_heads != self.table.embedding_dim:
            raise ValueError(f"n_heads is {n_heads}; the table was made for {self.table.embedding_dim} heads.")
        return self.table(self.bucket(ahead)).permute(0, 3, 1, 2)

    def bucket(self, ahead: Int[Tensor, "*ids"]) -> Int[Tensor, "*ids"]:
        """The row for a key that stands ``ahead`` places after the query (negative: before it)."""
        if self.bidirectional:
            one_way, first, distance = self.n_buckets // 2, self.n_buckets // 2 * (ahead > 0), ahead.abs()
        else:
            one_way, first, distance = self.n_buckets, 0, (-ahead).clamp(min=0)
        exact = one_way // 2
        # Beyond ``exact``, the rows grow with the logarithm of the distance and reach the last one at max_distance.
        share = (distance.clamp(min=1).float() / exact).log() / math.log(self.max_distance / exact)
        far = (exact + (share * (one_way - exact)).long()).clamp(max=one_way - 1)
        return first + torch.where(distance < exact, distance, far)


def check_buckets(n_buckets: int, max_distance: int, *, bidirectional: bool) -> None:
    """Refuse a table without a row for the far distances."""
    one_way = n_buckets // 2 if bidirectional else n_buckets
    if one_way < 2 or max_distance <= one_way // 2:
        raise ValueError(
            f"n_buckets is {n_buckets} and max_distance is {max_distance}: one direction needs at least 2 buckets, "
            "and max_distance must lie beyond the half of them that hold one distance each."
        )
