"""What lesson 06 claims about feed-forward layers, norms, shortcuts and the order of a block."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from transformer_lab.experiments.block_walk import D_MODEL, WORDS, walk_block
from transformer_lab.experiments.deep_models import (
    difference,
    explore_depth,
    first_block_gradients,
    gradient_by_block,
    language_model,
    loss_of,
    some_sentences,
    some_words,
)
from transformer_lab.experiments.norm_order import (
    compare_orders,
    frequency_loss,
    stream_sizes,
    train_order,
)
from transformer_lab.experiments.norms import by_stored_averages, in_batches, norm_steps
from transformer_lab.experiments.torch_layer import block_from
from transformer_lab.model.attention import MultiHeadAttention
from transformer_lab.model.blocks import Block
from transformer_lab.model.feedforward import FeedForward
from transformer_lab.model.norms import LayerNorm, RMSNorm
from transformer_lab.tasks import agreement


def randn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def count(module: nn.Module) -> int:
    return sum(weight.numel() for weight in module.parameters())


# ---------------------------------------------------------------------------------------------- the feed-forward layer


@pytest.mark.claim("B1")
@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu_tanh", "swiglu", "geglu"])
def test_one_token_at_a_time_or_shuffled_gives_the_same(activation):
    layer, x = FeedForward(32, 128, activation=activation), randn(2, 7, 32)
    together = layer(x)
    alone = torch.stack([torch.stack([layer(token) for token in sentence]) for sentence in x])
    torch.testing.assert_close(alone, together, rtol=0, atol=1e-6)
    order = torch.randperm(7, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(layer(x[:, order])[:, order.argsort()], together, rtol=0, atol=1e-6)
    changed = x.clone()
    changed[:, 3] += 1
    moved = (layer(changed) - together).abs().amax(dim=(0, 2)) > 0
    assert moved.tolist() == [place == 3 for place in range(7)]
    # Attention is not like that: the test can fail.
    assert (MultiHeadAttention(32, 4)(changed) - MultiHeadAttention(32, 4)(x)).abs().amax(dim=(0, 2)).min() > 0


@pytest.mark.claim("B1")
def test_the_feed_forward_layer_holds_twice_the_weights_of_attention():
    feedforward, attention = FeedForward(512, 2048, bias=False), MultiHeadAttention(512, 8, bias=False)
    assert count(feedforward) == 2 * 512 * 2048 == 2_097_152
    assert count(attention) == 4 * 512 * 512 == 1_048_576


@pytest.mark.claim("B1")
def test_without_a_bend_two_matrices_are_one():
    layer, x = FeedForward(8, 32, bias=False), randn(5, 8)
    layer.activation = lambda z: z
    torch.testing.assert_close(layer(x), x @ (layer.down.weight @ layer.up.weight).T)
    bent = FeedForward(8, 32, activation="relu", bias=False)
    assert not torch.allclose(bent(x), x @ (bent.down.weight @ bent.up.weight).T, atol=0.05)


@pytest.mark.claim("B2")
@pytest.mark.case("F01")
def test_the_two_gelus_are_named_apart_and_part_by_less_than_half_a_thousandth():
    grid = torch.arange(-6, 6.005, 0.01, dtype=torch.float64)
    exact = grid / 2 * (1 + torch.erf(grid / math.sqrt(2)))
    by_tanh = grid / 2 * (1 + torch.tanh(math.sqrt(2 / math.pi) * (grid + 0.044715 * grid**3)))
    assert (exact - by_tanh).abs().max().item() == pytest.approx(4.73e-4, abs=5e-6)
    for name, expected in (("gelu", exact), ("gelu_tanh", by_tanh), ("relu", grid.clamp(min=0))):
        activation = FeedForward(2, 2, activation=name).activation
        torch.testing.assert_close(activation(grid), expected, rtol=0, atol=1e-12)


@pytest.mark.claim("B2")
@pytest.mark.case("F02")
def test_swiglu_has_three_matrices_and_a_gate_that_leaves_0_to_1():
    layer, x = FeedForward(512, 1365, activation="swiglu", bias=False), randn(6, 512)
    assert count(layer) == 3 * 512 * 1365 and count(layer) == pytest.approx(8 * 512**2, rel=5e-4)
    gate = layer.gate(x) * torch.sigmoid(layer.gate(x))
    torch.testing.assert_close(layer(x), layer.down(gate * layer.up(x)), rtol=1e-4, atol=1e-6)
    assert gate.min() < 0 and F.silu(torch.tensor(4.0)) > 1
    # SiLU on the gate alone: silu(2) · (−3), not silu(2 · (−3))
    tiny = FeedForward(1, 1, activation="swiglu", bias=False)
    for part, weight in ((tiny.gate, 2.0), (tiny.up, -3.0), (tiny.down, 1.0)):
        nn.init.constant_(part.weight, weight)
    assert tiny(torch.ones(1, 1)).item() == pytest.approx(-6 / (1 + math.exp(-2)), abs=1e-4)


# ------------------------------------------------------------------------------------------------------------- norms


@pytest.mark.claim("B3")
def test_both_norms_of_three_and_four_by_hand_and_by_torch():
    steps = norm_steps((3, 4), eps=0.0)
    assert (steps.mean, steps.variance, steps.mean_square) == (3.5, 0.25, 12.5)
    assert steps.layer_output.tolist() == pytest.approx([-1, 1])
    assert steps.rms_output.tolist() == pytest.approx([3 / math.sqrt(12.5), 4 / math.sqrt(12.5)])
    assert steps.rms_output.tolist() == pytest.approx([0.849, 1.131], abs=5e-4)
    x = 5 * randn(2, 6, 512) + 3
    torch.testing.assert_close(LayerNorm(512)(x), nn.LayerNorm(512)(x), rtol=0, atol=1e-5)
    torch.testing.assert_close(RMSNorm(512)(x), nn.RMSNorm(512, eps=1e-6)(x), rtol=0, atol=1e-5)


@pytest.mark.claim("B3")
@pytest.mark.case("N01")
@pytest.mark.parametrize("width", [2, 4, 512])
def test_the_variance_divides_by_n(width):
    assert LayerNorm(4, eps=0.0)(torch.tensor([5.0, 1.0, 1.0, 1.0])).tolist() == pytest.approx(
        [math.sqrt(3), *[-math.sqrt(3) / 3] * 3], abs=1e-5
    )
    x = randn(3, width)
    unbiased = (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True)
    ratio = (unbiased / LayerNorm(width, eps=0.0)(x)).flatten()
    torch.testing.assert_close(ratio, torch.full_like(ratio, math.sqrt((width - 1) / width)), rtol=1e-3, atol=0)


@pytest.mark.claim("B3")
@pytest.mark.parametrize("norm", [LayerNorm(16), RMSNorm(16)], ids=["layernorm", "rmsnorm"])
def test_statistics_never_cross_tokens_or_sentences(norm):
    x = randn(3, 5, 16)
    changed = x.clone()
    changed[1, 2] *= 100
    moved = (norm(changed) - norm(x)).abs().amax(-1) > 0
    assert moved.nonzero().tolist() in ([[1, 2]], [])  # a rescaled token comes out the same, but for rounding and eps
    shifted = x.clone()
    shifted[1, 2] = randn(16, seed=9)
    assert ((norm(shifted) - norm(x)).abs().amax(-1) > 1e-3).nonzero().tolist() == [[1, 2]]


@pytest.mark.claim("B3")
def test_batch_norm_depends_on_the_batch_and_layer_norm_does_not():
    one, two, many = in_batches([1.0, 4.0, -3.0, 6.0], sizes=(1, 2, 32))
    assert one.batch_norm is None
    torch.testing.assert_close(two.batch_norm.abs(), torch.ones(2, 4), rtol=0, atol=1e-2)
    assert (two.batch_norm[0] < 0).any() and (two.batch_norm[0] > 0).any()
    assert not torch.allclose(many.batch_norm[0], two.batch_norm[0], atol=0.5)
    assert all(torch.equal(one.layer_norm[0], case.layer_norm[0]) for case in (two, many))
    by_hand = [-1.0, 2.0, -5.0, 4.0]  # mean 2, variance 46 / 4
    assert (one.layer_norm[0] * math.sqrt(11.5)).tolist() == pytest.approx(by_hand, abs=1e-4)


@pytest.mark.claim("B3")
def test_after_training_batch_norm_is_another_function():
    token = [1.0, 4.0, -3.0, 6.0]
    stored, in_training = by_stored_averages(token), in_batches(token, sizes=(32,))[0].batch_norm[0]
    assert (stored - in_training).abs().max() > 0.5
    # The averages of 50 batches of standard normal numbers are nearly 0 and 1, so the token comes out nearly as it was.
    assert stored.tolist() == pytest.approx(token, abs=0.25)


# --------------------------------------------------------------------------------------------------------- shortcuts


@pytest.mark.claim("B4")
@pytest.mark.parametrize("seed", range(2))
def test_without_shortcuts_nothing_arrives_at_the_first_block(seed):
    depths = (1, 2, 4, 6, 8, 12, 16, 24)
    with_shortcuts = first_block_gradients(depths, shortcut=True, seed=seed)
    without = first_block_gradients(depths, shortcut=False, seed=seed)
    assert all(0.1 < size < 100 for size in with_shortcuts)
    assert list(without) == sorted(without, reverse=True)
    assert without[depths.index(8)] < 1e-8 and 0 < without[-1] < 1e-25


@pytest.mark.claim("B4")
def test_a_norm_keeps_the_size_of_the_gradient_but_the_tokens_become_alike():
    for order in ("pre", "post"):
        lost, kept = (explore_depth(24, shortcut, order) for shortcut in (False, True))
        assert lost.gradients[0] > 0.05 * lost.gradients[-1]
        assert lost.difference < 1e-6 < 0.02 < kept.difference
    lost, kept = (difference(language_model(8, norm_order="pre", shortcut=shortcut)) for shortcut in (False, True))
    assert lost < 1e-5 and kept > 0.05


@pytest.mark.claim("B4")
def test_the_gradient_of_a_block_is_the_one_that_backward_leaves():
    model, tokens = language_model(3), some_sentences()
    found = gradient_by_block(model, tokens)
    assert all(weight.grad is None for weight in model.parameters())
    loss_of(model, tokens).backward()
    by_hand = [
        math.sqrt(sum(weight.grad.square().sum().item() for weight in block.parameters()))
        for block in model.decoder.blocks
    ]
    assert found == pytest.approx(by_hand, rel=1e-4)


@pytest.mark.parametrize(
    ("vectors", "expected"),
    [
        ([[1, 0], [2, 0], [9, 0]], 0),
        ([[1, 0], [0, 1], [0, 1]], 2 / 3),  # the pairs' cosines are 0, 0 and 1
        ([[1, 0], [-3, 0], [0, 2]], 4 / 3),
        ([[1, 0], [1, 1e-5], [1, 0]], 1e-10 / 3),  # an angle of 1e-5: float32 would round its cosine to 1
    ],
)
def test_the_difference_is_the_mean_of_1_minus_cosine_of_two_different_tokens(vectors, expected):
    model = language_model(1)
    model.decoder.register_forward_hook(lambda module, args, output: torch.tensor([vectors], dtype=torch.float32))
    model.head = nn.Identity()
    assert difference(model, torch.tensor([[1, 2, 3]])) == pytest.approx(expected, rel=1e-4)


@pytest.mark.claim("B4")
def test_the_sizes_of_very_small_gradients_are_not_lost_in_their_squares():
    model = language_model(24, norm_order="none", shortcut=False)
    found = gradient_by_block(model, some_sentences())[0]
    loss_of(model, some_sentences()).backward()
    largest = max(weight.grad.abs().max().item() for weight in model.decoder.blocks[0].parameters())
    assert 0 < largest <= found and largest**2 < 1e-45  # the square is below the smallest number of float32


def test_the_words_that_are_compared_hold_no_pads():
    assert "<pad>" in agreement.WORDS and not (some_words() == agreement.WORDS.index("<pad>")).any()


def test_the_model_without_norms_or_shortcuts_has_none():
    plain = language_model(2, norm_order="none", shortcut=False)
    assert not [module for module in plain.modules() if isinstance(module, LayerNorm)]
    tokens = some_sentences(2)
    x, ids = plain.embedding(tokens)
    for block in plain.decoder.blocks:
        x = block.feedforward.sublayer(block.self_attention.sublayer(x, causal=True, position_ids=ids))
    torch.testing.assert_close(plain(tokens), plain.head(x))


# ---------------------------------------------------------------------------------------------------- before or after


@pytest.fixture(scope="module")
def deep():
    """The lesson's runs of 18 blocks."""
    return compare_orders(18)


@pytest.fixture(scope="module")
def shallow():
    return compare_orders(2)


@pytest.mark.claim("B5")
def test_deep_post_norm_needs_the_warm_up_and_pre_norm_does_not(deep):
    post, post_warm, pre, pre_warm = deep
    assert [run.name for run in deep] == ["post, no warm-up", "post, warm-up", "pre, no warm-up", "pre, warm-up"]
    assert post.final_loss == pytest.approx(frequency_loss(), abs=0.1)
    assert post.verdict.startswith("stuck")
    assert all(run.verdict == "learns" for run in (post_warm, pre, pre_warm))


@pytest.mark.claim("B5")
def test_a_smaller_rate_cures_deep_post_norm_too():
    assert train_order(18, "post", learning_rate=0.002).verdict == "learns"


@pytest.mark.claim("B5")
def test_shallow_models_show_no_difference(shallow):
    losses = [run.final_loss for run in shallow]
    assert all(run.verdict == "learns" for run in shallow) and max(losses) - min(losses) < 0.25


@pytest.mark.claim("B5")
def test_both_orders_start_from_the_same_weights_and_read_the_same_batches():
    post, pre = (language_model(3, norm_order=order) for order in ("post", "pre"))
    weights = dict(pre.named_parameters())
    assert all(torch.equal(weight, weights[name]) for name, weight in post.named_parameters())


@pytest.mark.claim("B5")
def test_the_first_full_steps_of_post_norm_make_all_tokens_alike_and_so_they_stay(deep):
    for order in ("pre", "post"):
        start = gradient_by_block(language_model(18, norm_order=order), some_sentences())
        assert max(start) < 3 * min(start)
    share = {}
    for order, warmup, run in (("post", 0, deep[0]), ("post", 30, deep[1]), ("pre", 0, deep[2])):
        model = train_order(18, order, warmup=warmup, steps=10).model
        alike = (order, warmup) == ("post", 0)
        assert (difference(model) < 1e-3, difference(run.model) < 1e-3) == (alike, alike)
        sizes = gradient_by_block(model, some_sentences())
        share[order, warmup] = sizes[0] / sizes[-1]
    assert share["post", 0] < 0.1 and share["post", 30] > 0.2 and share["pre", 0] > 2


@pytest.mark.claim("B5")
def test_a_weak_pull_does_not_keep_the_lower_blocks_from_moving():
    early, late = (train_order(18, "post", steps=steps).model.decoder.blocks for steps in (10, 15))

    def moved(block: int) -> float:
        pairs = zip(early[block].parameters(), late[block].parameters(), strict=True)
        return math.sqrt(sum((a - b).square().sum().item() for a, b in pairs))

    assert moved(0) > 0.3 * moved(17)


@pytest.mark.claim("B5")
def test_without_norms_a_large_rate_ends_in_nan_and_a_small_one_learns():
    assert train_order(18, "none", steps=50).verdict == "learns"
    with pytest.raises(ValueError, match="nan|inf"):
        train_order(18, "none", learning_rate=0.03, steps=30)
    assert max(train_order(18, "pre", learning_rate=0.03, steps=30).run.losses) < 5


@pytest.mark.claim("B5")
def test_the_last_block_of_pre_norm_feels_a_weaker_pull_the_deeper_the_model():
    last = {
        (order, depth): sum(
            gradient_by_block(language_model(depth, norm_order=order, seed=seed), some_sentences())[-1]
            for seed in range(4)
        )
        for order in ("pre", "post")
        for depth in (2, 18)
    }
    assert last["pre", 18] < 0.6 * last["pre", 2]
    assert last["post", 18] > 0.7 * last["post", 2]


@pytest.mark.claim("B5")
def test_the_level_of_word_frequencies_is_the_entropy_of_the_words():
    words = [word for sentence in agreement.SENTENCES for word in (*sentence, "<end>")]
    shares = [words.count(word) / len(words) for word in set(words)]
    assert frequency_loss() == pytest.approx(-sum(share * math.log(share) for share in shares))
    assert frequency_loss() > agreement.best_loss() + 1.5


@pytest.mark.claim("B6")
def test_pre_norm_is_no_better_at_the_end(deep, shallow):
    learned = [run.final_loss for run in (*deep[1:], *shallow)]
    assert max(learned) - min(learned) < 0.5
    assert min(run.final_loss for run in deep[2:]) > min(run.final_loss for run in shallow)


@pytest.mark.claim("B6")
def test_the_stream_of_pre_norm_grows_and_that_of_post_norm_does_not(deep):
    untrained, trained = stream_sizes(language_model(18)), stream_sizes(deep[2].model)
    assert untrained[-1] > 2 * untrained[0] and trained[-1] > 8 * trained[0]
    assert stream_sizes(language_model(18, norm_order="post"))[1:] == pytest.approx([1.0] * 18, abs=1e-2)


@pytest.mark.claim("B6")
def test_without_a_final_norm_the_spread_of_the_logits_depends_on_the_depth():
    def spread(depth: int, final_norm: bool) -> float:
        return language_model(depth, final_norm=final_norm)(some_sentences()).std().item()

    assert spread(24, False) > 1.5 * spread(2, False)
    assert spread(24, True) < 1.5 * spread(2, True)


@pytest.mark.claim("B4")
def test_a_model_without_shortcuts_does_not_learn_even_with_norms():
    assert train_order(6, "pre", shortcut=False).verdict.startswith("stuck")


# --------------------------------------------------------------------------------------------------------- the block


@pytest.mark.claim("B7")
@pytest.mark.parametrize("norm_order", ["none", "pre", "post"])
def test_every_sublayer_keeps_length_and_width(norm_order):
    walk = walk_block(norm_order=norm_order, n_blocks=3)
    assert set(walk.shapes) == {(1, len(WORDS), D_MODEL)}
    assert len(walk.shapes) == 1 + 3 * 4 + (norm_order == "pre")


def test_the_same_words_enter_however_many_blocks_follow():
    first, *others = (
        walk_block(norm_order=order, n_blocks=n, activation=activation).stages[0].stream
        for order, n, activation in (("pre", 1, "gelu"), ("pre", 3, "gelu"), ("post", 2, "relu"), ("none", 1, "swiglu"))
    )
    assert all(torch.equal(first, other) for other in others)


@pytest.mark.claim("B7")
@pytest.mark.parametrize("shortcut", [True, False])
@pytest.mark.parametrize("norm_order", ["none", "pre"])
def test_the_walk_shows_the_stream_as_it_is_added_up(norm_order, shortcut):
    stages = walk_block(norm_order=norm_order, shortcut=shortcut, n_blocks=2).stages
    for before, after in zip(stages, stages[1:], strict=False):
        if after.added is not None:
            expected = before.stream + after.added if shortcut else after.added
            torch.testing.assert_close(after.stream, expected)


@pytest.mark.claim("B7")
def test_the_walk_of_post_norm_norms_every_sum():
    for norm, expected in (("layernorm", LayerNorm(D_MODEL)), ("rmsnorm", RMSNorm(D_MODEL, eps=1e-5))):
        stages = walk_block(norm_order="post", norm=norm, n_blocks=2).stages
        for before, after in zip(stages, stages[1:], strict=False):
            torch.testing.assert_close(after.stream, expected(before.stream + after.added).detach())
            assert after.length == pytest.approx(math.sqrt(D_MODEL), abs=0.01)


@pytest.mark.claim("B8")
def test_blocks_share_the_plan_and_not_the_weights():
    stack = nn.ModuleList(Block(64, 4, 256) for _ in range(6))
    plans = {tuple((name, weight.shape) for name, weight in block.named_parameters()) for block in stack}
    weights = list(stack.parameters())
    assert len(plans) == 1 and len(weights) == 6 * 16 == len({weight.data_ptr() for weight in weights})
    assert not torch.equal(stack[0].feedforward.sublayer.up.weight, stack[1].feedforward.sublayer.up.weight)


@pytest.mark.claim("B9")
def test_dropout_acts_in_training_and_never_in_evaluation():
    block, x = Block(64, 4, 256, dropout=0.1), randn(2, 6, 64)
    torch.manual_seed(0)
    assert not torch.equal(block.train()(x), block(x))
    without = Block(64, 4, 256)
    without.load_state_dict(block.state_dict())
    assert torch.equal(block.eval()(x), block(x)) and torch.equal(block(x), without(x))


@pytest.mark.claim("B10")
@pytest.mark.case("N08")
@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("seed", range(2))
def test_our_block_with_torchs_weights_is_torchs_layer(norm_first, seed):
    torch.manual_seed(seed)
    layer = nn.TransformerEncoderLayer(64, 4, 256, norm_first=norm_first, batch_first=True).eval()
    for norm in (layer.norm1, layer.norm2):  # scales and shifts that a mix-up would show
        nn.init.normal_(norm.weight, 1.0, 0.3)
        nn.init.normal_(norm.bias, 0.0, 0.3)
    x, real = randn(3, 6, 64, seed=seed), torch.arange(6) < torch.tensor([6, 4, 1])[:, None]
    ours, theirs = block_from(layer)(x, mask=real[:, None, None]), layer(x, src_key_padding_mask=~real)
    torch.testing.assert_close(ours[real], theirs[real], rtol=0, atol=1e-5)
    # The other order, and the one that is neither, are far away.
    other = block_from(layer)
    for part in (other.self_attention, other.feedforward):
        part.order = "post" if norm_first else "pre"
    assert (other(x, mask=real[:, None, None]) - theirs)[real].abs().max() > 0.1
    third = x
    for part, words in ((other.self_attention, {"mask": real[:, None, None]}), (other.feedforward, {})):
        third = third + part.norm(part.sublayer(third, **words))
    assert (third - theirs)[real].abs().max() > 0.1


def test_a_torch_layer_with_another_activation_is_refused():
    with pytest.raises(ValueError, match="no ReLU"):
        block_from(nn.TransformerEncoderLayer(8, 2, 16, activation="gelu"))


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: language_model(0), "depth is 0"),
        (lambda: language_model(25), "depth is 25"),
        (lambda: language_model(2, norm_order="middle"), "norm_order is 'middle'"),
        (lambda: walk_block(token=6), "token is 6"),
        (lambda: walk_block(n_blocks=4), "n_blocks is 4"),
        (lambda: norm_steps((7.0, 7.0), eps=0.0), "LayerNorm of equal numbers is 0 / 0"),
        (lambda: norm_steps((0.0, 0.0), eps=0.0), "both norms of zeros are 0 / 0"),
    ],
)
def test_what_cannot_be_built_is_named(call, named):
    with pytest.raises(ValueError, match=named):
        call()
