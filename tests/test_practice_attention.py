"""Lesson 02's exercises: each mistake of a learner, written as a learner writes it, gets its own feedback."""

import math
import re
from itertools import combinations

import pytest
import torch
import torch.nn.functional as F

from transformer_lab.experiments.attention_walk import walk_attention
from transformer_lab.model.attention import attention
from transformer_lab.practice import check
from transformer_lab.practice.exercises.attention import ATTENTION
from transformer_lab.practice.exercises.attention_steps import ATTENTION_STEPS, attention_with_faults
from transformer_lab.practice.exercises.mixed_row import HAND_VALUES, HAND_WEIGHTS, LESSON_ROW

INFINITY = math.inf


@pytest.fixture(autouse=True)
def own_progress(tmp_path, monkeypatch):
    monkeypatch.setenv("TRANSFORMER_LAB_PROGRESS", str(tmp_path))


# ------------------------------------------------------------------ right answers, in the spellings learners use


def plain(query, key, value, mask):
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    return scores.masked_fill(~mask, -INFINITY).softmax(-1) @ value


def with_einsum(query, key, value, mask):
    scores = torch.einsum("bhqd,bhkd->bhqk", query, key) * key.size(-1) ** -0.5
    weights = torch.where(mask, scores, -INFINITY).softmax(dim=3)
    return torch.einsum("bhqk,bhkd->bhqd", weights, value)


def query_scaled_first(query, key, value, mask):
    scores = (query / query.size(-1) ** 0.5).matmul(key.mT)
    return F.softmax(scores.masked_fill(mask == 0, -1e9), dim=-1).matmul(value)


def additive_mask(query, key, value, mask):
    bias = torch.zeros(mask.shape).masked_fill(mask.logical_not(), -INFINITY)
    return torch.softmax(query @ key.mT / math.sqrt(query.shape[-1]) + bias, -1) @ value


def softmax_by_hand(query, key, value, mask):
    scores = (query @ key.swapaxes(-1, -2) / math.sqrt(query.shape[-1])).masked_fill(~mask, torch.finfo().min)
    powers = torch.exp(scores - scores.amax(-1, keepdim=True))
    return powers / powers.sum(-1, keepdim=True) @ value


def fused(query, key, value, mask):
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)


def the_library(query, key, value, mask):
    return attention(query, key, value, mask=mask)[0]


@pytest.mark.parametrize(
    "answer", [plain, with_einsum, query_scaled_first, additive_mask, softmax_by_hand, fused, the_library]
)
def test_right_answers_pass_in_every_spelling(answer):
    feedback = check.attention(answer)
    assert feedback.status == "right", feedback
    said = feedback.messages[0]
    assert "7 inputs" in said and "batch = length" in said and "unchanged" in said and "gradients reach query" in said


def test_the_reference_at_neutral_is_torchs_attention():
    for case in ATTENTION.built_cases:
        query, key, value, mask = case.inputs.values()
        expected = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        torch.testing.assert_close(attention_with_faults(query, key, value, mask), expected, rtol=0, atol=1e-6)


def test_the_cases_are_the_deliberate_ones():
    shapes = [(*case.inputs["query"].shape, case.inputs["key"].shape[2]) for case in ATTENTION.built_cases]
    assert any(heads == 1 for _, heads, *_ in shapes)
    assert any(batch == length for batch, _, length, _, _ in shapes)
    assert any(d_head == keys for *_, d_head, keys in shapes)
    assert any(length != keys for _, _, length, _, keys in shapes)
    assert any(length % 2 for _, _, length, _, _ in shapes)


# --------------------------------------------- wrong answers, one step each, so that any two can be put together


def steps(
    score=lambda q, k: q @ k.transpose(-2, -1),
    scale=lambda s, q: s / math.sqrt(q.shape[-1]),
    before=lambda s, m: s.masked_fill(~m, -INFINITY),
    normalise=lambda s: s.softmax(-1),
    late=lambda w, q: w,
    after=lambda w, m: w,
    mix=lambda w, v, s: w @ v,
    roles=lambda key, value: (key, value),
):
    def my_attention(query, key, value, mask):
        key, value = roles(key, value)
        scores = before(scale(score(query, key), query), mask)
        weights = after(late(normalise(scores), query), mask)
        return mix(weights, value, scores)

    return my_attention


def masked_in_place_but_lost(scores, mask):
    scores.masked_fill(~mask, -INFINITY)
    return scores


AFTER = {"before": lambda s, m: s}
# name: (a part of its title, the steps it gets wrong). The first seven are the curriculum's.
WRONG = {
    "softmax over queries": ("over the queries", {"normalise": lambda s: s.softmax(-2)}),
    "no scale": ("not scaled", {"scale": lambda s, q: s}),
    "divided by d_k": ("divided by d_k", {"scale": lambda s, q: s / q.size(3)}),
    "divided by √d_model": (
        "divided by √d_model",
        {"scale": lambda s, q: s / math.sqrt(q.shape[1] * q.shape[3])},
    ),
    "K not transposed": ("K is not transposed", {"score": lambda q, k: q @ k}),
    "mask after softmax": ("after the softmax", AFTER | {"after": lambda w, m: w * m}),
    "weights only": ("return the weights", {"mix": lambda w, v, s: w}),
    "softmax over heads": ("over the heads", {"normalise": lambda s: s.softmax(dim=1)}),
    "multiplied by √d_k": ("multiplied by", {"scale": lambda s, q: s * q.shape[-1] ** 0.5}),
    "root of the length": ("number of queries", {"scale": lambda s, q: s / q.shape[-2] ** 0.5}),
    "heads and positions swapped": ("heads are swapped", {"score": lambda q, k: q @ k.transpose(1, 2)}),
    "all axes reversed": ("reverses all four", {"score": lambda q, k: q @ k.permute(*range(k.ndim - 1, -1, -1))}),
    "−∞ after softmax": ("fills −∞", AFTER | {"after": lambda w, m: w.masked_fill(~m, -INFINITY)}),
    "mask unused": ("never used", AFTER),
    "mask inverted": ("inverted", {"before": lambda s, m: s.masked_fill(m, -INFINITY)}),
    "mask added": ("zeros and ones", {"before": lambda s, m: s + m.float()}),
    "mask multiplied": ("set to 0", {"before": lambda s, m: s * m}),
    "no softmax": ("softmax is missing", {"normalise": lambda s: s}),
    "divided after the softmax": (
        "comes after the softmax",
        {"scale": lambda s, q: s, "late": lambda w, q: w / math.sqrt(q.shape[-1])},
    ),
    "query transposed": ("changed places", {"score": lambda q, k: k @ q.mT}),
    "softmax over the batch": ("over the batch", {"normalise": lambda s: s.softmax(dim=0)}),
    "root of the batch": ("batch size", {"scale": lambda s, q: s / len(q) ** 0.5}),
    "scores only": ("return the scores", {"mix": lambda w, v, s: s}),
    "root of the keys": (
        "number of keys",
        {"score": lambda q, k: q @ k.mT / k.shape[-2] ** 0.5, "scale": lambda s, q: s},
    ),
    "d_k ** 1/2": ("divided by d_k / 2", {"scale": lambda s, q: s / (q.shape[-1] ** 1 / 2)}),
    "/ d_k ** 1/2": ("divided by 2 · d_k", {"scale": lambda s, q: s / q.shape[-1] ** 1 / 2}),
    "softmax twice": ("applied twice", {"normalise": lambda s: s.softmax(-1).softmax(-1)}),
    "K reshaped": ("reshaped, not transposed", {"score": lambda q, k: q @ k.reshape(*k.shape[:2], k.shape[3], -1)}),
    "key and value exchanged": ("Key and value have changed", {"roles": lambda key, value: (value, key)}),
    "infinity times the mask": ("Every number is NaN", {"before": lambda s, m: s + ~m * -INFINITY}),
    "weak fill": ("too weak", {"before": lambda s, m: s.masked_fill(~m, -100.0)}),
}
GENERIC = check.attention(steps(normalise=lambda s: s.sigmoid())).title


@pytest.mark.parametrize("name", WRONG)
def test_each_known_mistake_is_named(name):
    title, wrong = WRONG[name]
    feedback = check.attention(steps(**wrong))
    assert feedback.status == "wrong"
    assert title in feedback.title
    assert len(feedback.messages) == 1


def test_every_mistake_has_feedback_of_its_own():
    said = [check.attention(steps(**wrong)) for _, wrong in WRONG.values()]
    assert len({feedback.title for feedback in said}) == len({feedback.messages for feedback in said}) == len(WRONG)
    assert {mistake.title for mistake in ATTENTION.mistakes} == {feedback.title for feedback in said}
    assert GENERIC not in {feedback.title for feedback in said}


# Nothing of the softmax and what follows it shows in scores.
SOFTMAX_OR_LATER = {
    "softmax over queries", "softmax over heads", "softmax over the batch", "no softmax", "divided after the softmax",
    "mask after softmax", "−∞ after softmax", "softmax twice",
}  # fmt: skip
# A fill shows itself as weak beside very low scores only; these keep them from arising, or show the fill as it is.
NO_LOW_SCORES = {
    "K not transposed", "heads and positions swapped", "all axes reversed", "query transposed", "K reshaped",
    "key and value exchanged", "no softmax", "scores only",
}  # fmt: skip
ALIKE = {
    # these transposes run only where batch = d_head, and there √batch is right
    ("heads and positions swapped", "root of the batch"), ("all axes reversed", "root of the batch"),
}  # fmt: skip
# Without a softmax nothing is before or after it, and the weights are the scores.
NO_ORDER = {"weights only", "divided after the softmax", "mask after softmax", "−∞ after softmax", "mask multiplied"}
PAIRS = [
    (a, b)
    for a, b in combinations(WRONG, 2)
    if not WRONG[a][1].keys() & WRONG[b][1].keys()
    and not ("scores only" in (a, b) and SOFTMAX_OR_LATER & {a, b})
    and not ("no softmax" in (a, b) and NO_ORDER & {a, b})
    and not ("weak fill" in (a, b) and NO_LOW_SCORES & {a, b})
    and "infinity times the mask" not in (a, b)  # NaN throughout, whatever else is wrong
    and (a, b) not in ALIKE
]
# These transposes run only where heads = d_head, and there √d_model = √(heads · d_head) is d_head itself.
ONE_NUMBER = {("divided by √d_model", "heads and positions swapped"), ("divided by √d_model", "all axes reversed")}


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_two_mistakes_at_once_are_both_named(first, second):
    (title_1, wrong_1), (title_2, wrong_2) = WRONG[first], WRONG[second]
    feedback = check.attention(steps(**wrong_1 | wrong_2))
    assert feedback.status == "wrong"
    said = " ".join(feedback.messages)
    if (first, second) in ONE_NUMBER:
        title_1 = WRONG["divided by d_k"][0]
    assert title_1 in said and title_2 in said, feedback


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("inverted", {"before": lambda s, m: s.masked_fill(m, -1e9)}),
        ("over the queries", {"before": lambda s, m: s.masked_fill(~m, -1e9), "normalise": lambda s: s.softmax(2)}),
        ("never used", {"before": masked_in_place_but_lost}),
        ("too weak", {"before": lambda s, m: s.masked_fill(~m, -1e4)}),
        ("too weak", {"before": lambda s, m: torch.where(m, s, -50.0)}),
        ("Every number is NaN", {"before": lambda s, m: s + (1 - m.float()) * -INFINITY}),
        ("Every number is NaN", {"before": lambda s, m: s * m - INFINITY * (1 - m.int())}),
        ("after the softmax", AFTER | {"after": lambda w, m: torch.where(m, w, 0.0)}),
    ],
)
def test_a_mistake_is_named_in_its_other_spellings(name, wrong):
    assert name in check.attention(steps(**wrong)).title


@pytest.mark.parametrize(
    "wrong",
    [
        {"normalise": lambda s: s.sigmoid()},
        {"scale": lambda s, q: s / 2},  # right where d_head = 4, as in the first input
        {"mix": lambda w, v, s: 1.01 * (w @ v)},
        {"normalise": lambda s: s.exp() / s.exp().sum()},
        {"score": lambda q, k: -torch.cdist(q, k)},
    ],
)
def test_an_unplanned_mistake_gets_the_first_difference_or_its_error(wrong):
    feedback = check.attention(steps(**wrong))
    assert feedback.status == "wrong"
    known = {mistake.title for mistake in ATTENTION.mistakes}
    assert feedback.title not in known and feedback.title != "Two things to repair"
    said = " ".join(feedback.messages)
    assert "query (2," in said or "query (1," in said  # the shapes of the input
    assert ("you have" in said and "expected" in said and "batch 0" in said) or "raises" in feedback.title


def test_whole_functions_called_with_their_arguments_exchanged_are_named():
    assert "Query and key have changed" in check.attention(lambda q, k, v, m: plain(k, q, v, m)).title
    assert "Key and value have changed" in check.attention(lambda q, k, v, m: plain(q, v, k, m)).title


@pytest.mark.parametrize(
    ("wrong", "title"),
    [
        ({"before": lambda s, m: s.clamp(-5, 5).masked_fill(~m, -INFINITY)}, "other numbers"),
        ({"mix": lambda w, v, s: torch.nan_to_num(0 / (w - w)) @ v}, "other numbers"),
        ({"mix": lambda w, v, s: (w @ v).detach() + 0 * (w @ v)}, "no gradient reaches query, key and value"),
        ({"mix": lambda w, v, s: w.detach() @ v}, "no gradient reaches query and key"),
        ({"mix": lambda w, v, s: 2 * (w @ v) - (w @ v).detach()}, "the gradient of query, key and value is not"),
        ({"mix": lambda w, v, s: w @ v + 0 * torch.sqrt(v * 0).sum()}, "the gradient of value is NaN"),
    ],
)
def test_right_numbers_on_small_scores_or_forward_alone_do_not_pass(wrong, title):
    assert title in check.attention(steps(**wrong)).title


def test_the_low_scores_are_exact_and_low_along_every_axis():
    query, key, _, mask = ATTENTION.built_cases[-1].inputs.values()
    scores = query @ key.mT / 4
    assert torch.equal(scores.double(), query.double() @ key.double().mT / 4)
    assert scores[mask].max() < -10_000 < 10_000 < scores[~mask].min()
    for axis in range(4):
        assert mask.any(axis).all() and (~mask).any(axis).all()


def test_an_easy_case_alone_does_not_pass_a_wrong_answer():
    """Half of √d_head is right on the first input only; the feedback speaks of a later one."""
    feedback = check.attention(steps(scale=lambda s, q: s / 2))
    assert "input 2 of 7" in feedback.messages[1]


def test_numbers_that_look_alike_are_shown_with_more_digits():
    """Filling with −10 leaves a trace: at four digits the two numbers would look the same."""
    feedback = check.attention(steps(before=lambda s, m: s.masked_fill(~m, -10.0)))
    have, expected = re.search(r"you have (\S+), expected (\S+)\. ", feedback.messages[0]).groups()
    assert have != expected and f"{float(have):.4g}" == f"{float(expected):.4g}"


# ----------------------------------------------------------------------- the same steps without mask, batch and heads


def plain_steps(**wrong):
    masked = steps(**wrong, before=lambda s, m: s)
    return lambda query, key, value: masked(query, key, value, None)


PLAIN_WRONG = {  # as a learner writes them for (position, width)
    "over the queries": {"normalise": lambda s: s.softmax(dim=0)},
    "softmax is missing": {"normalise": lambda s: s},
    "not scaled": {"scale": lambda s, q: s},
    "divided by d_k": {"scale": lambda s, q: s / q.shape[1]},
    "multiplied by √d_k": {"scale": lambda s, q: s * math.sqrt(q.shape[1])},
    "number of queries": {"scale": lambda s, q: s / math.sqrt(len(q))},
    "comes after the softmax": WRONG["divided after the softmax"][1],
    "K is not transposed": {"score": lambda q, k: q @ k},
    "changed places": {"score": lambda q, k: k @ q.T},
    "return the weights": {"mix": lambda w, v, s: w},
    "return the scores": {"mix": lambda w, v, s: s},
    "number of keys": {"score": lambda q, k: q @ k.T / len(k) ** 0.5, "scale": lambda s, q: s},
    "divided by d_k / 2": {"scale": lambda s, q: s / (q.shape[1] ** 1 / 2)},
    "divided by 2 · d_k": {"scale": lambda s, q: s / q.shape[1] ** 1 / 2},
    "applied twice": {"normalise": lambda s: s.softmax(1).softmax(1)},
    "reshaped": {"score": lambda q, k: q @ k.view(k.shape[1], k.shape[0])},
    "Key and value have changed": {"roles": lambda key, value: (value, key)},
}


def test_the_plain_steps_pass():
    feedback = check.attention_steps(lambda q, k, v: (q @ k.T / math.sqrt(q.shape[1])).softmax(dim=-1) @ v)
    assert feedback.status == "right" and "4 inputs" in feedback.messages[0]


@pytest.mark.parametrize("name", PLAIN_WRONG)
def test_each_known_mistake_of_the_plain_steps_is_named(name):
    feedback = check.attention_steps(plain_steps(**PLAIN_WRONG[name]))
    assert feedback.status == "wrong" and name in feedback.title


def test_the_plain_steps_know_no_other_mistakes():
    said = {check.attention_steps(plain_steps(**wrong)).title for wrong in PLAIN_WRONG.values()}
    assert said == {mistake.title for mistake in ATTENTION_STEPS.mistakes}


# ------------------------------------------------------------------------------------- the row mixed by hand

V, W = torch.tensor(HAND_VALUES), torch.tensor(HAND_WEIGHTS)
RIGHT_ROW = [sum(w * v[i] for w, v in zip(HAND_WEIGHTS, HAND_VALUES, strict=True)) for i in range(4)]


@pytest.mark.parametrize(
    "answer",
    [RIGHT_ROW, tuple(RIGHT_ROW), torch.tensor(RIGHT_ROW), W @ V, (W @ V).numpy(), list(W @ V), [0.8, 2, 1.1, 1.7],
     [[0.8, 2, 1.1, 1.7]], [[0.8], [2], [1.1], [1.7]]],
)
def test_the_right_row_passes_however_it_is_written(answer):
    feedback = check.mixed_row(answer)
    assert feedback.status == "right" and "0.005" in feedback.messages[0]


WRONG_ROWS = {
    "the winner's value vector": [1.0, 3.0, 0.0, 2.0],
    "only the winner's share": [0.6, 1.8, 0.0, 1.2],
    "the plain mean": [0.75, 1.0, 1.75, 1.75],
    "without the weights": [3, 4, 7, 7],
    "divided once more": [x / 4 for x in RIGHT_ROW],
    "applied to the coordinates": [sum(w * x for w, x in zip(HAND_WEIGHTS, row, strict=True)) for row in HAND_VALUES],
    "reverse order": [sum(w * v[i] for w, v in zip(HAND_WEIGHTS[::-1], HAND_VALUES, strict=True)) for i in range(4)],
    "not added yet": [[w * x for x in row] for w, row in zip(HAND_WEIGHTS, HAND_VALUES, strict=True)],
    "coordinates are added together": sum(RIGHT_ROW),
    "a hundred times": [100 * x for x in RIGHT_ROW],
    "row of the lesson": [0.30, 0.40, 0.75, 0.20],
    **{
        f"share of `{token}` is missing": [x - w * y for x, y in zip(RIGHT_ROW, row, strict=True)]
        for token, w, row in zip(("The", "bank", "approved", "it"), HAND_WEIGHTS, HAND_VALUES, strict=True)
    },
}


@pytest.mark.parametrize("name", WRONG_ROWS)
def test_each_known_wrong_row_is_named(name):
    feedback = check.mixed_row(WRONG_ROWS[name])
    assert feedback.status == "wrong" and name in feedback.title
    others = [check.mixed_row(row) for other, row in WRONG_ROWS.items() if other != name]
    assert feedback.title not in {other.title for other in others}


def test_an_unplanned_row_hears_which_numbers_are_off_and_not_the_right_ones():
    feedback = check.mixed_row([0.8, 2.0, 1.6, 1.7])
    assert feedback.messages[0] == "Counting from 1, number 3 of 4 is off: you have 1.6. The others are right."
    feedback = check.mixed_row([9, 8, 7, 6.5])
    assert feedback.messages[0] == (
        "Counting from 1, number 1, 2, 3 and 4 of 4 is off: you have 9, 8, 7 and 6.5. None is right yet."
    )
    for row in ([0.8, 2.0, 1.6, 1.7], [9, 8, 7, 6.5]):
        assert "1.1" not in str(check.mixed_row(row))


@pytest.mark.parametrize(
    ("answer", "part"),
    [
        (["0.8", 2, 1.1, 1.7], "text"),
        ([[1, 2], [3]], "numbers"),
        ("0.8 2 1.1 1.7", "text"),
        (lambda: RIGHT_ROW, "needs a value"),
        ([0.8, 2.0, 1.1], "another shape"),
        ([0.8, 2.0, 1.1, float("nan")], "not right yet"),
    ],
)
def test_a_row_of_another_kind_is_told_so(answer, part):
    feedback = check.mixed_row(answer)
    assert feedback.status == "wrong" and part in feedback.title


def test_the_row_of_the_lesson_is_the_one_it_prints():
    walk = walk_attention("The bank approved it", query=3)
    assert walk.output[3].tolist() == pytest.approx(LESSON_ROW, abs=0.002)


@pytest.mark.parametrize("answer", [..., None, [..., ..., ..., ...], [0.8, ..., ..., ...]])
def test_an_untouched_row_is_not_attempted(answer):
    assert check.mixed_row(answer).status == "not attempted"
