"""Stamped text looks like plain text, follows every change of its look, and is faster."""

import numpy as np
import pytest
from matplotlib.text import Text

from transformer_lab.draw import style
from transformer_lab.draw.stamps import _stamp, draw_text


def plain(text, renderer):
    text.draw(renderer)


def drawn(draw, words, place=(150, 60), **look):
    figure = style.new_figure(3.0, 1.2)
    text = Text(*place, words, **({"family": style.FONT} | look))
    text.set_figure(figure)
    draw(text, figure.canvas.get_renderer())
    return np.asarray(figure.canvas.buffer_rgba()).astype(int)


@pytest.mark.parametrize("words", ["0.60", "−∞", "scaled\n÷ 22.6", "approved", "“it” meets “bank”", "q · k = −7.60"])
@pytest.mark.parametrize("ha", ["left", "center", "right"])
@pytest.mark.parametrize("va", ["top", "center", "baseline", "bottom"])
def test_a_stamp_looks_like_the_text(words, ha, va):
    look = {"fontsize": 11, "ha": ha, "va": va, "color": style.QUERY}
    expected = drawn(plain, words, **look)
    assert expected[..., 3].any()
    assert np.abs(drawn(draw_text, words, **look) - expected).max() <= 2


@pytest.mark.parametrize("change", [
    {"fontsize": 15}, {"weight": "bold"}, {"style": "italic"}, {"color": style.KEY}, {"ha": "right"}, {"va": "top"},
])  # fmt: skip
def test_a_change_of_look_is_followed(change):
    look = {"fontsize": 9, "weight": "normal", "style": "normal", "color": style.TEXT, "ha": "left", "va": "center"}
    drawn(draw_text, "0.42", **look)  # now its bitmap is kept
    changed = drawn(draw_text, "0.42", **(look | change))
    assert np.abs(changed - drawn(plain, "0.42", **(look | change))).max() <= 2
    assert np.abs(changed - drawn(draw_text, "0.42", **look)).max() > 50


def test_a_projector_gets_stamps_of_its_own():
    small = drawn(draw_text, "0.42", fontsize=9)
    style.use("projector")
    try:
        large, expected = (drawn(draw, "0.42", fontsize=9) for draw in (draw_text, plain))
    finally:
        style.use("screen")
    assert large[..., 3].sum() > 1.5 * small[..., 3].sum()
    assert np.abs(large - expected).max() <= 2


def test_nothing_is_drawn_for_no_words_and_for_hidden_ones():
    assert not drawn(draw_text, "")[..., 3].any()
    assert not drawn(draw_text, "0.42", visible=False)[..., 3].any()


@pytest.mark.parametrize("look", [
    {"rotation": 38}, {"bbox": {"facecolor": style.ACCENT}}, {"linespacing": 1.6}, {"family": "DejaVu Serif"},
    {"alpha": 0.5},
])  # fmt: skip
def test_words_that_turn_or_stand_on_a_box_look_right_too(look):
    drawn(draw_text, "0.42\nand more")
    assert np.abs(drawn(draw_text, "0.42\nand more", **look) - drawn(plain, "0.42\nand more", **look)).max() <= 2


def in_a_figure():
    figure = style.new_figure(3.0, 1.2)
    return figure, figure.text(0.1, 0.5, "a title", fontsize=11, family=style.FONT)


def in_axes(clip_on):
    figure = style.new_figure(3.0, 1.2)
    axes = figure.add_axes((0.1, 0.1, 0.5, 0.8))
    axes.axis("off")
    return figure, axes.text(0.6, 0.5, "across the edge", fontsize=11, family=style.FONT, clip_on=clip_on)


@pytest.mark.parametrize(
    ("make", "stamped"),
    [(in_a_figure, True), (lambda: in_axes(clip_on=False), True), (lambda: in_axes(clip_on=True), False)],
    ids=["figure", "axes", "clipped"],
)
def test_only_what_the_axes_cut_off_is_drawn_the_slow_way(make, stamped):
    (figure, text), (expected, same) = make(), make()
    before = _stamp.cache_info()
    draw_text(text, figure.canvas.get_renderer())
    after = _stamp.cache_info()
    assert (after.hits + after.misses > before.hits + before.misses) is stamped
    same.draw(expected.canvas.get_renderer())
    one, other = (np.asarray(drawn.canvas.buffer_rgba()).astype(int) for drawn in (figure, expected))
    assert one[..., 3].any() and np.abs(one - other).max() <= 2
