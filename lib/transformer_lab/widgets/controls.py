"""Controls with a visible label, explicit limits and no silent clipping."""

import math
import numbers
from collections.abc import Sequence
from typing import Any

import ipywidgets
import traitlets

_LABEL = {"description_width": "initial"}


def slider(
    label: str, low: float, high: float, value: float, step: float = 1, *, live: bool = True
) -> ipywidgets.IntSlider | ipywidgets.FloatSlider:
    """A slider from ``low`` to ``high``, of whole numbers if limits and step are. ``live=False`` for work above 100 ms.

    Raises:
        ValueError: limits that are not finite or in order, a step that is not positive, a value outside the limits or
            between whole numbers.
    """
    whole = _check_numbers(label, low, high, value, step)
    kind = ipywidgets.IntSlider if whole else ipywidgets.FloatSlider
    return kind(
        description=label,
        min=low,
        max=high,
        value=value,
        step=step,
        continuous_update=live,
        style=_LABEL,
        layout=ipywidgets.Layout(width="24em"),
    )


def stops(label: str, options: Sequence[Any], value: Any) -> ipywidgets.SelectionSlider:
    """A slider that stops at the given values only, each a value or a ``(text, value)`` pair.

    Raises:
        ValueError: no options, or a value that is none of them.
    """
    _check_option(label, options, value)
    return ipywidgets.SelectionSlider(
        description=label, options=list(options), value=value, style=_LABEL, layout=ipywidgets.Layout(width="24em")
    )


def number(
    label: str, low: float, high: float, value: float, step: float = 1
) -> ipywidgets.BoundedIntText | ipywidgets.BoundedFloatText:
    """A box to type a number in; its label states the limits, since the box cuts a larger one down to them."""
    whole = _check_numbers(label, low, high, value, step)
    kind = ipywidgets.BoundedIntText if whole else ipywidgets.BoundedFloatText
    return kind(
        description=f"{label} ({low:,}–{high:,})",
        min=low,
        max=high,
        value=value,
        step=step,
        style=_LABEL,
        layout=ipywidgets.Layout(width="20em"),
    )


def choice(
    label: str, options: Sequence[Any], value: Any = None, *, buttons: bool = False
) -> ipywidgets.Dropdown | ipywidgets.ToggleButtons:
    """One of several options, each a value or a ``(text, value)`` pair; as a row of buttons if they are few.

    Without ``value`` the first option is chosen.

    Raises:
        ValueError: no options, or a value that is none of them.
    """
    if value is None:
        value = next(iter(option_values(options)), None)
    _check_option(label, options, value)
    kind = ipywidgets.ToggleButtons if buttons else ipywidgets.Dropdown
    control = kind(description=label, options=list(options), style=dict(_LABEL))
    control.layout.width = "auto"
    if buttons:
        control.style.button_width = "auto"
        control.layout.display, control.layout.grid_gap = "flex", "0 8px"  # the label beside the buttons
    control.value = value
    return control


def toggle(label: str, value: bool) -> ipywidgets.Checkbox:
    """On or off. Raises ValueError for anything but True and False."""
    if not isinstance(value, bool):
        raise ValueError(f"{label!r} starts at {shorten(repr(value))}; give True or False.")
    return ipywidgets.Checkbox(description=label, value=value, indent=False, layout=ipywidgets.Layout(width="auto"))


def text(label: str, value: str) -> ipywidgets.Text:
    """A line of text, handed over when the learner presses Enter or leaves the box. Raises ValueError for no text."""
    if not isinstance(value, str):
        raise ValueError(f"{label!r} starts at {shorten(repr(value))}; give it as text.")
    return ipywidgets.Text(
        description=label,
        value=value,
        continuous_update=False,
        style=_LABEL,
        layout=ipywidgets.Layout(width="34em"),
    )


class Press(ipywidgets.Button):
    """A button whose ``value`` counts its presses, so that a press is a value like any other."""

    value = traitlets.Int(0)

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.on_click(lambda _: setattr(self, "value", self.value + 1))


def press(label: str) -> Press:
    """A button; ``compute`` receives how often it was pressed."""
    return Press(description=label, layout=ipywidgets.Layout(width="auto"))


def set_range(control: ipywidgets.IntSlider | ipywidgets.FloatSlider, low: float, high: float) -> None:
    """New limits in the order that never leaves the slider with its minimum above its maximum."""
    if not low <= high:
        raise ValueError(f"low is {low} and high is {high}; low must not exceed high.")
    with control.hold_trait_notifications():
        control.min, control.max = low, high


def set_options(control: ipywidgets.Dropdown | ipywidgets.ToggleButtons, options: Sequence[Any]) -> None:
    """New options; the chosen value stays chosen where it still exists, else the last option is."""
    if tuple(control.options) == tuple(options):
        return
    values = option_values(options)
    value = control.value if control.value in values else values[-1]
    control.options = list(options)
    control.value = value


def option_values(options: Sequence[Any]) -> list[Any]:
    """The values of options that are each a value or a ``(text, value)`` pair."""
    return [option[1] if isinstance(option, tuple) else option for option in options]


def shorten(text: str, most: int = 60) -> str:
    """The text, cut to ``most`` characters."""
    return text if len(text) <= most else text[: most - 1] + "…"


def _check_option(label: str, options: Sequence[Any], value: Any) -> None:
    values = option_values(options)
    if not values:
        raise ValueError(f"{label!r} has no options.")
    if value not in values:
        listed = shorten(", ".join(map(repr, values)), 300)
        raise ValueError(f"{label!r} starts at {shorten(repr(value))}; choose one of {listed}.")


def _check_numbers(label: str, low: float, high: float, value: float, step: float) -> bool:
    """Whether the control is one of whole numbers."""
    given = {"low": low, "high": high, "value": value, "step": step}
    if not all(isinstance(number, numbers.Real) and math.isfinite(number) for number in given.values()):
        listed = ", ".join(f"{name} {shorten(repr(number))}" for name, number in given.items())
        raise ValueError(f"{label!r} needs finite numbers; got {listed}.")
    whole = all(isinstance(number, numbers.Integral) for number in (low, high, step))
    if whole and not isinstance(value, numbers.Integral):
        raise ValueError(f"{label!r} starts at {value}; it takes whole numbers.")
    if not low <= value <= high:
        raise ValueError(f"{label!r} starts at {value}, outside its limits {low} … {high}.")
    if step <= 0:
        raise ValueError(f"{label!r} has step {step}; it must be above 0.")
    return whole
