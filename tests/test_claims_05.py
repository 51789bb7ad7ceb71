"""What lesson 05 claims about causal masks, leaks, empty rows, fills, conventions and labels."""
import math

import pytest
import torch
import torch.nn.functional as F

from transformer_lab.experiments.label_shift import (
    CausalLanguageModel,
    inputs_and_labels,
    label_loss,
    label_trial,
    write,
)
from transformer_lab.experiments.masking import (
    WORDS,
    causal_leaks,
    empty_row_policies,
    future_share,
    leak_test,
    paint_mask,
    self_attention,
)
from transformer_lab.model.attention import attention
from transformer_lab.model.masks import as_mask, causal_mask, masked_softmax
from transformer_lab.tasks import agreement
from transformer_lab.training import seeded

INFINITY = torch.inf


def softmax_by_hand(scores: list[float]) -> list[float]:
    powers = [math.exp(score) for score in scores]
    return [power / sum(powers) for power in powers]


# ------------------------------------------------------------------------------------------- causal mask and leaks


@pytest.mark.claim("M1")
def test_a_causal_mask_is_lower_triangular_and_hides_the_future():
    for n in (1, 2, 5, 9):
        expected = [[key <= query for key in range(n)] for query in range(n)]
        assert causal_mask(n).tolist() == expected
    scores = torch.tensor([[2.1, 0.7, 1.5, 3.0]])
    weights = masked_softmax(scores, causal_mask(4)[1:2])[0].tolist()
    assert weights == pytest.approx([*softmax_by_hand([2.1, 0.7]), 0, 0])
    assert weights == pytest.approx([0.80, 0.20, 0, 0], abs=0.005)
    assert torch.tensor([2.1, 0.7, -INFINITY, -INFINITY]).softmax(-1).tolist() == pytest.approx(weights)


@pytest.mark.claim("M2")
def test_the_leak_test_passes_the_right_mask_and_catches_three_wrong_ones():
    right, one_step, inverted, late = causal_leaks(5)
    assert right.leaks == 0
    assert (one_step.leaks, inverted.leaks, late.leaks) == (4, 10, 10)
    assert torch.equal(right.sees, causal_mask(5))
    assert torch.equal(one_step.sees.triu(1).nonzero(), torch.tensor([[i, i + 1] for i in range(4)]))
    # The last query of the inverted mask may see nothing, so nothing moves it.
    assert not inverted.sees[-1].any() and not inverted.sees.tril(-1).any()


@pytest.mark.claim("M2")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("n", [2, 3, 8])
def test_earlier_outputs_of_a_causal_attention_do_not_move_at_all(seed, n):
    assert leak_test(self_attention(causal_mask(n)), n_tokens=n, seed=seed).moved.triu(1).max() == 0


@pytest.mark.claim("M2")
def test_the_leak_test_finds_a_leak_that_no_mask_shows():
    """Centring over the sequence mixes all tokens, whatever the mask."""

    def centred(x):
        return self_attention(causal_mask(5))(x - x.mean(0))

    assert leak_test(centred).leaks == 10


@pytest.mark.claim("M2")
def test_the_late_mask_leaks_through_the_denominator_alone():
    """The first output holds nothing but its own value, yet how much of it depends on tokens it may not see."""
    attend = self_attention(causal_mask(5), after_softmax=True)
    x = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    share = attend(x)[0] / x[0]
    expected = (x @ x.T / 2).softmax(-1)[0, 0]
    torch.testing.assert_close(share, expected.expand(4))
    assert 0 < expected < 1


@pytest.mark.claim("M2")
def test_an_output_moves_with_its_own_token_even_where_that_token_is_hidden():
    """A token also asks: its change turns its query. With one visible key the weight is 1 whatever it asks."""
    hidden_self = leak_test(self_attention(causal_mask(5).tril(-1)))
    assert hidden_self.sees.diagonal().tolist() == [False, False, True, True, True]
    inverted = causal_leaks(5)[2]
    assert inverted.sees.diagonal().tolist() == [True, True, True, False, False]


@pytest.mark.claim("M2")
def test_the_leak_test_is_blind_to_what_is_hidden_too_much_and_to_a_weak_fill():
    """What the lesson says that it does not find."""
    x = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    weak = torch.zeros(5, 5).masked_fill(~causal_mask(5), -1e4)
    assert leak_test(lambda x: (x @ x.T / 2 + weak).softmax(-1) @ x).leaks == 0
    assert ((x @ x.T / 2 + weak).softmax(-1) > 0).triu(1).sum() == 0  # e^-10,000 underflows: no weight is left
    assert leak_test(self_attention(causal_mask(5).tril(-1))).leaks == 0


@pytest.mark.claim("M10")
@pytest.mark.case("M24")
def test_masking_after_the_softmax_loses_part_of_the_row():
    scores, allowed = torch.tensor([2.1, 0.7, 1.5, 3.0]), torch.tensor([True, True, False, False])
    late = scores.softmax(-1).masked_fill(~allowed, 0.0)
    assert late.sum().item() == pytest.approx(0.293, abs=0.001)
    assert masked_softmax(scores, allowed).sum().item() == pytest.approx(1)
    equal = torch.zeros(4).softmax(-1).masked_fill(~allowed, 0.0)
    assert equal.tolist() == [0.25, 0.25, 0, 0]


# ------------------------------------------------------------------------------------------------- rows and numbers


@pytest.mark.claim("M7")
@pytest.mark.case("M12")
def test_three_policies_for_an_empty_row_forward_and_backward():
    added, filled, lowest, zeros = empty_row_policies()
    for infinity in (added, filled):
        assert infinity.weights.isnan().all() and infinity.value_gradient.isnan().all()
        assert math.isnan(infinity.value_projection_gradient)
    # A fill cuts the scores off from the gradient, a sum does not.
    assert math.isnan(added.query_gradient) and filled.query_gradient == zeros.query_gradient
    assert lowest.weights.tolist() == pytest.approx([1 / 3] * 3)
    assert lowest.value_gradient.tolist() == pytest.approx([1 / 3] * 3)  # forbidden keys are trained
    assert zeros.weights.tolist() == [0, 0, 0] and zeros.value_gradient.tolist() == [0, 0, 0]


@pytest.mark.claim("M7")
@pytest.mark.case("M13")
def test_the_other_rows_train_as_if_the_empty_row_were_not_there():
    """By hand: the gradient of the two other rows alone, with no third query in sight."""
    generator = torch.Generator().manual_seed(0)
    x, query = torch.randn(3, 2, generator=generator), torch.randn(2, 2, generator=generator).requires_grad_()
    value = torch.eye(2).requires_grad_()
    scores = (x[[0, 2]] @ query) @ x.T / math.sqrt(2)
    first = x[0] @ value  # query 0 may attend to key 0 alone
    last = scores[1].softmax(-1) @ (x @ value)
    torch.stack((first, last)).pow(2).sum().backward()
    ours = empty_row_policies()[3]
    assert ours.query_gradient == pytest.approx(float(query.grad.norm()), rel=1e-5)
    assert ours.value_projection_gradient == pytest.approx(float(value.grad.norm()), rel=1e-5)
    assert min(query.grad.norm(), value.grad.norm()) > 0.1


@pytest.mark.claim("M8")
@pytest.mark.case("M17")
def test_fills_in_half_precision_overflow():
    assert torch.tensor(-1e9).half().item() == -math.inf
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        lowest = torch.tensor(torch.finfo(dtype).min, dtype=dtype)
        assert (lowest + lowest).item() == -math.inf
        assert (lowest + lowest).expand(3).float().softmax(-1).isnan().all()
        assert lowest.expand(3).float().softmax(-1).tolist() == pytest.approx([1 / 3] * 3)


@pytest.mark.claim("M8")
def test_a_weak_fill_is_outvoted_and_a_boolean_mask_never():
    assert future_share(-1e4, 5e3) < 1e-6
    assert future_share(-1e4, 2e4) > 0.999
    assert future_share(-1e4, 1e4) == pytest.approx(0.5)
    assert future_share(-INFINITY, 1e30) == 0
    scores = torch.tensor([[0.0, 2e4], [0.0, 0.0]])
    assert masked_softmax(scores, causal_mask(2)).tolist() == [[1, 0], [0.5, 0.5]]


# ------------------------------------------------------------------------------------------------------ conventions


@pytest.mark.claim("M9")
@pytest.mark.case("M01")
def test_two_functions_of_torch_read_one_tensor_in_opposite_ways():
    x = torch.randn(1, 4, 8, generator=torch.Generator().manual_seed(0))
    real = torch.tensor([[True, True, False, False]])
    by_function = F.scaled_dot_product_attention(x, x, torch.eye(4)[None], attn_mask=real[:, None])
    module = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    _, by_module = module(x, x, x, key_padding_mask=real)
    assert torch.equal(by_function > 0, real[:, None].expand(1, 4, 4))
    assert torch.equal(by_module > 0, ~real[:, None].expand(1, 4, 4))
    heads = x[:, None]
    _, ours = attention(heads, heads, heads, mask=real[:, None, None], need_weights=True)
    assert torch.equal(ours[0] > 0, by_function > 0)
    assert torch.equal(as_mask(ignore=~real), real) and torch.equal(as_mask(keep=real), real)


@pytest.mark.claim("M13")
@pytest.mark.case("M07")
def test_with_fewer_queries_than_keys_our_triangle_sits_bottom_right_and_torchs_top_left():
    assert causal_mask(2, 5).tolist() == [[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]
    query, key, value = torch.zeros(1, 1, 2, 5), torch.zeros(1, 1, 5, 5), torch.eye(5)[None, None]
    ours, _ = attention(query, key, value, causal=True)
    theirs = F.scaled_dot_product_attention(query, key, value, is_causal=True)
    assert ours[0, 0].tolist() == pytest.approx(torch.tensor([[0.25] * 4 + [0], [0.2] * 5]).numpy())
    assert theirs[0, 0].tolist() == pytest.approx(torch.tensor([[1.0, 0, 0, 0, 0], [0.5, 0.5, 0, 0, 0]]).numpy())
    x = torch.randn(1, 2, 5, 4, generator=torch.Generator().manual_seed(1))
    whole, last = attention(x, x, x, causal=True)[0], attention(x[:, :, -2:], x, x, causal=True)[0]
    torch.testing.assert_close(last, whole[:, :, -2:], rtol=0, atol=1e-6)


@pytest.mark.claim("M13")
def test_the_painter_shows_both_corners():
    bottom, top = (paint_mask(True, 0, 8, 2, 0, corner).mask for corner in ("bottom right", "top left"))
    assert torch.equal(bottom, causal_mask(2, 8))
    assert top.tolist() == [[True] + [False] * 7, [True, True] + [False] * 6]


def test_the_painter_combines_masks_as_a_loop_would():
    for causal in (False, True):
        for window in (0, 1, 3):
            for real in (0, 5, 8):
                for n_query in (1, 3, 8):
                    painted = paint_mask(causal, window, real, n_query, 0)
                    expected = [
                        [
                            key < real and (not causal or key <= place) and (not window or abs(place - key) < window)
                            for key in range(8)
                        ]
                        for place in range(8 - n_query, 8)
                    ]
                    assert painted.mask.tolist() == expected
                    assert painted.empty_rows == sum(not any(row) for row in expected)
                    assert painted.key_tokens == WORDS[:real] + ("pad",) * (8 - real)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ((True, 9, 8, 8, 0), "window is 9"),
        ((True, 0, -1, 8, 0), "real_tokens is -1"),
        ((True, 0, 8, 0, 0), "n_query is 0"),
        ((True, 0, 8, 3, 3), "row is 3"),
        ((True, 0, 8, 8, 0, "centre"), "alignment is 'centre'"),
    ],
)
def test_the_painter_names_what_is_out_of_range(settings, named):
    with pytest.raises(ValueError, match=named):
        paint_mask(*settings)


# ------------------------------------------------------------------------------------------------------- label shift


@pytest.fixture(scope="module")
def trials():
    """Both runs, at the lesson's settings."""
    return label_trial(shifted=True), label_trial(shifted=False)


@pytest.mark.claim("M3")
def test_shifted_labels_are_the_next_tokens():
    tokens = torch.tensor([agreement.encode(("The".lower(), "cat", "sleeps"))])
    words = [[agreement.WORDS[token] for token in side[0, :3]] for side in inputs_and_labels(tokens)]
    assert words == [["<start>", "the", "cat"], ["the", "cat", "sleeps"]]
    inputs, labels = inputs_and_labels(tokens, shifted=False)
    assert torch.equal(inputs, labels)


@pytest.mark.claim("M3")
def test_without_the_shift_the_loss_is_superb_and_the_model_useless(trials):
    shifted, unshifted = trials
    floor = agreement.best_loss()
    assert floor < shifted.final_loss < floor + 0.1
    assert shifted.grammatical >= 0.9
    assert unshifted.final_loss < 0.01
    assert unshifted.grammatical == 0
    assert shifted.run.steps == unshifted.run.steps == 200


@pytest.mark.claim("M3")
def test_without_the_shift_the_model_copies():
    with seeded(0):
        model = CausalLanguageModel(len(agreement.WORDS))
    untrained = write(model, 20, torch.Generator().manual_seed(0))
    assert len(set(untrained)) > 10
    trial = label_trial(shifted=False, n_sentences=20)
    assert set(trial.sentences) == {("<start>",) * agreement.LENGTH}


def test_the_small_language_model_does_not_leak():
    with seeded(0):
        model = CausalLanguageModel(len(agreement.WORDS)).eval()
    tokens = agreement.draw(4, torch.Generator().manual_seed(0))
    changed = tokens.clone()
    changed[:, 4] = (changed[:, 4] + 1) % len(agreement.WORDS)
    moved = (model(tokens) - model(changed)).abs().amax(-1)
    assert moved[:, :4].max() == 0 and moved[:, 4:].min() > 0


def test_the_loss_leaves_pads_out():
    tokens = torch.tensor([agreement.encode(("the", "cat", "sleeps"))])
    inputs, labels = inputs_and_labels(tokens)
    logits = torch.randn(1, inputs.shape[1], len(agreement.WORDS), generator=torch.Generator().manual_seed(0))
    by_hand = [-logits[0, place].log_softmax(-1)[label].item() for place, label in enumerate(labels[0, :4])]
    assert label_loss(logits, labels).item() == pytest.approx(sum(by_hand) / 4, rel=1e-5)


def test_the_grammar_agrees_in_number_and_its_floor_is_known():
    assert len(set(agreement.SENTENCES)) == len(agreement.SENTENCES) == 2 * 3 * 4 * 3 * 3 * 3
    assert agreement.is_sentence(("these", "old", "dogs", "run", "today"))
    assert not agreement.is_sentence(("these", "old", "dog", "runs", "today"))
    assert not agreement.is_sentence(("a", "cats", "sleep"))
    # a determiner, noun, verb and end always; an adjective 3 times in 4, an ending 2 times in 3
    assert agreement.mean_labels() == pytest.approx(5.417, abs=5e-4)
    assert agreement.best_loss() == pytest.approx(math.log(648) / (4 + 3 / 4 + 2 / 3))
    for sentence in agreement.SENTENCES:
        assert agreement.decode(torch.tensor(agreement.encode(sentence))) == sentence
    drawn = agreement.draw(50, torch.Generator().manual_seed(3))
    assert all(agreement.is_sentence(agreement.decode(row)) for row in drawn)
    assert len({agreement.decode(row) for row in drawn}) > 30
