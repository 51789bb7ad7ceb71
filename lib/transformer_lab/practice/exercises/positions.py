"""Lesson 04: the table of sinusoids, and RoPE applied to a query and a key."""

import math

import torch
from torch import Tensor

from transformer_lab.practice.checking import Case, FunctionExercise, Mistake, Output, seeded

BASE = 10_000.0


def sinusoids_with_faults(
    n_positions: int,
    d_model: int,
    *,
    waves: str = "sin, cos",
    exponent: str = "2i / d_model",
    columns: str = "interleaved",
    first_position: int = 0,
    dtype: torch.dtype = torch.float32,
    lone_pair: float = math.nan,
) -> Tensor:
    """PE(p, 2i) = sin(p / 10000^(2i / d_model)), PE(p, 2i + 1) = cos(the same), with a switch for each mistake.

    At its defaults it is the right answer, ``(n_positions, d_model)``, for an even ``d_model``. ``lone_pair`` is what
    the exponent i / (d_model / 2 − 1) becomes where there is one pair: 0 / 0, or 0 with ``linspace``.
    """
    pair = torch.arange(d_model // 2, dtype=torch.float64)
    sine_power, cosine_power = {
        "2i / d_model": (2 * pair / d_model, 2 * pair / d_model),
        "i / d_model": (pair / d_model, pair / d_model),
        "2 · column / d_model": (4 * pair / d_model, (4 * pair + 2) / d_model),
        "2i": (2 * pair, 2 * pair),
        "i / (d_model / 2 − 1)": (torch.nan_to_num(pair / (d_model / 2 - 1), nan=lone_pair),) * 2,
        "column / d_model": (2 * pair / d_model, (2 * pair + 1) / d_model),
    }[exponent]
    position = torch.arange(first_position, first_position + n_positions, dtype=torch.float64)[:, None]
    sine, cosine = (position / BASE**sine_power).sin(), (position / BASE**cosine_power).cos()
    both = {"sin, cos": (sine, cosine), "cos, sin": (cosine, sine), "sin, sin": (sine, sine)}[waves]
    table = torch.cat(both, dim=1) if columns == "halves" else torch.stack(both, dim=-1).flatten(1)
    return table.to(dtype)


SINUSOIDAL_TABLE = FunctionExercise(
    name="sinusoidal_table",
    title="The table of sinusoids.",
    reference=sinusoids_with_faults,
    cases=lambda: tuple(
        Case(label, {"n_positions": n_positions, "d_model": d_model})
        for label, n_positions, d_model in (
            ("four positions, three pairs", 4, 6),
            ("a single position", 1, 8),
            ("a single pair", 5, 2),
            ("positions = width", 8, 8),
            ("32 pairs", 20, 64),
        )
    ),
    outputs=(Output("table", ("position", "column")),),
    mistakes=(
        Mistake(
            {"waves": "cos, sin"},
            "Sine and cosine are swapped",
            "Even columns hold sines, odd columns cosines. At position 0 every even column is sin 0 = 0 and every odd "
            "one cos 0 = 1: look at your first row.",
        ),
        Mistake(
            {"waves": "sin, sin"},
            "There are sines only",
            "The odd columns hold the *cosine* of the same angle. With sines alone two positions can share a value and "
            "a step of k is no longer a rotation.",
        ),
        Mistake(
            {"exponent": "i / d_model"},
            "The exponent is i / d_model instead of 2i / d_model",
            "i counts *pairs*, from 0 to d_model / 2 − 1, so i / d_model stops near one half and the slowest wave is a "
            "hundred times too fast. The exponent is 2i / d_model.",
        ),
        Mistake(
            {"exponent": "2 · column / d_model"},
            "The column number is doubled",
            "In the formula 2i *is* the even column, so it must not be doubled again. And a sine and its cosine share "
            "one exponent: column 2i and column 2i + 1 have the same angle.",
        ),
        Mistake(
            {"exponent": "2i"},
            "The exponent is not divided by d_model",
            "With 10000^(2i) the second pair hardly moves at all. Dividing by d_model spreads the wavelengths evenly, "
            "in ratio, from 2π to almost 2π · 10000.",
        ),
        Mistake(
            {"exponent": "i / (d_model / 2 − 1)"},
            "The exponent runs all the way to 1",
            "Dividing i by d_model / 2 − 1 (or `linspace(0, 1, …)`) spreads the pairs from 0 to 1. In the formula the "
            "last exponent is (d_model − 2) / d_model: divide 2i by d_model.",
        ),
        Mistake(
            {"exponent": "column / d_model"},
            "The cosine has an exponent of its own",
            "Column 2i + 1 takes the cosine of the *same* angle as column 2i, so both divide by 10000^(2i / d_model). "
            "Yours uses 2i + 1 in the odd columns.",
        ),
        Mistake(
            {"columns": "halves"},
            "All sines come first, then all cosines",
            "The numbers are right and stand in another order. This table is interleaved: sin, cos, sin, cos. Fill "
            "`table[:, 0::2]` and `table[:, 1::2]`.",
        ),
        Mistake(
            {"first_position": 1},
            "The positions start at 1",
            "The first token stands at position 0: `torch.arange(n_positions)`. Its row is 0, 1, 0, 1 …",
        ),
        Mistake(
            {"dtype": torch.float64},
            "The table is float64",
            "Angles in float64 are a good idea. But the table is added to float32 embeddings, and one float64 term "
            "turns the sum into float64: end with `.float()`.",
        ),
    ),
    spellings=({}, {"lone_pair": 0.0}),
)


def rope_with_faults(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    positions: Tensor,
    *,
    turned: str = "query and key",
    direction: str = "forward",
    pairs: str = "interleaved",
    joined: str = "as they were",
    exponent: str = "2i / d_head",
    counted: str = "as given",
) -> tuple[Tensor, Tensor, Tensor]:
    """Query and key turned pair by pair, value as it was, with a switch for each mistake.

    At its defaults it is the right answer: pair (2i, 2i + 1) turns by positions / 10000^(2i / d_head).
    """
    if counted == "from 0":
        positions = torch.arange(len(positions))
    if counted == "one too many":
        positions = positions + 1

    def turn(x: Tensor, direction: str = direction) -> Tensor:
        d_head = x.shape[-1]
        power = torch.arange(0, d_head, 2) / d_head / (2 if exponent == "i / d_head" else 1)
        angle = positions[:, None] / BASE**power
        cos, sin = angle.cos(), angle.sin()
        a, b = (x[..., 0::2], x[..., 1::2]) if pairs == "interleaved" else x.chunk(2, dim=-1)
        first, second = {
            "forward": lambda: (a * cos - b * sin, a * sin + b * cos),
            "backward": lambda: (a * cos + b * sin, b * cos - a * sin),
            "no minus": lambda: (a * cos + b * sin, a * sin + b * cos),
        }[direction]()
        if (pairs == "interleaved") == (joined == "as they were"):
            return torch.stack((first, second), dim=-1).flatten(-2)
        return torch.cat((first, second), dim=-1)

    key_direction = "backward" if turned == "key backward" else direction
    return (
        query if turned in ("key alone", "nothing") else turn(query),
        key if turned in ("query alone", "nothing") else turn(key, key_direction),
        turn(value) if turned == "value too" else value,
    )


def _rope_case(label: str, batch: int, heads: int, length: int, d_head: int, first: int = 0, step: int = 1) -> Case:
    shape = (batch, heads, length, d_head)
    tensors = {name: seeded(*shape, seed=seed) for seed, name in enumerate(("query", "key", "value"), start=1)}
    return Case(label, tensors | {"positions": first + step * torch.arange(length)})


ROPE = FunctionExercise(
    name="apply_rope",
    title="RoPE on the query and the key.",
    reference=rope_with_faults,
    cases=lambda: (
        _rope_case("two heads", 1, 2, 5, 4),
        _rope_case("a sequence that starts at position 7", 2, 1, 3, 6, first=7),
        _rope_case("heads = length = d_head", 2, 4, 4, 4),
        _rope_case("a single pair", 1, 3, 4, 2),
        _rope_case("one new token at position 11", 2, 2, 1, 8, first=11),
        _rope_case("positions that count down by twos", 1, 2, 4, 6, first=9, step=-2),
    ),
    outputs=tuple(Output(name, ("batch", "head", "position", "component")) for name in ("query", "key", "value")),
    differentiable=("query",),
    mistakes=(
        Mistake(
            {"turned": "value too"},
            "The value is rotated too",
            "Rotation belongs where positions are *compared*, in query · key. The value is what gets mixed: return it "
            "as it came in.",
        ),
        Mistake(
            {"turned": "query alone"},
            "The key is not rotated",
            "The score sees a distance only if both sides are turned, each by its own position. Rotate the key as "
            "well.",
        ),
        Mistake(
            {"turned": "key alone"},
            "The query is not rotated",
            "The score sees a distance only if both sides are turned, each by its own position. Rotate the query as "
            "well.",
        ),
        Mistake(
            {"turned": "nothing"},
            "Nothing is turned",
            "Query and key come back as they went in. Is the turned tensor returned, or the original? Turning makes a "
            "new tensor; `turn(query)` on a line of its own changes nothing.",
        ),
        Mistake(
            {"turned": "key backward"},
            "The key turns the other way",
            "Query and key turn in the *same* direction, each by its own position. Then the two turns leave m − n "
            "between them. Turned against each other they leave m + n, and a common shift shows.",
        ),
        Mistake(
            {"direction": "backward"},
            "The pairs turn the wrong way",
            "The sign of the sine is flipped. The pair (a, b) turns into (a cos − b sin, a sin + b cos). Turned the "
            "other way the scores still agree with each other, but not with a model that was trained this way.",
        ),
        Mistake(
            {"direction": "no minus"},
            "A minus sign is missing",
            "(a cos + b sin, a sin + b cos) is no rotation: it changes the length of the pair. The first component is "
            "a cos − b sin.",
        ),
        Mistake(
            {"pairs": "half-split"},
            "Half-split pairs where interleaved ones were asked",
            "You pair component i with component i + d_head / 2. Here neighbours belong together: (0, 1), (2, 3), so "
            "take `x[..., 0::2]` and `x[..., 1::2]` and weave the results together again.",
        ),
        Mistake(
            {"joined": "the other way"},
            "The pairs are right, but put back in another order",
            "You take neighbours apart, (0, 1), (2, 3), and join all first components, then all second ones with "
            "`cat`. Weave them: `torch.stack((first, second), dim=-1).flatten(-2)`.",
        ),
        Mistake(
            {"exponent": "i / d_head"},
            "The exponent is i / d_head instead of 2i / d_head",
            "i counts pairs, so there are only d_head / 2 of them: the slow pairs turn too fast. Use 2i / d_head, for "
            "example `torch.arange(0, d_head, 2) / d_head`.",
        ),
        Mistake(
            {"counted": "from 0"},
            "The positions are counted from 0 again",
            "Use the `positions` you are given. A new token may come alone and stand far from 0.",
        ),
        Mistake(
            {"counted": "one too many"},
            "Every position is one too high",
            "The positions you are given count from 0 already, so nothing is to be added. The scores hide it, since a "
            "common shift cancels, but the vectors show it.",
        ),
    ),
)
