"""Lesson 04's exercises: each mistake of a learner, written as a learner writes it, gets its own feedback."""

import math
from itertools import combinations

import pytest
import torch

from transformer_lab.model import positions as library
from transformer_lab.practice import check
from transformer_lab.practice.exercises.positions import ROPE, SINUSOIDAL_TABLE


@pytest.fixture(autouse=True)
def own_progress(tmp_path, monkeypatch):
    monkeypatch.setenv("TRANSFORMER_LAB_PROGRESS", str(tmp_path))


# ------------------------------------------------------------------------------------------- the table of sinusoids


def with_loops(n_positions, d_model):
    table = torch.zeros(n_positions, d_model)
    for p in range(n_positions):
        for i in range(d_model // 2):
            table[p, 2 * i] = math.sin(p / 10_000 ** (2 * i / d_model))
            table[p, 2 * i + 1] = math.cos(p / 10_000 ** (2 * i / d_model))
    return table


def with_slices(n_positions, d_model, *, swap=False, power=lambda i, d: 2 * i / d, start=0):
    position = torch.arange(start, start + n_positions).unsqueeze(1)
    angle = position / 10_000 ** power(torch.arange(d_model // 2), d_model)
    table = torch.empty(n_positions, d_model)
    table[:, 0::2], table[:, 1::2] = (angle.cos(), angle.sin()) if swap else (angle.sin(), angle.cos())
    return table


def with_exponential(n_positions, d_model):
    rates = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10_000.0) / d_model))
    angle = torch.arange(n_positions)[:, None] * rates
    return torch.stack((angle.sin(), angle.cos()), dim=-1).reshape(n_positions, d_model)


@pytest.mark.parametrize("answer", [with_loops, with_slices, with_exponential, library.sinusoidal_table])
def test_right_tables_pass_in_every_spelling(answer):
    feedback = check.sinusoidal_table(answer)
    assert feedback.status == "right" and "5 inputs" in feedback.messages[0]


def halves(n_positions, d_model):
    table = with_slices(n_positions, d_model)
    return torch.cat((table[:, 0::2], table[:, 1::2]), dim=1)


def column_doubled(n_positions, d_model):
    table = torch.zeros(n_positions, d_model)
    for p in range(n_positions):
        for column in range(d_model):
            wave = math.cos if column % 2 else math.sin
            table[p, column] = wave(p / 10_000 ** (2 * column / d_model))
    return table


def own_exponents(n_positions, d_model):
    table = torch.zeros(n_positions, d_model)
    for column in range(d_model):
        wave = torch.cos if column % 2 else torch.sin
        table[:, column] = wave(torch.arange(n_positions) / 10_000 ** (column / d_model))
    return table


def sines_only(n_positions, d_model):
    table = with_slices(n_positions, d_model)
    table[:, 1::2] = table[:, 0::2]
    return table


WRONG_TABLES = {
    "Sine and cosine are swapped": lambda n, d: with_slices(n, d, swap=True),
    "i / d_model instead of 2i / d_model": lambda n, d: with_slices(n, d, power=lambda i, d: i / d),
    "All sines come first": halves,
    "The column number is doubled": column_doubled,
    "not divided by d_model": lambda n, d: with_slices(n, d, power=lambda i, d: 2.0 * i),
    "The positions start at 1": lambda n, d: with_slices(n, d, start=1),
    "There are sines only": sines_only,
    "The cosine has an exponent of its own": own_exponents,
    "The exponent runs all the way to 1": lambda n, d: with_slices(n, d, power=lambda i, d: i / (d / 2 - 1)),
    "The table is float64": lambda n, d: with_slices(n, d).double(),
}


@pytest.mark.parametrize("name", WRONG_TABLES)
def test_each_wrong_table_is_named(name):
    feedback = check.sinusoidal_table(WRONG_TABLES[name])
    assert feedback.status == "wrong" and name in feedback.title and len(feedback.messages) == 1


def test_every_wrong_table_has_feedback_of_its_own():
    said = [check.sinusoidal_table(wrong) for wrong in WRONG_TABLES.values()]
    assert {feedback.title for feedback in said} == {mistake.title for mistake in SINUSOIDAL_TABLE.mistakes}
    assert len({feedback.messages for feedback in said}) == len(WRONG_TABLES)


def test_an_exponent_that_runs_to_1_is_known_from_linspace_too():
    feedback = check.sinusoidal_table(lambda n, d: with_slices(n, d, power=lambda i, d: torch.linspace(0, 1, len(i))))
    assert feedback.title == "The exponent runs all the way to 1"


@pytest.mark.parametrize("wrong", [lambda n, d: torch.zeros(n, d), lambda n, d: with_slices(n, d).T, lambda n, d: None])
def test_an_unplanned_table_gets_another_answer(wrong):
    feedback = check.sinusoidal_table(wrong)
    assert feedback.status != "right"
    assert feedback.title not in {mistake.title for mistake in SINUSOIDAL_TABLE.mistakes}


# ------------------------------------------------------------------------------------------------------------- RoPE


def rope(
    turn_value=False, turn_key=True, turn_query=True, sign=1, minus=True, split=False, power=lambda i, d: 2 * i / d,
    restart=False, cat=False, start=0, key_sign=1,
):  # fmt: skip
    """RoPE as a learner writes it, with what a learner gets wrong."""

    def turn(x, positions, sign=sign):
        d = x.shape[-1]
        angle = positions[:, None] * 10_000.0 ** -power(torch.arange(d // 2), d)
        cos, sin = torch.cos(angle), sign * torch.sin(angle)
        out = torch.empty_like(x)
        first, second = (slice(0, d // 2), slice(d // 2, d)) if split else (slice(0, d, 2), slice(1, d, 2))
        a, b = x[..., first], x[..., second]
        out[..., first] = a * cos - b * sin if minus else a * cos + b * sin
        out[..., second] = a * sin + b * cos
        return torch.cat((out[..., first], out[..., second]), dim=-1) if cat else out

    def my_rope(query, key, value, positions):
        positions = torch.arange(len(positions)) if restart else positions + start
        return (
            turn(query, positions) if turn_query else query,
            turn(key, positions, key_sign * sign) if turn_key else key,
            turn(value, positions) if turn_value else value,
        )

    return my_rope


def with_complex_numbers(query, key, value, positions):
    def turn(x):
        theta = 10_000.0 ** (-torch.arange(0, x.shape[-1], 2) / x.shape[-1])
        spin = torch.polar(torch.ones(()), positions[:, None] * theta)
        return torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous()) * spin).flatten(-2)

    return turn(query), turn(key), value


def the_library(query, key, value, positions):
    turn = library.RotaryPositions(layout="interleaved").rotate
    return turn(query, positions[None]), turn(key, positions[None]), value


@pytest.mark.parametrize("answer", [rope(), with_complex_numbers, the_library])
def test_right_rotations_pass_in_every_spelling(answer):
    feedback = check.apply_rope(answer)
    assert feedback.status == "right", feedback
    assert "starts at position 7" in feedback.messages[0] and "gradients reach query" in feedback.messages[0]


WRONG_ROPES = {
    "The value is rotated too": {"turn_value": True},
    "The pairs turn the wrong way": {"sign": -1},
    "Half-split pairs": {"split": True},
    "The key is not rotated": {"turn_key": False},
    "The query is not rotated": {"turn_query": False},
    "A minus sign is missing": {"minus": False},
    "i / d_head instead of 2i / d_head": {"power": lambda i, d: i / d},
    "counted from 0 again": {"restart": True},
    "The key turns the other way": {"key_sign": -1},
    "Nothing is turned": {"turn_query": False, "turn_key": False},
    "put back in another order": {"cat": True},
    "Every position is one too high": {"start": 1},
}


@pytest.mark.parametrize("name", WRONG_ROPES)
def test_each_wrong_rotation_is_named(name):
    feedback = check.apply_rope(rope(**WRONG_ROPES[name]))
    assert feedback.status == "wrong" and name in feedback.title and len(feedback.messages) == 1


def test_every_wrong_rotation_has_feedback_of_its_own():
    said = [check.apply_rope(rope(**wrong)) for wrong in WRONG_ROPES.values()]
    assert {feedback.title for feedback in said} == {mistake.title for mistake in ROPE.mistakes}
    assert len({feedback.title for feedback in said}) == len(WRONG_ROPES)


# of one group only one mistake can be made, or two of them are another one
SIGNS = {"The pairs turn the wrong way", "A minus sign is missing", "The key turns the other way"}
SIDES = {
    "The value is rotated too",
    "The key is not rotated",
    "The query is not rotated",
    "The key turns the other way",
}
COUNTS = {"counted from 0 again", "Every position is one too high"}
ORDERS = {"Half-split pairs", "put back in another order"}
PAIRS = [
    pair
    for pair in combinations(WRONG_ROPES, 2)
    if "Nothing is turned" not in pair and not any(group >= set(pair) for group in (SIGNS, SIDES, COUNTS, ORDERS))
]


@pytest.mark.parametrize("pair", PAIRS)
def test_two_mistakes_at_once_are_both_named(pair):
    first, second = (WRONG_ROPES[name] for name in pair)
    feedback = check.apply_rope(rope(**first, **second))
    assert feedback.title == "Two things to repair"
    assert all(any(name in message for message in feedback.messages) for name in pair)


def test_an_input_changed_in_place_is_noticed():
    def in_place(query, key, value, positions):
        turned = rope()(query, key, value, positions)
        query.copy_(turned[0])
        return turned

    feedback = check.apply_rope(in_place)
    assert feedback.status == "wrong" and "an input was changed" in feedback.title


def my_stub(query, key, value, positions):
    ...


@pytest.mark.parametrize("checked", [check.apply_rope, check.sinusoidal_table])
def test_an_untouched_stub_is_not_attempted(checked):
    assert checked(my_stub).status == "not attempted"
