"""What the parameter calculator works out: a config from named settings, its count in groups, and its bytes."""

from dataclasses import dataclass, fields

from transformer_lab.accounting.memory import PRECISIONS, bytes_of, format_bytes
from transformer_lab.accounting.named_models import NAMED_MODELS
from transformer_lab.accounting.parameters import ParameterCount, count_parameters
from transformer_lab.model.config import TransformerConfig

OWN = "Your own model"
# The settings that change a count, with what stands for "not given": a 0 where the config takes None.
OPTIONAL = ("n_decoder_layers", "n_kv_heads", "d_head", "d_embedding")
WITHOUT_WEIGHTS = (
    "norm_eps", "dropout", "causal", "rope_layout", "rope_base", "max_distance", "scale_embeddings",
)  # fmt: skip
SETTINGS = tuple(field.name for field in fields(TransformerConfig) if field.name not in WITHOUT_WEIGHTS)
GROUPS = {
    "token embedding": ("token embedding", "patch projection"),
    "positions and other inputs": (
        "class token", "segments", "positions", "embedding norm", "embedding projection",
    ),
    "attention": ("attention",),
    "cross-attention": ("cross-attention",),
    "feed-forward": ("feed-forward",),
    "norms": ("block norms", "final norms"),
    "pooler and class head": ("pooler", "class head"),
    "vocabulary head": ("vocabulary head",),
}  # fmt: skip


@dataclass(frozen=True)
class Group:
    """Some parts of a model under one name, with a note on how the number comes about."""

    name: str
    count: int
    note: str


@dataclass(frozen=True)
class Calculation:
    """A counted model. ``published`` is the published figure if the settings are those of a named model."""

    name: str
    config: TransformerConfig
    groups: tuple[Group, ...]
    total: int
    published: int | None

    @property
    def outline(self) -> str:
        """The shape of the model in a line."""
        config = self.config
        layers = [n for n in (config.encoder_layers, config.decoder_layers) if n]
        blocks = " + ".join(map(str, layers)) + (" block" if layers == [1] else " blocks")
        heads = f"{config.n_heads} {'head' if config.n_heads == 1 else 'heads'} of {config.head_width}"
        if config.kv_heads != config.n_heads:
            heads += f", {config.kv_heads} for keys and values"
        return f"{config.family}, {blocks} of width {config.d_model:,}, {heads}, inner width {config.d_ff:,}"

    @property
    def bytes_table(self) -> tuple[tuple[str, str, str], ...]:
        """The bytes of the weights at each precision, in decimal and in binary units."""
        sizes = {precision: bytes_of(self.total, precision) for precision in PRECISIONS}
        return tuple((name, format_bytes(size), format_bytes(size, binary=True)) for name, size in sizes.items())


def calculate(model: str, **settings: object) -> Calculation:
    """Count the model of these settings, which `settings_of` names.

    Raises:
        ValueError: settings that contradict each other; the message names both.
    """
    config = config_of(settings)
    count = count_parameters(config)
    groups = tuple(_group(config, count, name, parts) for name, parts in GROUPS.items())
    known = NAMED_MODELS.get(model)
    published = known.published if known and settings_of(known.config) == settings_of(config) else None
    return Calculation(model, config, groups, count.total, published)


def settings_of(config: TransformerConfig) -> dict[str, object]:
    """The settings that change a count, 0 where the config leaves a size to follow from the others."""
    return {name: getattr(config, name) or 0 if name in OPTIONAL else getattr(config, name) for name in SETTINGS}


def config_of(settings: dict[str, object]) -> TransformerConfig:
    """The config of such settings; a size that means nothing beside the others is left out."""
    chosen = {name: value or None if name in OPTIONAL else value for name, value in settings.items()}
    if chosen["family"] != "encoder-decoder":
        chosen["n_decoder_layers"] = None
    if chosen["position"] != "learned":
        chosen["n_positions"] = 0
    return TransformerConfig(**chosen)


def _group(config: TransformerConfig, count: ParameterCount, name: str, parts: tuple[str, ...]) -> Group:
    found = [part for part in count.parts if part.name in parts]
    total = sum(part.count for part in found)
    if name == "vocabulary head" and config.vocab_head and config.tie_embeddings:
        return Group(name, total, "tied: it is the token embedding")
    if config.share_layers and name in ("attention", "cross-attention", "feed-forward") and found:
        return Group(name, total, "one, shared by all")
    copies, sizes = sum(part.copies for part in found), {part.each for part in found}
    if copies > 1 and len(sizes) == 1:
        return Group(name, total, f"{copies} × {sizes.pop():,}")
    names = [part.name for part in found if part.name != name]
    return Group(name, total, ", ".join(names[:2]) + (" …" if names[2:] else "") if found else "none")
