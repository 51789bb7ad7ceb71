"""The widgets of lesson 03: every control through its range, strange input, and text that stays inside the picture."""

import io
from itertools import product

import numpy as np
import pytest
from PIL import Image

from legibility import unreadable
from transformer_lab.draw import style
from transformer_lab.draw.head_grid import HeadGridPicture
from transformer_lab.draw.kv_sharing import KVSharingPicture
from transformer_lab.draw.paired_bars import PairedBars, PairedShares
from transformer_lab.experiments.ablation import ablate, look_at_heads
from transformer_lab.experiments.kv_sharing import MOST_TOKENS, share_kv
from transformer_lab.experiments.one_or_two_heads import train_reader
from transformer_lab.widgets import controls
from transformer_lab.widgets.explorer import show
from transformer_lab.widgets.head_grid import head_grid
from transformer_lab.widgets.kv_sharing import SIZES, kv_sharing


@pytest.fixture(scope="module")
def reader():
    return train_reader(16, n_heads=4, d_model=32, steps=150, stop_at_goal=False, seed=1)


@pytest.fixture
def grid(reader):
    return head_grid(reader)


@pytest.fixture(params=["screen", "projector"])
def look(request):
    yield style.use(request.param)
    style.use("screen")


# The head grid.


def test_the_first_sight_has_all_heads_on_and_every_answer_right(grid):
    assert grid.error is None
    assert grid.sentence == (
        "All heads on. At place 7 the model answers just before: J (right), first: F (right). "
        "Right on 500 sequences: just before 99% or more, first 99% or more."
    )
    bundle = grid._repr_mimebundle_()
    assert bundle["text/plain"] == grid.sentence and bundle["image/png"]


def test_a_switch_silences_that_head_and_no_other(reader, grid):
    for head in range(4):
        grid.set(**{f"head_{other + 1}": other != head for other in range(4)})
        assert grid.error is None
        assert grid.sentence.startswith(f"Head {head + 1} off. ")
        assert grid.result.on_many == ablate(reader.model, [head])
    grid.set(head_1=False, head_2=False, head_3=False, head_4=False)
    assert grid.sentence.startswith("All heads off. ") and max(grid.result.on_many.accuracy) < 0.15


def test_the_map_of_a_silenced_head_is_covered(grid):
    region = grid.regions[200]  # head 3 puts nearly everything on the first symbol: a dark column
    middle = (region.top + region.bottom) // 2, (region.left + region.right) // 2

    def brightness():
        return int(np.asarray(Image.open(io.BytesIO(grid.png)).convert("L"))[middle])

    assert brightness() < 80
    grid.set(head_3=False)
    assert brightness() > 150
    grid.set(head_3=True)
    assert brightness() < 80


def test_a_wrong_answer_is_named_with_the_right_one(grid):
    grid.set(sequence=4, place=3, head_4=False)
    assert "just before: K (wrong, it was O)" in grid.sentence and "first: K (right)" in grid.sentence


def test_every_setting_of_the_grid_is_drawn_and_changes_it(grid):
    seen = {grid.png}
    for sequence in range(1, 21):
        grid.set(sequence=sequence)
        assert grid.error is None
        seen.add(grid.png)
    for place in range(3, 11):
        grid.set(place=place)
        assert grid.error is None and grid.result.place == place
        seen.add(grid.png)
    assert len(seen) == 20 + 7
    for switches in product((True, False), repeat=4):
        grid.set(**{f"head_{head + 1}": on for head, on in enumerate(switches)})
        assert grid.error is None


@pytest.mark.parametrize("wrong", [{"place": 2}, {"place": 11}, {"sequence": 0}, {"sequence": 21}])
def test_a_value_outside_the_grid_moves_nothing(grid, wrong):
    before = grid.values, grid.png
    grid.set(**wrong)
    assert grid.error and (grid.values, grid.png) == before


def test_the_pointer_reads_every_weight_where_it_is_drawn(grid):
    assert len(grid.regions) == 4 * 10 * 10
    maps = grid.result.maps
    pixels = np.asarray(Image.open(io.BytesIO(grid.png)).convert("RGB"))
    for index in (0, 3, 142, 255, 399):  # not in the framed row of the place that asks
        head, query, key = np.unravel_index(index, (4, 10, 10))
        region = grid.regions[index]
        weight = maps[head, query, key].item()
        assert region.text.startswith(f"head {head + 1}: place {query + 1} (")
        assert f"puts {weight:.2f} on place {key + 1}" in region.text
        middle = pixels[(region.top + region.bottom) // 2, (region.left + region.right) // 2]
        np.testing.assert_allclose(middle, np.multiply(style.WEIGHTS(weight)[:3], 255), atol=2)


def test_no_word_of_the_grid_is_clipped_or_covered(reader, look):
    settings = product((ablate(reader.model), ablate(reader.model, [0, 3])), (1, 4, 9), (3, 4, 10))
    assert unreadable(HeadGridPicture, [look_at_heads(reader.model, *setting) for setting in settings]) == []


@pytest.mark.parametrize("n_heads", [1, 2])
def test_other_numbers_of_heads_fit(n_heads):
    small = train_reader(4, n_heads=n_heads, steps=1)
    widget = head_grid(small)
    assert widget.error is None and len(widget.controls) == 2 + n_heads
    assert unreadable(HeadGridPicture, [widget.result]) == []


def test_too_many_heads_are_refused():
    with pytest.raises(ValueError, match="8 heads; the grid has room for 4"):
        head_grid(train_reader(4, n_heads=8, steps=1))


# Sharing keys and values.


def test_the_sharing_says_who_shares_and_what_it_saves():
    widget = kv_sharing()
    assert widget.error is None
    assert widget.sentence == (
        "Multi-head attention: every query head has a key/value head of its own. 256 tokens fill 1,048,576 bytes of "
        "cache in this layer."
    )
    widget.set(n_kv_heads=2)
    assert widget.sentence.startswith("Grouped-query attention: 8 query heads share 2 key/value heads. ")
    assert "is 4 times smaller: 262,144 bytes instead of 1,048,576. W_Q and W_O keep their size." in widget.sentence
    assert "repeated 4 times gives the same output within 0.00001." in widget.sentence
    widget.set(n_kv_heads=1, n_tokens=1)
    assert widget.sentence.startswith("Multi-query attention: 8 query heads share one key/value head. ")
    assert "The cache of 1 token is 8 times smaller: 512 bytes instead of 4,096." in widget.sentence
    widget.set(n_kv_heads=8)
    assert "1 token fills 4,096 bytes" in widget.sentence


def test_every_setting_of_the_sharing_is_drawn_and_changes_it():
    widget, seen = kv_sharing(), set()
    for n_kv_heads, n_tokens in product(SIZES, (1, 100, MOST_TOKENS)):
        widget.set(n_kv_heads=n_kv_heads, n_tokens=n_tokens)
        assert widget.error is None
        seen.add(widget.png)
    assert SIZES == (8, 4, 2, 1) and len(seen) == 12


@pytest.mark.parametrize("wrong", [{"n_kv_heads": 3}, {"n_tokens": 0}, {"n_tokens": 257}])
def test_a_value_outside_the_sharing_moves_nothing(wrong):
    widget = kv_sharing()
    before = widget.values, widget.png
    widget.set(**wrong)
    assert widget.error and (widget.values, widget.png) == before


def test_no_word_of_the_sharing_is_clipped_or_covered(look):
    for n_kv_heads in SIZES:
        assert unreadable(KVSharingPicture, [share_kv(n_kv_heads, n) for n in (1, MOST_TOKENS)]) == []


def test_the_bars_stand_for_the_measured_amounts():
    widget = kv_sharing(n_kv_heads=2)
    pixels = np.asarray(Image.open(io.BytesIO(widget.png)).convert("RGB")).astype(int)
    region = widget.regions[0]
    row = pixels[(region.top + region.bottom) // 2]
    amber = np.abs(row - np.multiply(style.tint(style.ACCENT, 0), 255)).max(axis=-1) < 3
    full = kv_sharing(n_kv_heads=8)
    row = np.asarray(Image.open(io.BytesIO(full.png)).convert("RGB")).astype(int)[(region.top + region.bottom) // 2]
    whole = np.abs(row - np.multiply(style.tint(style.ACCENT, 0), 255)).max(axis=-1) < 3
    assert amber.sum() == pytest.approx(whole.sum() / 4, rel=0.05)
    assert region.text == "K/V cache: 262,144, in multi-head attention 1,048,576"


# The bars.

PAIRS = PairedShares(
    ("on the symbol before", "on the first"),
    {"seed 0": {"all on": (1.0, 0.5), "head 1 and 4 off": (0.0, 0.25)}, "seed 1": {"before A, first B": (0.75, 1.0)}},
)


def test_no_word_of_the_bars_is_clipped_or_covered(look):
    one_panel = PairedShares(PAIRS.names, {"average weight of the head": PAIRS.panels["seed 0"]})
    assert unreadable(PairedBars, [PAIRS]) == unreadable(PairedBars, [one_panel]) == []


def test_the_bars_are_as_long_as_their_shares():
    still = show(PairedBars, PAIRS, "Bars.")
    pixels = np.asarray(Image.open(io.BytesIO(still.png)).convert("RGB")).astype(int)
    lengths = []
    for region in still.regions:
        quarter = (region.bottom - region.top) // 5
        for y, colour in ((region.top + quarter, style.QUERY), (region.top + 3 * quarter, style.ACCENT)):
            wanted = np.multiply(style.tint(colour, 0), 255)
            lengths.append((np.abs(pixels[y, region.left : region.right] - wanted).max(axis=-1) < 3).sum())
    np.testing.assert_allclose(np.divide(lengths, lengths[0]), [1, 0.5, 0, 0.25, 0.75, 1], atol=0.02)
    assert still.regions[2].text == "seed 1, before A, first B: on the symbol before 75%, on the first 100%"


@pytest.mark.parametrize(
    ("panels", "words"),
    [
        ({}, "panels has 0 entries"),
        ({"a": {}, "b": {}, "c": {}}, "panels has 3 entries"),
        ({"a": {"off": (1.2, 0.1)}}, r"row 'off' is \(1.2, 0.1\)"),
        ({"a": {"off": (0.2,)}}, "row 'off' is .* two shares"),
    ],
)
def test_bars_that_cannot_be_drawn_are_refused(panels, words):
    with pytest.raises(ValueError, match=words):
        PairedShares(("one", "two"), panels)


# The control they brought along.


def test_stops_are_a_slider_over_given_values():
    slider = controls.stops("size", [("eight", 8), ("one", 1)], 8)
    assert slider.value == 8 and slider.description == "size"
    slider.value = 1
    with pytest.raises(ValueError, match="'size' has no options"):
        controls.stops("size", [], 1)
