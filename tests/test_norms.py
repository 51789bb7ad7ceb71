"""Norms: by hand, against torch in every dtype, token by token, at the edges of what a dtype can hold."""


import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

from oracles import randn
from refusals import assert_refused
from transformer_lab.model.norms import LayerNorm, RMSNorm, layer_norm, make_norm, rms_norm

# One rounding to the dtype at the end is allowed; float32 and float64 also round on the way.
ROUNDING = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 2**-8, torch.float16: 2**-11}
every_dtype = pytest.mark.parametrize("dtype", ROUNDING, ids=str)
every_norm = pytest.mark.parametrize("norm", [layer_norm, rms_norm])
properties = settings(max_examples=40, deadline=None, derandomize=True)


def test_three_and_four_by_hand():
    """Mean 3.5, deviation 0.5; mean of squares 12.5, whose root is 3.536."""
    x = torch.tensor([3.0, 4.0], dtype=torch.float64)
    assert_close(layer_norm(x, eps=0.0), torch.tensor([-1.0, 1.0], dtype=torch.float64))
    assert_close(rms_norm(x, eps=0.0), torch.tensor([0.848528, 1.131371], dtype=torch.float64), atol=1e-6, rtol=0)
    # eps stands under the root: 0.5 / √(0.25 + 0.75) and 3 / √(12.5 + 3.5)
    assert layer_norm(x, eps=0.75).tolist() == [-0.5, 0.5]
    assert rms_norm(x, eps=3.5).tolist() == [0.75, 1.0]


@pytest.mark.case("N01")
def test_the_variance_divides_by_the_width():
    x = torch.tensor([5.0, 1.0, 1.0, 1.0])
    expected = torch.tensor([3**0.5, -(3**-0.5), -(3**-0.5), -(3**-0.5)])
    assert_close(layer_norm(x), expected, atol=1e-4, rtol=0)
    assert_close(LayerNorm(4)(x), F.layer_norm(x, (4,)))
    unbiased = (x - x.mean()) / x.std()
    assert_close(unbiased, torch.tensor([1.5, -0.5, -0.5, -0.5]))
    assert not torch.allclose(layer_norm(x), unbiased, atol=0.05)


def ours_and_torchs(name: str, d_model: int, dtype: torch.dtype) -> tuple[nn.Module, nn.Module]:
    """The two modules with the same weights, which are not 1 and 0."""
    ours = {"layernorm": LayerNorm, "rmsnorm": RMSNorm}[name](d_model, eps=1e-3).to(dtype)
    theirs = {"layernorm": nn.LayerNorm, "rmsnorm": nn.RMSNorm}[name](d_model, eps=1e-3).to(dtype)
    theirs.load_state_dict({key: randn(d_model, seed=7 + len(key), dtype=dtype) for key in theirs.state_dict()})
    ours.load_state_dict(theirs.state_dict())
    return ours, theirs


def learned(module: nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    """The output, and the gradients of the input and of every weight, for one gradient of the output."""
    x = x.clone().requires_grad_()
    output = module(x)
    output.backward(randn(*x.shape, seed=5, dtype=torch.bfloat16).to(output.dtype))
    return [output.detach(), x.grad, *(parameter.grad for parameter in module.parameters())]


@every_dtype
@pytest.mark.parametrize("d_model", [1, 2, 4, 512])
@pytest.mark.parametrize("name", ["layernorm", "rmsnorm"])
def test_equals_torch_and_learns_what_torch_learns(name, d_model, dtype):
    ours, theirs = ours_and_torchs(name, d_model, dtype)
    x = randn(3, 5, d_model, dtype=dtype)
    found, exact = learned(ours, x), learned(theirs.double(), x.double())
    for mine, true in zip(found, exact, strict=True):
        assert mine.dtype == dtype
        assert_close(mine.double(), true, atol=max(1e-12, min(ROUNDING[dtype], 1e-5)), rtol=ROUNDING[dtype])
    same = learned(theirs.to(dtype), x)[0]  # torch in the dtype itself, which may round twice
    assert_close(found[0], same, atol=ROUNDING[dtype], rtol=2 * ROUNDING[dtype])


@pytest.mark.case("N04")
@every_dtype
@pytest.mark.parametrize("size", [300.0, 6e4])
def test_squares_that_half_precision_cannot_hold_do_not_overflow(size, dtype):
    ones, signs = torch.ones(4, dtype=dtype), torch.tensor([1.0, -1, 1, -1], dtype=dtype)
    assert_close(RMSNorm(4, eps=0.0).to(dtype)(ones * size), ones, atol=ROUNDING[dtype], rtol=0)
    assert_close(LayerNorm(4, eps=0.0).to(dtype)(signs * size), signs, atol=ROUNDING[dtype], rtol=0)
    if dtype == torch.float16:
        naive = ones * size / ((ones * size).square().mean() + 1e-6).sqrt()
        assert torch.equal(naive, torch.zeros_like(ones))


@every_dtype
def test_tiny_vectors_are_scaled_up_unless_eps_is_larger(dtype):
    x = torch.tensor([3.0, 4.0], dtype=dtype) * 1e-4
    for norm, expected in ((layer_norm, [-1.0, 1.0]), (rms_norm, [0.848528, 1.131371])):
        found = norm(x, eps=0.0)
        assert found.dtype == torch.promote_types(dtype, torch.float32)
        # half precision rounds the numbers that go in, and LayerNorm sees only their difference
        assert_close(found.float(), torch.tensor(expected), atol=max(1e-6, 10 * ROUNDING[dtype]), rtol=0)
        assert norm(x, eps=1.0).abs().max() < 1e-3


@every_norm
@pytest.mark.parametrize("level", [0.0, 1.0, -5.0, 300.0])
def test_constant_rows_have_no_deviation_but_a_size(norm, level):
    x = torch.full((2, 3, 8), level)
    expected = torch.zeros_like(x) if norm is layer_norm else torch.sign(x)
    assert_close(norm(x), expected, atol=1e-5, rtol=0)


@pytest.mark.case("N06")
def test_unit_offset_is_another_meaning_of_the_same_weights():
    x = torch.tensor([3.0, -4.0])
    plain, offset = RMSNorm(2), RMSNorm(2, unit_offset=True)
    assert plain.weight.tolist() == [1.0, 1.0] and offset.weight.tolist() == [0.0, 0.0]
    assert_close(offset(x), x / 12.5**0.5)
    assert torch.equal(offset(x), plain(x))
    plain.load_state_dict(offset.state_dict())
    assert plain(x).abs().tolist() == [0.0, 0.0]


@pytest.mark.case("N06")
def test_the_offset_is_added_before_anything_is_rounded():
    norm = RMSNorm(1, unit_offset=True).to(torch.bfloat16)
    with torch.no_grad():
        norm.weight.fill_(15.8125)
        assert (1 + norm.weight).item() != 16.8125  # bfloat16 has no such number
        assert norm(torch.ones(1)).item() == pytest.approx(16.8125, abs=1e-4)


@pytest.mark.parametrize("make", [LayerNorm, RMSNorm, lambda d: RMSNorm(d, unit_offset=True)])
@properties
@given(batch=st.integers(1, 3), length=st.integers(1, 4), d_model=st.integers(1, 6), seed=st.integers(0, 999))
def test_every_token_is_normed_by_itself(make, batch, length, d_model, seed):
    """Another batch, another length, other neighbours: the vector of a token comes out bit by bit the same."""
    norm, x = make(d_model), randn(batch, length, d_model, seed=seed)
    b, t = seed % batch, seed % length
    changed = 1e3 * randn(batch, length, d_model, seed=seed + 1)
    changed[b, t] = x[b, t]
    assert torch.equal(norm(changed)[b, t], norm(x)[b, t])
    assert_close(norm(x)[b, t], norm(x[b, t]))


@properties
@given(d_model=st.integers(2, 16), seed=st.integers(0, 999), factor=st.floats(1e-3, 1e3), shift=st.floats(-9, 9))
def test_what_each_norm_forgets(d_model, seed, factor, shift):
    """Neither sees a common factor. LayerNorm does not see a common shift either; RMSNorm does."""
    x = randn(3, d_model, seed=seed, dtype=torch.float64)
    assert_close(rms_norm(x * factor, 0.0), rms_norm(x, 0.0))
    assert_close(layer_norm(x * factor + shift, 0.0), layer_norm(x, 0.0))
    assert_close(rms_norm(x, 0.0).square().mean(-1), torch.ones(3, dtype=torch.float64))
    assert_close(layer_norm(x, 0.0).mean(-1), torch.zeros(3, dtype=torch.float64))
    assert_close(layer_norm(x, 0.0).var(-1, correction=0), torch.ones(3, dtype=torch.float64))
    if abs(shift) > 0.1:
        assert not torch.allclose(rms_norm(x + shift, 0.0), rms_norm(x, 0.0))


def test_what_is_learned():
    assert {name: p.shape for name, p in LayerNorm(6).named_parameters()} == {"weight": (6,), "bias": (6,)}
    assert [name for name, _ in LayerNorm(6, bias=False).named_parameters()] == ["weight"]
    assert [name for name, _ in RMSNorm(6).named_parameters()] == ["weight"]


def test_make_norm_passes_on_what_it_is_given():
    layer, bare, rms = (
        make_norm("layernorm", 4, eps=0.5), make_norm("layernorm", 4, eps=0.5, bias=False),
        make_norm("rmsnorm", 4, eps=0.5),
    )  # fmt: skip
    assert type(layer) is type(bare) is LayerNorm and type(rms) is RMSNorm
    assert layer.bias is not None and bare.bias is None
    x = randn(3, 4)
    assert torch.equal(layer(x), layer_norm(x, 0.5)) and torch.equal(rms(x), rms_norm(x, 0.5))


SIGNS = torch.tensor([1.0, -1.0, 1.0, -1.0])
# A level whose square the dtype that computes cannot hold, above and below, and one that it can.
LEVELS = {
    torch.float32: (2e19, 1e-23, 1e18), torch.bfloat16: (1e20, 1e-20, 1e18), torch.float64: (2e154, 1e-162, 1e20),
}  # fmt: skip


@pytest.mark.parametrize("dtype", LEVELS, ids=str)
@pytest.mark.parametrize("make", [LayerNorm, RMSNorm])
def test_a_token_is_normed_or_refused_but_never_blanked_out(make, dtype, plain_errors):
    """Squares that overflow would make zeros of the token, squares that vanish a division by 0."""
    high, low, fits = LEVELS[dtype]
    for eps in (0.0, 1e-6):
        norm = make(4, eps=eps).to(dtype)
        assert_close(norm(SIGNS.to(dtype) * fits), SIGNS.to(dtype), atol=ROUNDING[dtype], rtol=0)
        with pytest.raises(ValueError, match=r"(variance|mean square) of x.* larger than torch.float\d+ can hold"):
            norm(SIGNS.to(dtype) * high)
    with pytest.raises(ValueError, match=r"eps is 0.0 and the (variance|mean square) of a token is 0.*larger eps"):
        make(4, eps=0.0).to(dtype)(SIGNS.to(dtype) * low)
    assert make(4)(SIGNS * 1e-30).abs().max() < 1e-20  # with an eps there is something to divide by


@pytest.mark.parametrize("make", [LayerNorm, RMSNorm])
def test_nothing_is_divided_by_nothing(make, plain_errors):
    """One such token among good ones is enough; an eps too small for the dtype is none."""
    x = torch.cat((SIGNS[None], torch.zeros(1, 4)))
    for eps in (0, 1e-60):
        with pytest.raises(ValueError, match=f"eps is {eps} and the .* of a token is 0"):
            make(4, eps=eps)(x)
    assert make(4, eps=1e-30)(x)[1].tolist() == [0.0] * 4 and make(4, eps=1e-60).double()(x.double()).isfinite().all()
    with pytest.raises(ValueError, match="eps = 1e\\+60, grows larger than torch.float32"):
        make(4, eps=1e60)(x)
    assert make(4)(x[:0]).shape == (0, 4)


def test_equal_numbers_have_no_variance(plain_errors):
    with pytest.raises(ValueError, match="eps is 0.0 and the variance of a token is 0"):
        layer_norm(torch.ones(2, 3), eps=0.0)
    assert_close(rms_norm(torch.ones(2, 3), eps=0.0), torch.ones(2, 3))


@pytest.mark.parametrize("make", [LayerNorm, RMSNorm])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_a_number_that_is_none_is_shown_with_its_place(make, bad, plain_errors):
    x = randn(2, 3, 4)
    x[1, 2, 0] = bad
    with pytest.raises(ValueError, match=rf"x holds {bad} at \(1, 2, 0\)"):
        make(4)(x)


@pytest.mark.parametrize("make", [LayerNorm, RMSNorm])
def test_the_meta_device_knows_shapes_only(make):
    with torch.device("meta"):
        assert make(8)(torch.zeros(2, 3, 8)).shape == (2, 3, 8)


X = randn(2, 3, 4)
BAD_CALLS = {
    "no such norm": (lambda: make_norm("batchnorm", 4, eps=1e-5), ValueError,
        ["norm is 'batchnorm'", "'layernorm', 'rmsnorm'"]),
    "no norm": (lambda: make_norm(None, 4, eps=1e-5), ValueError, ["norm is None"]),
    "width 0": (lambda: LayerNorm(0), ValueError, ["d_model is 0", "at least 1"]),
    "width 2.0": (lambda: RMSNorm(2.0), TypeError, ["d_model is 2.0, a float", "whole number"]),
    "bias of 1": (lambda: LayerNorm(4, bias=1), TypeError, ["bias is 1, a int", "True or False"]),
    "offset of 1": (lambda: RMSNorm(4, unit_offset=1), TypeError, ["unit_offset is 1", "True or False"]),
    "eps below 0": (lambda: LayerNorm(4, eps=-1e-5), ValueError, ["eps is -1e-05", "0 or above"]),
    "eps of NaN": (lambda: RMSNorm(4, eps=float("nan")), ValueError, ["eps is nan", "finite number"]),
    "eps of ∞": (lambda: rms_norm(X, float("inf")), ValueError, ["eps is inf", "finite number"]),
    "eps beyond floats": (lambda: RMSNorm(4, eps=10**400), ValueError, ["eps is larger than a float", "0 or above"]),
    "eps as a word": (lambda: LayerNorm(4, eps="1e-5"), TypeError, ["eps is '1e-5', a str", "0 or above"]),
    "eps as a switch": (lambda: layer_norm(X, True), TypeError, ["eps is True, a bool"]),
    "another width": (lambda: LayerNorm(8)(X), ValueError, ["x has shape (2, 3, 4)", "d_model = 8"]),
    "width 1 would broadcast": (lambda: RMSNorm(8)(X[..., :1]), ValueError, ["(2, 3, 1)", "d_model = 8"]),
    "weights of width 1": (lambda: LayerNorm(1)(X), ValueError, ["(2, 3, 4)", "d_model = 1"]),
    "no axis": (lambda: rms_norm(torch.tensor(1.0)), ValueError, ["x has shape ()", "last axis"]),
    "no components": (lambda: layer_norm(X[..., :0]), ValueError, ["x has shape (2, 3, 0)", "last axis"]),
    "whole numbers": (lambda: LayerNorm(4)(torch.ones(4).long()), TypeError, ["x has dtype torch.int64", ".float()"]),
    "a list": (lambda: RMSNorm(2)([1.0, 2.0]), TypeError, ["x is a list", "torch tensor"]),
    "another device": (lambda: LayerNorm(4)(X.to("meta")), ValueError, ["x is on device meta", ".to(device)"]),
}  # fmt: skip


@pytest.mark.parametrize(("call", "error", "said"), BAD_CALLS.values(), ids=BAD_CALLS)
def test_the_message_names_the_argument_the_value_and_the_fix(call, error, said, plain_errors):
    assert_refused(call, error, said)
