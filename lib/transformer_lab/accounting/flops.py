"""Work: floating-point operations of the matrix products, from a config alone.

A product of (n, a) and (a, b) takes n · a · b multiplications and as many additions: 2 · n · a · b FLOPs. Everything
else (norms, softmax, activations, adding biases) is left out, as torch's own counter does. A look-up is no product.
"""

from transformer_lab.accounting.parameters import check_config, check_rows, count_parameters
from transformer_lab.model.checks import check_switches, check_whole_numbers
from transformer_lab.model.config import TransformerConfig
from transformer_lab.model.feedforward import GATED


def forward_flops(config: TransformerConfig, length: int, *, target_length: int = 0, cached: int = 0) -> dict[str, int]:
    """FLOPs of one forward pass over one sequence, by part.

    Args:
        length: tokens or patches that go in; the source of an encoder–decoder.
        target_length: tokens of the target of an encoder–decoder.
        cached: tokens whose keys and values a decoder-only model has kept.

    The scores are counted whole: causal masks forbid nearly half of them, and a kernel may leave those out.

    Raises:
        TypeError: no config, lengths that are not whole numbers.
        ValueError: lengths below 0, that do not fit the family, or beyond a learned table.
    """
    _check_lengths(config, length, target_length, cached)
    n = length + config.class_token
    d_model, width, head = config.d_model, config.embedding_width, config.vocab_head * config.vocab
    read = target_length if config.family == "encoder-decoder" else n  # what the last stack reads
    encoder, decoder = config.encoder_layers, config.decoder_layers
    widened = 0 if config.d_embedding is None else (n + target_length) * width * d_model
    crossing = decoder if encoder else 0
    products = {
        "token embedding": 0,
        "patch projection": length * config.d_patch * width,
        "embedding projection": widened,
        "attention projections": (encoder * n + decoder * read) * (_mixing(config) + _reading(config)),
        "attention scores": _scores(config, encoder * n * n + decoder * read * (cached + read)),
        "cross-attention projections": crossing * (read * _mixing(config) + n * _reading(config)),
        "cross-attention scores": _scores(config, crossing * read * n),
        "feed-forward": (encoder * n + decoder * read) * _feed_forward(config),
        "pooler": d_model * d_model * (config.pooler and config.n_classes > 0),  # a forward pass stops before pool()
        "class head": d_model * config.n_classes,
        "vocabulary head": read * d_model * head,
    }
    present = {"token embedding"} if config.vocab else set()
    return {part: 2 * count for part, count in products.items() if count or part in present}


def training_flops(config: TransformerConfig, length: int, *, target_length: int = 0) -> int:
    """FLOPs of one training step on one sequence: the backward pass makes two products of each forward one."""
    return 3 * sum(forward_flops(config, length, target_length=target_length).values())


def rule_of_thumb(n_parameters: int, n_tokens: int) -> int:
    """6 · N · D: 2 FLOPs a weight and token forward, 4 backward (Kaplan et al. 2020).

    It forgets the attention scores, counts look-ups, biases and norms as products, and counts shared layers once.
    """
    check_whole_numbers(least=0, most=None, n_parameters=n_parameters, n_tokens=n_tokens)
    return 6 * n_parameters * n_tokens


def against_the_rule(config: TransformerConfig, length: int, *, scores: bool = True) -> float:
    """The forward work of one sequence, with or without the attention scores, over the rule's 2 · N · tokens."""
    check_switches(scores=scores)
    work = forward_flops(config, length)
    counted = sum(work.values()) - (0 if scores else work["attention scores"])
    return 3 * counted / rule_of_thumb(count_parameters(config).total, length)


def _mixing(config: TransformerConfig) -> int:
    """Weights of W_Q and W_O, which see every token that asks."""
    return 2 * config.d_model * config.n_heads * config.head_width


def _reading(config: TransformerConfig) -> int:
    """Weights of W_K and W_V, which see every token that is read."""
    return 2 * config.d_model * config.kv_heads * config.head_width


def _scores(config: TransformerConfig, pairs: int) -> int:
    """Q Kᵀ and the weighted sum of V, over pairs of query and key."""
    return 2 * pairs * config.n_heads * config.head_width


def _feed_forward(config: TransformerConfig) -> int:
    return (3 if config.activation in GATED else 2) * config.d_model * config.d_ff


def _check_lengths(config: TransformerConfig, length: int, target_length: int, cached: int) -> None:
    check_config(config)
    check_whole_numbers(length=length)
    check_whole_numbers(least=0, target_length=target_length, cached=cached)
    if (config.family == "encoder-decoder") != bool(target_length):
        raise ValueError(
            f"family is {config.family!r} and target_length is {target_length}: an encoder–decoder needs a target, "
            "and no other family has one."
        )
    if cached and config.family != "decoder-only":
        raise ValueError(f"family is {config.family!r} and cached is {cached}: only decoder-only work is counted so.")
    check_rows(config, max(cached + length + config.class_token, target_length))
