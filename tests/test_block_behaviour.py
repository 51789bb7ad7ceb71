"""What holds for every block: dropout in training only, no leaks between tokens or samples, caches, clear refusals."""

from copy import copy, deepcopy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

from oracles import randn
from refusals import assert_refused
from transformer_lab.model.attention import Attention, KeyValueCache
from transformer_lab.model.blocks import Block, Residual
from transformer_lab.model.masks import padding_mask
from transformer_lab.model.norms import LayerNorm
from transformer_lab.model.positions import AlibiPositions, RotaryPositions, position_ids
from transformer_lab.model.relative import RelativePositions

WIDTH, HEADS, INNER = 16, 4, 24
# One of each kind: the original, GPT-2's, Llama's, T5's, and a mixed one.
KINDS = {
    "post": lambda: Block(WIDTH, HEADS, INNER, norm_order="post", activation="relu"),
    "pre": lambda: Block(WIDTH, HEADS, INNER, activation="gelu_tanh"),
    "rope": lambda: Block(
        WIDTH, HEADS, INNER, norm="rmsnorm", activation="swiglu", n_kv_heads=2, bias=False,
        position=RotaryPositions(layout="half_split"),
    ),
    "relative": lambda: Block(
        WIDTH, HEADS, INNER, norm="rmsnorm", activation="relu", d_head=5, bias=False,
        position=RelativePositions(HEADS, n_buckets=8, max_distance=6, bidirectional=False),
    ),
    "alibi": lambda: Block(
        WIDTH, HEADS, INNER, norm_order="post", activation="geglu", n_kv_heads=1, position=AlibiPositions()
    ),
}  # fmt: skip
every_kind = pytest.mark.parametrize("kind", KINDS)
properties = settings(max_examples=12, deadline=None, derandomize=True)
seeds = st.integers(0, 999)


def block(kind: str, *, seed: int = 0) -> Block:
    torch.manual_seed(seed)
    return KINDS[kind]()


def dropping(p: float, order: str = "pre", **options) -> Block:
    torch.manual_seed(0)
    return Block(WIDTH, HEADS, INNER, norm_order=order, cross_attention=True, dropout=p, **options)


X, CONTEXT = randn(2, 5, WIDTH), randn(2, 6, WIDTH, seed=1)
# Every place that drops: (owner, attribute that holds the probability).
PLACES = {
    name: (name, "p" if name.endswith(".dropout") else "dropout")
    for name, module in dropping(0.5).named_modules()
    if isinstance(module, nn.Dropout | Attention)
}


def test_a_block_drops_in_five_places():
    assert sorted(PLACES) == [
        "cross_attention.dropout", "cross_attention.sublayer.attention", "feedforward.dropout",
        "self_attention.dropout", "self_attention.sublayer.attention",
    ]  # fmt: skip


@pytest.mark.case("E01")
@pytest.mark.parametrize(("name", "attribute"), PLACES.values(), ids=PLACES)
@pytest.mark.parametrize("order", ["pre", "post"])
def test_each_place_drops_in_training_and_in_training_only(order, name, attribute):
    module = dropping(0.5, order)
    for other, other_attribute in PLACES.values():
        assert getattr(module.get_submodule(other), other_attribute) == 0.5
        if other != name:
            setattr(module.get_submodule(other), other_attribute, 0.0)
    assert not torch.equal(module(X, CONTEXT), module(X, CONTEXT))
    expected = dropping(0.0, order)(X, CONTEXT)
    assert torch.equal(module.eval()(X, CONTEXT), expected)
    assert torch.equal(module(X, CONTEXT), expected)


def test_what_is_dropped_is_what_the_sublayer_adds():
    """With everything dropped only the stream is left; what is kept is scaled up, the stream is not."""
    assert torch.equal(dropping(1.0, "pre")(X, CONTEXT), X)
    norm = LayerNorm(WIDTH)
    assert_close(dropping(1.0, "post")(X, CONTEXT), norm(norm(norm(X))))
    torch.manual_seed(0)
    ones = torch.ones(1, 4, WIDTH)
    sums = Residual(nn.Identity(), nn.Identity(), dropout=0.75)(ones)
    assert set(sums.unique().tolist()) == {1.0, 1.0 + 1 / (1 - 0.75)}


@pytest.mark.case("E03")
@pytest.mark.case("E05")
@every_kind
def test_training_evaluation_and_no_grad_agree_on_every_row(kind):
    """Pads too: their rows mean nothing, but they are the same nothing in every mode."""
    module, mask = block(kind), padding_mask([2, 5], 5)
    expected = module.train()(X, mask=mask, causal=True)
    assert expected.isfinite().all()
    assert torch.equal(module.eval()(X, mask=mask, causal=True), expected)
    for without_gradients in (torch.no_grad, torch.inference_mode):  # torch may then choose another kernel
        with without_gradients():
            assert_close(module(X, mask=mask, causal=True), expected, atol=1e-6, rtol=1e-6)


@pytest.mark.case("E07")
@every_kind
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 6e-2)], ids=str)
def test_a_batch_and_its_rows_differ_by_rounding_alone(kind, dtype, tolerance):
    module, x = block(kind), randn(16, 8, WIDTH)
    exact = module.double()(x.double())
    module, x = module.to(dtype), x.to(dtype)
    together = module(x)
    assert together.dtype == dtype
    assert_close(together[3:4], module(x[3:4]), atol=tolerance, rtol=0)
    assert_close(together.double(), exact, atol=tolerance, rtol=0)


@every_kind
@properties
@given(lengths=st.lists(st.integers(1, 5), min_size=1, max_size=3), side=st.sampled_from(["left", "right"]), seed=seeds)
def test_padded_equals_alone_and_pads_do_not_matter(kind, lengths, side, seed):
    module, mask = block(kind, seed=seed), padding_mask(lengths, 5, side=side)
    x, real = randn(len(lengths), 5, WIDTH, seed=seed), mask[:, 0, 0]
    words = {"mask": mask, "causal": True, "position_ids": position_ids(mask)}
    together = module(x, **words)
    noise = torch.where(real[..., None], x, 99 * randn(*x.shape, seed=seed + 1))
    assert_close(module(noise, **words)[real], together[real])
    for row, output, kept in zip(x, together, real, strict=True):
        assert_close(output[kept], module(row[kept][None], causal=True)[0], atol=1e-5, rtol=1e-5)


@every_kind
@properties
@given(length=st.integers(2, 6), seed=seeds)
def test_a_causal_block_does_not_look_ahead_and_another_does(kind, length, seed):
    module, x = block(kind, seed=seed), randn(2, length, WIDTH, seed=seed)
    t = 1 + seed % (length - 1)
    changed = torch.cat((x[:, :t], randn(2, length - t, WIDTH, seed=seed + 1)), dim=1)
    assert_close(module(changed, causal=True)[:, :t], module(x, causal=True)[:, :t])
    assert not torch.allclose(module(changed, causal=True)[:, t:], module(x, causal=True)[:, t:], atol=1e-3)
    assert not torch.allclose(module(changed)[:, :t], module(x)[:, :t], atol=1e-4)


@every_kind
def test_the_position_scheme_goes_by_the_numbers_given(kind):
    """Tokens that move with their numbers get the same vectors; where they stand matters to a block with a scheme."""
    module, order = block(kind), torch.tensor([3, 0, 4, 2, 1])
    with torch.no_grad():
        module.self_attention.sublayer.query_projection.weight.mul_(3)  # scores large enough for positions to matter
    expected = module(X)[:, order]
    assert_close(module(X[:, order], position_ids=order[None]), expected)
    has_scheme = module.self_attention.sublayer.position is not None
    assert has_scheme == (kind in ("rope", "relative", "alibi"))
    assert torch.allclose(module(X[:, order]), expected, atol=1e-4) != has_scheme


@every_kind
@properties
@given(batch=st.integers(2, 4), seed=seeds)
def test_no_sample_reads_another(kind, batch, seed):
    module, x = block(kind, seed=seed), randn(batch, 3, WIDTH, seed=seed)
    changed = randn(batch, 3, WIDTH, seed=seed + 1)
    kept = seed % batch
    changed[kept] = x[kept]
    assert_close(module(changed)[kept], module(x)[kept])
    (gradient,) = torch.autograd.grad(module(x.requires_grad_())[kept].square().sum(), x)
    assert all((gradient[b].abs().max() > 0) == (b == kept) for b in range(batch))


@every_kind
@properties
@given(steps=st.lists(st.integers(1, 3), min_size=1, max_size=4), padded=st.booleans(), seed=seeds)
def test_cached_equals_uncached(kind, steps, padded, seed):
    module, length, cache = block(kind, seed=seed), sum(steps), KeyValueCache()
    x = randn(2, length, WIDTH, seed=seed)
    mask = padding_mask([1 + seed % length if padded else length, length], length, side="left")
    ids, end, pieces = position_ids(mask), 0, []
    for piece in x.split(steps, dim=1):
        new = slice(end, end := end + piece.shape[1])
        words = {"mask": mask[..., :end], "position_ids": ids[:, new]}
        pieces.append(module(piece, causal=True, cache=cache, **words))
    expected = module(x, causal=True, mask=mask, position_ids=ids)
    assert_close(torch.cat(pieces, dim=1), expected, atol=1e-5, rtol=1e-5)
    assert len(cache) == length


REFUSED_STEPS = {
    "a context of another batch": {"context": CONTEXT[:1]},
    "a context of another width": {"context": CONTEXT[..., :8]},
    "a context with NaN": {"context": CONTEXT * torch.nan},
    "a mask of the context that does not fit": {"context": CONTEXT, "context_mask": padding_mask([5, 5], 5)},
    "a mask of the context of floats": {"context": CONTEXT, "context_mask": torch.ones(2, 1, 1, 6)},
    "a mask that does not fit": {"context": CONTEXT, "mask": padding_mask([3, 3], 3)},
    "no context": {"context": None},
}


@pytest.mark.parametrize("order", ["pre", "post"])
@pytest.mark.parametrize("words", REFUSED_STEPS.values(), ids=REFUSED_STEPS)
def test_a_refused_step_can_be_retried_with_the_same_cache(words, order, plain_errors):
    module, cache = dropping(0.0, order), KeyValueCache()
    module(X[:, :4], CONTEXT, causal=True, cache=cache)
    before = copy(cache)
    with pytest.raises((TypeError, ValueError)):
        module(X[:, 4:], causal=True, cache=cache, **words)
    assert cache.key is before.key and cache.position_ids is before.position_ids and len(cache) == 4
    step = module(X[:, 4:], CONTEXT, causal=True, cache=cache)
    assert_close(step, module(X, CONTEXT, causal=True)[:, 4:])
    assert len(cache) == 5


@every_kind
def test_shapes_alone_on_the_meta_device_and_a_copy_is_another_block(kind):
    with torch.device("meta"):
        assert block(kind)(torch.zeros(2, 5, WIDTH), causal=True).shape == (2, 5, WIDTH)
    module = block(kind)
    twin = deepcopy(module)
    expected = module(X)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.zero_()
    assert torch.equal(twin(X), expected) and not torch.equal(module(X), expected)


class Averaged(nn.Module):
    """One vector for all tokens, which would broadcast."""

    def __init__(self, kind=torch.as_tensor):
        super().__init__()
        self.kind = kind

    def forward(self, x):
        return self.kind(x.mean(dim=1, keepdim=True))


BAD_CALLS = {
    "a third order": (lambda: Block(8, 2, 16, norm_order="both"), ValueError, ["order is 'both'", "'pre', 'post'"]),
    "no such norm": (lambda: Block(8, 2, 16, norm="batchnorm"), ValueError, ["norm is 'batchnorm'", "'rmsnorm'"]),
    "no such activation": (lambda: Block(8, 2, 16, activation="silu"), ValueError, ["activation is 'silu'", "'gelu'"]),
    "eps below 0": (lambda: Block(8, 2, 16, norm_eps=-1.0), ValueError, ["eps is -1.0", "0 or above"]),
    "heads that do not divide": (lambda: Block(8, 3, 16), ValueError, ["d_model is 8 and n_heads is 3", "d_head"]),
    "no inner width": (lambda: Block(8, 2, 0), ValueError, ["d_ff is 0", "at least 1"]),
    "dropout in percent": (lambda: Block(8, 2, 16, dropout=10), ValueError, ["dropout is 10", "between 0 and 1"]),
    "dropout of a residual": (lambda: Residual(nn.Identity(), nn.Identity(), dropout=-0.1), ValueError,
        ["dropout is -0.1", "between 0 and 1"]),
    "a sublayer that narrows": (lambda: Residual(nn.Linear(16, 1), nn.Identity())(X), ValueError,
        ["the sublayer makes (2, 5, 1) of (2, 5, 16)"]),
    "a sublayer that averages": (lambda: Residual(Averaged(), nn.Identity(), order="post")(X), ValueError,
        ["the sublayer makes (2, 1, 16) of (2, 5, 16)"]),
    "a sublayer that widens x": (lambda: Residual(nn.Linear(1, 16), nn.Identity())(X[..., :1]), ValueError,
        ["the sublayer makes (2, 5, 16) of (2, 5, 1)"]),
    "a sublayer that returns weights too": (lambda: Residual(Averaged(tuple), nn.Identity())(X), TypeError,
        ["what the sublayer returns is a tuple"]),
    "bias of 0": (lambda: Block(8, 2, 16, bias=0), TypeError, ["bias is 0, a int", "True or False"]),
    "cross_attention of a word": (lambda: Block(8, 2, 16, cross_attention="no"), TypeError,
        ["cross_attention is 'no', a str", "True or False"]),
    "a context nobody reads": (lambda: Block(WIDTH, 2, 16)(X, CONTEXT), ValueError,
        ["context was passed", "cross_attention=True"]),
    "a mask of a context nobody reads": (lambda: Block(WIDTH, 2, 16)(X, context_mask=padding_mask([6, 6], 6)),
        ValueError, ["context_mask was passed", "cross_attention=True"]),
    "no context to read": (lambda: dropping(0.0)(X), ValueError, ["needs a context", "encoder's output"]),
    "another width": (lambda: Block(8, 2, 16)(X), ValueError, ["x has shape (2, 5, 16)", "d_model = 8"]),
    "another width, post": (lambda: Block(8, 2, 16, norm_order="post")(X), ValueError,
        ["x has shape (2, 5, 16)", "d_model = 8"]),
    "another dtype": (lambda: Block(WIDTH, 2, 16)(X.double()), TypeError,
        ["x has dtype torch.float64", "torch.float32 for the weights"]),
    "tokens": (lambda: Block(WIDTH, 2, 16)(X.long()), TypeError, ["x has dtype torch.int64", ".float()"]),
    "NaN": (lambda: Block(WIDTH, 2, 16, norm_order="post")(X * torch.nan), ValueError, ["x holds nan at (0, 0, 0)"]),
    "a cache of a dict": (lambda: Block(WIDTH, 2, 16)(X, cache={}), TypeError,
        ["cache is {}, a dict", "KeyValueCache()"]),
}  # fmt: skip


@pytest.mark.parametrize(("call", "error", "said"), BAD_CALLS.values(), ids=BAD_CALLS)
def test_the_message_names_the_argument_the_value_and_the_fix(call, error, said, plain_errors):
    assert_refused(call, error, said)
