"""What lesson 02 claims, computed through the functions it uses and at its settings."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer_lab.experiments.attention_walk import STEPS, walk_attention
from transformer_lab.experiments.scaling import WIDTHS, random_scores, sweep_scaling
from transformer_lab.model.attention import MultiHeadAttention, attention
from transformer_lab.tasks.words import PARTS, WORDS, embed, projections, tokenize

SENTENCE = "The bank approved it"
IT, BANK = 3, 1


@pytest.fixture
def walk():
    return walk_attention(SENTENCE, query=IT)


@pytest.mark.claim("A1")
def test_query_key_and_value_are_projections_of_the_same_x(walk):
    X = embed(walk.tokens)
    for made, matrix in zip((walk.query, walk.key, walk.value), projections(), strict=True):
        assert torch.equal(made, X @ matrix)


@pytest.mark.claim("A1")
def test_projections_are_parameters_and_query_key_value_are_not():
    one_head = MultiHeadAttention(d_model=6, n_heads=1, bias=False)
    names = {name for name, _ in one_head.named_parameters()}
    assert names == {f"{role}_projection.weight" for role in ("query", "key", "value", "output")}
    before = {name: parameter.clone() for name, parameter in one_head.named_parameters()}
    seen = []
    one_head.query_projection.register_forward_hook(lambda module, args, result: seen.append(result))
    one_head(embed(tokenize(SENTENCE))[None])
    one_head(embed(tokenize("The river flooded it"))[None])
    assert not torch.equal(seen[0], seen[1])
    assert all(torch.equal(before[name], parameter) for name, parameter in one_head.named_parameters())


@pytest.mark.claim("A2")
@pytest.mark.parametrize("sentence", ["it", "river bank", SENTENCE, "The boat crossed the deep river by the deep lake"])
def test_scores_have_a_row_per_query_and_a_column_per_key(sentence):
    walk = walk_attention(sentence)
    n = len(sentence.split())
    assert walk.scores.shape == walk.scaled.shape == walk.weights.shape == (n, n)
    for q in range(n):
        for k in range(n):
            dot = sum(a * b for a, b in zip(walk.query[q].tolist(), walk.key[k].tolist(), strict=True))
            assert math.isclose(walk.scores[q, k].item(), dot, abs_tol=1e-5)


@pytest.mark.claim("A2")
def test_the_table_of_scores_is_not_symmetric(walk):
    assert walk.scores[IT, BANK] == pytest.approx(3.6) and walk.scores[BANK, IT] == 0


@pytest.mark.claim("A3")
@given(
    words=st.lists(st.sampled_from(sorted(WORDS)), min_size=1, max_size=10),
    mask=st.sampled_from(("none", "causal")),
    temperature=st.floats(0.1, 20),
    d_k=st.sampled_from((4, 16, 256)),
    scale=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_rows_are_shares(words, mask, temperature, d_k, scale):
    walk = walk_attention(" ".join(words), mask=mask, temperature=temperature, d_k=d_k, scale=scale)
    assert (walk.weights >= 0).all()
    torch.testing.assert_close(walk.weights.sum(-1), torch.ones(len(words)), atol=1e-5, rtol=0)
    assert (walk.weights[~walk.allowed] == 0).all()


@pytest.mark.claim("A3")
def test_columns_need_not_sum_to_one(walk):
    assert [round(total, 2) for total in walk.weights.sum(0).tolist()] == [0.57, 1.61, 1.25, 0.57]


@pytest.mark.claim("A4")
@pytest.mark.parametrize("d_k", WIDTHS)
def test_variance_of_a_score_is_d_k_and_one_after_scaling(d_k):
    # 4,000 queries, so that the estimate is good to a few percent at every width
    scores = random_scores(d_k, n_queries=4000, n_keys=2, generator=torch.Generator().manual_seed(3))
    assert scores.var().item() == pytest.approx(d_k, rel=0.1)
    assert (scores / math.sqrt(d_k)).var().item() == pytest.approx(1, rel=0.1)


@pytest.mark.claim("A4")
def test_the_condition_of_the_variance_matters():
    """Components that are all the same number are not independent: the variance is then far above d_k."""
    generator = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, 8000, 1, generator=generator).expand(2, 8000, 64)
    assert (q * k).sum(-1).var() > 20 * 64


@pytest.mark.claim("A5")
@pytest.mark.parametrize("n_keys", [4, 16, 32])
@pytest.mark.parametrize("seed", [0, 1, 9])
def test_without_scaling_the_softmax_saturates_with_the_width(n_keys, seed):
    sweep = sweep_scaling(n_keys=n_keys, seed=seed)
    narrow, wide = sweep.unscaled[0], sweep.unscaled[-1]
    assert wide.largest_weight > 0.9 and wide.largest_weight > narrow.largest_weight + 0.25
    assert wide.entropy < 0.2 and wide.entropy < narrow.entropy / 3
    assert wide.gradient < narrow.gradient / 2
    for at in sweep.scaled:  # level at every width
        assert at.largest_weight == pytest.approx(sweep.scaled[0].largest_weight, rel=0.15)
        assert at.entropy == pytest.approx(sweep.scaled[0].entropy, rel=0.1)
        assert at.gradient == pytest.approx(sweep.scaled[0].gradient, rel=0.2)


@pytest.mark.claim("A4")
def test_a_fresh_head_is_near_the_condition_up_to_a_constant():
    """Its queries and keys have variance of about 1/3, so a score of width 64 has about 64/9 = 7.1."""
    torch.manual_seed(0)  # a module draws its own weights from the global generator
    heads = MultiHeadAttention(512, 8)
    x = torch.randn(4, 64, 512, generator=torch.Generator().manual_seed(0))
    q, k = (project(x) for project in (heads.query_projection, heads.key_projection))
    assert q.var().item() == pytest.approx(1 / 3, rel=0.2) and k.var().item() == pytest.approx(1 / 3, rel=0.2)
    q, k = (part.view(4, 64, 8, 64).transpose(1, 2) for part in (q, k))
    assert (q @ k.mT).var().item() == pytest.approx(64 / 9, rel=0.3)


@pytest.mark.claim("A5")
def test_how_much_of_the_gradient_is_left():
    """Equal shares among n keys pass 1/n of it: 0.06 at 16 keys. Unscaled, half is left at 64, an eighth at 1,024."""
    sweep = sweep_scaling(n_keys=16, seed=0)
    for at in sweep.scaled:
        assert at.gradient == pytest.approx(1 / 16, rel=0.25)
    left = {d_k: a.gradient / b.gradient for d_k, a, b in zip(WIDTHS, sweep.unscaled, sweep.scaled, strict=True)}
    assert left[64] == pytest.approx(1 / 2, abs=0.1) and left[1024] == pytest.approx(1 / 8, abs=0.03)


@pytest.mark.claim("A5")
def test_the_numbers_the_lesson_prints():
    sweep = sweep_scaling(n_keys=16, seed=0)
    wide, wide_scaled = sweep.unscaled[-1], sweep.scaled[-1]
    assert wide.largest_weight > 0.9 and wide_scaled.largest_weight < 0.4
    assert wide.gradient < wide_scaled.gradient / 4


def test_statistics_of_a_row_worked_out_by_hand():
    """Equal scores: entropy log n, and a softmax Jacobian that shrinks a zero-mean gradient to 1/n of its length."""
    from transformer_lab.experiments.scaling import score_statistics

    found = score_statistics(torch.zeros(500, 4), generator=torch.Generator().manual_seed(0))
    assert found.variance == 0 and found.largest_weight == 0.25
    assert found.entropy == pytest.approx(math.log(4))
    # a random direction in 4 dimensions keeps on average about 0.85 of its length off the mean
    assert 0.8 / 4 < found.gradient < 0.9 / 4


@pytest.mark.claim("A6")
@given(seed=st.integers(0, 10_000), spread=st.sampled_from((0.1, 1.0, 20.0, 1000.0)))
@settings(max_examples=60, deadline=None)
def test_outputs_never_leave_the_range_of_the_values(seed, spread):
    q, k, v = torch.randn(3, 1, 1, 6, 8, generator=torch.Generator().manual_seed(seed))
    mixed, _ = attention(spread * q, k, v, need_weights=True)
    assert (mixed >= v.amin(-2, keepdim=True) - 1e-5).all()
    assert (mixed <= v.amax(-2, keepdim=True) + 1e-5).all()


@pytest.mark.claim("A7")
def test_bank_leaves_as_water_or_as_money():
    in_river, in_loan = walk_attention("river bank"), walk_attention("bank loan")
    assert torch.equal(embed(("bank",)), embed(("Bank",)))
    assert torch.equal(in_river.value[1], in_loan.value[0])  # half water, half money, both times
    water, money = PARTS.index("water"), PARTS.index("money")
    assert in_river.value[1, water] == in_river.value[1, money] == 0.5
    assert in_river.output[1, water] > 0.9 > 0.1 > in_river.output[1, money]
    assert in_loan.output[0, money] > 0.9 > 0.1 > in_loan.output[0, water]


@pytest.mark.claim("A8")
def test_the_row_of_it_and_its_mix(walk):
    assert [f"{weight:.2f}" for weight in walk.weights[IT]] == ["0.10", "0.60", "0.20", "0.10"]
    assert walk.scaled[IT].tolist() == pytest.approx([0, 1.8, 0.7, 0])
    # by hand, from the table of the lesson
    by_hand = [0.6 * 0.5, 0.6 * 0.5 + 0.2 * 0.5, 0.1 * 0.5 + 0.6 * 1 + 0.1 * 1, 0.2 * 1]
    assert walk.output[IT].tolist() == pytest.approx(by_hand, abs=0.002)


@pytest.mark.claim("A8")
def test_shape_walk_of_sixteen_tokens():
    generator = torch.Generator().manual_seed(1)
    X = torch.randn(16, 512, generator=generator)
    Q, K, V = (X @ matrix for matrix in torch.randn(3, 512, 64, generator=generator) / math.sqrt(512))
    assert Q.shape == K.shape == V.shape == (16, 64)
    output, weights = attention(Q[None, None], K[None, None], V[None, None], need_weights=True)
    assert weights.shape == (1, 1, 16, 16) and output.shape == (1, 1, 16, 64)


@pytest.mark.claim("A9")
def test_softmax_of_two_by_hand_and_by_code():
    # e^2.1 = 8.166, e^0.7 = 2.014
    assert [round(8.166 / (8.166 + 2.014), 2), round(2.014 / (8.166 + 2.014), 2)] == [0.80, 0.20]
    assert [round(share, 2) for share in torch.tensor([2.1, 0.7]).softmax(-1).tolist()] == [0.80, 0.20]


@pytest.mark.claim("A9")
def test_subtracting_the_maximum_changes_nothing_but_prevents_overflow():
    two = torch.tensor([2.1, 0.7])
    large = two + 200
    assert (large.exp() / large.exp().sum()).isnan().all()
    below_zero = large - large.max()
    torch.testing.assert_close(below_zero.exp() / below_zero.exp().sum(), two.softmax(-1), atol=1e-5, rtol=0)


@pytest.mark.claim("A10")
@pytest.mark.parametrize("sentence", [SENTENCE, "river bank", "They saw the rich clerk near the lake"])
@pytest.mark.parametrize("mask", ["none", "causal"])
def test_the_walk_the_library_and_torch_agree(sentence, mask):
    walk = walk_attention(sentence, mask=mask)
    weights = walk.scaled.masked_fill(~walk.allowed, -torch.inf).softmax(-1)  # the inline build
    torch.testing.assert_close(walk.weights, weights, atol=1e-6, rtol=0)
    torch.testing.assert_close(walk.output, weights @ walk.value, atol=1e-6, rtol=0)
    theirs = torch.nn.functional.scaled_dot_product_attention(
        walk.query, walk.key, walk.value, is_causal=mask == "causal"
    )
    torch.testing.assert_close(walk.output, theirs, atol=1e-6, rtol=0)


@pytest.mark.parametrize("temperature", [0.1, 1.0, 20.0])
@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("d_k", [4, 64])
def test_the_steps_that_are_shown_lead_to_the_weights(temperature, scale, d_k):
    walk = walk_attention(SENTENCE, temperature=temperature, scale=scale, d_k=d_k)
    torch.testing.assert_close(walk.scaled, walk.scores / (temperature * (math.sqrt(d_k) if scale else 1)))
    torch.testing.assert_close(walk.weights, walk.scaled.softmax(-1), atol=1e-5, rtol=1e-4)


@pytest.mark.claim("A11")
def test_the_same_weights_with_other_values_give_another_output(walk):
    empty_bank = walk.value.clone()
    empty_bank[BANK] = 0
    Q, K = walk.query[None, None], walk.key[None, None]
    first, weights = attention(Q, K, walk.value[None, None], need_weights=True)
    second, same_weights = attention(Q, K, empty_bank[None, None], need_weights=True)
    assert torch.equal(weights, same_weights) and weights[0, 0, IT].argmax() == BANK
    assert (first[0, 0, IT] - second[0, 0, IT]).abs().max() > 0.5


# What the lesson promises beside the explorer.


def test_temperature_sharpens_and_levels_every_row():
    cold, hot = (walk_attention(SENTENCE, temperature=t).weights for t in (0.1, 20))
    assert (cold.amax(-1) > 0.99).all() and (hot - 0.25).abs().max() < 0.02


def test_three_of_four_rows_saturate_when_a_wide_head_is_not_scaled():
    plain, scaled = (walk_attention(SENTENCE, d_k=1024, scale=scale).weights.amax(-1) for scale in (False, True))
    assert (plain > 0.99).sum() == 3 and (scaled > 0.99).sum() == 0


# The trap, and the public reports behind it.


def test_a_softmax_over_the_queries_depends_on_who_else_asks(walk):
    for axis, agree in ((-1, True), (0, False)):
        together, alone = walk.scaled.softmax(axis)[IT], walk.scaled[IT:].softmax(axis)[0]
        assert torch.allclose(together, alone, atol=1e-6) is agree
    assert walk.scaled[IT:].softmax(0).sum() == 4
    assert (walk.scaled[IT:].softmax(0) @ walk.value > walk.value.amax(0)).any()


@pytest.mark.case("S03")
def test_scaling_the_query_first_is_the_same(walk):
    early = (walk.query / math.sqrt(walk.query.shape[-1])) @ walk.key.mT
    torch.testing.assert_close(early, walk.scaled, atol=1e-6, rtol=0)


# The hand-set words.


def test_every_word_has_a_number_for_every_feature_and_can_be_read():
    assert 30 <= len(WORDS) <= 45
    for word, numbers in WORDS.items():
        assert len(numbers) == len(projections()[0])
        assert all(round(number, 1) == number for number in numbers), word
    assert all((matrix * 10 == (matrix * 10).round()).all() for matrix in projections())


def test_the_projections_are_fresh_ones_each_time():
    projections()[0].zero_()
    assert projections()[0].any()


@pytest.mark.parametrize("typed", ["the BANK approved it", "  The bank approved it!  ", "“The bank”, approved it…"])
def test_case_and_punctuation_do_not_matter(typed):
    assert torch.equal(embed(tokenize(typed)), embed(tokenize(SENTENCE)))


def test_a_word_has_the_same_random_vectors_wherever_it_stands():
    first, second = walk_attention("river bank", d_k=64), walk_attention("bank loan", d_k=64)
    assert torch.equal(first.query[1], second.query[0]) and not torch.equal(first.query[0], first.query[1])


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"query": 4}, "query is position 4, but the sentence has 4 words"),
        ({"key": -1}, "key is position -1"),
        ({"step": "softmax"}, ", ".join(STEPS)),
        ({"mask": "padding"}, "none, causal"),
        ({"temperature": 0.0}, "must be above 0"),
        ({"temperature": math.nan}, "must be above 0"),
        ({"d_k": 0}, "at least 1"),
    ],
)
def test_a_wrong_argument_is_named(wrong, words):
    with pytest.raises(ValueError, match=words):
        walk_attention(SENTENCE, **wrong)


def test_a_wrong_width_of_the_sweep_is_named():
    with pytest.raises(ValueError, match="d_k is 100"):
        sweep_scaling(d_k=100)
    with pytest.raises(ValueError, match="n_keys is 1"):
        sweep_scaling(n_keys=1)
