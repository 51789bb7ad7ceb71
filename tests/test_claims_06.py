"""What lesson 06 claims about feed-forward layers, norms, shortcuts and the order of a block."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from transformer_lab.experiments.block_walk import D_MODEL, WORDS, walk_block
from transformer_lab.experiments.deep_models import (
    explore_depth,
    first_block_gradients,
    gradient_by_block,
    language_model,
    likeness,
    loss_of,
    some_sentences,
)
from transformer_lab.experiments.norm_order import (
    compare_orders,
    frequency_loss,
    gradients_after,
    stream_sizes,
    train_order,
)
from transformer_lab.experiments.norms import in_batches, norm_steps
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
    one, two, many = in_batches([3.0, 4.0, 1.0, 6.0], sizes=(1, 2, 32))
    assert one.batch_norm is None
    torch.testing.assert_close(two.batch_norm.abs(), torch.ones(4), rtol=0, atol=1e-2)
    assert not torch.allclose(many.batch_norm, two.batch_norm, atol=0.5)
    assert torch.equal(one.layer_norm, two.layer_norm) and torch.equal(one.layer_norm, many.layer_norm)
    by_hand = [-0.5, 0.5, -2.5, 2.5]  # mean 3.5, variance 13 / 4
    assert (one.layer_norm * math.sqrt(3.25)).tolist() == pytest.approx(by_hand, abs=1e-4)


# --------------------------------------------------------------------------------------------------------- shortcuts


@pytest.mark.claim("B4")
@pytest.mark.parametrize("seed", range(2))
def test_without_shortcuts_nothing_arrives_at_the_first_block(seed):
    depths = (1, 2, 4, 6, 8, 12, 16, 24)
    with_shortcuts = first_block_gradients(depths, shortcut=True, seed=seed)
    without = first_block_gradients(depths, shortcut=False, seed=seed)
    assert all(0.1 < size < 100 for size in with_shortcuts)
    assert list(without) == sorted(without, reverse=True)
    assert without[depths.index(8)] < 1e-8 and without[-1] == 0


@pytest.mark.claim("B4")
def test_a_norm_keeps_the_size_of_the_gradient_but_the_tokens_become_alike():
    for order in ("pre", "post"):
        lost, kept = (explore_depth(24, shortcut, order) for shortcut in (False, True))
        assert lost.gradients[0] > 0.05 * lost.gradients[-1]
        assert lost.likeness > 0.999 > 0.99 > kept.likeness


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
        ([[1, 0], [2, 0], [9, 0]], 1),
        ([[1, 0], [0, 1], [0, 1]], 1 / 3),  # the pairs' cosines are 0, 0 and 1
        ([[1, 0], [-3, 0], [0, 2]], -1 / 3),
    ],
)
def test_likeness_is_the_mean_cosine_of_two_different_tokens(vectors, expected):
    model = language_model(1)
    model.decoder.register_forward_hook(lambda module, args, output: torch.tensor([vectors], dtype=torch.float32))
    model.head = nn.Identity()
    assert likeness(model, torch.tensor([[1, 2, 3]])) == pytest.approx(expected)


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
    assert all(run.verdict == "learns" for run in shallow) and max(losses) - min(losses) < 0.15


@pytest.mark.claim("B5")
def test_both_orders_start_from_the_same_weights_and_read_the_same_batches():
    post, pre = (language_model(3, norm_order=order) for order in ("post", "pre"))
    weights = dict(pre.named_parameters())
    assert all(torch.equal(weight, weights[name]) for name, weight in post.named_parameters())


@pytest.mark.claim("B5")
def test_the_first_full_steps_cut_the_lower_blocks_of_post_norm_off():
    for order in ("pre", "post"):
        start = gradients_after(0, 18, order)
        assert max(start) < 10 * min(start)
    share = {}
    for order, warmup in (("post", 0), ("post", 40), ("pre", 0)):
        sizes = gradients_after(10, 18, order, warmup=warmup)
        share[order, warmup] = sizes[0] / sizes[-1]
    assert share["post", 0] < 0.1 and share["post", 40] > 0.2 and share["pre", 0] > 0.2


@pytest.mark.claim("B5")
def test_the_last_block_of_pre_norm_feels_a_weaker_pull_the_deeper_the_model():
    last = {
        (order, depth): sum(gradients_after(0, depth, order, seed=seed)[-1] for seed in range(4)) / 4
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
        (lambda: norm_steps((7.0, 7.0), eps=0.0), "0 / 0"),
    ],
)
def test_what_cannot_be_built_is_named(call, named):
    with pytest.raises(ValueError, match=named):
        call()
