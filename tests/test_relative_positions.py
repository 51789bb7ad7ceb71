"""T5's relative positions: buckets and biases as in the published implementation, shared tables, caches, padding."""


import pytest
import torch
from torch import nn
from torch.testing import assert_close
from transformers import T5Config
from transformers.models.t5.modeling_t5 import T5Attention

from oracles import randn
from refusals import assert_refused
from transformer_lab.model.attention import KeyValueCache, MultiHeadAttention
from transformer_lab.model.masks import padding_mask
from transformer_lab.model.positions import AlibiPositions, position_ids
from transformer_lab.model.relative import RelativePositions

WIDTH, HEADS = 16, 4
both_ways = pytest.mark.parametrize("bidirectional", [True, False])


def scheme(bidirectional: bool, **sizes: int) -> RelativePositions:
    torch.manual_seed(0)
    return RelativePositions(HEADS, bidirectional=bidirectional, **sizes)


def layer(bidirectional: bool) -> MultiHeadAttention:
    """One attention with few, short buckets, so that a handful of tokens fills all of them."""
    position = scheme(bidirectional, n_buckets=8, max_distance=6)
    return MultiHeadAttention(WIDTH, HEADS, position=position)


def numbers(*ids: int) -> torch.Tensor:
    return torch.tensor([ids])


@both_ways
@pytest.mark.parametrize(("n_buckets", "max_distance"), [(32, 128), (32, 20), (8, 6), (64, 1000), (31, 100), (4, 3)])
def test_buckets_are_those_of_t5(bidirectional, n_buckets, max_distance):
    ahead = torch.arange(-2 * max_distance, 2 * max_distance + 1)
    expected = T5Attention._relative_position_bucket(ahead, bidirectional, n_buckets, max_distance)
    found = scheme(bidirectional, n_buckets=n_buckets, max_distance=max_distance).bucket(ahead)
    assert torch.equal(found, expected)
    assert found.min() == 0 and found.max() == (n_buckets // 2 * 2 if bidirectional else n_buckets) - 1


@both_ways
def test_the_bias_is_that_of_t5_with_the_same_table(bidirectional):
    config = T5Config(d_model=WIDTH, d_kv=4, num_heads=HEADS, is_decoder=not bidirectional)
    theirs, ours = T5Attention(config, has_relative_attention_bias=True), scheme(bidirectional)
    nn.init.normal_(theirs.relative_attention_bias.weight, generator=torch.Generator().manual_seed(1))
    ours.table.load_state_dict(theirs.relative_attention_bias.state_dict())
    ids = torch.arange(200)[None]
    assert torch.equal(ours.bias(ids, ids, HEADS), theirs.compute_bias(200, 200))
    # the last 3 tokens of 200, as in decoding with a cache
    assert torch.equal(ours.bias(ids[:, 197:], ids, HEADS), theirs.compute_bias(3, 200, past_seen_tokens=197))


def test_near_distances_have_a_bucket_each_and_far_ones_share():
    decoder, encoder = scheme(False), scheme(True)
    assert decoder.bucket(-torch.arange(17)).tolist() == list(range(17))
    assert decoder.bucket(torch.tensor([-113, -128, -1000, 5])).tolist() == [31, 31, 31, 0]
    assert encoder.bucket(torch.tensor([-2, -1, 0, 1, 2])).tolist() == [2, 1, 0, 17, 18]
    assert encoder.bucket(torch.tensor([-128, 128])).tolist() == [15, 31]


@both_ways
def test_a_common_shift_changes_nothing(bidirectional):
    position, ids = scheme(bidirectional), torch.arange(40)[None]
    assert torch.equal(position.bias(ids + 1000, ids + 1000, HEADS), position.bias(ids, ids, HEADS))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int32], ids=str)
@pytest.mark.parametrize("position", [scheme(True), scheme(False), AlibiPositions()], ids=["both", "before", "ALiBi"])
def test_numbers_of_any_whole_dtype_give_the_same_distances(position, dtype, plain_errors):
    """The annotations ask for signed numbers; where they are not executed, unsigned ones are counted all the same."""
    ids = torch.arange(40)[None]
    assert torch.equal(position.bias(ids.to(dtype), ids.to(dtype), HEADS), position.bias(ids, ids, HEADS))


@both_ways
def test_the_bias_is_added_to_the_scores(bidirectional):
    module, x = layer(bidirectional), randn(2, 9, WIDTH)
    position, module.position = module.position, None
    ids = torch.arange(9)[None]
    expected = module(x, bias=position.bias(ids, ids, HEADS))
    without = module(x)
    module.position = position
    assert_close(module(x), expected)
    assert not torch.allclose(expected, without, atol=1e-3)
    with torch.no_grad():
        position.table.weight.zero_()
    assert_close(module(x), without)


@both_ways
@pytest.mark.parametrize("steps", [[1] * 9, [5, 1, 3], [8, 1]])
def test_cached_equals_uncached(bidirectional, steps):
    module, x, cache = layer(bidirectional), randn(2, 9, WIDTH), KeyValueCache()
    pieces = [module(piece, causal=True, cache=cache) for piece in x.split(steps, dim=1)]
    assert_close(torch.cat(pieces, dim=1), module(x, causal=True))


@both_ways
@pytest.mark.parametrize("numbered", [True, False], ids=["numbered from the mask", "counted from the pads"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_padded_equals_alone(bidirectional, side, numbered):
    """Only differences count, so numbers that start at the pads serve as well."""
    module, x, mask = layer(bidirectional), randn(2, 9, WIDTH), padding_mask([6, 9], 9, side=side)
    real = slice(3, 9) if side == "left" else slice(0, 6)
    ids = position_ids(mask) if numbered else None
    together = module(x, mask=mask, position_ids=ids, causal=not bidirectional)
    assert_close(together[0, real], module(x[:1, real], causal=not bidirectional)[0])
    assert_close(together[1], module(x[1:], causal=not bidirectional)[0])


def test_blocks_that_share_a_table_train_one_table():
    position = scheme(True, n_buckets=8, max_distance=6)
    pair = nn.ModuleList(MultiHeadAttention(WIDTH, HEADS, position=position) for _ in range(2))
    assert sum(p.numel() for p in pair.parameters()) == 2 * 4 * (WIDTH**2 + WIDTH) + 8 * HEADS
    x = randn(1, 9, WIDTH)

    def gradient(loss):
        return torch.autograd.grad(loss.square().sum(), position.table.weight)[0]

    each = gradient(pair[0](x)) + gradient(pair[1](x))
    pair[0](x).square().sum().backward()
    pair[1](x).square().sum().backward()
    assert_close(position.table.weight.grad, each)
    assert (each.abs().sum(1) > 0).sum() == 7  # distances up to 8 reach every bucket but one: 4, a zero distance ahead


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_the_table_has_the_dtype_of_the_model(dtype):
    module, x = layer(True), randn(2, 9, WIDTH)
    expected = module(x)
    output = module.to(dtype)(x.to(dtype))
    assert output.dtype == dtype
    assert_close(output.float(), expected, atol=1e-5 if dtype == torch.float64 else 2e-2, rtol=0)


def test_the_meta_device_knows_shapes_only():
    with torch.device("meta"):
        assert layer(True)(torch.zeros(2, 9, WIDTH)).shape == (2, 9, WIDTH)


BAD_CALLS = {
    "no head": (lambda: RelativePositions(0, bidirectional=True), ValueError, ["n_heads is 0", "at least 1"]),
    "half a bucket": (lambda: RelativePositions(2, n_buckets=0.5, bidirectional=True), TypeError,
        ["n_buckets is 0.5, a float", "whole number"]),
    "one bucket": (lambda: RelativePositions(2, n_buckets=1, bidirectional=False), ValueError,
        ["n_buckets is 1 and", "at least 2 buckets"]),
    "one bucket each way": (lambda: RelativePositions(2, n_buckets=3, bidirectional=True), ValueError,
        ["n_buckets is 3 and max_distance is 128", "at least 2 buckets"]),
    "no far distance": (lambda: RelativePositions(2, max_distance=16, bidirectional=False), ValueError,
        ["n_buckets is 32 and max_distance is 16", "max_distance must lie beyond"]),
    "direction as a word": (lambda: RelativePositions(2, bidirectional="yes"), TypeError,
        ["bidirectional is 'yes', a str", "True or False"]),
    "a table for other heads": (lambda: scheme(True).bias(numbers(0), numbers(0), 8), ValueError,
        ["n_heads is 8", "4 heads"]),
    "a module with other heads": (lambda: MultiHeadAttention(8, 2, position=scheme(True))(randn(1, 3, 8)), ValueError,
        ["n_heads is 2", "4 heads"]),
    "numbers of floats": (lambda: scheme(True).bias(numbers(0).float(), numbers(0), HEADS), TypeError,
        ["position_ids has dtype torch.float32", ".long()"]),
    "negative numbers": (lambda: scheme(True).bias(numbers(0), numbers(-1, 0), HEADS), ValueError,
        ["position_ids holds -1", "numbered from 0"]),
    "no batch axis": (lambda: scheme(True).bias(numbers(0)[0], numbers(0), HEADS), ValueError,
        ["position_ids has shape (1,)", "(batch, length)"]),
    "numbers elsewhere": (lambda: scheme(True).bias(numbers(0), numbers(0).to("meta"), HEADS), ValueError,
        ["position_ids is on device meta", ".to(device)"]),
}  # fmt: skip


@pytest.mark.parametrize(("call", "error", "said"), BAD_CALLS.values(), ids=BAD_CALLS)
def test_the_message_names_the_argument_the_value_and_the_fix(call, error, said, plain_errors):
    assert_refused(call, error, said)
