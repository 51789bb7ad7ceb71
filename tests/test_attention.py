"""The attention function: two paths with one meaning, rows without keys, and properties over random shapes."""

import itertools

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from oracles import PATHS, query_key_value, randn, row_by_row
from transformer_lab.model.attention import attention
from transformer_lab.model.masks import causal_mask, combine_masks, padding_mask, sliding_window_mask

BATCH, HEADS, N_KEY = 2, 4, 5
TOLERANCE = {torch.float64: 1e-12, torch.float32: 5e-6, torch.float16: 4e-3, torch.bfloat16: 3e-2}
EVERYTHING = torch.tensor(True)


def random_mask(*shape: int) -> torch.Tensor:
    """About two thirds True, and the first query of the whole mask sees nothing."""
    mask = randn(*shape, seed=7) > -0.4
    mask[(0,) * (mask.ndim - 1)] = False
    return mask


def bias_with_minus_infinity(n_query: int) -> torch.Tensor:
    bias = randn(1, HEADS, n_query, N_KEY, seed=8)
    bias[:, 1, -1] = bias[:, :, :, 2] = -torch.inf
    return bias


MASKS = {
    "none": lambda n_query: None,
    "(query, key)": lambda n_query: random_mask(n_query, N_KEY),
    "(batch, 1, 1, key)": lambda n_query: random_mask(BATCH, 1, 1, N_KEY),
    "(1, heads, query, key)": lambda n_query: random_mask(1, HEADS, n_query, N_KEY),
    "(batch, heads, query, key)": lambda n_query: random_mask(BATCH, HEADS, n_query, N_KEY),
}
BIASES = {
    "none": lambda n_query: None,
    "(query, key)": lambda n_query: randn(n_query, N_KEY, seed=9),
    "(batch, heads, 1, key)": lambda n_query: randn(BATCH, HEADS, 1, N_KEY, seed=9),
    "(1, heads, query, key), −∞": bias_with_minus_infinity,
}


def run(inputs, bias, *, need_weights, **options):
    """Output, weights and the gradients of every input, from fresh leaves and a fixed seed."""
    leaves = [tensor.detach().clone().requires_grad_() for tensor in inputs]
    bias = None if bias is None else bias.clone().requires_grad_()
    torch.manual_seed(0)
    output, weights = attention(*leaves, bias=bias, need_weights=need_weights, **options)
    direction = randn(*output.shape, seed=3, dtype=output.dtype)
    wanted = leaves if bias is None else [*leaves, bias]
    return output, weights, torch.autograd.grad((output * direction).sum(), wanted)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("make_bias", BIASES.values(), ids=BIASES)
@pytest.mark.parametrize("make_mask", MASKS.values(), ids=MASKS)
def test_both_paths_give_the_same_outputs_and_gradients(make_mask, make_bias, dtype):
    table = itertools.product((False, True), (N_KEY, 3, 1), (0.0, 0.3), (HEADS, 2))
    for causal, n_query, dropout, kv_heads in table:
        inputs = query_key_value(BATCH, HEADS, n_query, N_KEY, kv_heads=kv_heads, dtype=dtype)
        mask, bias = make_mask(n_query), make_bias(n_query)
        bias = None if bias is None else bias.to(dtype)
        options = {"mask": mask, "causal": causal, "dropout": dropout}
        fused, readable = (run(inputs, bias, need_weights=need_weights, **options) for need_weights in (False, True))
        case = f"causal={causal} n_query={n_query} dropout={dropout} kv_heads={kv_heads}"
        assert fused[1] is None and readable[1].shape == (BATCH, HEADS, n_query, N_KEY)
        assert fused[0].dtype == readable[0].dtype == readable[1].dtype == dtype
        pairs = [(fused[0], readable[0]), *zip(fused[2], readable[2], strict=True)]
        for of_fused, of_readable in pairs:
            assert_close(
                of_fused, of_readable, atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype], msg=lambda m, c=case: f"{c}: {m}"
            )
        if dtype == torch.float64 and not dropout:
            allowed = combine_masks(mask, causal_mask(n_query, N_KEY) if causal else None)
            expected = row_by_row(*inputs, EVERYTHING if allowed is None else allowed, bias)
            assert_close(fused[0], expected, atol=1e-12, rtol=0, msg=lambda m, c=case: f"{c}: {m}")


@pytest.mark.claim("A10")
@pytest.mark.parametrize("causal", [False, True])
def test_the_readable_path_equals_torch(causal):
    inputs = query_key_value(n_query=16, n_key=16, d_head=64)
    output, weights = attention(*inputs, causal=causal, need_weights=True)
    assert_close(output, F.scaled_dot_product_attention(*inputs, is_causal=causal), atol=1e-6, rtol=1e-6)
    assert_close(weights @ inputs[2], output, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("path", PATHS)
def test_dropout_drops_weights_and_rescales_the_rest(path):
    query, key, _ = query_key_value(1, 1, 4, 50)
    value = torch.eye(50)[None, None]  # the output is then the weights themselves
    kept, _ = attention(query, key, value)
    torch.manual_seed(0)
    dropped, weights = attention(query, key, value, dropout=0.5, need_weights=PATHS[path])
    survived = dropped != 0
    assert 0.3 < survived.float().mean() < 0.7
    assert_close(dropped[survived], 2 * kept[survived])
    assert weights is None or torch.equal(weights, attention(query, key, value, need_weights=True)[1])
    assert not attention(query, key, value, dropout=1.0, need_weights=PATHS[path])[0].any()


@pytest.mark.parametrize("path", PATHS)
def test_float16_scores_do_not_overflow(path):
    query = torch.full((1, 1, 1, 4), 300.0, dtype=torch.float16)  # 300 · 300 · 4 is above 65,504
    key = torch.cat([query, -query], dim=2)
    value = randn(1, 1, 2, 4, dtype=torch.float16)
    assert torch.equal(attention(query, key, value, need_weights=PATHS[path])[0], value[:, :, :1])


# One way each to leave query 1 of four without a key, the others with at least one.
LONELY = torch.tensor([[1, 1, 0, 0], [0, 0, 0, 0], [1, 0, 1, 1], [1, 1, 1, 1]], dtype=torch.bool)
HALF = torch.tensor([True, True, False, False])
EMPTY_ROWS = {
    "mask": {"mask": LONELY},
    "mask and bias": {"mask": LONELY, "bias": randn(1, 2, 4, 4, seed=9)},
    "−∞ bias": {"bias": torch.zeros(4, 4).masked_fill(~LONELY, -torch.inf)},
    "mask or −∞ bias, key by key": {
        "mask": LONELY | ~HALF,
        "bias": torch.zeros(4, 4).masked_fill(~(LONELY | HALF), -torch.inf),
    },
    "causal and padding": {"mask": torch.tensor([[0, 0, 1, 1], [1, 1, 1, 1]]).bool()[:, None, None], "causal": True},
    "window and padding": {"mask": sliding_window_mask(4, window=1) & padding_mask([1, 3], 4)},
}


@pytest.mark.claim("M7")
@pytest.mark.parametrize("options", EMPTY_ROWS.values(), ids=EMPTY_ROWS)
@pytest.mark.parametrize("path", PATHS)
def test_a_row_without_keys_is_zero_and_teaches_nothing(path, options):
    inputs = query_key_value(2, 2, 4, 4)
    _, weights = attention(*inputs, **options, need_weights=True)
    empty = weights.sum(-1) == 0
    assert empty[0, :, 1].all() and not empty.all(-1).any()
    assert weights[empty].eq(0).all()

    leaves = [tensor.requires_grad_() for tensor in inputs]
    output, _ = attention(*leaves, **options, need_weights=PATHS[path])
    assert output[empty].eq(0).all()
    gradients = torch.autograd.grad(output.square().sum() + output.sum(), leaves)
    assert all(gradient.isfinite().all() for gradient in gradients)
    assert gradients[0][empty].eq(0).all()
    # The keys and values learn the same as when the loss never reads the empty rows.
    only_full = attention(*leaves, **options, need_weights=PATHS[path])[0][~empty]
    assert_close(gradients, torch.autograd.grad(only_full.square().sum() + only_full.sum(), leaves))


sizes = st.integers(1, 4)
# Batch, heads and length often equal on purpose: that is where a mask fits the wrong axis.
shapes = st.one_of(st.tuples(sizes, sizes, sizes), sizes.map(lambda n: (n, n, n)))
seeds = st.integers(0, 10_000)
paths = st.sampled_from([False, True])
properties = settings(max_examples=60, deadline=None, derandomize=True)


@properties
@given(shapes, seeds, paths)
def test_what_a_query_may_not_see_does_not_change_it(shape, seed, need_weights):
    batch, heads, n = shape
    query, key, value = query_key_value(batch, heads, n, n, seed=seed)
    mask = randn(batch, heads, n, n, seed=seed) > 0
    before, _ = attention(query, key, value, mask=mask, need_weights=need_weights)
    for j in range(n):
        changed_key, changed_value = key.clone(), value.clone()
        changed_key[:, :, j] += 3.0
        changed_value[:, :, j] -= 5.0
        after, _ = attention(query, changed_key, changed_value, mask=mask, need_weights=need_weights)
        blind = ~mask[..., j]
        assert_close(after[blind], before[blind])
        if not blind.all():
            assert not torch.allclose(after[~blind], before[~blind], atol=1e-3)


@properties
@given(shapes, seeds, paths, st.booleans())
def test_samples_and_heads_do_not_meet(shape, seed, need_weights, causal):
    batch, heads, n = shape
    inputs = query_key_value(batch, heads, n, n, seed=seed)
    mask = padding_mask([1 + (seed + b) % n for b in range(batch)], n)
    options = {"causal": causal, "need_weights": need_weights}
    together, _ = attention(*inputs, mask=mask, **options)
    for b, h in itertools.product(range(batch), range(heads)):
        alone, _ = attention(*(t[b : b + 1, h : h + 1] for t in inputs), mask=mask[b : b + 1], **options)
        assert_close(together[b, h], alone[0, 0])


@properties
@given(shapes, seeds, paths, st.booleans(), st.sampled_from(["left", "right"]))
def test_padded_equals_alone(shape, seed, need_weights, causal, side):
    batch, heads, n = shape
    inputs = query_key_value(batch, heads, n, n, seed=seed)
    real = slice(2, None) if side == "left" else slice(0, n)
    before_and_after = (2, 0) if side == "left" else (0, 2)
    padded = [F.pad(tensor, (0, 0, *before_and_after), value=9.0) for tensor in inputs]
    mask = padding_mask([n] * batch, n + 2, side=side)
    options = {"causal": causal, "need_weights": need_weights}
    assert_close(attention(*padded, mask=mask, **options)[0][:, :, real], attention(*inputs, **options)[0])


@properties
@given(shapes, seeds, st.floats(0.1, 30.0))
def test_rows_are_weights_and_outputs_are_mixes(shape, seed, size):
    batch, heads, n = shape
    query, key, value = query_key_value(batch, heads, n, n, seed=seed)
    mask = randn(batch, 1, n, n, seed=seed) > 0
    output, weights = attention(size * query, key, value, mask=mask, need_weights=True)
    full = mask.any(-1).expand(batch, heads, n)
    assert (weights >= 0).all()
    assert_close(weights.sum(-1), full.float())
    assert weights[~mask.expand_as(weights)].eq(0).all()
    # A convex mix stays, in every coordinate, between the least and the greatest of the values it may read.
    seen = mask.expand_as(weights)[..., None]  # (batch, heads, query, key, 1)
    lowest = value[:, :, None].masked_fill(~seen, torch.inf).amin(3)
    highest = value[:, :, None].masked_fill(~seen, -torch.inf).amax(3)
    assert ((output >= lowest - 1e-5) & (output <= highest + 1e-5))[full].all()
