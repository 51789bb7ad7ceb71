"""Lesson 03: split the width into heads, merge them again, and share key/value heads among query heads."""

import torch.nn.functional as F
from torch import Tensor

from transformer_lab.practice.checking import Case, FunctionExercise, Mistake, Output, seeded


def split_with_faults(x: Tensor, n_heads: int, *, cut: str = "blocks", order: str = "heads first") -> Tensor:
    """``(batch, length, width)`` → ``(batch, heads, length, d_head)``, with a switch for each way to get it wrong."""
    batch, length, width = x.shape
    d_head = width // n_heads
    if cut == "batch and heads":
        return x.reshape(batch * n_heads, length, d_head)
    if cut == "scrambled":
        return x.reshape(batch, n_heads, length, d_head)
    if cut == "swapped sizes":
        return x.reshape(batch, length, d_head, n_heads).transpose(1, 2)
    heads = x.reshape(batch, length, n_heads, d_head)
    if cut == "comb":
        heads = x.reshape(batch, length, d_head, n_heads).transpose(2, 3)
    orders = {
        "heads first": (0, 2, 1, 3),
        "as cut": (0, 1, 2, 3),
        "head before batch": (2, 0, 1, 3),
        "turned over": (0, 2, 3, 1),
    }
    return heads.permute(orders[order])


def _split_case(label: str, batch: int, length: int, n_heads: int, d_head: int) -> Case:
    return Case(label, {"x": seeded(batch, length, n_heads * d_head, seed=1), "n_heads": n_heads})


SPLIT_HEADS = FunctionExercise(
    name="split_heads",
    title="Split the width into heads.",
    reference=split_with_faults,
    cases=lambda: (
        _split_case("three heads", 2, 5, 3, 4),
        _split_case("length = heads", 3, 4, 4, 2),
        _split_case("batch = heads = length = d_head", 3, 3, 3, 3),
        _split_case("one head", 2, 4, 1, 6),
        _split_case("heads one number wide", 2, 3, 5, 1),
    ),
    outputs=(Output("output", ("batch", "head", "position", "feature")),),
    differentiable=("x",),
    mistakes=(
        Mistake(
            {"cut": "scrambled"},
            "The reshape scrambles tokens and heads",
            "A reshape keeps the numbers in their order and only cuts them anew, so (batch, heads, length, d_head) in "
            "one step gives head 0 the whole of the first tokens. Cut the width first, (batch, length, heads, d_head); "
            "then bring the heads forward with `transpose(1, 2)`.",
        ),
        Mistake(
            {"order": "as cut"},
            "The heads still stand behind the positions",
            "The cut is right: (batch, length, heads, d_head). Attention compares positions, so they must be the last "
            "axis but one: `transpose(1, 2)`.",
        ),
        Mistake(
            {"cut": "comb"},
            "Each head takes every n-th feature",
            "You cut the width as (d_head, heads), which deals the features out in turn. A head owns a block of "
            "neighbours: cut it as (heads, d_head).",
        ),
        Mistake(
            {"order": "head before batch"},
            "The heads stand before the batch",
            "The axes are (heads, batch, length, d_head). Batch first: exchange positions and heads only, "
            "`transpose(1, 2)`.",
        ),
        Mistake(
            {"order": "turned over"},
            "Positions and features have changed places",
            "You return (batch, heads, d_head, length), which is how the *keys* stand in the product of the scores. "
            "Here only heads and positions change places.",
        ),
        Mistake(
            {"cut": "swapped sizes"},
            "The two new axes have each other's size",
            "You cut the width as (d_head, heads) and brought d_head forward. Cut it as (heads, d_head).",
        ),
        Mistake(
            {"cut": "batch and heads"},
            "Batch and heads are one axis",
            "The heads keep an axis of their own, and a reshape alone mixes tokens besides. The result has four axes: "
            "(batch, heads, length, d_head).",
        ),
    ),
)


def merge_with_faults(
    x: Tensor, *, first: str = "positions", heads: str = "side by side", rows: str = "by head"
) -> Tensor:
    """``(batch, heads, length, d_head)`` → ``(batch, length, width)``, with a switch for each way to get it wrong.

    ``rows`` says in which order the heads stand if they are one after another in the length.
    """
    batch, n_heads, length, d_head = x.shape
    if heads == "summed":
        return x.sum(dim=1)
    if heads == "averaged":
        return x.mean(dim=1)
    if heads == "first only":
        return x[:, 0]
    if heads == "one row a head":
        return x.flatten(2)
    if heads == "one after another":
        return (x if rows == "by head" else x.transpose(1, 2)).flatten(1, 2)
    orders = {
        "positions": (0, 2, 1, 3),
        "heads": (0, 1, 2, 3),
        "features": (0, 2, 3, 1),
        "features first": (0, 3, 1, 2),
        "turned over": (0, 1, 3, 2),
    }
    arranged = x.permute(orders[first])
    if heads == "apart":
        return arranged
    return arranged.reshape(batch, length, n_heads * d_head)


def _merge_case(label: str, batch: int, n_heads: int, length: int, d_head: int) -> Case:
    return Case(label, {"x": seeded(batch, n_heads, length, d_head, seed=2)})


MERGE_HEADS = FunctionExercise(
    name="merge_heads",
    title="Put the heads of a token side by side again.",
    reference=merge_with_faults,
    cases=lambda: (
        _merge_case("three heads", 2, 3, 5, 4),
        _merge_case("length = heads", 3, 4, 4, 2),
        _merge_case("batch = heads = length = d_head", 3, 3, 3, 3),
        _merge_case("one head", 2, 1, 4, 6),
    ),
    outputs=(Output("output", ("batch", "position", "feature")),),
    differentiable=("x",),
    spellings=({}, {"rows": "by position"}),
    mistakes=(
        Mistake(
            {"first": "heads"},
            "The reshape scrambles tokens and heads",
            "In memory, head 0 of *all* tokens comes before head 1 of any. Reshaped like that, a row holds several "
            "tokens of one head. Bring the positions forward first: `transpose(1, 2)`.",
        ),
        Mistake(
            {"first": "features"},
            "The heads are dealt out in turn",
            "A row holds feature 0 of every head, then feature 1 of every head. The numbers of one head belong "
            "together: move the positions forward and leave d_head last.",
        ),
        Mistake(
            {"first": "features first"},
            "The features stand before the positions",
            "Only two axes change places, heads and positions: `transpose(1, 2)`.",
        ),
        Mistake(
            {"first": "turned over"},
            "Positions and features have changed places",
            "`transpose(2, 3)`, or `.mT`, exchanges positions and features. The heads must change places with the "
            "positions: `transpose(1, 2)`.",
        ),
        Mistake(
            {"heads": "apart"},
            "The heads are still apart",
            "(batch, length, heads, d_head) has the right order. One step is missing: join the last two axes, "
            "`flatten(2)`.",
        ),
        Mistake(
            {"heads": "one row a head"},
            "A row holds all positions of one head",
            "Joining the last two axes at once gives (batch, heads, length · d_head). A row belongs to a *position*: "
            "bring the positions forward with `transpose(1, 2)`, then join.",
        ),
        Mistake(
            {"heads": "one after another"},
            "The heads stand one after another in the length",
            "The result has heads · length rows. The length stays; it is the *width* that holds all heads.",
        ),
        Mistake(
            {"heads": "summed"},
            "The heads are added up",
            "Adding mixes what the heads found, and nothing can take it apart again. Each keeps a place of its own "
            "in the width; mixing is the work of W_O, which comes after.",
        ),
        Mistake(
            {"heads": "averaged"},
            "The heads are averaged",
            "An average mixes what the heads found, as one head would. Each keeps a place of its own in the width.",
        ),
        Mistake(
            {"heads": "first only"},
            "Only head 0 is returned",
            "Every head has a place in the width: heads · d_head numbers a token.",
        ),
    ),
)


def share_with_faults(
    x: Tensor, n_heads: int, *, copies: str = "neighbours", axis: int = 1, count: str = "group"
) -> Tensor:
    """One key/value head for every query head, neighbours sharing, with a switch for each way to get it wrong."""
    kv_heads = x.shape[1]
    times = {"group": n_heads // kv_heads, "heads": n_heads, "kv_heads": kv_heads}[count]
    if copies == "tiled":
        return x.repeat(*(times if place == axis else 1 for place in range(4)))
    if copies == "first":
        return x[:, :1].expand(-1, kv_heads * times, -1, -1)
    if copies == "average":
        return x.mean(dim=1, keepdim=True).expand(-1, kv_heads * times, -1, -1)
    if copies == "none":
        return x
    if copies == "zeros":
        return F.pad(x, (0, 0, 0, 0, 0, kv_heads * (times - 1)))
    return x.repeat_interleave(times, dim=axis)


def _share_case(label: str, batch: int, kv_heads: int, group: int, length: int, d_head: int) -> Case:
    return Case(label, {"x": seeded(batch, kv_heads, length, d_head, seed=3), "n_heads": kv_heads * group})


SHARE_KV_HEADS = FunctionExercise(
    name="share_kv_heads",
    title="Share key/value heads among query heads.",
    reference=share_with_faults,
    cases=lambda: (
        _share_case("two key/value heads for four", 2, 2, 2, 5, 3),
        _share_case("three for six, length = batch = kv_heads", 3, 3, 2, 3, 4),
        _share_case("two for six", 2, 2, 3, 4, 4),
        _share_case("one for four", 2, 1, 4, 3, 2),
        _share_case("as many as query heads", 2, 3, 1, 4, 5),
    ),
    outputs=(Output("output", ("batch", "head", "position", "feature")),),
    differentiable=("x",),
    mistakes=(
        Mistake(
            {"copies": "tiled"},
            "`repeat` puts the copies in the wrong order",
            "It lays the whole list down again: k0, k1, k0, k1. Query heads 0 and 1 are trained as one group, so they "
            "must read the same head: k0, k0, k1, k1. That is `repeat_interleave`. (With one key/value head both give "
            "the same, which hides the mistake.)",
        ),
        Mistake(
            {"axis": 2},
            "The positions are repeated",
            "Axis 2 counts the keys. The copies belong on the axis of the heads: dim 1.",
        ),
        Mistake(
            {"axis": 0},
            "The batch is repeated",
            "Axis 0 counts the sentences. The copies belong on the axis of the heads: dim 1.",
        ),
        Mistake(
            {"axis": 3},
            "The features are repeated",
            "Axis 3 is d_head, the width of a head. The copies belong on the axis of the heads: dim 1.",
        ),
        Mistake(
            {"count": "heads"},
            "Every head is copied n_heads times",
            "That makes kv_heads · n_heads heads. Each serves n_heads / kv_heads query heads: copy it that often.",
        ),
        Mistake(
            {"count": "kv_heads"},
            "Every head is copied kv_heads times",
            "kv_heads is how many there *are* to share, `x.shape[1]`. Each serves n_heads / kv_heads query heads: copy "
            "it that often.",
        ),
        Mistake(
            {"copies": "first"},
            "All query heads read key/value head 0",
            "That is multi-query attention with the other heads thrown away. Each group reads its own.",
        ),
        Mistake(
            {"copies": "average"},
            "The key/value heads are averaged",
            "Averaging is how one *converts* a trained model before training it further. Here every group reads its "
            "own head, unchanged.",
        ),
        Mistake(
            {"copies": "none"},
            "There are still as many heads as before",
            "Each key/value head serves n_heads / kv_heads query heads: copy it that often on dim 1.",
        ),
        Mistake(
            {"copies": "zeros"},
            "The missing heads are filled with zeros",
            "A query head on zeros has equal scores and reads nothing. Copy the heads there are.",
        ),
    ),
)
