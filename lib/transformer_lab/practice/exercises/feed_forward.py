"""Lesson 06: the feed-forward layer."""

import torch
import torch.nn.functional as F
from torch import Tensor

from transformer_lab.practice.checking import Case, FunctionExercise, Mistake, Output, seeded

_SQUASH = {
    "relu": torch.relu,
    "none": lambda value: value,
    "gelu": F.gelu,
    "silu": F.silu,
    "sigmoid": torch.sigmoid,
    "softmax": lambda value: value.softmax(-1),
    "tanh": torch.tanh,
    "leaky": F.leaky_relu,
    "size": torch.abs,
}


def feed_forward_with_faults(
    x: Tensor,
    W_up: Tensor,
    b_up: Tensor,
    W_down: Tensor,
    b_down: Tensor,
    *,
    squash: str = "relu",
    stands: str = "between",
    relu_on_result: bool = False,
    residual: bool = False,
    reads: str = "each token",
    up_bias: str = "inside",
    down_bias: bool = True,
) -> Tensor:
    """relu(x W_up + b_up) W_down + b_down, token by token, with a switch for each way to get it wrong."""
    function = _SQUASH[squash]
    tokens = x.mean(1, keepdim=True).expand_as(x) if reads == "the average" else x
    if reads == "components":  # the axes of positions and features in each other's place
        tokens = tokens.mT
    tokens = function(tokens) if stands == "before" else tokens
    hidden = tokens @ W_up + (b_up if up_bias == "inside" else 0)
    hidden = function(hidden) if stands == "between" else hidden
    hidden = hidden + b_up if up_bias == "outside" else hidden
    output = hidden @ W_down + (b_down if down_bias else 0)
    output = function(output) if stands == "after" else output
    output = torch.relu(output) if relu_on_result else output
    if reads == "components":
        output = output.mT
    return x + output if residual else output


def _ffn_case(label: str, batch: int, length: int, d_model: int, d_ff: int) -> Case:
    inputs = {
        "x": seeded(batch, length, d_model, seed=d_ff),
        "W_up": seeded(d_model, d_ff, seed=31),
        "b_up": seeded(d_ff, seed=32),
        "W_down": seeded(d_ff, d_model, seed=33),
        "b_down": seeded(d_model, seed=34),
    }
    return Case(label, inputs)


FEED_FORWARD = FunctionExercise(
    name="feed_forward",
    title="Work on each token alone: up, ReLU, down.",
    reference=feed_forward_with_faults,
    cases=lambda: (
        _ffn_case("d_ff = 4 · d_model", 2, 3, 4, 16),
        _ffn_case("length = d_model", 2, 4, 4, 8),
        _ffn_case("everything the same size", 3, 3, 3, 3),
        _ffn_case("one token", 1, 1, 4, 6),
    ),
    outputs=(Output("output", ("batch", "position", "feature")),),
    differentiable=("x", "W_up", "b_up", "W_down", "b_down"),
    tolerance=1e-4,
    mistakes=(
        Mistake(
            {"stands": "after"},
            "The ReLU comes after the second matrix",
            "Two matrices with nothing between them are one matrix. The ReLU stands between them, in the wide layer.",
        ),
        Mistake(
            {"squash": "none"},
            "There is no ReLU",
            "Two matrices with nothing between them are one matrix, however wide the layer in between. Put "
            "`torch.relu` around the first product and its bias.",
        ),
        Mistake(
            {"residual": True},
            "The residual is inside",
            "You return x + the result. The addition belongs to the block, so that it can place its norm; this layer "
            "returns its own result alone.",
        ),
        Mistake(
            {"reads": "the average"},
            "The tokens are mixed",
            "You average over the positions, so all tokens get one answer. Mixing is attention's work; here each token "
            "goes through alone: `x @ W_up` does that already.",
        ),
        Mistake(
            {"reads": "components"},
            "Positions and features have changed places",
            "With a transpose the matrices mix *tokens*, which fits only where the length equals d_model. The features "
            "are the last axis already: `x @ W_up`.",
        ),
        Mistake(
            {"stands": "before"},
            "The ReLU comes before the first matrix",
            "It cuts off half of x, and leaves nothing between the two matrices. Put it around `x @ W_up + b_up`.",
        ),
        Mistake(
            {"relu_on_result": True},
            "One ReLU too many",
            "The second one, on the result, lets the layer add only positive numbers to the stream. Leave it out.",
        ),
        Mistake(
            {"squash": "gelu"},
            "You use GELU where ReLU is asked",
            "GELU bends smoothly. Here: `torch.relu`, max(0, ·).",
        ),
        Mistake(
            {"squash": "silu"},
            "You use SiLU where ReLU is asked",
            "SiLU is x · σ(x). Here: `torch.relu`, max(0, ·).",
        ),
        Mistake(
            {"squash": "sigmoid"},
            "You use σ where ReLU is asked",
            "σ presses everything between 0 and 1. ReLU keeps what is positive: `torch.relu`.",
        ),
        Mistake(
            {"squash": "softmax"},
            "You use softmax where ReLU is asked",
            "A softmax makes the components share 1. ReLU looks at each by itself: `torch.relu`.",
        ),
        Mistake(
            {"squash": "tanh"},
            "You use tanh where ReLU is asked",
            "tanh presses everything between −1 and 1. ReLU keeps what is positive: `torch.relu`.",
        ),
        Mistake(
            {"squash": "leaky"},
            "You use a leaky ReLU where ReLU is asked",
            "A leaky one lets a share of the negative numbers through. Here they become 0: `torch.relu`.",
        ),
        Mistake(
            {"squash": "size"},
            "You take the size of each number, not its positive part",
            "`abs` turns −2 into 2; ReLU turns it into 0: `torch.relu`.",
        ),
        Mistake(
            {"up_bias": "outside"},
            "b_up is added after the ReLU",
            "The bias decides *where* the bend is, so it stands inside: `torch.relu(x @ W_up + b_up)`. Look at the "
            "brackets.",
        ),
        Mistake({"up_bias": "none"}, "b_up is not used", "Add it to the first product, inside the ReLU."),
        Mistake({"down_bias": False}, "b_down is not used", "Add it to the second product."),
    ),
)
