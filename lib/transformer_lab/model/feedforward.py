"""The feed-forward layer: what a block does with each token by itself (Vaswani et al. 2017, section 3.3)."""

from functools import partial

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from transformer_lab.model.checks import (
    check_alike,
    check_choice,
    check_finite,
    check_floats,
    check_switches,
    check_whole_numbers,
)

# GELU (Hendrycks & Gimpel 2016) has an exact form and a tanh approximation of it: weights are trained with one of them.
ACTIVATIONS = {"relu": F.relu, "gelu": F.gelu, "gelu_tanh": partial(F.gelu, approximate="tanh")}
# Gated linear units (Shazeer 2020): a third matrix makes a gate, and only the gate goes through the activation.
GATED = {"swiglu": F.silu, "geglu": F.gelu}


class FeedForward(nn.Module):
    """down(activation(up(x))), or down(activation(gate(x)) · up(x)) with a gated activation.

    Every token goes through alone: no other token is read.

    Args:
        d_model: width of the vectors that come in and go out.
        d_ff: width in between.
        activation: ``"relu"``, ``"gelu"``, ``"gelu_tanh"``, or gated: ``"swiglu"``, ``"geglu"``.
        bias: whether the matrices add a bias.

    Raises:
        TypeError: sizes that are not whole numbers; in ``forward``, another dtype than that of the weights.
        ValueError: sizes below 1, an unknown activation; in ``forward``, another width, NaN or ±∞.
    """

    def __init__(self, d_model: int, d_ff: int, *, activation: str = "gelu", bias: bool = True) -> None:
        super().__init__()
        check_whole_numbers(d_model=d_model, d_ff=d_ff)
        check_switches(bias=bias)
        check_activation(activation)
        gated = activation in GATED
        self.activation = GATED[activation] if gated else ACTIVATIONS[activation]
        self.up = nn.Linear(d_model, d_ff, bias=bias)
        self.gate = nn.Linear(d_model, d_ff, bias=bias) if gated else None
        self.down = nn.Linear(d_ff, d_model, bias=bias)

    def forward(self, x: Float[Tensor, "*tokens d_model"]) -> Float[Tensor, "*tokens d_model"]:
        check_floats("x", x)
        check_alike("x", x, "the weights", self.up.weight)
        if x.ndim == 0 or x.shape[-1] != self.up.in_features:
            raise ValueError(f"x has shape {tuple(x.shape)}; its last axis must be d_model = {self.up.in_features}.")
        check_finite("x", x)
        if self.gate is None:
            return self.down(self.activation(self.up(x)))
        return self.down(self.activation(self.gate(x)) * self.up(x))


def check_activation(activation: object) -> None:
    """Refuse a name that is no activation."""
    check_choice("activation", activation, (*ACTIVATIONS, *GATED))
