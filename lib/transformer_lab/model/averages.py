"""Averages that leave padding out: over the tokens of a sentence, and over the targets of a batch."""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from transformer_lab.model.checks import check_boolean, check_floats, check_integers, check_shape

IGNORE = -100  # the target of a position that must not count; torch's own default


def masked_mean(
    x: Float[Tensor, "batch length d_model"], mask: Bool[Tensor, "batch 1 1 length"]
) -> Float[Tensor, "batch d_model"]:
    """The mean over the real tokens of each sentence; a sentence without any gives zeros.

    Args:
        mask: True on real tokens, as `padding_mask` and `mask_from_tokens` return it.

    Raises:
        TypeError: a mask that is not boolean, an ``x`` that is not float.
        ValueError: an ``x`` that is not (batch, length, d_model), a mask that is not (batch, 1, 1, length).
    """
    check_floats("x", x)
    check_shape("x", x, batch=None, length=None, d_model=None)
    check_boolean("mask", mask)
    if tuple(mask.shape) != (x.shape[0], 1, 1, x.shape[1]):
        raise ValueError(
            f"mask has shape {tuple(mask.shape)} but x is (batch, length, d_model) = {tuple(x.shape)}; "
            f"it must be (batch, 1, 1, length), as padding_mask and mask_from_tokens return it."
        )
    real = mask[:, 0, 0, :, None]
    # masked_fill, not a product: 0 · NaN at a padded position would still be NaN.
    # Summed in float32 at least: a few large numbers add up to more than half precision holds.
    total = x.masked_fill(~real, 0.0).sum(dim=1, dtype=torch.promote_types(x.dtype, torch.float32))
    return (total / real.sum(dim=1).clamp(min=1)).to(x.dtype)


def masked_cross_entropy(
    logits: Float[Tensor, "batch position vocab"], targets: Int[Tensor, "batch position"]
) -> Float[Tensor, ""]:
    """The mean cross-entropy over the targets that are not `IGNORE`; a batch without any gives 0, with zero gradients.

    torch's own mean divides 0 by 0 there and returns NaN. Labels are not smoothed: a target has the whole mass.

    Raises:
        TypeError: logits that are not float, targets that are not whole numbers.
        ValueError: targets that do not fit the logits, or that name no entry of the vocabulary.
    """
    check_floats("logits", logits)
    check_integers("targets", targets)
    if logits.ndim != 3 or targets.shape != logits.shape[:2]:
        raise ValueError(
            f"logits have shape {tuple(logits.shape)} and targets {tuple(targets.shape)}; "
            "they must be (batch, position, vocab) and (batch, position)."
        )
    counted = targets != IGNORE
    strange = counted & ((targets < 0) | (targets >= logits.shape[-1]))
    if strange.any():
        raise ValueError(
            f"targets hold {targets[strange][0].item()}; each must lie between 0 and vocab − 1 = "
            f"{logits.shape[-1] - 1}, or be IGNORE = {IGNORE}."
        )
    wide = logits.flatten(0, 1).to(torch.promote_types(logits.dtype, torch.float32))  # the sum may be large
    total = F.cross_entropy(wide, targets.flatten().long(), ignore_index=IGNORE, reduction="sum")
    return (total / counted.sum().clamp(min=1)).to(logits.dtype)
