"""The one shell of every widget: controls → compute → picture and sentence.

A widget is four things: named **controls**, ``compute(**values) → result``, a `Picture` class that draws the result,
and ``describe(result) → sentence``. `Explorer` owns everything else: redrawing fast, the alt text, the read-out
under the pointer, the still picture for readers without a kernel, and errors said in words.
"""

import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from html import escape
from typing import Any

import ipywidgets

from transformer_lab.draw import style
from transformer_lab.draw.canvas import Canvas, Picture, Region, Rendering
from transformer_lab.widgets.controls import option_values, press, shorten

_LONGEST_ERROR = 600  # characters: room for a list of words to choose from


class Explorer(ipywidgets.VBox):
    """Controls above a picture above the sentence that says what the picture shows.

    Args:
        compute: takes the controls' values by name, returns a result. What it raises as ``ValueError`` is shown to
            the learner as it stands, so it says what to fix. Anything else it raises is shown as a failure.
        picture: the `Picture` class that draws the result.
        describe: the finding in one or two sentences of plain text, numbers included. Also the picture's alt text.
        controls: the controls by name, each with a visible description. One that others are fitted to stands before
            them; ``rows`` may show them in another order.
        adjust: called with the controls before every ``compute``, to fit one control to another
            (the query tokens to the sentence, say). It may return what the learner should fix; that is shown, and
            the picture is drawn all the same.
        rows: the names of the controls, a row each; without it all stand in one row that wraps.
        folded: rows of rarer controls, which stand folded away below the others.
        reset: whether a button brings the opening values back.

    Attributes:
        result, sentence, png: what is shown now. error: what the caption asks to be fixed, or ``None``.
    """

    def __init__(
        self,
        *,
        compute: Callable[..., Any],
        picture: type[Picture],
        describe: Callable[[Any], str],
        controls: Mapping[str, ipywidgets.Widget] | None = None,
        adjust: Callable[[Mapping[str, ipywidgets.Widget]], str | None] | None = None,
        rows: Sequence[Sequence[str]] | None = None,
        folded: Sequence[Sequence[str]] = (),
        reset: bool = False,
    ) -> None:
        self.controls = dict(controls or {})
        for name, control in self.controls.items():
            if not getattr(control, "description", ""):
                raise ValueError(f"control {name!r} has no description; every control needs a visible label.")
        self._compute, self._describe, self._adjust = compute, describe, adjust
        self._canvas = Canvas(picture)
        self._rendering: Rendering | None = None
        self._held = False
        self.result: Any = None
        self.sentence = ""
        self.error: str | None = None
        self._view = ipywidgets.HTML()
        rows = rows or ([list(self.controls)] if self.controls else [])
        if sorted(name for names in (*rows, *folded) for name in names) != sorted(self.controls):
            raise ValueError(f"rows is {(*rows, *folded)!r}; it must name each of {', '.join(self.controls)} once.")
        lines = [[self.controls[name] for name in names] for names in rows]
        self._opening = self.values
        if reset:
            button = press("Reset")
            button.on_click(lambda _: self.set(**self._opening))
            lines[-1].append(button)
        super().__init__([*map(_row, lines), *self._fold(folded), self._view])
        self.add_class("tl-explorer")
        for control in self.controls.values():
            control.observe(self._on_change, names="value")
        self._refresh()

    @property
    def values(self) -> dict[str, Any]:
        """What the controls hold now."""
        return {name: control.value for name, control in self.controls.items()}

    @property
    def png(self) -> bytes:
        """The picture shown now; empty before the first good one."""
        return self._rendering.png if self._rendering else b""

    @property
    def regions(self) -> tuple[Region, ...]:
        """What the pointer can read on the picture shown now."""
        return self._rendering.regions if self._rendering else ()

    def set(self, **values: Any) -> "Explorer":
        """Move controls by name, as a learner would, and redraw once. A value that does not fit moves nothing.

        Raises:
            ValueError: a name that is no control.
        """
        for name in values:
            if name not in self.controls:
                raise ValueError(
                    f"there is no control {name!r}; the controls are {', '.join(self.controls) or 'none'}."
                )
        before = self.values
        try:
            self._move(values)
        except Exception as error:
            for name, value in before.items():
                with suppress(ValueError):  # what it was fitted to before cannot always be brought back
                    self._move({name: value})
            self._say(_in_words(error))
        else:
            self._refresh()
        return self

    def _move(self, values: Mapping[str, Any]) -> None:
        # In the order of the controls: the others are fitted to one before they are moved themselves.
        with self._holding():
            for name in (name for name in self.controls if name in values):
                _assign(self.controls[name], values[name])
                with suppress(Exception):  # the redraw fits them again, and says what is wrong
                    self._fit()

    def _fold(self, rows: Sequence[Sequence[str]]) -> list[ipywidgets.Accordion]:
        lines = [_row([self.controls[name] for name in names]) for names in rows]
        return [ipywidgets.Accordion([ipywidgets.VBox(lines)], titles=("More settings",))] if lines else []

    def _fit(self) -> str | None:
        with self._holding():
            return self._adjust(self.controls) if self._adjust else None

    @contextmanager
    def _holding(self) -> Iterator[None]:
        held, self._held = self._held, True
        try:
            yield
        finally:
            self._held = held

    def _on_change(self, change: Any) -> None:
        if not self._held:
            self._refresh()

    def _refresh(self) -> None:
        # An exception in a callback is invisible in a notebook, so every one becomes a sentence here.
        try:
            complaint = self._fit()
            result = self._compute(**self.values)
            sentence = self._describe(result)
            if not isinstance(sentence, str) or not sentence.strip():
                raise TypeError(f"the description is {shorten(repr(sentence))}, not a sentence")
            rendering = self._canvas.render(result)
            view = _html(rendering, sentence, complaint and f"<b>Note:</b> {escape(complaint)}")
        except Exception as error:
            self._say(_in_words(error))
        else:
            self.result, self.sentence, self._rendering = result, sentence, rendering
            self.error, self._view.value = complaint, view

    def _say(self, error: str) -> None:
        # The last good picture stays.
        self.error = error
        self._view.value = _html(self._rendering, self.sentence, f"<b>Not drawn:</b> {escape(error)}")

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        """The live widget, and for readers without a kernel the picture and its sentence."""
        bundle = super()._repr_mimebundle_(**kwargs)
        bundle["text/plain"] = self.sentence if self.error is None else self.error
        if self._rendering:
            bundle["image/png"] = base64.b64encode(self.png).decode()
        return bundle


def show(picture: type[Picture], result: Any, sentence: str) -> Explorer:
    """A still figure for a lesson: an `Explorer` without controls, so it has alt text and a stored picture too."""
    return Explorer(compute=lambda: result, picture=picture, describe=lambda _: sentence)


def _row(controls: list[ipywidgets.Widget]) -> ipywidgets.Box:
    layout = ipywidgets.Layout(flex_flow="row wrap", align_items="center", grid_gap="4px 18px", overflow="visible")
    return ipywidgets.Box(controls, layout=layout)


def _assign(control: ipywidgets.Widget, value: Any) -> None:
    refused = f"{control.description}: {shorten(repr(value))} "
    if value is None and None not in option_values(getattr(control, "options", ())):
        raise ValueError(refused + "is not one of its values.")  # a menu would take it as “nothing chosen”
    try:
        control.value = value
        held = bool(control.value == value)
    except Exception:  # whatever a strange value does when it is converted or compared
        raise ValueError(refused + "is not one of its values.") from None
    # A bounded control cuts a value down to its limits without a word.
    if not held:
        limits = f"between {control.min} and {control.max}" if hasattr(control, "min") else "a value it can hold"
        raise ValueError(refused + f"does not fit; choose {limits}.")


def _in_words(error: Exception) -> str:
    """What the caption says: our own advice as it stands, everything else as a failure with its name."""
    said = str(error).strip()
    if isinstance(error, ValueError) and said:
        return shorten(said, _LONGEST_ERROR)
    what = type(error).__name__ + (f": {shorten(said, _LONGEST_ERROR)}" if said else "")
    return f"That could not be computed ({what}). Choose other values."


def _html(rendering: Rendering | None, sentence: str, remark: str | None) -> str:
    size = f"font-size:{15 * style.scale():.0f}px;line-height:1.45;margin:4px 0"
    parts = []
    if rendering:
        name = f"tl-map-{id(rendering)}"
        areas = "".join(
            f'<area shape="rect" coords="{r.left},{r.top},{r.right},{r.bottom}" title="{escape(r.text)}" alt="">'
            for r in rendering.regions
        )
        source = base64.b64encode(rendering.png).decode()
        parts.append(
            f'<div style="overflow-x:auto"><img class="tl-picture" alt="{escape(sentence)}" width="{rendering.width}" '
            f'height="{rendering.height}" usemap="#{name}" src="data:image/png;base64,{source}" '
            f'style="max-width:none;height:{rendering.height}px"><map name="{name}">{areas}</map></div>'
        )
        parts.append(f'<p class="tl-sentence" aria-live="polite" style="{size}">{escape(sentence)}</p>')
    if remark is not None:
        parts.append(
            f'<p class="tl-error" role="alert" style="{size};border-left:4px solid #C24E00;padding-left:8px">'
            f"{remark}</p>"
        )
    return "".join(parts)
