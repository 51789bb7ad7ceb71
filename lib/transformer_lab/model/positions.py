"""Where a token stands: numbers for the positions, and five ways to let attention see them.

A scheme is one object with three hooks, and overrides the one where it acts:

    add       once, where the embeddings are made         learned, sinusoidal
    rotate    queries and keys, in every attention        RoPE
    bias      the scores, in every attention              ALiBi

`MultiHeadAttention` takes a scheme as ``position=`` and calls ``rotate`` and ``bias``; a model calls ``add``.
"""

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from transformer_lab.model.checks import (
    check_alike,
    check_choice,
    check_finite_number,
    check_floats,
    check_integers,
    check_position_ids,
    check_shape,
    check_tensor,
    check_whole_numbers,
)

LAYOUTS = ("interleaved", "half_split")


class NoPositions(nn.Module):
    """No scheme, and the base of the others: every hook leaves things as they are.

    ``position_ids`` number the tokens from 0, ``(batch or 1, length)``. Left padding: see `position_ids`.
    """

    def add(
        self, x: Float[Tensor, "batch length d_model"], position_ids: Int[Tensor, "#batch length"]
    ) -> Float[Tensor, "batch length d_model"]:
        """Embeddings that know their places; width and length stay."""
        return x

    def rotate(
        self, x: Float[Tensor, "batch heads length d_head"], position_ids: Int[Tensor, "#batch length"]
    ) -> Float[Tensor, "batch heads length d_head"]:
        """Queries or keys that know their places. Values are never rotated."""
        return x

    def bias(
        self, query_ids: Int[Tensor, "#batch query"], key_ids: Int[Tensor, "#batch key"], n_heads: int
    ) -> Float[Tensor, "#batch {n_heads} query key"] | None:
        """What is added to the scaled scores, or ``None``."""
        return None


class LearnedPositions(NoPositions):
    """One trained vector a position, added to the embeddings (Devlin et al. 2018).

    Raises:
        ValueError: a size below 1; in ``add``, a position that has no row.
    """

    def __init__(self, n_positions: int, d_model: int) -> None:
        super().__init__()
        check_whole_numbers(n_positions=n_positions, d_model=d_model)
        self.table = nn.Embedding(n_positions, d_model)

    def add(
        self, x: Float[Tensor, "batch length d_model"], position_ids: Int[Tensor, "#batch length"]
    ) -> Float[Tensor, "batch length d_model"]:
        _check_embeddings(x, position_ids, d_model=self.table.embedding_dim)
        check_alike("x", x, "the learned table", self.table.weight, dtype=False)
        rows = self.table.num_embeddings
        if not position_ids.is_meta and position_ids.max() >= rows:
            raise ValueError(
                f"position {int(position_ids.max())} has no row: the learned table has {rows}, for positions 0 to "
                f"{rows - 1}. Make a longer table and train it, shorten the input, "
                "or choose a scheme that is a formula."
            )
        return x + self.table(position_ids.long())


class SinusoidalPositions(NoPositions):
    """`sinusoids` added to the embeddings (Vaswani et al. 2017, section 3.5); any position, nothing to train."""

    def add(
        self, x: Float[Tensor, "batch length d_model"], position_ids: Int[Tensor, "#batch length"]
    ) -> Float[Tensor, "batch length d_model"]:
        _check_embeddings(x, position_ids)
        return x + sinusoids(position_ids, x.shape[-1], dtype=x.dtype)


class RotaryPositions(NoPositions):
    """RoPE: queries and keys are turned pair by pair, so that a score sees only a distance (Su et al. 2021).

    Args:
        layout: which two components make a pair. Weights trained with one layout need that layout, or
            `convert_rope_layout`. ``"interleaved"``: (0, 1), (2, 3) … as in the paper. ``"half_split"``: component i
            and component i + d_head / 2, as in most published checkpoints.
        base: of the wavelengths, which run from 2π to almost 2π · base.

    Raises:
        ValueError: an unknown layout, a base not above 1; in ``rotate``, an odd ``d_head``.
    """

    def __init__(self, *, layout: str, base: float = 10_000.0) -> None:
        super().__init__()
        check_choice("layout", layout, LAYOUTS)
        check_base("base", base)
        self.layout, self.base = layout, base

    def rotate(
        self, x: Float[Tensor, "batch heads length d_head"], position_ids: Int[Tensor, "#batch length"]
    ) -> Float[Tensor, "batch heads length d_head"]:
        check_floats("x", x)
        check_shape("x", x, batch=None, heads=None, length=None, d_head=None)
        d_head = x.shape[-1]
        if d_head % 2:
            raise ValueError(
                f"d_head is {d_head}; RoPE turns components in pairs, so it must be even. "
                "Change d_model, n_heads or d_head."
            )
        check_position_ids(position_ids, x.shape[0], x.shape[2], x)
        angle = angles(position_ids, d_head, self.base)[:, None]  # (batch, 1, length, pair): the same for every head
        wide = torch.promote_types(x.dtype, torch.float32)
        cos, sin = angle.cos().to(wide), angle.sin().to(wide)
        if self.layout == "interleaved":
            first, second = x[..., 0::2], x[..., 1::2]
        else:
            first, second = x.chunk(2, dim=-1)
        # Turn each pair by its angle: (a, b) → (a cos − b sin, a sin + b cos).
        turned = first * cos - second * sin, first * sin + second * cos
        joined = torch.stack(turned, dim=-1).flatten(-2) if self.layout == "interleaved" else torch.cat(turned, dim=-1)
        return joined.to(x.dtype)


class AlibiPositions(NoPositions):
    """ALiBi: a score loses slope · distance, with one fixed slope a head (Press et al. 2021)."""

    def bias(
        self, query_ids: Int[Tensor, "#batch query"], key_ids: Int[Tensor, "#batch key"], n_heads: int
    ) -> Float[Tensor, "#batch {n_heads} query key"]:
        """−slope · |query position − key position|. Under a causal mask no key lies ahead, as in the paper."""
        distance = places_ahead(query_ids, key_ids).abs()[:, None]  # (batch, 1, query, key): the same for every head
        return -alibi_slopes(n_heads).to(distance.device)[:, None, None] * distance


def position_scheme(name: str, *, d_model: int, n_positions: int, layout: str = "interleaved") -> NoPositions:
    """A scheme by its name: ``"none"``, ``"learned"``, ``"sinusoidal"``, ``"rope"`` or ``"alibi"``.

    Only a learned table needs ``n_positions`` and ``d_model``, and only RoPE has a ``layout``.

    Raises:
        ValueError: another name, or what the scheme refuses.
    """
    makers = {
        "none": NoPositions,
        "learned": lambda: LearnedPositions(n_positions, d_model),
        "sinusoidal": SinusoidalPositions,
        "rope": lambda: RotaryPositions(layout=layout),
        "alibi": AlibiPositions,
    }
    check_choice("name", name, makers)
    return makers[name]()


def places_ahead(
    query_ids: Int[Tensor, "#batch query"], key_ids: Int[Tensor, "#batch key"]
) -> Int[Tensor, "#batch query key"]:
    """How many places each key stands after each query; negative: before it.

    Raises:
        TypeError: numbers that are not whole.
        ValueError: numbers that are not (batch or 1, length), or negative, or on several devices.
    """
    for ids in (query_ids, key_ids):
        check_integers("position_ids", ids)
        check_shape("position_ids", ids, batch=None, length=None)
        check_position_ids(ids, *ids.shape, query_ids)
    return key_ids[:, None, :].long() - query_ids[:, :, None]  # the difference of unsigned bytes would wrap round


def angles(
    position_ids: Int[Tensor, "*ids"], width: int, base: float = 10_000.0
) -> Float[Tensor, "*ids pair"]:
    """p / base^(2i / width), for pair i of ``width`` components at position p.

    In float64: a float32 angle is off by a thousandth at position 20,000.
    """
    pair = torch.arange(0, width, 2, dtype=torch.float64, device=position_ids.device)  # 2i
    return position_ids[..., None] / base ** (pair / width)


def sinusoids(
    position_ids: Int[Tensor, "*ids"], d_model: int, *, dtype: torch.dtype = torch.float32
) -> Float[Tensor, "*ids {d_model}"]:
    """Sines in the even columns, cosines in the odd ones, wavelengths growing from 2π (Vaswani et al. 2017, 3.5).

    PE(p, 2i) = sin(p / 10000^(2i / d_model)), PE(p, 2i + 1) = cos(the same). An odd ``d_model`` ends on a sine.

    Raises:
        ValueError: a width below 1.
    """
    check_integers("position_ids", position_ids)
    check_whole_numbers(d_model=d_model)
    angle = angles(position_ids, d_model)
    pairs = torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(-2)
    return pairs[..., :d_model].to(dtype)


def sinusoidal_table(n_positions: int, d_model: int) -> Float[Tensor, "{n_positions} {d_model}"]:
    """`sinusoids` of the positions 0 … n_positions − 1, one row a position.

    Raises:
        ValueError: a size below 1.
    """
    check_whole_numbers(n_positions=n_positions, d_model=d_model)
    return sinusoids(torch.arange(n_positions), d_model)


def alibi_slopes(n_heads: int) -> Float[Tensor, " {n_heads}"]:
    """2^(−8i / n_heads) for head i = 1 … n_heads: 1/2, 1/4 … 1/256 for eight heads (Press et al. 2021).

    The rule is for powers of two. Other counts follow the authors' code: the slopes of the nearest power of two below,
    then every other slope of twice that power.

    Raises:
        ValueError: no head.
    """
    check_whole_numbers(n_heads=n_heads)
    power = 2 ** int(math.log2(n_heads))

    def slopes(n: int) -> list[float]:
        return [2.0 ** (-8 * i / n) for i in range(1, n + 1)]

    return torch.tensor(slopes(power) + slopes(2 * power)[0::2][: n_heads - power])


def convert_rope_layout(
    weight: Float[Tensor, "width ..."], n_heads: int, *, source: str, target: str
) -> Float[Tensor, "width ..."]:
    """Reorder the rows of a query or key projection, weight or bias, so that scores stay the same in another layout.

    Args:
        weight: ``(heads · d_head, d_model)`` or ``(heads · d_head,)``, trained with the layout ``source``.
        n_heads: heads in ``weight``; for keys under grouped queries, the key/value heads.

    Raises:
        ValueError: an unknown layout, or rows that do not divide into heads of even width.
    """
    check_choice("source", source, LAYOUTS)
    check_choice("target", target, LAYOUTS)
    check_whole_numbers(n_heads=n_heads)
    check_tensor("weight", weight)
    if not weight.ndim or weight.shape[0] % (2 * n_heads):
        raise ValueError(
            f"weight has shape {tuple(weight.shape)}: its rows do not divide into n_heads = {n_heads} even widths."
        )
    if source == target:
        return weight
    # Seen as (heads, pair, 2) the interleaved rows of a pair are neighbours; half-split rows are (heads, 2, pair).
    inner = (-1, 2) if source == "interleaved" else (2, -1)
    return weight.unflatten(0, (n_heads, *inner)).transpose(1, 2).flatten(0, 2)


def position_ids(mask: Bool[Tensor, "batch 1 1 key"]) -> Int[Tensor, "batch key"]:
    """Number the real tokens 0, 1, 2 … whichever side the pads stand on.

    Pads after the last token repeat its number, pads before the first one get 0: they must stay masked.

    Raises:
        ValueError: a mask that is not boolean ``(batch, 1, 1, key)``, as `padding_mask` returns it.
    """
    check_tensor("mask", mask)
    if mask.dtype != torch.bool or mask.ndim != 4 or mask.shape[1:3] != (1, 1):
        raise ValueError(
            f"mask is {mask.dtype} of shape {tuple(mask.shape)}; it must be boolean (batch, 1, 1, key), "
            "as padding_mask and mask_from_tokens return it."
        )
    real = mask[:, 0, 0, :]
    return (real.cumsum(dim=-1) - 1).clamp(min=0)


def _check_embeddings(x: Tensor, position_ids: Tensor, d_model: int | None = None) -> None:
    check_floats("x", x)
    check_shape("x", x, batch=None, length=None, d_model=d_model)
    check_position_ids(position_ids, *x.shape[:2], x)


def check_base(name: str, base: object) -> None:
    """Refuse what cannot be the base of the wavelengths."""
    check_finite_number(name, base, "a finite number above 1", lambda number: number > 1)
