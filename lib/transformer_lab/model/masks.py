"""Masks: which query may attend to which key.

One convention everywhere: a mask is **boolean and True means "may attend"**. Two dimensions always mean
``(query, key)``. Four dimensions mean ``(batch or 1, heads or 1, query or 1, key)``. Every other rank is refused,
so a mask can never fit by accident when two sizes happen to be equal. A tensor that is *added* to the scores is
called ``bias`` and is another argument.
"""

import functools
from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from transformer_lab.model.checks import (
    LAYOUT,
    all_finite,
    check_alike,
    check_boolean,
    check_choice,
    check_floats,
    check_integers,
    check_mask,
    check_rank,
    check_shape,
    check_whole_numbers,
)


def causal_mask(
    n_query: int, n_key: int | None = None, *, device: torch.device | str | None = None
) -> Bool[Tensor, "query key"]:
    """Each query may attend to itself and to everything before it.

    With fewer queries than keys the queries are the *last* positions of the sequence, as in decoding with a cache,
    so the triangle is aligned to the bottom right corner.

    Raises:
        ValueError: a size below 1, or more queries than keys.
    """
    return sliding_window_mask(n_query, n_key, window=None, device=device)


def sliding_window_mask(
    n_query: int,
    n_key: int | None = None,
    *,
    window: int | None,
    device: torch.device | str | None = None,
) -> Bool[Tensor, "query key"]:
    """A causal mask that sees only the nearest ``window`` keys, the query's own position included.

    ``window=None`` sees everything before it: the causal mask. Source: Beltagy et al. 2020 (Longformer).

    Raises:
        ValueError: a size or window below 1, or more queries than keys.
    """
    n_key = n_query if n_key is None else n_key
    check_whole_numbers(n_query=n_query, n_key=n_key, window=n_key if window is None else window)
    if n_query > n_key:
        raise ValueError(
            f"n_query is {n_query} but n_key is {n_key}: the queries are the last positions of the keys' sequence, "
            "so there cannot be more of them than keys."
        )
    query_position = torch.arange(n_key - n_query, n_key, device=device)[:, None]
    key_position = torch.arange(n_key, device=device)[None, :]
    keep = key_position <= query_position
    if window is not None:
        keep &= key_position > query_position - window
    return keep


def padding_mask(
    lengths: Int[Tensor, " batch"] | Sequence[int],
    n_key: int,
    *,
    side: str = "right",
    device: torch.device | str | None = None,
) -> Bool[Tensor, "batch 1 1 key"]:
    """True on the real tokens of each sentence, False on its padding, for every head and every query.

    Args:
        lengths: how many real tokens each sentence of the batch has.
        n_key: the padded length.
        side: where the pads stand, ``"right"`` or ``"left"``.

    Raises:
        ValueError: a length outside ``0 … n_key``, an unknown side, or ``lengths`` that is not one-dimensional.
        TypeError: lengths that are not whole numbers.
    """
    try:
        lengths = torch.as_tensor(lengths, device=device)
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(f"lengths is {lengths!r:.40}; it must hold one whole number a sentence.") from None
    if not lengths.numel():
        raise ValueError("lengths is empty; it must hold one number a sentence.")
    check_integers("lengths", lengths)
    check_shape("lengths", lengths, batch=None)
    check_whole_numbers(n_key=n_key)
    if not lengths.is_meta and (lengths.min() < 0 or lengths.max() > n_key):
        raise ValueError(f"lengths are {lengths.tolist()}; each must lie between 0 and n_key = {n_key}.")
    check_choice("side", side, ("right", "left"))
    position = torch.arange(n_key, device=lengths.device)
    if side == "left":
        position = position.flip(0)
    return (position < lengths[:, None])[:, None, None, :]


def mask_from_tokens(tokens: Int[Tensor, "batch key"], pad_id: int) -> Bool[Tensor, "batch 1 1 key"]:
    """True wherever the token is not ``pad_id``, whichever side the pads stand on.

    Raises:
        TypeError: tokens or a ``pad_id`` that are not whole numbers.
        ValueError: tokens that are not (batch, key).
    """
    check_integers("tokens", tokens)
    check_shape("tokens", tokens, batch=None, key=None)
    check_whole_numbers(least=None, pad_id=pad_id)
    return (tokens != pad_id)[:, None, None, :]


def combine_masks(*masks: Bool[Tensor, "..."] | None) -> Bool[Tensor, "..."] | None:
    """A query may attend where *every* given mask lets it; ``None`` entries forbid nothing.

    Two-dimensional masks meet four-dimensional ones as ``(1, 1, query, key)``.

    Raises:
        TypeError: a mask that is not boolean.
        ValueError: a rank other than 2 or 4, sizes that differ and are not 1, or several devices.
    """
    given = [mask for mask in masks if mask is not None]
    for mask in given:
        check_boolean("mask", mask)
        check_rank("mask", mask)
        check_alike("mask", mask, "the first mask", given[0])
    if not given:
        return None
    shapes = [tuple(mask.shape) for mask in given]
    try:
        whole = torch.broadcast_shapes(*shapes)
        # Keys never broadcast, and two dimensions are (query, key) in full.
        fits = all(shape[-1] == whole[-1] and (len(shape) == 4 or shape == whole[-2:]) for shape in shapes)
    except RuntimeError:
        fits = False
    if not fits:
        raise ValueError(f"masks of shapes {shapes} do not fit each other; a mask is {LAYOUT}.")
    return functools.reduce(torch.logical_and, given)


def as_mask(
    *,
    keep: Bool[Tensor, "*shape"] | None = None,
    ignore: Bool[Tensor, "*shape"] | None = None,
    additive: Float[Tensor, "*shape"] | None = None,
) -> Bool[Tensor, "*shape"]:
    """Translate another convention into ours (True = may attend). Say which one you hold, by name.

    Args:
        keep: True = may attend (``scaled_dot_product_attention``).
        ignore: True = is ignored (``nn.MultiheadAttention``'s masks).
        additive: 0 = may attend, −∞ (or the dtype's lowest number) = is ignored.

    Raises:
        TypeError: not exactly one argument, a ``keep``/``ignore`` that is not boolean, an ``additive`` not float.
        ValueError: an additive mask with any other value; a 0/1 mask would only nudge the scores.
    """
    if sum(mask is not None for mask in (keep, ignore, additive)) != 1:
        raise TypeError("as_mask takes exactly one of keep=, ignore= and additive=: say which convention you hold.")
    if additive is None:
        mask = keep if ignore is None else ignore
        check_boolean("mask", mask)
        return mask if ignore is None else ~mask
    if isinstance(additive, Tensor) and not additive.is_floating_point():
        raise TypeError(f"additive has dtype {additive.dtype}; it must be float. For a 0/1 mask pass keep=mask.bool().")
    check_floats("additive", additive)
    allowed, forbidden = additive == 0, additive <= torch.finfo(additive.dtype).min
    if not (allowed | forbidden).all():
        other = additive[~(allowed | forbidden)][0].item()
        fix = "For a 0/1 mask pass keep=mask.bool()" if other > 0 else "If 0 = may attend, pass keep=additive == 0"
        raise ValueError(
            f"additive holds {other}, which is neither 0 nor −∞; added to the scores it would nudge, not forbid. "
            f"{fix}."
        )
    return allowed


def masked_softmax(
    scores: Float[Tensor, "*rows key"], mask: Bool[Tensor, "..."] | None = None
) -> Float[Tensor, "*rows key"]:
    """Softmax over the keys that ``mask`` allows; a row with no key at all becomes zeros, with zero gradients.

    Half precision is exponentiated in float32 and returned in its own dtype.

    Raises:
        TypeError: scores that are not float, a mask that is not boolean.
        ValueError: scores without keys, or a mask that is neither (query, key) nor has the scores' axes.
    """
    check_floats("scores", scores)
    if not scores.ndim or not scores.numel():
        raise ValueError(f"scores has shape {tuple(scores.shape)}; it must end on at least one key.")
    dtype = scores.dtype
    scores = scores.to(torch.promote_types(dtype, torch.float32))
    if mask is not None:
        check_mask(mask, scores.shape, scores)
        if not all_finite(scores):  # NaN and +∞ would outlive the sum below
            scores = scores.masked_fill(~mask, 0.0)
        # Adding −∞ forbids just as filling with it does, and the gradient passes a sum without being copied.
        scores = scores + torch.zeros_like(mask, dtype=scores.dtype).masked_fill(~mask, -torch.inf)
    # A row of −∞ alone has no softmax: it is 0/0. Give it harmless scores, then zero the outcome.
    empty = scores.detach().amax(dim=-1, keepdim=True) == -torch.inf
    if not scores.is_meta and not empty.any():  # the common case, spared two copies of the scores
        return scores.softmax(dim=-1).to(dtype)
    return scores.masked_fill(empty, 0.0).softmax(dim=-1).masked_fill(empty, 0.0).to(dtype)
