"""The controls: a label each, limits that are stated and kept, and start values that are checked by name."""

import ipywidgets
import numpy as np
import pytest

from transformer_lab.widgets import controls

MAKERS = {
    "slider": lambda: controls.slider("amount", 0, 10, 3),
    "stops": lambda: controls.stops("amount", (1, 2), 2),
    "number": lambda: controls.number("amount", 0, 10, 3),
    "choice": lambda: controls.choice("amount", ("a", "b"), "b"),
    "buttons": lambda: controls.choice("amount", ("a", "b"), "b", buttons=True),
    "toggle": lambda: controls.toggle("amount", True),
    "text": lambda: controls.text("amount", "some"),
    "press": lambda: controls.press("amount"),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_every_control_has_a_visible_label_that_is_not_cut(make):
    control = make()
    assert control.description.startswith("amount")
    # what a button or a box to tick says stands in it or behind it, and takes the room it needs
    if not isinstance(control, (ipywidgets.Button, ipywidgets.Checkbox)):
        assert control.style.description_width == "initial"


@pytest.mark.case("W03")
@pytest.mark.parametrize("make", [controls.slider, controls.number])
def test_limits_are_the_given_ones_however_large(make):
    control = make("d_model", 1, 8192, 512)
    assert (control.min, control.max, control.value) == (1, 8192, 512)


def test_a_box_for_a_number_states_its_limits():
    assert controls.number("d_model", 1, 8192, 512).description == "d_model (1–8,192)"


@pytest.mark.parametrize("make", [controls.slider, controls.number])
def test_whole_limits_make_a_whole_number(make):
    assert isinstance(make("n", 0, 10, 3).value, int)
    assert isinstance(make("n", 0, 10, np.int64(3)).value, int)
    assert make("x", 0.0, 10, 2.5).value == 2.5
    assert make("x", 0, 10, 2.5, 0.5).value == 2.5


@pytest.mark.parametrize("make", [controls.slider, controls.number])
@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((0, 10, 11), "'pads' starts at 11, outside its limits 0 … 10"),
        ((0, 10, -1), "'pads' starts at -1, outside its limits 0 … 10"),
        ((10, 0, 5), "'pads' starts at 5, outside its limits 10 … 0"),
        ((0, 10, 2.5), "'pads' starts at 2.5; it takes whole numbers"),
        ((0, float("inf"), 5), "'pads' needs finite numbers; got low 0, high inf, value 5, step 1"),
        ((0, 10, float("nan")), "'pads' needs finite numbers"),
        ((0, 10, "3"), "'pads' needs finite numbers; got low 0, high 10, value '3'"),
        ((0, 10, None), "'pads' needs finite numbers"),
        ((0, 10, 3, 0), "'pads' has step 0; it must be above 0"),
        ((0, 10, 3, -1), "'pads' has step -1"),
    ],
)
def test_a_number_that_cannot_be_is_refused_by_name(make, given, words):
    with pytest.raises(ValueError) as refused:
        make("pads", *given)
    assert words in str(refused.value)


CHOOSERS = {
    "menu": lambda *given: controls.choice("Step", *given),
    "buttons": lambda *given: controls.choice("Step", *given, buttons=True),
    "stops": lambda *given: controls.stops("Step", *given),
}


@pytest.mark.parametrize("make", CHOOSERS.values(), ids=CHOOSERS)
def test_a_start_value_that_is_no_option_is_refused_with_the_options(make):
    with pytest.raises(ValueError, match="'Step' starts at 'zzz'; choose one of 'scores', 'weights'."):
        make(("scores", "weights"), "zzz")
    with pytest.raises(ValueError, match="'Step' starts at 'first'; choose one of 0, 1."):
        make([("first", 0), ("second", 1)], "first")
    with pytest.raises(ValueError, match="'Step' has no options"):
        make((), "scores")
    with pytest.raises(ValueError) as refused:
        make(tuple(range(10_000)), "z" * 10_000)
    assert len(str(refused.value)) < 500


@pytest.mark.parametrize("buttons", [False, True])
def test_a_choice_starts_with_its_first_option_or_the_given_one(buttons):
    options = [("one", 1), ("two", 2)]
    assert controls.choice("n", options, buttons=buttons).value == 1
    assert controls.choice("n", options, 2, buttons=buttons).value == 2


@pytest.mark.parametrize("value", ["yes", 1, None])
def test_a_toggle_starts_on_or_off(value):
    with pytest.raises(ValueError, match="'mask' starts at .*; give True or False"):
        controls.toggle("mask", value)


def test_text_is_handed_over_when_it_is_finished():
    assert controls.text("Sentence", "a").continuous_update is False


def test_a_press_counts():
    button = controls.press("Shuffle")
    button.click()
    button.click()
    assert button.value == 2


@pytest.mark.case("W02")
@pytest.mark.parametrize("limits", [(20, 30), (-30, -20), (5, 6), (3, 3)])
@pytest.mark.parametrize("step", [1, 0.5])
def test_limits_move_anywhere_without_an_error(limits, step):
    slider = controls.slider("n", 0, 10, 4, step)
    seen = []
    slider.observe(lambda change: seen.append((slider.min, slider.max, slider.value)), names="value")
    controls.set_range(slider, *limits)
    low, high = limits
    assert (slider.min, slider.max) == limits and slider.value == min(max(4, low), high)
    assert seen == [(low, high, slider.value)]  # told once, when all three fit each other


def test_limits_in_the_wrong_order_are_refused():
    slider = controls.slider("n", 0, 10, 4)
    with pytest.raises(ValueError, match="low is 5 and high is 2; low must not exceed high"):
        controls.set_range(slider, 5, 2)
    assert (slider.min, slider.max, slider.value) == (0, 10, 4)


@pytest.mark.parametrize("buttons", [False, True])
def test_the_chosen_option_stays_chosen_where_it_still_exists(buttons):
    control = controls.choice("Query", [("1 the", 0), ("2 bank", 1), ("3 it", 2)], 1, buttons=buttons)
    controls.set_options(control, [("1 river", 0), ("2 bank", 1)])
    assert control.value == 1
    controls.set_options(control, [("1 river", 0)])
    assert control.value == 0 and control.options == (("1 river", 0),)


def test_the_same_options_are_left_alone():
    control = controls.choice("Query", ["a", "b"], "a")
    told = []
    control.observe(told.append, names=["options", "_options_labels", "index"])
    controls.set_options(control, ("a", "b"))
    assert told == []
