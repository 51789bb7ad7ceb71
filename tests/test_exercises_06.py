"""Lesson 06's exercises: each mistake of a learner, written as a learner writes it, gets its own feedback."""

import pytest
import torch
import torch.nn.functional as F

from mistakes import assert_all_differ, assert_named, assert_says, each_mistake, pairs_of_mistakes
from transformer_lab.practice import check
from transformer_lab.practice.exercises.feed_forward import FEED_FORWARD
from transformer_lab.practice.exercises.layer_norm import LAYER_NORM
from transformer_lab.practice.exercises.pre_norm_block import PRE_NORM_BLOCK

EXERCISES = {"norm": LAYER_NORM, "ffn": FEED_FORWARD, "block": PRE_NORM_BLOCK}
CHECKS = {"norm": check.layer_norm, "ffn": check.feed_forward, "block": check.pre_norm_block}


@pytest.fixture(autouse=True)
def own_progress(tmp_path, monkeypatch):
    monkeypatch.setenv("TRANSFORMER_LAB_PROGRESS", str(tmp_path))


# ------------------------------------------------------------------ right answers, in the spellings learners use


def norm_by_var(x, scale, shift, eps):
    mean, variance = x.mean(-1, keepdim=True), x.var(-1, keepdim=True, unbiased=False)
    return (x - mean) / (variance + eps).sqrt() * scale + shift


def norm_by_squares(x, scale, shift, eps):
    centred = x - x.mean(dim=-1)[..., None]
    return centred * torch.rsqrt((centred**2).mean(dim=-1, keepdim=True) + eps) * scale + shift


def norm_by_moments(x, scale, shift, eps):
    mean = x.mean(-1, keepdim=True)
    return (x - mean) / ((x * x).mean(-1, keepdim=True) - mean**2 + eps) ** 0.5 * scale + shift


def norm_by_torch(x, scale, shift, eps):
    return F.layer_norm(x, x.shape[-1:], scale, shift, eps)


def ffn_by_product(x, W_up, b_up, W_down, b_down):
    return torch.relu(x @ W_up + b_up) @ W_down + b_down


def ffn_by_linear(x, W_up, b_up, W_down, b_down):
    return F.linear(F.relu(F.linear(x, W_up.T, b_up)), W_down.mT, b_down)


def ffn_by_tokens(x, W_up, b_up, W_down, b_down):
    rows = [(row @ W_up + b_up).clamp(min=0) @ W_down + b_down for row in x.flatten(0, 1)]
    return torch.stack(rows).reshape(x.shape)


def block_in_two_lines(x, attend, feed, norm_1, norm_2):
    x = x + attend(norm_1(x))
    return x + feed(norm_2(x))


def block_in_one(x, attend, feed, norm_1, norm_2):
    return (middle := attend(norm_1(x)) + x) + feed(norm_2(middle))


RIGHT = {
    "norm": (norm_by_var, norm_by_squares, norm_by_moments, norm_by_torch),
    "ffn": (ffn_by_product, ffn_by_linear, ffn_by_tokens),
    "block": (block_in_two_lines, block_in_one),
}


@pytest.mark.parametrize(("name", "answer"), [(name, answer) for name, each in RIGHT.items() for answer in each])
def test_right_answers_pass_in_every_spelling(name, answer):
    feedback = CHECKS[name](answer)
    assert feedback.status == "right", feedback


def test_the_cases_are_the_deliberate_ones():
    norms = [case.inputs for case in LAYER_NORM.built_cases]
    assert any(len(set(inputs["x"].shape)) == 1 for inputs in norms)  # where a wrong axis fits without an error
    assert any(inputs["x"].var(-1, unbiased=False).min() == 0 for inputs in norms)
    assert any(inputs["eps"] >= 0.5 for inputs in norms)
    assert any(case.inputs["x"].shape[1] == case.inputs["x"].shape[2] for case in FEED_FORWARD.built_cases)
    for inputs in (case.inputs for case in PRE_NORM_BLOCK.built_cases):
        x = inputs["x"]
        assert not torch.allclose(inputs["norm_1"](x), inputs["norm_2"](x), atol=0.1)
        assert not torch.allclose(inputs["norm_1"](x), x, atol=0.1)


# --------------------------------------------- wrong answers, one step each, so that any two can be put together


def norm(
    mean=lambda x: x.mean(-1, keepdim=True),
    variance=lambda x, mean: (x - mean).square().mean(-1, keepdim=True),
    root=lambda variance, eps: torch.sqrt(variance + eps),
    above=lambda x, mean: x - mean,
    prepare=lambda x, scale: x,
    scaled=lambda y, scale: y * scale,
    shifted=lambda y, shift: y + shift,
    finish=lambda y, scale, shift, scaled, shifted: shifted(scaled(y, scale), shift),
):
    def my_layer_norm(x, scale, shift, eps):
        x = prepare(x, scale)
        centre = mean(x)
        return finish(above(x, centre) / root(variance(x, centre), eps), scale, shift, scaled, shifted)

    return my_layer_norm


def over(*axes):
    return {
        "mean": lambda x: x.mean(axes, keepdim=True),
        "variance": lambda x, mean: (x - mean).square().mean(axes, keepdim=True),
    }


def ffn(
    enter=lambda x: x,
    up=lambda x, W, b: x @ W + b,
    between=torch.relu,
    bent=lambda h, b: h,
    down=lambda h, W, b: h @ W + b,
    leave=lambda y, x: y,
):
    def my_feed_forward(x, W_up, b_up, W_down, b_down):
        return leave(down(bent(between(up(enter(x), W_up, b_up)), b_up), W_down, b_down), x)

    return my_feed_forward


def block(
    step=lambda x, f, norm: x + f(norm(x)),
    norms=lambda norm_1, norm_2: (norm_1, norm_2),
    run=lambda step, x, a, f, n1, n2: step(step(x, a, n1), f, n2),
):
    def my_block(x, attend, feed, norm_1, norm_2):
        return run(step, x, attend, feed, *norms(norm_1, norm_2))

    return my_block


def same(x, *_):
    return x


# name: (a part of its title, the steps it gets wrong). The curriculum's come first in each.
WRONG = {
    "norm": {
        "over the sequence": ("run over the sequence", over(1)),
        "over everything": ("the whole tensor", over(0, 1, 2)),
        "over a sentence": ("a whole sentence", over(1, 2)),
        "over the batch": ("run over the batch", over(0)),
        "n - 1": (
            "divides by n − 1",
            {"variance": lambda x, mean: (x - mean).square().sum(-1, keepdim=True) / (x.shape[-1] - 1)},
        ),
        "sum": (
            "added up, not averaged",
            {"variance": lambda x, mean: (x - mean).square().sum(-1, keepdim=True)},
        ),
        "variance of all": (
            "One variance for the whole tensor",
            {"variance": lambda x, mean: (x - mean).square().mean()},
        ),
        "by std": (
            "One mean and one deviation",
            {
                "mean": lambda x: x.mean(),
                "variance": lambda x, mean: x.std() ** 2,
                "root": lambda variance, eps: variance**0.5,
            },
        ),
        "eps outside": ("outside the root", {"root": lambda variance, eps: variance**0.5 + eps}),
        "eps forgotten": ("eps is not used", {"root": lambda variance, eps: variance.sqrt()}),
        "eps squared": ("eps is squared", {"root": lambda variance, eps: (variance + eps**2).sqrt()}),
        "RMSNorm": (
            "this is RMSNorm",
            {"variance": lambda x, mean: x.square().mean(-1, keepdim=True), "above": same},
        ),
        "not centred above": ("missing in the numerator", {"above": same}),
        "not centred below": (
            "missing in the variance",
            {"variance": lambda x, mean: x.square().mean(-1, keepdim=True)},
        ),
        "variance": ("not by its root", {"root": lambda variance, eps: variance + eps}),
        "scaled first": ("comes before the norm", {"prepare": lambda x, scale: x * scale, "scaled": same}),
        "shift first": (
            "The shift is scaled too",
            {"finish": lambda y, scale, shift, scaled, shifted: scaled(shifted(y, shift), scale)},
        ),
        "one bracket": (
            "multiply by scale + shift",
            {"scaled": same, "shifted": same, "finish": lambda y, scale, shift, *_: y * (scale + shift)},
        ),
        "no scale": ("scale is not used", {"scaled": same}),
        "no shift": ("shift is not used", {"shifted": same}),
    },
    "ffn": {
        "after": ("after the second matrix", {"between": same, "leave": lambda y, x: y.relu()}),
        "none": ("no ReLU", {"between": same}),
        "residual": ("residual is inside", {"leave": lambda y, x: y + x}),
        "averaged": ("tokens are mixed", {"enter": lambda x: torch.stack([x.mean(1)] * x.shape[1], dim=1)}),
        "transposed": (
            "changed places",
            {"enter": lambda x: x.transpose(1, 2), "leave": lambda y, x: y.transpose(1, 2)},
        ),
        "before": ("before the first matrix", {"enter": lambda x: x.clamp(min=0), "between": same}),
        "twice": ("too many", {"leave": lambda y, x: F.relu(y)}),
        "gelu": ("GELU where ReLU", {"between": F.gelu}),
        "silu": ("SiLU where ReLU", {"between": lambda h: h * h.sigmoid()}),
        "sigmoid": ("σ where ReLU", {"between": lambda h: 1 / (1 + (-h).exp())}),
        "softmax": ("softmax where ReLU", {"between": lambda h: F.softmax(h, dim=-1)}),
        "tanh": ("tanh where ReLU", {"between": torch.tanh}),
        "leaky": ("leaky ReLU where ReLU", {"between": F.leaky_relu}),
        "abs": ("not its positive part", {"between": lambda h: h.abs()}),
        "b_up outside": ("added after the ReLU", {"up": lambda x, W, b: x @ W, "bent": lambda h, b: h + b}),
        "no b_up": ("b_up is not used", {"up": lambda x, W, b: x @ W}),
        "no b_down": ("b_down is not used", {"down": lambda h, W, b: h @ W}),
    },
    "block": {
        "post": ("this is post-norm", {"step": lambda x, f, norm: norm(x + f(x))}),
        "post, then pre": (
            "first sublayer is post-norm",
            {"run": lambda step, x, a, f, n1, n2: (h := n1(x + a(x))) + f(n2(h))},
        ),
        "pre, then post": (
            "second post-norm",
            {"run": lambda step, x, a, f, n1, n2: n2((h := x + a(n1(x))) + f(h))},
        ),
        "no residual": ("no residual", {"step": lambda x, f, norm: f(norm(x))}),
        "shared": ("One norm for both", {"norms": lambda norm_1, norm_2: (norm_1, norm_1)}),
        "norm_2 forgotten": (
            "feed-forward layer reads the stream without",
            {"norms": lambda norm_1, norm_2: (norm_1, same)},
        ),
        "norm_1 forgotten": (
            "Attention reads the stream without",
            {"norms": lambda norm_1, norm_2: (same, norm_2)},
        ),
        "normed stream": (
            "residual is normed too",
            {"step": lambda x, f, norm: (normed := norm(x)) + f(normed)},
        ),
        "parallel": (
            "Both sublayers read x",
            {"run": lambda step, x, a, f, n1, n2: x + a(n1(x)) + f(n2(x))},
        ),
        "reads the addend": (
            "what attention returned, not the stream",
            {"run": lambda step, x, a, f, n1, n2: x + (found := a(n1(x))) + f(n2(found))},
        ),
        "no second residual": (
            "second residual is missing",
            {"run": lambda step, x, a, f, n1, n2: f(n2(x + a(n1(x))))},
        ),
        "no first residual": (
            "first residual is missing",
            {"run": lambda step, x, a, f, n1, n2: (h := a(n1(x))) + f(n2(h))},
        ),
        "old x": (
            "carries the old x",
            {"run": lambda step, x, a, f, n1, n2: x + f(n2(x + a(n1(x))))},
        ),
        "swapped": ("norms have changed places", {"norms": lambda norm_1, norm_2: (norm_2, norm_1)}),
        "inside": ("after the sublayer, before the addition", {"step": lambda x, f, norm: x + norm(f(x))}),
        "around": ("before and after its sublayer", {"step": lambda x, f, norm: x + norm(f(norm(x)))}),
        "both": ("sum is normed as well", {"step": lambda x, f, norm: norm(x + f(norm(x)))}),
        "no norm": ("norms are not used", {"step": lambda x, f, norm: x + f(x)}),
        "feed first": (
            "feed-forward layer comes first",
            {"run": lambda step, x, a, f, n1, n2: step(step(x, f, n2), a, n1)},
        ),
    },
}
BUILD = {"norm": norm, "ffn": ffn, "block": block}


@pytest.mark.parametrize(("name", "mistake"), each_mistake(WRONG))
def test_each_known_mistake_is_named(name, mistake):
    title, wrong = WRONG[name][mistake]
    assert_named(CHECKS[name](BUILD[name](**wrong)), title)


@pytest.mark.parametrize("name", WRONG)
def test_every_mistake_of_the_exercise_is_tried_and_has_feedback_of_its_own(name):
    said = [CHECKS[name](BUILD[name](**wrong)) for _, wrong in WRONG[name].values()]
    assert_all_differ(said)
    assert {each.title for each in said} == {mistake.title for mistake in EXERCISES[name].mistakes}


def replaces_the_whole_block(mistake):
    """Such an answer takes no step of its own, so a mistake in a step leaves no trace beside it."""
    return "run" in WRONG["block"][mistake][1] and mistake != "feed first"


PAIRS = [
    (name, *both)
    for name, *both in pairs_of_mistakes(WRONG, WRONG)
    if name != "block" or not any(map(replaces_the_whole_block, both))
]
# Both together are one other mistake, and that is what the check says.
ANOTHER = {
    ("norm", "not centred above", "not centred below"): "this is RMSNorm",
    ("norm", "scaled first", "shift first"): "comes before the norm",
    ("norm", "shift first", "no scale"): "scale is not used",
    ("norm", "shift first", "no shift"): "shift is not used",
    ("ffn", "after", "b_up outside"): "after the second matrix",
    ("ffn", "none", "b_up outside"): "no ReLU",
    ("ffn", "before", "b_up outside"): "before the first matrix",
    ("ffn", "none", "twice"): "after the second matrix",
    ("block", "shared", "no norm"): "norms are not used",
    ("block", "norm_2 forgotten", "no norm"): "norms are not used",
    ("block", "norm_1 forgotten", "no norm"): "norms are not used",
    ("block", "swapped", "no norm"): "norms are not used",
}


@pytest.mark.parametrize(("name", "first", "second"), PAIRS)
def test_two_mistakes_at_once_are_both_named(name, first, second):
    (title_1, wrong_1), (title_2, wrong_2) = WRONG[name][first], WRONG[name][second]
    other = ANOTHER.get((name, first, second))
    assert_says(CHECKS[name](BUILD[name](**wrong_1 | wrong_2)), *([other] if other else [title_1, title_2]))


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("norm", lambda x, scale, shift, eps: norm_by_var(x, scale, shift, eps).flip(-1)),
        ("ffn", lambda x, W_up, b_up, W_down, b_down: torch.cos(x @ W_up + b_up) @ W_down + b_down),
        ("block", lambda x, attend, feed, norm_1, norm_2: 2 * block_in_two_lines(x, attend, feed, norm_1, norm_2)),
    ],
)
def test_an_unplanned_mistake_gets_the_first_difference(name, answer):
    feedback = CHECKS[name](answer)
    assert feedback.status == "wrong" and "First difference at" in feedback.messages[0], feedback


@pytest.mark.parametrize("name", CHECKS)
def test_an_untouched_stub_is_not_attempted(name):
    def stub(*arguments):
        ...

    assert CHECKS[name](stub).status == "not attempted"


@pytest.mark.parametrize(
    ("answer", "title"),
    [
        (lambda x, scale, shift, eps: (x - x.mean()) / x.std() * scale + shift, "One mean and one deviation"),
        (lambda x, scale, shift, eps: (x - x.mean()) / (x.var() + eps).sqrt() * scale + shift, "Two things to repair"),
    ],
)
def test_statistics_without_a_dim_are_named_in_their_usual_spelling(answer, title):
    assert_named(check.layer_norm(answer), title)


@pytest.mark.case("N01")
def test_the_variance_of_x_var_is_named_in_its_usual_spelling():
    def my_layer_norm(x, scale, shift, eps):
        mean, variance = x.mean(-1, keepdim=True), x.var(-1, keepdim=True)
        return (x - mean) / torch.sqrt(variance + eps) * scale + shift

    feedback = check.layer_norm(my_layer_norm)
    assert "divides by n − 1" in feedback.title


def test_the_standard_deviation_with_eps_outside_is_both_mistakes_of_the_annotated_kind():
    feedback = check.layer_norm(
        lambda x, scale, shift, eps: scale * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + eps) + shift
    )
    said = " ".join(feedback.messages)
    assert "divides by n − 1" in said and "outside the root" in said


def test_a_block_that_adds_in_place_is_told_so():
    def my_block(x, attend, feed, norm_1, norm_2):
        x += attend(norm_1(x))
        x += feed(norm_2(x))
        return x

    assert "writes into its input x" in " ".join(check.pre_norm_block(my_block).messages)
