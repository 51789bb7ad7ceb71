"""Recorded attention is what the forward pass computed, under the names of the model's own modules."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from oracles import randn
from transformer_lab.model.attention import Attention, MultiHeadAttention, merge_heads, split_heads
from transformer_lab.model.recording import record_attention


class Layer(nn.Module):
    """Two attentions, one of them a bare core whose name also ends on the word."""

    def __init__(self) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(8, 2)
        self.cross_attention = Attention()

    def forward(self, x, context):
        x = self.self_attention(x, causal=True)
        return merge_heads(self.cross_attention(split_heads(x, 2), *[split_heads(context, 2)] * 2)[0])


class Model(nn.Module):
    def __init__(self, shared: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        first = Layer()
        self.layers = nn.ModuleList([first, first if shared else Layer()])

    def forward(self, x, context):
        for layer in self.layers:
            x = x + layer(x, context)
        return x


X, CONTEXT = randn(3, 4, 8), randn(3, 5, 8, seed=1)


def test_every_attention_is_recorded_under_its_own_name():
    model = Model()
    plain = model(X, CONTEXT)
    with record_attention(model) as maps:
        recorded = model(X, CONTEXT)
    assert_close(recorded, plain)
    assert list(maps) == [f"layers.{i}.{kind}_attention" for i in (0, 1) for kind in ("self", "cross")]
    for name, calls in maps.items():
        assert [call.shape for call in calls] == [(3, 2, 4, 5 if "cross" in name else 4)]
        assert_close(calls[0].sum(-1), torch.ones(3, 2, 4))
        assert not calls[0].requires_grad
    assert maps["layers.0.self_attention"][0].triu(1).eq(0).all()


def test_what_is_recorded_is_what_mixed_the_values():
    module = MultiHeadAttention(8, 2)
    with record_attention(module) as maps:
        output = module(X)
    value = split_heads(module.value_projection(X), 2)
    assert_close(module.output_projection(merge_heads(maps[""][0] @ value)), output)


def test_calls_are_listed_in_order_also_of_a_shared_layer():
    model = Model(shared=True)
    with record_attention(model) as maps:
        model(X, CONTEXT)
        model(X[:, :2], CONTEXT)
    assert list(maps) == ["layers.0.self_attention", "layers.0.cross_attention"]
    assert [call.shape[2] for call in maps["layers.0.self_attention"]] == [4, 4, 2, 2]


@pytest.mark.parametrize("fails", [False, True])
def test_the_model_goes_back_to_its_fused_path(fails):
    module = Attention()
    heads = split_heads(X, 2)
    try:
        with record_attention(module) as maps:
            module(heads, heads, heads)
            if fails:
                raise KeyboardInterrupt
    except KeyboardInterrupt:
        pass
    assert module(heads, heads, heads)[1] is None
    assert len(maps[""]) == 1


def test_recordings_can_be_nested():
    module = MultiHeadAttention(8, 2)
    with record_attention(module) as outer:
        with record_attention(module) as inner:
            module(X)
        module(X)
    assert (len(outer[""]), len(inner[""])) == (2, 1)


def test_gradients_and_dropout_pass_through_a_recording():
    """The weights are stored as they were before dropout; training goes on as without a recording."""
    module = MultiHeadAttention(8, 2, dropout=0.5)

    def gradient():
        torch.manual_seed(0)
        module.zero_grad()
        module(X).square().sum().backward()
        return module.query_projection.weight.grad.clone()

    expected = gradient()
    with record_attention(module) as maps:
        assert_close(gradient(), expected, atol=1e-5, rtol=1e-5)
    assert_close(maps[""][0].sum(-1), torch.ones(3, 2, 4))


def test_a_model_without_attention_is_refused():
    with pytest.raises(ValueError, match="Linear holds no attention"), record_attention(nn.Linear(2, 2)):
        pass
