"""The widgets of lesson 06: every control through its range, strange input, and text that stays inside the picture."""

import io
import math
from itertools import product

import numpy as np
import pytest
import torch
from PIL import Image

from legibility import unreadable
from transformer_lab.draw import style
from transformer_lab.draw.block_walk import BlockWalkPicture
from transformer_lab.draw.depth import LOWEST, DepthCurve
from transformer_lab.draw.norm_steps import NormStepsPicture, short
from transformer_lab.experiments.block_walk import NORMS, WORDS, walk_block
from transformer_lab.experiments.deep_models import ACTIVATIONS, DEEPEST, NORM_ORDERS, explore_depth
from transformer_lab.experiments.norms import MOST, norm_steps, read_numbers
from transformer_lab.widgets.block_walk import block_walk
from transformer_lab.widgets.depth_and_gradient import depth_and_gradient
from transformer_lab.widgets.norm_explorer import EPSILONS, norm_explorer


@pytest.fixture(params=["screen", "projector"])
def look(request):
    yield style.use(request.param)
    style.use("screen")


def pixels(widget):
    return np.asarray(Image.open(io.BytesIO(widget.png)).convert("RGB")).astype(int)


# The norm explorer.


def test_the_first_sight_is_the_example_of_the_lesson():
    widget = norm_explorer()
    assert widget.error is None
    assert widget.sentence == (
        "LayerNorm makes 3, 4 into −1, 1 (mean 3.5, variance 0.25). RMSNorm makes it into 0.849, 1.131 "
        "(mean of squares 12.5)."
    )
    bundle = widget._repr_mimebundle_()
    assert bundle["text/plain"] == widget.sentence and bundle["image/png"]


def test_what_each_norm_ignores():
    widget = norm_explorer()
    for numbers, rms in (("30 40", "0.849, 1.131"), ("103 104", "0.995, 1.005")):
        widget.set(numbers=numbers)
        assert "into −1, 1 (" in widget.sentence and f"RMSNorm makes it into {rms} (" in widget.sentence


def test_scale_shift_and_eps_act_where_they_should():
    widget = norm_explorer("3 4 0 5", scale=2.0, shift=0.5)
    result = widget.result
    torch.testing.assert_close(result.layer_output, 2 * result.layer + 0.5)
    torch.testing.assert_close(result.rms_output, 2 * result.rms)
    widths = []
    for _, eps in EPSILONS:
        widget.set(eps=eps)
        assert widget.error is None
        widths.append(widget.result.layer.abs().max().item())
    assert widths == sorted(widths, reverse=True) and widths[-1] < 0.95 * widths[0]


def test_a_constant_token_is_zeros_and_with_no_eps_a_sentence():
    widget = norm_explorer("7 7 7")
    assert widget.result.layer_output.tolist() == [0, 0, 0] and "ε keeps 0 / 0 away" in widget.sentence
    before = widget.png
    widget.set(eps=0.0)
    assert "LayerNorm of equal numbers is 0 / 0" in widget.error and widget.png == before
    widget.set(numbers="0 0 0")
    assert "both norms of zeros are 0 / 0" in widget.error and widget.png == before
    widget.set(numbers="7 8 7")
    assert widget.error is None and widget.png != before


def test_small_numbers_are_not_called_equal():
    widget = norm_explorer("1e-9 2e-9")
    assert "equal" not in widget.sentence and "smaller than ε" in widget.sentence
    widget.set(numbers="3 4 0 5", eps=1.0)
    assert "smaller than ε" not in widget.sentence


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("", "There are 0 numbers; type 2 to 8"),
        ("   ", "There are 0 numbers"),
        ("3", "There is 1 number"),
        ("1 2 3 4 5 6 7 8 9", "There are 9 numbers"),
        ("3 four", "“four” is no number"),
        ("3 nan", "“nan” is no number"),
        ("3 inf", "“inf” is too large"),
        ("3 1e300", "“1e300” is too large"),
        ("3 <b>x</b>", "“<b>x</b>” is no number"),
        ("3 " + "9" * 400, "…” is too large"),
    ],
)
def test_strange_input_is_named_and_moves_nothing(typed, words):
    widget = norm_explorer()
    before = widget.png
    widget.set(numbers=typed)
    assert words in widget.error and widget.png == before and "<b>" not in widget._view.value.replace("<b>Not", "")
    widget.set(numbers="3 4")
    assert widget.error is None and widget.png == before


def test_numbers_are_read_in_every_usual_spelling():
    assert read_numbers("3, −4; 1e3  .5") == (3.0, -4.0, 1000.0, 0.5)


def test_every_setting_of_the_explorer_is_drawn_and_changes_it():
    widget, seen = norm_explorer("3 4 0 5"), set()
    for name, values in {
        "numbers": ["3 4", "1 2 3 4 5 6 7 8", "1e9 -1e9", "1e-9 0", "0 0 1"],
        "eps": [eps for _, eps in EPSILONS],
        "scale": np.arange(-2, 2.01, 0.25).tolist(),
        "shift": np.arange(-2, 2.01, 0.25).tolist(),
    }.items():
        for value in values:
            widget.set(**{name: value})
            assert widget.error is None, (name, value)
            seen.add(widget.png)
    assert len(seen) >= 5 + 2 + 2 * 15


TOKENS = ("3 4", "7 7", "1 2 3 4 5 6 7 8", "-1e9 1e9 123456 -99999 -0.00012 -1e-6 9999.9 -12.34")


def test_no_word_of_the_steps_is_clipped_or_covered(look):
    for typed, scale in product(TOKENS, (1.0, -1.75)):
        numbers = read_numbers(typed)
        results = [norm_steps(numbers, eps, scale, -0.25) for _, eps in EPSILONS if eps]
        assert unreadable(NormStepsPicture, results) == []


@pytest.mark.parametrize("value", [0.0, -1e-9, 3.0, -1 / 3, 99999.4, 99999.6, -1.25e8, 4.4e-4, -9.6e-5, 2e18])
def test_a_short_number_is_short_and_near(value):
    text = short(value)
    assert len(text) <= 7
    read = float(text.replace("−", "-").replace(",", ""))
    assert read == pytest.approx(value, rel=0.1, abs=1e-6)
    assert not text.startswith("−0") or read < 0


def test_the_pointer_reads_both_norms():
    widget = norm_explorer("3 4 0 5")
    texts = [region.text for region in widget.regions]
    assert len(texts) == 7 * 4 and len(norm_explorer(" ".join("12345678")).regions) == 7 * MOST
    assert "RMSNorm, · scale, component 4: 1.41421" in texts
    assert "LayerNorm, x − mean, component 3: −3" in texts


# The block walk.


def test_the_walk_says_shape_and_lengths():
    widget = block_walk()
    assert widget.error is None
    first, last = widget.result.stages[0], widget.result.stages[-2]
    assert widget.sentence.startswith("“cats”: every sublayer takes (1, 6, 16) and returns (1, 6, 16). ")
    assert f"enters with length {first.length:.2f}; attention adds" in widget.sentence
    assert f"leaves the last block with {last.length:.2f}. The final norm makes that 4.00." in widget.sentence
    widget.set(shortcut=False, norm_order="post")
    assert "attention returns" in widget.sentence and "after every sublayer" in widget.sentence
    assert widget.sentence.endswith("nothing of the input is carried past.")


def test_every_setting_of_the_walk_is_drawn_and_changes_it():
    widget, seen = block_walk(), set()
    for order, shortcut, n_blocks in product(NORM_ORDERS, (True, False), (1, 2, 3)):
        widget.set(norm_order=order, shortcut=shortcut, n_blocks=n_blocks)
        assert widget.error is None and widget.result.n_blocks == n_blocks
        seen.add(widget.png)
    for norm, activation, token in product(NORMS, ACTIVATIONS, range(len(WORDS))):
        widget.set(norm=norm, activation=activation, token=token, norm_order="pre", shortcut=True, n_blocks=1)
        assert widget.error is None and widget.result.word == WORDS[token]
        seen.add(widget.png)
    assert len(seen) == 18 + 36 - 1  # each differs from every other; one setting is in both rounds


def test_no_word_of_the_walk_is_clipped_or_covered(look):
    for order, shortcut, n_blocks in product(NORM_ORDERS, (True, False), (1, 3)):
        walks = [walk_block(token, order, shortcut=shortcut, n_blocks=n_blocks) for token in (0, 3)]
        assert unreadable(BlockWalkPicture, walks) == []


def test_the_bars_are_as_long_as_the_stream():
    widget = block_walk(norm_order="none", n_blocks=3)
    image, lengths = pixels(widget), []
    rows = {region.text.split(",")[0]: region for region in widget.regions if ", stream, component 1:" in region.text}
    for region in rows.values():
        row = image[(region.top + region.bottom) // 2]
        lengths.append((np.abs(row - np.multiply(style.tint(style.OUTPUT, 0), 255)).max(axis=-1) < 3).sum())
    expected = [stage.length for stage in widget.result.stages]
    np.testing.assert_allclose(np.divide(lengths, max(lengths)), np.divide(expected, max(expected)), atol=0.05)


def test_the_road_past_a_sublayer_is_drawn_only_where_there_is_one():
    amber = np.multiply(style.tint(style.ACCENT, 0.55), 255)

    def road(**settings):
        return (np.abs(pixels(block_walk(**settings)) - amber).max(axis=-1) < 3).sum()

    assert road() > 1000 and road(norm_order="post") > 1000 and road(shortcut=False) == 0


def test_a_cell_reads_out_the_number_it_is_coloured_by():
    widget = block_walk(n_blocks=2)
    image, stages = pixels(widget), widget.result.stages
    vectors = [vector for stage in stages for vector in (stage.added, stage.stream) if vector is not None]
    limit = max(float(vector.abs().max()) for vector in vectors)
    for index in (0, 37, 90, 130):
        region = widget.regions[index]
        value = float(region.text.split(": ")[-1].replace("−", "-"))
        middle = image[(region.top + region.bottom) // 2, (region.left + region.right) // 2]
        np.testing.assert_allclose(middle, np.multiply(style.SIGNED(0.5 + value / limit / 2)[:3], 255), atol=4)


# Depth and gradient.


def test_the_gradient_says_what_has_vanished_and_what_has_become_alike():
    widget = depth_and_gradient()
    assert widget.error is None and "It has vanished on the way" in widget.sentence
    widget.set(depth=DEEPEST)
    assert "·10⁻³⁰ at the first" in widget.sentence and "below the picture" not in widget.sentence
    widget.set(activation="swiglu")
    assert "0 at the first, below the picture" in widget.sentence
    widget.set(activation="gelu", shortcut=True)
    assert "vanished" not in widget.sentence and "next to nothing" not in widget.sentence
    widget.set(shortcut=False, norm_order="pre")
    assert "vanished" not in widget.sentence and "none that float32 could see" in widget.sentence
    widget.set(depth=8)
    assert "1 − cosine: 2·10⁻⁶, next to nothing." in widget.sentence
    widget.set(shortcut=True)
    assert "1 − cosine: 0.12." in widget.sentence
    widget.set(depth=1, shortcut=True)
    assert widget.sentence.startswith("1 block, pre-norm, with shortcuts: the gradient has size ")
    assert "at the first" not in widget.sentence


def test_every_setting_of_the_depth_is_drawn_and_changes_it():
    widget, seen = depth_and_gradient(), set()
    for depth in (1, 2, 7, DEEPEST):
        widget.set(depth=depth)
        assert widget.error is None and len(widget.result.gradients) == depth
        seen.add(widget.png)
    for order, activation, shortcut in product(NORM_ORDERS, ACTIVATIONS, (True, False)):
        widget.set(norm_order=order, activation=activation, shortcut=shortcut, depth=3)
        assert widget.error is None
        seen.add(widget.png)
    assert len(seen) == 4 + 18


def test_switching_the_shortcuts_exchanges_the_two_curves():
    on, off = (explore_depth(5, shortcut, "pre") for shortcut in (True, False))
    assert on.gradients == off.other_gradients and off.gradients == on.other_gradients


@pytest.mark.parametrize("wrong", [{"depth": 0}, {"depth": 25}, {"norm_order": "x"}, {"activation": "tanh"}])
def test_a_value_outside_moves_nothing(wrong):
    widget = depth_and_gradient()
    before = widget.values, widget.png
    widget.set(**wrong)
    assert widget.error and (widget.values, widget.png) == before


def test_the_other_curve_is_named_and_nothing_is_drawn_below_the_axis():
    for shortcut, name in ((True, "the same without shortcuts"), (False, "the same with shortcuts")):
        result = explore_depth(DEEPEST, shortcut, "none", "swiglu")
        (_, mine), (_, other) = DepthCurve.chart(result).series.values()
        assert list(DepthCurve.chart(result).series) == ["this model", name]
        for shown, sizes in ((mine, result.gradients), (other, result.other_gradients)):
            assert len(shown) == len(sizes)
            assert all(a == b if b >= LOWEST else math.isnan(a) for a, b in zip(shown, sizes, strict=True))
    assert min(result.gradients) < LOWEST


def test_no_word_of_the_depth_is_clipped_or_covered(look):
    results = [explore_depth(depth, shortcut, "none") for depth in (1, DEEPEST) for shortcut in (True, False)]
    assert unreadable(DepthCurve, results) == []


@pytest.mark.parametrize("numbers", ["0.1 0.1 0.1", "0.3 0.3 0.3", "100000.1 100000.1 100000.1"])
def test_equal_numbers_are_told_by_the_numbers_not_by_a_rounded_variance(numbers):
    widget = norm_explorer(numbers)
    assert "All numbers are equal" in widget.sentence
    assert "LayerNorm of equal numbers is 0 / 0" in widget.set(eps=0.0).error


@pytest.mark.parametrize("numbers", ["1e9 999999999", "3 3.0000001", "100000.1 100000.2"])
def test_numbers_that_differ_are_not_called_equal(numbers):
    assert "equal" not in norm_explorer(numbers).sentence


@pytest.mark.parametrize("numbers", ["1,5 2,5", "99,999 1", "3,4"])
def test_a_comma_inside_a_number_is_asked_about(numbers):
    assert "two ways" in norm_explorer().set(numbers=numbers).error
