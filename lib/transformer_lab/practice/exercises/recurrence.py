"""Lesson 01: one RNN step, one LSTM step, and the number of steps between two tokens."""

import torch
from torch import Tensor

from transformer_lab.practice.checking import Case, FunctionExercise, Mistake, Output, seeded


def rnn_step_with_faults(
    x: Tensor,
    hidden: Tensor,
    W: Tensor,
    U: Tensor,
    bias: Tensor,
    *,
    squash: str = "tanh",
    reads: str = "both",
    swapped: bool = False,
    transposed_W: bool = False,
    transposed_U: bool = False,
    bias_stands: str = "inside",
) -> Tensor:
    """tanh(x W + h U + b), (batch, d_hidden)."""
    if swapped:
        W, U = U, W
    W, U = W.T if transposed_W else W, U.T if transposed_U else U
    total = {
        "both": lambda: x @ W + hidden @ U,
        "input": lambda: x @ W,
        "hidden": lambda: hidden @ U,
        "product": lambda: (x @ W) * (hidden @ U),
    }[reads]()
    total = total + bias if bias_stands == "inside" else total
    new = {"tanh": torch.tanh, "sigmoid": torch.sigmoid, "none": lambda value: value}[squash](total)
    return new + bias if bias_stands == "outside" else new


def _rnn_case(batch: int, d_input: int, d_hidden: int, seed: int) -> dict[str, object]:
    return {
        "x": seeded(batch, d_input, seed=seed),
        "hidden": seeded(batch, d_hidden, seed=seed + 1),
        "W": seeded(d_input, d_hidden, seed=seed + 2),
        "U": seeded(d_hidden, d_hidden, seed=seed + 3),
        "bias": seeded(d_hidden, seed=seed + 4),
    }


RNN_STEP = FunctionExercise(
    name="rnn_step",
    title="One step of a recurrent network.",
    reference=rnn_step_with_faults,
    cases=lambda: (
        Case("equal widths", _rnn_case(3, 4, 4, seed=10)),
        Case("a batch of one", _rnn_case(1, 4, 4, seed=20)),
        Case("batch = width", _rnn_case(5, 5, 5, seed=30)),
        Case("a wider state", _rnn_case(3, 2, 4, seed=40)),
    ),
    outputs=(Output("hidden state", ("batch", "unit")),),
    mistakes=(
        Mistake(
            {"squash": "none"},
            "There is no tanh",
            "The sum is right. Without tanh around it the network is linear, and its state can grow without limit.",
        ),
        Mistake(
            {"squash": "sigmoid"},
            "You use σ where tanh belongs",
            "A gate lies between 0 and 1 and takes σ. A state may be negative: tanh, from −1 to 1.",
        ),
        Mistake(
            {"reads": "input"},
            "The old state is not read",
            "Your step sees `x` alone, so nothing is remembered. Add `hidden @ U` before the tanh.",
        ),
        Mistake(
            {"reads": "hidden"},
            "The input is not read",
            "Your step sees the old state alone, so nothing new gets in. Add `x @ W` before the tanh.",
        ),
        Mistake(
            {"reads": "product"},
            "Input and state are multiplied",
            "The two products are *added*: what comes in, and what was there before.",
        ),
        Mistake({"swapped": True}, "W and U are swapped", "`W` is for the input `x`, `U` for the old state `hidden`."),
        Mistake({"bias_stands": "nowhere"}, "The bias is missing", "Add `bias` to the sum, before the tanh."),
        Mistake(
            {"bias_stands": "outside"},
            "The bias stands outside tanh",
            "Added afterwards, it pushes the state past 1. Add `bias` to the two products; tanh goes around all three.",
        ),
        Mistake(
            {"transposed_W": True},
            "W is transposed",
            "Here `W` is (d_input, d_hidden), ready for `x @ W`. Only torch's own layers store it the other way round.",
        ),
        Mistake(
            {"transposed_U": True},
            "U is transposed",
            "The rows of `U` belong to the old state, its columns to the new one: `hidden @ U`, without `.T`. It is "
            "square, so no shape gives the mistake away.",
        ),
    ),
    differentiable=("x", "hidden", "W", "U", "bias"),
)


def lstm_step_with_faults(
    x: Tensor,
    hidden: Tensor,
    cell: Tensor,
    W: Tensor,
    U: Tensor,
    bias: Tensor,
    *,
    order: str = "ifgo",
    exposed: str = "tanh",
    reads: str = "both",
    bias_stands: str = "inside",
    memory: str = "added",
    candidate: str = "tanh",
    ungated: bool = False,
    returned: str = "hidden first",
) -> tuple[Tensor, Tensor]:
    """The new hidden and cell state; the columns of W, U and bias hold the blocks i, f, g, o."""
    total = {"both": x @ W + hidden @ U, "hidden": hidden @ U, "input": x @ W}[reads]
    total = total if bias_stands == "nowhere" else total + bias
    blocks = dict(zip(order, total.chunk(4, dim=-1), strict=True))
    i, f, o = (torch.sigmoid(blocks[name]) for name in "ifo")
    g = {"tanh": torch.tanh, "sigmoid": torch.sigmoid, "none": lambda value: value}[candidate](blocks["g"])
    new_cell = {"added": lambda: f * cell + i * g, "overwritten": lambda: i * g, "kept whole": lambda: cell + i * g}[
        memory
    ]()
    shown = torch.tanh(new_cell) if exposed == "tanh" else new_cell
    new_hidden = shown if ungated else o * shown
    return (new_hidden, new_cell) if returned == "hidden first" else (new_cell, new_hidden)


def _lstm_case(batch: int, d_input: int, d_hidden: int, seed: int) -> dict[str, object]:
    return {
        "x": seeded(batch, d_input, seed=seed),
        "hidden": seeded(batch, d_hidden, seed=seed + 1),
        "cell": seeded(batch, d_hidden, seed=seed + 2),
        "W": seeded(d_input, 4 * d_hidden, seed=seed + 3),
        "U": seeded(d_hidden, 4 * d_hidden, seed=seed + 4),
        "bias": seeded(4 * d_hidden, seed=seed + 5),
    }


LSTM_STEP = FunctionExercise(
    name="lstm_step",
    title="One step of an LSTM.",
    reference=lstm_step_with_faults,
    cases=lambda: (
        Case("three sequences", _lstm_case(3, 2, 4, seed=50)),
        Case("one unit", _lstm_case(1, 1, 1, seed=60)),
        Case("batch = width", _lstm_case(4, 4, 4, seed=70)),
    ),
    outputs=(Output("hidden state", ("batch", "unit")), Output("cell state", ("batch", "unit"))),
    mistakes=(
        Mistake(
            {"order": "figo"},
            "Forget gate and input gate are swapped",
            "The forget gate `f` multiplies the *old cell*, the input gate `i` the *candidate*. The blocks come in the "
            "order i, f, g, o.",
        ),
        Mistake(
            {"exposed": "raw"},
            "There is no tanh on the exposed cell",
            "The cell is right. What is shown is `o * torch.tanh(cell)`: the cell may pass 1, a hidden state may not.",
        ),
        Mistake(
            {"reads": "hidden"},
            "The gates look at the old state alone",
            "Each gate reads what comes in *and* what was there: `x @ W + hidden @ U + bias`. The `x` is missing.",
        ),
        Mistake(
            {"reads": "input"},
            "The gates look at the input alone",
            "Each gate reads what comes in *and* what was there: `x @ W + hidden @ U + bias`. The `hidden` is missing.",
        ),
        Mistake(
            {"memory": "overwritten"},
            "The cell is overwritten instead of added to",
            "Your new cell is `i * g`: all that was stored is gone after one step. Add the kept part, `f * cell`.",
        ),
        Mistake(
            {"memory": "kept whole"},
            "The forget gate does nothing",
            "You add to the whole old cell. Keep a share of it: `f * cell`.",
        ),
        Mistake(
            {"candidate": "sigmoid"},
            "The candidate goes through σ",
            "`g` is not a gate but the value to be written, and it may be negative: tanh.",
        ),
        Mistake(
            {"candidate": "none"},
            "There is no tanh on the candidate",
            "What is written lies between −1 and 1: put `torch.tanh` around the block `g`.",
        ),
        Mistake(
            {"order": "ifog"},
            "Candidate and output gate are mixed up",
            "The blocks come in the order i, f, g, o: the third is the candidate, the fourth the output gate.",
        ),
        Mistake(
            {"bias_stands": "nowhere"},
            "The bias is missing",
            "Add `bias` to `x @ W + hidden @ U` before you cut it into blocks.",
        ),
        Mistake(
            {"returned": "cell first"},
            "Hidden state and cell state are returned the other way round",
            "The check wants the new hidden state first, then the new cell state.",
        ),
        Mistake(
            {"ungated": True},
            "The output gate is missing",
            "You show the whole memory. The output gate decides how much of `torch.tanh(cell)` is shown.",
        ),
    ),
    differentiable=("x", "hidden", "cell", "W", "U", "bias"),
)


def path_lengths_with_faults(
    first: int, last: int, *, counts: str = "transitions", attention: str = "one", swapped: bool = False
) -> tuple[int, int]:
    """Steps from position ``first`` to position ``last`` in an RNN, and in one layer of attention."""
    recurrent = {
        "transitions": last - first,
        "tokens": last - first + 1,
        "between": last - first - 1,
        "from the start": last,
    }[counts]
    direct = {"one": 1, "none": 0, "distance": last - first, "pairs": last * last}[attention]
    return (direct, recurrent) if swapped else (recurrent, direct)


PATH_LENGTHS = FunctionExercise(
    name="path_lengths",
    title="Steps between two tokens, by recurrence and by attention.",
    reference=path_lengths_with_faults,
    cases=lambda: (
        Case("token 1 to token 5", {"first": 1, "last": 5}),
        Case("token 3 to token 10", {"first": 3, "last": 10}),
        Case("a gap of a thousand", {"first": 24, "last": 1024}),
    ),
    outputs=(Output("recurrent path"), Output("path through attention")),
    mistakes=(
        Mistake(
            {"counts": "tokens"},
            "You count the tokens, not the transitions",
            "Five tokens in a row are joined by four arrows: count the arrows.",
        ),
        Mistake(
            {"counts": "between"},
            "You count the tokens in between",
            "Between tokens 1 and 5 stand three tokens, and *four* arrows join them all: there is one more.",
        ),
        Mistake(
            {"counts": "from the start"},
            "You count from the start of the sequence",
            "The journey begins at `first`, not before token 1. What comes earlier does not make the path longer.",
        ),
        Mistake(
            {"attention": "none"},
            "Attention takes 0 steps in your answer",
            "The last token still has to look: one step, however far away the first is.",
        ),
        Mistake(
            {"attention": "distance"},
            "Attention walks past every token in your answer",
            "It looks at every position directly. The distance does not enter.",
        ),
        Mistake(
            {"attention": "pairs"},
            "You count attention's pairs, not its steps",
            "n × n pairs are compared, all at once: none waits for another. Count what waits.",
        ),
        Mistake({"swapped": True}, "The two answers are swapped", "The recurrent path comes first, then attention's."),
    ),
)
