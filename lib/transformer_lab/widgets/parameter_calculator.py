"""Describe a model and see where its parameters sit: every dimension a control, published models to start from."""

from collections.abc import Callable, Mapping

import ipywidgets

from transformer_lab.accounting.calculator import OWN, SETTINGS, Calculation, calculate, settings_of
from transformer_lab.accounting.named_models import NAMED_MODELS
from transformer_lab.draw.parameter_bar import ParameterBarPicture, percent
from transformer_lab.widgets import controls
from transformer_lab.widgets.explorer import Explorer

FAMILIES = ("encoder-only", "decoder-only", "encoder-decoder")
ACTIVATIONS = ("relu", "gelu", "gelu_tanh", "swiglu", "geglu")
POSITIONS = ("none", "learned", "sinusoidal", "rope", "alibi", "relative")
# Larger than any published model; a box says so, since it would cut a larger number down without a word.
WIDEST, DEEPEST, MOST_HEADS, LARGEST_VOCABULARY = 32_768, 200, 256, 1_000_000

PRESETS = {name: settings_of(named.config) for name, named in NAMED_MODELS.items()}

ROWS = (
    ("model", "family"),
    ("d_model", "d_ff", "vocab"),
    ("n_layers", "n_heads", "n_kv_heads"),
    ("activation", "tie_embeddings", "share_layers", "d_embedding"),
)
RARER = (
    ("d_head", "n_decoder_layers", "norm", "norm_order", "bias"),
    ("position", "n_positions", "n_buckets", "n_segments"),
    ("vocab_head", "embedding_norm", "class_token", "pooler", "n_classes", "d_patch"),
)


def parameter_calculator(model: str = "Llama-2-7B") -> Explorer:
    """Count any model that a config can describe.

    Args:
        model: the published model that it opens with. Move any other control, and the model is your own.
    """
    menu = controls.choice("model", list(PRESETS), model)
    menu.options = [*PRESETS, OWN]
    menu.value = model
    return Explorer(
        controls={"model": menu} | _dimensions(PRESETS[model]),
        rows=ROWS,
        folded=RARER,
        adjust=_presets(model),
        compute=calculate,
        picture=ParameterBarPicture,
        describe=describe,
    )


def _dimensions(at: Mapping[str, object]) -> dict[str, ipywidgets.Widget]:
    """A control for every setting, named as in the config. Some take a 0, which leaves them to follow from others."""
    number, toggle = controls.number, controls.toggle
    return {
        "family": controls.choice("family", FAMILIES, at["family"]),
        "d_model": number("d_model", 8, WIDEST, at["d_model"], 8),
        "n_layers": controls.slider("n_layers", 1, DEEPEST, at["n_layers"]),
        "n_decoder_layers": controls.slider("n_decoder_layers", 0, DEEPEST, at["n_decoder_layers"]),
        "n_heads": controls.slider("n_heads", 1, MOST_HEADS, at["n_heads"]),
        "n_kv_heads": controls.slider("n_kv_heads", 0, MOST_HEADS, at["n_kv_heads"]),
        "d_head": controls.slider("d_head", 0, 1024, at["d_head"]),
        "d_ff": number("d_ff", 8, 4 * WIDEST, at["d_ff"], 8),
        "activation": controls.choice("activation", ACTIVATIONS, at["activation"]),
        "norm": controls.choice("norm", ("layernorm", "rmsnorm"), at["norm"]),
        "norm_order": controls.choice("norm_order", ("pre", "post"), at["norm_order"]),
        "bias": toggle("bias", at["bias"]),
        "vocab": number("vocab", 0, LARGEST_VOCABULARY, at["vocab"]),
        "d_embedding": number("d_embedding", 0, WIDEST, at["d_embedding"]),
        "tie_embeddings": toggle("tie_embeddings", at["tie_embeddings"]),
        "vocab_head": toggle("vocab_head", at["vocab_head"]),
        "position": controls.choice("position", POSITIONS, at["position"]),
        "n_positions": number("n_positions", 0, LARGEST_VOCABULARY, at["n_positions"]),
        "n_buckets": number("n_buckets", 4, 254, at["n_buckets"]),
        "share_layers": toggle("share_layers", at["share_layers"]),
        "embedding_norm": toggle("embedding_norm", at["embedding_norm"]),
        "class_token": toggle("class_token", at["class_token"]),
        "pooler": toggle("pooler", at["pooler"]),
        "n_classes": number("n_classes", 0, LARGEST_VOCABULARY, at["n_classes"]),
        "n_segments": number("n_segments", 0, 100, at["n_segments"]),
        "d_patch": number("d_patch", 0, 10_000, at["d_patch"]),
    }


def _presets(opened: str) -> Callable[[Mapping[str, ipywidgets.Widget]], None]:
    """A named model moves every control; the name follows the settings, and those of no named model are one's own."""
    last = opened

    def adjust(found: Mapping[str, ipywidgets.Widget]) -> None:
        nonlocal last
        name = found["model"].value
        if name not in (last, OWN):
            for setting, value in PRESETS[name].items():
                found[setting].value = value
        now = {setting: found[setting].value for setting in SETTINGS}
        last = found["model"].value = next((name for name, preset in PRESETS.items() if preset == now), OWN)
        found["n_decoder_layers"].disabled = found["family"].value != "encoder-decoder"
        found["n_positions"].disabled = found["position"].value != "learned"
        found["n_buckets"].disabled = found["position"].value != "relative"
        found["tie_embeddings"].disabled = not found["vocab_head"].value

    return adjust


def describe(result: Calculation) -> str:
    """The total, the part that holds most, the bytes, and what tying would change."""
    largest = max(result.groups, key=lambda group: group.count)
    published = ", the published figure" if result.published == result.total else ""
    _, decimal, binary = next(row for row in result.bytes_table if row[0] == "bfloat16")
    said = (
        f"{result.name}: {result.total:,} parameters{published}. The largest part is “{largest.name}”, "
        f"{percent(largest.count, result.total)}. In bfloat16 the weights take {decimal}, which is {binary}."
    )
    config = result.config
    if config.vocab_head and config.embedding_width == config.d_model:
        matrix = config.vocab * config.d_model
        said += (
            f" The vocabulary head is the token embedding: untied it would add {matrix:,}."
            if config.tie_embeddings
            else f" Tied embeddings would save {matrix:,}."
        )
    return said
