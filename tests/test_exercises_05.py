"""Lesson 05's exercises: each mistake of a learner, written as a learner writes it, gets its own feedback."""

import pytest
import torch

from mistakes import assert_all_differ, assert_named, assert_says, each_mistake, pairs_of_mistakes
from transformer_lab.model import masks
from transformer_lab.practice import check
from transformer_lab.practice.exercises.masks import CAUSAL_MASK, PADDING_MASK
from transformer_lab.practice.exercises.safe_softmax import SAFE_SOFTMAX

INFINITY = torch.inf
EXERCISES = {"causal": CAUSAL_MASK, "padding": PADDING_MASK, "softmax": SAFE_SOFTMAX}


@pytest.fixture(autouse=True)
def own_progress(tmp_path, monkeypatch):
    monkeypatch.setenv("TRANSFORMER_LAB_PROGRESS", str(tmp_path))


# ------------------------------------------------------------------ right answers, in the spellings learners use


def causal_by_tril(n_query, n_key):
    return torch.ones(n_query, n_key, dtype=torch.bool).tril(n_key - n_query)


def causal_by_comparison(n_query, n_key):
    return torch.arange(n_key) <= torch.arange(n_key - n_query, n_key)[:, None]


def causal_by_loops(n_query, n_key):
    rows = [[key <= query + n_key - n_query for key in range(n_key)] for query in range(n_query)]
    return torch.tensor(rows)


def causal_by_cutting(n_query, n_key):
    return ~torch.triu(torch.ones(n_key, n_key), diagonal=1).bool()[n_key - n_query :]


def padding_by_comparison(lengths, n_key):
    return (torch.arange(n_key) < lengths[:, None])[:, None, None, :]


def padding_by_loops(lengths, n_key):
    rows = [[[[place < length for place in range(n_key)]]] for length in lengths.tolist()]
    return torch.tensor(rows)


def padding_by_reshape(lengths, n_key):
    return torch.arange(n_key).expand(len(lengths), 1, 1, n_key) < lengths.view(-1, 1, 1, 1)


def softmax_by_masking_twice(scores, mask):
    return scores.masked_fill(~mask, -1e9).softmax(-1).masked_fill(~mask, 0.0)


def softmax_by_nan_to_num(scores, mask):
    return scores.masked_fill(~mask, -INFINITY).softmax(-1).nan_to_num(0.0)


def softmax_by_hand(scores, mask):
    scores = scores.masked_fill(~mask, -INFINITY)
    powers = (scores - scores.max(-1, keepdim=True).values.clamp(min=-1e30)).exp()
    return powers / powers.sum(-1, keepdim=True).clamp(min=1e-9)


def softmax_by_adding(scores, mask):
    return (scores + ~mask * -1e9).softmax(-1).masked_fill(~mask, 0.0)


RIGHT = {
    "causal": (causal_by_tril, causal_by_comparison, causal_by_loops, causal_by_cutting, masks.causal_mask),
    "padding": (padding_by_comparison, padding_by_loops, padding_by_reshape, masks.padding_mask),
    "softmax": (
        softmax_by_masking_twice, softmax_by_nan_to_num, softmax_by_hand, softmax_by_adding, masks.masked_softmax
    ),
}
CHECKS = {"causal": check.causal_mask, "padding": check.padding_mask, "softmax": check.safe_softmax}


@pytest.mark.parametrize(("name", "answer"), [(name, answer) for name, each in RIGHT.items() for answer in each])
def test_right_answers_pass_in_every_spelling(name, answer):
    feedback = CHECKS[name](answer)
    assert feedback.status == "right", feedback


def test_the_cases_are_the_deliberate_ones():
    padding = [case.inputs for case in PADDING_MASK.built_cases]
    assert any(len(inputs["lengths"]) == inputs["n_key"] for inputs in padding)
    assert any(0 in inputs["lengths"] for inputs in padding)
    assert any(case.inputs["n_query"] < case.inputs["n_key"] for case in CAUSAL_MASK.built_cases)
    softmax = [case.inputs for case in SAFE_SOFTMAX.built_cases]
    square = [each["mask"] for each in softmax if each["mask"].shape[0] == each["mask"].shape[1] > 2]
    assert any(not mask.any(-1).all() for mask in square)  # where a forgotten keepdim fits without an error
    # A hidden score far above all allowed ones, and allowed scores below any fill that learners call large.
    assert any((each["scores"].masked_fill(~each["mask"], -INFINITY).max() < -1e4) for each in softmax)


# --------------------------------------------- wrong answers, one step each, so that any two can be put together


def causal(triangle=torch.tril, corner=lambda q, k: k - q, shift=0, finish=lambda mask: mask):
    def my_causal_mask(n_query, n_key):
        return finish(triangle(torch.ones(n_query, n_key), corner(n_query, n_key) + shift) == 1)

    return my_causal_mask


def padding(
    compare=lambda place, lengths: place < lengths[:, None],
    finish=lambda real: real,
    shape=lambda real: real[:, None, None, :],
    place=torch.arange,
):
    def my_padding_mask(lengths, n_key):
        return shape(finish(compare(place(n_key), lengths)))

    return my_padding_mask


def softmax(
    forbid=lambda s, m: s.masked_fill(~m, -INFINITY),
    axis=-1,
    rows=lambda w, m: torch.where(m.any(-1, keepdim=True), w, 0.0),
):
    def my_safe_softmax(scores, mask):
        return rows(forbid(scores, mask).softmax(axis), mask)

    return my_safe_softmax


# name: (a part of its title, the steps it gets wrong). The curriculum's come first in each.
WRONG = {
    "causal": {
        "upper triangle": ("upper triangle", {"triangle": torch.triu}),
        "diagonal excluded": ("diagonal is excluded", {"shift": -1}),
        "sees the label": ("one token too many", {"shift": 1}),
        "top left": ("top left corner", {"corner": lambda q, k: 0}),
        "inverted": ("inverted", {"finish": lambda mask: ~mask}),
        "numbers": ("numbers 0 and 1", {"finish": lambda mask: mask.float()}),
        "result of tril lost": ("Nothing is hidden", {"triangle": lambda ones, k: (ones.tril(k), ones)[1]}),
        "additive": ("additive", {"finish": lambda mask: torch.where(mask, 0.0, -INFINITY)}),
    },
    "padding": {
        "queries": ("queries instead of keys", {"shape": lambda real: real[:, None].unsqueeze(-1)}),
        "inverted": ("inverted", {"finish": lambda real: ~real}),
        "no axes": ("only (batch, key)", {"shape": lambda real: real}),
        "pairs": (
            "one by one",
            {"compare": lambda place, lengths: (place < lengths).repeat(len(lengths), 1)},
        ),
        "transposed": ("changed places", {"compare": lambda place, lengths: place[:, None] < lengths[None, :]}),
        "both": ("as well as keys", {"shape": lambda real: real[:, None, None] * real[:, None, :, None]}),
        "three axes": ("three axes", {"shape": lambda real: real.unsqueeze(1)}),
        "one too many": ("One pad too many", {"compare": lambda place, lengths: place <= lengths.unsqueeze(1)}),
        "left": ("on the left", {"place": lambda n: torch.arange(n - 1, -1, -1)}),
    },
    "softmax": {
        "NaN": ("gives NaN", {"rows": lambda w, m: w}),
        "uniform": (
            "uniform average",
            {"forbid": lambda s, m: s.masked_fill(~m, -1e9), "rows": lambda w, m: w},
        ),
        "after": (
            "after the softmax",
            {"forbid": lambda s, m: s, "rows": lambda w, m: w * m},
        ),
        "renormalised": (
            "set the scale",
            {"forbid": lambda s, m: s, "rows": lambda w, m: w * m / (w * m).sum(-1, keepdim=True).clamp(min=1e-9)},
        ),
        "weak fill": ("too weak", {"forbid": lambda s, m: s.masked_fill(~m, -1e4)}),
        "no keepdim": ("without `keepdim`", {"rows": lambda w, m: w.masked_fill(~m.any(-1), 0.0)}),
        "all for any": ("one hidden key", {"rows": lambda w, m: w.masked_fill(~m.all(-1, keepdim=True), 0.0)}),
        "NaN spread": ("spoils all", {"rows": lambda w, m: w + 0 * w.sum()}),
        "zeros": ("set to 0", {"forbid": lambda s, m: s * m}),
        "ignored": ("never used", {"forbid": lambda s, m: s, "rows": lambda w, m: w}),
        "inverted": ("inverted", {"forbid": lambda s, m: s.masked_fill(m, -INFINITY)}),
    },
}
BUILD = {"causal": causal, "padding": padding, "softmax": softmax}
EACH = each_mistake(WRONG)


@pytest.mark.parametrize(("name", "mistake"), EACH)
def test_each_known_mistake_is_named(name, mistake):
    title, wrong = WRONG[name][mistake]
    assert_named(CHECKS[name](BUILD[name](**wrong)), title)


@pytest.mark.parametrize("name", WRONG)
def test_every_mistake_has_feedback_of_its_own(name):
    said = [CHECKS[name](BUILD[name](**wrong)) for _, wrong in WRONG[name].values()]
    assert_all_differ(said)


def test_a_softmax_over_the_queries_is_named():
    def my_safe_softmax(scores, mask):
        return softmax_by_nan_to_num(scores.T, mask.T).T

    assert "over the queries" in check.safe_softmax(my_safe_softmax).title


def shares(parts):
    return parts / parts.sum(-1, keepdim=True)


@pytest.mark.parametrize(
    ("answer", "title"),
    [
        (lambda s, m: shares(s.softmax(-1) * m).nan_to_num(0.0), "set the scale"),
        (lambda s, m: torch.where(m.any(-1, keepdim=True), shares(s.softmax(-1) * m), 0.0), "set the scale"),
        (lambda s, m: shares((s - s.amax(-1, keepdim=True)).exp() * m).nan_to_num(0.0), "set the scale"),
        (lambda s, m: shares(s.exp() * m).nan_to_num(0.0), "overflows"),
        (lambda s, m: torch.where(m.any(-1, keepdim=True), shares(s.exp() * m), 0.0), "overflows"),
        (lambda s, m: s.exp() * m / ((s.exp() * m).sum(-1, keepdim=True) + 1e-9), "overflows"),
        (lambda s, m: s.masked_fill(~m, -30.0).softmax(-1).masked_fill(~m, 0.0), "too weak"),
        (lambda s, m: (s + ~m * -1e4).softmax(-1).masked_fill(~m, 0.0), "too weak"),
        (lambda s, m: torch.where(m.any(-1), s.masked_fill(~m, -1e9).softmax(-1), 0.0), "without `keepdim`"),
        (lambda scores, mask: (scores + torch.where(mask, 0.0, -INFINITY)).softmax(-1), "gives NaN"),
        (lambda scores, mask: scores.masked_fill(~mask, torch.finfo().min).softmax(-1), "uniform average"),
        (lambda scores, mask: softmax_by_nan_to_num(scores, ~mask), "inverted"),
        (lambda scores, mask: softmax_by_masking_twice(scores, ~mask), "inverted"),
    ],
)
def test_a_softmax_mistake_is_named_in_its_other_spellings(answer, title):
    assert title in check.safe_softmax(answer).title


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (lambda s, m: shares(s.softmax(-1) * m), "set the scale"),
        (lambda s, m: shares(s.exp() * m), "overflows"),
    ],
)
def test_a_division_of_zero_by_zero_is_named_beside_the_other_fault(answer, fault):
    feedback = check.safe_softmax(answer)
    assert feedback.title == "Two things to repair"
    assert "0 / 0" in feedback.messages[0] and fault in feedback.messages[1]


@pytest.mark.parametrize(
    "answer",
    [
        lambda lengths, n_key: (torch.arange(n_key) < lengths)[:, None, None, :],
        lambda lengths, n_key: (lengths > torch.arange(n_key))[:, None, None, :],
        lambda lengths, n_key: (torch.arange(n_key) < lengths)[None, None, None],
        lambda lengths, n_key: torch.arange(n_key) < lengths,
    ],
)
def test_positions_beside_lengths_are_named_although_they_clash(answer):
    """The first input makes torch raise; the mistake is named all the same, however the axes are added."""
    assert "one by one" in " ".join((feedback := check.padding_mask(answer)).messages) + feedback.title


PAIRS = pairs_of_mistakes(WRONG, ("causal", "padding"))
# Both together are one other mistake, or none at all, and that is what the check says.
ANOTHER = {
    ("causal", "upper triangle", "sees the label"): "inverted",
    ("causal", "diagonal excluded", "result of tril lost"): "Nothing is hidden",
    ("causal", "sees the label", "result of tril lost"): "Nothing is hidden",
    ("causal", "top left", "result of tril lost"): "Nothing is hidden",
    ("causal", "upper triangle", "inverted"): "diagonal is excluded",
    ("causal", "diagonal excluded", "inverted"): "upper triangle",
}


@pytest.mark.parametrize(("name", "first", "second"), PAIRS)
def test_two_mistakes_at_once_are_both_named(name, first, second):
    (title_1, wrong_1), (title_2, wrong_2) = WRONG[name][first], WRONG[name][second]
    other = ANOTHER.get((name, first, second))
    assert_says(CHECKS[name](BUILD[name](**wrong_1 | wrong_2)), *([other] if other else [title_1, title_2]))


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("causal", lambda n_query, n_key: torch.eye(n_query, n_key, dtype=torch.bool)),
        ("padding", lambda lengths, n_key: torch.ones(len(lengths), 1, 1, n_key, dtype=torch.bool)),
        ("softmax", lambda scores, mask: scores.masked_fill(~mask, -INFINITY).sigmoid()),
    ],
)
def test_an_unplanned_mistake_gets_the_first_difference(name, answer):
    feedback = CHECKS[name](answer)
    assert feedback.status == "wrong" and "First difference at" in feedback.messages[0], feedback


@pytest.mark.parametrize("name", CHECKS)
def test_an_untouched_stub_is_not_attempted(name):
    def stub(first, second):
        ...

    assert CHECKS[name](stub).status == "not attempted"


def test_a_softmax_that_writes_into_its_scores_is_told_so():
    def my_safe_softmax(scores, mask):
        return scores.masked_fill_(~mask, -INFINITY).softmax(-1).nan_to_num(0.0)

    assert "writes into its input scores" in " ".join(check.safe_softmax(my_safe_softmax).messages)
