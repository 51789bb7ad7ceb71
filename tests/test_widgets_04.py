"""The widgets of lesson 04: every control through its range, strange input, and text that stays inside the picture."""

import io
import itertools

import numpy as np
import pytest
import torch
from PIL import Image

from legibility import unreadable
from transformer_lab.draw import style
from transformer_lab.draw.dials import ClockPicture, RopePairPicture
from transformer_lab.draw.extrapolation import ExtrapolationPicture
from transformer_lab.draw.lookalikes import LookalikesPicture
from transformer_lab.draw.permutation import HUES, PermutationPicture
from transformer_lab.draw.slopes import SlopesPicture
from transformer_lab.experiments.extrapolation import SCHEMES, Extrapolation, LookingBack
from transformer_lab.experiments.lookalikes import Lookalikes, lookalikes, mean_weights, pair_scores
from transformer_lab.experiments.permutation import MOST_TOKENS, shuffle
from transformer_lab.experiments.positions import alibi_view, clock, rope_pair
from transformer_lab.training import seeded
from transformer_lab.widgets.explorer import show
from transformer_lab.widgets.permutation_lab import permutation_lab
from transformer_lab.widgets.position_schemes import alibi_slopes_explorer, rope_dials, sinusoid_clock
from transformer_lab.widgets.rope_lookalikes import describe as describe_lookalikes
from transformer_lab.widgets.rope_lookalikes import rope_lookalikes

SENTENCE = "the dog bites the old man"


def pixels(png: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB")).astype(int)


def colour_share(png: bytes, colour) -> float:
    wanted = np.array([round(255 * channel) for channel in style.tint(colour, 0)])
    return float((np.abs(pixels(png) - wanted).max(axis=2) < 12).mean())


# -------------------------------------------------------------------------------------------------- permutation lab


@pytest.fixture
def lab():
    return permutation_lab(SENTENCE)


def words_after(lab) -> list[str]:
    return [lab.result.tokens[token] for token in lab.result.order]


def test_the_lab_opens_in_order_and_says_what_to_do(lab):
    assert lab.error is None and lab.result.order == tuple(range(6)) and lab.result.largest == 0
    assert "Press Shuffle, or swap two tokens" in lab.sentence
    bundle = lab._repr_mimebundle_()
    assert bundle["text/plain"] == lab.sentence and bundle["image/png"]


def test_without_positions_every_strip_travels_with_its_token(lab):
    for press in range(1, 8):
        lab.set(shuffle=press)
        assert lab.result.order != tuple(range(6)) and not any(lab.result.changed)
        assert lab.sentence == (
            "Without positions and without a mask, all 6 outputs travelled with their tokens, unchanged: "
            "the largest difference is 0.00000."
        )
    assert colour_share(lab.png, style.VALUE) > 10 * colour_share(lab.png, style.KEY)


@pytest.mark.parametrize("scheme", ["learned", "sinusoidal", "rope", "alibi"])
def test_a_scheme_makes_the_strips_change(lab, scheme):
    lab.set(shuffle=1)
    plain = lab.png
    lab.set(scheme=scheme)
    assert lab.error is None and all(lab.result.changed) and lab.png != plain
    assert f"6 of 6 outputs changed when the tokens moved, by up to {lab.result.largest:.3g}." in lab.sentence
    assert colour_share(lab.png, style.KEY) > 10 * colour_share(lab.png, style.VALUE)


def test_the_mask_alone_changes_what_it_should_and_the_sentence_counts(lab):
    lab.set(causal=True, first=3, second=4, swap=1)
    assert words_after(lab) == ["the", "dog", "bites", "old", "the", "man"]
    assert lab.result.changed == (False, False, False, True, True, False)
    assert lab.sentence.startswith("With the causal mask alone, 2 of 6 outputs changed")
    assert lab.sentence.endswith("Unchanged: 1 the, 2 dog, 3 bites, 6 man.")


def test_a_swap_moves_two_tokens_and_a_second_one_takes_it_back(lab):
    lab.set(first=0, second=5, swap=1)
    assert words_after(lab) == ["man", "dog", "bites", "the", "old", "the"]
    lab.set(first=1, second=2)  # choosing alone moves nothing
    assert words_after(lab) == ["man", "dog", "bites", "the", "old", "the"]
    lab.set(first=0, second=5, swap=2)
    assert words_after(lab) == SENTENCE.split()


def test_the_tokens_picked_for_a_swap_are_ringed_where_they_stand(lab):
    before = lab.png
    lab.set(first=2)
    assert lab.png != before and lab.result.picked == (2, 5)
    with_ring = lab.png
    assert lab.set(second=3).png != with_ring


def test_swapping_a_token_with_itself_does_nothing(lab):
    lab.set(first=2, second=2, swap=1)
    assert lab.error is None and words_after(lab) == SENTENCE.split()


def test_reset_puts_every_token_back(lab):
    lab.set(shuffle=1).set(reset=1)
    assert lab.result.order == tuple(range(6))


def test_a_real_press_of_each_button_works(lab):
    for name in ("shuffle", "reset", "swap"):
        before = lab.result.order
        lab.controls[name].click()
        assert lab.error is None and lab.result.order != before


def test_every_shuffle_is_a_new_order_and_repeats_on_every_machine(lab):
    other, orders = permutation_lab(SENTENCE), []
    for press in range(1, 30):
        orders.append(lab.set(shuffle=press).result.order)
        assert other.set(shuffle=press).result.order == orders[-1]
    assert all(a != b for a, b in itertools.pairwise(orders))


@pytest.mark.parametrize("sentence", ["a b", "a a", "the the the", "x y z"])
def test_short_and_repeating_sentences_can_be_shuffled(sentence):
    lab = permutation_lab(sentence)
    for press in range(1, 5):
        assert lab.set(shuffle=press).error is None


def test_a_new_sentence_starts_in_its_own_order(lab):
    lab.set(shuffle=3).set(sentence="man bites dog")
    assert words_after(lab) == ["man", "bites", "dog"]
    assert [label for label, _ in lab.controls["second"].options] == ["1 man", "2 bites", "3 dog"]
    assert lab.set(first=0, second=2, swap=1).error is None and words_after(lab) == ["dog", "bites", "man"]


def test_a_mirror_keeps_distances_so_alibi_alone_cannot_see_it():
    lab = permutation_lab(scheme="alibi").set(first=0, second=2, swap=1)
    assert not any(lab.result.changed) and "no direction" in lab.sentence
    assert all(lab.set(causal=True).result.changed)


@pytest.mark.parametrize(
    ("sentence", "said"),
    [
        ("", "0 words; please use 2 to 7"),
        ("alone", "1 word; please use 2 to 7"),
        ("a b c d e f g h", "8 words; please use 2 to 7"),
        ("the incomprehensible man", "too long to draw"),
        ("犬 噛む 男", "cannot be drawn"),
        ("dog \x07bites man", "cannot be drawn"),
    ],
)
def test_a_sentence_that_cannot_be_drawn_leaves_the_last_picture(lab, sentence, said):
    lab.set(shuffle=1)
    png, order = lab.png, lab.result.order
    lab.set(sentence=sentence)
    assert said in lab.error and lab.png == png
    assert lab.set(sentence=SENTENCE).error is None and lab.result.order == order


def test_markup_and_formulas_are_only_words(lab):
    lab.set(sentence="<b>x</b> $\\frac$ &amp; __x__")
    assert lab.error is None and "&lt;b&gt;" in lab._view.value and "<b>x" not in lab._view.value


def test_the_pointer_reads_every_strip(lab):
    lab.set(shuffle=1)
    regions = lab.regions
    assert len(regions) == 18
    order = lab.result.order
    names = [f"{token + 1} {lab.result.tokens[token]}" for token in order]
    assert [r.text.split(":")[0] for r in regions[1::3]] == [f"{name}, before" for name in names]
    assert [r.text.split(":")[0] for r in regions[2::3]] == [f"{name}, after" for name in names]
    assert regions[0].text.startswith("1 the, before: ") and regions[3].text.startswith("2 dog, before: ")
    assert len(regions[0].text.split(": ")[1].split(", ")) == 8
    assert all(0 <= r.left < r.right <= lab._rendering.width and r.top < r.bottom for r in regions)


@pytest.mark.parametrize("causal", [False, True])
def test_the_picture_passes_no_verdict_before_anything_has_moved(lab, causal):
    lab.set(causal=causal)
    assert colour_share(lab.png, style.VALUE) == colour_share(lab.png, style.KEY) == 0
    assert colour_share(lab.set(shuffle=1).png, style.KEY if causal else style.VALUE) > 0
    lab.set(reset=1)
    assert colour_share(lab.png, style.VALUE) == colour_share(lab.png, style.KEY) == 0


@pytest.mark.parametrize("scheme", ["none", "learned", "sinusoidal", "rope", "alibi"])
def test_a_shuffle_leaves_the_column_before_as_it_was(lab, scheme):
    lab.set(scheme=scheme)
    wide, high = int(3.5 * 110), slice(int(0.7 * 110), int(4.5 * 110))
    before = pixels(lab.png)[high, :wide]
    for press in (1, 2, 3):
        assert (pixels(lab.set(shuffle=press).png)[high, :wide] == before).all()


def test_a_dot_grows_with_the_change_it_marks():
    result = shuffle(SENTENCE.split(), (5, 4, 3, 2, 1, 0), scheme="rope")
    picture = PermutationPicture(style.new_figure(*PermutationPicture.size(result)), result)
    picture.update(result)
    change = np.abs((result.after - result.before).numpy()[list(result.order)]).ravel()
    sizes = picture._dots.get_sizes()
    assert len(sizes) == change.size and (np.diff(sizes[np.argsort(change)]) >= 0).all()
    assert sizes.max() > 5 * np.median(sizes)


def test_every_token_has_a_hue_of_its_own_that_is_no_role():
    roles = {style.QUERY, style.KEY, style.VALUE, style.OUTPUT, style.ACCENT, style.PAD}
    assert len(set(HUES)) == MOST_TOKENS == len(HUES) and not roles & set(HUES)
    lab = permutation_lab("a b c d e f g").set(shuffle=1)
    assert all(colour_share(lab.png, hue) > 0.001 for hue in HUES)


@pytest.mark.parametrize("n", [2, MOST_TOKENS])
def test_no_text_of_the_lab_is_clipped_or_covered(n):
    tokens = ("WWWWWWWW", "WWWWWWWWWW", "mmmmmmmmm", "i", "Ångström", "ёлка", "man")[:n]
    orders = tuple(range(n))[::-1], tuple(range(n))
    cases = itertools.product(orders, ("none", "rope"), (False, True))
    assert unreadable(PermutationPicture, [shuffle(tokens, order, *rest) for order, *rest in cases]) == []


# ------------------------------------------------------------------------------------------- clock, dials and slopes


def test_the_clock_moves_and_the_inner_product_stays():
    widget = sinusoid_clock()
    pictures, dots = set(), set()
    for position in range(0, 301, 30):
        widget.set(position=position)
        pictures.add(widget.png)
        dots.add(round(widget.result.dot, 4))
    assert len(pictures) == 11 and len(dots) == 1
    widget.set(shift=30)
    assert round(widget.result.dot, 4) not in dots and "k = 30" in widget.sentence


def test_every_control_of_the_clock_works_through_its_range():
    widget = sinusoid_clock()
    for d_model, position, shift in itertools.product((4, 8, 16), (0, 1, 300), (0, 1, 60)):
        assert widget.set(d_model=d_model, position=position, shift=shift).error is None
        assert len(widget.regions) == d_model // 2
    assert widget.set(position=301).error and widget.values["position"] == 300


@pytest.mark.parametrize("shift", [0, 2, 4, 60])
def test_the_shaded_angle_is_the_smaller_one_between_the_hands(shift):
    result = clock(8, 3, shift)
    picture = ClockPicture(style.new_figure(*ClockPicture.size(result)), result)
    picture.update(result)
    for wedge, first, second in zip(picture._wedges, result.first, result.second, strict=True):
        between = np.degrees(np.arccos(np.clip((first @ second).item(), -1, 1)))
        assert wedge.theta2 - wedge.theta1 == pytest.approx(between, abs=0.1)


@pytest.mark.case("P05")
def test_the_dials_turn_both_layouts():
    widget = rope_dials()
    first = widget.result
    widget.set(shift=70)
    assert widget.result.score == pytest.approx(first.score, abs=1e-5)
    widget.set(shift=0, layout="half_split")
    assert "(0, 2) and (1, 3)" in widget.sentence and abs(widget.result.score - first.score) > 0.5


def test_every_control_of_the_dials_works_through_its_range():
    widget = rope_dials()
    for query, key, shift, layout in itertools.product((0, 60), (0, 60), (0, 100), ("interleaved", "half_split")):
        widget.set(query_position=query, key_position=key, shift=shift, layout=layout)
        assert widget.error is None
        assert f"distance, {query - key},".replace("-", "−") in widget.sentence


def test_the_dials_show_why_46_looks_like_2():
    two, far = (rope_pair(distance, 0, 0, "interleaved").scores for distance in (2, 46))
    assert far[0] == pytest.approx(two[0], abs=0.02) and abs(far[1] - two[1]) > 0.5


def test_every_head_of_every_count_can_be_looked_at():
    widget = alibi_slopes_explorer()
    for n_heads in range(1, 17):
        for head in {1, n_heads}:
            assert widget.set(n_heads=n_heads, head=head).error is None
            assert f"Head {head} of {n_heads} has slope {widget.result.slopes[head - 1]:.4g}" in widget.sentence
    widget.set(n_heads=16, head=16).set(n_heads=3)
    assert widget.values["head"] == 3 and "1 slope is borrowed from the rule for 4 heads" in widget.sentence


def test_no_text_of_the_three_is_clipped_or_covered():
    for d_model in (4, 8, 16):
        assert unreadable(ClockPicture, [clock(d_model, p, k) for p, k in itertools.product((0, 300), (0, 60))]) == []
    for layout in ("interleaved", "half_split"):
        assert unreadable(RopePairPicture, [rope_pair(m, n, s, layout) for m, n, s in ((0, 60, 100), (60, 0, 0))]) == []
    for n_heads in range(1, 17):
        assert unreadable(SlopesPicture, [alibi_view(n_heads, 0), alibi_view(n_heads, n_heads - 1)]) == []


# ------------------------------------------------------------------------------------------------ extrapolation chart


def extrapolation(task: str, ends: dict[str, float]) -> Extrapolation:
    positions = tuple(range(3, 65))
    lengths = {scheme: 14 if scheme == "learned" else 62 for scheme in SCHEMES}
    return Extrapolation(task, positions, 16, {s: tuple(np.linspace(1, ends[s], lengths[s])) for s in SCHEMES})


@pytest.mark.parametrize("end", [0.0, 0.3, 1.0])
def test_the_chart_names_every_scheme_even_where_the_curves_meet(end):
    runs = tuple(extrapolation(task, dict.fromkeys(SCHEMES, end)) for task in ("two back", "nearest mark"))
    assert unreadable(ExtrapolationPicture, [runs]) == []
    widget = show(ExtrapolationPicture, runs, "five schemes on two tasks")
    assert widget.error is None and len(widget.regions) == 124
    assert widget.regions[0].text.startswith("position 3: none 1.00")


# -------------------------------------------------------------------------------------------------- RoPE's lookalikes


@pytest.fixture(scope="module")
def untrained() -> LookingBack:
    with seeded(0):
        return LookingBack("rope")


def test_every_query_and_head_can_be_looked_at(untrained):
    widget = rope_lookalikes(untrained)
    for position, head in itertools.product((3, 16, 64), (1, 4)):
        assert widget.set(position=position, head=head).error is None
        assert f"Head {head}, query at position {position}" in widget.sentence
        assert len(widget.result.weights) == position
        assert sum(widget.result.weights) == pytest.approx(1, abs=1e-5)
        assert len(widget.regions) == 64 + position
    assert widget.set(position=65).error and widget.set(head=5).error


def found(favourite: int, position: int = 64) -> Lookalikes:
    """A head that looks at one distance alone; its second pair falls to 32 back and climbs again."""
    distance = torch.arange(64)
    pairs = torch.stack((4 * (distance - 2).cos(), (distance - 32).abs() / 10, torch.zeros(64), torch.zeros(64)))
    return Lookalikes(0, position, 15, pairs, tuple(float(back == favourite) for back in range(position)))


@pytest.mark.parametrize(
    ("favourite", "said"),
    [
        (2, "2 back, as trained. Within its reach are 9 lookalikes"),
        (8, "8 is 2 again, 1 full turn later; only the second pair tells them apart, and it scores 8 lower than 2"),
        (59, "59 is 2 again, 9 full turns later; only the second pair tells them apart, and it scores 59 lower than 2"),
        (30, "goes 30 back, not 2."),
    ],
)
def test_the_sentence_names_the_lookalike(favourite, said):
    assert said in describe_lookalikes(found(favourite))


def test_no_text_of_the_lookalikes_is_clipped_or_covered(untrained):
    pairs, weights = pair_scores(untrained), mean_weights(untrained)
    cases = [lookalikes(pairs, weights, head, position) for head, position in itertools.product((0, 3), (3, 64))]
    assert unreadable(LookalikesPicture, [*cases, *(found(favourite) for favourite in (0, 2, 46, 63))]) == []


def test_every_picture_grows_for_the_projector():
    small = permutation_lab().png
    style.use("projector")
    try:
        assert pixels(permutation_lab().png).shape[1] == 1.5 * pixels(small).shape[1]
    finally:
        style.use("screen")
