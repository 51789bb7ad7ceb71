"""Mistakes with masks that people reported in public Transformer code, each tried on this library."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from oracles import PATHS, copy_of, query_key_value, randn
from transformer_lab.model.attention import (
    KeyValueCache,
    MultiHeadAttention,
    attention,
)
from transformer_lab.model.masks import (
    as_mask,
    causal_mask,
    combine_masks,
    masked_softmax,
    padding_mask,
    sliding_window_mask,
)
from transformer_lab.model.recording import record_attention

THIRDS = torch.tensor([[1, 0, 0], [0.5, 0.5, 0], [1 / 3, 1 / 3, 1 / 3]])
both_paths = pytest.mark.parametrize("need_weights", PATHS.values(), ids=PATHS)


@pytest.fixture
def module():
    torch.manual_seed(0)
    return MultiHeadAttention(4, 2)


@pytest.mark.case("M01")
@both_paths
def test_a_mask_of_the_future_must_be_said_to_forbid(need_weights):
    query, key, value = query_key_value(1, 1, 4, 4, d_head=2)
    future = torch.ones(4, 4, dtype=torch.bool).triu(1)
    right, _ = attention(query, key, value, mask=as_mask(ignore=future), need_weights=need_weights)
    wrong, _ = attention(query, key, value, mask=as_mask(keep=future), need_weights=need_weights)
    assert_close(right, F.scaled_dot_product_attention(query, key, value, is_causal=True))
    assert_close(right[0, 0, 0], value[0, 0, 0])
    assert not torch.allclose(wrong[0, 0, 0], right[0, 0, 0]) and wrong[0, 0, 3].eq(0).all()


@pytest.mark.case("M04")
def test_a_zero_one_mask_is_not_added(plain_errors):
    zero_one = torch.ones(3, 3).tril()
    leak = masked_softmax(torch.zeros(3, 3) + zero_one)[0]
    assert leak[0].item() == pytest.approx(math.e / (math.e + 2)) and leak[2] > 0.2
    with pytest.raises(ValueError, match="only 0 and 1"):
        attention(*query_key_value(1, 1, 3, 3), bias=zero_one)
    with pytest.raises(ValueError, match="neither 0 nor"):
        as_mask(additive=zero_one)
    assert_close(masked_softmax(torch.zeros(3, 3), as_mask(keep=zero_one.bool())), THIRDS)


@pytest.mark.case("M05")
def test_both_spellings_of_padding_hide_the_pads():
    torch.manual_seed(0)
    theirs = nn.MultiheadAttention(4, 2, batch_first=True)
    ours, x = copy_of(theirs), randn(2, 3, 4)
    pads = torch.tensor([[False, False, True], [False, False, False]])
    additive = torch.zeros(2, 3).masked_fill(pads, -torch.inf)[:, None, None]
    expected = theirs(x, x, x, key_padding_mask=pads)[0]
    changed = x.clone()
    changed[0, 2] = 99.0
    for words in ({"mask": padding_mask([2, 3], 3)}, {"mask": as_mask(additive=additive)}, {"bias": additive}):
        assert_close(ours(x, **words), expected, atol=1e-6, rtol=1e-5)
        assert_close(ours(changed, **words)[0, :2], expected[0, :2], atol=1e-6, rtol=1e-5)


@pytest.mark.case("M07")
@both_paths
def test_the_last_queries_see_the_last_keys(need_weights):
    query, key, value = query_key_value(1, 1, 5, 5)
    full = F.scaled_dot_product_attention(query, key, value, is_causal=True)
    last, _ = attention(query[:, :, -2:], key, value, causal=True, need_weights=need_weights)
    assert causal_mask(2, 5).tolist() == [[True, True, True, True, False], [True] * 5]
    assert_close(last, full[:, :, -2:])
    top_left = F.scaled_dot_product_attention(query[:, :, -2:], key, value, is_causal=True)
    assert not torch.allclose(top_left, last)


@pytest.mark.case("M09")
@pytest.mark.parametrize("prompt", [1, 2, 3, 4])
def test_the_prompt_is_masked_although_a_cache_is_there(prompt):
    torch.manual_seed(0)
    layers, x = [MultiHeadAttention(4, 2), MultiHeadAttention(4, 2)], randn(1, 5, 4)

    def run(x, caches=(None, None)):
        for layer, cache in zip(layers, caches, strict=True):
            x = layer(x, causal=True, cache=cache)
        return x

    caches = (KeyValueCache(), KeyValueCache())
    pieces = [run(x[:, :prompt], caches), *(run(x[:, t : t + 1], caches) for t in range(prompt, 5))]
    assert_close(torch.cat(pieces, dim=1), run(x))


@pytest.mark.case("M11")
def test_a_prompt_may_come_in_pieces(module, plain_errors):
    x, cache = randn(1, 6, 4), KeyValueCache()
    pieces = torch.cat([module(x[:, :3], causal=True, cache=cache), module(x[:, 3:], causal=True, cache=cache)], dim=1)
    assert_close(pieces, module(x, causal=True))
    block = torch.cat([torch.ones(3, 3), torch.ones(3, 3).tril()], dim=1).bool()
    assert torch.equal(causal_mask(3, 6), block)
    cache = KeyValueCache()
    module(x[:, :3], causal=True, cache=cache)
    with pytest.raises(ValueError, match=r"\(3, 3\).*\(1, 2, 3, 6\)"):
        module(x[:, 3:], mask=causal_mask(3), cache=cache)


@pytest.mark.case("M12")
@both_paths
def test_a_query_without_keys_is_zero_and_its_neighbours_are_untouched(need_weights):
    leaves = [tensor.requires_grad_() for tensor in query_key_value(1, 1, 3, 3)]
    mask = torch.tensor([[True, False, False], [False, False, False], [True, True, True]])
    output, _ = attention(*leaves, mask=mask, need_weights=need_weights)
    assert output[0, 0, 1].eq(0).all()
    assert_close(output[0, 0, 0], leaves[2][0, 0, 0])
    assert_close(output[0, 0, 2], F.scaled_dot_product_attention(*leaves)[0, 0, 2])
    output.sum().backward()
    assert all(leaf.grad.isfinite().all() for leaf in leaves)


@pytest.mark.case("M13")
@pytest.mark.parametrize("record", [False, True])
def test_a_window_over_padding_learns_like_the_sentence_alone(module, record):
    x, window = randn(1, 4, 4), sliding_window_mask(4, window=2)
    mask = combine_masks(window, padding_mask([2], 4))
    assert not mask[0, 0, 3].any()

    def gradients(x, mask):
        module.zero_grad()
        module(x, mask=mask)[:, :2].square().sum().backward()
        return [parameter.grad.clone() for parameter in module.parameters()]

    expected = gradients(x[:, :2], window[:2, :2])
    if record:
        with record_attention(module):
            found = gradients(x, mask)
    else:
        found = gradients(x, mask)
    assert all(gradient.isfinite().all() for gradient in found)
    assert_close(found, expected)


@pytest.mark.case("M17")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_masking_fits_every_dtype(dtype):
    weights = masked_softmax(torch.tensor([1.0, 2.0, 3.0], dtype=dtype), torch.tensor([True, True, False]))
    assert weights.dtype == dtype and weights[2] == 0
    assert_close(weights.float(), torch.tensor([0.268941, 0.731059, 0.0]), atol=2e-3, rtol=0)


@pytest.mark.case("M19")
@pytest.mark.case("M21")
def test_each_sample_keeps_its_own_mask_when_batch_equals_heads(module, plain_errors):
    x, keep = randn(2, 3, 4), torch.tensor([[[1, 1, 1]] * 3, [[1, 0, 0]] * 3]).bool()
    together = module(x, mask=keep[:, None])
    for sample in range(2):
        assert_close(together[sample], module(x[sample : sample + 1], mask=keep[sample])[0])
    assert not torch.allclose(together, module(x, mask=keep[None]))  # the same numbers read as (1, heads, …)
    with pytest.raises(ValueError, match=r"mask\[:, None\]"):
        module(x, mask=keep)


@pytest.mark.case("M22")
def test_asking_for_weights_does_not_forget_the_causal_mask(module):
    x = randn(1, 4, 4)
    changed = x.clone()
    changed[0, 3] += 5
    with record_attention(module) as maps:
        before, after = module(x, causal=True), module(changed, causal=True)
    assert maps[""][0].triu(1).eq(0).all()
    assert_close(after[:, :3], before[:, :3])
    assert not torch.allclose(after[:, 3], before[:, 3])


@pytest.mark.case("M24")
def test_masking_comes_before_the_softmax():
    weights = masked_softmax(torch.zeros(1, 4), torch.tensor([[True, True, False, False]]))
    assert_close(weights, torch.tensor([[0.5, 0.5, 0.0, 0.0]]))


@pytest.mark.case("M26")
@both_paths
def test_a_masked_value_may_be_anything(need_weights):
    query, key, value = query_key_value(1, 1, 2, 3)
    mask = torch.tensor([[True, True, False]]).expand(2, 3)
    before, weights = attention(query, key, value, mask=mask, need_weights=need_weights)
    value[:, :, 2] = 1e3
    assert torch.equal(attention(query, key, value, mask=mask, need_weights=need_weights)[0], before)
    assert weights is None or weights[..., 2].eq(0).all()


@pytest.mark.case("M29")
def test_reading_an_encoder_needs_the_source_mask_again(module):
    torch.manual_seed(1)
    reader, source, target = MultiHeadAttention(4, 2), randn(1, 4, 4), randn(1, 2, 4, seed=1)
    changed = source.clone()
    changed[0, 3] += 5
    mask = padding_mask([3], 4)
    states, changed_states = module(source, mask=mask), module(changed, mask=mask)
    assert_close(reader(target, changed_states, mask=mask), reader(target, states, mask=mask))
    assert not torch.allclose(reader(target, changed_states), reader(target, states))


@pytest.mark.case("M30")
def test_the_diagonal_stays():
    zeros, values = torch.zeros(1, 1, 3, 3), torch.eye(3)[None, None]
    assert_close(masked_softmax(zeros[0, 0], causal_mask(3)), THIRDS)
    assert_close(attention(zeros, zeros, values, causal=True)[0][0, 0], THIRDS)
