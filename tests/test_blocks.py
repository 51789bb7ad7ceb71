"""Blocks: torch's layers with the same weights, a reference written out, and what no input may change."""

from copy import deepcopy

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from oracles import block_copy_of, randn, row_by_row
from transformer_lab.model.blocks import Block, Residual
from transformer_lab.model.masks import causal_mask, padding_mask
from transformer_lab.model.recording import record_attention

BATCH, LENGTH, SOURCE, WIDTH, HEADS, INNER = 3, 5, 6, 16, 4, 24
REAL = padding_mask([5, 3, 1], LENGTH)
SOURCE_REAL = padding_mask([4, 6, 2], SOURCE)
CAUSAL = causal_mask(LENGTH)
orders = pytest.mark.parametrize("order", ["pre", "post"])
activations = pytest.mark.parametrize("activation", ["relu", "gelu"])
modes = pytest.mark.parametrize("mode", ["train", "eval", "no_grad"])


def ignored(mask: torch.Tensor) -> torch.Tensor:
    """A padding mask in torch's words: (batch, key), True = is a pad."""
    return ~mask[:, 0, 0]


# Ours, and the same in torch's words.
SPELLINGS = {
    "nothing": ({}, {}),
    "padding": ({"mask": REAL}, {"padding": ignored(REAL)}),
    "causal": ({"causal": True}, {"mask": ~CAUSAL}),
    "causal and padding": ({"causal": True, "mask": REAL}, {"mask": ~CAUSAL, "padding": ignored(REAL)}),
}
spellings = pytest.mark.parametrize(("our_words", "torch_words"), SPELLINGS.values(), ids=SPELLINGS)


def torchs(kind: type, order: str, activation: str = "relu", dtype: torch.dtype = torch.float32) -> nn.Module:
    """A layer of torch's in which no scale is 1 and no bias 0."""
    theirs = kind(WIDTH, HEADS, INNER, 0.0, activation, batch_first=True, norm_first=order == "pre", dtype=dtype)
    with torch.no_grad():
        for i, parameter in enumerate(theirs.parameters()):
            parameter.mul_(0.5).add_(randn(*parameter.shape, seed=i, dtype=dtype), alpha=0.3)
    return theirs


def encode(theirs, x, *, mask=None, padding=None):
    return theirs(x, src_mask=mask, src_key_padding_mask=padding)


def decode(theirs, x, context, *, mask=None, padding=None):
    return theirs(x, context, mask, None, padding, ignored(SOURCE_REAL))


@orders
@activations
@spellings
@modes
def test_equals_torchs_encoder_layer(order, activation, our_words, torch_words, mode):
    theirs = torchs(nn.TransformerEncoderLayer, order, activation).train(mode == "train")
    ours, x, real = block_copy_of(theirs), randn(BATCH, LENGTH, WIDTH), REAL[:, 0, 0]
    with torch.set_grad_enabled(mode != "no_grad"):
        assert_close(ours(x, **our_words)[real], encode(theirs, x, **torch_words)[real], atol=1e-5, rtol=1e-5)


@orders
@activations
@spellings
@modes
def test_equals_torchs_decoder_layer(order, activation, our_words, torch_words, mode):
    theirs = torchs(nn.TransformerDecoderLayer, order, activation).train(mode == "train")
    ours, x, real = block_copy_of(theirs), randn(BATCH, LENGTH, WIDTH), REAL[:, 0, 0]
    context = randn(BATCH, SOURCE, WIDTH, seed=1)
    with torch.set_grad_enabled(mode != "no_grad"):
        found = ours(x, context, context_mask=SOURCE_REAL, **our_words)
        assert_close(found[real], decode(theirs, x, context, **torch_words)[real], atol=1e-5, rtol=1e-5)


@orders
@activations
@pytest.mark.parametrize("kind", [nn.TransformerEncoderLayer, nn.TransformerDecoderLayer])
def test_every_weight_learns_what_torchs_learns(kind, order, activation):
    theirs = torchs(kind, order, activation, torch.float64)
    ours, contexts = block_copy_of(theirs), []
    our_words, torch_words = SPELLINGS["causal and padding"]
    x = randn(BATCH, LENGTH, WIDTH, dtype=torch.float64)
    if kind is nn.TransformerDecoderLayer:
        our_words = our_words | {"context_mask": SOURCE_REAL}
        contexts = [randn(BATCH, SOURCE, WIDTH, seed=1, dtype=torch.float64)]
    run = decode if contexts else encode
    weight = randn(BATCH, LENGTH, WIDTH, seed=2, dtype=torch.float64) * REAL[:, 0, 0, :, None]
    (ours(x, *contexts, **our_words) * weight).sum().backward()
    (run(theirs, x, *contexts, **torch_words) * weight).sum().backward()
    gradients = deepcopy(theirs)  # holds gradients in the place of weights, so that block_copy_of sorts them
    for holder, parameter in zip(gradients.parameters(), theirs.parameters(), strict=True):
        holder.data = parameter.grad
    expected = dict(block_copy_of(gradients).named_parameters())
    assert_close({name: p.grad for name, p in ours.named_parameters()}, expected, atol=1e-10, rtol=1e-8)


def written_out(block, x, context=None, *, norm, order, activation, heads, kv_heads, allowed, source_allowed=None):
    """The block in plain tensor arithmetic, from nothing but its named weights."""
    weights = dict(block.named_parameters())

    def linear(name, x):
        return x @ weights[f"{name}.weight"].T + weights.get(f"{name}.bias", 0.0)

    def normed(name, x):
        scale = weights[f"{name}.weight"]
        if norm == "rmsnorm":
            return F.rms_norm(x, scale.shape, scale, 1e-5)
        return F.layer_norm(x, scale.shape, scale, weights.get(f"{name}.bias"), 1e-5)

    def attend(name, x, source, allowed):
        def cut(projection, z, n):
            flat = linear(f"{name}.{projection}_projection", z)
            return torch.stack(flat.chunk(n, dim=-1), dim=1)

        keys, values = cut("key", source, kv_heads), cut("value", source, kv_heads)
        mixed = row_by_row(cut("query", x, heads), keys, values, allowed)
        return linear(f"{name}.output_projection", torch.cat(mixed.unbind(1), dim=-1))

    def think(name, x):
        act = {"swiglu": F.silu, "geglu": F.gelu, "relu": F.relu}[activation]
        up = linear(f"{name}.up", x)
        inner = act(linear(f"{name}.gate", x)) * up if f"{name}.gate.weight" in weights else act(up)
        return linear(f"{name}.down", inner)

    sublayers = {"self_attention": lambda name, x: attend(name, x, x, allowed)}
    if context is not None:
        sublayers["cross_attention"] = lambda name, x: attend(name, x, context, source_allowed)
    sublayers["feedforward"] = think
    for name, sublayer in sublayers.items():
        if order == "pre":
            x = x + sublayer(f"{name}.sublayer", normed(f"{name}.norm", x))
        else:
            x = normed(f"{name}.norm", x + sublayer(f"{name}.sublayer", x))
    return x


@orders
@pytest.mark.parametrize("norm", ["rmsnorm", "layernorm"])
@pytest.mark.parametrize("activation", ["swiglu", "geglu", "relu"])
@pytest.mark.parametrize(("kv_heads", "d_head", "bias"), [(2, None, False), (1, 6, True)])
@pytest.mark.parametrize("cross", [False, True])
def test_equals_the_block_written_out(order, norm, activation, kv_heads, d_head, bias, cross):
    options = {"norm": norm, "activation": activation}
    block = Block(
        WIDTH, HEADS, INNER, norm_order=order, n_kv_heads=kv_heads, d_head=d_head, bias=bias, cross_attention=cross,
        **options,
    ).double()  # fmt: skip
    with torch.no_grad():
        for i, parameter in enumerate(block.parameters()):
            parameter.copy_(0.4 * randn(*parameter.shape, seed=i))
    x = randn(2, 3, WIDTH, dtype=torch.float64)
    context = randn(2, SOURCE, WIDTH, seed=1, dtype=torch.float64) if cross else None
    mask, source_mask = padding_mask([3, 2], 3), SOURCE_REAL[1:]
    found = block(x, context, mask=mask, causal=True, context_mask=source_mask if cross else None)
    expected = written_out(
        block, x, context, order=order, heads=HEADS, kv_heads=kv_heads, allowed=mask & causal_mask(3),
        source_allowed=source_mask, **options,
    )  # fmt: skip
    assert_close(found, expected, atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("norm", ["rmsnorm", "layernorm"])
@pytest.mark.parametrize("activation", ["gelu", "swiglu"])
def test_without_bias_no_part_has_one(norm, activation):
    names = {"norm": norm, "activation": activation, "cross_attention": True}
    with_bias, without = (Block(WIDTH, HEADS, INNER, bias=bias, **names).state_dict() for bias in (True, False))
    assert without.keys() == {name for name in with_bias if not name.endswith(".bias")}
    linear_layers = 2 * 4 + (3 if activation == "swiglu" else 2)
    assert len(with_bias) - len(without) == linear_layers + (3 if norm == "layernorm" else 0)


@pytest.mark.case("N08")
def test_pre_and_post_are_two_orders_and_the_third_is_neither():
    torch.manual_seed(0)
    blocks = {order: Block(4, 1, 8, norm_order=order) for order in ("pre", "post")}
    blocks["post"].load_state_dict(blocks["pre"].state_dict())
    attention, feedforward, norm = (
        blocks["pre"].self_attention.sublayer, blocks["pre"].feedforward.sublayer, nn.LayerNorm(4)
    )  # fmt: skip
    x = randn(1, 3, 4)
    middle = x + attention(norm(x))
    pre = middle + feedforward(norm(middle))
    middle = norm(x + attention(x))
    post = norm(middle + feedforward(middle))
    middle = x + norm(attention(x))
    neither = middle + norm(feedforward(middle))
    assert_close(blocks["pre"](x), pre)
    assert_close(blocks["post"](x), post)
    for order in (pre, post):
        assert not torch.allclose(neither, order, atol=1e-2)
    assert_close(blocks["post"](x).mean(-1), torch.zeros(1, 3), atol=1e-6, rtol=0)  # the sum itself is normed
    assert blocks["pre"](x).mean(-1).abs().max() > 1e-2


def test_a_residual_by_hand():
    double, halve = nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        double.weight.fill_(2.0)
        halve.weight.fill_(0.5)
    x = torch.full((1, 1, 1), 8.0)
    assert Residual(double, halve, order="pre")(x).item() == 8 + 2 * 4
    assert Residual(double, halve, order="post")(x).item() == (8 + 2 * 8) / 2


@orders
def test_recorded_attention_is_what_the_block_computed(order):
    torch.manual_seed(0)
    block = Block(WIDTH, HEADS, INNER, norm_order=order, cross_attention=True)
    x, context = randn(BATCH, LENGTH, WIDTH), randn(BATCH, SOURCE, WIDTH, seed=1)
    words = {"mask": REAL, "causal": True, "context_mask": SOURCE_REAL}
    expected = block(x, context, **words)
    with record_attention(block) as maps:
        assert_close(block(x, context, **words), expected)
    assert {name: weights[0].shape for name, weights in maps.items()} == {
        "self_attention.sublayer": (BATCH, HEADS, LENGTH, LENGTH),
        "cross_attention.sublayer": (BATCH, HEADS, LENGTH, SOURCE),
    }
    assert not maps["cross_attention.sublayer"][0].masked_select(~SOURCE_REAL).any()
