"""Recurrent cells, and the one loop that carries a state through a sequence.

A cell makes one step: it reads the input of this position and what the last step left, and leaves something for the
next. `unroll` repeats it from position to position. A step keeps the gates that made it, so after `unroll` every gate
of every position can be read: ``unroll(lstm, x).forget_gate``.

Names in the formulas: x is the input, h the hidden state, c the LSTM's cell state, a prime marks what is new; each gate
has its own W (for x), U (for h) and bias b. σ is the logistic function, ⊙ multiplies element by element.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from transformer_lab.model.checks import check_whole_numbers


class RNNStep(NamedTuple):
    """What a step of an `RNNCell` leaves: its hidden state."""

    hidden: Tensor


class LSTMStep(NamedTuple):
    """What a step of an `LSTMCell` leaves: hidden and cell state for the next step, and how they were made."""

    hidden: Tensor
    cell: Tensor
    input_gate: Tensor
    forget_gate: Tensor
    output_gate: Tensor
    candidate: Tensor


class GRUStep(NamedTuple):
    """What a step of a `GRUCell` leaves: the hidden state for the next step, and how it was made."""

    hidden: Tensor
    reset_gate: Tensor
    update_gate: Tensor
    candidate: Tensor


Step = RNNStep | LSTMStep | GRUStep


class RecurrentCell(nn.Module):
    """What the three cells share: their weights, their first state and the check of what they are given.

    The weights of all blocks of a cell (gates and candidate) lie in one matrix, in torch's order.

    Args:
        d_input: width of the input at one position.
        d_hidden: width of the hidden state.
        bias_vectors: 1 as in textbooks, 2 as in torch (one beside W and one beside U), 0 for none.

    Raises:
        ValueError: a width below 1, or ``bias_vectors`` other than 0, 1 or 2.
    """

    step: type[Step]
    n_blocks: int
    carries: tuple[str, ...] = ("hidden",)  # the fields of a step that the next step reads

    def __init__(self, d_input: int, d_hidden: int, *, bias_vectors: int = 1) -> None:
        super().__init__()
        check_whole_numbers(d_input=d_input, d_hidden=d_hidden)
        if bias_vectors not in (0, 1, 2):
            raise ValueError(f"bias_vectors is {bias_vectors}; it must be 0, 1 or 2.")
        self.d_input, self.d_hidden = d_input, d_hidden
        self.from_input = nn.Linear(d_input, self.n_blocks * d_hidden, bias=bias_vectors > 0)  # W and b
        self.from_hidden = nn.Linear(d_hidden, self.n_blocks * d_hidden, bias=bias_vectors > 1)  # U

    def start(self, batch: int) -> Step:
        """The step before the first one: all zeros."""
        zeros = self.from_hidden.weight.new_zeros(batch, self.d_hidden)
        return self.step(*[zeros] * len(self.step._fields))

    def _check(self, x: Tensor, last: Step) -> None:
        if x.ndim != 2 or x.shape[1] != self.d_input:
            raise ValueError(f"x has shape {tuple(x.shape)}; one step reads (batch, d_input = {self.d_input}).")
        if not isinstance(last, self.step):
            raise TypeError(
                f"last is a {type(last).__name__}; a {type(self).__name__} reads a {self.step.__name__}. "
                f"Begin with its start({len(x)})."
            )
        if last.hidden.shape != (len(x), self.d_hidden):
            raise ValueError(
                f"last.hidden has shape {tuple(last.hidden.shape)}; it must be (batch = {len(x)}, "
                f"d_hidden = {self.d_hidden}), batch first."
            )


class RNNCell(RecurrentCell):
    """h' = tanh(x W + h U + b): the plain recurrent network (Elman 1990).

    ``activation`` replaces tanh, e.g. ``torch.relu``; ``nn.Identity()`` makes the network linear.
    """

    step, n_blocks = RNNStep, 1

    def __init__(
        self, d_input: int, d_hidden: int, *, activation: Callable[[Tensor], Tensor] = torch.tanh, bias_vectors: int = 1
    ) -> None:
        super().__init__(d_input, d_hidden, bias_vectors=bias_vectors)
        self.activation = activation

    def forward(self, x: Float[Tensor, "batch d_input"], last: RNNStep) -> RNNStep:
        self._check(x, last)
        return RNNStep(self.activation(self.from_input(x) + self.from_hidden(last.hidden)))


class LSTMCell(RecurrentCell):
    """Long short-term memory (Hochreiter & Schmidhuber 1997; forget gate: Gers et al. 2000)."""

    step, n_blocks, carries = LSTMStep, 4, ("hidden", "cell")

    def forward(self, x: Float[Tensor, "batch d_input"], last: LSTMStep) -> LSTMStep:
        self._check(x, last)
        i, f, g, o = (self.from_input(x) + self.from_hidden(last.hidden)).chunk(4, dim=-1)
        input_gate = torch.sigmoid(i)  # i = σ(x W_i + h U_i + b_i)
        forget_gate = torch.sigmoid(f)  # f = σ(x W_f + h U_f + b_f)
        candidate = torch.tanh(g)  # g = tanh(x W_g + h U_g + b_g)
        output_gate = torch.sigmoid(o)  # o = σ(x W_o + h U_o + b_o)
        cell = forget_gate * last.cell + input_gate * candidate  # c' = f ⊙ c + i ⊙ g
        hidden = output_gate * torch.tanh(cell)  # h' = o ⊙ tanh(c')
        return LSTMStep(hidden, cell, input_gate, forget_gate, output_gate, candidate)


class GRUCell(RecurrentCell):
    """Gated recurrent unit (Cho et al. 2014).

    ``reset_after=True`` applies the reset gate after the product with U, as torch does; ``False`` before it, as the
    paper does. The two are different functions of the same weights.
    """

    step, n_blocks = GRUStep, 3

    def __init__(self, d_input: int, d_hidden: int, *, reset_after: bool = True, bias_vectors: int = 1) -> None:
        super().__init__(d_input, d_hidden, bias_vectors=bias_vectors)
        self.reset_after = reset_after

    def forward(self, x: Float[Tensor, "batch d_input"], last: GRUStep) -> GRUStep:
        self._check(x, last)
        r_x, z_x, n_x = self.from_input(x).chunk(3, dim=-1)
        r_h, z_h, n_h = self.from_hidden(last.hidden).chunk(3, dim=-1)
        reset_gate = torch.sigmoid(r_x + r_h)  # r = σ(x W_r + h U_r + b_r)
        update_gate = torch.sigmoid(z_x + z_h)  # z = σ(x W_z + h U_z + b_z)
        if self.reset_after:
            candidate = torch.tanh(n_x + reset_gate * n_h)  # n = tanh(x W_n + b_n + r ⊙ (h U_n))
        else:
            n_h = self.from_hidden(reset_gate * last.hidden).chunk(3, -1)[2]
            candidate = torch.tanh(n_x + n_h)  # n = tanh(x W_n + b_n + (r ⊙ h) U_n)
        hidden = (1 - update_gate) * candidate + update_gate * last.hidden  # h' = (1 − z) ⊙ n + z ⊙ h
        return GRUStep(hidden, reset_gate, update_gate, candidate)


def unroll(
    cell: RecurrentCell,
    x: Float[Tensor, "batch position d_input"],
    start: Step | None = None,
    *,
    lengths: Int[Tensor, " batch"] | Sequence[int] | None = None,
    backwards: bool = False,
) -> Step:
    """Run ``cell`` along the sequence; each step reads what the last one left.

    Args:
        start: what the first step reads; zeros unless given. The result of an earlier call continues from its end
            with ``at(steps, -1)``.
        lengths: how many real tokens each sequence has, padding on the right. A padded position changes nothing:
            it repeats the step before it. A sequence of length 0 stays at ``start``.
        backwards: from the last position to the first, as one half of a bidirectional network does.

    Returns:
        One step whose fields are ``(batch, position, d_hidden)``, in the order of the positions. The final state is
        at position −1, or at position 0 when running backwards.

    Raises:
        ValueError: an empty sequence, a width other than the cell's, a ``start`` of another shape, a length outside
            ``0 … positions``.
    """
    if x.ndim != 3 or x.shape[1] == 0 or x.shape[2] != cell.d_input:
        raise ValueError(
            f"x has shape {tuple(x.shape)}; it must be (batch, position, d_input = {cell.d_input}), batch first, "
            "with at least one position."
        )
    n = x.shape[1]
    real = None if lengths is None else _real_positions(lengths, *x.shape[:2])
    step = cell.start(len(x)) if start is None else start
    steps: list[Step] = []
    for t in reversed(range(n)) if backwards else range(n):
        new = cell(x[:, t], step)
        if real is not None:
            new = cell.step(*(torch.where(real[:, t, None], a, b) for a, b in zip(new, step, strict=True)))
        step = new
        steps.append(step)
    if backwards:
        steps.reverse()
    return cell.step(*(torch.stack(field, dim=1) for field in zip(*steps, strict=True)))


def at(steps: Step, position: int) -> Step:
    """The one step at ``position`` of what `unroll` returned: ready to be the ``start`` of another call."""
    return type(steps)(*(field[:, position] for field in steps))


def from_torch(module: nn.RNN | nn.LSTM | nn.GRU, layer: int = 0, *, backwards: bool = False) -> RecurrentCell:
    """A cell with a copy of the weights of one layer and direction of a torch module, both bias vectors included.

    Raises:
        TypeError: a module of another kind.
        ValueError: a layer or direction it does not have, or an LSTM with projections.
    """
    if not isinstance(module, nn.RNN | nn.LSTM | nn.GRU):
        raise TypeError(f"module is a {type(module).__name__}; it must be a torch.nn.RNN, LSTM or GRU.")
    if not 0 <= layer < module.num_layers or backwards and not module.bidirectional or module.proj_size:
        raise ValueError(
            f"layer {layer}, backwards={backwards} is not there, or has projections: the module has "
            f"{module.num_layers} layers, bidirectional={module.bidirectional}, proj_size={module.proj_size}."
        )
    end = f"_l{layer}" + ("_reverse" if backwards else "")
    weights = {
        name: getattr(module, f"{kind}_{source}{end}")
        for kind in (("weight", "bias") if module.bias else ("weight",))
        for source, name in (("ih", f"from_input.{kind}"), ("hh", f"from_hidden.{kind}"))
    }
    d_hidden, d_input = module.hidden_size, weights["from_input.weight"].shape[1]
    bias_vectors = 2 if module.bias else 0
    if isinstance(module, nn.RNN):
        activation = {"tanh": torch.tanh, "relu": torch.relu}[module.nonlinearity]
        cell: RecurrentCell = RNNCell(d_input, d_hidden, activation=activation, bias_vectors=bias_vectors)
    elif isinstance(module, nn.LSTM):
        cell = LSTMCell(d_input, d_hidden, bias_vectors=bias_vectors)
    else:
        cell = GRUCell(d_input, d_hidden, bias_vectors=bias_vectors)
    cell.to(weights["from_input.weight"]).load_state_dict(weights)
    return cell


def _real_positions(lengths: Tensor | Sequence[int], batch: int, n: int) -> Tensor:
    lengths = torch.as_tensor(lengths)
    if lengths.shape != (batch,):
        raise ValueError(f"lengths has shape {tuple(lengths.shape)}; it needs one number per sequence, ({batch},).")
    wrong = ((lengths < 0) | (lengths > n)).nonzero()
    if len(wrong):
        index = int(wrong[0])
        raise ValueError(f"lengths[{index}] is {int(lengths[index])}; a length lies between 0 and {n} positions.")
    return torch.arange(n, device=lengths.device) < lengths[:, None]
