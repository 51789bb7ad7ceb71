"""Lesson 03's exercises: each mistake of a learner, written as a learner writes it, gets its own feedback."""

import pytest
import torch

from mistakes import assert_all_differ, assert_named, assert_says, each_mistake, pairs_of_mistakes
from transformer_lab.model import attention
from transformer_lab.practice import check
from transformer_lab.practice.exercises.heads import MERGE_HEADS, SHARE_KV_HEADS, SPLIT_HEADS

EXERCISES = {"split": SPLIT_HEADS, "merge": MERGE_HEADS, "share": SHARE_KV_HEADS}
CHECKS = {"split": check.split_heads, "merge": check.merge_heads, "share": check.share_kv_heads}


@pytest.fixture(autouse=True)
def own_progress(tmp_path, monkeypatch):
    monkeypatch.setenv("TRANSFORMER_LAB_PROGRESS", str(tmp_path))


# ------------------------------------------------------------------ right answers, in the spellings learners use


def split_by_view(x, n_heads):
    batch, length, width = x.size()
    return x.view(batch, length, n_heads, width // n_heads).permute(0, 2, 1, 3)


def split_by_stacking(x, n_heads):
    return torch.stack(x.chunk(n_heads, dim=-1), dim=1)


def split_by_loops(x, n_heads):
    d_head = x.shape[-1] // n_heads
    return torch.cat([x[:, None, :, head * d_head : (head + 1) * d_head] for head in range(n_heads)], dim=1)


def merge_by_flattening(x):
    return x.transpose(1, 2).flatten(start_dim=2)


def merge_by_view(x):
    batch, n_heads, length, d_head = x.size()
    return x.permute(0, 2, 1, 3).contiguous().view(batch, length, n_heads * d_head)


def merge_by_joining(x):
    return torch.cat(x.unbind(dim=1), dim=-1)


def share_by_interleaving(x, n_heads):
    return x.repeat_interleave(n_heads // x.shape[1], dim=1)


def share_by_expanding(x, n_heads):
    batch, kv_heads, length, d_head = x.shape
    group = n_heads // kv_heads
    return x[:, :, None].expand(batch, kv_heads, group, length, d_head).reshape(batch, n_heads, length, d_head)


def share_by_choosing(x, n_heads):
    return x[:, [head * x.shape[1] // n_heads for head in range(n_heads)]]


RIGHT = {
    "split": (split_by_view, split_by_stacking, split_by_loops, attention.split_heads),
    "merge": (merge_by_flattening, merge_by_view, merge_by_joining, attention.merge_heads),
    "share": (share_by_interleaving, share_by_expanding, share_by_choosing, attention.repeat_kv_heads),
}


@pytest.mark.parametrize(("name", "answer"), [(name, answer) for name, each in RIGHT.items() for answer in each])
def test_right_answers_pass_in_every_spelling(name, answer):
    feedback = CHECKS[name](answer)
    assert feedback.status == "right", feedback


def test_the_cases_are_the_deliberate_ones():
    splits = [case.inputs["x"].shape for case in SPLIT_HEADS.built_cases]
    heads = [case.inputs["n_heads"] for case in SPLIT_HEADS.built_cases]
    assert 1 in heads and any(n > 1 and shape[1] == n for n, shape in zip(heads, splits, strict=True))
    merges = [case.inputs["x"].shape for case in MERGE_HEADS.built_cases]
    assert any(len(set(shape)) == 1 for shape in merges) and any(shape[1] == 1 for shape in merges)
    groups = [(case.inputs["x"].shape[1], case.inputs["n_heads"]) for case in SHARE_KV_HEADS.built_cases]
    assert any(kv == 1 < n for kv, n in groups) and any(kv == n for kv, n in groups)
    assert {n // kv for kv, n in groups if kv > 1} >= {2, 3}


# --------------------------------------------- wrong answers, one step each, so that any two can be put together


def split(cut=lambda x, n: x.reshape(*x.shape[:2], n, x.shape[2] // n), arrange=lambda heads: heads.transpose(1, 2)):
    def my_split_heads(x, n_heads):
        return arrange(cut(x, n_heads))

    return my_split_heads


def merge(arrange=lambda x: x.transpose(1, 2), join=lambda x, arranged: arranged.flatten(2)):
    def my_merge_heads(x):
        return join(x, arrange(x))

    return my_merge_heads


def share(times=lambda x, n: n // x.shape[1], axis=1, copy=lambda x, times, axis: x.repeat_interleave(times, axis)):
    def my_share_kv_heads(x, n_heads):
        return copy(x, times(x, n_heads), axis)

    return my_share_kv_heads


def comb(x, n_heads):
    """Feature 0 to head 0, feature 1 to head 1, and so on in turn."""
    return torch.stack([x[..., head::n_heads] for head in range(n_heads)], dim=2)


def same(x):
    return x


# name: (a part of its title, the steps it gets wrong). The curriculum's come first in each.
WRONG = {
    "split": {
        "no transpose": (
            "scrambles tokens and heads",
            {"cut": lambda x, n: x.reshape(len(x), n, x.shape[1], x.shape[2] // n), "arrange": same},
        ),
        "as cut": ("still stand behind the positions", {"arrange": same}),
        "comb": ("every n-th feature", {"cut": comb}),
        "heads first of all": ("before the batch", {"arrange": lambda heads: heads.permute(2, 0, 1, 3)}),
        "turned": ("Positions and features", {"arrange": lambda heads: heads.permute(0, 2, 3, 1)}),
        "sizes": (
            "each other's size",
            {
                "cut": lambda x, n: x.reshape(*x.shape[:2], x.shape[2] // n, n),
                "arrange": lambda heads: heads.transpose(1, 2),
            },
        ),
        "joined axes": (
            "Batch and heads are one axis",
            {"cut": lambda x, n: x.reshape(len(x) * n, x.shape[1], x.shape[2] // n), "arrange": same},
        ),
    },
    "merge": {
        "no transpose": (
            "scrambles tokens and heads",
            {"arrange": same, "join": lambda x, arranged: arranged.reshape(len(x), x.shape[2], -1)},
        ),
        "comb": (
            "dealt out in turn",
            {"join": lambda x, arranged: torch.stack(x.unbind(1), dim=-1).flatten(2)},
        ),
        "features first": (
            "stand before the positions",
            {
                "arrange": lambda x: x.permute(0, 3, 1, 2),
                "join": lambda x, arranged: arranged.reshape(len(x), x.shape[2], -1),
            },
        ),
        "turned": (
            "Positions and features",
            {"arrange": lambda x: x.mT, "join": lambda x, arranged: arranged.reshape(len(x), x.shape[2], -1)},
        ),
        "apart": ("still apart", {"join": lambda x, arranged: arranged}),
        "flatten alone": (
            "all positions of one head",
            {"arrange": same, "join": lambda x, arranged: torch.stack([head.flatten(1) for head in x.unbind(1)], 1)},
        ),
        "rows": ("one after another", {"arrange": same, "join": lambda x, arranged: arranged.flatten(1, 2)}),
        "sum": ("added up", {"join": lambda x, arranged: x.sum(1)}),
        "mean": ("averaged", {"join": lambda x, arranged: sum(x.unbind(1)) / x.shape[1]}),
        "one": ("Only head 0", {"join": lambda x, arranged: x[:, 0]}),
    },
    "share": {
        "repeat": ("wrong order", {"copy": lambda x, times, axis: torch.cat([x] * times, dim=axis)}),
        "positions": ("positions are repeated", {"axis": 2}),
        "batch": ("batch is repeated", {"axis": 0}),
        "features": ("features are repeated", {"axis": 3}),
        "n_heads times": ("copied n_heads times", {"times": lambda x, n: n}),
        "kv_heads times": ("copied kv_heads times", {"times": lambda x, n: x.shape[1]}),
        "first": (
            "read key/value head 0",
            {"copy": lambda x, times, axis: torch.stack([x[:, 0]] * (x.shape[1] * times), dim=1)},
        ),
        "mean": (
            "averaged",
            {"copy": lambda x, times, axis: torch.stack([x.mean(1)] * (x.shape[1] * times), dim=1)},
        ),
        "not copied": ("as many heads as before", {"copy": lambda x, times, axis: x}),
        "zeros": (
            "filled with zeros",
            {"copy": lambda x, times, axis: torch.cat([x] + [torch.zeros_like(x)] * (times - 1), dim=1)},
        ),
    },
}
BUILD = {"split": split, "merge": merge, "share": share}
EACH = each_mistake(WRONG)


@pytest.mark.parametrize(("name", "mistake"), EACH)
def test_each_known_mistake_is_named(name, mistake):
    title, wrong = WRONG[name][mistake]
    assert_named(CHECKS[name](BUILD[name](**wrong)), title)


@pytest.mark.parametrize("name", WRONG)
def test_every_mistake_of_the_exercise_is_tried_and_has_feedback_of_its_own(name):
    said = [CHECKS[name](BUILD[name](**wrong)) for _, wrong in WRONG[name].values()]
    assert_all_differ(said)
    assert {each.title for each in said} == {mistake.title for mistake in EXERCISES[name].mistakes}


PAIRS = pairs_of_mistakes(WRONG, WRONG)


# A copy of another kind needs no axis, and no copy needs no number either: those mistakes leave no trace.
SWALLOWED = {
    ("share", axis, copy): copy for axis in ("positions", "batch", "features") for copy in ("first", "mean", "zeros")
} | {
    ("share", step, "not copied"): "not copied"
    for step in ("positions", "batch", "features", "n_heads times", "kv_heads times")
}


@pytest.mark.parametrize(("name", "first", "second"), PAIRS)
def test_two_mistakes_at_once_are_both_named(name, first, second):
    (title_1, wrong_1), (title_2, wrong_2) = WRONG[name][first], WRONG[name][second]
    swallowed = SWALLOWED.get((name, first, second))
    titles = [WRONG[name][swallowed][0]] if swallowed else [title_1, title_2]
    assert_says(CHECKS[name](BUILD[name](**wrong_1 | wrong_2)), *titles)


def test_pairs_are_tried():
    assert len(PAIRS) > 15


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("split", lambda x, n_heads: split_by_view(x, n_heads).flip(1)),
        ("merge", lambda x: merge_by_view(x.flip(1))),
        ("share", lambda x, n_heads: share_by_interleaving(x.flip(1), n_heads)),
    ],
)
def test_an_unplanned_mistake_gets_the_first_difference(name, answer):
    feedback = CHECKS[name](answer)
    assert feedback.status == "wrong" and "First difference at" in feedback.messages[0], feedback


@pytest.mark.parametrize("name", CHECKS)
def test_an_untouched_stub_is_not_attempted(name):
    def stub(x, n_heads=None):
        ...

    assert CHECKS[name](stub).status == "not attempted"


def test_heads_joined_to_the_length_are_named_after_a_transpose_too():
    assert "one after another" in check.merge_heads(lambda x: x.transpose(1, 2).flatten(1, 2)).title


def test_flattened_copies_are_answered_with_the_shapes():
    feedback = check.share_kv_heads(lambda x, n_heads: x.repeat_interleave(n_heads // x.shape[1]))
    assert feedback.status == "wrong" and "shape" in (feedback.title + " ".join(feedback.messages)).lower()
