"""Lesson 06: one pre-norm block."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from transformer_lab.practice.checking import Case, FunctionExercise, Mistake, Output, seeded

Sublayer = Callable[[Tensor], Tensor]
_MIXED = {"post, then pre": ("post", "pre"), "pre, then post": ("pre", "post")}


def pre_norm_block_with_faults(
    x: Tensor,
    attend: Sublayer,
    feed: Sublayer,
    norm_1: Sublayer,
    norm_2: Sublayer,
    *,
    order: str = "pre",
    shortcuts: str = "both",
    norms: str = "own",
    second_reads: str = "stream",
    second_adds_to: str = "stream",
    first: str = "attention",
) -> Tensor:
    """x + attend(norm_1(x)), then the same with feed and norm_2, with a switch for each way to get it wrong."""
    if norms == "shared":
        norm_2 = norm_1
    if norms == "swapped":
        norm_1, norm_2 = norm_2, norm_1
    if norms == "first alone":
        norm_2 = _unchanged
    if norms == "second alone":
        norm_1 = _unchanged
    orders = _MIXED.get(order, (order, order))
    sublayers = [("attention", attend, norm_1), ("feed", feed, norm_2)]
    if first == "feed":
        sublayers.reverse()
    start = x
    for number, (name, sublayer, norm) in enumerate(sublayers):
        read = start if number and second_reads == "x" else found if number and second_reads == "attention" else x
        carried = start if number and second_adds_to == "x" else x
        if shortcuts not in ("both", name):
            carried = 0
        here = orders[number]
        found = sublayer(read if here in ("post", "inside", "none") else norm(read))
        if here in ("inside", "around"):
            found = norm(found)
        if here == "normed stream" and isinstance(carried, Tensor):
            carried = norm(carried)
        x = carried + found
        if here in ("post", "both"):
            x = norm(x)
    return x


def _unchanged(x: Tensor) -> Tensor:
    return x


def _mixing(seed: int) -> Sublayer:
    """Attention-like: every token gets something of its neighbour."""
    matrix = seeded(4, 4, seed=seed)
    return lambda x: torch.tanh(x + x.roll(1, dims=1)) @ matrix


def _alone(seed: int) -> Sublayer:
    matrix = seeded(4, 4, seed=seed)
    return lambda x: torch.relu(x @ matrix) @ matrix.T


def _norm(seed: int) -> Sublayer:
    scale, shift = seeded(4, seed=seed) + 2, seeded(4, seed=seed + 1)
    return lambda x: F.layer_norm(x, (4,), scale, shift)


def _block_case(label: str, batch: int, length: int, seed: int) -> Case:
    inputs = {
        "x": 3 * seeded(batch, length, 4, seed=seed) + 1,
        "attend": _mixing(seed + 1),
        "feed": _alone(seed + 2),
        "norm_1": _norm(seed + 3),
        "norm_2": _norm(seed + 5),
    }
    return Case(label, inputs)


PRE_NORM_BLOCK = FunctionExercise(
    name="pre_norm_block",
    title="One pre-norm block.",
    reference=pre_norm_block_with_faults,
    cases=lambda: (
        _block_case("two sentences", 2, 3, seed=50),
        _block_case("length = width", 1, 4, seed=60),
        _block_case("one token", 1, 1, seed=70),
    ),
    outputs=(Output("stream", ("batch", "position", "feature")),),
    differentiable=("x",),
    tolerance=1e-4,
    mistakes=(
        Mistake(
            {"order": "post"},
            "The norm comes after the addition: this is post-norm",
            "You have norm(x + f(x)), the order of 2017. Pre-norm norms what the sublayer *reads*: x + f(norm(x)).",
        ),
        Mistake(
            {"order": "post, then pre"},
            "The first sublayer is post-norm, the second pre-norm",
            "After attention you norm the sum. Norm what attention *reads*: x + attend(norm_1(x)).",
        ),
        Mistake(
            {"order": "pre, then post"},
            "The first sublayer is pre-norm, the second post-norm",
            "After the feed-forward layer you norm the sum. Norm what that layer *reads*: x + feed(norm_2(x)).",
        ),
        Mistake(
            {"shortcuts": "none"},
            "There is no residual",
            "You return f(norm(x)) alone, so nothing is carried past the sublayers. Add x to each result.",
        ),
        Mistake(
            {"shortcuts": "attention"},
            "The second residual is missing",
            "After the feed-forward layer you return its result alone. Add the stream that went into it.",
        ),
        Mistake(
            {"shortcuts": "feed"},
            "The first residual is missing",
            "After attention you go on with its result alone. Add the stream that went into it.",
        ),
        Mistake(
            {"norms": "shared"},
            "One norm for both sublayers",
            "norm_2 is never used. Each sublayer has a norm with a scale and shift of its own.",
        ),
        Mistake(
            {"norms": "first alone"},
            "The feed-forward layer reads the stream without its norm",
            "norm_2 is never used. Each sublayer reads normed numbers: feed(norm_2(x)).",
        ),
        Mistake(
            {"norms": "second alone"},
            "Attention reads the stream without its norm",
            "norm_1 is never used. Each sublayer reads normed numbers: attend(norm_1(x)).",
        ),
        Mistake(
            {"norms": "swapped"},
            "The norms have changed places",
            "norm_1 stands before attention, norm_2 before the feed-forward layer.",
        ),
        Mistake(
            {"order": "normed stream"},
            "The residual is normed too",
            "You have norm(x) + f(norm(x)): `x = norm(x)` overwrites what should be carried past. Give the normed "
            "vectors to the sublayer alone, and add to x itself.",
        ),
        Mistake(
            {"second_reads": "x", "second_adds_to": "stream"},
            "Both sublayers read x",
            "The feed-forward layer does not see what attention found. It reads the stream *after* the first addition. "
            "(Blocks with both side by side exist, under the name of parallel blocks.)",
        ),
        Mistake(
            {"second_reads": "attention", "second_adds_to": "stream"},
            "The feed-forward layer reads what attention returned, not the stream",
            "It needs the sum. Keep it under a name: `x = x + attend(norm_1(x))`, then read and add to that x.",
        ),
        Mistake(
            {"second_adds_to": "x", "second_reads": "stream"},
            "The second residual carries the old x",
            "What attention found is dropped on the way past. Add to the stream as it is after the first addition.",
        ),
        Mistake(
            {"order": "inside"},
            "The norm comes after the sublayer, before the addition",
            "You have x + norm(f(x)), neither pre- nor post-norm. Norm what the sublayer reads: x + f(norm(x)).",
        ),
        Mistake(
            {"order": "around"},
            "Each norm acts twice, before and after its sublayer",
            "You have x + norm(f(norm(x))). What the sublayer returns is added as it is: x + f(norm(x)).",
        ),
        Mistake(
            {"order": "both"},
            "The sum is normed as well",
            "Each norm acts twice: before the sublayer and on the sum. The stream itself stays as it is.",
        ),
        Mistake(
            {"order": "none"},
            "The norms are not used",
            "Each sublayer reads the normed stream: `attend(norm_1(x))`.",
        ),
        Mistake(
            {"first": "feed"},
            "The feed-forward layer comes first",
            "First attention, with norm_1, then the feed-forward layer, with norm_2.",
        ),
    ),
)
