"""How many numbers a Transformer trains, by part, from its config alone: no tensor is made.

Each formula counts every trained tensor once: tied matrices once, shared blocks once, buffers never. The tests hold
each count equal to the model that `model/families.py` builds from the same config.
"""

from dataclasses import dataclass

from transformer_lab.model.checks import check_choice, check_kind, check_switches, check_whole_numbers
from transformer_lab.model.config import TransformerConfig
from transformer_lab.model.feedforward import GATED


@dataclass(frozen=True)
class Part:
    """One kind of part: ``each`` trained numbers in one copy, and ``copies`` with weights of their own."""

    name: str
    each: int
    copies: int = 1

    @property
    def count(self) -> int:
        """The trained numbers of all copies."""
        return self.each * self.copies


@dataclass(frozen=True)
class ParameterCount:
    """The parts that a model has, in the order in which a token meets them."""

    parts: tuple[Part, ...]

    @property
    def total(self) -> int:
        """All trained numbers of the model."""
        return sum(part.count for part in self.parts)

    def __getitem__(self, name: str) -> int:
        """The count of a part by its name; 0 for a part that the model does not have."""
        return sum(part.count for part in self.parts if part.name == name)


def count_parameters(config: TransformerConfig) -> ParameterCount:
    """The trained numbers of the model that ``config`` describes, part by part.

    Raises:
        TypeError: no config.
    """
    check_config(config)
    width, d_model = config.embedding_width, config.d_model
    encoder, decoder = _distinct(config, config.encoder_layers), _distinct(config, config.decoder_layers)
    blocks, stacks = encoder + decoder, (encoder > 0) + (decoder > 0)
    crossing = decoder if encoder else 0
    head = 0 if config.tie_embeddings else config.vocab * d_model
    parts = (
        Part("token embedding", config.vocab * width),
        Part("patch projection", linear(config.d_patch, width) if config.d_patch else 0),
        Part("class token", width * config.class_token),
        Part("segments", config.n_segments * width),
        Part("positions", _positions(config), stacks),
        Part("embedding norm", norm(config, width) * config.embedding_norm, stacks),
        Part("embedding projection", 0 if config.d_embedding is None else linear(width, d_model), stacks),
        Part("attention", attention(config), blocks),
        Part("cross-attention", attention(config), crossing),
        Part("feed-forward", feed_forward(config), blocks),
        Part("block norms", norm(config, d_model), 2 * blocks + crossing),
        Part("final norms", norm(config, d_model), stacks if config.norm_order == "pre" else 0),
        Part("pooler", linear(d_model, d_model) * config.pooler),
        Part("class head", linear(d_model, config.n_classes) if config.n_classes else 0),
        Part("vocabulary head", head * config.vocab_head),
    )
    return ParameterCount(tuple(part for part in parts if part.count))


def attention(config: TransformerConfig) -> int:
    """One attention layer: W_Q, W_K, W_V and W_O, 4 · d_model² with as many key/value heads as query heads."""
    check_config(config)
    queries = config.n_heads * config.head_width
    keys = config.kv_heads * config.head_width
    into = linear(config.d_model, queries, config.bias) + 2 * linear(config.d_model, keys, config.bias)
    return into + linear(queries, config.d_model, config.bias)


def feed_forward(config: TransformerConfig) -> int:
    """One feed-forward layer: two matrices of d_model × d_ff, or three with a gated activation."""
    check_config(config)
    up = linear(config.d_model, config.d_ff, config.bias)
    return (2 if config.activation in GATED else 1) * up + linear(config.d_ff, config.d_model, config.bias)


def norm(config: TransformerConfig, width: int) -> int:
    """One norm: a scale a component, and a shift in a LayerNorm with biases."""
    check_config(config)
    check_whole_numbers(width=width)
    return width * (2 if config.norm == "layernorm" and config.bias else 1)


def linear(d_input: int, d_output: int, bias: bool = True) -> int:
    """One linear layer: a weight for every input and output, and perhaps a bias for every output."""
    check_whole_numbers(d_input=d_input, d_output=d_output)
    check_switches(bias=bias)
    return d_input * d_output + d_output * bias


def recurrent(kind: str, d_input: int, d_hidden: int, *, bias_vectors: int = 2, n_layers: int = 1) -> int:
    """An RNN, a GRU or an LSTM by the same method: 1, 3 or 4 blocks of weights for the input and for the state.

    torch keeps two bias vectors a block, one with each matrix; the papers have one. A higher layer reads the state of
    the one below.

    Raises:
        ValueError: another kind, a size below 1, bias vectors other than 0, 1 or 2.
    """
    check_choice("kind", kind, RECURRENT_BLOCKS)
    check_whole_numbers(d_input=d_input, d_hidden=d_hidden, n_layers=n_layers)
    check_whole_numbers(least=0, most=2, bias_vectors=bias_vectors)
    inputs = d_input + (n_layers - 1) * d_hidden
    return RECURRENT_BLOCKS[kind] * d_hidden * (inputs + n_layers * (d_hidden + bias_vectors))


RECURRENT_BLOCKS = {"RNN": 1, "GRU": 3, "LSTM": 4}


def check_config(config: object) -> None:
    """Refuse anything but a `TransformerConfig`."""
    check_kind("config", config, TransformerConfig, "describe the model with TransformerConfig(…)")


def check_rows(config: TransformerConfig, n_positions: int) -> None:
    """Refuse more positions than a learned table has."""
    if config.position == "learned" and n_positions > config.n_positions:
        raise ValueError(
            f"the sequence needs {n_positions} positions and config.n_positions is {config.n_positions}: the learned "
            "table has no more rows. Shorten the sequence or raise n_positions."
        )


def _distinct(config: TransformerConfig, layers: int) -> int:
    """Blocks of a stack that have weights of their own."""
    return min(layers, 1) if config.share_layers else layers


def _positions(config: TransformerConfig) -> int:
    """A learned table has a row a position, T5's a bias for each bucket and head. All other schemes are formulas."""
    if config.position == "learned":
        return config.n_positions * config.embedding_width
    return config.n_buckets * config.n_heads if config.position == "relative" else 0
