"""What the model refuses by kind: no tensors, no whole numbers, wrong ranks, other devices; and what it then keeps."""

import re

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from oracles import PATHS, query_key_value, randn, row_by_row
from transformer_lab.model.attention import (
    Attention,
    KeyValueCache,
    MultiHeadAttention,
    attention,
    merge_heads,
    repeat_kv_heads,
    split_heads,
)
from transformer_lab.model.averages import masked_cross_entropy, masked_mean
from transformer_lab.model.masks import (
    as_mask,
    causal_mask,
    combine_masks,
    mask_from_tokens,
    masked_softmax,
    padding_mask,
    sliding_window_mask,
)
from transformer_lab.model.positions import (
    AlibiPositions,
    LearnedPositions,
    RotaryPositions,
    SinusoidalPositions,
    alibi_slopes,
    convert_rope_layout,
    position_ids,
    sinusoidal_table,
)
from transformer_lab.model.recurrence import LSTMCell
from transformer_lab.model.relative import RelativePositions

pytestmark = pytest.mark.usefixtures("plain_errors")
QKV = query_key_value(1, 2, 3, 3)
MULTI, X = MultiHeadAttention(8, 2), randn(1, 3, 8)
IDS, REAL = torch.arange(3)[None], padding_mask([3], 3)
ROPE = RotaryPositions(layout="interleaved")
both_paths = pytest.mark.parametrize("need_weights", PATHS.values(), ids=PATHS)

NEEDS_A_TENSOR = {
    "query": lambda bad: attention(bad, *QKV[1:]),
    "value": lambda bad: attention(*QKV[:2], bad),
    "x": lambda bad: MULTI(bad),
    "x of merge_heads": lambda bad: merge_heads(bad),
    "x of masked_mean": lambda bad: masked_mean(bad, REAL),
    "x of rotate": lambda bad: ROPE.rotate(bad, IDS),
    "x of add": lambda bad: SinusoidalPositions().add(bad, IDS),
    "tokens": lambda bad: mask_from_tokens(bad, 0),
    "scores": lambda bad: masked_softmax(bad),
    "logits": lambda bad: masked_cross_entropy(bad, IDS),
    "targets": lambda bad: masked_cross_entropy(X, bad),
    "key": lambda bad: KeyValueCache().append(bad, QKV[2]),
    "weight": lambda bad: convert_rope_layout(bad, 2, source="interleaved", target="half_split"),
    "mask of position_ids": lambda bad: position_ids(bad),
    "position_ids": lambda bad: AlibiPositions().bias(bad, IDS, 2),
}
MAY_BE_NONE = {
    "mask": lambda bad: combine_masks(bad),
    "bias": lambda bad: attention(*QKV, bias=bad),
    "context": lambda bad: MULTI(X, bad),
    "position_ids of a layer": lambda bad: MULTI(X, position_ids=bad),
    "additive": lambda bad: as_mask(additive=bad),
}
NO_TENSORS = [
    (name, bad)
    for calls, bads in ((NEEDS_A_TENSOR, [None, [[0.0]], np.zeros((3, 3))]), (MAY_BE_NONE, [[[0.0]], np.zeros(3), 0.5]))
    for name in calls
    for bad in bads
]


@pytest.mark.parametrize(("name", "bad"), NO_TENSORS, ids=lambda each: each if isinstance(each, str) else type(each))
def test_what_is_no_tensor_is_named(name, bad):
    with pytest.raises(TypeError, match=rf"^{name.split()[0]} is a {type(bad).__name__}; .*torch tensor"):
        (NEEDS_A_TENSOR | MAY_BE_NONE)[name](bad)


SIZES = {
    "n_query": lambda bad: causal_mask(bad, 4),
    "window": lambda bad: sliding_window_mask(3, window=bad),
    "n_key": lambda bad: padding_mask([1], bad),
    "d_model": lambda bad: MultiHeadAttention(bad, 2),
    "n_heads": lambda bad: MultiHeadAttention(8, bad),
    "n_kv_heads": lambda bad: MultiHeadAttention(8, 2, n_kv_heads=bad),
    "d_head": lambda bad: MultiHeadAttention(8, 2, d_head=bad),
    "n_heads of split_heads": lambda bad: split_heads(X, bad),
    "n_heads of repeat_kv_heads": lambda bad: repeat_kv_heads(QKV[1], bad),
    "n_heads of alibi_slopes": lambda bad: alibi_slopes(bad),
    "n_positions": lambda bad: sinusoidal_table(bad, 4),
    "d_model of a table": lambda bad: LearnedPositions(4, bad),
    "d_hidden": lambda bad: LSTMCell(2, bad),
}


@pytest.mark.parametrize("bad", [2.5, 2.0, True, "2"])
@pytest.mark.parametrize("name", SIZES)
def test_a_size_is_a_whole_number(name, bad):
    with pytest.raises(TypeError, match=rf"^{name.split()[0]} is {bad!r}, a {type(bad).__name__}; .*whole number"):
        SIZES[name](bad)


@pytest.mark.parametrize("name", SIZES)
def test_a_size_is_at_least_one(name):
    with pytest.raises(ValueError, match=f"^{name.split()[0]} is 0; it must be at least 1"):
        SIZES[name](0)


def meta(*shape: int) -> torch.Tensor:
    return torch.zeros(shape, device="meta")


def append(key, value, ids=None):
    cache = KeyValueCache()
    cache.append(QKV[1], QKV[2])
    return lambda: cache.append(key, value, ids)


NEW = QKV[1][:, :, :1]
REFUSED = {
    # ranks and sizes that would fit by accident
    "fewer heads than kv heads": (lambda: repeat_kv_heads(torch.zeros(1, 4, 3, 2), 2), ValueError, "4 key/value heads"),
    "heads no multiple": (lambda: repeat_kv_heads(torch.zeros(1, 2, 3, 2), 3), ValueError, "n_heads = 3 is not a mult"),
    "merging three axes": (lambda: merge_heads(X), ValueError, "(1, 3, 8); it must be (batch, heads, length, d_head)"),
    "splitting two axes": (lambda: split_heads(X[0], 2), ValueError, "(3, 8); it must be (batch, length, width)"),
    "splitting four axes": (lambda: split_heads(QKV[0], 2), ValueError, "x has shape (1, 2, 3, 8)"),
    "a table of another width": (lambda: LearnedPositions(4, 1).add(X, IDS), ValueError, "d_model = 1)"),
    "no tokens": (lambda: LearnedPositions(4, 8).add(X[:, :0], IDS[:, :0]), ValueError, "no axis empty"),
    "no numbers": (lambda: AlibiPositions().bias(IDS[:, :0], IDS, 2), ValueError, "no axis empty"),
    "turning three axes": (lambda: ROPE.rotate(X, IDS), ValueError, "x has shape (1, 3, 8)"),
    "value of another length": (append(NEW, QKV[2]), ValueError, "value has shape (1, 2, 3, 8); it must be (batch = 1"),
    "value of another dtype": (append(NEW, NEW.double()), TypeError, "value has dtype torch.float64"),
    "cache of another dtype": (append(NEW.double(), NEW.double()), TypeError, "torch.float32 for the cache"),
    "numbers for other tokens": (append(NEW, NEW, IDS), ValueError, "position_ids has shape (1, 3)"),
    "a cache without numbers": (lambda: KeyValueCache(NEW, NEW), ValueError,
        "position_ids of the cache is None; give key, value, position_ids, or none"),
    "a cache without values": (lambda: KeyValueCache(NEW, None, IDS), ValueError, "value of the cache is None"),
    "a cache of values alone": (lambda: KeyValueCache(value=NEW), ValueError, "key and position_ids of the cache is"),
    "a cache with other numbers": (lambda: KeyValueCache(NEW, NEW, IDS), ValueError, "position_ids has shape (1, 3)"),
    "a cache of another width": (lambda: KeyValueCache(NEW, NEW[..., :1], IDS[:, :1]), ValueError, "value has shape"),
    "appending no value": (append(NEW, None), ValueError, "value of the cache is None"),
    "softmax of integers": (lambda: masked_softmax(IDS), TypeError, "scores has dtype torch.int64"),
    "softmax without keys": (lambda: masked_softmax(X[..., :0]), ValueError, "at least one key"),
    "softmax with a float mask": (lambda: masked_softmax(X, X), TypeError, "mask has dtype torch.float32. A mask is"),
    "softmax, mask (key,)": (lambda: masked_softmax(X[0, :, :3], IDS[0] > 0), ValueError, "the scores are (3, 3)"),
    "softmax, larger mask": (lambda: masked_softmax(X[0], X.bool()), ValueError, "mask has shape (1, 3, 8)"),
    "softmax, one key": (lambda: masked_softmax(X, X[..., :1].bool()), ValueError, "mask has shape (1, 3, 1)"),
    # kinds and dtypes
    "16 unsigned bits": (lambda: mask_from_tokens(IDS.to(torch.uint16), 0), TypeError, "tokens has dtype torch.uint16"),
    "32 unsigned bits": (lambda: MULTI(X, position_ids=IDS.to(torch.uint32)), TypeError, "dtype torch.uint32; it must"),
    "a distance beyond floats": (
        lambda: RelativePositions(2, max_distance=10**400, bidirectional=True), ValueError, "max_distance is a number"
    ),
    "a base beyond floats": (
        lambda: RotaryPositions(layout="interleaved", base=10**400), ValueError, "base is larger than a float can hold"
    ),
    "turning integers": (lambda: ROPE.rotate(torch.ones(1, 2, 3, 4).long(), IDS), TypeError, "x has dtype torch.int64"),
    "adding to integers": (lambda: SinusoidalPositions().add(X.long(), IDS), TypeError, "x has dtype torch.int64"),
    "8 bits": (lambda: attention(*[t.to(torch.float8_e4m3fn) for t in QKV]), TypeError, "query has dtype torch.float8"),
    "tokens of floats": (lambda: mask_from_tokens(X[0], 0), TypeError, "tokens has dtype torch.float32"),
    "pad of 0.5": (lambda: mask_from_tokens(IDS, 0.5), TypeError, "pad_id is 0.5, a float"),
    "pad of None": (lambda: mask_from_tokens(IDS, None), TypeError, "pad_id is None, a NoneType"),
    "lengths of None": (lambda: padding_mask(None, 3), TypeError, "lengths is None"),
    "lengths of words": (lambda: padding_mask(["a"], 3), TypeError, "lengths is ['a']"),
    "cache of a dict": (lambda: MULTI(X, cache={}), TypeError, "cache is {}, a dict; start with KeyValueCache()"),
    "position by name": (lambda: MultiHeadAttention(8, 2, position="rope"), TypeError, "position_scheme"),
    "dropout of a word": (lambda: Attention("x"), TypeError, "dropout is 'x', a str"),
    "dropout of None": (lambda: attention(*QKV, dropout=None), TypeError, "dropout is None"),
    "causal of None": (lambda: attention(*QKV, causal=None), TypeError, "causal is None, a NoneType"),
    "base of a word": (lambda: RotaryPositions(layout="interleaved", base="1"), TypeError, "base is '1', a str"),
    "bias beyond float32": (
        lambda: attention(*QKV, bias=torch.full((3, 3), -1e300, dtype=torch.float64)), ValueError, "bias holds -1e+300"
    ),
    # devices
    "mask elsewhere": (lambda: attention(*QKV, mask=meta(3, 3).bool()), ValueError, "mask is on device meta"),
    "bias elsewhere": (lambda: attention(*QKV, bias=meta(3, 3)), ValueError, "bias is on device meta"),
    "key elsewhere": (lambda: attention(QKV[0], meta(1, 2, 3, 8), QKV[2]), ValueError, "key is on device meta"),
    "x elsewhere": (lambda: MULTI(meta(1, 3, 8)), ValueError, "x is on device meta, against cpu for the weights"),
    "numbers elsewhere": (lambda: MULTI(X, position_ids=meta(1, 3).long()), ValueError, "position_ids is on device"),
    "softmax, mask elsewhere": (lambda: masked_softmax(X, meta(1, 3, 8).bool()), ValueError, "mask is on device meta"),
    "masks apart": (lambda: combine_masks(causal_mask(3), meta(3, 3).bool()), ValueError, "for the first mask"),
}  # fmt: skip


@pytest.mark.parametrize(("call", "error", "said"), REFUSED.values(), ids=REFUSED)
def test_the_message_says_what_came_in(call, error, said):
    with pytest.raises(error, match=re.escape(said)):
        call()


@pytest.mark.parametrize("refused", [{"mask": causal_mask(3)[:1]}, {"bias": torch.ones(1, 4).long()}])
def test_a_refused_step_can_be_retried_with_the_same_cache(refused):
    x, cache = randn(1, 4, 8), KeyValueCache()
    MULTI(x[:, :3], causal=True, cache=cache)
    with pytest.raises((TypeError, ValueError)):
        MULTI(x[:, 3:], causal=True, cache=cache, **refused)
    assert len(cache) == 3
    assert_close(MULTI(x[:, 3:], causal=True, cache=cache), MULTI(x, causal=True)[:, 3:])
    assert len(cache) == 4 and cache.position_ids.tolist() == [[0, 1, 2, 3]]


@both_paths
@pytest.mark.parametrize("level", [-1e5, 7e4])
def test_a_bias_beyond_half_precision_is_added_all_the_same(level, need_weights):
    query, key, value = query_key_value(1, 1, 3, 3, dtype=torch.float16)
    bias = level + torch.tensor([[0.0, 1.0, 2.0]]).expand(3, 3)
    output, _ = attention(query, key, value, bias=bias, need_weights=need_weights)
    expected = row_by_row(query.double(), key.double(), value.double(), causal_mask(1, 3), bias.double())
    assert_close(output.double(), expected, atol=1e-2, rtol=0)


def test_positions_count_on_beyond_eight_bits():
    cache = KeyValueCache(NEW, NEW, torch.tensor([[255]], dtype=torch.uint8))
    assert cache.next_position_ids(2).tolist() == [[256, 257]]


def test_targets_of_any_size_count_alike():
    logits, targets = randn(1, 3, 8), torch.tensor([[1, 7, 0]])
    for dtype in (torch.uint8, torch.int16, torch.int32):
        assert masked_cross_entropy(logits, targets.to(dtype)).equal(masked_cross_entropy(logits, targets))


def test_sinusoids_are_as_exact_as_the_embeddings():
    x, ids = torch.zeros(1, 5, 8, dtype=torch.float64), torch.tensor([[0, 1, 2, 777, 20_000]])
    angle = ids[..., None] / 10_000 ** (torch.arange(0, 8, 2, dtype=torch.float64) / 8)
    assert_close(SinusoidalPositions().add(x, ids)[..., 0::2], angle.sin(), atol=1e-12, rtol=0)


def test_a_hidden_score_may_be_anything_and_gets_no_gradient():
    scores = torch.tensor([[1.0, 2.0, torch.nan], [1.0, torch.inf, 3.0]], requires_grad=True)
    weights = masked_softmax(scores, torch.tensor([[True, True, False], [True, False, True]]))
    assert_close(weights, torch.tensor([[0.268941, 0.731059, 0.0], [0.119203, 0.0, 0.880797]]))
    weights.square().sum().backward()
    assert scores.grad.isfinite().all() and scores.grad[0, 2] == scores.grad[1, 1] == 0


@both_paths
@pytest.mark.parametrize(("size", "bias"), [(-1e20, None), (-1e19, torch.full((1, 2), -3e38))])
def test_scores_that_fall_to_minus_infinity_are_no_empty_row(size, bias, need_weights):
    query, key = torch.full((1, 2, 1, 4), 1e19), torch.full((1, 1, 2, 4), size)  # two query heads share the keys
    with pytest.raises(ValueError, match="grow larger than torch.float32 can hold"):
        attention(query, key, torch.ones(1, 1, 2, 4), bias=bias, need_weights=need_weights)
    lowest = torch.full((3, 3), torch.finfo(torch.float32).min)  # a common stand-in for −∞ overflows nothing
    output, _ = attention(*QKV, bias=lowest, need_weights=need_weights)
    assert_close(output, QKV[2].mean(2, keepdim=True).expand_as(output))


def test_half_precision_is_summed_in_float32():
    assert masked_mean(torch.full((1, 4, 2), 3e4).half(), padding_mask([4], 4)).tolist() == [[3e4, 3e4]]
    logits = torch.tensor([3e4, 0.0]).half().expand(1, 4, 2)
    loss = masked_cross_entropy(logits, torch.ones(1, 4).long())
    assert loss.item() == 3e4 and loss.dtype == torch.float16


def test_the_meta_device_knows_shapes_only():
    with torch.device("meta"):
        table, ids = LearnedPositions(4, 8), torch.zeros(1, 3).long()
        assert table.add(torch.zeros(2, 3, 8), ids).shape == (2, 3, 8)
        assert padding_mask(torch.ones(2).long(), 3).shape == (2, 1, 1, 3)
    for need_weights in (False, True):
        tensor = meta(1, 2, 3, 4)
        output, _ = attention(tensor, tensor, tensor, bias=meta(3, 3).double(), need_weights=need_weights)
        assert output.shape == tensor.shape
