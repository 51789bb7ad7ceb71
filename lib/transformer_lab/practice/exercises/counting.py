"""Lesson 09: a block counted and a K/V cache weighed, by functions."""

from transformer_lab.practice.checking import Case, FunctionExercise, Mistake, Output


def block_with_faults(
    d_model: int, n_heads: int, d_head: int, n_kv_heads: int, d_ff: int, gated: bool, *, output: str = "counted",
    width: str = "d_model", projections: str = "all heads at once", shared: bool = True, matrices: str = "by kind",
    biases: bool = False, norms: str = "none", attention: str = "counted", whole: str = "counted",
) -> int:  # fmt: skip
    """The matrices of one block: attention and feed-forward layer, without biases and norms."""
    queries, keys = n_heads * d_head, (n_kv_heads if shared else n_heads) * d_head
    if projections == "one head":
        queries, keys = d_head, d_head
    elif projections == "every head whole":
        queries, keys = n_heads * queries, n_kv_heads * n_heads * d_head
    into = {"d_model": d_model, "d_head": d_head, "queries": queries}[width]
    w_q = d_model**2 if output == "d_model², like W_Q" else into * queries
    w_o = {
        "counted": queries * into, "forgotten": 0, "key/value heads": keys * into, "d_model²": d_model**2,
        "d_model², like W_Q": d_model**2,
    }[output]  # fmt: skip
    four = {"counted": w_q + 2 * into * keys + w_o, "4 · d_model²": 4 * d_model**2, "forgotten": 0}[attention]
    n_matrices = {
        "by kind": 3 if gated else 2, "two": 2, "three": 3, "one": 1, "none": 0, "two a gate": 4 if gated else 2,
    }[matrices]  # fmt: skip
    total = {
        "counted": four + n_matrices * d_model * d_ff, "12 · d_model²": 12 * d_model**2,
        "12 or 16 · d_model²": (16 if gated else 12) * d_model**2,
    }[whole]  # fmt: skip
    if biases:
        total += queries + 2 * keys + d_model + (n_matrices - 1) * d_ff + d_model
    return total + {"none": 0, "scales": 2, "scales and shifts": 4, "and biases": 13}[norms] * d_model


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
            {"output": "d_model²"},
            "W_O is taken for a square of d_model",
            "W_O goes from all heads, n_heads · d_head, to d_model. That is a square only when the two are equal.",
        ),
        Mistake(
            {"output": "d_model², like W_Q"},
            "W_Q and W_O are taken for squares of d_model",
            "On one side of each stands n_heads · d_head, which need not be d_model.",
        ),
        Mistake(
            {"output": "key/value heads"},
            "W_O is counted with the key/value heads",
            "Every query head has an output, also when heads share keys and values: W_O reads n_heads · d_head.",
        ),
        Mistake(
            {"attention": "4 · d_model²"},
            "Attention is counted as 4 · d_model²",
            "That holds when n_heads · d_head is d_model and no keys are shared. Here neither need be so: count W_Q, "
            "W_K, W_V and W_O one by one.",
        ),
        Mistake(
            {"attention": "forgotten"},
            "Only the feed-forward layer is counted",
            "A block also holds the four matrices of attention.",
        ),
        Mistake(
            {"whole": "12 · d_model²"},
            "12 · d_model² is the special case",
            "It needs n_heads · d_head = d_model, d_ff = 4 · d_model, no gate and no shared heads. The arguments say "
            "what holds here.",
        ),
        Mistake(
            {"whole": "12 or 16 · d_model²"},
            "12 · d_model² and 16 · d_model² are special cases",
            "They need n_heads · d_head = d_model, d_ff = 4 · d_model and no shared heads. Use the arguments.",
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
            {"matrices": "none"},
            "Only attention is counted",
            "A block also holds the feed-forward layer: up, down, and a gate if `gated` is True.",
        ),
        Mistake(
            {"matrices": "two a gate"},
            "The gate is counted as two matrices",
            "A gate adds one matrix of d_model × d_ff to up and down: three in all, not four.",
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
        Mistake(
            {"norms": "and biases"},
            "Biases and norms are counted too, 13 · d_model",
            "The task asks for the matrices alone.",
        ),
    ),
)


def _block(d_model: int, n_heads: int, d_head: int, n_kv_heads: int, d_ff: int, gated: bool) -> dict[str, object]:
    return {
        "d_model": d_model, "n_heads": n_heads, "d_head": d_head, "n_kv_heads": n_kv_heads, "d_ff": d_ff,
        "gated": gated,
    }  # fmt: skip


def cache_with_faults(
    n_layers: int, d_model: int, n_heads: int, n_kv_heads: int, d_head: int, n_positions: int, bytes_each: int, *,
    kept: int = 2, heads: str = "key/value", layers: bool = True, positions: int = 1, sizes: bool = True,
) -> int:  # fmt: skip
    """Bytes of a K/V cache."""
    widths = {
        "key/value": n_kv_heads * d_head, "query": n_heads * d_head, "both": n_heads * n_kv_heads * d_head,
        "none": d_head, "d_model": d_model, "without d_head": n_kv_heads, "shares": d_model * n_kv_heads // n_heads,
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
            {"heads": "without d_head"},
            "The width of a head is forgotten",
            "A key is d_head numbers wide, and so is a value.",
        ),
        Mistake(
            {"heads": "shares"},
            "A head is taken to be d_model / n_heads wide",
            "It often is, and need not be: `d_head` says how wide.",
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
