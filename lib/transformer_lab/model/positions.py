"""Where a token stands: vectors that are added to the token's own, and position numbers."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


def sinusoidal_table(n_positions: int, d_model: int) -> Float[Tensor, "position d_model"]:
    """Sines in the even columns, cosines in the odd ones, wavelengths growing from 2π (Vaswani et al. 2017, 3.5).

    PE(p, 2i) = sin(p / 10000^(2i / d_model)), PE(p, 2i + 1) = cos(the same). An odd ``d_model`` ends on a sine.

    Raises:
        ValueError: a size below 1.
    """
    for name, size in (("n_positions", n_positions), ("d_model", d_model)):
        if size < 1:
            raise ValueError(f"{name} is {size}; it must be at least 1.")
    position = torch.arange(n_positions, dtype=torch.float64)[:, None]
    angle = position / 10_000.0 ** (torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    table = torch.empty(n_positions, d_model, dtype=torch.float64)
    table[:, 0::2] = angle.sin()
    table[:, 1::2] = angle.cos()[:, : d_model // 2]
    return table.float()


def position_ids(mask: Bool[Tensor, "batch 1 1 key"]) -> Int[Tensor, "batch key"]:
    """Number the real tokens 0, 1, 2 … whichever side the pads stand on.

    Pads after the last token repeat its number, pads before the first one get 0: they must stay masked.

    Raises:
        ValueError: a mask that is not boolean ``(batch, 1, 1, key)``, as `padding_mask` returns it.
    """
    if mask.dtype != torch.bool or mask.ndim != 4 or mask.shape[1:3] != (1, 1):
        raise ValueError(
            f"mask is {mask.dtype} of shape {tuple(mask.shape)}; it must be boolean (batch, 1, 1, key), "
            "as padding_mask and mask_from_tokens return it."
        )
    real = mask[:, 0, 0, :]
    return (real.cumsum(dim=-1) - 1).clamp(min=0)
