"""Mistakes with modes, heads, scales and positions that people reported, each tried on this library."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from oracles import PATHS, query_key_value, randn
from transformer_lab.model.attention import (
    Attention,
    KeyValueCache,
    MultiHeadAttention,
    attention,
    merge_heads,
    repeat_kv_heads,
    split_heads,
)
from transformer_lab.model.averages import masked_cross_entropy
from transformer_lab.model.masks import combine_masks, padding_mask
from transformer_lab.model.positions import position_ids, sinusoidal_table

both_paths = pytest.mark.parametrize("need_weights", PATHS.values(), ids=PATHS)


@pytest.fixture
def module():
    torch.manual_seed(0)
    return MultiHeadAttention(4, 2)


@pytest.mark.case("E01")
@both_paths
def test_evaluation_drops_nothing(need_weights):
    inputs, core = query_key_value(1, 1, 8, 8), Attention(dropout=0.5)
    expected, _ = attention(*inputs, need_weights=need_weights)
    torch.manual_seed(0)
    assert not torch.equal(core(*inputs, need_weights=need_weights)[0], core(*inputs, need_weights=need_weights)[0])
    assert torch.equal(core.eval()(*inputs, need_weights=need_weights)[0], expected)


@pytest.mark.case("E03")
@pytest.mark.case("E05")
def test_training_evaluation_and_no_grad_agree_on_every_row(module):
    x = randn(2, 4, 4)
    words = {"bias": randn(4, 4, seed=1), "mask": padding_mask([2, 4], 4)}
    expected = module.train()(x, **words)
    assert torch.equal(module.eval()(x, **words), expected)
    with torch.no_grad():
        assert torch.equal(module(x, **words), expected)
    assert not torch.allclose(module(x, mask=combine_masks(words["bias"] > 0, words["mask"])), expected)


@pytest.mark.case("E07")
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 2e-2)])
def test_a_batch_and_its_rows_differ_by_rounding_alone(dtype, tolerance):
    inputs = query_key_value(16, 2, 8, 8, d_head=32)
    together, _ = attention(*(tensor.to(dtype) for tensor in inputs))
    alone, _ = attention(*(tensor[3:4].to(dtype) for tensor in inputs))
    assert_close(together[3:4], alone, atol=tolerance, rtol=0)
    assert_close(together.float(), attention(*inputs)[0], atol=tolerance, rtol=0)


@pytest.mark.case("H01")
def test_merging_puts_the_heads_of_one_token_side_by_side():
    heads = torch.arange(1.0, 9.0).reshape(1, 2, 2, 2)
    tokens = torch.tensor([[[1.0, 2, 5, 6], [3, 4, 7, 8]]])
    assert torch.equal(merge_heads(heads), tokens)
    assert torch.equal(split_heads(tokens, 2), heads)


@pytest.mark.case("H03")
@both_paths
def test_neighbouring_query_heads_share_a_key_head(need_weights, plain_errors):
    query, key, value = query_key_value(1, 4, 3, 3, kv_heads=2)
    expected = F.scaled_dot_product_attention(query, key, value, enable_gqa=True)
    assert_close(attention(query, key, value, need_weights=need_weights)[0], expected)
    assert torch.equal(repeat_kv_heads(key, 4), key[:, [0, 0, 1, 1]])
    with pytest.raises(ValueError, match="multiple of the key/value heads"):
        attention(query, *query_key_value(1, 3, 3, 3)[1:])


@pytest.mark.case("H05")
def test_every_head_has_a_softmax_of_its_own():
    zeros = torch.zeros(1, 2, 1, 4)
    _, weights = attention(zeros, torch.zeros(1, 2, 3, 4), torch.zeros(1, 2, 3, 4), need_weights=True)
    assert_close(weights, torch.full((1, 2, 1, 3), 1 / 3))


@pytest.mark.case("H09")
def test_every_head_reads_the_whole_vector():
    torch.manual_seed(0)
    module, x = MultiHeadAttention(8, 2), randn(1, 1, 8)
    assert module.query_projection.weight.numel() == 64
    assert sum(p.numel() for p in module.parameters()) == 4 * 64 + 4 * 8
    changed = x.clone()
    changed[..., 7] += 1
    head_0, changed_head_0 = (split_heads(module.query_projection(z), 2)[:, 0] for z in (x, changed))
    assert not torch.allclose(head_0, changed_head_0)


@pytest.mark.case("S01")
@pytest.mark.case("S03")
@both_paths
def test_the_scale_is_the_root_of_the_head_width(need_weights):
    query, key, value = query_key_value(1, 4, 5, 5, d_head=16)
    output, _ = attention(query, key, value, need_weights=need_weights)
    for scores in (query @ key.mT / 4, (query / 4) @ key.mT):  # scaling the query or the product is the same
        assert_close(output, scores.softmax(-1) @ value)
    assert not torch.allclose(output, (query @ key.mT / 8).softmax(-1) @ value, atol=1e-3)


@pytest.mark.case("P08")
def test_a_cached_token_stands_where_the_cache_ends(module):
    x, table, cache = randn(1, 5, 4), sinusoidal_table(5, 4), KeyValueCache()
    expected = module(x + table, causal=True)[:, 4:]
    module(x[:, :4] + table[:4], causal=True, cache=cache)
    assert_close(module(x[:, 4:] + table[len(cache)], causal=True, cache=cache), expected)


@pytest.mark.case("P14")
@pytest.mark.case("P15")
def test_left_padded_equals_alone_when_positions_start_at_the_first_token(module):
    x, table, mask = randn(2, 5, 4), sinusoidal_table(5, 4), padding_mask([3, 5], 5, side="left")
    ids = position_ids(mask)
    assert ids.tolist() == [[0, 0, 0, 1, 2], [0, 1, 2, 3, 4]]
    alone = module(x[:1, 2:] + table[:3], causal=True)[0]
    assert_close(module(x + table[ids], causal=True, mask=mask)[0, 2:], alone)
    assert not torch.allclose(module(x + table, causal=True, mask=mask)[0, 2:], alone, atol=1e-3)
    assert not torch.allclose(module(x + table[ids], causal=True)[0, 2:], alone, atol=1e-3)


@pytest.mark.case("L01")
def test_each_rule_of_label_smoothing_has_its_own_target_distribution():
    """The gradient of a cross-entropy is softmax − target distribution, so it shows which rule a loss follows."""
    vocab, pad, target, share = 6, 0, 4, 0.3
    logits = randn(1, 1, vocab, dtype=torch.float64).requires_grad_()

    def aimed_at(loss):
        (gradient,) = torch.autograd.grad(loss, logits)
        return (logits.softmax(-1) - gradient)[0, 0].detach()

    def distribution(on_target, elsewhere, on_pad):
        expected = torch.full((vocab,), elsewhere, dtype=torch.float64)
        expected[target], expected[pad] = on_target, on_pad
        assert expected.sum().item() == pytest.approx(1.0)
        return expected

    ours = aimed_at(masked_cross_entropy(logits, torch.tensor([[target]])))
    assert_close(ours, distribution(1.0, 0.0, on_pad=0.0))  # the course's loss smooths nothing
    # torch's rule: the share goes to all V entries, the target and the pad among them.
    torchs = aimed_at(F.cross_entropy(logits[0], torch.tensor([target]), label_smoothing=share))
    assert_close(torchs, distribution(0.75, 0.05, on_pad=0.05))
    # "V − 2 others": neither the target nor the pad gets any of it.
    without_pad = distribution(0.7, share / (vocab - 2), on_pad=0.0)
    others = aimed_at(-(without_pad * logits[0, 0].log_softmax(-1)).sum())
    assert_close(others, distribution(0.7, 0.075, on_pad=0.0))
