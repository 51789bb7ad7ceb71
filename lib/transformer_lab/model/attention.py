"""Scaled dot-product attention and multi-head attention (Vaswani et al. 2017, sections 3.2.1 and 3.2.2).

``attention`` has two paths with one meaning: the readable one, which can return the weights, and the fused one,
torch's ``scaled_dot_product_attention``, which is faster and never holds them. The tests hold them equal.
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from transformer_lab.model.cache import KeyValueCache
from transformer_lab.model.checks import (
    check_alike,
    check_bias,
    check_dropout,
    check_finite,
    check_inputs,
    check_kind,
    check_mask,
    check_overflow,
    check_position_ids,
    check_shape,
    check_switches,
    check_whole_numbers,
)
from transformer_lab.model.masks import causal_mask, combine_masks, masked_softmax
from transformer_lab.model.positions import NoPositions


def attention(
    query: Float[Tensor, "batch heads query d_head"],
    key: Float[Tensor, "batch kv_heads key d_head"],
    value: Float[Tensor, "batch kv_heads key d_value"],
    *,
    mask: Bool[Tensor, "..."] | None = None,
    bias: Float[Tensor, "..."] | None = None,
    causal: bool = False,
    dropout: float = 0.0,
    need_weights: bool = False,
) -> tuple[Float[Tensor, "batch heads query d_value"], Float[Tensor, "batch heads query key"] | None]:
    """softmax(Q Kᵀ / √d_head + bias) V, over the keys that ``mask`` and ``causal`` allow.

    Args:
        mask: boolean, True = may attend; ``(query, key)`` or ``(batch|1, heads|1, query|1, key)``.
        bias: added to the scaled scores; same layouts as ``mask``.
        causal: no query looks ahead. Fewer queries than keys are the last positions (bottom-right alignment).
        dropout: chance of dropping a weight. Applied whenever it is above zero: pass 0 in evaluation.
        need_weights: also return the weights, as they were before dropout.

    Returns:
        The mixed values, and the weights or ``None``. A query with no key to attend to gets zeros.
        Fewer key/value heads than query heads are shared: query heads ``0 … g − 1`` read the first one, and so on.

    Raises:
        TypeError: no tensors, a mask that is not boolean, a bias that is not float, tensors of different dtypes.
        ValueError: shapes or devices that do not fit, empty sequences, NaN or ±∞ in query, key or value — also at
            places the mask hides, where 0 · NaN is still NaN — NaN or +∞ in the bias (−∞ there forbids, as in a
            mask), scores or mixed values that overflow.

    Float16 and bfloat16 are computed in float32 on both paths and returned in their own dtype.
    """
    check_inputs(query, key, value)
    check_dropout(dropout)
    check_switches(causal=causal, need_weights=need_weights)
    n_heads, n_query, n_key = query.shape[1], query.shape[2], key.shape[2]
    scores_shape = (query.shape[0], n_heads, n_query, n_key)
    wide = torch.promote_types(query.dtype, torch.float32)  # what scores are computed in
    if mask is not None:
        check_mask(mask, scores_shape, query)
    if bias is not None:
        check_bias(bias, scores_shape, query)
        bias = bias.to(wide)

    causal = causal and n_query > 1  # a single query is the last position: it sees every key
    # torch's own is_causal aligns to the top left and must not meet a mask, so it serves only the plain square case.
    plain_causal = causal and n_query == n_key and mask is None and bias is None and not need_weights
    if causal and not plain_causal:
        mask = combine_masks(mask, causal_mask(n_query, n_key, device=query.device))

    weights = None
    if need_weights:
        keys, values = repeat_kv_heads(key, n_heads).to(wide), repeat_kv_heads(value, n_heads).to(wide)
        scores = (query.to(wide) / math.sqrt(query.shape[-1])) @ keys.mT  # (batch, heads, query, key)
        if bias is not None:
            scores = scores + bias
        weights = masked_softmax(scores, mask)
        dropped = F.dropout(weights, dropout) if dropout else weights
        output, weights = (dropped @ values).to(query.dtype), weights.to(query.dtype)
    else:
        output = F.scaled_dot_product_attention(
            query,
            key,
            value,
            attn_mask=mask if bias is None else bias if mask is None else bias.masked_fill(~mask, -torch.inf),
            dropout_p=dropout,
            is_causal=plain_causal,
            enable_gqa=key.shape[1] != n_heads,
        )
    check_overflow(query, key, bias, output)
    return output, weights


class Attention(nn.Module):
    """``attention`` as a module: it drops weights in training and never in evaluation.

    Being a module of its own gives `record_attention` one place to listen at.
    """

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        check_dropout(dropout)
        self.dropout = dropout

    def forward(
        self,
        query: Float[Tensor, "batch heads query d_head"],
        key: Float[Tensor, "batch kv_heads key d_head"],
        value: Float[Tensor, "batch kv_heads key d_value"],
        *,
        mask: Bool[Tensor, "..."] | None = None,
        bias: Float[Tensor, "..."] | None = None,
        causal: bool = False,
        need_weights: bool = False,
    ) -> tuple[Float[Tensor, "batch heads query d_value"], Float[Tensor, "batch heads query key"] | None]:
        dropout = self.dropout if self.training else 0.0
        return attention(
            query, key, value, mask=mask, bias=bias, causal=causal, dropout=dropout, need_weights=need_weights
        )


class MultiHeadAttention(nn.Module):
    """Several attentions side by side, each over its own slice of the width (Vaswani et al. 2017, section 3.2.2).

    Args:
        d_model: width of the vectors that come in and go out.
        n_heads: number of query heads.
        n_kv_heads: number of key/value heads; equal to ``n_heads`` is multi-head attention, fewer is grouped-query
            attention (Ainslie et al. 2023), one is multi-query attention (Shazeer 2019).
        d_head: width of one head; ``d_model / n_heads`` unless given.
        bias: whether the four projections add a bias.
        dropout: chance of dropping an attention weight in training.
        position: a scheme of ``model/positions.py``. Its ``rotate`` and ``bias`` act here; its ``add`` acts once, on
            the embeddings, before the first attention.

    Raises:
        TypeError: sizes that are not whole numbers, a ``position`` that is no scheme.
        ValueError: sizes below 1, ``d_model`` not divisible by ``n_heads`` while ``d_head`` is not given,
            ``n_heads`` not divisible by ``n_kv_heads``, a dropout outside 0 … 1.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        n_kv_heads: int | None = None,
        d_head: int | None = None,
        bias: bool = True,
        dropout: float = 0.0,
        position: NoPositions | None = None,
    ) -> None:
        super().__init__()
        n_kv_heads = n_heads if n_kv_heads is None else n_kv_heads
        check_whole_numbers(d_model=d_model, n_heads=n_heads, n_kv_heads=n_kv_heads)
        if position is not None:
            check_kind("position", position, NoPositions, "make a scheme with position_scheme")
        if d_head is None:
            if d_model % n_heads:
                raise ValueError(
                    f"d_model is {d_model} and n_heads is {n_heads}: the width does not divide into equal heads. "
                    "Change one of them, or give d_head."
                )
            d_head = d_model // n_heads
        check_whole_numbers(d_head=d_head)
        if n_heads % n_kv_heads:
            raise ValueError(
                f"n_heads is {n_heads} and n_kv_heads is {n_kv_heads}: every key/value head must serve "
                "the same number of query heads."
            )
        self.d_model, self.n_heads, self.n_kv_heads, self.d_head = d_model, n_heads, n_kv_heads, d_head
        self.query_projection = nn.Linear(d_model, n_heads * d_head, bias=bias)
        self.key_projection = nn.Linear(d_model, n_kv_heads * d_head, bias=bias)
        self.value_projection = nn.Linear(d_model, n_kv_heads * d_head, bias=bias)
        self.position = position
        self.attention = Attention(dropout)
        self.output_projection = nn.Linear(n_heads * d_head, d_model, bias=bias)

    def forward(
        self,
        x: Float[Tensor, "batch query d_model"],
        context: Float[Tensor, "batch key d_model"] | None = None,
        *,
        mask: Bool[Tensor, "..."] | None = None,
        bias: Float[Tensor, "..."] | None = None,
        causal: bool = False,
        cache: KeyValueCache | None = None,
        position_ids: Int[Tensor, "#batch query"] | None = None,
    ) -> Float[Tensor, "batch query d_model"]:
        """Queries from ``x``; keys and values from ``context``, or from ``x`` itself.

        With a ``cache``, ``x`` holds only the new positions and the keys are the cached ones and the new ones. The
        cache takes them up at the end, so a call that is refused leaves it as it was.
        ``position_ids`` number the tokens of ``x``; unless given, they count from 0, or on from the cache.

        Raises:
            ValueError: a width other than ``d_model``, an empty sequence, NaN or ±∞, or ``context`` together with
                ``causal``, ``cache`` or a position scheme, which speak of the positions of one sequence.
            TypeError: no tensor, a dtype other than that of the weights, a cache that is no `KeyValueCache`.
        """
        if context is not None and (causal or cache is not None or self.position is not None):
            raise ValueError(
                "context is another sequence: causal=True, cache= and position= compare positions within one. "
                "Pass mask= to limit what is read from the context."
            )
        if cache is not None:
            check_kind("cache", cache, KeyValueCache, "start with KeyValueCache()")
        source = x if context is None else context
        self._check("x", x)
        if context is not None:
            self._check("context", context)
            if len(context) != len(x):
                raise ValueError(
                    f"x has shape {tuple(x.shape)} and context {tuple(context.shape)}: they must hold the same batch."
                )
        query = split_heads(self.query_projection(x), self.n_heads)
        key = split_heads(self.key_projection(source), self.n_kv_heads)
        value = split_heads(self.value_projection(source), self.n_kv_heads)
        if position_ids is None:
            position_ids = (KeyValueCache() if cache is None else cache).next_position_ids(x.shape[1], device=x.device)
        check_position_ids(position_ids, *x.shape[:2], x)
        if self.position is not None:
            query, key = self.position.rotate(query, position_ids), self.position.rotate(key, position_ids)
        key_ids = position_ids
        if cache is not None:
            extended = cache.extended(key, value, position_ids)
            key, value, key_ids = extended.key, extended.value, extended.position_ids
        if self.position is not None:
            bias = self._with_position_bias(bias, position_ids, key_ids, x)
        mixed, _ = self.attention(query, key, value, mask=mask, bias=bias, causal=causal)
        if cache is not None:
            cache.become(extended)
        return self.output_projection(merge_heads(mixed))

    def _with_position_bias(
        self, bias: Tensor | None, query_ids: Tensor, key_ids: Tensor, x: Tensor
    ) -> Tensor | None:
        own = self.position.bias(query_ids, key_ids, self.n_heads)
        if bias is None or own is None:
            return own if bias is None else bias
        check_bias(bias, (len(x), self.n_heads, query_ids.shape[-1], key_ids.shape[-1]), x)  # before it may broadcast
        return bias + own

    def _check(self, name: str, tensor: Tensor) -> None:
        check_shape(name, tensor, batch=None, length=None, d_model=self.d_model)
        check_alike(name, tensor, "the weights", self.query_projection.weight)
        check_finite(name, tensor)


def split_heads(x: Float[Tensor, "batch length width"], n_heads: int) -> Float[Tensor, "batch {n_heads} length d_head"]:
    """Cut the width into heads and bring the heads forward: every head keeps every token.

    Raises:
        ValueError: another rank, or a width that does not divide into ``n_heads``.
    """
    check_shape("x", x, batch=None, length=None, width=None)
    check_whole_numbers(n_heads=n_heads)
    if x.shape[-1] % n_heads:
        raise ValueError(f"the width {x.shape[-1]} does not divide into n_heads = {n_heads} equal heads.")
    return x.unflatten(-1, (n_heads, -1)).transpose(1, 2)


def merge_heads(x: Float[Tensor, "batch heads length d_head"]) -> Float[Tensor, "batch length width"]:
    """Undo `split_heads`: the heads of one token stand side by side again.

    Raises:
        ValueError: another rank.
    """
    check_shape("x", x, batch=None, heads=None, length=None, d_head=None)
    return x.transpose(1, 2).flatten(2)


def repeat_kv_heads(
    x: Float[Tensor, "batch kv_heads key d_head"], n_heads: int
) -> Float[Tensor, "batch {n_heads} key d_head"]:
    """Give every query head a key/value head to read: neighbours share one (k0, k0, k1, k1), as in grouped queries.

    Raises:
        ValueError: another rank, or ``n_heads`` that is not a multiple of the heads in ``x``.
    """
    check_shape("x", x, batch=None, kv_heads=None, key=None, d_head=None)
    check_whole_numbers(n_heads=n_heads)
    if n_heads % x.shape[1]:
        raise ValueError(f"x holds {x.shape[1]} key/value heads; n_heads = {n_heads} is not a multiple of that.")
    if x.shape[1] == n_heads:
        return x
    return x.repeat_interleave(n_heads // x.shape[1], dim=1)
