"""What lesson 04 claims, with the library functions and the settings of the notebook."""

import itertools
import math

import pytest
import torch
from torch.testing import assert_close

from transformer_lab.experiments.extrapolation import (
    SCHEMES,
    Extrapolation,
    LookingBack,
    train_short_test_long,
)
from transformer_lab.experiments.permutation import attention_with, permutation_gap, shuffle, tokenize, word_vector
from transformer_lab.experiments.positions import (
    alibi_view,
    clock,
    compare_norms,
    rope_pair,
    shift_rotation,
    wavelengths,
)
from transformer_lab.model.attention import MultiHeadAttention
from transformer_lab.model.positions import sinusoidal_table
from transformer_lab.tasks.looking_back import MARKS, NO_ANSWER, nearest_mark, two_back
from transformer_lab.training import seeded

ORDERS = list(itertools.permutations(range(5)))
HEADLINE = ("dog", "bites", "man")


# ------------------------------------------------------------------------------------------------ order is invisible


@pytest.mark.claim("P1")
def test_every_order_of_five_tokens_gives_the_same_rows():
    with seeded(0) as generator:
        ours, theirs = MultiHeadAttention(8, n_heads=2), torch.nn.MultiheadAttention(8, 2, batch_first=True)
        x = torch.randn(2, 5, 8, generator=generator)
    for attend in (ours, lambda x: theirs(x, x, x)[0]):
        assert max(permutation_gap(attend, x, order) for order in ORDERS) < 1e-5


def test_the_gap_is_seen_where_there_is_one():
    """A function that adds its place fails the same test, by exactly what it adds."""
    x = torch.zeros(1, 3, 1)
    assert permutation_gap(lambda x: x + torch.arange(3.0)[None, :, None], x, (2, 1, 0)) == 2.0


@pytest.mark.claim("P2")
@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_two_headlines_have_the_same_outputs_without_positions_only(scheme):
    turned = shuffle(HEADLINE, (2, 1, 0), scheme=scheme)
    rows = {tuple(row) for row in turned.before.round(decimals=4).tolist()}
    assert len(rows) == 3  # the three outputs differ from each other, so "the same set" says something
    # ALiBi without a mask knows distances and no direction: the mirrored headline keeps all of them.
    assert (turned.largest < 1e-5) == (scheme in ("none", "alibi"))
    assert shuffle(HEADLINE, (2, 1, 0), scheme=scheme, causal=True).largest > 1e-2


@pytest.mark.claim("P3")
def test_a_causal_mask_alone_breaks_the_symmetry():
    tokens = tokenize("the dog bites the old man")
    swapped = shuffle(tokens, (0, 1, 2, 4, 3, 5), causal=True)
    assert swapped.changed == (False, False, False, True, True, False)
    assert not any(shuffle(tokens, (0, 1, 2, 4, 3, 5)).changed)


def test_the_lab_compares_rows_of_the_same_token():
    tokens, order = tokenize("a b c d"), (2, 0, 3, 1)
    result = shuffle(tokens, order)
    attention, _ = attention_with("none")
    x = torch.stack([word_vector(token) for token in tokens])[None]
    with torch.no_grad():
        assert_close(result.after[list(order)], attention(x[:, list(order)])[0])
    with pytest.raises(ValueError, match="order is"):
        shuffle(tokens, (0, 0, 1, 2))


# -------------------------------------------------------------------------------------------------------- sinusoids


@pytest.mark.claim("P4")
def test_wavelengths_climb_geometrically_to_60611():
    waves = wavelengths(512)
    assert len(waves) == 256 and waves[0] == pytest.approx(2 * math.pi)
    assert waves[-1] == pytest.approx(2 * math.pi * 10_000 ** (510 / 512)) and round(waves[-1]) == 60_611
    ratios = [slow / quick for quick, slow in itertools.pairwise(waves)]
    assert max(ratios) - min(ratios) < 1e-9
    for d_model in (2, 8, 64, 512, 4096, 65_536):
        assert wavelengths(d_model)[-1] < 2 * math.pi * 10_000


@pytest.mark.claim("P4")
def test_a_pair_of_the_table_comes_round_after_its_wavelength():
    """d_model = 4: the second pair has 2π · 100 = 628.3 positions a turn, so 628 of them come back almost exactly."""
    table = sinusoidal_table(700, 4)
    assert_close(table[628, 2:], table[0, 2:], atol=0.004, rtol=0)
    assert (table[314, 2:] - table[0, 2:]).abs().max() > 1.9


@pytest.mark.claim("P5")
@pytest.mark.parametrize("k", [0, 1, 7, 100])
def test_one_rotation_leads_every_position_k_places_on(k):
    table, rotation = sinusoidal_table(1_000, 64), shift_rotation(k, 64)
    assert_close(rotation @ rotation.T, torch.eye(64), atol=1e-5, rtol=0)
    assert torch.linalg.det(rotation).item() == pytest.approx(1, abs=1e-3)
    assert_close(table[: 1_000 - k] @ rotation.T, table[k:], atol=1e-4, rtol=0)


def test_an_odd_width_has_no_rotation():
    with pytest.raises(ValueError, match="d_model is 5"):
        shift_rotation(1, 5)


@pytest.mark.claim("P6")
@pytest.mark.parametrize("k", [0, 1, 7, 300])
def test_the_inner_product_depends_on_the_distance_alone(k):
    table = sinusoidal_table(1_000, 64)
    inner = (table[: 1_000 - k] * table[k:]).sum(dim=1)
    expected = sum(math.cos(2 * math.pi * k / wave) for wave in wavelengths(64))
    assert_close(inner, torch.full_like(inner, expected), atol=1e-4, rtol=0)


@pytest.mark.claim("P10")
def test_the_place_is_sixteen_times_as_loud_until_the_content_is_scaled():
    norms = compare_norms(512)
    assert norms.position == pytest.approx(16)  # √(512 / 2)
    assert norms.content == pytest.approx(1, rel=0.02)
    assert norms.scaled_content == pytest.approx(math.sqrt(512) * norms.content, rel=1e-4)


# ------------------------------------------------------------------------------------------------- RoPE and ALiBi


@pytest.mark.claim("P8")
@pytest.mark.parametrize("layout", ["interleaved", "half_split"])
def test_the_dials_keep_the_score_under_a_common_shift(layout):
    here, there = rope_pair(5, 2, 0, layout), rope_pair(5, 2, 100, layout)
    assert there.query_position == 105 and there.score == pytest.approx(here.score, abs=1e-5)
    assert abs(rope_pair(6, 2, 0, layout).score - here.score) > 0.05
    assert_close(here.turned_query.norm(dim=1), here.query.norm(dim=1))


@pytest.mark.claim("P8")
def test_the_two_layouts_score_differently():
    assert abs(rope_pair(5, 2, 0, "interleaved").score - rope_pair(5, 2, 0, "half_split").score) > 0.1
    at_home = [rope_pair(0, 0, 0, layout) for layout in ("interleaved", "half_split")]
    assert at_home[0].score == pytest.approx(at_home[1].score)  # unturned, both are the plain dot product


@pytest.mark.claim("P9")
def test_a_steep_head_looks_next_door_and_a_flat_one_far_back():
    steep, flat = alibi_view(8, 0), alibi_view(8, 7)
    assert steep.half == 2 and flat.half == 16
    powers = [math.exp(-0.5 * distance) for distance in range(32)]
    assert steep.weights == pytest.approx([power / sum(powers) for power in powers], abs=1e-6)
    assert alibi_view(12, 0).from_the_rule == 8 and alibi_view(16, 0).from_the_rule == 16


def test_the_clock_shows_the_table():
    result = clock(8, position=3, shift=2)
    assert_close(result.first.flatten(), sinusoidal_table(6, 8)[3])
    assert result.dot == pytest.approx((sinusoidal_table(6, 8)[3] @ sinusoidal_table(6, 8)[5]).item())


# ------------------------------------------------------------------------------------------- train short, test long


def test_two_back_by_hand():
    tokens, labels = two_back(3, 6, generator=torch.Generator().manual_seed(0))
    assert (labels[:, :2] == NO_ANSWER).all() and torch.equal(labels[:, 2:], tokens[:, :4])


def test_nearest_mark_by_hand():
    tokens, labels = nearest_mark(50, 20, generator=torch.Generator().manual_seed(0))
    for row, wanted in zip(tokens.tolist(), labels.tolist(), strict=True):
        last = NO_ANSWER
        for token, label in zip(row, wanted, strict=True):
            last = token if token < MARKS else last
            assert label == last
    assert 0.15 < (tokens < MARKS).float().mean() < 0.25


@pytest.mark.parametrize("task", [two_back, nearest_mark])
def test_a_task_of_no_size_is_refused(task):
    with pytest.raises(ValueError, match="both must be at least 1"):
        task(0, 4, generator=torch.Generator())
    with pytest.raises(ValueError, match="both must be at least 1"):
        task(4, 0, generator=torch.Generator())


@pytest.fixture(scope="module")
def runs() -> tuple[Extrapolation, Extrapolation]:
    return tuple(train_short_test_long(task) for task in ("two back", "nearest mark"))


@pytest.mark.claim("P7")
def test_no_scheme_wins_both_tasks(runs):
    exact, nearest = runs
    ends = (16, 32, 64)
    assert exact.at("learned", 16) > 0.9 and exact.at("learned", 32) is None
    assert exact.at("sinusoidal", 16) > 0.9 and exact.at("sinusoidal", 32) < 0.5
    assert exact.at("rope", 32) > 0.9 and exact.at("rope", 64) < 0.4
    assert max(exact.at("alibi", end) for end in ends) < 0.5 and max(exact.at("none", end) for end in ends) < 0.5
    assert abs(exact.at("alibi", 16) - exact.at("alibi", 64)) < 0.1
    assert min(nearest.at("alibi", end) for end in ends) > 0.85
    assert max(nearest.at(scheme, 64) for scheme in ("none", "sinusoidal", "rope")) < 0.65


@pytest.mark.claim("P7")
def test_only_the_learned_table_ends(runs):
    for run in runs:
        assert {scheme: len(values) for scheme, values in run.accuracy.items()} == {
            scheme: 4 if scheme == "learned" else 16 for scheme in SCHEMES
        }
        assert run.positions[0] == 2.5 and run.positions[-1] == 62.5


@pytest.mark.claim("P7")
def test_a_learned_table_says_where_it_ends_and_sinusoids_go_on():
    assert LookingBack("sinusoidal")(torch.zeros(1, 64, dtype=torch.long)).isfinite().all()
    with pytest.raises(ValueError, match="position 16 has no row"):
        LookingBack("learned")(torch.zeros(1, 17, dtype=torch.long))


def test_an_unknown_task_is_refused():
    with pytest.raises(ValueError, match="task is 'three back'"):
        train_short_test_long("three back")
