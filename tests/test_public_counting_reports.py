"""Miscounts that people reported in public code, each tried on this library's counts and on torch itself."""

from copy import deepcopy
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from small_configs import held, on_meta
from transformer_lab.accounting.flops import forward_flops
from transformer_lab.accounting.memory import format_bytes, kv_cache_bytes
from transformer_lab.accounting.named_models import NAMED_MODELS
from transformer_lab.accounting.parameters import count_parameters
from transformer_lab.model.blocks import Block
from transformer_lab.model.config import TransformerConfig
from transformer_lab.model.families import build

TINY = TransformerConfig(family="decoder-only", d_model=4, n_layers=1, n_heads=2, d_ff=8, vocab=10, position="none")


@pytest.mark.case("C01")
def test_the_whole_is_less_than_the_sum_of_its_parts_when_the_head_is_tied():
    tied, untied = count_parameters(TINY), count_parameters(replace(TINY, tie_embeddings=False))
    model = build(TINY)
    parts = [held(model.embedding), held(model.decoder), held(model.head)]
    assert tied.total == held(model) == sum(parts) - 10 * 4
    assert tied["token embedding"] == 40 and tied["vocabulary head"] == 0
    assert untied.total - tied.total == untied["vocabulary head"] == 40


@pytest.mark.case("C03")
def test_tied_weights_stay_equal_and_copied_ones_part():
    torch.manual_seed(0)
    tied, copied = build(TINY), build(replace(TINY, tie_embeddings=False))
    with torch.no_grad():
        copied.head.weight.copy_(copied.embedding.token.weight)
    assert tied.head.weight is tied.embedding.token.weight
    assert torch.equal(copied.head.weight, copied.embedding.token.weight)
    for model in (tied, copied):
        F.cross_entropy(model(torch.tensor([[1, 2]]))[0], torch.tensor([2, 3])).backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= parameter.grad
    assert torch.equal(tied.head.weight, tied.embedding.token.weight)
    assert not torch.equal(copied.head.weight, copied.embedding.token.weight)
    assert held(copied) - held(tied) == 40


@pytest.mark.case("C03")
def test_a_tied_pair_survives_saving_loading_and_copying():
    model = build(TINY)
    other = build(TINY)
    other.load_state_dict(model.state_dict())
    for each in (other, deepcopy(model), build(TINY).to(torch.float64)):
        assert each.head.weight is each.embedding.token.weight and held(each) == held(model)


@pytest.mark.case("C05")
@pytest.mark.parametrize("changes", [{}, {"share_layers": True, "n_layers": 5}, {"tie_embeddings": False}])
def test_a_sum_over_modules_counts_shared_tensors_once_for_each_place(changes):
    config = replace(TINY, **changes)
    model = on_meta(config)
    every_place = sum(tensor.numel() for _, tensor in model.named_parameters(remove_duplicate=False))
    count = count_parameters(config)
    block = count["attention"] + count["feed-forward"] + count["block norms"]
    counted_again = 40 * config.tie_embeddings + (config.n_layers - 1) * block * config.share_layers
    assert every_place - count.total == counted_again
    assert count.total == held(model)


@pytest.mark.case("C05")
def test_two_layers_that_share_a_matrix():
    first, second = nn.Linear(4, 4), nn.Linear(4, 4)
    second.weight = first.weight
    model = nn.Sequential(first, nn.ReLU(), second)
    assert held(model) == 24 and sum(map(held, model)) == 40


@pytest.mark.case("C07")
def test_a_parameter_without_a_layer_counts_and_a_buffer_does_not():
    model = on_meta(NAMED_MODELS["ViT-B/16"].config)
    layers = [module for module in model.modules() if not list(module.children())]
    in_layers = sum(tensor.numel() for tensor in {tensor for layer in layers for tensor in layer.parameters()})
    count = count_parameters(model.config)
    assert count.total - in_layers == count["class token"] == 768
    model.register_buffer("mask", torch.ones(197, 197))
    assert held(model) == count.total


@pytest.mark.case("C07")
def test_position_formulas_hold_no_parameters():
    for position in ("none", "sinusoidal", "rope", "alibi"):
        config = replace(TINY, position=position)
        assert count_parameters(config)["positions"] == 0 and count_parameters(config).total == held(build(config))
    learned = replace(TINY, position="learned", n_positions=6)
    assert held(build(learned)) - held(build(TINY)) == count_parameters(learned)["positions"] == 6 * 4


@pytest.mark.case("C09")
def test_an_encoder_layer_is_broken_down_exactly_whatever_its_heads():
    attention, norms, up, down = 4 * 128**2 + 4 * 128, 2 * 2 * 128, 128 * 256 + 256, 256 * 128 + 128
    assert (attention, norms, up, down) == (66_048, 512, 33_024, 32_896)
    for n_heads in (1, 2, 4, 8, 16):
        config = replace(TINY, d_model=128, d_ff=256, n_heads=n_heads)
        count = count_parameters(config)
        assert (count["attention"], count["block norms"], count["feed-forward"]) == (attention, norms, up + down)
        layers = (nn.TransformerEncoderLayer(128, n_heads, 256), Block(128, n_heads, 256))
        assert [held(layer) for layer in layers] == [132_480, 132_480]


@pytest.mark.case("K01")
@pytest.mark.parametrize("tied", [True, False])
def test_a_look_up_is_free_and_the_head_is_not_tied_or_not(tied):
    config = replace(TINY, tie_embeddings=tied)
    flops = forward_flops(config, 3)
    assert flops["token embedding"] == 0 and flops["vocabulary head"] == 2 * 3 * 4 * 10 == 240
    model = on_meta(config)
    with torch.device("meta"), FlopCounterMode(display=False) as counter:
        model(torch.zeros(1, 3, dtype=torch.long))
    assert counter.get_total_flops() == sum(flops.values())
    counts = counter.get_flop_counts()
    assert sum(counts["DecoderOnly.head"].values()) == 240 and "DecoderOnly.embedding" not in counts


@pytest.mark.case("K02")
def test_the_cache_knows_key_value_heads_and_no_other_factor():
    wide = replace(TINY, d_model=4096, n_heads=32, n_layers=32)
    assert kv_cache_bytes(wide, 1, precision="float16") == 2 * 32 * 32 * 128 * 2 == 524_288
    assert kv_cache_bytes(replace(wide, n_kv_heads=8), 1, precision="float16") == 524_288 // 4
    small = replace(TINY, d_model=24, n_heads=4, n_layers=3)
    real = torch.zeros(2, 3, 4, 5, 6, dtype=torch.float16)  # (key or value, layers, heads, positions, d_head)
    assert kv_cache_bytes(small, 5, precision="float16") == real.nbytes


@pytest.mark.case("K05")
def test_worked_cache_sizes_name_their_unit():
    plain = replace(TINY, d_model=4096, n_heads=32, n_layers=32)
    grouped = replace(TINY, d_model=8192, n_heads=64, n_kv_heads=8, n_layers=80)
    sizes = [kv_cache_bytes(config, 32_768) for config in (plain, grouped, replace(grouped, n_kv_heads=64))]
    assert [size / 2**30 for size in sizes] == [16.0, 10.0, 80.0]
    assert [format_bytes(size, binary=True) for size in sizes] == ["16.00 GiB", "10.00 GiB", "80.00 GiB"]
    assert [format_bytes(size) for size in sizes[:2]] == ["17.18 GB", "10.74 GB"]
