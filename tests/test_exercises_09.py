"""Lesson 09's exercises: each mistake of a learner, written as a learner writes it, gets its own feedback."""

import pytest
import torch

from mistakes import assert_all_differ, assert_named, each_mistake, pairs_of_mistakes
from small_configs import held, on_meta
from transformer_lab.accounting.memory import kv_cache_bytes
from transformer_lab.accounting.parameters import count_parameters
from transformer_lab.model.blocks import Block
from transformer_lab.model.config import TransformerConfig
from transformer_lab.practice import check
from transformer_lab.practice.exercises import totals
from transformer_lab.practice.exercises.counting import BLOCK_PARAMETERS, CACHE_BYTES
from transformer_lab.practice.exercises.totals import CROSSING_WIDTH, MODEL_PARAMETERS

EXERCISES = {each.name: each for each in (BLOCK_PARAMETERS, MODEL_PARAMETERS, CROSSING_WIDTH, CACHE_BYTES)}


@pytest.fixture(autouse=True)
def own_progress(tmp_path, monkeypatch):
    monkeypatch.setenv("TRANSFORMER_LAB_PROGRESS", str(tmp_path))


# ------------------------------------------------------------------------------- functions, with exchangeable steps

BLOCK_STEPS = {
    "width": lambda p: p["d_model"],
    "queries": lambda p: p["n_heads"] * p["d_head"],
    "keys": lambda p: p["n_kv_heads"] * p["d_head"],
    "query": lambda p, width, queries: width * queries,
    "output": lambda p, width, queries: queries * width,
    "attention": lambda p, counted: counted,
    "matrices": lambda gated: 3 if gated else 2,
    "whole": lambda p, counted: counted,
    "extra": lambda p, n_matrices: 0,
}


def block(**changed):
    steps = BLOCK_STEPS | changed

    def my_block_parameters(d_model, n_heads, d_head, n_kv_heads, d_ff, gated):
        p = dict(locals())
        width, queries, keys, n = steps["width"](p), steps["queries"](p), steps["keys"](p), steps["matrices"](gated)
        counted = steps["query"](p, width, queries) + width * keys + width * keys + steps["output"](p, width, queries)
        attention = steps["attention"](p, counted)
        return steps["whole"](p, attention + n * d_model * d_ff) + steps["extra"](p, n)

    return my_block_parameters


def biases(p, n_matrices):
    heads = p["n_heads"] * p["d_head"] + 2 * p["n_kv_heads"] * p["d_head"]
    return heads + p["d_model"] + (n_matrices - 1) * p["d_ff"] + p["d_model"]


CACHE_STEPS = {
    "kept": 2,
    "heads": lambda p: p["n_kv_heads"] * p["d_head"],
    "layers": lambda p: p["n_layers"],
    "positions": lambda p: p["n_positions"],
    "bytes": lambda p: p["bytes_each"],
}


def cache(**changed):
    steps = CACHE_STEPS | changed

    def my_cache_bytes(n_layers, d_model, n_heads, n_kv_heads, d_head, n_positions, bytes_each):
        p = dict(locals())
        return steps["kept"] * steps["heads"](p) * steps["layers"](p) * steps["positions"](p) * steps["bytes"](p)

    return my_cache_bytes


MAKERS = {"block_parameters": block, "cache_bytes": cache}
WRONG = {
    "block_parameters": {
        "output forgotten": ("output projection is forgotten", {"output": lambda p, width, queries: 0}),
        "W_O square": ("W_O is taken for a square", {"output": lambda p, width, queries: p["d_model"] ** 2}),
        "W_Q and W_O square": (
            "W_Q and W_O are taken for squares",
            {
                "query": lambda p, width, queries: p["d_model"] ** 2,
                "output": lambda p, width, queries: p["d_model"] ** 2,
            },
        ),
        "W_O shared": (
            "W_O is counted with the key/value heads",
            {"output": lambda p, width, queries: p["n_kv_heads"] * p["d_head"] * width},
        ),
        "4 d²": ("counted as 4 · d_model²", {"attention": lambda p, counted: 4 * p["d_model"] ** 2}),
        "feed-forward alone": ("Only the feed-forward layer", {"attention": lambda p, counted: 0}),
        "attention alone": ("Only attention is counted", {"matrices": lambda gated: 0}),
        "two a gate": ("gate is counted as two", {"matrices": lambda gated: 4 if gated else 2}),
        "12 d²": ("12 · d_model² is the special case", {"whole": lambda p, counted: 12 * p["d_model"] ** 2}),
        "16 d²": (
            "16 · d_model² are special cases",
            {"whole": lambda p, counted: (16 if p["gated"] else 12) * p["d_model"] ** 2},
        ),
        "from d_head": ("d_head instead of d_model", {"width": lambda p: p["d_head"]}),
        "square": ("stands where d_model belongs", {"width": lambda p: p["n_heads"] * p["d_head"]}),
        "one head": (
            "Only one head",
            {"queries": lambda p: p["d_head"], "keys": lambda p: p["d_head"]},
        ),
        "heads twice": (
            "multiplied in once too often",
            {
                "queries": lambda p: p["n_heads"] ** 2 * p["d_head"],
                "keys": lambda p: p["n_heads"] * p["n_kv_heads"] * p["d_head"],
            },
        ),
        "as query heads": ("as many as query heads", {"keys": lambda p: p["n_heads"] * p["d_head"]}),
        "no gate": ("third matrix of a gated layer is forgotten", {"matrices": lambda gated: 2}),
        "always a gate": ("has no third matrix", {"matrices": lambda gated: 3}),
        "up alone": ("One matrix stands for the whole", {"matrices": lambda gated: 1}),
        "biases": ("Biases are counted", {"extra": biases}),
        "scales": ("scales of the norms are counted too", {"extra": lambda p, n: 2 * p["d_model"]}),
        "norms": ("norms are counted too, scales and shifts", {"extra": lambda p, n: 4 * p["d_model"]}),
        "13 d": ("counted too, 13 · d_model", {"extra": lambda p, n: 13 * p["d_model"]}),
    },
    "cache_bytes": {
        "keys alone": ("Keys or values are missing", {"kept": 1}),
        "query heads": ("query heads are counted", {"heads": lambda p: p["n_heads"] * p["d_head"]}),
        "both": ("extra factor of n_heads", {"heads": lambda p: p["n_heads"] * p["n_kv_heads"] * p["d_head"]}),
        "one head": ("One head alone", {"heads": lambda p: p["d_head"]}),
        "d_model": ("d_model is stored", {"heads": lambda p: p["d_model"]}),
        "no width": ("width of a head is forgotten", {"heads": lambda p: p["n_kv_heads"]}),
        "a share": ("d_model / n_heads wide", {"heads": lambda p: p["d_model"] * p["n_kv_heads"] / p["n_heads"]}),
        "one layer": ("cache of one layer", {"layers": lambda p: 1}),
        "square": ("square of the positions", {"positions": lambda p: p["n_positions"] ** 2}),
        "one position": ("cache of one position", {"positions": lambda p: 1}),
        "numbers": ("numbers, not bytes", {"bytes": lambda p: 1}),
    },
}


SIDES = {"from d_head", "square", "one head", "heads twice"}  # all about the sides of the same matrices
ONE_BY_ONE = {"output forgotten", "W_O square", "W_Q and W_O square", "W_O shared", "as query heads"} | SIDES
# A formula that stands for several matrices leaves nothing of the mistakes in them.
SWALLOWED = {
    "4 d²": ONE_BY_ONE, "feed-forward alone": ONE_BY_ONE,
    "12 d²": ONE_BY_ONE | {"4 d²", "feed-forward alone", "no gate", "always a gate", "up alone", "attention alone"}
    | {"two a gate"},
}  # fmt: skip
SWALLOWED["16 d²"] = SWALLOWED["12 d²"]


@pytest.mark.parametrize("name", MAKERS)
def test_a_right_function_passes(name):
    assert getattr(check, name)(MAKERS[name]()).status == "right"


@pytest.mark.parametrize(("name", "mistake"), each_mistake(WRONG))
def test_a_mistake_is_named(name, mistake):
    title, changed = WRONG[name][mistake]
    assert_named(getattr(check, name)(MAKERS[name](**changed)), title)


@pytest.mark.parametrize("name", MAKERS)
def test_every_known_mistake_is_tried_and_no_two_sound_alike(name):
    said = [getattr(check, name)(MAKERS[name](**changed)) for _, changed in WRONG[name].values()]
    assert_all_differ(said)
    assert {each.title for each in said} == {mistake.title for mistake in EXERCISES[name].mistakes}


@pytest.mark.parametrize(("name", "first", "second"), pairs_of_mistakes(WRONG, MAKERS))
def test_two_mistakes_in_one_answer_are_both_named(name, first, second):
    wrong = WRONG[name]
    feedback = getattr(check, name)(MAKERS[name](**wrong[first][1], **wrong[second][1]))
    assert feedback.status == "wrong"
    if "biases" in (first, second) or {first, second} <= ONE_BY_ONE:
        return  # the second mistake changes what the first one counts
    if second in SWALLOWED.get(first, ()) or first in SWALLOWED.get(second, ()):
        return
    titles = [wrong[mistake][0] for mistake in (first, second)]
    assert all(any(title in message for message in feedback.messages) for title in titles), feedback


def test_an_answer_no_one_planned_gets_its_number_back():
    feedback = check.block_parameters(lambda d_model, n_heads, d_head, n_kv_heads, d_ff, gated: 7)
    assert feedback.title == "The number of parameters is not right"


# ---------------------------------------------------------------- the right answers are what is built, not a formula


def test_the_counted_blocks_are_blocks():
    for case, expected in zip(BLOCK_PARAMETERS.built_cases, BLOCK_PARAMETERS.expected, strict=True):
        p = case.inputs
        with torch.device("meta"):
            built = Block(
                p["d_model"], p["n_heads"], p["d_ff"], d_head=p["d_head"], n_kv_heads=p["n_kv_heads"], bias=False,
                activation="swiglu" if p["gated"] else "gelu", norm="rmsnorm",
            )  # fmt: skip
        assert held(built) - 2 * p["d_model"] == expected


def test_the_counted_model_is_a_model():
    config = TransformerConfig(
        family="decoder-only", d_model=totals.WIDTH, n_layers=totals.LAYERS, n_heads=4, d_ff=4 * totals.WIDTH,
        vocab=totals.VOCAB, n_positions=totals.POSITIONS,
    )  # fmt: skip
    assert MODEL_PARAMETERS.answer == held(on_meta(config)) == 334_464


def test_at_the_crossing_width_both_sides_weigh_the_same():
    config = TransformerConfig(
        family="decoder-only", d_model=int(CROSSING_WIDTH.answer), n_layers=totals.CROSSING_LAYERS, n_heads=1,
        d_ff=4 * int(CROSSING_WIDTH.answer), vocab=totals.CROSSING_VOCAB, position="none", bias=False,
    )  # fmt: skip
    count = count_parameters(config)
    assert count["token embedding"] == count["attention"] + count["feed-forward"]


def test_the_weighed_caches_are_what_the_library_weighs():
    for case, expected in zip(CACHE_BYTES.built_cases, CACHE_BYTES.expected, strict=True):
        p = case.inputs
        config = TransformerConfig(
            family="decoder-only", d_model=p["d_model"], n_layers=p["n_layers"], n_heads=p["n_heads"], d_ff=8, vocab=9,
            n_kv_heads=p["n_kv_heads"], d_head=p["d_head"], position="none",
        )  # fmt: skip
        precision = {2: "float16", 4: "float32"}[p["bytes_each"]]
        assert kv_cache_bytes(config, p["n_positions"], precision=precision) == expected


# --------------------------------------------------------------------------------------------- numbers by hand


@pytest.mark.parametrize("exercise", [MODEL_PARAMETERS, CROSSING_WIDTH], ids=lambda exercise: exercise.name)
def test_a_right_number_passes_and_every_wrong_one_is_named(exercise):
    ask = getattr(check, exercise.name)
    assert ask(exercise.answer).status == "right"
    said = [ask(known.value) for known in exercise.known]
    assert_all_differ(said)
    for feedback, known in zip(said, exercise.known, strict=True):
        assert_named(feedback, known.title)
    assert "not right yet" in ask(exercise.answer * 7).title


# What learners do, worked out here apart from the exercise.
D, V, P, N = totals.WIDTH, totals.VOCAB, totals.POSITIONS, totals.LAYERS
LINEARS = 4 * (D * D + D) + (D * 4 * D + 4 * D) + (4 * D * D + D)
SLIPS = {
    "tied matrix is counted twice": 2 * V * D + P * D + N * (LINEARS + 4 * D) + 2 * D,
    "final norm is missing": V * D + P * D + N * (LINEARS + 4 * D),
    "table of positions is missing": V * D + N * (LINEARS + 4 * D) + 2 * D,
    "The biases are missing": V * D + P * D + N * (12 * D * D + 4 * D) + 2 * D,
    "a scale and no shift": V * D + P * D + N * (LINEARS + 2 * D) + D,
    "Only one block": V * D + P * D + LINEARS + 4 * D + 2 * D,
    "A gate is counted": V * D + P * D + N * (LINEARS + 4 * D * D + 4 * D + 4 * D) + 2 * D,
    "Only the large matrices": V * D + N * 12 * D * D,
    "causal mask is counted": V * D + P * D + N * (LINEARS + 4 * D) + 2 * D + P * P,
    "Biases and norms are missing": 331_008,
    "The table of positions and the final norm are missing": 327_936,
    "counted twice, and the table of positions is missing": 2 * V * D + N * (LINEARS + 4 * D) + 2 * D,
    "counted twice, and the norms are missing": 2 * V * D + P * D + N * LINEARS,
    "counted twice, and the final norm is missing": 2 * V * D + P * D + N * (LINEARS + 4 * D),
    "counted twice, and biases and norms are missing": 2 * V * D + P * D + N * 12 * D * D,
}


@pytest.mark.parametrize("title", SLIPS)
def test_a_slip_in_the_total_is_named(title):
    assert_named(check.model_parameters(SLIPS[title]), title)


@pytest.mark.parametrize(
    ("forgotten", "times"),
    [
        (4 * D, 4),  # attention's biases, the bias of up (d_ff = 4 · d_model), or both norms with scale and shift
        (2 * D, 2),  # one of the norms, or two biases of the projections
    ],
)
def test_parts_of_one_size_share_one_message(forgotten, times):
    total = totals.MODEL_PARAMETERS.answer - N * forgotten
    assert_named(check.model_parameters(total), f"{times} · d_model numbers a block are missing")


@pytest.mark.parametrize(
    ("wrong", "title"),
    [
        (4000, "One block"),
        (400, "counted twice"),
        (600, "Only attention"),
        (300, "Only the feed-forward"),
        (100, "At 100"),
        (1000, "At 1,000"),
    ],
)
def test_a_slip_in_the_width_is_named(wrong, title):
    assert_named(check.crossing_width(wrong), title)


def test_a_number_no_one_planned_is_said_to_the_last_digit():
    assert check.model_parameters(331_234).messages == ("You have 331,234. Work it out once more.",)
    said = check.block_parameters(lambda *sizes: 243_269_632)
    assert "you have 243,269,632" in str(said).lower() and "3,145,728" in str(said)


def test_the_right_width_answers_the_guesses():
    (said,) = check.crossing_width(200).messages
    assert said.endswith("at 100 the embedding holds 2 times what the blocks hold, at 1,000 it holds 0.2 of it.")


def test_untouched_exercises_are_not_attempted():
    def my_block_parameters(d_model, n_heads, d_head, n_kv_heads, d_ff, gated): ...

    def my_cache_bytes(n_layers, d_model, n_heads, n_kv_heads, d_head, n_positions, bytes_each): ...

    stubs = (my_block_parameters, ..., ..., my_cache_bytes)
    for name, stub in zip(EXERCISES, stubs, strict=True):
        assert getattr(check, name)(stub).status == "not attempted"
