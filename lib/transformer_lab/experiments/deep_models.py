"""A small language model of any depth, with and without shortcuts and norms: what reaches its blocks on the way back.

It reads the 648 sentences of `tasks.agreement` and says the next word. Untrained unless a function says otherwise.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from transformer_lab.experiments.label_shift import inputs_and_labels, label_loss
from transformer_lab.model.blocks import Residual
from transformer_lab.model.config import TransformerConfig
from transformer_lab.model.families import DecoderOnly, build
from transformer_lab.tasks import agreement
from transformer_lab.training import seeded

NORM_ORDERS = ("none", "pre", "post")
ACTIVATIONS = ("relu", "gelu", "swiglu")
DEEPEST = 24
D_MODEL, N_HEADS = 32, 4
SENTENCES = 16


class WithoutShortcut(nn.Module):
    """A sublayer and its norm in the order they had, with nothing carried past them."""

    def __init__(self, residual: Residual) -> None:
        super().__init__()
        self.norm, self.sublayer, self.order = residual.norm, residual.sublayer, residual.order

    def forward(self, x: Float[Tensor, "batch length d_model"], **kwargs: object) -> Tensor:
        if self.order == "pre":
            return self.sublayer(self.norm(x), **kwargs)
        return self.norm(self.sublayer(x, **kwargs))


def language_model(
    depth: int,
    *,
    norm_order: str = "pre",
    shortcut: bool = True,
    norm: str = "layernorm",
    activation: str = "gelu",
    d_model: int = D_MODEL,
    final_norm: bool = True,
    seed: int = 0,
) -> DecoderOnly:
    """A causal language model of ``depth`` blocks over the agreement grammar, with weights drawn from ``seed``.

    Args:
        norm_order: ``"pre"``, ``"post"``, or ``"none"`` for blocks without any norm.
        shortcut: whether each sublayer's input is added to its output.
        norm, activation: as in `Block`.
        final_norm: whether pre-norm blocks are followed by one more norm, as they should be.

    Raises:
        ValueError: a depth outside 1 … 24, another norm order, and what `TransformerConfig` refuses.
    """
    if not 1 <= depth <= DEEPEST:
        raise ValueError(f"depth is {depth}; choose between 1 and {DEEPEST} blocks.")
    if norm_order not in NORM_ORDERS:
        raise ValueError(f"norm_order is {norm_order!r}; choose one of {', '.join(NORM_ORDERS)}.")
    config = TransformerConfig(
        family="decoder-only", d_model=d_model, n_layers=depth, n_heads=N_HEADS, d_ff=2 * d_model,
        vocab=len(agreement.WORDS), norm=norm, norm_order="post" if norm_order == "post" else "pre",
        activation=activation, position="sinusoidal", tie_embeddings=False,
    )  # fmt: skip
    with seeded(seed):
        model = build(config)
    if norm_order == "none" or not final_norm:
        model.decoder.final_norm = nn.Identity()
    for block in model.decoder.blocks:
        for name in ("self_attention", "feedforward"):
            residual = getattr(block, name)
            if norm_order == "none":
                residual.norm = nn.Identity()
            if not shortcut:
                setattr(block, name, WithoutShortcut(residual))
    return model


def some_sentences(n: int = SENTENCES) -> Int[Tensor, "sentence position"]:
    """The sentences on which untrained models are compared, always the same."""
    return agreement.draw(n, torch.Generator().manual_seed(5))


def some_words(n: int = SENTENCES) -> Int[Tensor, "sentence position"]:
    """Start, determiner, noun and verb of `some_sentences`: as far as no sentence has pads."""
    return some_sentences(n)[:, : agreement.LENGTH - 3]


def loss_of(model: DecoderOnly, tokens: Int[Tensor, "batch position"]) -> Float[Tensor, ""]:
    """Cross-entropy of the next words."""
    inputs, labels = inputs_and_labels(tokens)
    return label_loss(model(inputs), labels)


def gradient_by_block(model: DecoderOnly, tokens: Int[Tensor, "batch position"]) -> tuple[float, ...]:
    """The norm of the loss's gradient for all weights of each block, from the first block to the last.

    Squared in float64, where the squares of very small gradients are not lost. The model's own gradients are left as
    they were.
    """
    weights = [list(block.parameters()) for block in model.decoder.blocks]
    found = iter(torch.autograd.grad(loss_of(model, tokens), sum(weights, [])))
    return tuple(torch.stack([next(found).double().norm() for _ in block]).norm().item() for block in weights)


@torch.no_grad()
def difference(model: DecoderOnly, tokens: Int[Tensor, "batch position"] | None = None) -> float:
    """What tells two tokens of one sentence apart after the last block: the mean of 1 − cosine of their vectors.

    0: all point the same way; 1: they stand at right angles. Without ``tokens``, of `some_words`. Half the squared
    distance of two vectors of length 1 is 1 − cosine, and in float64 it stays exact where the cosine is nearly 1.
    """
    seen = []
    handle = model.decoder.register_forward_hook(lambda module, args, output: seen.append(output))
    model(some_words() if tokens is None else tokens)
    handle.remove()
    direction = nn.functional.normalize(seen[0].double(), dim=-1)
    apart = (direction[:, :, None] - direction[:, None]).square().sum(-1) / 2  # (batch, position, position)
    n = apart.shape[1]
    return apart.sum((1, 2)).mean().item() / (n * (n - 1))


@dataclass(frozen=True)
class DepthGradient:
    """Gradient norm at every block of an untrained model, and the `difference` that is left between its tokens.

    ``other_gradients`` are those of the same model with its shortcuts switched the other way.
    """

    depth: int
    shortcut: bool
    norm_order: str
    activation: str
    gradients: tuple[float, ...]
    other_gradients: tuple[float, ...]
    difference: float


def explore_depth(
    depth: int, shortcut: bool, norm_order: str, activation: str = "gelu", seed: int = 0
) -> DepthGradient:
    """Build a model, with and without shortcuts, and send one loss back through each.

    Raises:
        ValueError: as `language_model`.
    """
    gradients, apart = _measure(depth, shortcut, norm_order, activation, seed)
    other_gradients, _ = _measure(depth, not shortcut, norm_order, activation, seed)
    return DepthGradient(depth, shortcut, norm_order, activation, gradients, other_gradients, apart)


@functools.lru_cache(maxsize=512)  # a setting that comes back costs nothing
def _measure(
    depth: int, shortcut: bool, norm_order: str, activation: str, seed: int
) -> tuple[tuple[float, ...], float]:
    model = language_model(depth, norm_order=norm_order, shortcut=shortcut, activation=activation, seed=seed)
    return gradient_by_block(model, some_sentences()), difference(model)


def first_block_gradients(
    depths: Sequence[int], *, shortcut: bool, norm_order: str = "none", seed: int = 0
) -> tuple[float, ...]:
    """The gradient norm at the first block, for models of each depth."""
    return tuple(_measure(depth, shortcut, norm_order, "gelu", seed)[0][0] for depth in depths)
