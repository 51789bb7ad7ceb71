"""RoPE: against complex numbers, against a shift, and in both layouts."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from oracles import randn
from transformer_lab.model.attention import MultiHeadAttention
from transformer_lab.model.positions import LAYOUTS, RotaryPositions, convert_rope_layout

both_layouts = pytest.mark.parametrize("layout", LAYOUTS)
PAIRED = [0, 2, 4, 6, 1, 3, 5, 7]  # interleaved components in half-split order, d_head = 8


def by_complex_numbers(x, ids, layout, base=10_000.0):
    """Each pair as one complex number, multiplied by e^{i p θ}."""
    half = x.shape[-1] // 2
    a, b = (x[..., 0::2], x[..., 1::2]) if layout == "interleaved" else (x[..., :half], x[..., half:])
    theta = torch.tensor([base ** (-2 * i / x.shape[-1]) for i in range(half)], dtype=torch.float64)
    turned = torch.complex(a.double(), b.double()) * torch.polar(torch.ones(()).double(), ids[:, None, :, None] * theta)
    if layout == "interleaved":
        return torch.view_as_real(turned).flatten(-2).float()
    return torch.cat((turned.real, turned.imag), dim=-1).float()


@both_layouts
@pytest.mark.parametrize("d_head", [2, 4, 8])
@pytest.mark.parametrize("base", [10_000.0, 500_000.0])
def test_pairs_turn_like_complex_numbers(layout, d_head, base):
    x, ids = randn(2, 3, 5, d_head), torch.tensor([[0, 1, 2, 3, 4], [9, 30, 500, 0, 7]])
    expected = by_complex_numbers(x, ids, layout, base)
    assert_close(RotaryPositions(layout=layout, base=base).rotate(x, ids), expected, atol=1e-6, rtol=0)


def test_one_pair_by_hand():
    """(1, 0) at position 1 turns by one radian; the second pair by 1 / 100 of one."""
    x = torch.tensor([[[[1.0, 0.0, 1.0, 0.0]]]])
    turned = RotaryPositions(layout="interleaved").rotate(x, torch.tensor([[1]]))
    assert_close(turned.flatten(), torch.tensor([0.540302, 0.841471, 0.999950, 0.0099998]), atol=1e-6, rtol=0)


@pytest.mark.claim("P8")
@both_layouts
@settings(max_examples=30, deadline=None)
@given(shift=st.integers(0, 5_000), seed=st.integers(0, 999))
def test_a_common_shift_leaves_every_score_unchanged(layout, shift, seed):
    rope, ids = RotaryPositions(layout=layout), torch.arange(6)[None]
    query, key = randn(1, 2, 6, 8, seed=seed), randn(1, 2, 6, 8, seed=seed + 1)

    def scores(ids):
        return rope.rotate(query, ids) @ rope.rotate(key, ids).mT

    assert_close(scores(ids + shift), scores(ids), atol=1e-5, rtol=0)


@pytest.mark.claim("P8")
@both_layouts
def test_norms_stay_and_position_zero_turns_nothing(layout):
    x, rope = randn(1, 2, 9, 8), RotaryPositions(layout=layout)
    turned = rope.rotate(x, torch.arange(9)[None])
    assert_close(turned.norm(dim=-1), x.norm(dim=-1), atol=1e-5, rtol=0)
    assert torch.equal(turned[:, :, 0], x[:, :, 0]) and not torch.allclose(turned[:, :, 1:], x[:, :, 1:], atol=1e-3)


@pytest.mark.claim("P8")
def test_values_are_not_rotated():
    """Equal scores everywhere: the output is the plain mean of the values, wherever they stand."""
    module = MultiHeadAttention(8, 2, position=RotaryPositions(layout="interleaved"))
    x = randn(1, 5, 8)
    with torch.no_grad():
        module.query_projection.weight.zero_()
        module.query_projection.bias.zero_()
    mean = module.output_projection(module.value_projection(x).mean(dim=1, keepdim=True))
    assert_close(module(x), mean.expand(-1, 5, -1))


@pytest.mark.claim("P8")
@pytest.mark.case("P05")
def test_layouts_agree_only_after_reordering_the_features():
    query, key, ids = randn(1, 1, 4, 8, seed=71), randn(1, 1, 4, 8, seed=72), torch.arange(4)[None]
    pairs, halves = (RotaryPositions(layout=layout).rotate for layout in LAYOUTS)
    expected = pairs(query, ids) @ pairs(key, ids).mT
    assert_close(halves(query[..., PAIRED], ids), pairs(query, ids)[..., PAIRED])
    assert_close(halves(query[..., PAIRED], ids) @ halves(key[..., PAIRED], ids).mT, expected)
    for wrong in (halves(query, ids) @ halves(key, ids).mT, pairs(query, ids) @ halves(key, ids).mT):
        assert (wrong - expected).abs().max() > 0.1


@pytest.mark.claim("P8")
@pytest.mark.case("P05")
@pytest.mark.parametrize("n_kv_heads", [4, 2])
def test_converted_weights_give_the_same_outputs(n_kv_heads):
    torch.manual_seed(0)
    old = MultiHeadAttention(32, 4, n_kv_heads=n_kv_heads, position=RotaryPositions(layout="interleaved"))
    new = MultiHeadAttention(32, 4, n_kv_heads=n_kv_heads, position=RotaryPositions(layout="half_split"))
    x, state = randn(2, 6, 32), old.state_dict()
    new.load_state_dict(state)
    with torch.no_grad():
        old.query_projection.weight.mul_(3)
    state = old.state_dict()
    new.load_state_dict(state)
    assert (new(x, causal=True) - old(x, causal=True)).abs().max() > 1e-2  # mixed layouts: wrong, and no error
    for name, heads in (("query", 4), ("key", n_kv_heads)):
        for part in ("weight", "bias"):
            entry = f"{name}_projection.{part}"
            state[entry] = convert_rope_layout(state[entry], heads, source="interleaved", target="half_split")
    new.load_state_dict(state)
    assert_close(new(x, causal=True), old(x, causal=True))


def test_conversion_there_and_back_is_the_identity_and_a_known_permutation():
    rows = torch.arange(16.0)
    there = convert_rope_layout(rows, 2, source="interleaved", target="half_split")
    assert there.tolist() == [*PAIRED, *(8 + i for i in PAIRED)]
    assert torch.equal(convert_rope_layout(there, 2, source="half_split", target="interleaved"), rows)
    assert torch.equal(convert_rope_layout(rows, 2, source="half_split", target="half_split"), rows)


@pytest.mark.claim("P12")
def test_an_odd_head_is_refused_with_the_fix():
    module = MultiHeadAttention(12, 4, position=RotaryPositions(layout="half_split"))
    with pytest.raises(ValueError, match=r"d_head is 3; RoPE turns components in pairs.*Change d_model, n_heads"):
        module(randn(1, 2, 12))


def test_the_layout_must_be_said():
    with pytest.raises(TypeError, match="layout"):
        RotaryPositions()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: RotaryPositions(layout="neox"), "layout is 'neox'; it must be one of 'interleaved', 'half_split'"),
        (lambda: RotaryPositions(layout="interleaved", base=1.0), "base is 1.0"),
        (lambda: RotaryPositions(layout="interleaved", base=float("nan")), "base is nan"),
        (lambda: convert_rope_layout(torch.zeros(8), 2, source="x", target="half_split"), "source is 'x'"),
        (lambda: convert_rope_layout(torch.zeros(8), 2, source="half_split", target="y"), "target is 'y'"),
        (lambda: convert_rope_layout(torch.zeros(6), 2, source="half_split", target="interleaved"), r"\(6,\): its"),
        (lambda: convert_rope_layout(torch.zeros(6), 0, source="half_split", target="interleaved"), "n_heads is 0"),
    ],
)
def test_bad_settings_are_refused(make, said):
    with pytest.raises(ValueError, match=said):
        make()


def test_far_positions_keep_their_precision():
    """A float32 angle at position 100,000 is off by up to 0.004; the scores would be too."""
    x, far = randn(1, 1, 1, 8), torch.tensor([[100_000]])
    for layout in LAYOUTS:
        expected = by_complex_numbers(x, far, layout)
        assert_close(RotaryPositions(layout=layout).rotate(x, far), expected, atol=1e-5, rtol=0)
