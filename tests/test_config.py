"""TransformerConfig: what contradicts itself is refused by both names; everything else can be built and run."""

import math
import re
from dataclasses import FrozenInstanceError, fields, replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from small_configs import configs, on_meta
from transformer_lab.model.config import FAMILIES, POSITIONS, TransformerConfig
from transformer_lab.model.norms import NORMS

FIELDS = {field.name for field in fields(TransformerConfig)}
SIZES = {"d_model": 12, "n_layers": 2, "n_heads": 4, "d_ff": 20, "position": "none"}
ENCODER = TransformerConfig(family="encoder-only", vocab=7, **SIZES)
DECODER = replace(ENCODER, family="decoder-only")
BOTH = replace(ENCODER, family="encoder-decoder")
BARE = replace(ENCODER, vocab_head=False)
PATCHES = replace(BARE, vocab=0, d_patch=5)

IMPOSSIBLE = [
    (ENCODER, {"d_model": 10}, "d_model", "n_heads"),
    (ENCODER, {"n_kv_heads": 3}, "n_heads", "n_kv_heads"),
    (ENCODER, {"n_kv_heads": 8}, "n_heads", "n_kv_heads"),
    (DECODER, {"position": "rope"}, "position", "d_model"),
    (DECODER, {"position": "rope", "d_head": 5}, "position", "d_head"),
    (DECODER, {"position": "learned"}, "position", "n_positions"),
    *(
        (DECODER, {"position": name, "d_head": 4, "n_positions": 5}, "position", "n_positions")
        for name in POSITIONS
        if name != "learned"
    ),
    (ENCODER, {"position": "relative", "n_buckets": 3}, "n_buckets", "max_distance"),
    (DECODER, {"position": "relative", "n_buckets": 1}, "n_buckets", "max_distance"),
    (BOTH, {"position": "relative", "max_distance": 8}, "n_buckets", "max_distance"),
    (DECODER, {"position": "relative", "max_distance": 16}, "n_buckets", "max_distance"),
    (BOTH, {"position": "relative", "max_distance": 16}, "n_buckets", "max_distance"),
    (ENCODER, {"causal": True}, "family", "causal"),
    (DECODER, {"causal": False}, "family", "causal"),
    (BOTH, {"causal": True}, "family", "causal"),
    (BOTH, {"causal": False}, "family", "causal"),
    (ENCODER, {"n_decoder_layers": 2}, "family", "n_decoder_layers"),
    (DECODER, {"n_decoder_layers": 2}, "family", "n_decoder_layers"),
    *(
        (base, {"vocab_head": False, name: value}, "family", name)
        for base in (DECODER, BOTH)
        for name, value in {
            "d_patch": 5, "class_token": True, "n_segments": 2, "pooler": True, "n_classes": 3
        }.items()
    ),
    (ENCODER, {"vocab": 0}, "vocab", "d_patch"),
    (BARE, {"d_patch": 5}, "vocab", "d_patch"),
    (PATCHES, {"d_patch": 0}, "vocab", "d_patch"),
    (PATCHES, {"d_embedding": 6}, "d_patch", "d_embedding"),
    (PATCHES, {"scale_embeddings": True}, "d_patch", "scale_embeddings"),
    (PATCHES, {"n_segments": 2}, "d_patch", "n_segments"),
    (PATCHES, {"vocab_head": True}, "d_patch", "vocab_head"),
    *((base, {"d_embedding": 6}, "tie_embeddings", "d_embedding") for base in (ENCODER, DECODER, BOTH)),
    (ENCODER, {"n_classes": 3}, "vocab_head", "n_classes"),
    (ENCODER, {"pooler": True}, "vocab_head", "pooler"),
    (ENCODER, {"class_token": True}, "vocab_head", "class_token"),
]  # fmt: skip


def named(message: str) -> set[str]:
    """The fields that a message names."""
    return set(re.findall(r"\w+", message)) & FIELDS


@pytest.mark.parametrize(("base", "changes", "one", "other"), IMPOSSIBLE)
def test_what_contradicts_itself_is_refused_by_both_names(base, changes, one, other):
    with pytest.raises(ValueError) as refused:
        replace(base, **changes)
    held = {name: getattr(base, name) for name in FIELDS} | changes
    assert f"{one} is {held[one]!r} and {other} is {held[other]!r}: " in str(refused.value)


@pytest.mark.parametrize(
    ("base", "changes"),
    [
        (ENCODER, {"causal": False}),
        (DECODER, {"causal": True}),
        (ENCODER, {"d_model": 10, "d_head": 3}),
        (DECODER, {"n_kv_heads": 1}),
        (BOTH, {"n_decoder_layers": 5}),
        (DECODER, {"position": "rope", "d_head": 6}),
        (BOTH, {"position": "relative", "n_buckets": 4, "max_distance": 3}),
        (DECODER, {"d_embedding": 6, "tie_embeddings": False}),
        (DECODER, {"d_embedding": 12}),
        (BARE, {"d_embedding": 6}),
        (BARE, {"pooler": True, "n_classes": 3, "class_token": True, "n_segments": 2}),
        (PATCHES, {"class_token": True, "n_classes": 3}),
        (ENCODER, {"norm_eps": 0}),
    ],
)
def test_the_neighbours_of_what_is_refused_are_allowed(plain_errors, base, changes):
    on_meta(replace(base, **changes))


@pytest.mark.parametrize(
    "changes",
    [
        *({name: 4.0} for name in ("d_model", "n_layers", "n_heads", "d_ff", "vocab", "n_buckets", "max_distance")),
        *({name: "4"} for name in ("d_model", "n_layers", "n_heads", "d_ff", "vocab")),
        *({name: None} for name in ("d_model", "vocab", "n_positions", "n_classes", "bias", "dropout", "norm_eps")),
        *({name: True} for name in ("d_model", "n_kv_heads", "vocab", "n_segments", "dropout", "norm_eps")),
        *({name: 2.5} for name in ("n_kv_heads", "d_head", "n_decoder_layers", "d_embedding")),
        *({name: 1} for name in ("bias", "causal", "class_token", "share_layers", "tie_embeddings", "pooler")),
        {"dropout": "0.1"},
        {"norm_eps": "small"},
        {"rope_base": "10000"},
    ],
)  # fmt: skip
def test_a_wrong_kind_is_a_type_error(plain_errors, changes):
    (name,) = changes
    with pytest.raises(TypeError, match=f"^{name} is "):
        replace(ENCODER, **changes)


@pytest.mark.parametrize(
    "changes",
    [
        *({name: 0} for name in ("d_model", "n_layers", "n_heads", "d_ff", "n_kv_heads", "d_head", "d_embedding")),
        *({name: -1} for name in ("vocab", "d_patch", "n_segments", "n_positions", "n_classes", "n_layers")),
        *({name: "other"} for name in ("family", "activation", "norm", "norm_order", "position", "rope_layout")),
        *({"norm_eps": value} for value in (-1e-5, math.nan, math.inf, 10**400)),
        *({"rope_base": value} for value in (1.0, 0, math.nan, math.inf, 10**400)),
        *({name: 10**400} for name in ("d_model", "n_layers", "d_ff", "vocab", "n_positions", "max_distance")),
        *({name: ["gelu"]} for name in ("family", "activation", "norm", "position", "rope_layout")),
        *({"dropout": value} for value in (-0.1, 1.1, math.nan)),
    ],
)  # fmt: skip
def test_a_value_that_does_not_exist_is_refused(plain_errors, changes):
    (name,) = changes
    with pytest.raises(ValueError, match=f"^{name} is "):
        replace(ENCODER, **changes)


def test_all_fields_are_named_and_none_can_be_changed():
    with pytest.raises(TypeError, match="positional"):
        TransformerConfig("encoder-only", 12, 2, 4, 20)
    with pytest.raises(FrozenInstanceError):
        ENCODER.d_model = 24
    assert replace(DECODER, family="encoder-only") == ENCODER and len({ENCODER, replace(ENCODER), DECODER}) == 2


def test_what_follows_from_the_fields():
    assert (ENCODER.head_width, ENCODER.kv_heads, ENCODER.embedding_width) == (3, 4, 12)
    chosen = replace(BARE, d_head=5, n_kv_heads=2, d_embedding=6)
    assert (chosen.head_width, chosen.kv_heads, chosen.embedding_width) == (5, 2, 6)
    layers = {config: (config.encoder_layers, config.decoder_layers) for config in (ENCODER, DECODER, BOTH)}
    assert layers == {ENCODER: (2, 0), DECODER: (0, 2), BOTH: (2, 2)}
    assert replace(BOTH, n_decoder_layers=3).decoder_layers == 3


# ----------------------------------------------------------------------- every config that exists can be built and run


def runs(config: TransformerConfig) -> None:
    """A pass without memory: every shape is computed, no number."""
    model, batch, length = on_meta(config), 2, 3
    tokens = torch.zeros(batch, length, dtype=torch.long, device="meta")
    mask = torch.ones(batch, 1, 1, length, dtype=torch.bool, device="meta")
    rows, width = (batch, length + config.class_token), config.d_model
    if config.vocab_head:
        width = config.vocab
    elif config.n_classes:
        rows, width = (batch,), config.n_classes
    if config.family == "encoder-decoder":
        outputs = model(tokens, tokens, source_mask=mask, target_mask=mask)
    elif config.d_patch:
        outputs = model(torch.zeros(batch, length, config.d_patch, device="meta"), mask=mask)
    else:
        outputs = model(tokens, mask=mask)
    assert outputs.shape == (*rows, width) and outputs.is_meta


each_family = pytest.mark.parametrize("family", FAMILIES)


@each_family
@settings(max_examples=12, deadline=None, derandomize=True)
@given(data=st.data())
def test_every_allowed_combination_is_built_and_runs(family, data):
    runs(data.draw(configs(families=(family,))))


SWITCHES = ("bias", "class_token", "embedding_norm", "scale_embeddings", "share_layers", "vocab_head", "tie_embeddings")
CHANGES = {
    "family": FAMILIES,
    "position": POSITIONS,
    "norm": NORMS,
    "norm_order": ("pre", "post"),
    **dict.fromkeys((*SWITCHES, "pooler"), (True, False)),
    **dict.fromkeys(("d_model", "d_ff", "max_distance", "n_buckets"), (1, 4, 6)),
    **dict.fromkeys(("n_layers", "n_heads"), (1, 2, 3)),
    **dict.fromkeys(("n_kv_heads", "d_head", "d_embedding", "n_decoder_layers"), (None, 1, 2, 6)),
    **dict.fromkeys(("vocab", "d_patch", "n_segments", "n_positions", "n_classes"), (0, 5)),
    "causal": (None, True, False),
}


@each_family
@settings(max_examples=30, deadline=None, derandomize=True)
@given(data=st.data(), names=st.sets(st.sampled_from(sorted(CHANGES)), min_size=1, max_size=3))
def test_a_change_is_refused_by_name_or_the_outcome_runs(family, data, names):
    """Nothing passes the config that a module refuses later, and no refusal is about something else."""
    config = data.draw(configs(families=(family,)))
    changes = {name: data.draw(st.sampled_from(CHANGES[name])) for name in sorted(names)}
    try:
        changed = replace(config, **changes)
    except ValueError as refused:
        assert len(named(str(refused))) >= 2 and named(str(refused)) & changes.keys(), refused
    else:
        runs(changed)
