"""The feed-forward layer: every activation written out, the gate, one token at a time, what it costs."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from oracles import randn
from refusals import assert_refused
from transformer_lab.model.feedforward import ACTIVATIONS, GATED, FeedForward

properties = settings(max_examples=40, deadline=None, derandomize=True)


def gelu(x):
    """x · Φ(x), Φ the share of a normal distribution below x."""
    return x * (1 + torch.erf(x / math.sqrt(2))) / 2


WRITTEN_OUT = {
    "relu": lambda x: torch.where(x > 0, x, 0 * x),
    "gelu": gelu,
    "gelu_tanh": lambda x: x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2,
    "swiglu": lambda x: x / (1 + torch.exp(-x)),
    "geglu": gelu,
}
every_activation = pytest.mark.parametrize("activation", WRITTEN_OUT)


def layer(activation: str, d_model: int = 6, d_ff: int = 10, **options) -> FeedForward:
    torch.manual_seed(0)
    return FeedForward(d_model, d_ff, activation=activation, **options)


def scalar(activation: str, **weights: float) -> FeedForward:
    """A layer of single numbers: each named matrix is one weight, `down` is 1, there is no bias."""
    module = FeedForward(1, 1, activation=activation, bias=False).double()
    with torch.no_grad():
        for name, weight in ({"down": 1.0} | weights).items():
            getattr(module, name).weight.fill_(weight)
    return module


def test_every_activation_is_written_out_here():
    assert WRITTEN_OUT.keys() == ACTIVATIONS.keys() | GATED.keys()


@every_activation
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5), (torch.bfloat16, 2e-2)], ids=str
)
def test_equals_the_formula(activation, bias, dtype, tolerance):
    module, x = layer(activation, bias=bias).to(dtype), 2 * randn(2, 3, 6, dtype=dtype)
    weights = {name: weight.double() for name, weight in module.named_parameters()}

    def linear(name, x):
        return x @ weights[f"{name}.weight"].T + weights.get(f"{name}.bias", 0.0)

    wide, act = x.double(), WRITTEN_OUT[activation]
    inner = act(linear("gate", wide)) * linear("up", wide) if activation in GATED else act(linear("up", wide))
    output = module(x)
    assert output.dtype == dtype
    assert_close(output.double(), linear("down", inner), atol=tolerance, rtol=tolerance)


@every_activation
def test_gradients_reach_every_weight_and_are_the_slope(activation):
    module = layer(activation).double()
    x = randn(3, 6, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(module, (x,))
    module(x).square().sum().backward()
    assert all(weight.grad.abs().sum() > 0 for weight in module.parameters())


@pytest.mark.case("F01")
def test_the_two_gelus_have_two_names():
    grid = torch.arange(-6, 6.005, 0.01, dtype=torch.float64)[:, None]
    exact, approximate = scalar("gelu", up=1.0), scalar("gelu_tanh", up=1.0)
    assert 4e-4 < (exact(grid) - approximate(grid)).abs().max() < 5e-4
    zero, one = torch.zeros(1, dtype=torch.float64), torch.ones(1, dtype=torch.float64)
    assert exact(zero).item() == approximate(zero).item() == 0.0
    assert exact(one).item() == pytest.approx(0.841345, abs=1e-6)
    assert approximate(one).item() == pytest.approx(0.841192, abs=1e-6)


@pytest.mark.case("F02")
def test_only_the_gate_goes_through_the_activation():
    one = torch.ones(1, dtype=torch.float64)
    assert scalar("swiglu", gate=2.0, up=-3.0)(one).item() == pytest.approx(-6 / (1 + math.exp(-2)))  # −5.2848
    assert scalar("swiglu", gate=-3.0, up=2.0)(one).item() == pytest.approx(-6 / (1 + math.exp(3)))  # −0.2846
    assert scalar("geglu", gate=2.0, up=-3.0)(one).item() == pytest.approx(-3 * gelu(2 * one).item())
    assert -6 / (1 + math.exp(6)) == pytest.approx(-0.0148, abs=1e-4)  # silu(2 · −3), the reported mistake


@every_activation
@properties
@given(batch=st.integers(1, 3), length=st.integers(1, 4), seed=st.integers(0, 999))
def test_every_token_goes_through_alone(activation, batch, length, seed):
    module, x = layer(activation), randn(batch, length, 6, seed=seed)
    b, t = seed % batch, seed % length
    changed = 1e3 * randn(batch, length, 6, seed=seed + 1)
    changed[b, t] = x[b, t]
    assert_close(module(changed)[b, t], module(x)[b, t])
    assert_close(module(x[b, t]), module(x)[b, t])
    order = torch.randperm(length, generator=torch.Generator().manual_seed(seed))
    assert_close(module(x[:, order]), module(x)[:, order])


@every_activation
def test_a_gate_is_a_third_matrix(activation):
    matrices = 3 if activation in GATED else 2
    d_model, d_ff = 6, 10
    inner_biases = (matrices - 1) * d_ff
    assert count(activation, bias=False) == matrices * d_model * d_ff
    assert count(activation) == matrices * d_model * d_ff + inner_biases + d_model
    assert (layer(activation).gate is not None) == (activation in GATED)


def count(activation: str, **options) -> int:
    return sum(weight.numel() for weight in layer(activation, **options).parameters())


@every_activation
def test_the_meta_device_knows_shapes_only(activation):
    with torch.device("meta"):
        assert FeedForward(6, 10, activation=activation)(torch.zeros(2, 3, 6)).shape == (2, 3, 6)


X = randn(2, 3, 6)
BAD_CALLS = {
    "no such activation": (lambda: FeedForward(6, 10, activation="swish"), ValueError,
        ["activation is 'swish'", "'relu'", "'gelu_tanh'", "'geglu'"]),
    "no activation": (lambda: FeedForward(6, 10, activation=None), ValueError, ["activation is None", "'gelu'"]),
    "width 0": (lambda: FeedForward(0, 10), ValueError, ["d_model is 0", "at least 1"]),
    "inner width 0": (lambda: FeedForward(6, 0), ValueError, ["d_ff is 0", "at least 1"]),
    "inner width 8/3": (lambda: FeedForward(6, 6 * 8 / 3), TypeError, ["d_ff is 16.0, a float", "whole number"]),
    "bias of None": (lambda: FeedForward(6, 10, bias=None), TypeError, ["bias is None", "True or False"]),
    "another width": (lambda: FeedForward(4, 10)(X), ValueError, ["x has shape (2, 3, 6)", "d_model = 4"]),
    "no axis": (lambda: FeedForward(1, 2)(torch.tensor(1.0)), ValueError, ["x has shape ()", "d_model = 1"]),
    "another dtype": (lambda: FeedForward(6, 10)(X.double()), TypeError,
        ["x has dtype torch.float64", "torch.float32 for the weights", ".to(dtype)"]),
    "tokens": (lambda: FeedForward(6, 10)(X.long()), TypeError, ["x has dtype torch.int64", ".float()"]),
    "NaN": (lambda: FeedForward(6, 10, activation="relu")(X * torch.nan), ValueError, ["x holds nan at (0, 0, 0)"]),
    "∞": (lambda: FeedForward(6, 10, activation="swiglu")(X / 0), ValueError, ["at (0, 0, 0)", "spoilt"]),
    "a list": (lambda: FeedForward(2, 4)([1.0, 2.0]), TypeError, ["x is a list", "torch tensor"]),
    "another device": (lambda: FeedForward(6, 10)(X.to("meta")), ValueError, ["x is on device meta", ".to(device)"]),
}  # fmt: skip


@pytest.mark.parametrize(("call", "error", "said"), BAD_CALLS.values(), ids=BAD_CALLS)
def test_the_message_names_the_argument_the_value_and_the_fix(call, error, said, plain_errors):
    assert_refused(call, error, said)
