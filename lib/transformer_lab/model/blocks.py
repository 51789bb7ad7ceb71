"""One Transformer block: sublayers added to a stream of vectors, each with its norm (Vaswani et al. 2017, 3.1)."""

from copy import copy

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from transformer_lab.model.attention import MultiHeadAttention
from transformer_lab.model.cache import KeyValueCache
from transformer_lab.model.checks import check_choice, check_dropout, check_switches, check_tensor
from transformer_lab.model.feedforward import FeedForward
from transformer_lab.model.norms import make_norm
from transformer_lab.model.positions import NoPositions

ORDERS = ("pre", "post")


class Residual(nn.Module):
    """A sublayer whose output is added to what came in; its norm stands before the sublayer or after the sum.

    Args:
        sublayer: what is added, a module that keeps the shape.
        norm: its own norm.
        order: ``"post"``: norm(x + sublayer(x)) (Vaswani et al. 2017). ``"pre"``: x + sublayer(norm(x)), where the sum
            itself is never normed (Xiong et al. 2020).
        dropout: chance of dropping a component of the sublayer's output in training.

    Raises:
        TypeError: in ``forward``, a sublayer that returns no tensor.
        ValueError: another order, a dropout outside 0 … 1; in ``forward``, a sublayer that changes the shape.
    """

    def __init__(self, sublayer: nn.Module, norm: nn.Module, *, order: str = "pre", dropout: float = 0.0) -> None:
        super().__init__()
        check_dropout(dropout)
        check_choice("order", order, ORDERS)
        self.norm, self.sublayer, self.order, self.dropout = norm, sublayer, order, nn.Dropout(dropout)

    def forward(
        self, x: Float[Tensor, "batch length d_model"], *args: object, **kwargs: object
    ) -> Float[Tensor, "batch length d_model"]:
        """What follows ``x`` is passed to the sublayer."""
        pre = self.order == "pre"
        added = self.sublayer(self.norm(x) if pre else x, *args, **kwargs)
        check_tensor("what the sublayer returns", added)
        if added.shape != x.shape:  # another shape might broadcast
            raise ValueError(
                f"the sublayer makes {tuple(added.shape)} of {tuple(x.shape)}; what is added to x must have its shape."
            )
        total = x + self.dropout(added)
        return total if pre else self.norm(total)


class Block(nn.Module):
    """Self-attention, cross-attention if asked for, and a feed-forward layer, each in its `Residual`.

    Args:
        d_model, n_heads, n_kv_heads, d_head, position: as in `MultiHeadAttention`; ``position`` acts in self-attention.
        d_ff, activation: as in `FeedForward`.
        norm: ``"layernorm"`` or ``"rmsnorm"``.
        norm_order: ``"pre"`` or ``"post"``.
        norm_eps: the small number under the root of every norm.
        cross_attention: whether the block also reads a ``context``, such as the encoder's output.
        bias: whether linear layers and LayerNorm have biases.
        dropout: of attention weights and of what each sublayer adds, in training.

    Raises:
        TypeError, ValueError: what the parts refuse, by the name of the argument.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        d_ff: int,
        *,
        norm: str = "layernorm",
        norm_order: str = "pre",
        norm_eps: float = 1e-5,
        activation: str = "gelu",
        cross_attention: bool = False,
        n_kv_heads: int | None = None,
        d_head: int | None = None,
        bias: bool = True,
        dropout: float = 0.0,
        position: NoPositions | None = None,
    ) -> None:
        super().__init__()
        check_switches(cross_attention=cross_attention)

        def attention(position: NoPositions | None = None) -> MultiHeadAttention:
            return MultiHeadAttention(
                d_model, n_heads, n_kv_heads=n_kv_heads, d_head=d_head, bias=bias, dropout=dropout, position=position
            )

        def residual(sublayer: nn.Module) -> Residual:
            own_norm = make_norm(norm, d_model, eps=norm_eps, bias=bias)
            return Residual(sublayer, own_norm, order=norm_order, dropout=dropout)

        self.self_attention = residual(attention(position))
        self.cross_attention = residual(attention()) if cross_attention else None
        self.feedforward = residual(FeedForward(d_model, d_ff, activation=activation, bias=bias))

    def forward(
        self,
        x: Float[Tensor, "batch length d_model"],
        context: Float[Tensor, "batch source d_model"] | None = None,
        *,
        mask: Bool[Tensor, "..."] | None = None,
        causal: bool = False,
        context_mask: Bool[Tensor, "..."] | None = None,
        cache: KeyValueCache | None = None,
        position_ids: Int[Tensor, "#batch length"] | None = None,
    ) -> Float[Tensor, "batch length d_model"]:
        """The stream after the block, as wide and as long as before.

        ``mask``, ``causal``, ``cache`` and ``position_ids`` are for self-attention, ``context_mask`` for the context.

        Raises:
            ValueError: a context or its mask for a block without cross-attention, or no context for a block with it.
        """
        if self.cross_attention is not None and context is None:
            raise ValueError("the block has cross-attention and needs a context to read: pass the encoder's output.")
        for name, given in (("context", context), ("context_mask", context_mask)):
            if self.cross_attention is None and given is not None:
                raise ValueError(f"{name} was passed, but the block was built without cross_attention=True to read it.")
        filled = copy(cache)  # a call that is refused after self-attention must leave the cache as it was
        x = self.self_attention(x, mask=mask, causal=causal, cache=filled, position_ids=position_ids)
        if self.cross_attention is not None:
            x = self.cross_attention(x, context, mask=context_mask)
        x = self.feedforward(x)
        if cache is not None:
            cache.become(filled)
        return x
