"""The reference library's models in ours: sizes to a config, weights to our names, by tables.

`translate` is differentiable, so gradients can be compared too. What is left over on either side is an error.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor, nn

from transformer_lab.model.config import TransformerConfig
from transformer_lab.model.families import build

ACTIVATIONS = {"gelu": "gelu", "gelu_new": "gelu_tanh", "relu": "relu"}
GATED = {"gelu": "geglu", "silu": "swiglu"}

QUERY, KEY, VALUE, OUTPUT = (
    f"self_attention.sublayer.{name}_projection" for name in ("query", "key", "value", "output")
)
FUSED = "self_attention.sublayer.fused"  # query, key and value in one matrix; taken apart below
UP, DOWN, GATE = (f"feedforward.sublayer.{name}" for name in ("up", "down", "gate"))
POSITIONS = "embedding.position.table.weight"
FIRST_NORM, SECOND_NORM = "self_attention.norm", "feedforward.norm"


class Kind(NamedTuple):
    """How one kind of reference model becomes ours."""

    fields: Callable  # (reference config, weights by our names) → fields of TransformerConfig beside the sizes
    names: dict[str, str]  # patterns of their names → ours, replaced from top to bottom
    convert: Callable = lambda weights, theirs: weights  # makes tensors of other layout or scale the same function


def translate(reference: nn.Module) -> tuple[TransformerConfig, dict[str, Tensor]]:
    """Our config, and every trained tensor of ``reference`` under the name of ours that it is."""
    theirs = reference.config
    kind = KINDS[theirs.model_type]
    weights = {}
    for name, tensor in reference.named_parameters():
        for pattern, replacement in kind.names.items():
            name = re.sub(pattern, replacement, name)
        assert name not in weights, f"two tensors became {name}"
        weights[name] = tensor
    sizes = {
        "d_model": theirs.hidden_size,
        "n_layers": theirs.num_hidden_layers,
        "n_heads": theirs.num_attention_heads,
        "vocab": getattr(theirs, "vocab_size", 0),
    }
    fields = sizes | kind.fields(theirs, weights)
    return TransformerConfig(**fields), kind.convert(weights, theirs)


def copy_of(reference: nn.Module) -> nn.Module:
    """Our model with the weights of ``reference``, in evaluation; every tensor of both is used."""
    config, weights = translate(reference)
    model = build(config)
    first_name = {id(tensor): name for name, tensor in model.named_parameters()}  # tied tensors have several names
    assert weights.keys() == set(first_name.values()), weights.keys() ^ set(first_name.values())
    state = {name: weights[first_name[id(tensor)]] for name, tensor in model.state_dict(keep_vars=True).items()}
    model.load_state_dict(state, strict=True)
    return model.eval()


# ------------------------------------------------------------------------------------------------------- encoders


def _encoder(theirs, weights: dict[str, Tensor]) -> dict:
    return {
        "family": "encoder-only",
        "norm_order": "post",
        "norm_eps": getattr(theirs, "layer_norm_eps", 1e-12),  # DistilBERT has no field for it
        "d_ff": theirs.hidden_dim if theirs.model_type == "distilbert" else theirs.intermediate_size,
        "activation": ACTIVATIONS[theirs.activation if theirs.model_type == "distilbert" else theirs.hidden_act],
        "n_positions": len(weights[POSITIONS]),
        "n_segments": getattr(theirs, "type_vocab_size", 0),
        "embedding_norm": True,
        "vocab_head": False,
        "pooler": "pooler.0.weight" in weights,
        "n_classes": len(weights.get("head.weight", ())),
    }


def _roberta(weights: dict[str, Tensor], theirs) -> dict[str, Tensor]:
    # Its positions are numbered from the row after that of the pad token; ours from 0.
    return weights | {POSITIONS: weights[POSITIONS][theirs.pad_token_id + 1 :]}


def _vit(weights: dict[str, Tensor], theirs) -> dict[str, Tensor]:
    # A convolution that steps by its own size is a linear layer on flattened patches.
    changes = {"embedding.class_token": (0, 2), POSITIONS: (0, 1), "embedding.patch.weight": (1, 3)}
    return weights | {name: weights[name].flatten(*axes) for name, axes in changes.items()}


EMBEDDINGS = {
    r"^(bert|albert|roberta|vit)\.": "",
    r"embeddings\.word_embeddings": "embedding.token",
    r"embeddings\.position_embeddings": "embedding.position.table",
    r"embeddings\.token_type_embeddings": "embedding.segment",
    r"embeddings\.LayerNorm": "embedding.norm",
}
BERT = EMBEDDINGS | {
    r"encoder\.layer\.": "encoder.blocks.",
    r"attention\.self\.query": QUERY,
    r"attention\.self\.key": KEY,
    r"attention\.self\.value": VALUE,
    r"attention\.output\.dense": OUTPUT,
    r"attention\.output\.LayerNorm": FIRST_NORM,
    r"intermediate\.dense": UP,
    r"output\.dense": DOWN,
    r"output\.LayerNorm": SECOND_NORM,
    r"(pooler|classifier)\.dense": "pooler.0",
    r"classifier(\.out_proj)?": "head",
}
DISTILBERT = EMBEDDINGS | {
    r"transformer\.layer\.": "encoder.blocks.",
    r"attention\.q_lin": QUERY,
    r"attention\.k_lin": KEY,
    r"attention\.v_lin": VALUE,
    r"attention\.out_lin": OUTPUT,
    r"sa_layer_norm": FIRST_NORM,
    r"ffn\.lin1": UP,
    r"ffn\.lin2": DOWN,
    r"output_layer_norm": SECOND_NORM,
}
ALBERT = EMBEDDINGS | {
    r"encoder\.embedding_hidden_mapping_in": "embedding.widen",
    r"encoder\.albert_layer_groups\.0\.albert_layers\.0\.": "encoder.blocks.0.",
    r"attention\.query": QUERY,
    r"attention\.key": KEY,
    r"attention\.value": VALUE,
    r"attention\.dense": OUTPUT,
    r"attention\.LayerNorm": FIRST_NORM,
    r"ffn\.": f"{UP}.",
    r"ffn_output": DOWN,
    r"full_layer_layer_norm": SECOND_NORM,
    r"pooler": "pooler.0",
    r"classifier": "head",
}
VIT = EMBEDDINGS | {
    r"embeddings\.cls_token": "embedding.class_token",
    r"embedding\.position\.table": POSITIONS,
    r"embeddings\.patch_embeddings\.projection": "embedding.patch",
    r"^layers\.": "encoder.blocks.",
    r"attention\.q_proj": QUERY,
    r"attention\.k_proj": KEY,
    r"attention\.v_proj": VALUE,
    r"attention\.o_proj": OUTPUT,
    r"layernorm_before": FIRST_NORM,
    r"layernorm_after": SECOND_NORM,
    r"mlp\.fc1": UP,
    r"mlp\.fc2": DOWN,
    r"^layernorm": "encoder.final_norm",
    r"pooler\.dense": "pooler.0",
    r"classifier": "head",
}


def _vit_fields(theirs, weights: dict[str, Tensor]) -> dict:
    return _encoder(theirs, weights) | {
        "norm_order": "pre",
        "embedding_norm": False,
        "vocab": 0,
        "d_patch": theirs.num_channels * theirs.patch_size**2,
        "class_token": True,
        "n_positions": weights[POSITIONS].shape[1],
    }


# ------------------------------------------------------------------------------------------------------- decoders


def _split(weights: dict[str, Tensor], parts: Callable) -> dict[str, Tensor]:
    """Query, key and value out of the fused projection."""
    whole = {name: tensor for name, tensor in weights.items() if FUSED not in name}
    for name in weights.keys() - whole.keys():
        three = zip((QUERY, KEY, VALUE), parts(weights[name]), strict=True)
        whole |= {name.replace(FUSED, own): part for own, part in three}
    return whole


def _gpt2(weights: dict[str, Tensor], theirs) -> dict[str, Tensor]:
    # Its layers inside the blocks hold (in, out) where nn.Linear holds (out, in).
    turned = {name: w.T if w.ndim == 2 and ".blocks." in name else w for name, w in weights.items()}
    return _split(turned, lambda fused: fused.chunk(3))


def _bloom(weights: dict[str, Tensor], theirs) -> dict[str, Tensor]:
    # Each head has its query, key and value side by side.
    def parts(fused: Tensor) -> list[Tensor]:
        return [part.flatten(0, 1) for part in fused.unflatten(0, (theirs.n_head, 3, -1)).unbind(1)]

    return _split(weights, parts)


GPT2 = {
    r"^transformer\.": "",
    r"^wte": "embedding.token",
    r"^wpe": "embedding.position.table",
    r"^h\.": "decoder.blocks.",
    r"ln_1": FIRST_NORM,
    r"attn\.c_attn": FUSED,
    r"attn\.c_proj": OUTPUT,
    r"ln_2": SECOND_NORM,
    r"mlp\.c_fc": UP,
    r"mlp\.c_proj": DOWN,
    r"^ln_f": "decoder.final_norm",
}
BLOOM = {
    r"^transformer\.": "",
    r"^word_embeddings_layernorm": "embedding.norm",
    r"^word_embeddings": "embedding.token",
    r"^h\.": "decoder.blocks.",
    r"input_layernorm": FIRST_NORM,
    r"self_attention\.query_key_value": FUSED,
    r"self_attention\.dense": OUTPUT,
    r"post_attention_layernorm": SECOND_NORM,
    r"mlp\.dense_h_to_4h": UP,
    r"mlp\.dense_4h_to_h": DOWN,
    r"^ln_f": "decoder.final_norm",
}
LLAMA = {
    r"^model\.": "",
    r"^embed_tokens": "embedding.token",
    r"^layers\.": "decoder.blocks.",
    r"self_attn\.q_proj": QUERY,
    r"self_attn\.k_proj": KEY,
    r"self_attn\.v_proj": VALUE,
    r"self_attn\.o_proj": OUTPUT,
    r"input_layernorm": FIRST_NORM,
    r"post_attention_layernorm": SECOND_NORM,
    r"mlp\.gate_proj": GATE,
    r"mlp\.up_proj": UP,
    r"mlp\.down_proj": DOWN,
    r"^norm": "decoder.final_norm",
    r"^lm_head": "head",
}


def _gpt2_fields(theirs, weights: dict[str, Tensor]) -> dict:
    return {
        "family": "decoder-only",
        "d_ff": theirs.n_inner or 4 * theirs.n_embd,
        "activation": ACTIVATIONS[theirs.activation_function],
        "norm_eps": theirs.layer_norm_epsilon,
        "n_positions": theirs.n_positions,
    }


def _bloom_fields(theirs, weights: dict[str, Tensor]) -> dict:
    return {
        "family": "decoder-only",
        "d_ff": 4 * theirs.hidden_size,
        "activation": "gelu_tanh",
        "norm_eps": theirs.layer_norm_epsilon,
        "position": "alibi",
        "embedding_norm": True,
    }


def _llama_fields(theirs, weights: dict[str, Tensor]) -> dict:
    return {
        "family": "decoder-only",
        "d_ff": theirs.intermediate_size,
        "n_kv_heads": theirs.num_key_value_heads,
        "d_head": theirs.head_dim,
        "activation": GATED[theirs.hidden_act],
        "norm": "rmsnorm",
        "norm_eps": theirs.rms_norm_eps,
        "bias": False,
        "position": "rope",
        "rope_layout": "half_split",
        "rope_base": theirs.rope_parameters["rope_theta"],
        "tie_embeddings": theirs.tie_word_embeddings,
    }


# ------------------------------------------------------------------------------------------------ encoder–decoder

T5 = {
    r"^shared": "source_embedding.token",
    r"^encoder\..*relative_attention_bias": "source_embedding.position.table",
    r"^decoder\..*relative_attention_bias": "target_embedding.position.table",
    r"final_layer_norm": "final_norm",
    r"(decoder\.block\.\d+)\.layer\.1\.layer_norm": r"\1.cross_attention.norm",
    r"layer\.0\.layer_norm": FIRST_NORM,
    r"layer\.[12]\.layer_norm": SECOND_NORM,
    r"layer\.\d\.SelfAttention": "self_attention.sublayer",
    r"layer\.\d\.EncDecAttention": "cross_attention.sublayer",
    r"\.q\.": ".query_projection.",
    r"\.k\.": ".key_projection.",
    r"\.v\.": ".value_projection.",
    r"\.o\.": ".output_projection.",
    r"layer\.\d\.DenseReluDense": "feedforward.sublayer",
    r"wi_0": "gate",
    r"wi(_1)?\b": "up",
    r"wo": "down",
    r"\.block\.": ".blocks.",
    r"^lm_head": "head",
}


def _t5_fields(theirs, weights: dict[str, Tensor]) -> dict:
    return {
        "family": "encoder-decoder",
        "n_decoder_layers": theirs.num_decoder_layers,
        "d_ff": theirs.d_ff,
        "d_head": theirs.d_kv,
        "activation": (GATED if theirs.is_gated_act else ACTIVATIONS)[theirs.dense_act_fn],
        "norm": "rmsnorm",
        "norm_eps": theirs.layer_norm_epsilon,
        "bias": False,
        "position": "relative",
        "n_buckets": theirs.relative_attention_num_buckets,
        "max_distance": theirs.relative_attention_max_distance,
        "tie_embeddings": "head.weight" not in weights,
    }


def _t5(weights: dict[str, Tensor], theirs) -> dict[str, Tensor]:
    # It does not divide scores by √d_head, and divides the vectors before a tied head by √d_model.
    queries = {name: w * theirs.d_kv**0.5 for name, w in weights.items() if "query_projection" in name}
    last = "decoder.final_norm.weight"
    scale = theirs.d_model**-0.5 if theirs.scale_decoder_outputs else 1.0
    return weights | queries | {last: weights[last] * scale}


KINDS = {
    "bert": Kind(_encoder, BERT),
    "roberta": Kind(
        lambda theirs, weights: _encoder(theirs, weights)
        | {"n_positions": theirs.max_position_embeddings - theirs.pad_token_id - 1},
        BERT,
        _roberta,
    ),
    "distilbert": Kind(_encoder, DISTILBERT),
    "albert": Kind(
        lambda theirs, weights: _encoder(theirs, weights)
        | {"d_embedding": theirs.embedding_size, "share_layers": True},
        ALBERT,
    ),
    "vit": Kind(_vit_fields, VIT, _vit),
    "gpt2": Kind(_gpt2_fields, GPT2, _gpt2),
    "bloom": Kind(_bloom_fields, BLOOM, _bloom),
    "llama": Kind(_llama_fields, LLAMA),
    "t5": Kind(_t5_fields, T5, _t5),
}
