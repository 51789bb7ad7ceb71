"""Masks: one convention, translations in and out of it, and the softmax that survives an empty row."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from oracles import randn
from transformer_lab.model.masks import (
    as_mask,
    causal_mask,
    combine_masks,
    mask_from_tokens,
    masked_softmax,
    padding_mask,
    sliding_window_mask,
)

INFINITY = torch.inf
properties = settings(max_examples=60, deadline=None, derandomize=True)
sizes = st.integers(1, 7)


def booleans(*rows: str) -> torch.Tensor:
    return torch.tensor([[cell == "x" for cell in row] for row in rows])


def test_the_causal_mask_keeps_the_diagonal_and_aligns_to_the_bottom_right():
    assert torch.equal(causal_mask(3), booleans("x..", "xx.", "xxx"))
    assert torch.equal(causal_mask(2, 4), booleans("xxx.", "xxxx"))
    assert torch.equal(causal_mask(1, 4), booleans("xxxx"))
    assert torch.equal(sliding_window_mask(4, window=2), booleans("x...", "xx..", ".xx.", "..xx"))
    assert torch.equal(sliding_window_mask(2, 4, window=2), booleans(".xx.", "..xx"))


@properties
@given(sizes, sizes, st.integers(1, 9))
def test_masks_are_functions_of_position(a, b, window):
    n_query, n_key = sorted((a, b))
    causal, windowed = causal_mask(n_query, n_key), sliding_window_mask(n_query, n_key, window=window)
    for i in range(n_query):
        for j in range(n_key):
            distance = i + n_key - n_query - j
            assert causal[i, j] == (distance >= 0)
            assert windowed[i, j] == (0 <= distance < window)


@properties
@given(st.lists(st.integers(0, 5), min_size=1, max_size=5), st.integers(5, 6))
def test_padding_masks_hide_keys_from_every_query(lengths, n_key):
    right, left = padding_mask(lengths, n_key), padding_mask(lengths, n_key, side="left")
    assert right.shape == left.shape == (len(lengths), 1, 1, n_key)
    assert torch.equal(left, right.flip(-1))
    for b, length in enumerate(lengths):
        assert right[b, 0, 0].tolist() == [True] * length + [False] * (n_key - length)
    tokens = torch.where(right[:, 0, 0], 3, 9)
    assert torch.equal(mask_from_tokens(tokens, pad_id=9), right)
    assert torch.equal(padding_mask(torch.tensor(lengths), n_key), right)


def test_combined_masks_forbid_what_any_of_them_forbids():
    causal, padding = causal_mask(3), padding_mask([3, 1], 3)
    combined = combine_masks(causal, None, padding)
    assert combined.shape == (2, 1, 3, 3)
    assert torch.equal(combined, combine_masks(padding, causal))
    assert torch.equal(combined[0, 0], causal)
    assert torch.equal(combined[1, 0], booleans("x..", "x..", "x.."))
    assert combine_masks(None, None) is None
    assert torch.equal(combine_masks(None, causal), causal)


def test_as_mask_translates_each_convention():
    keep = causal_mask(3)
    additive = torch.zeros(3, 3).masked_fill(~keep, -INFINITY)
    assert torch.equal(as_mask(keep=keep), keep)
    assert torch.equal(as_mask(ignore=~keep), keep)
    assert torch.equal(as_mask(additive=additive), keep)
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        assert torch.equal(as_mask(additive=additive.to(dtype).clamp(min=torch.finfo(dtype).min)), keep)


@pytest.mark.claim("M1")
def test_masked_scores_leave_the_rest_a_softmax():
    scores = torch.tensor([2.1, 0.7, 5.0, -3.0])
    expected = torch.tensor([0.8022, 0.1978, 0.0, 0.0])  # 1 / (1 + e^−1.4)
    assert_close(masked_softmax(scores, torch.tensor([True, True, False, False])), expected, atol=5e-5, rtol=0)
    assert_close(masked_softmax(scores + torch.tensor([0, 0, -INFINITY, -INFINITY])), expected, atol=5e-5, rtol=0)


@pytest.mark.claim("M7")
def test_an_empty_row_three_ways():
    scores, mask = randn(3, 4), booleans("xx..", "....", "xxxx")

    def weights_and_gradient(softmax):
        leaf = scores.clone().requires_grad_()
        weights = softmax(leaf)
        weights.square().sum().backward()
        return weights.detach(), leaf.grad

    additive = torch.zeros(3, 4).masked_fill(~mask, -INFINITY)
    weights, gradient = weights_and_gradient(lambda s: (s + additive).softmax(-1))
    assert weights[1].isnan().all() and gradient[1].isnan().all()
    weights, gradient = weights_and_gradient(lambda s: s.masked_fill(~mask, -1e9).softmax(-1))
    assert_close(weights[1], torch.full((4,), 0.25))
    weights, gradient = weights_and_gradient(lambda s: masked_softmax(s, mask))
    assert weights[1].eq(0).all() and gradient[1].eq(0).all()
    assert_close(weights[[0, 2]].sum(-1), torch.ones(2))
    assert gradient.isfinite().all() and gradient[2].ne(0).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_masked_softmax_keeps_its_dtype_and_survives_large_scores(dtype):
    scores = torch.tensor([[1.0, 2.0, 3.0], [6e4, 6e4, 6e4], [-6e4, 0.0, 6e4]], dtype=dtype)
    weights = masked_softmax(scores, booleans("xx.", "xxx", "xx."))
    expected = torch.tensor([[0.268941, 0.731059, 0.0], [1 / 3, 1 / 3, 1 / 3], [0.0, 1.0, 0.0]])
    assert weights.dtype == dtype
    assert_close(weights.float(), expected, atol=4e-3 if dtype == torch.bfloat16 else 1e-3, rtol=0)


@pytest.mark.parametrize("shape", [(3, 4), (1, 1, 1, 4), (2, 1, 3, 4), (2, 5, 3, 4)])
def test_masked_softmax_broadcasts_the_mask(shape):
    scores, mask = randn(2, 5, 3, 4), randn(*shape, seed=1) > 0
    weights = masked_softmax(scores, mask)
    seen = mask.expand_as(scores)
    assert torch.equal(weights > 0, seen)
    assert_close(weights.sum(-1), seen.any(-1).float())
