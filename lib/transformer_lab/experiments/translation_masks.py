"""Masks of the source that are wrong, and what they cost a trained translator."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer_lab.experiments.translation import share_right, source_mask, teacher_forced, write_greedily
from transformer_lab.model.families import EncoderDecoder
from transformer_lab.model.masks import combine_masks
from transformer_lab.tasks.translation import Pair
from transformer_lab.tasks.translation_data import PAD_ID, batch


@dataclass(frozen=True)
class CausalSource:
    """Words by whether a causal mask hides the source word they come from: how many are hidden, how many are right."""

    hidden: float
    right_if_hidden: float
    right_if_visible: float


@torch.no_grad()
def causal_source(model: EncoderDecoder, pairs: Sequence[Pair]) -> CausalSource:
    """Lay the target's causal mask on the source, by mistake: word ``i`` reads source words 0 … i only."""
    source, target = batch(pairs)
    with _causal_cross_attention(model):
        right = teacher_forced(model, source, target).argmax(dim=-1) == target[:, 1:]
    found: dict[bool, list[bool]] = {True: [], False: []}
    for pair, row in zip(pairs, right.tolist(), strict=True):
        for place, (comes_from, is_right) in enumerate(zip(pair.alignment, row, strict=False)):
            found[comes_from > place].append(is_right)
    hidden, visible = found[True], found[False]
    return CausalSource(
        len(hidden) / (len(hidden) + len(visible)), sum(hidden) / len(hidden), sum(visible) / len(visible)
    )


@contextmanager
def _causal_cross_attention(model: EncoderDecoder) -> Iterator[None]:
    """The library refuses ``causal=True`` beside a context, so the mistake has to be made behind its back."""

    def add_triangle(module: nn.Module, args: tuple[Tensor, Tensor], kwargs: dict[str, Any]) -> tuple:
        x, context = args
        triangle = torch.ones(x.shape[1], context.shape[1], dtype=torch.bool).tril()
        return args, {**kwargs, "mask": combine_masks(kwargs["mask"], triangle)}

    handles = [
        block.cross_attention.sublayer.register_forward_pre_hook(add_triangle, with_kwargs=True)
        for block in model.decoder.blocks
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@dataclass(frozen=True)
class PaddedSource:
    """Exact match of the same sentences with ever more pads behind them.

    The padding mask is used in both stacks, in one of them, or nowhere.
    """

    pads: tuple[int, ...]
    masked: tuple[float, ...]
    encoder_only: tuple[float, ...]
    cross_only: tuple[float, ...]
    nowhere: tuple[float, ...]


def padded_source(
    model: EncoderDecoder, pairs: Sequence[Pair], pads: Sequence[int] = (0, 6, 12, 18, 24)
) -> PaddedSource:
    """Translate the sentences with extra pads, as if a long sentence were in their batch."""
    found: dict[str, list[float]] = {"masked": [], "encoder_only": [], "cross_only": [], "nowhere": []}
    for extra in pads:
        source = F.pad(batch(pairs)[0], (0, extra), value=PAD_ID)
        mask = source_mask(source)
        for name, encoder, cross in zip(found, (mask, mask, None, None), (mask, None, mask, None), strict=True):
            with torch.no_grad():
                written = write_greedily(model, model.encode(source, mask=encoder), cross)
            found[name].append(share_right(written, pairs))
    return PaddedSource(tuple(pads), **{name: tuple(shares) for name, shares in found.items()})
