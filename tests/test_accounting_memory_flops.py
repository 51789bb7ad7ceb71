"""Bytes and FLOPs from a config, against what torch really holds, keeps and computes."""

import re

import pytest
import torch
from hypothesis import given, settings
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from small_configs import configs, held, on_meta
from transformer_lab.accounting import parameters
from transformer_lab.accounting.flops import against_the_rule, forward_flops, rule_of_thumb, training_flops
from transformer_lab.accounting.memory import (
    PRECISIONS,
    RECIPES,
    activation_bytes,
    bytes_of,
    format_bytes,
    kv_cache_bytes,
    training_bytes,
    weight_bytes,
)
from transformer_lab.accounting.named_models import NAMED_MODELS
from transformer_lab.accounting.parameters import count_parameters
from transformer_lab.model.config import TransformerConfig
from transformer_lab.model.families import build

TINY = {
    "family": "decoder-only",
    "d_model": 16,
    "n_layers": 2,
    "n_heads": 4,
    "d_ff": 64,
    "vocab": 50,
    "n_positions": 32,
}


def run(model, config, length, target_length, backward=False):
    """One forward pass on the meta device, where fused attention is taken apart into its products."""
    with torch.device("meta"):
        n = (1, length)
        inputs = torch.zeros(*n, config.d_patch) if config.d_patch else torch.zeros(n, dtype=torch.long)
        if config.family == "encoder-decoder":
            output = model(inputs, torch.zeros(1, target_length, dtype=torch.long))
        else:
            output = model(inputs)
    if backward:
        output.sum().backward()


def counted(model, *args, **kwargs):
    with FlopCounterMode(display=False) as counter:
        run(model, *args, **kwargs)
    return counter.get_total_flops()


# --------------------------------------------------------------------------------------------------------- FLOPs


@settings(max_examples=40, deadline=None)
@given(configs())
def test_the_formula_counts_the_products_that_torch_counts(config):
    target = 5 if config.family == "encoder-decoder" else 0
    flops = forward_flops(config, 7, target_length=target)
    assert sum(flops.values()) == counted(on_meta(config), config, 7, target)


@pytest.mark.parametrize("n_classes", [0, 3])
def test_a_pooler_works_in_a_forward_pass_only_for_classes(n_classes):
    config = TransformerConfig(
        **TINY | {"family": "encoder-only", "vocab_head": False, "pooler": True, "n_classes": n_classes}
    )
    flops = forward_flops(config, 7)
    assert sum(flops.values()) == counted(on_meta(config), config, 7, 0)
    assert flops.get("pooler", 0) == (2 * 16 * 16 if n_classes else 0)


@pytest.mark.parametrize("changes", [{}, {"n_kv_heads": 2}, {"activation": "swiglu"}, {"tie_embeddings": False}])
def test_a_training_step_is_three_forward_passes(changes):
    config = TransformerConfig(**TINY | changes)
    assert training_flops(config, 9) == counted(on_meta(config), config, 9, 0, backward=True)


def test_a_token_with_a_cache_does_the_work_of_one_row():
    config = TransformerConfig(**TINY)
    last, whole, before = (
        forward_flops(config, 1, cached=8), forward_flops(config, 9), forward_flops(config, 8)
    )  # fmt: skip
    for part in ("attention projections", "feed-forward", "vocabulary head"):
        assert last[part] == whole[part] - before[part]
    assert last["attention scores"] * 9 == whole["attention scores"]


@pytest.mark.parametrize(
    ("family", "lengths", "words"),
    [
        ("encoder-decoder", {}, "an encoder–decoder needs a target"),
        ("decoder-only", {"target_length": 3}, "no other family has one"),
        ("encoder-only", {"cached": 3}, "only decoder-only work"),
    ],
)
def test_lengths_that_do_not_fit_the_family_are_refused(family, lengths, words):
    with pytest.raises(ValueError, match=words):
        forward_flops(TransformerConfig(**TINY | {"family": family}), 4, **lengths)


def test_the_rule_of_thumb():
    assert rule_of_thumb(7, 11) == 6 * 7 * 11


# -------------------------------------------------------------------------------------------------------- memory


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "float16", "int8"])
def test_weights_weigh_what_torch_says(precision):
    dtype = getattr(torch, precision)
    model = on_meta(TransformerConfig(**TINY))
    real = sum(torch.empty_like(parameter, dtype=dtype).nbytes for parameter in model.parameters())
    assert weight_bytes(model.config, precision) == real


def test_half_bytes_round_up_and_unknown_names_are_refused():
    assert [bytes_of(n, "int4") for n in (0, 1, 2, 3)] == [0, 1, 1, 2]
    with pytest.raises(ValueError, match="precision is 'fp16'; it must be one of 'float32'"):
        bytes_of(3, "fp16")
    with pytest.raises(ValueError, match="recipe is 'adam'"):
        training_bytes(3, "adam")


@pytest.mark.parametrize(("recipe", "dtype"), [("float32", torch.float32), ("bfloat16 throughout", torch.bfloat16)])
def test_adam_really_keeps_this_much(recipe, dtype):
    model = build(TransformerConfig(**TINY)).to(dtype)
    optimiser = torch.optim.AdamW(model.parameters())
    model(torch.zeros(1, 4, dtype=torch.long)).sum().backward()
    optimiser.step()
    moments = sum(value.nbytes for state in optimiser.state.values() for name, value in state.items() if name != "step")
    weights = sum(parameter.nbytes for parameter in model.parameters())
    gradients = sum(parameter.grad.nbytes for parameter in model.parameters())
    wanted = {"weights": weights, "gradients": gradients, "two Adam moments": moments}
    assert training_bytes(held(model), recipe) == wanted


def test_mixed_precision_saves_nothing_but_activations():
    assert RECIPES["mixed, with master weights"].total == RECIPES["float32"].total == 16
    assert sum(training_bytes(10, "mixed, with master weights").values()) == 160


@pytest.mark.parametrize("activation", ["gelu", "relu"])
@pytest.mark.parametrize("norm_order", ["pre", "post"])
def test_activations_are_what_torchs_layers_keep(activation, norm_order):
    """Against torch's encoder layers, whose kernels are fused. The statistics of norms and softmax are not counted."""
    config = TransformerConfig(**TINY | {"d_model": 64, "d_ff": 256, "activation": activation})
    layers = [
        nn.TransformerEncoderLayer(
            64, 4, 256, dropout=0.0, activation=activation, batch_first=True, norm_first=norm_order == "pre"
        )
        for _ in range(2)
    ]
    kept = kept_bytes(nn.Sequential(*layers), torch.randn(3, 32, 64, requires_grad=True))
    assert activation_bytes(config, 32, batch=3, precision="float32") == pytest.approx(kept, rel=0.02)


def kept_bytes(module, x):
    """What autograd keeps for the backward pass, weights aside, each storage once."""
    weights = {parameter.untyped_storage().data_ptr() for parameter in module.parameters()}
    kept = {}

    def keep(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        module(x)
    return sum(storage.nbytes() for storage in kept.values())


def test_a_gated_block_and_a_cross_attention_keep_more():
    plain = activation_bytes(TransformerConfig(**TINY), 8)
    assert activation_bytes(TransformerConfig(**TINY | {"activation": "swiglu"}), 8) - plain == 2 * 8 * 2 * (2 * 64)
    both = activation_bytes(TransformerConfig(**TINY | {"family": "encoder-decoder"}), 8)
    assert both == 2 * plain + 2 * 8 * 2 * (2 * 16 + 4 * 16)


@pytest.mark.parametrize("changes", [{}, {"n_kv_heads": 1}, {"n_kv_heads": 2, "d_head": 6}, {"share_layers": True}])
def test_the_cache_is_as_large_as_real_caches(changes):
    config = TransformerConfig(**TINY | changes)
    model = build(config)
    caches = model.new_caches()
    with torch.no_grad():
        model(torch.zeros(3, 5, dtype=torch.long), caches=caches)
    real = sum(cache.key.nbytes + cache.value.nbytes for cache in caches)
    assert kv_cache_bytes(config, 5, batch=3, precision="float32") == real


def test_an_encoder_has_no_cache():
    with pytest.raises(ValueError, match="family is 'encoder-only': it has no decoder"):
        kv_cache_bytes(TransformerConfig(**TINY | {"family": "encoder-only"}), 5)


# ---------------------------------------------------------------------------------------------------- the formatter


@pytest.mark.parametrize(
    ("n_bytes", "decimal", "binary"),
    [
        (0, "0 B", "0 B"),
        (999, "999 B", "999 B"),
        (1000, "1.00 kB", "0.98 KiB"),
        (1024, "1.02 kB", "1.00 KiB"),
        (999_994, "999.99 kB", "976.56 KiB"),
        (999_999, "1.00 MB", "976.56 KiB"),
        (2**20 - 2**10, "1.05 MB", "1.00 MiB"),
        (1000 * 2**20, "1.05 GB", "0.98 GiB"),
        (2**20 - 1, "1.05 MB", "1.00 MiB"),
        (2**30, "1.07 GB", "1.00 GiB"),
        (13_476_298_752, "13.48 GB", "12.55 GiB"),
        (11_865_686_016, "11.87 GB", "11.05 GiB"),
        (10**18, "1.00 EB", "888.18 PiB"),
        (2**60, "1.15 EB", "1.00 EiB"),
        (10**21, "1.00 ZB", "867.36 EiB"),
        (10**30, "1.00 QB", "807.79 RiB"),
        (10**32, "100.00 QB", "78.89 QiB"),
    ],
)
def test_decimal_and_binary_units_are_named_apart(n_bytes, decimal, binary):
    assert (format_bytes(n_bytes), format_bytes(n_bytes, binary=True)) == (decimal, binary)


DECODER = TransformerConfig(**TINY | {"position": "none", "n_positions": 0})
BOTH = TransformerConfig(**TINY | {"family": "encoder-decoder"})
LEARNED, VIT = TransformerConfig(**TINY), NAMED_MODELS["ViT-B/16"].config
NO_NUMBER = (2.5, 2.0, True, "3", None)
# What is called, the argument's name, the least that it may be.
NUMBERS = {
    "forward_flops length": (lambda n: forward_flops(DECODER, n), "length", 1),
    "training_flops length": (lambda n: training_flops(DECODER, n), "length", 1),
    "against_the_rule length": (lambda n: against_the_rule(DECODER, n), "length", 1),
    "target_length": (lambda n: forward_flops(BOTH, 4, target_length=n), "target_length", 0),
    "cached": (lambda n: forward_flops(DECODER, 4, cached=n), "cached", 0),
    "n_parameters of the rule": (lambda n: rule_of_thumb(n, 2), "n_parameters", 0),
    "n_tokens of the rule": (lambda n: rule_of_thumb(2, n), "n_tokens", 0),
    "n_numbers": (lambda n: bytes_of(n, "int4"), "n_numbers", 0),
    "n_parameters to train": (training_bytes, "n_parameters", 0),
    "activations of a length": (lambda n: activation_bytes(DECODER, n), "length", 1),
    "activations of a batch": (lambda n: activation_bytes(DECODER, 3, batch=n), "batch", 1),
    "cached positions": (lambda n: kv_cache_bytes(DECODER, n), "n_positions", 0),
    "cached batch": (lambda n: kv_cache_bytes(DECODER, 3, batch=n), "batch", 1),
    "n_bytes": (format_bytes, "n_bytes", 0),
    "width of a norm": (lambda n: parameters.norm(DECODER, n), "width", 1),
    "d_input of a layer": (lambda n: parameters.linear(n, 3), "d_input", 1),
    "d_output of a layer": (lambda n: parameters.linear(3, n), "d_output", 1),
    "d_input": (lambda n: parameters.recurrent("GRU", n, 2), "d_input", 1),
    "d_hidden": (lambda n: parameters.recurrent("GRU", 2, n), "d_hidden", 1),
    "n_layers": (lambda n: parameters.recurrent("GRU", 3, 2, n_layers=n), "n_layers", 1),
    "bias_vectors": (lambda n: parameters.recurrent("GRU", 3, 2, bias_vectors=n), "bias_vectors", 0),
}
OTHERS = {
    "no config to count": (lambda: count_parameters("x"), TypeError, "config is 'x', a str"),
    "no config's attention": (lambda: parameters.attention(None), TypeError, "config is None"),
    "no config's layer": (lambda: parameters.feed_forward({}), TypeError, "config is {}, a dict"),
    "no config's norm": (lambda: parameters.norm("x", 3), TypeError, "config is 'x'"),
    "no config's work": (lambda: forward_flops("GPT-2", 3), TypeError, "config is 'GPT-2'"),
    "no config's weights": (lambda: weight_bytes("GPT-2"), TypeError, "config is 'GPT-2'"),
    "no config's activations": (lambda: activation_bytes("GPT-2", 3), TypeError, "config is 'GPT-2'"),
    "no config's cache": (lambda: kv_cache_bytes("GPT-2", 3), TypeError, "config is 'GPT-2'"),
    "precisions in a list": (lambda: bytes_of(3, ["int8"]), ValueError, "precision is ['int8']; it must be one of"),
    "a recipe of settings": (lambda: training_bytes(3, {}), ValueError, "recipe is {}; it must be one of"),
    "a network in a list": (lambda: parameters.recurrent(["GRU"], 3, 5), ValueError, "kind is ['GRU']; it must be"),
    "three biases": (lambda: parameters.recurrent("GRU", 3, 5, bias_vectors=3), ValueError, "bias_vectors is 3; it"),
    "a bias of 1": (lambda: parameters.linear(3, 5, 1), TypeError, "bias is 1, a int"),
    "scores of 1": (lambda: against_the_rule(DECODER, 3, scores=1), TypeError, "scores is 1, a int"),
    "binary of 1": (lambda: format_bytes(3, binary=1), TypeError, "binary is 1, a int"),
    "bytes beyond units": (lambda: format_bytes(10**400), ValueError, "n_bytes is a number of 1329 bits"),
    "length beyond the table": (lambda: forward_flops(LEARNED, 33), ValueError, "needs 33 positions and config.n_pos"),
    "cached beyond it": (lambda: forward_flops(LEARNED, 1, cached=32), ValueError, "needs 33 positions"),
    "target beyond it": (lambda: forward_flops(BOTH, 4, target_length=33), ValueError, "needs 33 positions"),
    "a class token beyond it": (lambda: forward_flops(VIT, 197), ValueError, "needs 198 positions"),
    "activations beyond it": (lambda: activation_bytes(LEARNED, 33), ValueError, "needs 33 positions"),
    "cache beyond it": (lambda: kv_cache_bytes(LEARNED, 33), ValueError, "needs 33 positions"),
}  # fmt: skip


@pytest.mark.parametrize(("call", "name", "least"), NUMBERS.values(), ids=NUMBERS)
def test_a_number_that_cannot_be_is_refused_by_name(call, name, least, plain_errors):
    call(2)
    for bad in NO_NUMBER:
        with pytest.raises(TypeError, match=f"^{name} is {bad!r}, a .*whole number"):
            call(bad)
    for bad in (least - 1, -3):
        with pytest.raises(ValueError, match=f"^{name} is {bad}; it must be at least {least}"):
            call(bad)


@pytest.mark.parametrize(("call", "error", "said"), OTHERS.values(), ids=OTHERS)
def test_what_cannot_be_counted_is_refused_by_name(call, error, said, plain_errors):
    with pytest.raises(error, match=re.escape(said)):
        call()


def test_the_last_row_of_a_learned_table_may_be_used():
    assert forward_flops(LEARNED, 31, cached=1)["feed-forward"] == forward_flops(LEARNED, 31)["feed-forward"]
    assert forward_flops(BOTH, 32, target_length=32) and forward_flops(VIT, 196)
    assert kv_cache_bytes(LEARNED, 32) == 32 * kv_cache_bytes(LEARNED, 1) and kv_cache_bytes(LEARNED, 0) == 0
    assert activation_bytes(LEARNED, 32) == 32 * activation_bytes(LEARNED, 1)


def test_every_named_model_can_be_weighed():
    for model in NAMED_MODELS.values():
        sizes = [weight_bytes(model.config, precision) for precision in PRECISIONS]
        assert sizes == sorted(sizes, reverse=True) and sizes[0] == 4 * count_parameters(model.config).total
