"""The formulas of accounting/parameters.py give what a built model holds, whatever its options, and what is known."""

import pytest
import torch
import transformers
from hypothesis import given, settings
from torch import nn

from small_configs import configs, held, on_meta
from transformer_lab.accounting import parameters
from transformer_lab.accounting.named_models import NAMED_MODELS
from transformer_lab.accounting.parameters import count_parameters, recurrent
from transformer_lab.model import recurrence
from transformer_lab.model.blocks import Block
from transformer_lab.model.config import TransformerConfig


@settings(max_examples=100, deadline=None)
@given(configs())
def test_the_formula_counts_what_is_built(config):
    model = on_meta(config)
    assert count_parameters(config).total == held(model)


@settings(max_examples=60, deadline=None)
@given(configs())
def test_every_part_counts_its_own_tensors(config):
    """Each part against the tensors of that part, so that two errors cannot cancel out."""
    found = dict.fromkeys((part.name for part in count_parameters(config).parts), 0)
    for name, parameter in on_meta(config).named_parameters():
        found[part_of(name, config)] += parameter.numel()
    assert found == {part.name: part.count for part in count_parameters(config).parts}


def part_of(name: str, config: TransformerConfig) -> str:
    """Where the formulas count a tensor of this name."""
    if ".blocks." in name:
        sublayer, inner = name.split(".")[3:5]
        if inner == "norm":
            return "block norms"
        if ".table." in name:
            return "positions"
        return {"self_attention": "attention", "cross_attention": "cross-attention"}.get(sublayer, "feed-forward")
    place = name.split(".")[1]
    if name.startswith("head."):
        return "class head" if config.n_classes else "vocabulary head"
    names = {"token": "token embedding", "patch": "patch projection", "segment": "segments", "position": "positions",
             "norm": "embedding norm", "widen": "embedding projection", "class_token": "class token",
             "final_norm": "final norms"}  # fmt: skip
    return "pooler" if name.startswith("pooler.") else names[place]


# ------------------------------------------------------------------------------------------------ published models


def _bert(**changes):
    return transformers.BertModel(transformers.BertConfig(**changes))


def _gpt2(n_embd, n_layer, n_head):
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(n_embd=n_embd, n_layer=n_layer, n_head=n_head))


def _t5(d_model, num_layers, num_heads, d_ff, d_kv):
    config = transformers.T5Config(
        d_model=d_model, num_layers=num_layers, num_heads=num_heads, d_ff=d_ff, d_kv=d_kv
    )  # fmt: skip
    return transformers.T5ForConditionalGeneration(config)


def _llama(width, layers, heads, inner, kv_heads, vocab=32_000, family="Llama"):
    config = getattr(transformers, f"{family}Config")(
        hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=kv_heads,
        intermediate_size=inner, vocab_size=vocab,
    )  # fmt: skip
    return getattr(transformers, f"{family}ForCausalLM")(config)


# The reference library's own models, from the sizes that the papers and model cards state.
REFERENCE = {
    "BERT-base": _bert,
    "BERT-large": lambda: _bert(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096),
    "DistilBERT": lambda: transformers.DistilBertModel(transformers.DistilBertConfig()),
    "ALBERT-base v2": lambda: transformers.AlbertModel(
        transformers.AlbertConfig(hidden_size=768, num_attention_heads=12, intermediate_size=3072)
    ),
    "RoBERTa-base": lambda: transformers.RobertaModel(
        transformers.RobertaConfig(vocab_size=50_265, max_position_embeddings=514, type_vocab_size=1)
    ),
    "ViT-B/16": lambda: transformers.ViTForImageClassification(transformers.ViTConfig(num_labels=1000)),
    "GPT-2": lambda: _gpt2(768, 12, 12),
    "GPT-2 medium": lambda: _gpt2(1024, 24, 16),
    "GPT-2 large": lambda: _gpt2(1280, 36, 20),
    "GPT-2 XL": lambda: _gpt2(1600, 48, 25),
    "BLOOM-560M": lambda: transformers.BloomForCausalLM(
        transformers.BloomConfig(vocab_size=250_880, hidden_size=1024, n_layer=24, n_head=16)
    ),
    "T5-small": lambda: _t5(512, 6, 8, 2048, 64),
    "T5-base": lambda: _t5(768, 12, 12, 3072, 64),
    "T5-large": lambda: _t5(1024, 24, 16, 4096, 64),
    "T5-11B": lambda: _t5(1024, 24, 128, 65_536, 128),
    "TinyLlama": lambda: _llama(2048, 22, 32, 5632, 4),
    "Llama-2-7B": lambda: _llama(4096, 32, 32, 11_008, 32),
    "Llama-2-13B": lambda: _llama(5120, 40, 40, 13_824, 40),
    "Llama-2-70B": lambda: _llama(8192, 80, 64, 28_672, 8),
    "Mistral-7B": lambda: _llama(4096, 32, 32, 14_336, 8, family="Mistral"),
    "Llama-3-8B": lambda: _llama(4096, 32, 32, 14_336, 8, vocab=128_256),
    "Llama-3-70B": lambda: _llama(8192, 80, 64, 28_672, 8, vocab=128_256),
}


@pytest.mark.claim("N4")
@pytest.mark.parametrize("name", NAMED_MODELS)
def test_formula_built_model_and_published_figure_are_one_number(name):
    model = NAMED_MODELS[name]
    with torch.device("meta"):
        reference = REFERENCE[name]()
    counts = {count_parameters(model.config).total, held(on_meta(model.config)), held(reference)}
    assert counts == {model.published}


def test_the_figures_that_the_curriculum_names():
    assert {name: NAMED_MODELS[name].published for name in CURRICULUM} == CURRICULUM


CURRICULUM = {
    "BERT-base": 109_482_240,
    "DistilBERT": 66_362_880,
    "ALBERT-base v2": 11_683_584,
    "GPT-2": 124_439_808,
    "ViT-B/16": 86_567_656,
    "Llama-2-7B": 6_738_415_616,
}


# ------------------------------------------------------------------------------------------------------- by hand

BLOCK = TransformerConfig(family="encoder-only", d_model=128, n_layers=1, n_heads=4, d_ff=256, position="none", vocab=1)


def test_one_block_is_torchs_encoder_layer():
    counted = count_parameters(BLOCK)
    block = counted["attention"] + counted["feed-forward"] + counted["block norms"]
    assert block == held(nn.TransformerEncoderLayer(128, 4, 256)) == held(Block(128, 4, 256)) == 132_480


def test_a_part_that_is_missing_counts_zero():
    assert count_parameters(BLOCK)["pooler"] == 0 and count_parameters(BLOCK)["token embedding"] == 128


def test_parts_are_listed_once_and_only_where_they_exist():
    for model in NAMED_MODELS.values():
        names = [part.name for part in count_parameters(model.config).parts]
        assert len(set(names)) == len(names) and all(part.count > 0 for part in count_parameters(model.config).parts)


# ---------------------------------------------------------------------------------------------- recurrent networks


@pytest.mark.claim("N8")
@pytest.mark.parametrize("kind", parameters.RECURRENT_BLOCKS)
@pytest.mark.parametrize("sizes", [(3, 5), (5, 5), (7, 2)])
def test_recurrent_networks_are_counted_by_the_same_method(kind, sizes):
    for n_layers in (1, 2, 3):
        assert recurrent(kind, *sizes, n_layers=n_layers) == held(getattr(nn, kind)(*sizes, num_layers=n_layers))
    for bias_vectors in (0, 1, 2):
        cell = getattr(recurrence, f"{kind}Cell")(*sizes, bias_vectors=bias_vectors)
        assert recurrent(kind, *sizes, bias_vectors=bias_vectors) == held(cell)


def test_an_unknown_recurrent_network_is_refused():
    with pytest.raises(ValueError, match="kind is 'rnn'; it must be one of 'RNN', 'GRU', 'LSTM'"):
        recurrent("rnn", 3, 5)
