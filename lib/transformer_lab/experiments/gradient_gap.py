"""How much of a small change at one position is still felt a number of positions later: ‖∂h_T/∂h_1‖ against T − 1."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from transformer_lab.model.attention import MultiHeadAttention
from transformer_lab.model.recurrence import GRUCell, LSTMCell, RecurrentCell, RNNCell, unroll
from transformer_lab.training import seeded

WIDTH = 32
LONGEST = 100
ACTIVATIONS = ("linear", "tanh")
DRAWS = (0, 1, 2)  # seeds of the random weights and inputs that a curve is averaged over
TOLERATED = 1.001  # a curve of length 1 but for rounding is not too long

Curve = tuple[float, ...]


def rnn_cell(radius: float, activation: str = "tanh", *, width: int = WIDTH, seed: int = 0) -> RNNCell:
    """An untrained RNN whose recurrent matrix is ``radius`` times a rotation.

    A rotation keeps every length, so all its eigenvalues and all its singular values are 1, and those of the matrix
    are ``radius``: the spectral radius tells the whole story of the linear network.

    Raises:
        ValueError: an unknown activation, or a radius that is not positive.
    """
    if activation not in ACTIVATIONS:
        raise ValueError(f"activation is {activation!r}; choose one of {', '.join(ACTIVATIONS)}.")
    if not 0 < radius < torch.inf:
        raise ValueError(f"radius is {radius}; it must be a number above 0.")
    with seeded(seed):
        cell = RNNCell(width, width, activation=torch.tanh if activation == "tanh" else nn.Identity())
        nn.init.orthogonal_(cell.from_hidden.weight, gain=radius)
        cell.from_input.weight.data *= 0.2  # quiet inputs, so that tanh is not saturated from the start
    return cell


def lstm_cell(forget_bias: float, *, width: int = WIDTH, seed: int = 0) -> LSTMCell:
    """An untrained LSTM; the forget gate's bias is set, the other biases are zero."""
    with seeded(seed):
        cell = LSTMCell(width, width)
    with torch.no_grad():
        cell.from_input.bias.zero_()
        cell.from_input.bias.chunk(4)[1].fill_(forget_bias)
    return cell


def gru_cell(*, width: int = WIDTH, seed: int = 0) -> GRUCell:
    """An untrained GRU; its biases are zero."""
    with seeded(seed):
        cell = GRUCell(width, width)
    nn.init.zeros_(cell.from_input.bias)
    return cell


def attention_layer(*, width: int = WIDTH, seed: int = 0) -> MultiHeadAttention:
    """An untrained attention layer with one head."""
    with seeded(seed):
        return MultiHeadAttention(width, n_heads=1)


def random_inputs(n: int, *, width: int = WIDTH, seed: int = 0) -> Tensor:
    """One sequence of random vectors, ``(1, n, width)``, the same for every model."""
    return torch.randn(1, n, width, generator=torch.Generator().manual_seed(seed))


def step_jacobians(cell: RecurrentCell, x: Tensor) -> Tensor:
    """∂(state at t) / ∂(state at t − 1) for t = 2 … n: one square matrix a step, rows after, columns before.

    The state is all that a step hands on: h, and for an LSTM h and c. Each matrix comes from the real cell: it runs
    one copy of the step for every unit of the result, and each copy is asked for the gradient of its unit.
    """
    with torch.no_grad():
        steps = unroll(cell, x)
    states = torch.cat([getattr(steps, name)[0] for name in cell.carries], dim=-1)
    size = states.shape[1]
    before = states[:-1].repeat_interleave(size, dim=0).requires_grad_()
    start = cell.start(len(before))._replace(**dict(zip(cell.carries, before.split(cell.d_hidden, dim=1), strict=True)))
    new = cell(x[0, 1:].repeat_interleave(size, dim=0), start)
    after = torch.cat([getattr(new, name) for name in cell.carries], dim=-1)
    (gradients,) = torch.autograd.grad(after, before, grad_outputs=torch.eye(size).repeat(len(states) - 1, 1))
    return gradients.view(-1, size, size)


def state_gradients(cell: RecurrentCell, x: Tensor) -> Tensor:
    """‖∂h_T/∂h_1‖ for T = 2 … n, by the chain rule: a product of one matrix for every step between.

    The norm is the largest singular value: the most that any small change of h_1 can count.
    """
    jacobians = step_jacobians(cell, x)
    product = torch.eye(jacobians.shape[-1])[:, : cell.d_hidden]  # only changes of h_1
    norms = []
    for jacobian in jacobians:
        product = jacobian @ product
        norms.append(torch.linalg.matrix_norm(product[: cell.d_hidden], ord=2))  # only what reaches h_T
    return torch.stack(norms)


def attention_gradients(layer: MultiHeadAttention, x: Tensor) -> Tensor:
    """‖∂y_T/∂x_1‖ for T = 2 … n, where y_T is what position T takes from the positions 1 … T."""
    width = x.shape[-1]
    norms = []
    for n in range(2, x.shape[1] + 1):
        copies = x[:, :n].repeat(width, 1, 1).requires_grad_()  # a copy for each unit of y_T
        output = layer(copies[:, -1:], context=copies)[:, 0]
        (gradients,) = torch.autograd.grad(output, copies, grad_outputs=torch.eye(width))
        norms.append(torch.linalg.matrix_norm(gradients[:, 0], ord=2))
    return torch.stack(norms)


@dataclass(frozen=True)
class GradientGap:
    """‖∂h_T/∂h_1‖ for the gaps 1, 2, 3 …, a curve for each model.

    ``gap`` is the gap that is looked at (0 for none). ``unclipped`` holds the curves that clipping has shortened, as
    they were before.
    """

    curves: dict[str, Curve]
    gap: int = 0
    unclipped: dict[str, Curve] = field(default_factory=dict)

    def at_gap(self, name: str) -> float:
        """The norm of one model at the gap that is looked at."""
        return self.curves[name][self.gap - 1]


def compare_gaps(longest: int = LONGEST, draws: tuple[int, ...] = DRAWS) -> GradientGap:
    """Ten models on one axis: RNNs below, at and above spectral radius 1, two LSTMs, a GRU and one attention layer."""
    curves = {
        f"RNN {activation} {radius}": _rnn_curve(radius, activation, longest, draws)
        for activation in ACTIVATIONS
        for radius in (0.9, 1.0, 1.1)
    }
    curves |= {f"LSTM, bias {bias}": _lstm_curve(bias, longest, draws) for bias in (0, 5)}
    curves |= {"GRU": _gru_curve(longest, draws), "attention": _attention_curve(longest, draws)}
    return GradientGap(curves)


def explore_gap(
    radius: float = 0.9, activation: str = "linear", forget_bias: float = 0.0, gap: int = 20, clip: bool = False
) -> GradientGap:
    """One RNN, one LSTM, a GRU and an attention layer.

    ``clip`` shortens each curve that passes 1, as clipping shortens a gradient: the whole of it by one factor, so that
    its longest part has length 1.

    Raises:
        ValueError: a gap outside 1 … ``LONGEST``, or what `rnn_cell` refuses.
    """
    if not 1 <= gap <= LONGEST:
        raise ValueError(f"gap is {gap}; it must lie between 1 and {LONGEST}.")
    curves = {
        "RNN": _rnn_curve(radius, activation, LONGEST, DRAWS),
        "LSTM": _lstm_curve(forget_bias, LONGEST, DRAWS),
        "GRU": _gru_curve(LONGEST, DRAWS),
        "attention": _attention_curve(LONGEST, DRAWS),
    }
    too_long = {name: curve for name, curve in curves.items() if clip and max(curve) > TOLERATED}
    clipped = {name: tuple(norm / max(curve) for norm in curve) for name, curve in too_long.items()}
    return GradientGap(curves | clipped, gap, too_long)


def _typical(norms: Callable[[int], Tensor], draws: tuple[int, ...]) -> Curve:
    """The geometric mean over draws of the random weights and inputs: what a single draw shows may be luck."""
    logarithms = torch.stack([norms(seed).log() for seed in draws])
    return tuple(logarithms.mean(dim=0).exp().tolist())


@functools.lru_cache(maxsize=64)
def _rnn_curve(radius: float, activation: str, longest: int, draws: tuple[int, ...]) -> Curve:
    def norms(seed: int) -> Tensor:
        return state_gradients(rnn_cell(radius, activation, seed=seed), random_inputs(longest + 1, seed=seed))

    return _typical(norms, draws)


@functools.lru_cache(maxsize=64)
def _lstm_curve(forget_bias: float, longest: int, draws: tuple[int, ...]) -> Curve:
    def norms(seed: int) -> Tensor:
        return state_gradients(lstm_cell(forget_bias, seed=seed), random_inputs(longest + 1, seed=seed))

    return _typical(norms, draws)


@functools.lru_cache(maxsize=2)
def _gru_curve(longest: int, draws: tuple[int, ...]) -> Curve:
    def norms(seed: int) -> Tensor:
        return state_gradients(gru_cell(seed=seed), random_inputs(longest + 1, seed=seed))

    return _typical(norms, draws)


@functools.lru_cache(maxsize=2)
def _attention_curve(longest: int, draws: tuple[int, ...]) -> Curve:
    def norms(seed: int) -> Tensor:
        return attention_gradients(attention_layer(seed=seed), random_inputs(longest + 1, seed=seed))

    return _typical(norms, draws)
