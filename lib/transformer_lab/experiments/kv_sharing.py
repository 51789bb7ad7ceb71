"""Query heads that share key/value heads: what stays equal, and what the cache weighs, measured on a real one."""

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import nn

from transformer_lab.model.attention import MultiHeadAttention
from transformer_lab.model.cache import KeyValueCache
from transformer_lab.training import seeded

D_MODEL, N_HEADS = 512, 8
MOST_TOKENS = 256


def as_multi_head(shared: MultiHeadAttention) -> MultiHeadAttention:
    """Multi-head attention that computes the same: every query head gets a copy of the K/V head it shared."""
    own = MultiHeadAttention(shared.d_model, shared.n_heads, d_head=shared.d_head)
    own.query_projection, own.output_projection = shared.query_projection, shared.output_projection
    group = shared.n_heads // shared.n_kv_heads
    for name in ("key_projection", "value_projection"):
        with torch.no_grad():
            few, many = getattr(shared, name), getattr(own, name)
            for part in ("weight", "bias"):
                heads = getattr(few, part).unflatten(0, (shared.n_kv_heads, shared.d_head))
                getattr(many, part).copy_(heads.repeat_interleave(group, dim=0).flatten(0, 1))
    return own


def cache_bytes(attention: MultiHeadAttention, n_tokens: int) -> int:
    """Run ``n_tokens`` through the layer with a cache and weigh what the cache holds."""
    return _run(attention, n_tokens)[1]


def _run(attention: MultiHeadAttention, n_tokens: int) -> tuple[torch.Tensor, int]:
    """The output for random tokens, and the bytes that the cache holds afterwards."""
    x = torch.randn(1, n_tokens, attention.d_model, generator=torch.Generator().manual_seed(0))
    cache = KeyValueCache()
    with torch.no_grad():
        output = attention(x, causal=True, cache=cache)
    return output, cache.key.nbytes + cache.value.nbytes


@dataclass(frozen=True)
class KVSharing:
    """One layer with ``n_kv_heads`` for its query heads, beside multi-head attention with these heads repeated.

    Args:
        cache_bytes, full_cache_bytes: of this layer and of multi-head attention, in float32.
        weights, full_weights: how many weights the projections hold, by name.
        gap: largest difference between the two outputs.
    """

    n_heads: int
    n_kv_heads: int
    n_tokens: int
    cache_bytes: int
    full_cache_bytes: int
    weights: dict[str, int]
    full_weights: dict[str, int]
    gap: float


def share_kv(n_kv_heads: int, n_tokens: int = MOST_TOKENS) -> KVSharing:
    """Measure a layer of width 512 with eight query heads.

    Raises:
        ValueError: key/value heads that do not divide the query heads, or tokens outside 1 … 256.
    """
    if not 1 <= n_tokens <= MOST_TOKENS:
        raise ValueError(f"n_tokens is {n_tokens}; it must lie between 1 and {MOST_TOKENS}.")
    shared, repeated = _layers(n_kv_heads)
    (output, few), (expected, many) = _run(shared, n_tokens), _run(repeated, n_tokens)
    gap = (output - expected).abs().max().item()
    return KVSharing(N_HEADS, n_kv_heads, n_tokens, few, many, _weights(shared), _weights(repeated), gap)


@lru_cache
def _layers(n_kv_heads: int) -> tuple[MultiHeadAttention, MultiHeadAttention]:
    with seeded(0):
        shared = MultiHeadAttention(D_MODEL, N_HEADS, n_kv_heads=n_kv_heads)
    return shared, as_multi_head(shared)


def _weights(attention: MultiHeadAttention) -> dict[str, int]:
    parts: dict[str, nn.Linear] = {
        "W_Q": attention.query_projection, "W_K": attention.key_projection,
        "W_V": attention.value_projection, "W_O": attention.output_projection,
    }  # fmt: skip
    return {name: projection.weight.numel() for name, projection in parts.items()}
