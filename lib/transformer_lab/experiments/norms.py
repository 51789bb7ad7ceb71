"""LayerNorm and RMSNorm of numbers that anybody can check, and what BatchNorm makes of one token in several batches."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from transformer_lab.model.norms import LayerNorm, RMSNorm, layer_norm, rms_norm

FEWEST, MOST, LARGEST = 2, 8, 1e9


@dataclass(frozen=True)
class NormSteps:
    """One token through both norms. All vectors are (component,), in double precision.

    ``layer`` and ``rms`` are divided, not yet scaled; ``layer_output`` and ``rms_output`` are what the modules return.
    """

    numbers: Float[Tensor, " component"]
    eps: float
    scale: float
    shift: float
    mean: float
    variance: float
    mean_square: float
    centred: Float[Tensor, " component"]
    layer: Float[Tensor, " component"]
    rms: Float[Tensor, " component"]
    layer_output: Float[Tensor, " component"]
    rms_output: Float[Tensor, " component"]


def read_numbers(text: str) -> tuple[float, ...]:
    """The numbers in a line of text, parted by blanks, commas or semicolons; − and - are both minus.

    Raises:
        ValueError: too few or too many, something that is no number, one that is too large, a comma inside a number;
            the message says which.
    """
    if unclear := re.search(r"\S*\d,\d\S*", text):
        raise ValueError(
            f"{_quoted(unclear[0])} can be read in two ways: write a point for a fraction, a blank between numbers."
        )
    pieces = text.replace(",", " ").replace(";", " ").replace("−", "-").split()
    if not FEWEST <= len(pieces) <= MOST:
        found = "is 1 number" if len(pieces) == 1 else f"are {len(pieces)} numbers"
        raise ValueError(f"There {found}; type {FEWEST} to {MOST}, such as: 3 4 0 5.")
    numbers = []
    for piece in pieces:
        try:
            number = float(piece)
        except ValueError:
            number = math.nan
        if math.isnan(number):
            raise ValueError(f"{_quoted(piece)} is no number; type {FEWEST} to {MOST} numbers, such as: 3 4 0 5.")
        if abs(number) > LARGEST:
            raise ValueError(f"{_quoted(piece)} is too large; stay between −{LARGEST:,.0f} and {LARGEST:,.0f}.")
        numbers.append(number)
    return tuple(numbers)


def _quoted(piece: str) -> str:
    return f"“{piece if len(piece) <= 20 else piece[:19] + '…'}”"


def is_constant(numbers: Sequence[float]) -> bool:
    """Whether all numbers are equal; a variance may miss it by rounding."""
    return len(set(map(float, numbers))) == 1


def norm_steps(numbers: Sequence[float], eps: float = 1e-5, scale: float = 1.0, shift: float = 0.0) -> NormSteps:
    """Both norms of one token, with the same ``scale`` for every component and, in LayerNorm, the same ``shift``.

    Raises:
        ValueError: numbers for which a norm is 0 / 0: with ``eps`` 0, equal ones for LayerNorm, zeros for RMSNorm.
    """
    x = torch.tensor(numbers, dtype=torch.float64)
    centred = x - x.mean()
    variance, mean_square = centred.square().mean().item(), x.square().mean().item()
    if eps == 0 and mean_square == 0:
        raise ValueError(
            "With ε = 0, both norms of zeros are 0 / 0: variance and mean square are 0. Choose a larger ε, or other "
            "numbers."
        )
    if eps == 0 and (variance == 0 or is_constant(numbers)):
        raise ValueError(
            f"With ε = 0, LayerNorm of {'equal numbers' if is_constant(numbers) else 'numbers so small'} is 0 / 0: "
            "their variance is 0. RMSNorm could go on. Choose a larger ε, or another number."
        )
    layer_module, rms_module = LayerNorm(len(x), eps=eps).double(), RMSNorm(len(x), eps=eps).double()
    with torch.no_grad():
        for module in (layer_module, rms_module):
            module.weight.fill_(scale)
        layer_module.bias.fill_(shift)
        layer_output, rms_output = layer_module(x), rms_module(x)
    return NormSteps(
        x, eps, scale, shift, x.mean().item(), variance, mean_square, centred, layer_norm(x, eps), rms_norm(x, eps),
        layer_output, rms_output,
    )  # fmt: skip


@dataclass(frozen=True)
class InBatch:
    """What a batch becomes whose first token is always the same one.

    ``batch_norm`` is ``None`` where torch refuses to train on it.
    """

    batch_size: int
    layer_norm: Float[Tensor, "token component"]
    batch_norm: Float[Tensor, "token component"] | None


@torch.no_grad()
def in_batches(token: Sequence[float], sizes: Sequence[int] = (1, 2, 32), seed: int = 0) -> tuple[InBatch, ...]:
    """The same token first in batches of several sizes, its neighbours drawn at random; BatchNorm in training mode."""
    first = torch.tensor([token], dtype=torch.float32)
    neighbours = torch.randn(max(sizes), len(token), generator=torch.Generator().manual_seed(seed))
    found = []
    for size in sizes:
        batch = torch.cat((first, neighbours[: size - 1]))
        try:
            by_batch = nn.BatchNorm1d(len(token)).train()(batch)
        except ValueError:  # one value a component has no spread
            by_batch = None
        found.append(InBatch(size, LayerNorm(len(token))(batch), by_batch))
    return tuple(found)


@torch.no_grad()
def by_stored_averages(token: Sequence[float], batches: int = 50, seed: int = 0) -> Float[Tensor, " component"]:
    """The token alone, by a BatchNorm in evaluation mode, after many batches of 32 random tokens in training mode."""
    generator = torch.Generator().manual_seed(seed)
    module = nn.BatchNorm1d(len(token)).train()
    for _ in range(batches):
        module(torch.randn(32, len(token), generator=generator))
    return module.eval()(torch.tensor([token], dtype=torch.float32))[0]
