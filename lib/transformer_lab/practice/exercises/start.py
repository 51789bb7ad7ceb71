"""Lesson 00: a first exercise, to meet the checks."""

from transformer_lab.practice.checking import Case, FunctionExercise, Mistake, Output


def n_pairs_with_faults(n_tokens: int, *, counted: str = "every ordered pair") -> int:
    """How many (who, whom) pairs ``n_tokens`` make when each looks at each, itself included."""
    return {
        "every ordered pair": n_tokens * n_tokens,
        "not itself": n_tokens * (n_tokens - 1),
        "each pair once": n_tokens * (n_tokens - 1) // 2,
        "each pair once, and itself": n_tokens * (n_tokens + 1) // 2,
        "doubled": 2 * n_tokens,
        "bits": n_tokens ^ 2,
    }[counted]


N_PAIRS = FunctionExercise(
    name="n_pairs",
    title="Every token looks at every token.",
    reference=n_pairs_with_faults,
    cases=lambda: tuple(
        Case(label, {"n_tokens": n}) for label, n in (("one token", 1), ("four tokens", 4), ("512 tokens", 512))
    ),
    outputs=(Output("count"),),
    mistakes=(
        Mistake(
            {"counted": "not itself"},
            "Nobody looks at itself here",
            "In attention a token may look at itself too. With one token there is one pair, not none.",
        ),
        Mistake(
            {"counted": "each pair once"},
            "Each pair is counted once, and nobody looks at itself",
            "*A looks at B* and *B looks at A* are two questions with two answers, and a token may look at itself.",
        ),
        Mistake(
            {"counted": "each pair once, and itself"},
            "Each pair is counted once",
            "*A looks at B* and *B looks at A* are two questions with two answers: count both.",
        ),
        Mistake(
            {"counted": "doubled"},
            "This grows too slowly",
            "Each new token looks at all the others, so ten times the tokens make a hundred times the pairs.",
        ),
        Mistake(
            {"counted": "bits"},
            "`^` is not a power in Python",
            "`n ^ 2` compares the two numbers bit by bit. A power is written with two stars: `n**2`.",
        ),
    ),
)
