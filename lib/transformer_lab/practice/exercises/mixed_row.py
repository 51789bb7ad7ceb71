"""Lesson 02: one row of values mixed by hand."""

import torch

from transformer_lab.practice.checking import Output
from transformer_lab.practice.values import KnownValue, ValueExercise

# "The bank approved it": what the query "it" takes from each of the four tokens. The values are not the lesson's.
HAND_WEIGHTS = (0.10, 0.60, 0.20, 0.10)
HAND_TOKENS = ("The", "bank", "approved", "it")
HAND_VALUES = ((2.0, 0.0, 1.0, 0.0), (1.0, 3.0, 0.0, 2.0), (0.0, 1.0, 4.0, 0.0), (0.0, 0.0, 2.0, 5.0))
LESSON_ROW = (0.30, 0.40, 0.75, 0.20)  # what the lesson works out for "it", with the values it has there


def _mixed_row() -> ValueExercise:
    weights, values = torch.tensor(HAND_WEIGHTS), torch.tensor(HAND_VALUES)
    answer = weights @ values
    shares = weights[:, None] * values
    winner = int(weights.argmax())
    return ValueExercise(
        name="mixed_row",
        title="One row, mixed by hand.",
        answer=answer,
        verified="all four coordinates, each to within 0.005",
        output=Output("mixed row", ("d_value",)),
        known=(
            KnownValue(
                values[winner],
                "This is the winner's value vector",
                "The largest weight is 0.60, not 1. The other three tokens put in the remaining 0.40: add their "
                "shares.",
            ),
            KnownValue(
                shares[winner],
                "This is only the winner's share",
                "0.60 times the second vector is one of four shares. Add the other three.",
            ),
            KnownValue(
                values.mean(0),
                "This is the plain mean",
                "A mean gives every token 0.25. Here each token has its own weight: multiply first, then add.",
            ),
            KnownValue(
                values.sum(0),
                "This is the sum without the weights",
                "Multiply every vector by its token's weight before adding.",
            ),
            KnownValue(
                answer / len(weights),
                "The weighted sum is divided once more",
                "The weights already sum to 1, so the weighted sum is the average. Leave out the division by 4.",
            ),
            KnownValue(
                values @ weights,
                "The weights are applied to the coordinates",
                "There is one weight per *token*, and a token is a row of the table. Multiply each row by its weight, "
                "then add down the columns.",
            ),
            KnownValue(
                weights.flip(0) @ values,
                "The weights are in reverse order",
                "The first weight belongs to the first token, `The`; the 0.60 belongs to `bank`.",
            ),
            KnownValue(
                shares,
                "The shares are not added yet",
                "You have the four weighted vectors. Add them, coordinate by coordinate, into one vector.",
            ),
            KnownValue(
                100 * answer,
                "Everything is a hundred times too large",
                "0.60 is a share of 1, not 60. Multiply by 0.60.",
            ),
            KnownValue(
                LESSON_ROW,
                "This is the row of the lesson",
                "The weights are the same, but the values are new: take them from the table of this exercise.",
            ),
            *(
                KnownValue(
                    answer - share,
                    f"The share of `{token}` is missing",
                    "Four tokens put in four shares. A small weight counts too.",
                )
                for token, share in zip(HAND_TOKENS, shares, strict=True)
            ),
            KnownValue(
                answer.sum(),
                "The coordinates are added together",
                "The output is a vector as long as a value vector: keep the four coordinates apart.",
            ),
        ),
    )


MIXED_ROW = _mixed_row()
