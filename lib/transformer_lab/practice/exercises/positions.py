"""Lesson 04: the table of sinusoids, and RoPE applied to a query and a key."""

import torch
from torch import Tensor

from transformer_lab.practice.checking import Case, FunctionExercise, Mistake, Output, seeded

BASE = 10_000.0


def sinusoids_with_faults(
    n_positions: int,
    d_model: int,
    *,
    even_columns: str = "sin",
    exponent: str = "2i / d_model",
    columns: str = "interleaved",
    first_position: int = 0,
) -> Tensor:
    """PE(p, 2i) = sin(p / 10000^(2i / d_model)), PE(p, 2i + 1) = cos(the same), with a switch for each mistake.

    At its defaults it is the right answer, ``(n_positions, d_model)``, for an even ``d_model``.
    """
    pair = torch.arange(d_model // 2, dtype=torch.float64)
    sine_power, cosine_power = {
        "2i / d_model": (2 * pair / d_model, 2 * pair / d_model),
        "i / d_model": (pair / d_model, pair / d_model),
        "2 · column / d_model": (4 * pair / d_model, (4 * pair + 2) / d_model),
        "2i": (2 * pair, 2 * pair),
    }[exponent]
    position = torch.arange(first_position, first_position + n_positions, dtype=torch.float64)[:, None]
    waves = [(position / BASE**sine_power).sin(), (position / BASE**cosine_power).cos()]
    if even_columns == "cos":
        waves.reverse()
    table = torch.cat(waves, dim=1) if columns == "halves" else torch.stack(waves, dim=-1).flatten(1)
    return table.float()


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
            {"even_columns": "cos"},
            "Sine and cosine are swapped",
            "Even columns hold sines, odd columns cosines. At position 0 every even column is sin 0 = 0 and every odd "
            "one cos 0 = 1: look at your first row.",
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
    ),
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
    exponent: str = "2i / d_head",
    counted: str = "as given",
) -> tuple[Tensor, Tensor, Tensor]:
    """Query and key turned pair by pair, value as it was, with a switch for each mistake.

    At its defaults it is the right answer: pair (2i, 2i + 1) turns by positions / 10000^(2i / d_head).
    """
    if counted == "from 0":
        positions = torch.arange(len(positions))

    def turn(x: Tensor) -> Tensor:
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
        if pairs == "interleaved":
            return torch.stack((first, second), dim=-1).flatten(-2)
        return torch.cat((first, second), dim=-1)

    return (
        query if turned == "key alone" else turn(query),
        key if turned == "query alone" else turn(key),
        turn(value) if turned == "value too" else value,
    )


def _rope_case(label: str, batch: int, heads: int, length: int, d_head: int, first: int = 0) -> Case:
    shape = (batch, heads, length, d_head)
    tensors = {name: seeded(*shape, seed=seed) for seed, name in enumerate(("query", "key", "value"), start=1)}
    return Case(label, tensors | {"positions": torch.arange(first, first + length)})


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
    ),
    outputs=tuple(Output(name, ("batch", "heads", "position", "d_head")) for name in ("query", "key", "value")),
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
            {"exponent": "i / d_head"},
            "The exponent is i / d_head instead of 2i / d_head",
            "i counts pairs, so there are only d_head / 2 of them: the slow pairs turn too fast. Use 2i / d_head, for "
            "example `torch.arange(0, d_head, 2) / d_head`.",
        ),
        Mistake(
            {"counted": "from 0"},
            "The positions are counted from 0 again",
            "Use the `positions` you are given. With a cache a new token comes alone and stands far from 0.",
        ),
    ),
)
