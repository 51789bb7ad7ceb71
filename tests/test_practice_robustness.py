"""The checks under odd conditions: gradients, NaN, settings of torch, answers that nobody thought of."""

import random
import warnings
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import numpy
import pytest
import torch

from transformer_lab.practice import check
from transformer_lab.practice.auditing import weak_points
from transformer_lab.practice.checking import Case, FunctionExercise, Mistake, Output, seeded
from transformer_lab.practice.values import ValueExercise


@pytest.fixture(autouse=True)
def own_progress(tmp_path, monkeypatch):
    monkeypatch.setenv("TRANSFORMER_LAB_PROGRESS", str(tmp_path))


ROW_SUMS = FunctionExercise(
    "n_pairs",  # the name only says which progress entry and which docstring
    "Sum every row.",
    lambda x: x.sum(-1),
    lambda: (Case("a square input", {"x": seeded(4, 4)}), Case("a wide input", {"x": seeded(3, 5, seed=1)})),
    outputs=(Output("result", ("row",)),),
    differentiable=("x",),
)
TWO = FunctionExercise(
    "two",
    "Two things.",
    lambda x: (x + 1, x - 1),
    lambda: (Case("three numbers", {"x": seeded(3)}),),
    outputs=(Output("first"), Output("second")),
    differentiable=("x",),
)


def said(feedback):
    return " ".join((feedback.title, *feedback.messages))


# ------------------------------------------------------------------------------ gradients, NaN, settings of torch


def masked(scores, mask, *, hidden="filled"):
    if hidden == "multiplied":
        return (scores + ~mask * -torch.inf).softmax(-1)
    return scores.masked_fill(mask.logical_not(), -torch.inf).softmax(-1).nan_to_num(0.0)


EMPTY = {"scores": seeded(2, 3), "mask": torch.tensor([[True, True, False], [False, False, False]])}
MASKED = FunctionExercise(
    "masked", "A softmax.", masked, lambda: (Case("an empty row", EMPTY),), differentiable=("scores",)
)


@pytest.mark.parametrize(
    "answer",
    [
        lambda s, m: torch.nan_to_num((s + torch.where(m, 0.0, -torch.inf)).softmax(-1)),
        lambda s, m: torch.nan_to_num((s + m.float().log()).softmax(-1)),
        lambda s, m: (w := (s + m.float().log()).softmax(-1)).where(~w.isnan(), 0.0),
    ],
)
def test_a_nan_that_returns_on_the_way_backward_is_named(answer):
    for feedback in (MASKED.judge(answer), check.safe_softmax(answer)):
        assert feedback.status == "wrong"
        assert "forward pass is right, but backward the gradient of scores is NaN" in feedback.title


@pytest.mark.parametrize(
    ("answer", "title"),
    [
        (lambda x: x.sum(1).detach() + 0 * x.sum(1), "no gradient reaches x"),
        (lambda x: 3 * x.sum(1) - 2 * x.sum(1).detach(), "the gradient of x is not"),
        (lambda x: x.sum(1) if x.shape == (4, 4) else x.detach().sum(1), "no gradient reaches x"),  # on a later case
        (lambda x: x.sum(1) + 0 * torch.sqrt(x * 0).sum(), "the gradient of x is NaN"),
    ],
)
def test_a_gradient_is_compared_on_every_case(answer, title):
    assert title in ROW_SUMS.judge(answer).title


def test_the_gradient_of_every_output_counts():
    assert TWO.judge(lambda x: (x + 1, x - 1)).status == "right"
    assert "gradient of x is not" in TWO.judge(lambda x: (x + 1, x.detach() - 1)).title


def test_a_learner_who_stops_gradients_fails_that_check_alone():
    def stops(x):
        torch.set_grad_enabled(False)
        return x.sum(1)

    assert "no gradient reaches x" in ROW_SUMS.judge(stops).title
    assert torch.is_grad_enabled() and ROW_SUMS.judge(lambda x: x.sum(1)).status == "right"


@pytest.mark.parametrize("switched_off", [torch.no_grad, torch.inference_mode, lambda: torch.set_grad_enabled(False)])
def test_a_right_answer_passes_where_the_notebook_has_gradients_off(switched_off):
    fresh = replace(ROW_SUMS)  # its cases are built inside
    with switched_off():
        assert fresh.judge(lambda x: x.sum(1)).status == "right"
        assert not torch.is_grad_enabled()
    assert fresh.judge(lambda x: x.sum(1)).status == "right"


def test_other_settings_of_torch_are_put_back():
    def meddles(x):
        torch.set_default_dtype(torch.float64)
        for seed in (torch.manual_seed, random.seed, numpy.random.seed):
            seed(0)
        return x.sum(1)

    def draws():
        return torch.rand(()).item(), random.random(), numpy.random.rand()

    for seed in (torch.manual_seed, random.seed, numpy.random.seed):
        seed(8)
    expected = draws()
    for seed in (torch.manual_seed, random.seed, numpy.random.seed):
        seed(8)
    assert ROW_SUMS.judge(meddles).status == "right"
    assert draws() == expected and torch.get_default_dtype() == torch.float32
    torch.set_default_dtype(torch.float64)  # as a notebook may have it
    try:
        assert replace(ROW_SUMS).judge(lambda x: x.sum(1)).status == "right"
        assert torch.get_default_dtype() == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


def undefined(x, *, first=0, second=0, third=0):
    """Each of the first two gives numbers, both together give 0 / 0; the third gives NaN by itself."""
    return torch.where(torch.tensor(first * second + third > 0), torch.nan, x + first + 2 * second)


NAN = FunctionExercise(
    "nan",
    "N.",
    undefined,
    lambda: (Case("four", {"x": seeded(4)}),),
    mistakes=(Mistake({"first": 1}, "First", "…"), Mistake({"second": 1}, "Second", "…")),
)


def test_nan_alone_is_no_pair_of_mistakes():
    assert "NaN or infinity" in NAN.judge(lambda x: x * torch.nan).title
    assert weak_points(NAN) == ["First + Second: gives nothing but NaN on every case"]


def test_nan_alone_may_be_one_known_mistake():
    third = replace(NAN, mistakes=(*NAN.mistakes[:1], Mistake({"third": 1}, "Third", "…")))
    assert third.judge(lambda x: x * torch.nan).title == "Third" and weak_points(third) == []


@pytest.mark.parametrize(
    "answer",
    [
        lambda s, m: (s + ~m * -torch.inf).softmax(-1),
        lambda s, m: (s - (1 - m.int()) * torch.inf).softmax(-1).nan_to_num(0.0),
        lambda s, m: torch.where(m.any(-1, keepdim=True), (s + ~m * -torch.inf).softmax(-1), 0.0),
        lambda s, m: (s + ~m * -torch.inf).softmax(-1).masked_fill(~m, 0.0),
    ],
)
def test_infinity_times_a_mask_is_named(answer):
    assert "0 · ∞ is NaN" in check.safe_softmax(answer).title


# --------------------------------------------------------------------------------------------- answers of odd kinds


class Looped:
    def __call__(self, x):
        return x.sum(1)


looped_object = Looped()
looped_object.__wrapped__ = looped_object


class Nameless:
    def __call__(self, x):
        raise Speechless

    @property
    def __name__(self):
        raise RuntimeError


class Speechless(Exception):
    def __str__(self):
        raise ZeroDivisionError


class Unusual(BaseException):
    pass


def exits(x):
    raise SystemExit(1)


def ends(x):
    raise Unusual("the end")


def deep():
    nest = ()
    for _ in range(100_000):
        nest = (nest,)
    return nest


def endless():
    items = [1.0]
    items.append(items)
    return items


class Unreadable:
    @property
    def __class__(self):
        raise ZeroDivisionError("no class")


NESTED = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # the older layout announces that it will go
    OLD_NESTED = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])


ODD = {  # what is said: the answer
    "raises SystemExit": exits,
    "raises Unusual": ends,
    "Your function raises Speechless": Nameless(),
    "cannot read this answer": lambda x: deep(),
    "not a list": lambda x: endless(),
    "nested tensor": lambda x: NESTED,
    "sparse tensor": lambda x: x.sum(1).to_sparse(),
    "complex64": lambda x: x.sum(1) + 0j,
    "no class": lambda x: Unreadable(),
}


@pytest.mark.parametrize("part", ODD)
def test_no_odd_answer_ends_in_a_traceback(part):
    feedback = check._checked(ROW_SUMS, ODD[part])
    assert feedback.status == "wrong" and part in said(feedback), feedback
    assert repr(feedback) and feedback._repr_html_()


def test_a_chain_of_wrappers_without_an_end_does_not_matter():
    assert check._checked(ROW_SUMS, looped_object).status == "right"


ODD_NUMBERS = (
    10**400, 10**5000, 1 + 1j, torch.tensor(1j), NESTED, OLD_NESTED, deep(), "1", [1], float("nan"), float("inf")
)  # fmt: skip


@pytest.mark.parametrize("value", ODD_NUMBERS, ids=range(len(ODD_NUMBERS)))
def test_odd_numbers_are_refused_in_words(value):
    feedback = check.n_pairs(lambda n: value)
    assert feedback.status == "wrong" and "lives" not in said(feedback)


ODD_ROWS = ([10**400] * 4, endless(), deep(), torch.ones(4) + 0j, NESTED, OLD_NESTED, torch.ones(4).to_sparse())


@pytest.mark.parametrize("row", ODD_ROWS, ids=range(len(ODD_ROWS)))
def test_odd_rows_are_refused_in_words(row):
    assert check.mixed_row(row).status == "wrong"


ONE = ValueExercise("one", "One.", 1, "the number")


@pytest.mark.parametrize(
    ("value", "title", "part"),
    [
        ("1", "This is text", "Give one number, without quotes."),
        (True, "True and False are no numbers", "Give one number."),
        (numpy.bool_(True), "True and False are no numbers", "Give one number."),
        (torch.tensor([True]), "True and False are no numbers", "Give one number."),
        (1j, "does not read as numbers", "Give one number, and nothing around it."),
    ],
)
def test_text_and_truth_are_no_numbers(value, title, part):
    feedback = ONE.judge(value)
    assert feedback.status == "wrong" and title in feedback.title and part in said(feedback)
    assert ONE.judge(1).status == ONE.judge([numpy.float32(1)]).status == "right"


@pytest.mark.parametrize("stops", [KeyboardInterrupt, GeneratorExit])
def test_an_interrupt_leaves_the_check(stops):
    def interrupted(n_tokens):
        raise stops

    with pytest.raises(stops):
        check.n_pairs(interrupted)


@pytest.mark.parametrize(
    "answer",
    [
        lambda n: numpy.int64(n) ** 2, lambda n: numpy.prod([n, n]), lambda n: numpy.array(n * n),
        lambda n: n * float(n), lambda n: torch.tensor(n * n), lambda n: Fraction(n) ** 2, lambda n: Decimal(n * n),
    ],
)  # fmt: skip
def test_a_right_number_passes_in_every_wrapping(answer):
    assert check.n_pairs(answer).status == "right"


def test_a_hat_for_a_power_is_named():
    assert "`^` is not a power" in check.n_pairs(lambda n: n ^ 2).title


def test_numbers_are_shown_with_as_few_digits_as_tell_them_apart():
    exercise = FunctionExercise("n", "N.", lambda x: x, lambda: (Case("one", {"x": torch.tensor([1.04551])}),))
    assert "you have 1.0456, expected 1.0455. " in said(exercise.judge(lambda x: x + 1e-4))
    assert "you have 1.0455, expected 1.0455" not in said(exercise.judge(lambda x: x + 3e-5))
    assert "you have 2.046, expected 1.046. " in said(exercise.judge(lambda x: x + 1))


def test_advice_fits_the_answer():
    named = ROW_SUMS.judge(lambda *, x: x)
    assert "It takes `x` by name only; the check gives 1 without names: `x`. Drop the `*`." in said(named)
    mask = FunctionExercise("m", "M.", lambda n: torch.ones(n, dtype=torch.bool), lambda: (Case("3", {"n": 3}),))
    assert "gradient" not in said(mask.judge(lambda n: numpy.ones(n, dtype=bool)))
    assert "gradient" in said(ROW_SUMS.judge(lambda x: x.sum(1).numpy()))


@pytest.mark.parametrize("number", [torch.int64, torch.int32, torch.float32])
def test_masks_of_numbers_are_named_whatever_their_type(number):
    causal = lambda n_query, n_key: torch.ones(n_query, n_key).tril(n_key - n_query)  # noqa: E731
    padding = lambda lengths, n_key: (torch.arange(n_key) < lengths[:, None])[:, None, None, :]  # noqa: E731
    assert "numbers 0 and 1" in check.causal_mask(lambda q, k: causal(q, k).to(number)).title
    assert "numbers 0 and 1" in check.padding_mask(lambda lengths, k: padding(lengths, k).to(number)).title
    for fill in (-torch.inf, -1e9, -1e4):
        assert "additive" in check.causal_mask(lambda q, k: torch.where(causal(q, k) > 0, 0.0, fill)).title  # noqa: B023
        bias = lambda lengths, k: torch.where(padding(lengths, k), 0.0, fill)  # noqa: E731, B023
        assert "additive" in check.padding_mask(bias).title
