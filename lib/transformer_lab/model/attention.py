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
from transformer_lab.model.checks import all_finite, check_dropout, check_finite, check_inputs
from transformer_lab.model.masks import causal_mask, check_bias, check_mask, combine_masks, masked_softmax
from transformer_lab.model.positions import NoPositions, check_position_ids


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
        TypeError: a mask that is not boolean, a bias that is not float, tensors of different dtypes.
        ValueError: shapes that do not fit, empty sequences, NaN or ±∞ in query, key or value — also at places the
            mask hides, where 0 · NaN is still NaN — and NaN or +∞ in the bias (−∞ there forbids, as in a mask).

    Float16 and bfloat16 are computed in float32 on both paths and returned in their own dtype.
    """
    check_inputs(query, key, value, dropout)
    n_heads, n_query, n_key = query.shape[1], query.shape[2], key.shape[2]
    scores_shape = (query.shape[0], n_heads, n_query, n_key)
    if mask is not None:
        check_mask(mask, scores_shape)
    if bias is not None:
        check_bias(bias, scores_shape)
        bias = bias.to(query.dtype)

    causal = causal and n_query > 1  # a single query is the last position: it sees every key
    # torch's own is_causal aligns to the top left and must not meet a mask, so it serves only the plain square case.
    plain_causal = causal and n_query == n_key and mask is None and bias is None and not need_weights
    if causal and not plain_causal:
        mask = combine_masks(mask, causal_mask(n_query, n_key, device=query.device))

    weights = None
    if need_weights:
        wide = torch.promote_types(query.dtype, torch.float32)
        key, value = repeat_kv_heads(key, n_heads).to(wide), repeat_kv_heads(value, n_heads).to(wide)
        scores = (query.to(wide) / math.sqrt(query.shape[-1])) @ key.mT  # (batch, heads, query, key)
        if bias is not None:
            scores = scores + bias
        weights = masked_softmax(scores, mask)
        dropped = F.dropout(weights, dropout) if dropout else weights
        output, weights = (dropped @ value).to(query.dtype), weights.to(query.dtype)
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
    if not all_finite(output):
        raise ValueError(
            f"the scores or the mixed values grow larger than {output.dtype} can hold, although query, key and value "
            "are finite. Use smaller vectors or a wider dtype."
        )
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
        for name, size in (("d_model", d_model), ("n_heads", n_heads), ("n_kv_heads", n_kv_heads)):
            if size < 1:
                raise ValueError(f"{name} is {size}; it must be at least 1.")
        if d_head is None:
            if d_model % n_heads:
                raise ValueError(
                    f"d_model is {d_model} and n_heads is {n_heads}: the width does not divide into equal heads. "
                    "Change one of them, or give d_head."
                )
            d_head = d_model // n_heads
        if d_head < 1:
            raise ValueError(f"d_head is {d_head}; it must be at least 1.")
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

        With a ``cache``, ``x`` holds only the new positions and the keys are the cached ones and the new ones.
        ``position_ids`` number the tokens of ``x``; unless given, they count from 0, or on from the cache.

        Raises:
            ValueError: a width other than ``d_model``, an empty sequence, NaN or ±∞, or ``context`` together with
                ``causal``, ``cache`` or a position scheme, which speak of the positions of one sequence.
            TypeError: a dtype other than that of the weights.
        """
        if context is not None and (causal or cache is not None or self.position is not None):
            raise ValueError(
                "context is another sequence: causal=True, cache= and position= compare positions within one. "
                "Pass mask= to limit what is read from the context."
            )
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
        if position_ids is not None:
            check_position_ids(position_ids, *x.shape[:2])
        elif self.position is not None:
            seen = KeyValueCache() if cache is None else cache
            position_ids = seen.next_position_ids(x.shape[1], device=x.device)
        if self.position is not None:
            query, key = self.position.rotate(query, position_ids), self.position.rotate(key, position_ids)
        if cache is not None:
            key, value = cache.append(key, value, position_ids)
        if self.position is not None:
            key_ids = position_ids if cache is None else cache.position_ids
            bias = self._with_position_bias(bias, position_ids, key_ids, len(x))
        mixed, _ = self.attention(query, key, value, mask=mask, bias=bias, causal=causal)
        return self.output_projection(merge_heads(mixed))

    def _with_position_bias(
        self, bias: Tensor | None, query_ids: Tensor, key_ids: Tensor, batch: int
    ) -> Tensor | None:
        own = self.position.bias(query_ids, key_ids, self.n_heads)
        if bias is None or own is None:
            return own if bias is None else bias
        check_bias(bias, (batch, self.n_heads, query_ids.shape[-1], key_ids.shape[-1]))  # before it may broadcast
        return bias + own

    def _check(self, name: str, tensor: Tensor) -> None:
        if tensor.ndim != 3 or tensor.shape[-1] != self.d_model or 0 in tensor.shape:
            raise ValueError(
                f"{name} has shape {tuple(tensor.shape)}; it must be (batch, length, d_model = {self.d_model}), "
                "with at least one token."
            )
        if tensor.dtype != (own := self.query_projection.weight.dtype):
            raise TypeError(f"{name} has dtype {tensor.dtype}, the weights have {own}; convert one with .to(dtype).")
        check_finite(name, tensor)


def split_heads(x: Float[Tensor, "batch length width"], n_heads: int) -> Float[Tensor, "batch {n_heads} length d_head"]:
    """Cut the width into heads and bring the heads forward: every head keeps every token.

    Raises:
        ValueError: a width that does not divide into ``n_heads``.
    """
    if n_heads < 1 or x.shape[-1] % n_heads:
        raise ValueError(f"the width {x.shape[-1]} does not divide into n_heads = {n_heads} equal heads.")
    return x.unflatten(-1, (n_heads, -1)).transpose(1, 2)


def merge_heads(x: Float[Tensor, "batch heads length d_head"]) -> Float[Tensor, "batch length width"]:
    """Undo `split_heads`: the heads of one token stand side by side again."""
    return x.transpose(1, 2).flatten(2)


def repeat_kv_heads(
    x: Float[Tensor, "batch kv_heads key d_head"], n_heads: int
) -> Float[Tensor, "batch {n_heads} key d_head"]:
    """Give every query head a key/value head to read: neighbours share one (k0, k0, k1, k1), as in grouped queries."""
    if x.shape[1] == n_heads:
        return x
    return x.repeat_interleave(n_heads // x.shape[1], dim=1)
