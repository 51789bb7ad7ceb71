"""What a layer refuses, and how it says so: the argument, what it received, and the fix."""

from jaxtyping import Shaped
from torch import Tensor

AnyTensor = Shaped[Tensor, "..."]


def check_inputs(query: AnyTensor, key: AnyTensor, value: AnyTensor, dropout: float) -> None:
    """Refuse what `transformer_lab.model.attention.attention` cannot mix; each message shows the shapes or the value.

    Raises:
        TypeError: dtypes that differ or are not floating-point.
        ValueError: shapes that do not fit each other, a size of 0, NaN or ±∞, a dropout outside 0 … 1.
    """
    shapes = f"query {tuple(query.shape)}, key {tuple(key.shape)}, value {tuple(value.shape)}"
    if not query.ndim == key.ndim == value.ndim == 4:
        raise ValueError(f"attention takes (batch, heads, length, d_head) tensors; got {shapes}.")
    if not query.dtype == key.dtype == value.dtype:
        raise TypeError(
            f"dtypes differ: query {query.dtype}, key {key.dtype}, value {value.dtype}; convert with .to(dtype)."
        )
    if not query.dtype.is_floating_point:
        raise TypeError(f"query, key and value have dtype {query.dtype}; attention mixes floats: use .float().")
    if query.shape[0] != key.shape[0] or key.shape[:3] != value.shape[:3]:
        raise ValueError(f"batch sizes must agree, and every key needs one value; got {shapes}.")
    if query.shape[3] != key.shape[3]:
        raise ValueError(f"query and key are compared by dot product, so their widths must agree; got {shapes}.")
    if 0 in (*query.shape, *key.shape, *value.shape):
        raise ValueError(f"there is nothing to attend with: a size is 0 in {shapes}.")
    if query.shape[1] % key.shape[1]:
        raise ValueError(f"the query heads must be a multiple of the key/value heads; got {shapes}.")
    check_dropout(dropout)
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        check_finite(name, tensor)


def check_dropout(dropout: float) -> None:
    """Refuse a probability outside 0 … 1 with a ValueError."""
    if not 0.0 <= dropout <= 1.0:
        raise ValueError(f"dropout is {dropout}; it is a probability between 0 and 1.")


def check_finite(name: str, tensor: AnyTensor) -> None:
    """Refuse NaN and ±∞ with a ValueError that names the tensor, the value and its place."""
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
