"""Layer normalisation and RMS normalisation: each token's vector is rescaled by its own statistics.

Both look along the last axis alone: never across the sequence, never across the batch.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from transformer_lab.model.checks import (
    check_alike,
    check_choice,
    check_finite,
    check_finite_number,
    check_floats,
    check_switches,
    check_whole_numbers,
)

NORMS = ("layernorm", "rmsnorm")


def layer_norm(x: Float[Tensor, "*tokens d_model"], eps: float = 1e-5) -> Float[Tensor, "*tokens d_model"]:
    """(x − mean) / √(variance + eps), over the components of each token (Ba et al. 2016).

    The variance divides by d_model, not by d_model − 1. Half precision is computed, and returned, in float32.
    """
    x = _wide(x, eps)
    centred = x - x.mean(dim=-1, keepdim=True)
    return centred * _inverse_root("variance", centred.square().mean(dim=-1, keepdim=True), eps, x)


def rms_norm(x: Float[Tensor, "*tokens d_model"], eps: float = 1e-6) -> Float[Tensor, "*tokens d_model"]:
    """x / √(mean of squares + eps), over the components of each token (Zhang & Sennrich 2019). No mean is taken off.

    Half precision is computed, and returned, in float32: float16 cannot hold the square of 300.
    """
    x = _wide(x, eps)
    return x * _inverse_root("mean square", x.square().mean(dim=-1, keepdim=True), eps, x)


class LayerNorm(nn.Module):
    """`layer_norm`, then one learned scale and one learned shift a component.

    Raises:
        TypeError: in ``forward``, an ``x`` that is not float.
        ValueError: a width below 1, a negative ``eps``; in ``forward``, another width or device, NaN or ±∞, squares
            that float32 (or float64) cannot hold, a token that is 0 / 0 because ``eps`` is 0.
    """

    def __init__(self, d_model: int, *, eps: float = 1e-5, bias: bool = True) -> None:
        super().__init__()
        check_whole_numbers(d_model=d_model)
        check_switches(bias=bias)
        check_eps("eps", eps)
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model)) if bias else None

    def forward(self, x: Float[Tensor, "*tokens d_model"]) -> Float[Tensor, "*tokens d_model"]:
        _check_width(x, self.weight)
        scaled = layer_norm(x, self.eps) * self.weight
        return (scaled if self.bias is None else scaled + self.bias).to(x.dtype)


class RMSNorm(nn.Module):
    """`rms_norm`, then one learned scale a component.

    Args:
        unit_offset: the scale is 1 + weight, with weights that start at 0 (Gemma), instead of the weight itself, which
            starts at 1 (Llama, T5). Weights of one kind are wrong in the other.

    Raises:
        TypeError, ValueError: as `LayerNorm`.
    """

    def __init__(self, d_model: int, *, eps: float = 1e-6, unit_offset: bool = False) -> None:
        super().__init__()
        check_whole_numbers(d_model=d_model)
        check_switches(unit_offset=unit_offset)
        check_eps("eps", eps)
        self.eps, self.unit_offset = eps, unit_offset
        self.weight = nn.Parameter(torch.zeros(d_model) if unit_offset else torch.ones(d_model))

    def forward(self, x: Float[Tensor, "*tokens d_model"]) -> Float[Tensor, "*tokens d_model"]:
        _check_width(x, self.weight)
        normed = rms_norm(x, self.eps)
        # 1 + weight in the wide dtype: bfloat16 would round the sum.
        scale = 1 + self.weight.to(normed.dtype) if self.unit_offset else self.weight
        return (normed * scale).to(x.dtype)


def make_norm(name: str, d_model: int, *, eps: float, bias: bool = True) -> LayerNorm | RMSNorm:
    """A norm by its name: ``"layernorm"``, with a shift or without, or ``"rmsnorm"``, which never has one.

    Raises:
        ValueError: another name, or what the norm refuses.
    """
    check_choice("norm", name, NORMS)
    return RMSNorm(d_model, eps=eps) if name == "rmsnorm" else LayerNorm(d_model, eps=eps, bias=bias)


def _wide(x: Tensor, eps: float) -> Tensor:
    check_floats("x", x)
    check_eps("eps", eps)
    if x.ndim == 0 or x.shape[-1] == 0:
        raise ValueError(f"x has shape {tuple(x.shape)}; its last axis holds the components of a token.")
    return x.to(torch.promote_types(x.dtype, torch.float32))


def _inverse_root(name: str, statistic: Tensor, eps: float, x: Tensor) -> Tensor:
    """1 / √(statistic + eps). An overflow is refused, as it would make zeros of the token, and so is 1 / 0."""
    total = statistic + eps
    if total.is_meta or not total.numel():
        return total.rsqrt()
    lowest, highest = total.detach().aminmax()
    if not highest < math.inf:  # NaN compares false too
        check_finite("x", x)
        raise ValueError(
            f"the {name} of x, plus eps = {eps}, grows larger than {x.dtype} can hold, although x is finite. Use a "
            "wider dtype or smaller vectors."
        )
    if lowest < torch.finfo(total.dtype).tiny:  # smaller numbers have lost their digits
        raise ValueError(
            f"eps is {eps} and the {name} of a token is 0, or too small for {x.dtype}: there is nothing to divide by. "
            "Choose a larger eps, such as 1e-5."
        )
    return total.rsqrt()


def check_eps(name: str, eps: object) -> None:
    """Refuse what cannot stand under the root of a norm."""
    check_finite_number(name, eps, "a finite number, 0 or above", lambda number: number >= 0)


def _check_width(x: Tensor, weight: Tensor) -> None:
    check_floats("x", x)
    if x.ndim == 0 or x.shape[-1] != len(weight):
        raise ValueError(f"x has shape {tuple(x.shape)}; its last axis must be d_model = {len(weight)}.")
    check_alike("x", x, "the weights", weight, dtype=False)
