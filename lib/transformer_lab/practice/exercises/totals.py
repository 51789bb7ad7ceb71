"""Lesson 09: a small model counted by hand, and the width at which the blocks outweigh the vocabulary."""

from transformer_lab.practice.checking import Output
from transformer_lab.practice.values import KnownValue, ValueExercise

# The small model of exercise 2.
VOCAB, WIDTH, LAYERS, POSITIONS = 2_000, 64, 4, 100


def _model_parameters() -> ValueExercise:
    embedding, table, norm = VOCAB * WIDTH, POSITIONS * WIDTH, 2 * WIDTH
    matrices, biases = 12 * WIDTH**2, 9 * WIDTH
    block, norms = matrices + biases + 2 * norm, (2 * LAYERS + 1) * norm
    answer = embedding + table + LAYERS * block + norm
    return ValueExercise(
        name="model_parameters",
        title="A whole model, counted to the last number.",
        answer=answer,
        verified="both tables, four blocks with all biases and norms, and the final norm",
        tolerance=1e-7,
        output=Output("total"),
        known=(
            KnownValue(
                answer + embedding,
                "The tied matrix is counted twice",
                "Embedding and head are one and the same tensor: it is stored, trained and counted once.",
            ),
            KnownValue(
                answer - table,
                "The table of positions is missing",
                "A learned table is trained like any other matrix: a row of width d_model for each position.",
            ),
            KnownValue(
                answer + (LAYERS - 1) * table,
                "The table of positions is counted in every block",
                "Positions are added once, to the embeddings. The blocks have none of their own.",
            ),
            KnownValue(
                answer - norm,
                "The final norm is missing",
                "Pre-norm blocks never norm their sum, so one more norm stands after the last block: scale and shift.",
            ),
            KnownValue(
                answer - norms,
                "The norms are missing",
                "Two norms a block and one at the end, each with a scale and a shift of d_model numbers.",
            ),
            KnownValue(
                answer - (2 * LAYERS + 1) * WIDTH,
                "The norms have a scale and no shift",
                "A LayerNorm with biases holds two vectors of d_model; RMSNorm holds one.",
            ),
            KnownValue(
                answer - LAYERS * norm,
                "2 · d_model numbers a block are missing",
                "A norm holds that many, and a block has two. Or are the shifts of both missing, or two of the biases?",
            ),
            KnownValue(
                answer - LAYERS * biases,
                "The biases are missing",
                "This model has them: four of d_model in attention, one of d_ff and one of d_model in the "
                "feed-forward layer.",
            ),
            KnownValue(
                answer - LAYERS * 4 * WIDTH,
                "4 · d_model numbers a block are missing",
                "Three parts hold that many: the biases of the four projections, the bias of *up*, and the two norms.",
            ),
            KnownValue(
                answer - LAYERS * 5 * WIDTH,
                "The biases of the feed-forward layer are missing",
                "Up adds d_ff numbers, down adds d_model.",
            ),
            KnownValue(
                answer - LAYERS * WIDTH**2,
                "One of attention's four matrices is missing",
                "W_Q, W_K, W_V, and W_O after the heads are joined.",
            ),
            KnownValue(
                answer + LAYERS * (4 * WIDTH**2 + 4 * WIDTH),
                "A gate is counted that this model does not have",
                "GELU is no gate: two matrices, up and down.",
            ),
            KnownValue(
                answer - (LAYERS - 1) * block,
                "Only one block is counted",
                "Blocks share their structure, not their weights: multiply by the number of blocks.",
            ),
            KnownValue(
                LAYERS * block,
                "Only the blocks are counted",
                "Add what stands before and behind them: the embedding, the positions and the final norm.",
            ),
            KnownValue(
                embedding + LAYERS * matrices,
                "Only the large matrices are counted",
                "That is a good estimate. For the exact number add positions, biases and norms.",
            ),
            KnownValue(
                answer - LAYERS * biases - norms,
                "Biases and norms are missing",
                "Add nine vectors of d_model a block for the biases, and a scale and a shift for each of nine norms.",
            ),
            KnownValue(
                answer - table - norm,
                "The table of positions and the final norm are missing",
                "A row of d_model for each position stands before the blocks, a scale and a shift behind them.",
            ),
            KnownValue(
                answer - table - norms,
                "The table of positions and the norms are missing",
                "Add a row of d_model for each position, and a scale and a shift for each of nine norms.",
            ),
            KnownValue(
                answer + embedding - table,
                "The tied matrix is counted twice, and the table of positions is missing",
                "Head and embedding are one tensor. Positions have a table of their own, a row of d_model for each.",
            ),
            KnownValue(
                answer + embedding - norms,
                "The tied matrix is counted twice, and the norms are missing",
                "Head and embedding are one tensor. Each of the nine norms holds a scale and a shift.",
            ),
            KnownValue(
                answer + embedding - norm,
                "The tied matrix is counted twice, and the final norm is missing",
                "Head and embedding are one tensor. Behind the last pre-norm block stands one more norm.",
            ),
            KnownValue(
                answer + embedding - LAYERS * biases,
                "The tied matrix is counted twice, and the biases are missing",
                "Head and embedding are one tensor. Every linear layer in the blocks adds a bias.",
            ),
            KnownValue(
                answer + embedding - LAYERS * biases - norms,
                "The tied matrix is counted twice, and biases and norms are missing",
                "Head and embedding are one tensor. In every block nine biases of d_model and two norms come on top.",
            ),
            KnownValue(
                answer + POSITIONS**2,
                "The causal mask is counted",
                "A mask is a fixed table, a *buffer*: it may be stored, and nothing about it is trained.",
            ),
        ),
    )


MODEL_PARAMETERS = _model_parameters()

# Exercise 3: a model like GPT-2, whose width is looked for.
CROSSING_VOCAB, CROSSING_LAYERS = 48_000, 20
CROSSING_GUESSES = 100, 1000  # the widths at which the learner guesses


def _crossing_width() -> ValueExercise:
    vocab, layers = CROSSING_VOCAB, CROSSING_LAYERS
    narrow, wide = (vocab / (12 * layers * width) for width in CROSSING_GUESSES)
    return ValueExercise(
        name="crossing_width",
        title="Below this width the vocabulary weighs more than all blocks.",
        answer=vocab / (12 * layers),
        verified="12 · L · d² = V · d, solved for d; and the guesses: at 100 the embedding holds "
        f"{narrow:.3g} times what the blocks hold, at 1,000 it holds {wide:.3g} of it",
        tolerance=0.001,
        output=Output("width"),
        known=(
            KnownValue(
                vocab / 12,
                "One block is compared with the vocabulary",
                "All blocks together stand on one side: 12 · d² for each of them.",
            ),
            KnownValue(
                2 * vocab / (12 * layers),
                "The tied matrix is counted twice",
                "Embedding and head are one tensor of V · d numbers.",
            ),
            KnownValue(
                vocab / (4 * layers),
                "Only attention is counted in the blocks",
                "A block holds 4 d² in attention and 8 d² in the feed-forward layer.",
            ),
            KnownValue(
                vocab / (8 * layers),
                "Only the feed-forward layers are counted in the blocks",
                "A block holds 8 d² there and 4 d² in attention.",
            ),
            KnownValue(
                vocab / (16 * layers),
                "A gate is counted that this model does not have",
                "Two matrices of d × 4d make 8 d²; with attention that is 12 d² a block.",
            ),
            KnownValue(
                CROSSING_GUESSES[0],
                "At 100 the embedding holds more",
                f"It holds {narrow:.3g} times what all blocks hold. The width looked for makes that 1.",
            ),
            KnownValue(
                CROSSING_GUESSES[1],
                "At 1,000 the blocks hold more",
                f"The embedding holds {wide:.3g} of what they hold. The width looked for makes that 1.",
            ),
            KnownValue(
                (vocab / (12 * layers)) ** 0.5,
                "A root too many",
                "The blocks grow with d², the embedding grows with d: after dividing both by d, one d is left.",
            ),
            KnownValue(
                12 * layers / vocab,
                "The fraction stands on its head",
                "12 · L · d² = V · d. Divide both sides by d, then by 12 · L.",
            ),
        ),
    )


CROSSING_WIDTH = _crossing_width()
