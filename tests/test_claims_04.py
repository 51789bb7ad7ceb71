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
from transformer_lab.experiments.lookalikes import ALIKE, lookalikes, mean_weights, pair_scores
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
from transformer_lab.practice.questions import get
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
    assert all(shuffle(tokens, (5, 1, 2, 3, 4, 0), causal=True).changed)  # the swap of the two ends


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
    assert exact.at("learned", 16) > 0.9 and exact.at("learned", 17) is None
    assert exact.at("rope", 32) > 0.9 and exact.at("rope", 64) < 0.3
    assert max(exact.at("alibi", end) for end in ends) < 0.5 and max(exact.at("none", end) for end in ends) < 0.5
    assert abs(exact.at("alibi", 16) - exact.at("alibi", 64)) < 0.1
    assert min(nearest.at("alibi", end) for end in ends) > 0.85
    assert max(nearest.at(scheme, 64) for scheme in ("none", "sinusoidal", "rope")) < 0.65


@pytest.mark.claim("P7")
def test_only_the_learned_table_ends(runs):
    for run in runs:
        assert {scheme: len(values) for scheme, values in run.accuracy.items()} == {
            scheme: 14 if scheme == "learned" else 62 for scheme in SCHEMES
        }
        assert run.positions == tuple(range(3, 65))


def test_the_accuracy_of_a_position_is_that_of_its_answers(runs):
    """By hand for one position: the model's answers at it, on the sequences that were asked."""
    exact, _ = runs
    tokens, labels = two_back(1000, 64, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        right = exact.models["rope"](tokens)[:, 39].argmax(dim=-1) == labels[:, 39]
    assert exact.at("rope", 40) == pytest.approx(right.float().mean().item(), abs=1e-6)


@pytest.fixture(scope="module")
def seeds(runs) -> list[Extrapolation]:
    return [runs[0]] + [train_short_test_long("two back", schemes=("sinusoidal", "rope"), seed=s) for s in (1, 2)]


@pytest.mark.claim("P7")
def test_sinusoids_are_lost_and_found_and_lost_again(runs, seeds):
    exact, _ = runs
    assert exact.at("sinusoidal", 18) < 0.5 and exact.at("sinusoidal", 22) > 0.7 and exact.at("sinusoidal", 30) < 0.4
    for run in seeds:
        assert run.at("sinusoidal", 15) > 0.9
        lost, found, again = (
            [run.at("sinusoidal", p) for p in places] for places in ((18, 19), (21, 22, 23, 24), (28, 29, 30))
        )
        assert max(lost) < 0.5 and max(found) > 0.7 and max(again) < 0.4


@pytest.mark.claim("P7")
def test_rope_falls_where_the_lookalikes_come_within_reach(seeds):
    for run in seeds:
        assert run.at("rope", 33) > 0.9  # half of its keys stand at distances that were never trained
        assert run.at("rope", 33) - run.at("rope", 35) > 0.05  # 34 back is in reach
        assert run.at("rope", 39) - run.at("rope", 41) > 0.3  # 40 back
        assert run.at("rope", 46) > run.at("rope", 47) < 0.2  # 46 back


@pytest.mark.claim("P7")
def test_the_fastest_pair_takes_46_for_2_and_the_second_prefers_it(seeds):
    assert ALIKE == (8, 15, 21, 27, 33, 40, 46, 52, 59)
    for run in seeds:
        pairs, weights = pair_scores(run.models["rope"]), mean_weights(run.models["rope"])
        fastest, second = pairs[:, 0], pairs[:, 1]
        assert (fastest[:, 46] / fastest[:, 2] - 1).abs().max() < 0.05
        assert (second[:, 2:16].diff(dim=1) < 0).all()  # in training, nearer is better
        assert (second[:, 46] > second[:, 2]).all() and second[:, 40].mean() > second[:, 2].mean()
        assert (fastest[:, 2] > 10 * pairs[:, 2:, :64].abs().amax(dim=(1, 2))).all()  # the slow pairs say little
        near, far = ([lookalikes(pairs, weights, head, p).favourite for head in range(4)] for p in (32, 48))
        assert set(near) == {2} and set(far) == {46}


def test_pair_scores_are_the_mean_scores_of_the_model():
    """Against the long way: every pair of symbols, at one distance, turned and multiplied."""
    with seeded(3):
        model = LookingBack("rope")
    attention, symbols = model.attention, model.embedding.weight
    with torch.no_grad():
        query, key = (p(symbols).view(10, 4, 8).transpose(0, 1)[None] for p in (attention.query_projection,
                                                                               attention.key_projection))  # fmt: skip
        turned = [model.position.rotate(x, torch.full((1, 10), place)) for x, place in ((query, 30), (key, 13))]
        expected = (turned[0] @ turned[1].mT)[0].mean(dim=(1, 2)) / math.sqrt(8)
        assert_close(pair_scores(model)[:, :, 17].sum(dim=1), expected)
    with pytest.raises(ValueError, match="SinusoidalPositions"):
        pair_scores(LookingBack("sinusoidal"))


@pytest.mark.claim("P7")
def test_a_learned_table_says_where_it_ends_and_sinusoids_go_on():
    assert LookingBack("sinusoidal")(torch.zeros(1, 64, dtype=torch.long)).isfinite().all()
    with pytest.raises(ValueError, match="position 16 has no row"):
        LookingBack("learned")(torch.zeros(1, 17, dtype=torch.long))


def test_an_unknown_task_is_refused():
    with pytest.raises(ValueError, match="task is 'three back'"):
        train_short_test_long("three back")


# --------------------------------------------------------------------------------------------------- the questions


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (60_000, "60,611"),  # rounded by hand
        (62_832, "Which is the last pair that exists?"),
        (10_000, "That is the base."),
        (10_000 ** (510 / 512), "how many radians is once round?"),  # 2π forgotten
        (2 * math.pi, "That is the fastest pair"),
        (512, "That is the width"),
        (3.14, "That is too small."),
    ],
)
def test_each_wrong_wavelength_is_answered_in_its_own_words(answer, said):
    assert said in get("positions-longest-wavelength").why(answer)
