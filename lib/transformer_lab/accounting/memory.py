"""Bytes: of weights, of training and of the K/V cache, from a config alone; and how to write them down."""

from dataclasses import dataclass

from transformer_lab.accounting.parameters import check_config, check_rows, count_parameters
from transformer_lab.model.checks import check_choice, check_switches, check_whole_numbers
from transformer_lab.model.config import TransformerConfig
from transformer_lab.model.feedforward import GATED

# Bits a number. The 4-bit and 8-bit formats in use also store scales, a few per cent more.
PRECISIONS = {"float32": 32, "bfloat16": 16, "float16": 16, "int8": 8, "int4": 4}


@dataclass(frozen=True)
class Recipe:
    """A way to train with Adam: bytes a parameter for each kind of number that is kept (Kingma & Ba 2014)."""

    weights: int
    gradients: int
    moments: int  # two of them: the running mean of the gradient and of its square
    master: int = 0  # a float32 copy of the weights, for updates too small for 16 bits

    @property
    def total(self) -> int:
        """Bytes a parameter, without activations."""
        return self.weights + self.gradients + self.moments + self.master


RECIPES = {
    "float32": Recipe(weights=4, gradients=4, moments=8),
    # 16-bit weights and gradients beside a float32 master copy (Micikevicius et al. 2017; Rajbhandari et al. 2019)
    "mixed, with master weights": Recipe(weights=2, gradients=2, moments=8, master=4),
    "bfloat16 throughout": Recipe(weights=2, gradients=2, moments=4),
}


def bytes_of(n_numbers: int, precision: str) -> int:
    """Bytes of so many numbers, rounded up to a whole one.

    Raises:
        ValueError: an unknown precision, less than no numbers.
    """
    check_choice("precision", precision, PRECISIONS)
    check_whole_numbers(least=0, most=None, n_numbers=n_numbers)
    return -(-n_numbers * PRECISIONS[precision] // 8)


def weight_bytes(config: TransformerConfig, precision: str = "bfloat16") -> int:
    """Bytes of the weights alone, each trained tensor once."""
    return bytes_of(count_parameters(config).total, precision)


def training_bytes(n_parameters: int, recipe: str = "float32") -> dict[str, int]:
    """What Adam keeps for so many parameters, by kind: 16 bytes a parameter in float32. Activations come on top.

    Raises:
        ValueError: an unknown recipe, less than no parameters.
    """
    check_choice("recipe", recipe, RECIPES)
    check_whole_numbers(least=0, most=None, n_parameters=n_parameters)
    chosen = RECIPES[recipe]
    kinds = {
        "weights": chosen.weights, "gradients": chosen.gradients, "two Adam moments": chosen.moments,
        "master weights": chosen.master,
    }  # fmt: skip
    return {name: size * n_parameters for name, size in kinds.items() if size}


def activation_bytes(config: TransformerConfig, length: int, *, batch: int = 1, precision: str = "bfloat16") -> int:
    """An estimate of what the blocks keep for the backward pass.

    It counts what fused kernels must keep without dropout: in and out of every norm, queries, keys, values and mixed
    values, and the inner vectors of the feed-forward layer. Scores are recomputed, embeddings and logits left out.
    Shared blocks keep theirs at every pass. One sequence of ``length`` tokens on each side.

    Raises:
        TypeError: no config, sizes that are not whole numbers.
        ValueError: a size below 1, a length beyond a learned table.
    """
    check_config(config)
    check_whole_numbers(length=length, batch=batch)
    check_rows(config, length)
    blocks = config.encoder_layers + config.decoder_layers
    crossing = config.decoder_layers if config.encoder_layers else 0
    # ReLU needs only its output, other activations also their input; a gate adds two more vectors.
    inner = ({"relu": 1} | dict.fromkeys(GATED, 4)).get(config.activation, 2) * config.d_ff
    mixed = 2 * (config.n_heads + config.kv_heads) * config.head_width
    normed = 2 * config.d_model
    per_token = blocks * (mixed + inner + 2 * normed) + crossing * (mixed + normed)
    return bytes_of(batch * length * per_token, precision)


def kv_cache_bytes(config: TransformerConfig, n_positions: int, *, batch: int = 1, precision: str = "bfloat16") -> int:
    """Keys and values of ``n_positions`` tokens: 2 · layers · positions · KV heads · head width · bytes.

    Query heads do not enter, nor does ``d_model``. Every application of a shared block has a cache of its own.

    Raises:
        ValueError: a model without a decoder, positions below 0 or beyond a learned table, a batch below 1.
    """
    check_config(config)
    check_whole_numbers(least=0, n_positions=n_positions)
    check_whole_numbers(batch=batch)
    check_rows(config, n_positions)
    if not config.decoder_layers:
        raise ValueError(f"family is {config.family!r}: it has no decoder, so nothing is cached from token to token.")
    numbers = 2 * config.decoder_layers * n_positions * config.kv_heads * config.head_width
    return bytes_of(batch * numbers, precision)


def format_bytes(n_bytes: int, *, binary: bool = False) -> str:
    """Two decimals and a unit: ``13.48 GB`` counts in thousands, ``12.55 GiB`` (``binary=True``) in 1,024s.

    A GiB is 2³⁰ bytes, 7.4 % more than a GB. From 1,000 on the next unit is used.

    Raises:
        TypeError: bytes that are not a whole number.
        ValueError: less than no bytes, or more than the largest unit, 10³⁰ or 2¹⁰⁰ bytes, counts to 1,000.
    """
    check_switches(binary=binary)
    step, prefixes = 1024 if binary else 1000, ["", *("KMGTPEZYRQ" if binary else "kMGTPEZYRQ")]
    check_whole_numbers(least=0, most=1000 * step ** (len(prefixes) - 1) - 1, n_bytes=n_bytes)
    power = 0
    while power + 1 < len(prefixes) and round(n_bytes / step**power, 2) >= 1000:
        power += 1
    unit = prefixes[power] + "i" * binary
    return f"{n_bytes / step**power:,.2f} {unit}B" if power else f"{n_bytes:,} B"
