"""Bytes and FLOPs from a config, against what torch really holds, keeps and computes."""

import pytest
import torch
from hypothesis import given, settings
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from small_configs import configs, held, on_meta
from transformer_lab.accounting.flops import forward_flops, rule_of_thumb, training_flops
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
        if config.pooler and not config.n_classes:
            output = model.pool(output)
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
        (10**18, "1,000.00 PB", "888.18 PiB"),
    ],
)
def test_decimal_and_binary_units_are_named_apart(n_bytes, decimal, binary):
    assert (format_bytes(n_bytes), format_bytes(n_bytes, binary=True)) == (decimal, binary)


def test_every_named_model_can_be_weighed():
    for model in NAMED_MODELS.values():
        sizes = [weight_bytes(model.config, precision) for precision in PRECISIONS]
        assert sizes == sorted(sizes, reverse=True) and sizes[0] == 4 * count_parameters(model.config).total
