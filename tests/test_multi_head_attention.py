"""The multi-head module: torch's weights give torch's numbers, shared heads, and the key/value cache."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

from oracles import copy_of, query_key_value, randn
from transformer_lab.model.attention import (
    Attention,
    KeyValueCache,
    MultiHeadAttention,
    attention,
    merge_heads,
    repeat_kv_heads,
    split_heads,
)
from transformer_lab.model.masks import causal_mask, mask_from_tokens, padding_mask
from transformer_lab.model.recording import record_attention

BATCH, LENGTH, WIDTH, HEADS = 3, 6, 16, 4
CAUSAL = torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril()
PADS = torch.arange(LENGTH)[None] >= torch.tensor([6, 4, 1])[:, None]  # True = is a pad, as torch's padding mask says
FREE = randn(LENGTH, LENGTH, seed=4) > -1
BIAS = randn(LENGTH, LENGTH, seed=5)

# Ours, and the same in torch's words: its boolean masks say True = is ignored, and a float mask is added.
SPELLINGS = {
    "nothing": ({}, {}),
    "padding": ({"mask": ~PADS[:, None, None]}, {"key_padding_mask": PADS}),
    "free mask": ({"mask": FREE | CAUSAL}, {"attn_mask": ~(FREE | CAUSAL)}),
    "causal": ({"causal": True}, {"attn_mask": ~CAUSAL}),
    "bias": ({"bias": BIAS}, {"attn_mask": BIAS}),
    "causal and padding": (
        {"causal": True, "mask": ~PADS[:, None, None]},
        {"attn_mask": ~CAUSAL, "key_padding_mask": PADS},
    ),
}


@pytest.fixture
def theirs():
    torch.manual_seed(0)
    module = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
    nn.init.normal_(module.in_proj_bias)
    nn.init.normal_(module.out_proj.bias)
    return module


@pytest.mark.claim("M9")
@pytest.mark.parametrize(("our_words", "torch_words"), SPELLINGS.values(), ids=SPELLINGS)
@pytest.mark.parametrize("mode", ["train", "eval", "no_grad"])
def test_equals_torch_in_every_mode(theirs, mode, our_words, torch_words):
    theirs.train(mode == "train")
    ours, x = copy_of(theirs), randn(BATCH, LENGTH, WIDTH)
    with torch.set_grad_enabled(mode != "no_grad"), record_attention(ours) as maps:
        expected, weights = theirs(x, x, x, **torch_words, need_weights=True, average_attn_weights=False)
        readable = ours(x, **our_words)
    with torch.set_grad_enabled(mode != "no_grad"):
        fused = ours(x, **our_words)
        assert_close(theirs(x, x, x, **torch_words, need_weights=False)[0], expected, atol=1e-5, rtol=1e-5)
    assert_close(fused, expected, atol=1e-6, rtol=1e-5)
    assert_close(readable, expected, atol=1e-6, rtol=1e-5)
    assert_close(maps[""][0], weights, atol=1e-6, rtol=1e-5)


def test_learns_what_torch_learns(theirs):
    ours, x, context = copy_of(theirs), randn(BATCH, 2, WIDTH), randn(BATCH, LENGTH, WIDTH, seed=1)
    theirs(x, context, context, key_padding_mask=PADS)[0].square().sum().backward()
    ours(x, context, mask=~PADS[:, None, None]).square().sum().backward()
    gradients = [getattr(ours, f"{name}_projection").weight.grad for name in ("query", "key", "value")]
    assert_close(torch.cat(gradients), theirs.in_proj_weight.grad, atol=1e-5, rtol=1e-5)
    assert_close(ours.output_projection.weight.grad, theirs.out_proj.weight.grad, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("n_heads", [1, 2, 8])
def test_the_number_of_parameters_does_not_depend_on_the_heads(n_heads):
    def count(**options):
        return sum(p.numel() for p in MultiHeadAttention(32, n_heads, **options).parameters())

    assert count() == 4 * 32**2 + 4 * 32
    assert count(bias=False) == 4 * 32**2
    assert count(bias=False, d_head=128) == 4 * 32 * n_heads * 128
    d_head = 32 // n_heads
    assert count(n_kv_heads=1) == 2 * (32 * 32 + 32) + 2 * (32 * d_head + d_head)


@pytest.mark.parametrize("n_kv_heads", [1, 2, 4])
def test_shared_heads_are_repeated_heads(n_kv_heads):
    """Grouped queries equal full heads whose key and value rows are copied within each group."""
    torch.manual_seed(0)
    shared = MultiHeadAttention(WIDTH, HEADS, n_kv_heads=n_kv_heads)
    full = MultiHeadAttention(WIDTH, HEADS)
    full.load_state_dict(
        shared.state_dict()
        | {
            f"{name}.{part}": tensor.unflatten(0, (n_kv_heads, -1))
            .repeat_interleave(HEADS // n_kv_heads, 0)
            .flatten(0, 1)
            for name in ("key_projection", "value_projection")
            for part, tensor in getattr(shared, name).named_parameters()
        }
    )
    x = randn(BATCH, LENGTH, WIDTH)
    assert_close(shared(x, causal=True), full(x, causal=True))


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_shared_heads_are_torchs_grouped_queries(kv_heads, need_weights):
    query, key, value = query_key_value(kv_heads=kv_heads)
    expected = F.scaled_dot_product_attention(query, key, value, enable_gqa=True)
    assert_close(attention(query, key, value, need_weights=need_weights)[0], expected, atol=1e-6, rtol=1e-5)
    assert repeat_kv_heads(key, 4).shape[1] == 4


def cached(module, x, chunks, **options):
    """``x`` fed to a fresh cache in chunks, each seeing the mask's columns up to its own end."""
    cache, outputs = KeyValueCache(), []
    for chunk in x.split(chunks, dim=1):
        mask = options["mask"][..., : len(cache) + chunk.shape[1]] if "mask" in options else None
        outputs.append(module(chunk, causal=True, mask=mask, cache=cache))
    assert len(cache) == x.shape[1]
    return torch.cat(outputs, dim=1)


@pytest.mark.claim("M13")
@pytest.mark.parametrize("n_kv_heads", [1, 4])
@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize(
    "options", [{}, {"mask": padding_mask([6, 4, 5], LENGTH, side="left")}], ids=["plain", "padded"]
)
def test_cached_equals_uncached(options, recorded, n_kv_heads):
    torch.manual_seed(0)
    module, x = MultiHeadAttention(WIDTH, HEADS, n_kv_heads=n_kv_heads), randn(BATCH, LENGTH, WIDTH)
    expected = module(x, causal=True, **options)
    splits = [[prefill, LENGTH - prefill] for prefill in range(1, LENGTH)]  # a prompt, then the rest at once
    splits += [[prefill] + [1] * (LENGTH - prefill) for prefill in range(1, LENGTH + 1)]  # … then token by token
    splits += [[2, 3, 1], [3, 3]]  # a prompt in pieces
    for chunks in splits:
        if recorded:
            with record_attention(module):
                outputs = cached(module, x, chunks, **options)
        else:
            outputs = cached(module, x, chunks, **options)
        assert_close(outputs, expected, atol=1e-6, rtol=1e-5, msg=lambda m, c=chunks: f"chunks {c}: {m}")


def test_the_cache_holds_kv_heads_only():
    module, cache = MultiHeadAttention(WIDTH, HEADS, n_kv_heads=2), KeyValueCache()
    assert len(cache) == 0
    module(randn(BATCH, 5, WIDTH), causal=True, cache=cache)
    assert cache.key.shape == cache.value.shape == (BATCH, 2, 5, WIDTH // HEADS)


def test_dropout_acts_in_training_only():
    torch.manual_seed(0)
    module, x = MultiHeadAttention(WIDTH, HEADS, dropout=0.5), randn(BATCH, LENGTH, WIDTH)
    assert not torch.equal(module(x), module(x))
    torch.manual_seed(0)
    without = MultiHeadAttention(WIDTH, HEADS)
    assert torch.equal(module.eval()(x), without(x))
    inputs = query_key_value()
    assert torch.equal(Attention(0.5).eval()(*inputs)[0], attention(*inputs)[0])


sizes = st.integers(1, 4)
properties = settings(max_examples=40, deadline=None, derandomize=True)


@properties
@given(sizes, sizes, sizes, sizes)
def test_split_and_merge_undo_each_other(batch, heads, length, d_head):
    x = randn(batch, length, heads * d_head)
    heads_first = split_heads(x, heads)
    assert heads_first.shape == (batch, heads, length, d_head)
    assert torch.equal(heads_first[0, -1, 0], x[0, 0, -d_head:])
    assert torch.equal(merge_heads(heads_first), x)


@properties
@given(sizes, sizes, sizes, st.sampled_from([torch.float32, torch.float64, torch.bfloat16, torch.float16]))
def test_length_and_dtype_are_kept(batch, length, context_length, dtype):
    module = MultiHeadAttention(8, 4, n_kv_heads=2, d_head=3).to(dtype)
    x, context = randn(batch, length, 8, dtype=dtype), randn(batch, context_length, 8, dtype=dtype)
    for output in (module(x), module(x, causal=True), module(x, context)):
        assert output.shape == x.shape and output.dtype == dtype


@properties
@given(st.integers(1, 4), st.integers(0, 10_000), st.sampled_from(["left", "right"]), st.booleans())
def test_pads_and_batch_mates_do_not_matter(n, seed, side, causal):
    """A batch of n sentences of n + 1 places and n heads: every confusion of axes would fit."""
    torch.manual_seed(seed)
    module = MultiHeadAttention(2 * n, n)
    lengths = [1 + (seed + b) % n for b in range(n)]
    x = randn(n, n + 1, 2 * n, seed=seed)
    together = module(x, mask=padding_mask(lengths, n + 1, side=side), causal=causal)
    for b, length in enumerate(lengths):
        real = slice(0, length) if side == "right" else slice(n + 1 - length, None)
        assert_close(together[b, real], module(x[b : b + 1, real], causal=causal)[0], atol=1e-5, rtol=1e-5)


def test_a_mask_that_comes_from_tokens_hides_the_pads():
    module, tokens = MultiHeadAttention(WIDTH, HEADS), torch.tensor([[0, 0, 5, 7], [4, 6, 5, 8]])
    x = randn(2, 4, WIDTH)
    changed = torch.where((tokens == 0)[..., None], 99.0, x)
    mask = mask_from_tokens(tokens, pad_id=0)
    keep = tokens != 0
    assert_close(module(changed, mask=mask)[keep], module(x, mask=mask)[keep])
    assert not torch.allclose(module(changed)[keep], module(x)[keep])
    assert_close(module(x, causal=True), module(x, mask=causal_mask(4)))
