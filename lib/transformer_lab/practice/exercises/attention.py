"""Lesson 02: attention with a mask, for a batch and its heads."""

import torch
from torch import Tensor

from transformer_lab.practice.checking import Case, FunctionExercise, Mistake, Output, seeded
from transformer_lab.practice.exercises.attention_steps import STEPS, attention_with_faults

WEAK_FILL = "The fill is too weak"


def _mixed_mask(*shape: int) -> Tensor:
    """True about two times in three, and on the diagonal, so that every query keeps a key."""
    allowed = seeded(*shape, seed=7) > -0.4
    return allowed | torch.eye(shape[-2], shape[-1], dtype=torch.bool)


def _case(label: str, batch: int, heads: int, query: int, key: int, d_head: int, mask: Tensor) -> Case:
    tensors = {
        "query": 1.5 * seeded(batch, heads, query, d_head, seed=1),
        "key": seeded(batch, heads, key, d_head, seed=2),
        "value": seeded(batch, heads, key, d_head, seed=3),
    }
    return Case(label, tensors | {"mask": mask})


def _far_below() -> Case:
    """Allowed scores near −16,000 and forbidden ones near 16,000, in numbers that float32 adds up exactly.

    Allowed and forbidden take turns along every axis, so that no axis is forbidden as a whole.
    """
    allowed = torch.stack(torch.meshgrid(*map(torch.arange, (2, 3, 3, 4)), indexing="ij")).sum(0) % 2 == 0
    case = _case("allowed scores far below the forbidden ones", *allowed.shape, 16, allowed)
    for name in ("query", "key"):
        case.inputs[name].mul_(2).round_().div_(2)
    turn = 1.0 - 2 * allowed  # its sign is that of the score; rows and columns differ by a sign alone
    case.inputs["query"][..., 0] = 256 * turn[..., 0]
    case.inputs["key"][..., 0] = -256 * turn[0, 0, 0]
    return case


def _attention_cases() -> tuple[Case, ...]:
    causal = torch.ones(5, 5, dtype=torch.bool).tril()
    padding = (torch.arange(4) < torch.tensor([4, 2, 3, 1])[:, None])[:, None, None, :]  # (batch, 1, 1, key)
    return (
        _case("a causal mask", 2, 3, 5, 5, 4, causal),
        _case("one sentence with one head", 1, 1, 7, 7, 3, _mixed_mask(7, 7)),
        _case("batch = length with padding", 4, 2, 4, 4, 6, padding),
        # with as many queries as keys too, √d_head and √length would be one number wherever a wrong transpose runs
        _case("keys = d_head", 2, 2, 4, 6, 6, _mixed_mask(2, 1, 4, 6)),
        _case("batch = heads = keys = d_head", 3, 3, 2, 3, 3, _mixed_mask(3, 3, 2, 3)),
        _case("fewer queries than keys", 2, 2, 3, 8, 5, _mixed_mask(3, 8)),
        _far_below(),
    )


ATTENTION = FunctionExercise(
    name="attention",
    title="Attention with a mask, for a batch and its heads.",
    reference=attention_with_faults,
    cases=_attention_cases,
    outputs=(Output("output", ("batch", "heads", "query", "d_head")),),
    differentiable=("query", "key", "value"),
    spellings=({}, {"fill": -1e9}),
    mistakes=(
        *STEPS,
        Mistake(
            {"softmax_over": "batch"},
            "The softmax runs over the batch",
            "`softmax(0)` makes the sentences of a batch compete with each other. The keys are the last axis; counted "
            "from the end, `softmax(-1)`, it is right whatever stands in front.",
        ),
        Mistake(
            {"divide_by": "√batch"},
            "The scores are divided by the root of the batch size",
            "`len(query)` is the first axis, the batch. A score sums over the components of a query: "
            "`query.shape[-1]`.",
        ),
        Mistake(
            {"softmax_over": "heads"},
            "The softmax runs over the heads",
            "`softmax(1)` makes the heads compete with each other. Scores are (batch, heads, query, key): the keys are "
            "the last axis. Counting from the end, `softmax(-1)`, stays right whatever stands in front.",
        ),
        Mistake(
            {"divide_by": "√d_model"},
            "The scores are divided by √d_model",
            "Each score sums over the components of *one head*, d_head of them. d_model = heads · d_head counts all "
            "the heads together. Use `query.shape[-1]`.",
        ),
        Mistake(
            {"transpose": "all axes"},
            "`key.T` reverses all four axes",
            "Only positions and components change places; batch and heads stay where they are: `key.mT`, or "
            "`key.transpose(-2, -1)`.",
        ),
        Mistake(
            {"transpose": "heads and positions"},
            "The heads are swapped with the positions",
            "`key.transpose(1, 2)` exchanges heads and positions. The score needs positions and components exchanged: "
            "`key.transpose(-2, -1)`.",
        ),
        Mistake(
            {"masking": "ignored"},
            "The mask is never used",
            "Forbidden keys still receive weight. Beware: `masked_fill` returns a new tensor and leaves the old one as "
            "it was, so keep its result.",
        ),
        Mistake(
            {"masking": "after softmax"},
            "The mask is applied after the softmax",
            "The forbidden keys have already taken their share, so the rows no longer sum to 1. Set forbidden *scores* "
            "to −∞ first; the softmax then shares out everything among the allowed keys.",
        ),
        Mistake(
            {"masking": "infinity after softmax"},
            "The mask fills −∞ after the softmax",
            "−∞ belongs among the *scores*, where the softmax turns it into a weight of 0. As a weight it makes the "
            "output infinite or NaN. Move the mask one line up.",
        ),
        Mistake(
            {"masking": "inverted"},
            "The mask is inverted",
            "True means *may attend*. `masked_fill` writes where its mask is True, so give it the opposite: `~mask`.",
        ),
        Mistake(
            {"masking": "infinity times the mask"},
            "Every number is NaN",
            "The usual cause: 0 · ∞ is NaN, so `~mask * -torch.inf` spoils the scores that stay allowed. Fill, do not "
            "multiply: `scores.masked_fill(~mask, -torch.inf)`. If you fill, look for rows with no key left.",
        ),
        Mistake(
            {"fill": -1e3},
            WEAK_FILL,
            "A forbidden key wins where all allowed scores lie below your fill: here they are near −16,000. −∞ lies "
            "below every score.",
        ),
        Mistake(
            {"masking": "added"},
            "The mask is added as zeros and ones",
            "Adding a boolean mask raises the allowed scores by 1 and forbids nothing. A forbidden score must become "
            "−∞: `scores.masked_fill(~mask, -torch.inf)`.",
        ),
        Mistake(
            {"masking": "zeros before softmax"},
            "Forbidden scores are set to 0",
            "A score of 0 still counts: e⁰ = 1 enters the sum of the softmax. Only −∞ gives a weight of 0.",
        ),
    ),
)
