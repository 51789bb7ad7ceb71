"""The shell of every widget: what it shows, what it says when something goes wrong, and what it never does."""

import base64
import gc
import html
import io
import re
import weakref
from itertools import pairwise
from types import SimpleNamespace

import ipywidgets
import matplotlib.pyplot as plt
import nbformat
import numpy as np
import pytest
import torch
from nbclient import NotebookClient
from PIL import Image

from transformer_lab.draw import style
from transformer_lab.draw.canvas import Picture, region
from transformer_lab.widgets import controls
from transformer_lab.widgets.explorer import Explorer, show

WIDTH, HEIGHT = 300, 200  # data units of Bars, a hundred to the inch


class Bars(Picture):
    """As many bars as the result says, one of them amber; counts how often it is built."""

    built = 0

    def __init__(self, figure, result):
        type(self).built += 1
        if result.broken == "build":
            raise RuntimeError("no room for the bars")
        self.axes = figure.add_axes((0, 0, 1, 1))
        self.axes.set(xlim=(0, WIDTH), ylim=(0, HEIGHT))
        self.axes.axis("off")
        self.bars = self.axes.bar(range(25, 25 + 50 * result.n, 50), [100] * result.n, width=40, animated=True)

    @staticmethod
    def size(result):
        return (WIDTH if result.n <= 3 else 2 * WIDTH) / 100, HEIGHT / 100

    @staticmethod
    def layout(result):
        return result.n

    def update(self, result):
        for i, bar in enumerate(self.bars):
            bar.set_facecolor(style.ACCENT if i == result.chosen else style.QUERY)
            if result.broken == "update" and i == 1:
                bar.set_height(180)  # no later update would put this right
                raise RuntimeError("the second bar is stuck")

    def regions(self, result):
        return [
            region(self.axes, (5 + 50 * i, 45 + 50 * i), (0, 100), result.label.format(i + 1)) for i in range(result.n)
        ]


def compute(n=3, chosen=1, label="bar {}", broken="no"):
    if broken == "advice":
        raise ValueError("choose “no” again")
    if isinstance(broken, Exception):
        raise broken
    return SimpleNamespace(n=n, chosen=chosen - 1, label=label, broken=broken)


def describe(result):
    return f"Bar {result.chosen + 1} of {result.n} is amber."


def bars(**changes):
    """A widget over `Bars`; ``chosen`` is kept within ``n``."""

    def adjust(found):
        controls.set_range(found["chosen"], 1, found["n"].value)

    given = {
        "controls": {
            "n": controls.slider("bars", 1, 5, 3),
            "chosen": controls.slider("amber bar", 1, 3, 1),
            "broken": controls.choice("break", ("no", "advice", "build", "update")),
        },
        "compute": compute,
        "picture": Bars,
        "describe": describe,
        "adjust": adjust,
    }
    return Explorer(**given | changes)


def fault(error):
    """A widget that shows a picture and then meets ``error``."""
    widget = bars(controls={"broken": controls.choice("break", [("no", "no"), ("yes", error)])}, adjust=None)
    return widget.set(broken=error)


def pixels(png):
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB")).astype(int)


def shown(widget):
    """The HTML the browser gets."""
    return widget.children[-1].value


def image_tag(widget):
    return re.search(r"<img [^>]*>", shown(widget))[0]


@pytest.fixture
def projector():
    yield lambda: style.use("projector")
    style.use("screen")


# What is shown.


def test_the_picture_and_its_sentence_are_shown():
    widget = bars()
    assert widget.error is None and widget.sentence == "Bar 1 of 3 is amber." and widget.result.n == 3
    assert base64.b64encode(widget.png).decode() in shown(widget)
    assert f">{widget.sentence}</p>" in shown(widget) and "tl-error" not in shown(widget)
    assert widget.sentence in image_tag(widget)


def test_the_sentence_is_the_alt_text_and_both_are_escaped():
    sentence = """<script>alert("1")</script> & 'a' < "b" """
    widget = bars(describe=lambda result: sentence)
    assert "<script" not in shown(widget)
    alt = re.search(r'alt="([^"]*)" width', image_tag(widget))[1]
    assert html.unescape(alt) == sentence
    assert html.unescape(re.search(r'<p class="tl-sentence"[^>]*>([^<]*)</p>', shown(widget))[1]) == sentence


def test_every_region_is_an_area_over_what_it_names():
    widget = bars(compute=lambda n, chosen, broken: compute(n, chosen, label='“{}” < "&"'))
    areas = re.findall(r'<area shape="rect" coords="([^"]*)" title="([^"]*)"', shown(widget))
    assert [html.unescape(title) for _, title in areas] == ['“1” < "&"', '“2” < "&"', '“3” < "&"']
    assert [tuple(map(int, corners.split(","))) for corners, _ in areas] == [
        (r.left, r.top, r.right, r.bottom) for r in widget.regions
    ]
    (used,), (named,) = (
        re.findall(r'usemap="#([^"]*)"', shown(widget)),
        re.findall(r'<map name="([^"]*)"', shown(widget)),
    )
    assert used == named
    size = Image.open(io.BytesIO(widget.png)).size
    assert f'width="{size[0]}" height="{size[1]}"' in image_tag(widget)  # areas count pixels of the picture
    for i, r in enumerate(widget.regions):
        inside = pixels(widget.png)[(r.top + r.bottom) // 2, (r.left + r.right) // 2]
        expected = style.ACCENT if i == widget.result.chosen else style.QUERY
        np.testing.assert_array_equal(inside, [int(expected[k : k + 2], 16) for k in (1, 3, 5)])


def test_two_pictures_on_one_page_have_maps_of_their_own():
    first, second = bars(), bars()
    names = [re.search(r'<map name="([^"]*)"', shown(widget))[1] for widget in (first, second)]
    assert names[0] != names[1]


def test_the_bundle_has_the_live_widget_the_picture_and_the_sentence():
    widget = bars()
    bundle = widget._repr_mimebundle_()
    assert bundle["application/vnd.jupyter.widget-view+json"]["model_id"] == widget.model_id
    assert base64.b64decode(bundle["image/png"]) == widget.png
    assert bundle["text/plain"] == widget.sentence


def test_after_an_error_the_bundle_keeps_the_picture_and_says_what_to_fix():
    widget = bars().set(broken="advice")
    bundle = widget._repr_mimebundle_()
    assert base64.b64decode(bundle["image/png"]) == widget.png != b""
    assert bundle["text/plain"] == "choose “no” again" and "application/vnd.jupyter.widget-view+json" in bundle


def test_without_a_picture_there_is_a_sentence_in_its_place():
    widget = bars(compute=lambda **_: compute(broken="advice"))
    assert (widget.png, widget.regions, widget.result, widget.sentence) == (b"", (), None, "")
    assert widget.error == "choose “no” again" and widget.error in shown(widget) and "<img" not in shown(widget)
    bundle = widget._repr_mimebundle_()
    assert "image/png" not in bundle and bundle["text/plain"] == widget.error
    assert "application/vnd.jupyter.widget-view+json" in bundle


def test_a_still_figure_has_all_of_it_and_no_controls():
    still = show(Bars, compute(2, 2), "Two bars.")
    assert still.controls == {} and len(still.children) == 1
    bundle = still._repr_mimebundle_()
    assert bundle["text/plain"] == "Two bars." and bundle["image/png"] and 'alt="Two bars."' in image_tag(still)
    assert len(still.regions) == 2


# When something goes wrong.


def test_an_error_keeps_the_last_good_picture_and_says_what_to_fix():
    widget = bars().set(chosen=2)
    before = widget.png, widget.sentence, widget.result, widget.regions, image_tag(widget)
    widget.set(broken="advice")
    assert widget.error == "choose “no” again"
    assert f"</b> {widget.error}</p>" in shown(widget) and 'role="alert"' in shown(widget)
    assert (widget.png, widget.sentence, widget.result, widget.regions, image_tag(widget)) == before


def test_a_good_value_after_an_error_is_drawn_and_the_error_is_gone():
    widget = bars().set(broken="advice")
    widget.set(broken="no", chosen=3)
    assert widget.error is None and "tl-error" not in shown(widget)
    assert widget.png == bars().set(chosen=3).png and widget.sentence == "Bar 3 of 3 is amber."


@pytest.mark.case("W01")
@pytest.mark.parametrize(
    "error", [RuntimeError("boom"), KeyError("boom"), TypeError("boom"), ZeroDivisionError("boom")]
)
def test_an_exception_in_a_callback_becomes_a_sentence(error):
    widget = bars(controls={"broken": controls.choice("break", [("no", "no"), ("yes", error)])}, adjust=None)
    png = widget.png
    widget.controls["broken"].index = 1  # as the browser does
    assert widget.error == f"That could not be computed ({type(error).__name__}: {error}). Choose other values."
    assert html.escape(widget.error) in shown(widget) and widget.png == png
    widget.controls["broken"].index = 0
    assert widget.error is None


@pytest.mark.case("W01")
def test_an_exception_behind_a_button_becomes_a_sentence():
    def on_press(pressed):
        if pressed == 1:
            raise RuntimeError("boom")
        return compute()

    widget = bars(controls={"pressed": controls.press("Go")}, compute=on_press, adjust=None)
    widget.controls["pressed"].click()
    assert "boom" in widget.error
    widget.controls["pressed"].click()
    assert widget.error is None


def raising(*_, **__):
    raise RuntimeError("boom")


@pytest.mark.parametrize("part", ["compute", "describe", "adjust"])
def test_an_exception_anywhere_in_a_widget_becomes_a_sentence(part):
    widget = bars(**{part: raising})
    assert widget.error == "That could not be computed (RuntimeError: boom). Choose other values."
    widget.set(n=2)
    assert "RuntimeError: boom" in widget.error and widget.values["n"] == 2


@pytest.mark.parametrize("sentence", [None, "", "  ", 3])
def test_a_description_that_says_nothing_is_an_error(sentence):
    widget = bars(describe=lambda result: describe(result) if result.n == 3 else sentence)
    before = widget.png, widget.sentence
    widget.set(n=4)
    assert f"the description is {sentence!r}, not a sentence" in widget.error
    assert (widget.png, widget.sentence) == before


def test_a_region_that_says_nothing_is_an_error():
    class Silent(Bars):
        def regions(self, result):
            return [region(self.axes, (0, 1), (0, 1), None)]

    assert "That could not be computed" in bars(picture=Silent).error


@pytest.mark.parametrize("error", [ValueError(), ValueError("  "), RuntimeError(), KeyError()])
def test_an_error_without_words_gets_some(error):
    assert fault(error).error == f"That could not be computed ({type(error).__name__}). Choose other values."


@pytest.mark.parametrize("kind", [ValueError, RuntimeError])
def test_a_long_error_is_cut(kind):
    widget = fault(kind("word " * 20_000))
    assert 500 < len(widget.error) < 700 and "…" in widget.error


def test_what_to_fix_may_be_said_beside_a_new_picture():
    def adjust(found):
        return "Two bars are enough." if found["n"].value > 2 else None

    widget = bars(adjust=adjust).set(n=4)
    assert widget.error == "Two bars are enough." and widget.result.n == 4 and len(widget.regions) == 4
    assert "<b>Note:</b> Two bars are enough." in shown(widget) and "Not drawn" not in shown(widget)
    assert widget.set(n=2).error is None


# Moving controls.


def test_a_move_redraws_once():
    calls = []
    widget = bars(compute=lambda **values: calls.append(values) or compute(**values))
    widget.set(n=5, chosen=5)
    assert calls[1:] == [{"n": 5, "chosen": 5, "broken": "no"}]


@pytest.mark.parametrize(
    "wrong", [{"n": 6}, {"n": None}, {"chosen": 4}, {"n": 2, "chosen": 3}, {"broken": "x"}, {"n": 5, "broken": None}]
)
def test_set_moves_everything_or_nothing(wrong):
    widget = bars().set(chosen=2)
    before = widget.values, widget.png, widget.sentence
    assert widget.set(**wrong).error
    assert (widget.values, widget.png, widget.sentence) == before
    assert (widget.controls["chosen"].min, widget.controls["chosen"].max) == (1, 3)
    assert widget.set().error is None


@pytest.mark.parametrize("names", [("n", "chosen"), ("chosen", "n")])
def test_the_order_of_the_names_does_not_matter(names):
    widget = bars().set(n=1)
    widget.set(**{name: 5 for name in names})
    assert widget.error is None and widget.values == {"n": 5, "chosen": 5, "broken": "no"}


def test_a_move_back_that_no_longer_fits_still_ends_in_a_sentence():
    """The menu was fitted to a text that another, unreadable one replaced since: the old choice has no way back."""
    read = "abc"

    def adjust(found):
        nonlocal read
        if found["word"].value.isalpha():
            read = found["word"].value
        controls.set_options(found["letter"], tuple(read))

    widget = bars(
        controls={"word": controls.text("Word", "abc"), "letter": controls.choice("Letter", tuple("abc"), "c")},
        compute=lambda word, letter: compute(),
        adjust=adjust,
    )
    widget.controls["word"].value = "12"
    widget.set(word="xy", letter="c")
    assert "Letter: 'c' is not one of its values" in widget.error
    assert widget.values["letter"] in widget.controls["letter"].options
    assert widget.set(letter="x").error is None


def test_an_unknown_control_is_named_with_the_known_ones():
    widget = bars()
    before = widget.values
    with pytest.raises(ValueError, match="there is no control 'm'; the controls are n, chosen, broken"):
        widget.set(n=2, m=3)
    assert widget.values == before
    with pytest.raises(ValueError, match="there is no control 'n'; the controls are none"):
        show(Bars, compute(), "Bars.").set(n=2)


def test_a_control_without_a_label_is_refused():
    with pytest.raises(ValueError, match="control 'n' has no description"):
        bars(controls={"n": ipywidgets.IntSlider()}, adjust=None)


def test_every_control_stands_in_one_row():
    assert [
        [c.description for c in row.children] for row in bars(rows=(("broken", "n"), ("chosen",))).children[:-1]
    ] == [
        ["break", "bars"],
        ["amber bar"],
    ]
    for rows in ((("n", "chosen"),), (("n", "chosen", "broken", "n"),), (("n", "chosen", "m"),)):
        with pytest.raises(ValueError, match="it must name each of n, chosen, broken once"):
            bars(rows=rows)


def test_rarer_controls_are_folded_away_and_still_drive_the_picture():
    widget = bars(rows=(("n",),), folded=(("chosen",), ("broken",)))
    row, fold, _ = widget.children
    assert [control.description for control in row.children] == ["bars"]
    assert [[c.description for c in line.children] for line in fold.children[0].children] == [["amber bar"], ["break"]]
    assert fold.titles == ("More settings",) and fold.selected_index is None
    before = widget.png
    assert widget.set(chosen=3).png != before
    with pytest.raises(ValueError, match="it must name each of n, chosen, broken once"):
        bars(rows=(("n", "chosen"),), folded=(("chosen", "broken"),))


def test_reset_brings_the_opening_back():
    widget = bars(reset=True)
    png, values = widget.png, widget.values
    widget.set(n=5, chosen=5, broken="advice")
    (button,) = [control for control in widget.children[0].children if control.description == "Reset"]
    button.click()
    assert widget.error is None and (widget.png, widget.values) == (png, values)


class Strange:
    def __repr__(self):
        raise RuntimeError("no words")


STRANGE = {
    "None": None,
    "not a number": float("nan"),
    "infinite": float("inf"),
    "fraction": 2.5,
    "text": "2",
    "empty": "",
    "list": [2],
    "several numbers": torch.tensor([1, 2]),
    "array": np.arange(3),
    "without words": Strange(),
    "long": "z" * 100_000,
}
KINDS = {
    "slider": lambda: controls.slider("amount", 0, 10, 3),
    "stops": lambda: controls.stops("amount", (1, 3), 3),
    "number": lambda: controls.number("amount", 0, 10, 3),
    "choice": lambda: controls.choice("amount", (1, 3), 3),
    "buttons": lambda: controls.choice("amount", (1, 3), 3, buttons=True),
    "toggle": lambda: controls.toggle("amount", True),
    "press": lambda: controls.press("amount"),
}


@pytest.mark.case("W05")
@pytest.mark.parametrize("value", STRANGE.values(), ids=STRANGE)
@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_a_strange_value_moves_nothing_and_is_named(make, value):
    control = make()
    widget = bars(controls={"amount": control}, compute=lambda amount: compute(), adjust=None)
    before = control.value
    widget.set(amount=value)
    assert "amount" in widget.error or "no words" in widget.error
    assert len(widget.error) < 200 and control.value == before and type(control.value) is type(before)


def test_a_menu_may_offer_none():
    menu = controls.choice("mask", [("causal", "causal"), ("no mask", None)], "causal")
    widget = bars(controls={"mask": menu}, compute=lambda mask: compute(chosen=1 if mask else 2), adjust=None)
    assert widget.set(mask=None).error is None and widget.result.chosen == 1


@pytest.mark.case("W05")
def test_what_a_number_box_shows_is_what_is_computed():
    """Typed decimals reach a box of whole numbers from the browser; text that is no number is refused there."""
    for make in (controls.number, controls.slider):
        heard = []
        control = make("amount", 0, 10, 3)
        bars(controls={"amount": control}, compute=lambda amount: heard.append(amount) or compute(), adjust=None)  # noqa: B023
        control.value = 4.7
        assert heard[-1] == control.value == 4
        for typed in ("abc", ""):
            with pytest.raises(Exception, match="amount|value"):
                control.value = typed
            assert heard[-1] == control.value == 4


@pytest.mark.case("W03")
@pytest.mark.parametrize("make", [controls.slider, controls.number])
def test_a_value_beyond_the_limits_is_never_cut_down_in_silence(make):
    widget = bars(controls={"d_model": make("d_model", 1, 100, 64)}, compute=lambda d_model: compute(), adjust=None)
    widget.set(d_model=512)
    assert "512 does not fit; choose between 1 and 100" in widget.error and widget.values == {"d_model": 64}


def test_fitting_one_control_to_another_does_not_loop():
    fitted, computed = [], []

    def adjust(found):
        fitted.append(found["n"].value)
        found["chosen"].value = 1 + found["chosen"].value % 3  # moves a control every time it is asked

    widget = bars(adjust=adjust, compute=lambda **values: computed.append(values) or compute(**values))
    fitted.clear()
    computed.clear()
    widget.controls["n"].value = 5
    assert len(fitted) == len(computed) == 1 and computed[0] == widget.values
    widget.set(n=4)
    assert len(computed) == 2 and computed[1] == widget.values


# Drawing.


def test_it_is_built_again_only_for_another_layout_size_or_style(projector):
    class Counted(Bars):
        built = 0
        wide = WIDTH / 100

        @classmethod
        def size(cls, result):
            return cls.wide, HEIGHT / 100

    widget = bars(picture=Counted)
    for chosen in (2, 3, 1):
        widget.set(chosen=chosen)
    widget.set(broken="advice")
    widget.set(broken="no")
    assert Counted.built == 1
    widget.set(n=4)
    assert Counted.built == 2
    projector()
    widget.set()
    assert Counted.built == 3
    widget.set()
    assert Counted.built == 3
    Counted.wide += 1
    widget.set()
    assert Counted.built == 4


def test_a_projector_redraws_larger_in_mid_life(projector):
    widget = bars()
    small = widget.set(chosen=2).png
    areas = [(r.left, r.top, r.right, r.bottom) for r in widget.regions]
    text = int(re.search(r"font-size:(\d+)px", shown(widget))[1])
    projector()
    widget.set(chosen=3).set(chosen=2)
    assert pixels(widget.png).shape[:2] == tuple(round(1.5 * side) for side in pixels(small).shape[:2])
    assert int(re.search(r"font-size:(\d+)px", shown(widget))[1]) == pytest.approx(1.5 * text, abs=1)
    larger = [(r.left, r.top, r.right, r.bottom) for r in widget.regions]
    assert np.abs(np.array(larger) - 1.5 * np.array(areas)).max() <= 1
    style.use("screen")
    assert widget.set().png == small


@pytest.mark.parametrize("where", ["update", "build"])
@pytest.mark.parametrize("n", [3, 4])
def test_a_failed_drawing_leaves_no_trace_in_the_next(where, n):
    """Half an update, or half a new figure, must not be the background of a later picture."""
    widget = bars().set(chosen=2)
    png = widget.png
    broken = bars().set(broken=where, n=n, chosen=1)
    assert broken.png == bars().png
    widget.set(broken=where, n=n, chosen=1)
    if where == "update" or n == 4:  # three bars are built already
        assert "RuntimeError" in widget.error and widget.png == png
    widget.set(broken="no", n=3, chosen=3)
    assert widget.error is None and widget.png == bars().set(chosen=3).png
    assert widget.set(chosen=2).png == png


def test_an_update_shows_what_a_new_widget_would():
    widget = bars()
    for n, chosen in ((5, 5), (2, 1), (3, 2), (3, 3), (5, 1)):
        widget.set(n=n, chosen=chosen)
        assert widget.png == bars().set(n=n, chosen=chosen).png
    for before, after in pairwise(bars().set(chosen=chosen).png for chosen in (1, 2, 3)):
        assert before != after


def test_two_widgets_do_not_know_of_each_other():
    first, second = bars(), bars()
    before = second.png, second.values, shown(second)
    first.set(n=5, chosen=4).set(broken="update")
    assert (second.png, second.values, shown(second)) == before and second.error is None
    second.set(chosen=3)
    assert first.error and first.result.n == 5


def test_a_figure_that_is_built_anew_replaces_the_last():
    """Widgets live as long as their kernel: 20 new layouts may not leave 20 figures behind."""
    widget, figures = bars(), []
    for turn in range(20):
        widget.set(n=1 + turn % 5)
        figures.append(weakref.ref(widget._canvas._figure))
    gc.collect()
    assert sum(figure() is not None for figure in figures) == 1


@pytest.mark.case("W09")
def test_no_figure_is_left_open(recwarn):
    widget = bars()
    for turn in range(30):
        widget.set(n=1 + turn % 5)
    for _ in range(30):
        show(Bars, compute(), "Bars.")
    assert plt.get_fignums() == [] and not recwarn.list


@pytest.mark.case("W10")
def test_a_cell_stores_exactly_one_picture():
    lines = (
        "from transformer_lab.lesson import begin\nbegin()",
        "from transformer_lab.widgets.pairs import pairs_explorer\nlab = pairs_explorer()\nlab",
        "lab.set(n_tokens=3)",
        "lab.set(n_tokens=2);",
        "from transformer_lab.draw.pairs import PairsPicture\nfrom transformer_lab.widgets.explorer import show\n"
        "show(PairsPicture, 3, 'Nine pairs.')",
    )
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(line) for line in lines])
    NotebookClient(notebook, timeout=100, kernel_name="python3").execute()
    pictures = [[output for output in cell.outputs if "image/png" in output.get("data", {})] for cell in notebook.cells]
    assert [len(found) for found in pictures] == [0, 1, 1, 0, 1]
    assert [len(cell.outputs) for cell in notebook.cells] == [0, 1, 1, 0, 1]
    assert pictures[4][0].data["text/plain"] == "Nine pairs."
