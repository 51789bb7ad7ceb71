"""Published models as configs, each with the number of parameters that its published weights hold.

To add one, add a config: the tests build it, and hold its count equal to the formula's and to the reference library's.
"""

from dataclasses import dataclass

from transformer_lab.model.config import TransformerConfig


@dataclass(frozen=True)
class NamedModel:
    """A config, the published count, and what the count includes where that is not the whole story."""

    config: TransformerConfig
    published: int
    note: str = ""


def _bert(d_model: int, n_layers: int, n_heads: int, **changes: object) -> TransformerConfig:
    """BERT and its relatives: post-norm encoders with learned positions (Devlin et al. 2018)."""
    settings = {
        "family": "encoder-only", "d_model": d_model, "n_layers": n_layers, "n_heads": n_heads, "d_ff": 4 * d_model,
        "norm_order": "post", "norm_eps": 1e-12, "vocab": 30_522, "n_positions": 512, "n_segments": 2,
        "embedding_norm": True, "vocab_head": False, "pooler": True,
    }  # fmt: skip
    return TransformerConfig(**settings | changes)


def _gpt2(d_model: int, n_layers: int, n_heads: int) -> TransformerConfig:
    """GPT-2: pre-norm decoders with learned positions and tied embeddings (Radford et al. 2019)."""
    return TransformerConfig(
        family="decoder-only", d_model=d_model, n_layers=n_layers, n_heads=n_heads, d_ff=4 * d_model,
        activation="gelu_tanh", vocab=50_257, n_positions=1024,
    )  # fmt: skip


def _t5(d_model: int, n_layers: int, n_heads: int, d_ff: int, d_head: int) -> TransformerConfig:
    """T5: encoder and decoder with relative positions, without biases (Raffel et al. 2019)."""
    return TransformerConfig(
        family="encoder-decoder", d_model=d_model, n_layers=n_layers, n_heads=n_heads, d_ff=d_ff, d_head=d_head,
        activation="relu", norm="rmsnorm", norm_eps=1e-6, bias=False, position="relative", vocab=32_128,
    )  # fmt: skip


def _llama(
    d_model: int, n_layers: int, n_heads: int, d_ff: int, *, n_kv_heads: int | None = None, vocab: int = 32_000,
    **changes: object,
) -> TransformerConfig:  # fmt: skip
    """Llama and its relatives: RMSNorm, rotary positions, a gated layer, no biases (Touvron et al. 2023)."""
    settings = {
        "family": "decoder-only", "d_model": d_model, "n_layers": n_layers, "n_heads": n_heads, "d_ff": d_ff,
        "n_kv_heads": n_kv_heads, "vocab": vocab, "activation": "swiglu", "norm": "rmsnorm", "bias": False,
        "position": "rope", "tie_embeddings": False,
    }  # fmt: skip
    return TransformerConfig(**settings | changes)


_ALBERT = {"vocab": 30_000, "d_embedding": 128, "share_layers": True, "activation": "gelu_tanh"}
_VIT = TransformerConfig(
    family="encoder-only", d_model=768, n_layers=12, n_heads=12, d_ff=3072, norm_eps=1e-12, d_patch=3 * 16 * 16,
    class_token=True, n_positions=197, vocab_head=False, n_classes=1000,
)  # fmt: skip
_BLOOM = TransformerConfig(
    family="decoder-only", d_model=1024, n_layers=24, n_heads=16, d_ff=4096, activation="gelu_tanh", vocab=250_880,
    position="alibi", embedding_norm=True,
)  # fmt: skip

NAMED_MODELS = {
    "BERT-base": NamedModel(_bert(768, 12, 12), 109_482_240, "uncased, with the pooler"),
    "BERT-large": NamedModel(_bert(1024, 24, 16), 335_141_888, "uncased, with the pooler"),
    "DistilBERT": NamedModel(_bert(768, 6, 12, n_segments=0, pooler=False), 66_362_880),
    "ALBERT-base v2": NamedModel(_bert(768, 12, 12, **_ALBERT), 11_683_584, "with the pooler"),
    "RoBERTa-base": NamedModel(
        _bert(768, 12, 12, vocab=50_265, n_positions=514, n_segments=1, norm_eps=1e-5), 124_645_632, "with the pooler"
    ),
    "ViT-B/16": NamedModel(_VIT, 86_567_656, "with its 1,000 classes"),
    "GPT-2": NamedModel(_gpt2(768, 12, 12), 124_439_808),
    "GPT-2 medium": NamedModel(_gpt2(1024, 24, 16), 354_823_168),
    "GPT-2 large": NamedModel(_gpt2(1280, 36, 20), 774_030_080),
    "GPT-2 XL": NamedModel(_gpt2(1600, 48, 25), 1_557_611_200),
    "BLOOM-560M": NamedModel(_BLOOM, 559_214_592),
    "T5-small": NamedModel(_t5(512, 6, 8, 2048, 64), 60_506_624),
    "T5-base": NamedModel(_t5(768, 12, 12, 3072, 64), 222_903_552),
    "T5-large": NamedModel(_t5(1024, 24, 16, 4096, 64), 737_668_096),
    "T5-11B": NamedModel(_t5(1024, 24, 128, 65_536, 128), 11_307_321_344),
    "TinyLlama": NamedModel(_llama(2048, 22, 32, 5632, n_kv_heads=4), 1_100_048_384),
    "Llama-2-7B": NamedModel(_llama(4096, 32, 32, 11_008), 6_738_415_616),
    "Llama-2-13B": NamedModel(_llama(5120, 40, 40, 13_824), 13_015_864_320),
    "Llama-2-70B": NamedModel(_llama(8192, 80, 64, 28_672, n_kv_heads=8), 68_976_648_192),
    "Mistral-7B": NamedModel(_llama(4096, 32, 32, 14_336, n_kv_heads=8), 7_241_732_096),
    "Llama-3-8B": NamedModel(
        _llama(4096, 32, 32, 14_336, n_kv_heads=8, vocab=128_256, rope_base=500_000.0), 8_030_261_248
    ),
    "Llama-3-70B": NamedModel(
        _llama(8192, 80, 64, 28_672, n_kv_heads=8, vocab=128_256, rope_base=500_000.0), 70_553_706_496
    ),
}
