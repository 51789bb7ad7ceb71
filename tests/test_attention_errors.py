"""Bad input to the model's attention: the right error, naming the argument, what came in, and the way out."""


import pytest
import torch

from oracles import PATHS, query_key_value, randn
from refusals import assert_refused
from transformer_lab.model.attention import Attention, KeyValueCache, MultiHeadAttention, attention, split_heads
from transformer_lab.model.masks import (
    as_mask,
    causal_mask,
    combine_masks,
    mask_from_tokens,
    padding_mask,
    sliding_window_mask,
)

pytestmark = pytest.mark.usefixtures("plain_errors")  # learners run without the executed annotations
INPUTS = query_key_value(2, 4, 3, 5)  # scores (2, 4, 3, 5)
MULTI = MultiHeadAttention(8, 2)
X = randn(2, 3, 8)


def true(*shape: int) -> torch.Tensor:
    return torch.ones(shape, dtype=torch.bool)


def with_shapes(query, key, value):
    return lambda: attention(randn(*query), randn(*key), randn(*value))


def used_cache() -> KeyValueCache:
    cache = KeyValueCache()
    MULTI(X, cache=cache)
    return cache


BAD_CALLS = {
    # masks: what is not boolean
    "mask of floats": (lambda: attention(*INPUTS, mask=torch.zeros(3, 5)), TypeError,
        ["mask has dtype torch.float32", "True means 'may attend'", "as_mask(keep=…)", "as_mask(additive=…)"]),
    "mask of integers": (lambda: attention(*INPUTS, mask=torch.ones(3, 5).long()), TypeError,
        ["torch.int64", "as_mask"]),
    "mask of bytes": (lambda: attention(*INPUTS, mask=torch.ones(3, 5).byte()), TypeError, ["torch.uint8", "as_mask"]),
    "mask as a list": (lambda: attention(*INPUTS, mask=[[True]]), TypeError,
        ["mask is a list", "boolean torch tensor"]),
    # masks: what does not fit
    "mask without head axis": (lambda: attention(*INPUTS, mask=true(2, 3, 5)), ValueError,
        ["mask has shape (2, 3, 5)", "(query, key)", "mask[:, None]"]),
    "mask (batch, key)": (lambda: attention(*INPUTS, mask=true(2, 5)), ValueError,
        ["mask has shape (2, 5)", "(2, 4, 3, 5)", "looks like (batch, key)", "padding_mask", "mask[:, None, None, :]"]),
    "mask (1, key)": (lambda: attention(*INPUTS, mask=true(1, 5)), ValueError, ["(1, 5)", "(2, 4, 3, 5)"]),
    "mask with one key": (lambda: attention(*INPUTS, mask=true(1, 1, 3, 1)), ValueError,
        ["(1, 1, 3, 1)", "(2, 4, 3, 5)"]),
    "mask of another batch": (lambda: attention(*INPUTS, mask=true(3, 1, 1, 5)), ValueError,
        ["(3, 1, 1, 5)", "batch or 1"]),
    "mask transposed": (lambda: attention(*INPUTS, mask=true(5, 3)), ValueError,
        ["(5, 3)", "two dimensions mean (query, key)"]),
    "mask of one dimension": (lambda: attention(*INPUTS, mask=true(5)), ValueError,
        ["mask has shape (5,)", "(query, key)"]),
    # bias
    "bias of booleans": (lambda: attention(*INPUTS, bias=true(3, 5)), TypeError,
        ["bias has dtype torch.bool", "use mask="]),
    "bias of 0 and 1": (lambda: attention(*INPUTS, bias=causal_mask(3, 5).float()), ValueError,
        ["bias holds only 0 and 1", "mask=bias.bool()"]),
    "bias that does not fit": (lambda: attention(*INPUTS, bias=randn(4, 3, 5)), ValueError,
        ["bias has shape (4, 3, 5)", "bias[:, None]"]),
    "bias with NaN": (lambda: attention(*INPUTS, bias=torch.full((3, 5), torch.nan)), ValueError,
        ["bias holds nan", "−∞"]),
    "bias with +∞": (lambda: attention(*INPUTS, bias=torch.full((3, 5), torch.inf)), ValueError, ["bias holds inf"]),
    # query, key, value
    "three dimensions": (with_shapes((2, 3, 8), (2, 3, 8), (2, 3, 8)), ValueError,
        ["(batch, heads, length, d_head)", "query (2, 3, 8)"]),
    "widths differ": (with_shapes((2, 4, 3, 8), (2, 4, 5, 6), (2, 4, 5, 8)), ValueError,
        ["widths", "query (2, 4, 3, 8)", "key (2, 4, 5, 6)"]),
    "batches differ": (with_shapes((2, 4, 3, 8), (1, 4, 5, 8), (1, 4, 5, 8)), ValueError,
        ["batch", "key (1, 4, 5, 8)"]),
    "a key without value": (with_shapes((2, 4, 3, 8), (2, 4, 5, 8), (2, 4, 4, 8)), ValueError,
        ["one value", "value (2, 4, 4, 8)"]),
    "kv heads do not divide": (with_shapes((2, 4, 3, 8), (2, 3, 5, 8), (2, 3, 5, 8)), ValueError,
        ["multiple of the key/value heads"]),
    "more kv heads than heads": (with_shapes((2, 2, 3, 8), (2, 4, 5, 8), (2, 4, 5, 8)), ValueError,
        ["multiple of the key/value heads"]),
    "no queries": (with_shapes((2, 4, 0, 8), (2, 4, 5, 8), (2, 4, 5, 8)), ValueError,
        ["a size is 0", "query (2, 4, 0, 8)"]),
    "no keys": (with_shapes((2, 4, 3, 8), (2, 4, 0, 8), (2, 4, 0, 8)), ValueError, ["a size is 0", "key (2, 4, 0, 8)"]),
    "no kv heads": (with_shapes((2, 4, 3, 8), (2, 0, 5, 8), (2, 0, 5, 8)), ValueError, ["a size is 0"]),
    "no batch": (with_shapes((0, 4, 3, 8), (0, 4, 5, 8), (0, 4, 5, 8)), ValueError, ["a size is 0"]),
    "dtypes differ": (lambda: attention(INPUTS[0], INPUTS[1].double(), INPUTS[2]), TypeError,
        ["key has dtype torch.float64", "torch.float32 for query", ".to(dtype)"]),
    "integers": (lambda: attention(*(t.long() for t in INPUTS)), TypeError, ["torch.int64", "use .float()"]),
    "queries ahead of the keys": (lambda: attention(*query_key_value(2, 4, 5, 3), causal=True), ValueError,
        ["n_query is 5", "n_key is 3", "last positions"]),
    "dropout above 1": (lambda: attention(*INPUTS, dropout=1.5), ValueError, ["dropout is 1.5", "between 0 and 1"]),
    "dropout below 0": (lambda: Attention(-0.1), ValueError, ["dropout is -0.1"]),
    "dropout not a number": (lambda: MultiHeadAttention(8, 2, dropout=float("nan")), ValueError, ["dropout is nan"]),
    # the module
    "width not divisible": (lambda: MultiHeadAttention(10, 4), ValueError,
        ["d_model is 10", "n_heads is 4", "give d_head"]),
    "no heads": (lambda: MultiHeadAttention(8, 0), ValueError, ["n_heads is 0", "at least 1"]),
    "no width": (lambda: MultiHeadAttention(0, 2), ValueError, ["d_model is 0"]),
    "no shared heads": (lambda: MultiHeadAttention(8, 2, n_kv_heads=0), ValueError, ["n_kv_heads is 0"]),
    "no head width": (lambda: MultiHeadAttention(8, 2, d_head=0), ValueError, ["d_head is 0"]),
    "shared heads not divisible": (lambda: MultiHeadAttention(12, 6, n_kv_heads=4), ValueError,
        ["n_heads is 6", "n_kv_heads is 4"]),
    "x of another width": (lambda: MULTI(randn(2, 3, 6)), ValueError, ["x has shape (2, 3, 6)", "d_model = 8"]),
    "x without batch": (lambda: MULTI(randn(3, 8)), ValueError, ["x has shape (3, 8)", "(batch, length"]),
    "x without tokens": (lambda: MULTI(randn(2, 0, 8)), ValueError, ["x has shape (2, 0, 8)", "no axis empty"]),
    "x of another dtype": (lambda: MULTI(X.double()), TypeError,
        ["x has dtype torch.float64", "torch.float32", ".to(dtype)"]),
    "x of integers": (lambda: MULTI(X.long()), TypeError, ["x has dtype torch.int64"]),
    "x with NaN": (lambda: MULTI(X.where(X < X.max(), torch.nan)), ValueError, ["x holds nan at ("]),
    "context of another width": (lambda: MULTI(X, randn(2, 3, 6)), ValueError,
        ["context has shape (2, 3, 6)", "d_model = 8"]),
    "context with ∞": (lambda: MULTI(X, X / 0), ValueError, ["context holds"]),
    "context of another batch": (lambda: MULTI(X, randn(1, 3, 8)), ValueError,
        ["x has shape (2, 3, 8)", "context (1, 3, 8)", "same batch"]),
    "context and causal": (lambda: MULTI(X, X, causal=True), ValueError,
        ["context is another sequence", "causal=True", "mask="]),
    "context and cache": (lambda: MULTI(X, X, cache=KeyValueCache()), ValueError,
        ["context is another sequence", "cache="]),
    "cache of another batch": (lambda: MULTI(X[:1], cache=used_cache()), ValueError,
        ["(2, 2, 3, 4)", "(1, 2, 3, 4)", "batch differs", "new cache"]),
    "square mask, longer keys": (lambda: MULTI(X, mask=causal_mask(3), cache=used_cache()), ValueError,
        ["(3, 3)", "(2, 2, 3, 6)"]),
    "heads that do not split": (lambda: split_heads(X, 3), ValueError, ["width 8", "n_heads = 3"]),
    "split in no heads": (lambda: split_heads(X, 0), ValueError, ["n_heads is 0"]),
    # mask builders
    "causal mask of nothing": (lambda: causal_mask(0), ValueError, ["n_query is 0"]),
    "causal mask of no keys": (lambda: causal_mask(1, 0), ValueError, ["n_key is 0"]),
    "window of nothing": (lambda: sliding_window_mask(3, window=0), ValueError, ["window is 0"]),
    "more tokens than places": (lambda: padding_mask([2, 6], 5), ValueError, ["lengths are [2, 6]", "n_key = 5"]),
    "fewer than no tokens": (lambda: padding_mask([-1], 5), ValueError, ["lengths are [-1]"]),
    "no lengths": (lambda: padding_mask([], 5), ValueError, ["lengths is empty"]),
    "lengths of floats": (lambda: padding_mask([2.0], 5), TypeError,
        ["lengths has dtype torch.float32", "whole numbers"]),
    "a mask as lengths": (lambda: padding_mask(true(2), 5), TypeError, ["lengths has dtype torch.bool"]),
    "lengths of two dimensions": (lambda: padding_mask(torch.ones(2, 5).long(), 5), ValueError,
        ["lengths has shape (2, 5)", "(batch,)"]),
    "padding without places": (lambda: padding_mask([0], 0), ValueError, ["n_key is 0"]),
    "padding in the middle": (lambda: padding_mask([2], 5, side="middle"), ValueError,
        ["side is 'middle'", "'right', 'left'"]),
    "tokens without batch": (lambda: mask_from_tokens(torch.tensor([1, 0]), 0), ValueError,
        ["tokens has shape (2,)", "(batch, key)"]),
    "masks of other keys": (lambda: combine_masks(true(3, 3), true(3, 4)), ValueError,
        ["(3, 3)", "(3, 4)", "do not fit"]),
    "masks with one key": (lambda: combine_masks(true(3, 3), true(1, 1, 3, 1)), ValueError, ["(3, 3)", "(1, 1, 3, 1)"]),
    "masks (batch, key) and causal": (lambda: combine_masks(causal_mask(3), true(1, 3)), ValueError,
        ["(3, 3)", "(1, 3)"]),
    "masks without head axis": (lambda: combine_masks(causal_mask(3), true(2, 1, 3)), ValueError,
        ["(2, 1, 3)", "mask[:, None]"]),
    "masks not boolean": (lambda: combine_masks(causal_mask(3), torch.ones(3, 3)), TypeError,
        ["torch.float32", "as_mask"]),
    "two conventions": (lambda: as_mask(keep=true(2), ignore=true(2)), TypeError,
        ["exactly one of keep=, ignore= and additive="]),
    "no convention": (lambda: as_mask(), TypeError, ["exactly one"]),
    "keep of floats": (lambda: as_mask(keep=torch.ones(2)), TypeError, ["torch.float32"]),
    "additive of 0 and 1": (lambda: as_mask(additive=torch.tensor([0.0, 1.0])), ValueError,
        ["additive holds 1.0", "keep=mask.bool()"]),
    "additive of −1e9": (lambda: as_mask(additive=torch.tensor([0.0, -1e9])), ValueError,
        ["additive holds -1000000000.0", "nudge", "keep=additive == 0"]),
    "additive of booleans": (lambda: as_mask(additive=true(2)), TypeError,
        ["additive has dtype torch.bool", "keep=mask.bool()"]),
}  # fmt: skip


@pytest.mark.parametrize(("call", "error", "said"), BAD_CALLS.values(), ids=BAD_CALLS)
def test_the_message_names_the_argument_the_value_and_the_fix(call, error, said):
    assert_refused(call, error, said)


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("name", ["query", "key", "value"])
@pytest.mark.parametrize("path", PATHS)
def test_one_bad_number_is_found_even_under_a_mask(path, name, value):
    """Otherwise the two paths differ: one hides an infinite key behind −∞, the other adds −∞ to it."""
    tensors = dict(zip(("query", "key", "value"), query_key_value(), strict=True))
    tensors[name][1, 2, 4, 3] = value
    mask = torch.arange(5) < 4
    with pytest.raises(ValueError, match=rf"{name} holds {value} at \(1, 2, 4, 3\)"):
        attention(*tensors.values(), mask=mask.expand(1, 1, 5, 5), need_weights=PATHS[path])


@pytest.mark.parametrize("path", PATHS)
def test_finite_numbers_that_are_too_large_are_told_apart(path):
    query, key, value = query_key_value()
    with pytest.raises(ValueError, match="grow larger than torch.float32 can hold"):
        attention(query * 1e20, key * 1e20, value, need_weights=PATHS[path])
    big = torch.full_like(value, 1e37)  # the check's own sum overflows here; nothing is wrong
    assert attention(query, key, big, need_weights=PATHS[path])[0].isfinite().all()


def test_a_refused_batch_leaves_the_cache_as_it_was():
    cache = used_cache()
    with pytest.raises(ValueError, match="new cache"):
        MULTI(X[:1], cache=cache)
    assert len(cache) == 3


def test_harmless_values_of_a_bias_are_accepted():
    for bias in (torch.zeros(3, 5), torch.ones(3, 5), torch.eye(3, 5) * 0.5, torch.full((3, 5), -1e30)):
        assert attention(*INPUTS, bias=bias)[0].isfinite().all()
