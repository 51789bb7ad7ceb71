"""Compare an expected answer with a given one, and put the first difference into words."""

import math
import numbers
from decimal import Decimal

import torch

Problem = tuple[str, str]  # a title and a sentence


def shape_text(tensor: torch.Tensor, axes: tuple[str, ...] = ()) -> str:
    """``(batch 2, heads 3)`` where the axes are known and fit, else ``(2, 3)``."""
    if len(axes) == tensor.ndim:
        return "(" + ", ".join(f"{name} {size}" for name, size in zip(axes, tensor.shape, strict=True)) + ")"
    return str(tuple(tensor.shape))


def same(first: object, second: object, tolerance: float) -> bool:
    """Whether two answers are the same in kind, shape, dtype and value; NaN equals NaN."""
    if isinstance(first, tuple):
        return (
            isinstance(second, tuple | list)
            and len(first) == len(second)
            and all(same(a, b, tolerance) for a, b in zip(first, second, strict=True))
        )
    if kind_problem(first, second, "output") is not None:
        return False
    if not isinstance(first, torch.Tensor):
        return _close(first, _unwrapped(second), tolerance)
    if (first.shape, first.dtype, first.device) != (second.shape, second.dtype, second.device):
        return False
    return not _differs(first, second.detach(), tolerance).any()


def problem(expected: object, given: object, name: str, axes: tuple[str, ...], tolerance: float) -> Problem | None:
    """The first thing wrong with ``given``: its kind, shape, dtype, a NaN, or a number. None when nothing is."""
    found = kind_problem(expected, given, name)
    if found is not None:
        return found
    if not isinstance(expected, torch.Tensor):
        if same(expected, given, tolerance):
            return None
        return f"The {name} is not right", "You have {}; expected {}.".format(*_figures(_unwrapped(given), expected))
    given = given.detach()
    if given.device != expected.device:
        return (
            f"Device {given.device} for the {name}",
            "Make new tensors where the inputs live, for example with `device=query.device`.",
        )
    if given.shape != expected.shape:
        return _shape_problem(expected, given, name, axes)
    if given.dtype != expected.dtype:
        return f"Dtype {_dtype(given)} in the {name}, not {_dtype(expected)}", _dtype_advice(expected, given)
    differs = _differs(expected, given, tolerance)
    if not differs.any():
        return None
    broken = ~torch.isfinite(given) & torch.isfinite(expected)
    if broken.any():
        first = broken.nonzero()[0].tolist()
        yours, wanted = _figures(given[tuple(first)], expected[tuple(first)])
        return (
            f"NaN or infinity in the {name}",
            f"{int(broken.sum())} of {given.numel()} numbers are not finite, first at {_place(first, axes)}: "
            f"you have {yours}, expected {wanted}. "
            "A softmax over −∞ alone gives NaN; so do 0 · ∞ and ∞ − ∞.",
        )
    first = differs.nonzero()[0].tolist()
    yours, wanted = _figures(given[tuple(first)], expected[tuple(first)])
    return (
        f"The right shape, but other numbers in the {name}",
        f"First difference at {_place(first, axes)}: you have {yours}, expected {wanted}. "
        f"{int(differs.sum())} of {given.numel()} numbers differ. The shape {shape_text(given, axes)} is right.",
    )


def kind_problem(expected: object, given: object, name: str) -> Problem | None:
    """What is wrong with the type or layout of ``given``, before its shape, dtype or any number is looked at."""
    wanted = _kind(expected)
    got = _kind(given)
    title = f"The {name} should be {wanted}, not {got}"
    if isinstance(expected, torch.Tensor):
        if not isinstance(given, torch.Tensor):
            return title, _advice(given, expected)
        if given.is_nested or given.layout != expected.layout:
            kind = "nested" if given.is_nested else "sparse"
            return f"A {kind} tensor for the {name}", "Return a plain tensor, in which every number has its place."
        return None
    given = _unwrapped(given)
    number = isinstance(given, numbers.Number) and not isinstance(given, complex)
    if not number or isinstance(given, bool) != isinstance(expected, bool):
        return f"The {name} should be {wanted}, not {_kind(given)}", f"Give one plain value; this is {_kind(given)}."
    return None


def only_nan(value: object) -> bool:
    """Whether an answer holds NaN and nothing else."""
    if isinstance(value, tuple | list):
        return bool(value) and all(map(only_nan, value))
    if isinstance(value, torch.Tensor):
        return _readable(value) and bool(value.isnan().all())
    return isinstance(value, float) and math.isnan(value)


_CONVERSIONS = {
    "a number": "Something has reduced the tensor to one number, for example `.item()`, `.sum()` or `float(…)`.",
    "None": "Nothing came back. Is the `return` missing on some path?",
}
_ARGMAX = "If they are scores or logits, `argmax(-1)` gives the place of the largest."


def _advice(given: object, expected: torch.Tensor) -> str:
    """How to get from something else to a tensor."""
    if isinstance(given, list):
        return _list_advice(given, expected)
    if _from_numpy(given):
        loss = "; numpy also loses the gradient" if expected.is_floating_point() else ""
        return f"Stay in torch from input to output{loss}."
    return _CONVERSIONS.get(_kind(given), f"Return a tensor of shape {shape_text(expected)}.")


def _list_advice(given: list, expected: torch.Tensor) -> str:
    if not given:
        return f"Your list is empty: nothing was put into it. Return a tensor of shape {shape_text(expected)}."
    if isinstance(given[0], torch.Tensor):
        if len(given) == 1 and given[0].shape == expected.shape:
            return "Return the tensor itself, without the brackets around it."
        return "`torch.stack` joins a list of tensors into one."
    if isinstance(given[0], numbers.Number | list):
        if expected.is_floating_point():
            return "Return the tensor itself; `.tolist()` gives plain numbers, through which no gradient passes."
        return "`torch.tensor(…)` makes a tensor of a list of numbers."
    return f"Return a tensor of shape {shape_text(expected)}; this is a list whose first entry is {_kind(given[0])}."


def _dtype_advice(expected: torch.Tensor, given: torch.Tensor) -> str:
    """How to get from the dtype of ``given`` to that of ``expected``; the shapes are equal."""
    wanted = _dtype(expected)
    if expected.dtype == torch.bool:
        return "A mask stays boolean: True = may attend."
    if not expected.is_floating_point():
        if given.is_floating_point() and not (given == given.round()).all():
            return f"Whole numbers are expected here, and yours have fractions. {_ARGMAX}"
        if given.dtype == torch.bool:
            return "Whole numbers are expected here; a comparison gives True and False."
        return f"Whole numbers are wanted as {wanted}: `.to(torch.{wanted})`, or `dtype=torch.{wanted}` from the start."
    if given.is_floating_point() or given.is_complex():
        return f"Keep the dtype of the inputs, {wanted}; `.double()`, `.half()` or numpy on the way changes it."
    if given.dtype == torch.bool:
        return "Numbers are expected here; a comparison gives True and False."
    return f"The fractions are lost: `.long()`, `argmax` or `//` makes whole numbers. Stay with {wanted}."


def _unwrapped(value: object) -> object:
    """The plain number inside a tensor or a numpy array that holds one; anything else as it is."""
    if isinstance(value, torch.Tensor):
        alone = _readable(value) and value.numel() == 1
    else:
        alone = _from_numpy(value) and getattr(value, "size", 0) == 1
    return value.item() if alone else value


def _readable(tensor: torch.Tensor) -> bool:
    return not tensor.is_nested and tensor.layout == torch.strided and tensor.device.type == "cpu"


def _from_numpy(value: object) -> bool:
    return type(value).__module__.partition(".")[0] == "numpy"


def _close(first: object, second: object, tolerance: float) -> bool:
    try:
        return abs(float(first) - float(second)) <= tolerance
    except OverflowError:  # a whole number that no float can hold
        return first == second


def _kind(value: object) -> str:
    if isinstance(value, torch.Tensor):
        return "a tensor"
    if value is None:
        return "None"
    if isinstance(value, bool):
        return "True or False"
    if isinstance(value, complex):
        return "a complex number"
    if isinstance(value, numbers.Number):
        return "a number"
    if isinstance(value, str):
        return "text"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, tuple):
        return f"a tuple of {len(value)}"
    if _from_numpy(value):
        return "a numpy array"
    return f"a {type(value).__name__}"


def _shape_problem(expected: torch.Tensor, given: torch.Tensor, name: str, axes: tuple[str, ...]) -> Problem:
    if not given.numel():
        return (
            f"Nothing is in the {name}",
            f"You return an empty tensor, of shape {tuple(given.shape)}; expected {shape_text(expected, axes)}.",
        )
    sentence = f"Your shape is {tuple(given.shape)}; expected {shape_text(expected, axes)}."
    whole = not expected.is_floating_point() and expected.dtype != torch.bool
    if whole and given.is_floating_point() and not (given == given.round()).all():
        sentence += f" Whole numbers are expected, and yours are {_dtype(given)} with fractions. {_ARGMAX}"
    elif _goes_on(expected, given):
        sentence += " It begins as expected, and then goes on too long."
    elif _goes_on(given, expected):
        sentence += " It begins as expected, and then stops too early."
    elif sorted(given.shape) == sorted(expected.shape):
        sentence += " The sizes are the same in another order: an axis is swapped."
    elif [n for n in given.shape if n != 1] == [n for n in expected.shape if n != 1]:
        sentence += " Only axes of size 1 differ: look for a missing or extra `unsqueeze`, `squeeze` or `keepdim`."
    elif given.ndim != expected.ndim:
        sentence += f" It has {given.ndim} axes instead of {expected.ndim}."
    return f"You give the {name} another shape", sentence


def _goes_on(short: torch.Tensor, long: torch.Tensor) -> bool:
    """Whether ``long`` is a row of whole numbers that begins with ``short``."""
    row = short.ndim == long.ndim == 1 and not short.is_floating_point() and short.dtype == long.dtype
    return row and len(short) < len(long) and bool((long[: len(short)] == short).all())


def _differs(expected: torch.Tensor, given: torch.Tensor, tolerance: float) -> torch.Tensor:
    if not expected.is_floating_point():
        return expected != given
    return ~torch.isclose(given, expected, rtol=tolerance, atol=tolerance, equal_nan=True)


def _place(index: list[int], axes: tuple[str, ...]) -> str:
    if not index:
        return "its only number"
    if len(axes) != len(index):
        return f"index {index}"
    return ", ".join(f"{name} {i}" for name, i in zip(axes, index, strict=True))


def _figures(given: object, expected: object) -> tuple[str, str]:
    """Both numbers, with as few digits as tell them apart."""
    pair = [value.item() if isinstance(value, torch.Tensor) else value for value in (given, expected)]
    for digits in range(4, 18):
        first, second = (figure(number, digits) for number in pair)
        if first != second:
            break
    return first, second


def figure(number: float, digits: int = 4) -> str:
    """A whole number to the last digit, with commas; any other with so many digits."""
    if isinstance(number, bool):
        return str(number)
    if abs(number) < 10**15 and number == int(number):
        return f"{int(number):,}"
    return f"{Decimal(number):.{digits - 1}e}" if isinstance(number, int) else f"{number:.{digits}g}"


def _dtype(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
