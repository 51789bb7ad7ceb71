"""The engine of the checks: stubs, kinds, shapes, errors, changed inputs, gradients, and what it says about them."""

import warnings
from dataclasses import FrozenInstanceError, replace

import pytest
import torch
from torch import nn

from transformer_lab.practice import check
from transformer_lab.practice.auditing import unseen_inputs, weak_points
from transformer_lab.practice.checking import Case, FunctionExercise, Mistake, Output, seeded
from transformer_lab.practice.feedback import Feedback
from transformer_lab.practice.running import Limited
from transformer_lab.practice.values import KnownValue, ValueExercise


@pytest.fixture(autouse=True)
def own_progress(tmp_path, monkeypatch):
    monkeypatch.setenv("TRANSFORMER_LAB_PROGRESS", str(tmp_path))


def row_sums(x, *, over="columns", divided=False):
    total = x.sum(-2 if over == "rows" else -1)
    return total / x.shape[-1] if divided else total


ROW_SUMS = FunctionExercise(
    name="row_sums",
    title="Sum every row.",
    reference=row_sums,
    cases=lambda: (Case("a square input", {"x": seeded(4, 4)}), Case("a wide input", {"x": seeded(3, 5, seed=1)})),
    outputs=(Output("result", ("row",)),),
    differentiable=("x",),
    mistakes=(
        Mistake({"over": "rows"}, "The sum runs down the columns", "Sum the last axis."),
        Mistake({"divided": True}, "This is the mean", "Leave out the division."),
    ),
)


FUNCTIONS = [exercise for exercise in check.EXERCISES if isinstance(exercise, FunctionExercise)]


def said(feedback):
    return " ".join((feedback.title, *feedback.messages))


# ---------------------------------------------------------------------------------------------- every exercise


@pytest.mark.parametrize("exercise", check.EXERCISES, ids=lambda e: e.name)
def test_the_cases_tell_every_mistake_from_the_right_answer_and_from_the_others(exercise):
    assert weak_points(exercise) == []


@pytest.mark.parametrize("exercise", check.EXERCISES, ids=lambda e: e.name)
def test_every_exercise_has_a_documented_check_that_keeps_progress(exercise):
    function = getattr(check, exercise.name)
    assert function.__doc__
    assert function(...).status == "not attempted"
    if isinstance(exercise, FunctionExercise):
        assert function(exercise.reference).status == "right"
    else:
        assert function(exercise.answer).status == "right"
    assert check.progress.show().exercises[exercise.name]["solved"] is True


@pytest.mark.parametrize("exercise", FUNCTIONS, ids=lambda e: e.name)
def test_no_input_can_be_taken_for_granted(exercise):
    assert unseen_inputs(exercise) == []


def test_unseen_inputs_reports_what_could_be_written_into_the_answer():
    twice = lambda x: 2 * x  # noqa: E731
    blind = FunctionExercise(
        "blind",
        "B.",
        lambda x, n, f: f(x).sum(-1) + n,
        lambda: (
            Case("one", {"x": seeded(2, 3), "n": 1, "f": twice}), Case("two", {"x": seeded(4, 5), "n": 1, "f": twice})
        ),
    )  # fmt: skip
    found = unseen_inputs(blind)
    assert [point.split(":")[0] for point in found] == ["x", "x", "x", "n", "f"]
    assert "x: sorted along axis 1 changes no answer" in found and "n: always 1" in found
    assert "f: the function of one case does for all" in found


def test_weak_points_reports_cases_that_are_too_easy():
    symmetric = seeded(4, 4) + seeded(4, 4).T
    easy = replace(ROW_SUMS, cases=lambda: (Case("a symmetric input", {"x": symmetric}),))
    assert any("columns" in point and "equals the right answer" in point for point in weak_points(easy))
    never = Mistake({"over": "nowhere", "unknown": 1}, "Never runs", "…")
    assert any("known by its error alone" in point for point in weak_points(replace(ROW_SUMS, mistakes=(never,))))
    twins = (*ROW_SUMS.mistakes, replace(ROW_SUMS.mistakes[1], title="Also the mean"))
    assert any("cannot tell them apart" in point for point in weak_points(replace(ROW_SUMS, mistakes=twins)))
    close = ValueExercise("n", "N.", 4, "the number", (KnownValue(4.004, "Close", "…"),))
    assert weak_points(close) == ["the answer and Close are the same value"]


# ------------------------------------------------------------------------------------------- not attempted yet


def untouched(x): ...


def passed(x):
    """Sum every row."""
    # your code here
    pass


def returns_ellipsis(x):
    total = ...
    return total


def returns_none(x):
    return None


def not_implemented(x):
    raise NotImplementedError


def half_way(x):
    total = ...
    return total * 1.0


@pytest.mark.parametrize(
    "answer", [..., None, untouched, passed, returns_ellipsis, returns_none, not_implemented, half_way, lambda x: ...]
)
def test_an_unfinished_stub_is_not_attempted(answer):
    feedback = ROW_SUMS.judge(answer)
    assert feedback.status == "not attempted"
    assert repr(feedback).startswith("○ Not attempted yet.")


def without_brackets(x):
    return (x > 0.5 & x.bool()).float().sum(-1)


def of_whole_numbers(x):
    return x.long().softmax(-1).sum(-1)


@pytest.mark.parametrize(("answer", "advice"), [(without_brackets, "in brackets"), (of_whole_numbers, "`.float()`")])
def test_what_torch_does_not_implement_is_an_error_of_the_answer(answer, advice):
    feedback = ROW_SUMS.judge(answer)
    assert feedback.status == "wrong" and advice in said(feedback)


def test_an_unfinished_line_is_pointed_at():
    assert "line 3 of `half_way`: `return total * 1.0`" in said(ROW_SUMS.judge(half_way))


def test_the_untouched_stub_leaves_no_trace_in_the_progress_file(tmp_path):
    check.attention(untouched)
    assert list(tmp_path.iterdir()) == []


def test_the_display_of_a_stub_never_varies():
    first, second = ROW_SUMS.judge(untouched), ROW_SUMS.judge(lambda x: ...)
    assert repr(first) == repr(second) and first._repr_html_() == second._repr_html_()
    assert "0x" not in repr(first)


# --------------------------------------------------------------------------------- the right answer, and mistakes


def test_right_says_what_was_verified():
    feedback = ROW_SUMS.judge(lambda x: x.sum(1))
    assert feedback.status == "right"
    assert feedback.messages == (
        "Checked on 2 inputs: a square input and a wide input. Your inputs stay unchanged; gradients reach x.",
    )


def test_single_mistakes_and_pairs_are_recognised():
    assert ROW_SUMS.judge(lambda x: x.sum(0)).title == "The sum runs down the columns"
    assert ROW_SUMS.judge(lambda x: x.mean(1)).title == "This is the mean"
    both = ROW_SUMS.judge(lambda x: x.sum(0) / x.shape[1])
    assert both.title == "Two things to repair" and "columns" in said(both) and "mean" in said(both)


def no_return(x):
    x.sum(1)


@pytest.mark.parametrize(
    ("answer", "parts"),
    [
        (no_return, ("not None", "`return`")),
        (lambda x: x.sum(1).numpy(), ("numpy array", "torch")),
        (lambda x: x.sum(1).tolist(), ("not a list", ".tolist()", "gradient")),
        (lambda x: list(x.sum(1)), ("not a list", "`torch.stack` joins")),
        (lambda x: [x.sum(1)], ("not a list", "without the brackets")),
        (lambda x: [], ("not a list", "Your list is empty")),
        (lambda x: ["1", "2"], ("not a list", "whose first entry is text")),
        (lambda x: (x.sum(1), x), ("return 2 things", "result alone")),
        (lambda x: x.sum().item(), ("not a number", ".item()")),
        (lambda x: "sum", ("not text",)),
        (lambda x: {"sum": x.sum(1)}, ("not a dict",)),
        (lambda x: nn.Linear(2, 2), ("not a Linear",)),
        (lambda x: x.sum(1).double(), ("float64", "Keep the dtype of the inputs, float32")),
        (lambda x: x.sum(1) > 0, ("bool", "a comparison gives True and False")),
        (lambda x: x.sum(1).long(), ("int64", "The fractions are lost")),
        (lambda x: x.double(), ("another shape", "(4, 4)")),  # the shape comes before the dtype
        (lambda x: torch.tensor([]).double(), ("Nothing is in the result", "shape (0,)", "(row 4)")),
        (lambda x: x.sum(1).to("meta"), ("meta",)),
        (lambda x: x.sum(1, keepdim=True), ("another shape", "(4, 1)", "(row 4)", "keepdim")),
        (lambda x: x, ("another shape", "(4, 4)", "2 axes instead of 1")),
        (lambda x: x.sum(1) * torch.nan, ("NaN", "4 of 4")),
        (lambda x: x.sum(1) + 1, ("other numbers", "row 0: you have", "expected", "4 of 4", "(row 4)")),
        (lambda x: x.sum(), ("another shape", "()")),
    ],
)
def test_each_wrong_kind_is_said(answer, parts):
    feedback = ROW_SUMS.judge(answer)
    assert feedback.status == "wrong"
    for part in parts:
        assert part in said(feedback), feedback


def test_the_first_difference_is_where_it_says_with_both_values():
    def off_at_two(x):
        total = x.sum(1)
        total[2] += 0.5
        return total

    expected = float(seeded(4, 4)[2].sum())
    assert f"row 2: you have {expected + 0.5:.4g}, expected {expected:.4g}. 1 of 4" in said(ROW_SUMS.judge(off_at_two))


def test_swapped_axes_are_noticed():
    table = FunctionExercise("t", "T.", lambda x: x + 1, lambda: (Case("any", {"x": seeded(2, 3)}),))
    assert "an axis is swapped" in said(table.judge(lambda x: (x + 1).T))


@pytest.mark.parametrize(
    ("answer", "part"),
    [
        (seeded(3), "Hand over the function itself: `check.row_sums(my_function)`"),
        ("row_sums", "Hand over the function itself"),
        (lambda: 1, "It takes no arguments; the check gives it 1: `x`."),
        (lambda x, y: 1, "It takes `x`, `y`; the check gives it 1: `x`."),
    ],
)
def test_what_cannot_be_called_is_said(answer, part):
    feedback = ROW_SUMS.judge(answer)
    assert feedback.status == "wrong" and part in said(feedback)


def test_other_callables_are_welcome():
    class Sums(nn.Module):
        def forward(self, x):
            return x.sum(-1)

    assert ROW_SUMS.judge(Sums()).status == "right"
    assert ROW_SUMS.judge(lambda *tensors: tensors[0].sum(-1)).status == "right"


# ----------------------------------------------------------------------------------- errors in the learner's code


def helper(x):
    return x @ torch.ones(7)


def uses_helper(x):
    y = x * 2
    return helper(y)


def test_a_raise_becomes_one_line_with_its_place_and_the_shapes():
    feedback = ROW_SUMS.judge(uses_helper)
    assert feedback.title == "`uses_helper` raises RuntimeError"
    assert "line 3 of `uses_helper`: `return helper(y)`" in feedback.messages[0]
    assert "x (4, 4)" in feedback.messages[1]
    assert "Traceback" not in repr(feedback) and len(feedback.messages) == 2


def test_a_raise_everywhere_is_not_taken_for_a_mistake_that_never_runs():
    never = Mistake({"over": "nowhere", "unknown": 1}, "Never runs", "…")
    assert "raises" in replace(ROW_SUMS, mistakes=(never,)).judge(uses_helper).title


def clash(x, *, turned=False):
    return x + torch.arange(7) if turned else x


@pytest.mark.parametrize(
    ("answer", "named"),
    [
        (lambda x: x + torch.arange(7), "The sum"),
        (lambda x: torch.arange(7) + x, "The sum"),  # the same clash, its sizes in the other order
        (lambda x: x + torch.arange(8), "raises RuntimeError"),
        (lambda x: x[99], "raises IndexError"),
    ],
)
def test_a_raise_everywhere_is_a_known_mistake_only_if_that_clashes_in_the_same_way(answer, named):
    known = Mistake({"turned": True}, "The sum has another length", "…")
    assert named in replace(ROW_SUMS, reference=clash, mistakes=(known,)).judge(answer).title


def test_a_raise_on_a_later_input_is_seen():
    feedback = ROW_SUMS.judge(lambda x: x.sum(1) if x.shape == (4, 4) else x[99])
    assert feedback.title == "Your function raises IndexError" and "x (3, 5)" in said(feedback)


def waits(x, ready):
    while not ready():
        pass
    return x.sum(1)


def gives_up(x, ready):
    for _ in range(4):
        if ready():
            break
    return x.sum(1)


def waiting(x, ready, *, patient=False):
    return waits(x, ready) if patient else gives_up(x, ready)


WAITING = FunctionExercise(
    "waiting",
    "Wait, but not for ever.",
    waiting,
    lambda: tuple(
        Case(label, {"x": seeded(3, 4), "ready": Limited(lambda: now, 20)})  # noqa: B023
        for label, now in (("at once", True), ("never", False))
    ),
)


def test_a_loop_without_an_end_is_stopped_and_named():
    assert WAITING.judge(gives_up).status == "right"
    for _ in range(2):  # every run has a count of its own
        feedback = WAITING.judge(waits)
        assert feedback.title == "The loop in `waits` does not end"
        assert "line 2 of `waits`: `while not ready():`" in said(feedback)
    known = replace(WAITING, mistakes=(Mistake({"patient": True}, "It waits for ever", "…"),))
    assert known.judge(waits).title == "It waits for ever"


def subtracts_means(x):
    return (x - x.mean(-1)).sum(-1)


@pytest.mark.parametrize(
    ("answer", "part"),
    [
        (lambda x: max(0, x).sum(1), "`torch.relu(x)` or `x.clamp(min=0)`"),
        (lambda x: x.sum(1) if x > 0 else x.sum(1), "`torch.where` for `if`"),
        (subtracts_means, "`keepdim=True` keeps the axis"),
    ],
)
def test_what_torch_leaves_unsaid_is_added(answer, part):
    narrow = replace(ROW_SUMS, cases=lambda: (Case("a wide input", {"x": seeded(3, 5)}),))
    feedback = narrow.judge(answer)
    assert "raises RuntimeError" in feedback.title and part in feedback.messages[1], feedback


@pytest.mark.parametrize(
    "answer",
    [
        lambda x: x + torch.arange(7),  # nothing is reduced
        lambda x: x.sum(-1, keepdim=True) + x + torch.arange(7),  # the axis is kept
    ],
)
def test_keepdim_is_named_only_where_an_axis_was_dropped(answer):
    assert "keeps the axis" not in said(ROW_SUMS.judge(answer))


def adds_in_place(x):
    total = x * 1
    squares = total * total
    total += 1
    return x.sum(1) + 0 * squares.sum(1)


def raises_with_gradients(x):
    if x.requires_grad:
        raise ValueError("no")
    return x.sum(1)


@pytest.mark.parametrize(
    ("answer", "part"),
    [
        (adds_in_place, "overwrites numbers that the gradient still needs. Make a new tensor instead: `x = x + …`"),
        (raises_with_gradients, "for gradients raises ValueError: no. It is in line 3 of `raises_with_gradients`"),
    ],
)
def test_an_error_on_the_way_backward_has_its_own_sentence(answer, part):
    feedback = ROW_SUMS.judge(answer)
    assert feedback.title == "The numbers are right, but the backward pass fails"
    assert part in said(feedback) and "one of the variables" not in said(feedback)


LONG = "no " * 500 + "\nsecond line"


def test_an_error_without_a_message_and_a_long_one():
    def bare(x):
        raise ValueError

    def wordy(x):
        raise ValueError(LONG)

    assert "no message" in said(ROW_SUMS.judge(bare))
    assert len(said(ROW_SUMS.judge(wordy))) < 400 and "second line" not in said(ROW_SUMS.judge(wordy))


def test_an_interrupt_is_not_swallowed():
    def interrupted(x):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ROW_SUMS.judge(interrupted)


# ------------------------------------------------------------------------------------ changed inputs and gradients


def test_a_changed_input_fails_even_with_the_right_numbers_and_the_originals_are_safe():
    def in_place(x):
        total = x.sum(1)
        x.zero_()
        return total

    before = ROW_SUMS.built_cases[0].inputs["x"].clone()
    feedback = ROW_SUMS.judge(in_place)
    assert feedback.status == "wrong" and "an input was changed" in feedback.title and "input x" in said(feedback)
    assert torch.equal(ROW_SUMS.built_cases[0].inputs["x"], before)


def test_a_changed_input_is_mentioned_beside_a_mistake():
    def in_place(x):
        return x.div_(x.shape[1]).sum(1)

    feedback = ROW_SUMS.judge(in_place)
    assert feedback.title == "This is the mean" and "writes into its input x" in feedback.messages[-1]


@pytest.mark.parametrize("harm", [lambda b: b["items"].append(1), lambda b: b["layer"].weight.data.zero_()])
def test_changes_inside_lists_and_modules_are_seen(harm):
    box = {"items": [1, 2], "layer": nn.Linear(2, 2), "name": "box"}
    exercise = FunctionExercise("b", "B.", lambda box: len(box["name"]), lambda: (Case("a box", {"box": box}),))
    assert exercise.judge(lambda box: len(box["name"])).status == "right"

    def harmful(box):
        harm(box)
        return 3

    assert "input box" in said(exercise.judge(harmful))


@pytest.mark.parametrize("cut", [lambda x: x.detach().sum(1), lambda x: x.data.sum(1)])
def test_a_cut_gradient_is_said(cut):
    feedback = ROW_SUMS.judge(cut)
    assert feedback.status == "wrong" and "no gradient reaches x" in feedback.title


def test_an_answer_with_a_gradient_of_its_own_is_compared_all_the_same():
    scale = nn.Parameter(torch.tensor(2.0))
    assert "other numbers" in ROW_SUMS.judge(lambda x: x.sum(1) * scale).title


def test_numpy_inside_fails_only_when_gradients_are_asked_for():
    feedback = ROW_SUMS.judge(lambda x: torch.from_numpy(x.numpy().sum(1)))
    assert feedback.title == "The numbers are right, but the backward pass fails"
    assert "No gradient passes through numpy" in said(feedback) and "line 1 of your function" in said(feedback)


# ------------------------------------------------------------------------------- several outputs, numbers, booleans


def step(x, *, swapped=False):
    return (x - 1, x + 1) if swapped else (x + 1, x - 1)


TWO = FunctionExercise(
    "two",
    "Two things.",
    step,
    lambda: (Case("three numbers", {"x": seeded(3)}),),
    outputs=(Output("hidden", ("unit",)), Output("cell", ("unit",))),
    mistakes=(Mistake({"swapped": True}, "Hidden and cell are swapped", "Hidden comes first."),),
)


def test_several_outputs_are_compared_one_by_one():
    assert TWO.judge(lambda x: (x + 1, x - 1)).status == "right"
    assert TWO.judge(lambda x: (x - 1, x + 1)).title == "Hidden and cell are swapped"
    assert "The right shape, but other numbers in the cell" in TWO.judge(lambda x: (x + 1, x)).title
    assert "`return hidden, cell`" in said(TWO.judge(lambda x: x + 1))
    assert TWO.judge(lambda x: (..., ...)).status == "not attempted"


def test_numbers_and_masks_as_outputs():
    length = FunctionExercise(
        "length",
        "Path length.",
        lambda i, j, *, fence=0: j - i + fence,
        lambda: (Case("neighbours", {"i": 1, "j": 2}), Case("far apart", {"i": 1, "j": 5})),
        outputs=(Output("path length"),),
        mistakes=(Mistake({"fence": 1}, "You count tokens, not steps", "Count the arrows."),),
    )
    assert length.judge(lambda i, j: j - i).status == "right"
    assert length.judge(lambda i, j: torch.tensor(j - i)).status == "right"
    assert length.judge(lambda i, j: j - i + 1).title == "You count tokens, not steps"
    assert "You have 1; expected 4." in said(length.judge(lambda i, j: 1))
    assert "i 1, j 5" in said(length.judge(lambda i, j: 1))
    assert "text" in said(length.judge(lambda i, j: "4"))
    mask = FunctionExercise(
        "mask", "Causal.", lambda n: torch.ones(n, n, dtype=torch.bool).tril(), lambda: (Case("3", {"n": 3}),)
    )
    assert "True = may attend" in said(mask.judge(lambda n: torch.ones(n, n).tril()))
    assert "you have True, expected False" in said(mask.judge(lambda n: torch.ones(n, n, dtype=torch.bool)))


WHOLE = FunctionExercise(
    "whole",
    "Whole numbers.",
    lambda x: x.argmax(-1),
    lambda: (Case("four rows", {"x": seeded(4, 6)}),),
    outputs=(Output("token ids", ("step",)),),
)


@pytest.mark.parametrize(
    ("answer", "parts"),
    [
        (lambda x: torch.tensor([]), ("Nothing is in the token ids",)),
        (lambda x: x, ("another shape", "with fractions", "argmax(-1)")),
        (lambda x: x.amax(-1), ("Dtype float32", "fractions", "argmax(-1)")),
        (lambda x: x.argmax(-1).float(), ("Dtype float32", "`.to(torch.int64)`")),
        (lambda x: x.argmax(-1).int(), ("Dtype int32", "`.to(torch.int64)`")),
        (lambda x: x.argmax(-1) > 0, ("Dtype bool", "True and False")),
        (lambda x: x.argmax(-1).tolist(), ("not a list", "`torch.tensor(…)` makes a tensor")),
        (lambda x: x.argmax(-1)[:3], ("another shape", "stops too early")),
        (lambda x: torch.cat([x.argmax(-1), x.argmax(-1)]), ("another shape", "goes on too long")),
    ],
)
def test_the_advice_leads_to_whole_numbers(answer, parts):
    feedback = WHOLE.judge(answer)
    assert feedback.status == "wrong" and WHOLE.judge(lambda x: x.argmax(-1)).status == "right"
    for part in parts:
        assert part in said(feedback), feedback
    assert "Keep the dtype" not in said(feedback) and "torch.stack" not in said(feedback)


def test_a_generator_as_input_starts_anew_for_every_run():
    draw = FunctionExercise(
        "draw",
        "Draw.",
        lambda generator, *, sign=1: sign * torch.rand(3, generator=generator),
        lambda: (Case("seed 3", {"generator": torch.Generator().manual_seed(3)}),),
        mistakes=(Mistake({"sign": -1}, "Negative", "…"),),
    )
    answer = lambda generator: torch.rand(3, generator=generator)  # noqa: E731
    assert draw.judge(answer).status == draw.judge(answer).status == "right"
    assert draw.judge(lambda generator: -torch.rand(3, generator=generator)).title == "Negative"
    assert draw.judge(answer).status == "right", "recognising a mistake must not use up the generator"


def test_the_check_leaves_the_global_random_state_alone():
    torch.manual_seed(5)
    state = torch.get_rng_state()
    check.attention(lambda query, key, value, mask: value)
    assert torch.equal(torch.get_rng_state(), state)


def test_a_number_as_value():
    steps = ValueExercise("steps", "Steps.", 4, "4 steps", (KnownValue(5, "You count tokens", "Count arrows."),), 0.1)
    assert steps.judge(4).status == steps.judge(4.0).status == steps.judge(torch.tensor(4)).status == "right"
    assert steps.judge(5).title == "You count tokens"
    assert "7" in said(steps.judge(7)) and "4" not in said(steps.judge(7))  # the learner is to work it out
    assert steps.judge(...).status == "not attempted"
    assert steps.judge([[4]]).status == "right" and "another shape" in steps.judge([4, 4]).title


# ---------------------------------------------------------------------------------------------------- the display


def test_a_learners_text_is_escaped_and_authors_marks_are_shown():
    def hostile(x):
        raise ValueError("<script>alert(1)</script> & <img src=x>")

    page = ROW_SUMS.judge(hostile)._repr_html_()
    assert "<script" not in page and "<img" not in page and "&lt;script&gt;" in page
    assert "<code>x + 1</code>" in Feedback("right", "`x + 1` *is* <b>")._repr_html_()
    assert "<em>is</em> &lt;b&gt;" in Feedback("right", "`x + 1` *is* <b>")._repr_html_()
    assert "2 * 3 * 4" in Feedback("right", "2 * 3 * 4")._repr_html_()


@pytest.mark.parametrize(
    ("status", "mark", "word"),
    [("right", "✓", "Right"), ("wrong", "✗", "Not right yet"), ("not attempted", "○", "Not attempted yet")],
)
def test_every_verdict_has_a_mark_and_a_word_in_both_forms(status, mark, word):
    feedback = Feedback(status, "A title", ("One sentence.",))
    assert repr(feedback) == f"{mark} {word}. A title\n  One sentence."
    page = feedback._repr_html_()
    assert mark in page and word in page and 'role="status"' in page and 'aria-hidden="true"' in page


def test_feedback_is_frozen_and_knows_its_verdicts():
    with pytest.raises(FrozenInstanceError):
        Feedback("right", "").title = "other"
    with pytest.raises(ValueError, match="status must be one of 'right', 'wrong'"):
        Feedback("fine", "")


def test_a_deprecated_transpose_is_recognised_and_not_silenced():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        feedback = check.attention(
            lambda q, k, v, m: (q @ k.T / q.shape[-1] ** 0.5).masked_fill(~m, -torch.inf).softmax(-1) @ v
        )
    assert "reverses all four axes" in feedback.title
