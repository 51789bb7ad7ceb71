"""The claims of lesson 09, computed with what the notebook uses, at its settings."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from small_configs import held, on_meta
from transformer_lab.accounting.flops import against_the_rule, forward_flops, rule_of_thumb, training_flops
from transformer_lab.accounting.memory import activation_bytes, format_bytes, training_bytes
from transformer_lab.accounting.named_models import NAMED_MODELS
from transformer_lab.accounting.parameters import attention, count_parameters, feed_forward, recurrent
from transformer_lab.model.blocks import Block
from transformer_lab.model.config import TransformerConfig
from transformer_lab.model.families import build
from transformer_lab.widgets.parameter_calculator import parameter_calculator
from transformer_lab.widgets.work_against_rule import work_against_rule

V, D, LAYERS, F = 32_000, 4096, 32, 11_008


@pytest.fixture(scope="module")
def seven_billion():
    return TransformerConfig(
        family="decoder-only", vocab=V, d_model=D, n_layers=LAYERS, n_heads=32, d_ff=F, bias=False,
        activation="swiglu", norm="rmsnorm", position="rope", tie_embeddings=False,
    )  # fmt: skip


def counted_flops(config):
    """The products of a pass over 64 tokens, counted by torch while the built model does them."""
    model = on_meta(config)
    with torch.device("meta"), FlopCounterMode(display=False) as counter:
        model(torch.zeros(1, 64, dtype=torch.long))
    return counter.get_total_flops()


def matrices(config):
    """Without the norms, as the curriculum counts."""
    count = count_parameters(config)
    return count.total - count["block norms"] - count["final norms"]


@pytest.mark.claim("N1")
@pytest.mark.parametrize("d", [64, 512, 768])
def test_a_block_is_twelve_d_squared_and_sixteen_with_a_gate(d):
    for activation, squares in (("relu", 12), ("gelu", 12), ("swiglu", 16)):
        config = TransformerConfig(
            family="encoder-only", d_model=d, n_layers=1, n_heads=8, d_ff=4 * d, bias=False, activation=activation,
            position="none", vocab=1,
        )  # fmt: skip
        assert attention(config) == 4 * d**2 and feed_forward(config) == (squares - 4) * d**2
        assert held(Block(d, 8, 4 * d, activation=activation, bias=False)) == squares * d**2 + 2 * d
    assert {held(Block(d, n_heads, 4 * d)) for n_heads in (1, 2, 4, 8, 16, 32)} == {12 * d**2 + 13 * d}


@pytest.mark.claim("N2")
def test_seven_billion_to_the_digit(seven_billion):
    count, tied = count_parameters(seven_billion), replace(seven_billion, tie_embeddings=True)
    assert count["token embedding"] == count["vocabulary head"] == 131_072_000
    assert attention(seven_billion) == 67_108_864 and feed_forward(seven_billion) == 135_266_304
    assert attention(seven_billion) + feed_forward(seven_billion) == 202_375_168
    assert (matrices(seven_billion), matrices(tied)) == (6_738_149_376, 6_607_077_376)
    assert format_bytes(2 * matrices(seven_billion)) == "13.48 GB" and format_bytes(2 * matrices(tied)) == "13.21 GB"
    assert count.total == held(on_meta(seven_billion)) == 6_738_149_376 + 65 * 4096


@pytest.mark.claim("N2")
def test_tying_saves_storage_and_not_the_multiplication(seven_billion):
    work = [forward_flops(replace(seven_billion, tie_embeddings=tied), 1) for tied in (False, True)]
    assert work[0] == work[1] and work[0]["vocabulary head"] == 2 * D * V
    small = replace(seven_billion, d_model=64, n_layers=1, n_heads=4, d_ff=128, vocab=100)
    for config in (small, seven_billion, NAMED_MODELS["GPT-2"].config):
        tied, untied = (counted_flops(replace(config, tie_embeddings=tie)) for tie in (True, False))
        assert tied == untied
    assert untied == 15_963_095_040


@pytest.mark.claim("N3")
def test_eight_key_value_heads_shrink_two_matrices_and_nothing_else(seven_billion):
    shared = replace(seven_billion, n_kv_heads=8)
    assert attention(shared) == 41_943_040 and matrices(shared) == 5_932_843_008
    assert 2 * matrices(shared) == 11_865_686_016
    assert format_bytes(2 * matrices(shared), binary=True) == "11.05 GiB"
    few, many = count_parameters(shared), count_parameters(seven_billion)
    changed = [part.name for part in many.parts if few[part.name] != part.count]
    assert changed == ["attention"] and few.total == held(on_meta(shared))
    layer = build(replace(shared, n_layers=1, d_model=64, d_ff=64, n_heads=8, n_kv_heads=2)).decoder.blocks[0]
    mha = layer.self_attention.sublayer
    sizes = [getattr(mha, f"{name}_projection").weight.numel() for name in ("query", "key", "value", "output")]
    assert sizes == [64 * 64, 64 * 16, 64 * 16, 64 * 64]


@pytest.mark.claim("N5")
def test_tied_tensors_count_once_and_buffers_never():
    model = on_meta(NAMED_MODELS["GPT-2"].config)
    by_module = sum(p.numel() for module in model.modules() for p in module.parameters(recurse=False))
    assert by_module == 163_037_184 == held(model) + 50_257 * 768
    assert model.head.weight is model.embedding.token.weight
    assert sum(tensor.numel() for tensor in model.state_dict().values()) == by_module
    for block in model.decoder.blocks:
        block.register_buffer("causal_mask", torch.ones(1024, 1024, device="meta"))
    assert held(model) == count_parameters(model.config).total == 124_439_808
    assert held(model) + sum(buffer.numel() for buffer in model.buffers()) == 137_022_720


@pytest.mark.claim("N5")
def test_shared_blocks_count_once_and_work_as_often_as_they_are_used():
    albert = NAMED_MODELS["ALBERT-base v2"].config
    alone = replace(albert, n_layers=1)
    assert count_parameters(albert).total == count_parameters(alone).total == held(on_meta(albert))
    assert forward_flops(albert, 8)["feed-forward"] == 12 * forward_flops(alone, 8)["feed-forward"]
    bert = NAMED_MODELS["BERT-base"].config
    assert (counted_flops(bert), counted_flops(albert)) == (11_022_630_912, 11_035_213_824)


@pytest.mark.claim("N6")
def test_two_flops_a_weight_and_token_forward_and_four_backward():
    gpt2 = NAMED_MODELS["GPT-2"].config
    with torch.device("meta"), FlopCounterMode(display=False) as counter:
        logits = build(gpt2)(torch.zeros(1, 64, dtype=torch.long))
    forward = counter.get_total_flops()
    with counter:
        logits.sum().backward()
    n = count_parameters(gpt2).total
    assert forward == sum(forward_flops(gpt2, 64).values()) and counter.get_total_flops() == 2 * forward
    assert 3 * forward == training_flops(gpt2, 64) == pytest.approx(rule_of_thumb(n, 64), rel=0.01)


@pytest.mark.claim("N6")
def test_the_rule_forgets_look_ups_and_scores(seven_billion):
    n = count_parameters(seven_billion).total
    norms = count_parameters(seven_billion)["block norms"] + count_parameters(seven_billion)["final norms"]
    for length in (128, 4096, 131_072):
        assert against_the_rule(seven_billion, length, scores=False) == pytest.approx((n - V * D - norms) / n)
    assert against_the_rule(seven_billion, 2048) == pytest.approx(1.06, abs=0.01)
    assert work_against_rule().sentence == (
        "Without the scores the work stays at 0.98 of the rule at every length: the look-up is free. With the scores "
        "it is 1.06 at 2,048 tokens, 2.26 at 32,768 and 6.08 at 131,072."
    )
    work = forward_flops(seven_billion, 6 * D)
    in_blocks = work["attention projections"] + work["feed-forward"]
    assert work["attention scores"] / in_blocks == pytest.approx(1, abs=0.01)


@pytest.mark.claim("N7")
def test_training_keeps_sixteen_bytes_a_parameter_and_activations_by_the_token(seven_billion):
    n = count_parameters(seven_billion).total
    assert training_bytes(n) == {"weights": 4 * n, "gradients": 4 * n, "two Adam moments": 8 * n}
    assert format_bytes(sum(training_bytes(n).values())) == "107.81 GB"
    assert sum(training_bytes(n, "mixed, with master weights").values()) == 16 * n
    one = activation_bytes(seven_billion, 4096)
    assert activation_bytes(seven_billion, 4096, batch=8) == 8 * one
    assert activation_bytes(seven_billion, 8192) == 2 * one
    assert one == 2 * 4096 * 32 * (2 * (32 + 32) * 128 + 4 * F + 2 * 2 * D)


@pytest.mark.claim("N8")
def test_rnn_gru_and_lstm_by_the_same_method():
    d_input, d_hidden = 256, 512
    for kind, blocks in (("RNN", 1), ("GRU", 3), ("LSTM", 4)):
        expected = blocks * (d_input * d_hidden + d_hidden * d_hidden + 2 * d_hidden)
        assert recurrent(kind, d_input, d_hidden) == held(getattr(nn, kind)(d_input, d_hidden)) == expected
        assert expected - recurrent(kind, d_input, d_hidden, bias_vectors=1) == blocks * d_hidden


def test_what_the_lesson_tells_to_try_happens():
    widget = parameter_calculator()
    assert widget.set(tie_embeddings=True).result.total == 6_738_415_616 - V * D
    assert widget.set(tie_embeddings=False).result.published
    assert widget.set(n_kv_heads=8).result.total == 5_932_843_008 + 65 * D
    assert widget.set(n_kv_heads=1).error is None
    assert "n_kv_heads is 5" in widget.set(n_kv_heads=5).error
    widget.set(model="GPT-2")
    assert {widget.set(n_heads=n_heads).result.total for n_heads in (12, 6, 24)} == {124_439_808}
    assert "n_heads is 11" in widget.set(n_heads=11).error
    widget.set(model="GPT-2", d_model=384, d_ff=1536)
    assert "largest part is “token embedding”, 47.1 %" in widget.sentence
