"""Lesson 09: a block and a model counted, the width at which the blocks outweigh the vocabulary, the K/V cache."""

from transformer_lab.practice.checking import Case, FunctionExercise, Mistake, Output
from transformer_lab.practice.values import KnownValue, ValueExercise


def block_with_faults(
    d_model: int, n_heads: int, d_head: int, n_kv_heads: int, d_ff: int, gated: bool, *, output: str = "counted",
    width: str = "d_model", projections: str = "all heads at once", shared: bool = True, matrices: str = "by kind",
    biases: bool = False, norms: str = "none",
) -> int:  # fmt: skip
    """The matrices of one block: attention and feed-forward layer, without biases and norms."""
    queries, keys = n_heads * d_head, (n_kv_heads if shared else n_heads) * d_head
    if projections == "one head":
        queries, keys = d_head, d_head
    elif projections == "every head whole":
        queries, keys = n_heads * queries, n_kv_heads * n_heads * d_head
    into = {"d_model": d_model, "d_head": d_head, "queries": queries}[width]
    attention = into * queries + 2 * into * keys + (queries * into if output == "counted" else 0)
    n_matrices = {"by kind": 3 if gated else 2, "two": 2, "three": 3, "one": 1}[matrices]
    total = attention + n_matrices * d_model * d_ff
    if biases:
        total += queries + 2 * keys + d_model + (n_matrices - 1) * d_ff + d_model
    return total + {"none": 0, "scales": 2 * d_model, "scales and shifts": 4 * d_model}[norms]


BLOCK_PARAMETERS = FunctionExercise(
    name="block_parameters",
    title="One block, counted.",
    reference=block_with_faults,
    cases=lambda: (
        Case("a plain block", _block(512, 8, 64, 8, 2048, False)),
        Case("a gated layer and shared key/value heads", _block(4096, 32, 128, 8, 14_336, True)),
        Case("heads wider than d_model together", _block(1024, 128, 128, 128, 65_536, False)),
        Case("one key/value head", _block(60, 6, 20, 1, 96, True)),
    ),
    outputs=(Output("number of parameters"),),
    mistakes=(
        Mistake(
            {"output": "forgotten"},
            "The output projection is forgotten",
            "After the heads are joined, W_O brings them back to d_model: one more matrix of "
            "n_heads · d_head × d_model.",
        ),
        Mistake(
            {"width": "d_head"},
            "A projection starts from d_head instead of d_model",
            "Every projection reads the whole vector of width d_model. d_head is the width of what comes out, a head.",
        ),
        Mistake(
            {"width": "queries"},
            "Heads times head width stands where d_model belongs",
            "n_heads · d_head need not equal d_model. Each projection has d_model on one side and the heads on the "
            "other.",
        ),
        Mistake(
            {"projections": "one head"},
            "Only one head is counted",
            "W_Q makes the queries of all heads: its outputs are n_heads · d_head.",
        ),
        Mistake(
            {"projections": "every head whole"},
            "The heads are multiplied in once too often",
            "n_heads · d_head is the width of all heads together. Splitting it into heads adds no weight.",
        ),
        Mistake(
            {"shared": False},
            "Key/value heads are counted as many as query heads",
            "W_K and W_V make n_kv_heads heads only. W_Q and W_O keep n_heads.",
        ),
        Mistake(
            {"matrices": "two"},
            "The third matrix of a gated layer is forgotten",
            "A gate is one more matrix of d_model × d_ff: three in all when `gated` is True.",
        ),
        Mistake(
            {"matrices": "three"},
            "A plain feed-forward layer has no third matrix",
            "Up and down are two. The third is there only when `gated` is True.",
        ),
        Mistake(
            {"matrices": "one"},
            "One matrix stands for the whole feed-forward layer",
            "What goes up to d_ff must come down again: count the matrix back to d_model too.",
        ),
        Mistake(
            {"biases": True},
            "Biases are counted, and this block has none",
            "The task asks for the matrices alone. Biases would add one number for every output.",
        ),
        Mistake(
            {"norms": "scales"},
            "The scales of the norms are counted too",
            "The task leaves the norms out. Two scales of d_model each are in your number.",
        ),
        Mistake(
            {"norms": "scales and shifts"},
            "The norms are counted too, scales and shifts",
            "The task leaves the norms out. Four vectors of d_model are in your number.",
        ),
    ),
)


def _block(d_model: int, n_heads: int, d_head: int, n_kv_heads: int, d_ff: int, gated: bool) -> dict[str, object]:
    return {
        "d_model": d_model, "n_heads": n_heads, "d_head": d_head, "n_kv_heads": n_kv_heads, "d_ff": d_ff,
        "gated": gated,
    }  # fmt: skip


# The small model of exercise 2.
VOCAB, WIDTH, LAYERS, POSITIONS = 2_000, 64, 4, 100


def _model_parameters() -> ValueExercise:
    embedding, table, norm = VOCAB * WIDTH, POSITIONS * WIDTH, 2 * WIDTH
    matrices, biases = 12 * WIDTH**2, 9 * WIDTH
    block = matrices + biases + 2 * norm
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
                answer - (2 * LAYERS + 1) * norm,
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
                "One norm a block is missing",
                "Attention and feed-forward layer have a norm each.",
            ),
            KnownValue(
                answer - LAYERS * biases,
                "The biases are missing",
                "This model has them: four of d_model in attention, one of d_ff and one of d_model in the "
                "feed-forward layer.",
            ),
            KnownValue(
                answer - LAYERS * 4 * WIDTH,
                "The biases of attention are missing",
                "Each of the four projections adds a bias of d_model numbers.",
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
                answer + POSITIONS**2,
                "The causal mask is counted",
                "A mask is a fixed table, a *buffer*: it may be stored, and nothing about it is trained.",
            ),
        ),
    )


MODEL_PARAMETERS = _model_parameters()

# Exercise 3: a model like GPT-2, whose width is looked for.
CROSSING_VOCAB, CROSSING_LAYERS = 48_000, 20


def _crossing_width() -> ValueExercise:
    vocab, layers = CROSSING_VOCAB, CROSSING_LAYERS
    return ValueExercise(
        name="crossing_width",
        title="Below this width the vocabulary weighs more than all blocks.",
        answer=vocab / (12 * layers),
        verified="12 · L · d² = V · d, solved for d",
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


def cache_with_faults(
    n_layers: int, d_model: int, n_heads: int, n_kv_heads: int, d_head: int, n_positions: int, bytes_each: int, *,
    kept: int = 2, heads: str = "key/value", layers: bool = True, positions: int = 1, sizes: bool = True,
) -> int:  # fmt: skip
    """Bytes of a K/V cache."""
    widths = {
        "key/value": n_kv_heads * d_head, "query": n_heads * d_head, "both": n_heads * n_kv_heads * d_head,
        "none": d_head, "d_model": d_model,
    }  # fmt: skip
    numbers = kept * widths[heads] * n_positions**positions
    return numbers * (n_layers if layers else 1) * (bytes_each if sizes else 1)


CACHE_BYTES = FunctionExercise(
    name="cache_bytes",
    title="The K/V cache, weighed.",
    reference=cache_with_faults,
    cases=lambda: (
        Case("as many key/value heads as heads", _cache(32, 4096, 32, 32, 128, 1, 2)),
        Case("eight key/value heads", _cache(80, 8192, 64, 8, 128, 32_768, 2)),
        Case("heads wider than d_model together", _cache(3, 96, 6, 2, 24, 7, 4)),
    ),
    outputs=(Output("number of bytes"),),
    mistakes=(
        Mistake(
            {"kept": 1},
            "Keys or values are missing",
            "The cache keeps both, a key and a value for every position: that is a factor of 2.",
        ),
        Mistake(
            {"heads": "query"},
            "The query heads are counted",
            "Queries are used once and thrown away. The cache holds n_kv_heads heads.",
        ),
        Mistake(
            {"heads": "both"},
            "There is an extra factor of n_heads",
            "Only key/value heads are stored, each d_head wide. The query heads that share them add nothing.",
        ),
        Mistake(
            {"heads": "none"},
            "One head alone is counted",
            "Every key/value head has keys and values of its own: multiply by n_kv_heads.",
        ),
        Mistake(
            {"heads": "d_model"},
            "d_model is stored for every position",
            "The cache keeps projected keys and values, n_kv_heads · d_head numbers wide, and not the stream itself.",
        ),
        Mistake(
            {"layers": False},
            "This is the cache of one layer",
            "Every layer has its own keys and values: multiply by n_layers.",
        ),
        Mistake(
            {"positions": 2},
            "The cache grows with the square of the positions",
            "Scores are n × n, but they are not kept. A position adds one key and one value a head.",
        ),
        Mistake(
            {"positions": 0},
            "This is the cache of one position",
            "Multiply by n_positions: every token that was read stays in the cache.",
        ),
        Mistake({"sizes": False}, "These are numbers, not bytes", "Multiply by the bytes of each number."),
    ),
)


def _cache(
    n_layers: int, d_model: int, n_heads: int, n_kv_heads: int, d_head: int, n_positions: int, bytes_each: int
) -> dict[str, object]:
    return {
        "n_layers": n_layers, "d_model": d_model, "n_heads": n_heads, "n_kv_heads": n_kv_heads, "d_head": d_head,
        "n_positions": n_positions, "bytes_each": bytes_each,
    }  # fmt: skip
