"""Scaled dot-product attention and multi-head attention (Vaswani et al. 2017, sections 3.2.1 and 3.2.2).

``attention`` has two paths with one meaning: the readable one, which can return the weights, and the fused one,
torch's ``scaled_dot_product_attention``, which is faster and never holds them. The tests hold them equal.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from transformer_lab.model.masks import causal_mask, check_bias, check_mask, combine_masks, masked_softmax


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
        ValueError: shapes that do not fit, empty sequences, NaN in the inputs.
    """
    _check_inputs(query, key, value, dropout)
    n_heads, n_query, n_key = query.shape[1], query.shape[2], key.shape[2]
    scores_shape = (query.shape[0], n_heads, n_query, n_key)
    if mask is not None:
        check_mask(mask, scores_shape)
    if bias is not None:
        check_bias(bias, scores_shape)
        bias = bias.to(query.dtype)
    key, value = repeat_kv_heads(key, n_heads), repeat_kv_heads(value, n_heads)

    # torch's own is_causal aligns to the top left and must not meet a mask, so it serves only the plain square case.
    plain_causal = causal and n_query == n_key and mask is None and bias is None and not need_weights
    if causal and not plain_causal:
        mask = combine_masks(mask, causal_mask(n_query, n_key, device=query.device))

    weights = None
    if need_weights:
        scores = (query / math.sqrt(query.shape[-1])) @ key.mT  # (batch, heads, query, key)
        if bias is not None:
            scores = scores + bias
        weights = masked_softmax(scores, mask)
        output = F.dropout(weights, dropout) @ value
    else:
        additive_or_mask = mask if bias is None else bias if mask is None else bias.masked_fill(~mask, -torch.inf)
        output = F.scaled_dot_product_attention(
            query, key, value, attn_mask=additive_or_mask, dropout_p=dropout, is_causal=plain_causal
        )
    _check_output(output, query=query, key=key, value=value, bias=bias)
    return output, weights


class Attention(nn.Module):
    """``attention`` as a module: it drops weights in training and never in evaluation.

    Being a module of its own gives `record_attention` one place to listen at.
    """

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
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


@dataclass
class KeyValueCache:
    """The keys and values of the positions seen so far, so that a new token projects only itself."""

    key: Float[Tensor, "batch kv_heads key d_head"] | None = None
    value: Float[Tensor, "batch kv_heads key d_head"] | None = None

    def __len__(self) -> int:
        return 0 if self.key is None else self.key.shape[2]

    def append(
        self, key: Float[Tensor, "batch kv_heads new d_head"], value: Float[Tensor, "batch kv_heads new d_head"]
    ) -> tuple[Float[Tensor, "batch kv_heads key d_head"], Float[Tensor, "batch kv_heads key d_head"]]:
        """Store the new positions after the old ones and return them all.

        Raises:
            ValueError: another batch, head count or width than the cache holds.
        """
        if self.key is None:
            self.key, self.value = key, value
        else:
            for axis, name in ((0, "batch"), (1, "kv_heads"), (3, "d_head")):
                if key.shape[axis] != self.key.shape[axis]:
                    raise ValueError(
                        f"the cache holds keys of shape {tuple(self.key.shape)} and the new keys are "
                        f"{tuple(key.shape)}: {name} differs. Start a new cache for a new batch."
                    )
            self.key, self.value = torch.cat((self.key, key), dim=2), torch.cat((self.value, value), dim=2)
        return self.key, self.value


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
        if not 0.0 <= dropout <= 1.0:
            raise ValueError(f"dropout is {dropout}; it is a probability between 0 and 1.")
        self.d_model, self.n_heads, self.n_kv_heads, self.d_head = d_model, n_heads, n_kv_heads, d_head
        self.query_projection = nn.Linear(d_model, n_heads * d_head, bias=bias)
        self.key_projection = nn.Linear(d_model, n_kv_heads * d_head, bias=bias)
        self.value_projection = nn.Linear(d_model, n_kv_heads * d_head, bias=bias)
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
    ) -> Float[Tensor, "batch query d_model"]:
        """Queries from ``x``; keys and values from ``context``, or from ``x`` itself.

        With a ``cache``, ``x`` holds only the new positions and the keys are the cached ones and the new ones.

        Raises:
            ValueError: a width other than ``d_model``, an empty sequence, or ``context`` together with ``causal`` or
                ``cache``, which speak of the positions of one sequence.
        """
        if context is not None and (causal or cache is not None):
            raise ValueError(
                "context is another sequence: causal=True and cache= compare positions within one. "
                "Pass mask= to limit what is read from the context."
            )
        source = x if context is None else context
        for name, tensor in (("x", x), ("context", source)):
            if tensor.ndim != 3 or tensor.shape[-1] != self.d_model:
                raise ValueError(
                    f"{name} has shape {tuple(tensor.shape)}; it must be (batch, length, d_model = {self.d_model})."
                )
        query = split_heads(self.query_projection(x), self.n_heads)
        key = split_heads(self.key_projection(source), self.n_kv_heads)
        value = split_heads(self.value_projection(source), self.n_kv_heads)
        if cache is not None:
            key, value = cache.append(key, value)
        mixed, _ = self.attention(query, key, value, mask=mask, bias=bias, causal=causal)
        return self.output_projection(merge_heads(mixed))


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


def _check_inputs(query: Tensor, key: Tensor, value: Tensor, dropout: float) -> None:
    shapes = f"query {tuple(query.shape)}, key {tuple(key.shape)}, value {tuple(value.shape)}"
    if not query.ndim == key.ndim == value.ndim == 4:
        raise ValueError(f"attention takes (batch, heads, length, d_head) tensors; got {shapes}.")
    if not query.dtype == key.dtype == value.dtype:
        raise TypeError(f"dtypes differ: query {query.dtype}, key {key.dtype}, value {value.dtype}.")
    if not query.dtype.is_floating_point:
        raise TypeError(f"query, key and value have dtype {query.dtype}; attention mixes floating-point vectors.")
    if query.shape[0] != key.shape[0] or key.shape[:3] != value.shape[:3]:
        raise ValueError(f"batch sizes must agree, and every key needs one value; got {shapes}.")
    if query.shape[3] != key.shape[3]:
        raise ValueError(f"query and key are compared by dot product, so their widths must agree; got {shapes}.")
    if 0 in (*query.shape, *key.shape, *value.shape):
        raise ValueError(f"there is nothing to attend with: a size is 0 in {shapes}.")
    if query.shape[1] % key.shape[1]:
        raise ValueError(f"the query heads must be a multiple of the key/value heads; got {shapes}.")
    if not 0.0 <= dropout <= 1.0:
        raise ValueError(f"dropout is {dropout}; it is a probability between 0 and 1.")


def _check_output(output: Tensor, **inputs: Tensor | None) -> None:
    # One look at the result costs less than a look at every input; the inputs are searched only when it went wrong.
    if output.is_meta or not output.isnan().any():
        return
    for name, tensor in inputs.items():
        if tensor is not None and (found := (~tensor.isfinite()).nonzero()).numel():
            place = tuple(found[0].tolist())
            raise ValueError(
                f"{name} holds {tensor[place].item()} at {place}; every output that reads it becomes NaN. "
                "Look for the first step that made it (a division by zero, an overflow, a row of −∞)."
            )
    raise ValueError(
        f"the scores overflow {output.dtype}, although query, key and value are finite. "
        "Use a wider dtype or smaller vectors."
    )
