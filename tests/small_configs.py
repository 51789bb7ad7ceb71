"""Small models of every kind, described, built without memory, and counted by torch."""

from dataclasses import fields

import torch
from hypothesis import strategies as st
from torch import nn

from transformer_lab.model.config import FAMILIES, POSITIONS, TransformerConfig
from transformer_lab.model.families import build
from transformer_lab.model.feedforward import ACTIVATIONS, GATED
from transformer_lab.model.norms import NORMS


def held(module: nn.Module) -> int:
    """What torch counts: each trained tensor once."""
    return sum(parameter.numel() for parameter in module.parameters())


def on_meta(config: TransformerConfig) -> nn.Module:
    with torch.device("meta"):
        return build(config)


# The fields that change no count; every other one is drawn.
WITHOUT_WEIGHTS = {"norm_eps", "dropout", "causal", "rope_layout", "rope_base", "max_distance"}


@st.composite
def configs(draw, families: tuple[str, ...] = FAMILIES) -> TransformerConfig:
    """Any config of these families that is not refused, every size another number so that no two can be confused."""
    family = draw(st.sampled_from(families))
    switch = st.booleans()
    n_kv_heads, group = draw(st.sampled_from((1, 2))), draw(st.sampled_from((1, 3)))
    n_heads, d_head = n_kv_heads * group, draw(st.sampled_from((2, 4)))
    own_width = draw(switch)
    d_model = n_heads * d_head + (0 if own_width else 2 * draw(st.integers(1, 3)))
    position = draw(st.sampled_from(POSITIONS))
    encoder = family == "encoder-only"
    patches = encoder and draw(switch)
    head = not patches and draw(switch)
    d_embedding = None if patches else draw(st.sampled_from((None, 6, d_model)))
    chosen = dict(
        family=family,
        d_model=d_model,
        n_layers=draw(st.integers(1, 3)),
        n_decoder_layers=draw(st.sampled_from((None, 1, 4))) if family == "encoder-decoder" else None,
        n_heads=n_heads,
        n_kv_heads=None if group == 1 and draw(switch) else n_kv_heads,
        d_head=None if own_width else d_head,
        d_ff=draw(st.sampled_from((1, 5, 11))),
        activation=draw(st.sampled_from((*ACTIVATIONS, *GATED))),
        norm=draw(st.sampled_from(NORMS)),
        norm_order=draw(st.sampled_from(("pre", "post"))),
        bias=draw(switch),
        vocab=0 if patches else draw(st.sampled_from((13, 17))),
        d_patch=7 if patches else 0,
        class_token=encoder and not head and draw(switch),
        n_segments=draw(st.integers(0, 2)) if encoder and not patches else 0,
        d_embedding=d_embedding,
        embedding_norm=draw(switch),
        scale_embeddings=not patches and draw(switch),
        position=position,
        n_positions=19 if position == "learned" else 0,
        n_buckets=draw(st.sampled_from((4, 8))),
        share_layers=draw(switch),
        vocab_head=head,
        tie_embeddings=d_embedding in (None, d_model) and draw(switch),
        pooler=encoder and not head and draw(switch),
        n_classes=draw(st.sampled_from((0, 3))) if encoder and not head else 0,
    )
    assert chosen.keys() | WITHOUT_WEIGHTS == {field.name for field in fields(TransformerConfig)}
    return TransformerConfig(**chosen)
