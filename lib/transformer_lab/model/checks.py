"""What the model refuses, and how it says so: the argument, what it received, and the fix.

A wrong kind or dtype is a TypeError, a wrong shape, size, device or value a ValueError.
"""

import math
from collections.abc import Callable, Container, Sequence
from numbers import Integral, Real

import torch
from jaxtyping import Int, Shaped
from torch import Tensor

AnyTensor = Shaped[Tensor, "..."]

CONVENTION = "A mask is boolean and True means 'may attend'."
LAYOUT = "(query, key) or (batch or 1, heads or 1, query or 1, key)"
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)  # torch does no arithmetic with the others
LARGEST = 2**63 - 1  # the largest size that torch counts to


def check_kind(name: str, value: object, kind: type, fix: str) -> None:
    """Refuse what is no ``kind``; True is no number here."""
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise TypeError(f"{name} is {value!r:.40}, a {type(value).__name__}; {fix}.")


def check_tensor(name: str, value: object) -> None:
    """Refuse arrays, lists and None."""
    if not isinstance(value, Tensor):
        raise TypeError(f"{name} is a {type(value).__name__}; it must be a torch tensor: see torch.as_tensor.")


def check_floats(name: str, tensor: object) -> None:
    """Refuse what cannot be mixed: integers, booleans, complex numbers and floats of 8 bits."""
    check_tensor(name, tensor)
    if not tensor.dtype.is_floating_point or tensor.dtype.itemsize < 2:
        raise TypeError(f"{name} has dtype {tensor.dtype}; it must be float of 16, 32 or 64 bits: use .float().")


def check_integers(name: str, tensor: object) -> None:
    """Refuse floats, booleans and what torch cannot count with, where something is counted or numbered."""
    check_tensor(name, tensor)
    if tensor.dtype not in INTEGERS:
        raise TypeError(f"{name} has dtype {tensor.dtype}; it must hold whole numbers torch counts with: use .long().")


def check_boolean(name: str, mask: object) -> None:
    """Refuse a mask of any other convention."""
    if not isinstance(mask, Tensor):
        raise TypeError(f"{name} is a {type(mask).__name__}; pass a boolean torch tensor. {CONVENTION}")
    if mask.dtype != torch.bool:
        raise TypeError(
            f"{name} has dtype {mask.dtype}. {CONVENTION} Convert it with "
            "as_mask(keep=…), as_mask(ignore=…) or as_mask(additive=…)."
        )


def check_whole_numbers(*, least: int | None = 1, most: int | None = LARGEST, **numbers: object) -> None:
    """Refuse sizes that are not whole numbers, below ``least`` or above ``most``."""
    for name, number in numbers.items():
        check_kind(name, number, Integral, "it must be a whole number")
        if least is not None and number < least:
            raise ValueError(f"{name} is {number}; it must be at least {least}.")
        if most is not None and number > most:
            shown = number if number < 2**128 else f"a number of {int(number).bit_length()} bits"
            raise ValueError(f"{name} is {shown}; it must be at most {most}.")


def check_finite_number(name: str, number: object, wanted: str, fits: Callable[[Real], bool]) -> None:
    """Refuse what is no number, too large for a float, or does not fit: ``wanted`` says in words what does."""
    check_kind(name, number, Real, f"it must be {wanted}")
    try:
        finite = math.isfinite(number)
    except OverflowError:
        raise ValueError(f"{name} is larger than a float can hold; it must be {wanted}.") from None
    if not (finite and fits(number)):
        raise ValueError(f"{name} is {number}; it must be {wanted}.")


def check_choice(name: str, value: object, known: Container) -> None:
    """Refuse a name that is not among those ``known``."""
    if not isinstance(value, str) or value not in known:
        raise ValueError(f"{name} is {value!r:.40}; it must be one of {', '.join(map(repr, known))}.")


def check_switches(**switches: object) -> None:
    """Refuse anything but True and False."""
    for name, switch in switches.items():
        check_kind(name, switch, bool, "it must be True or False")


def check_dropout(dropout: object) -> None:
    """Refuse a probability outside 0 … 1."""
    check_kind("dropout", dropout, Real, "it is a probability between 0 and 1")
    if not 0.0 <= dropout <= 1.0:
        raise ValueError(f"dropout is {dropout}; it is a probability between 0 and 1.")


def check_shape(name: str, tensor: object, **sizes: int | None) -> None:
    """Refuse a tensor without exactly these axes, each of its size (None: any), none of them empty."""
    check_tensor(name, tensor)
    fits = tensor.ndim == len(sizes) and all(
        got > 0 and size in (None, got) for got, size in zip(tensor.shape, sizes.values(), strict=True)
    )
    if not fits:
        axes = ", ".join(axis if size is None else f"{axis} = {size}" for axis, size in sizes.items())
        axes += "," * (len(sizes) == 1)
        raise ValueError(f"{name} has shape {tuple(tensor.shape)}; it must be ({axes}), with no axis empty.")


def check_alike(name: str, tensor: AnyTensor, other_name: str, other: AnyTensor, *, dtype: bool = True) -> None:
    """Refuse two tensors that cannot meet: another dtype, or another device."""
    # Inside torch.autocast, torch itself picks the dtype of every product.
    if dtype and tensor.dtype != other.dtype and not _autocast(tensor.device.type):
        raise TypeError(
            f"{name} has dtype {tensor.dtype}, against {other.dtype} for {other_name}; convert one with .to(dtype)."
        )
    if tensor.device != other.device:
        raise ValueError(
            f"{name} is on device {tensor.device}, against {other.device} for {other_name}; move one with .to(device)."
        )


def _autocast(device: str) -> bool:
    return torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)


def check_finite(name: str, tensor: AnyTensor) -> None:
    """Refuse NaN and ±∞; the message shows the value and its place."""
    if not all_finite(tensor):
        place = tuple((~tensor.isfinite()).nonzero()[0].tolist())
        raise ValueError(
            f"{name} holds {tensor[place].item()} at {place}; every output that reads it is spoilt. "
            "Look for the first step that made it (a division by zero, an overflow, an unmasked row of −∞)."
        )


def all_finite(tensor: AnyTensor) -> bool:
    """True when no element is NaN or ±∞ (and on the meta device, where there are no elements)."""
    # One NaN or ∞ makes the sum NaN or ∞, and a sum costs a fifth of a look at every element.
    return tensor.is_meta or bool(tensor.detach().sum().isfinite() or tensor.isfinite().all())


def check_inputs(query: AnyTensor, key: AnyTensor, value: AnyTensor) -> None:
    """Refuse what `transformer_lab.model.attention.attention` cannot mix; each message shows the shapes or the value.

    Raises:
        TypeError: no tensors, dtypes that differ or are not floating-point.
        ValueError: shapes that do not fit each other, a size of 0, several devices, NaN or ±∞.
    """
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        check_tensor(name, tensor)
        check_alike(name, tensor, "query", query)
    check_floats("query", query)
    shapes = f"query {tuple(query.shape)}, key {tuple(key.shape)}, value {tuple(value.shape)}"
    if not query.ndim == key.ndim == value.ndim == 4:
        raise ValueError(f"attention takes (batch, heads, length, d_head) tensors; got {shapes}.")
    if query.shape[0] != key.shape[0] or key.shape[:3] != value.shape[:3]:
        raise ValueError(f"batch sizes must agree, and every key needs one value; got {shapes}.")
    if query.shape[3] != key.shape[3]:
        raise ValueError(f"query and key are compared by dot product, so their widths must agree; got {shapes}.")
    if 0 in (*query.shape, *key.shape, *value.shape):
        raise ValueError(f"there is nothing to attend with: a size is 0 in {shapes}.")
    if query.shape[1] % key.shape[1]:
        raise ValueError(f"the query heads must be a multiple of the key/value heads; got {shapes}.")
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        check_finite(name, tensor)


def check_mask(mask: AnyTensor, scores_shape: Sequence[int], like: AnyTensor) -> None:
    """Refuse a mask that is not boolean, or on the device of ``like``, or does not fit the scores exactly.

    Two dimensions are (query, key). As many as the scores have may be 1 where the scores are larger, except the keys.
    """
    check_boolean("mask", mask)
    _check_fit("mask", mask, scores_shape)
    check_alike("mask", mask, "the scores", like, dtype=False)


def check_bias(bias: AnyTensor, scores_shape: Sequence[int], like: AnyTensor) -> None:
    """Refuse a bias that cannot be meant.

    Raises:
        TypeError: not a float tensor.
        ValueError: a shape or device that does not fit, NaN or +∞, a number that the scores' dtype cannot hold, or
            only 0 and 1, which is a mask in disguise.
    """
    check_tensor("bias", bias)
    if not bias.dtype.is_floating_point:
        raise TypeError(
            f"bias has dtype {bias.dtype}; a bias is a float tensor added to the scores. For a mask use mask=."
        )
    check_floats("bias", bias)
    _check_fit("bias", bias, scores_shape)
    check_alike("bias", bias, "the scores", like, dtype=False)
    if bias.is_meta:
        return
    lowest, highest = bias.detach().aminmax()
    if not highest < torch.inf:  # NaN compares false too
        raise ValueError(f"bias holds {highest.item()}; a bias is finite, or −∞ where it forbids.")
    wide = torch.promote_types(like.dtype, torch.float32)
    if bias.dtype != wide and (lost := bias.isfinite() & bias.to(wide).isinf()).any():
        raise ValueError(f"bias holds {bias[lost][0].item()}, more than {wide} can hold; to forbid, use −∞ or mask=.")
    if lowest == 0 and highest == 1 and ((bias == 0) | (bias == 1)).all():
        raise ValueError(
            "bias holds only 0 and 1: added to the scores it would nudge, not forbid. Pass mask=bias.bool() instead."
        )


def check_rank(name: str, tensor: AnyTensor) -> None:
    """Refuse a mask or bias that has neither two dimensions nor four."""
    if tensor.ndim not in (2, 4):
        hint = f" Insert the head axis: {name}[:, None]." if tensor.ndim == 3 else ""
        raise ValueError(f"{name} has shape {tuple(tensor.shape)}; it must be {LAYOUT}.{hint}")


def _check_fit(name: str, tensor: Tensor, scores_shape: Sequence[int]) -> None:
    shape, wanted = tuple(tensor.shape), tuple(scores_shape)
    if len(wanted) == 4:
        check_rank(name, tensor)
    if len(shape) in (1, 2):
        fits = shape == wanted[-2:]
    else:
        fits = len(shape) == len(wanted) and shape[-1] == wanted[-1] and all(
            size in (1, full) for size, full in zip(shape, wanted, strict=True)
        )
    if not fits:
        axes, layout, hint = "", "or else it has the axes of the scores, each in full or 1, the keys in full.", ""
        if len(wanted) == 4:
            axes, layout = "(batch, heads, query, key) = ", "four mean (batch or 1, heads or 1, query or 1, key)."
            if shape == (wanted[0], wanted[-1]):
                hint = f" It looks like (batch, key): use padding_mask, or {name}[:, None, None, :]."
        raise ValueError(
            f"{name} has shape {shape} but the scores are {axes}{wanted}; "
            f"two dimensions mean (query, key), {layout}{hint}"
        )


def check_overflow(query: AnyTensor, key: AnyTensor, bias: AnyTensor | None, output: AnyTensor) -> None:
    """Refuse finite inputs whose scores or mixed values grow larger than their dtype can hold.

    A row whose scores all fall to −∞ would otherwise pass for a row that may attend to nothing.
    """
    if output.is_meta:
        return
    wide = torch.promote_types(query.dtype, torch.float32)
    fits = all_finite(output)
    # |q · k| ≤ d_head · max|q| · max|k|, and a bias near the limit is moved over it only by scores above max · eps.
    most = math.sqrt(query.shape[-1]) * _largest(query) * _largest(key)
    if fits and most > torch.finfo(wide).max * torch.finfo(wide).eps:
        grouped = query.detach().to(wide).unflatten(1, (key.shape[1], -1)) / math.sqrt(query.shape[-1])
        scores = (grouped @ key.detach().to(wide).mT[:, :, None]).flatten(1, 2)
        fits = all_finite(scores if bias is None else scores + bias.masked_fill(bias.isinf(), 0.0))
    if not fits:
        raise ValueError(
            f"the scores or the mixed values grow larger than {output.dtype} can hold, although query, key and value "
            "are finite. Use smaller vectors or a wider dtype."
        )


def _largest(tensor: Tensor) -> float:
    lowest, highest = tensor.detach().aminmax()
    return max(-lowest.item(), highest.item())


def check_position_ids(ids: Int[Tensor, "..."], batch: int, length: int, like: AnyTensor) -> None:
    """Refuse numbers that are not one whole number from 0 a token, ``(batch or 1, length)``, on the device of ``like``.

    Raises:
        TypeError: a float or boolean tensor.
        ValueError: another shape or device, or a negative number.
    """
    check_integers("position_ids", ids)
    if ids.ndim != 2 or ids.shape[0] not in (1, batch) or ids.shape[1] != length:
        raise ValueError(
            f"position_ids has shape {tuple(ids.shape)}; it must be (batch = {batch} or 1, length = {length}), "
            "one number a token."
        )
    check_alike("position_ids", ids, "the tokens", like, dtype=False)
    if not ids.is_meta and ids.min() < 0:
        raise ValueError(f"position_ids holds {int(ids.min())}; positions are numbered from 0.")
