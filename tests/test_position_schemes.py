"""Position schemes inside attention: what each hook does, caches that count on, pads that take no number."""

import pytest
import torch
from torch.testing import assert_close

from oracles import randn
from transformer_lab.model.attention import KeyValueCache, MultiHeadAttention
from transformer_lab.model.masks import combine_masks, padding_mask
from transformer_lab.model.positions import (
    AlibiPositions,
    LearnedPositions,
    NoPositions,
    RotaryPositions,
    SinusoidalPositions,
    position_ids,
    position_scheme,
    sinusoidal_table,
)
from transformer_lab.model.recording import record_attention

NAMES = ("none", "learned", "sinusoidal", "rope", "alibi")
every_scheme = pytest.mark.parametrize("name", NAMES)
WIDTH, HEADS = 16, 4


def layer(name, *, n_kv_heads=None, layout="interleaved"):
    """One attention and its scheme, with scores large enough for positions to matter."""
    torch.manual_seed(0)
    scheme = position_scheme(name, d_model=WIDTH, n_positions=12, layout=layout)
    module = MultiHeadAttention(WIDTH, HEADS, n_kv_heads=n_kv_heads, position=scheme)
    with torch.no_grad():
        module.query_projection.weight.mul_(3)
    return module, scheme


def run(module, scheme, x, ids=None, **words):
    """Embeddings in, outputs out: `add` where embeddings are made, the rest inside the attention."""
    cache = words.get("cache") or KeyValueCache()
    ids = cache.next_position_ids(x.shape[1]) if ids is None else ids
    return module(scheme.add(x, ids), position_ids=ids, **words)


@every_scheme
def test_each_scheme_acts_at_one_place(name):
    _, scheme = layer(name)
    x, heads, ids = randn(2, 5, WIDTH), randn(2, HEADS, 5, 4), torch.arange(5)[None]
    acts = [not torch.equal(scheme.add(x, ids), x), not torch.equal(scheme.rotate(heads, ids), heads),
            scheme.bias(ids, ids, HEADS) is not None]  # fmt: skip
    assert acts == [name in ("learned", "sinusoidal"), name == "rope", name == "alibi"]
    assert scheme.add(x, ids).shape == x.shape


@every_scheme
def test_both_paths_agree(name):
    module, scheme = layer(name)
    x = randn(2, 6, WIDTH)
    fused = run(module, scheme, x, causal=True)
    with record_attention(module):
        assert_close(run(module, scheme, x, causal=True), fused)


@pytest.mark.case("P08")
@every_scheme
@pytest.mark.parametrize("steps", [[1] * 7, [4, 1, 2], [6, 1]])
@pytest.mark.parametrize("n_kv_heads", [HEADS, 1])
def test_cached_equals_uncached(name, steps, n_kv_heads):
    module, scheme = layer(name, n_kv_heads=n_kv_heads)
    x, cache = randn(2, 7, WIDTH), KeyValueCache()
    pieces = [run(module, scheme, piece, causal=True, cache=cache) for piece in x.split(steps, dim=1)]
    assert_close(torch.cat(pieces, dim=1), run(module, scheme, x, causal=True))
    assert cache.position_ids.tolist() == [list(range(7))]


@pytest.mark.parametrize("name", ["rope", "alibi"])
def test_a_decoder_that_restarts_at_zero_is_wrong(name):
    module, scheme = layer(name)
    x, cache = randn(1, 5, WIDTH), KeyValueCache()
    module(x[:, :4], causal=True, cache=cache)
    restarted = module(x[:, 4:], causal=True, cache=cache, position_ids=torch.tensor([[0]]))
    assert not torch.allclose(restarted, module(x, causal=True)[:, 4:], atol=1e-3)


@pytest.mark.claim("P13")
@pytest.mark.case("P14")
@every_scheme
@pytest.mark.parametrize("side", ["left", "right"])
def test_padded_equals_alone_with_numbers_from_the_mask(name, side):
    module, scheme = layer(name)
    x, mask = randn(2, 5, WIDTH), padding_mask([3, 5], 5, side=side)
    real = slice(2, 5) if side == "left" else slice(0, 3)
    alone = run(module, scheme, x[:1, real], causal=True)[0]
    padded = run(module, scheme, x, position_ids(mask), causal=True, mask=mask)
    assert_close(padded[0, real], alone)
    assert_close(padded[1], run(module, scheme, x[1:], causal=True)[0])


@pytest.mark.claim("P13")
@every_scheme
def test_a_common_shift_hurts_the_schemes_that_add_and_cancels_in_the_others(name):
    module, scheme = layer(name)
    x, mask = randn(2, 5, WIDTH), padding_mask([3, 5], 5, side="left")
    alone = run(module, scheme, x[:1, 2:], causal=True)[0]
    counted_from_the_pads = run(module, scheme, x, torch.arange(5)[None], causal=True, mask=mask)[0, 2:]
    same = torch.allclose(counted_from_the_pads, alone, atol=1e-5)
    assert same == (name in ("none", "rope", "alibi"))


@every_scheme
@pytest.mark.parametrize("side", ["left", "right"])
def test_each_padded_prompt_counts_on_from_its_own_last_token(name, side):
    """Two prompts of 3 and 5 tokens share a batch, then one new token each is decoded with the cache."""
    module, scheme = layer(name)
    x, new, mask = randn(2, 5, WIDTH), randn(2, 1, WIDTH, seed=1), padding_mask([3, 5], 5, side=side)
    cache = KeyValueCache()
    run(module, scheme, x, position_ids(mask), causal=True, mask=mask, cache=cache)
    assert cache.next_position_ids(2).tolist() == [[3, 4], [5, 6]]
    longer = torch.cat((mask, torch.ones(2, 1, 1, 1, dtype=torch.bool)), dim=-1)
    together = run(module, scheme, new, mask=longer, cache=cache)
    real = slice(2, 5) if side == "left" else slice(0, 3)
    alone = run(module, scheme, torch.cat((x[:1, real], new[:1]), dim=1), causal=True)[:, -1:]
    assert_close(together[:1], alone)


def test_rotated_keys_live_in_the_cache():
    module, scheme = layer("rope")
    x, cache = randn(1, 3, WIDTH), KeyValueCache()
    module(x, causal=True, cache=cache)
    plain, other = MultiHeadAttention(WIDTH, HEADS), KeyValueCache()
    plain.load_state_dict(module.state_dict())
    plain(x, causal=True, cache=other)
    assert_close(cache.key, scheme.rotate(other.key, torch.arange(3)[None]))
    assert torch.equal(cache.value, other.value)


def test_a_bias_of_the_caller_is_added_to_the_schemes():
    module, _ = layer("alibi")
    x, extra = randn(2, 4, WIDTH), randn(4, 4, seed=3)
    slopes = AlibiPositions().bias(torch.arange(4)[None], torch.arange(4)[None], HEADS)
    plain = MultiHeadAttention(WIDTH, HEADS)
    plain.load_state_dict(module.state_dict())
    assert_close(module(x, bias=extra), plain(x, bias=extra + slopes))


def test_no_scheme_changes_nothing():
    module, _ = layer("none")
    plain = MultiHeadAttention(WIDTH, HEADS)
    plain.load_state_dict(module.state_dict())
    x = randn(2, 4, WIDTH)
    assert torch.equal(module(x, causal=True), plain(x, causal=True))


@pytest.mark.claim("P11")
@every_scheme
def test_no_scheme_widens_the_stream_or_hides_parameters(name):
    module, scheme = layer(name)
    x = randn(2, 4, WIDTH)
    assert run(module, scheme, x).shape == x.shape
    own = sum(p.numel() for p in scheme.parameters())
    assert own == (12 * WIDTH if name == "learned" else 0)


@pytest.mark.claim("P7")
def test_a_learned_table_has_no_row_past_its_length():
    scheme = LearnedPositions(4, WIDTH)
    assert scheme.add(randn(1, 4, WIDTH), torch.arange(4)[None]).shape == (1, 4, WIDTH)
    with pytest.raises(ValueError, match=r"position 4 has no row: the learned table has 4, for positions 0 to 3"):
        scheme.add(randn(1, 5, WIDTH), torch.arange(5)[None])
    with pytest.raises(ValueError, match="position 9 has no row"):  # a short input that starts far out
        scheme.add(randn(1, 1, WIDTH), torch.tensor([[9]]))


def test_sinusoids_are_added_row_by_row():
    x, ids = randn(2, 3, 5), torch.tensor([[0, 0, 1], [7, 8, 9]])
    assert_close(SinusoidalPositions().add(x, ids), x + sinusoidal_table(10, 5)[ids])


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@every_scheme
def test_the_dtype_stays(name, dtype):
    module, scheme = layer(name)
    module.to(dtype)
    assert run(module, scheme, randn(1, 3, WIDTH, dtype=dtype), causal=True).dtype == dtype


@every_scheme
def test_gradients_reach_the_input_and_the_table(name):
    module, scheme = layer(name)
    x = randn(1, 3, WIDTH).requires_grad_()
    run(module, scheme, x, causal=True).square().sum().backward()
    for tensor in (x, *module.parameters()):
        assert tensor.grad is not None and tensor.grad.isfinite().all()


def test_context_has_no_positions_in_common(plain_errors):
    module, _ = layer("rope")
    with pytest.raises(ValueError, match="context is another sequence"):
        module(randn(1, 3, WIDTH), context=randn(1, 4, WIDTH))


@pytest.mark.parametrize(
    ("ids", "error", "said"),
    [
        (torch.arange(4)[None], ValueError, r"has shape \(1, 4\); it must be \(batch = 2 or 1, length = 3"),
        (torch.arange(3), ValueError, r"shape \(3,\)"),
        (torch.zeros(3, 3, dtype=torch.long), ValueError, r"shape \(3, 3\)"),
        (torch.zeros(2, 3), TypeError, r"dtype torch.float32.*\.long\(\)"),
        (torch.zeros(2, 3, dtype=torch.bool), TypeError, "dtype torch.bool"),
        (torch.tensor([[0, 1, -1]]), ValueError, "holds -1; positions are numbered from 0"),
    ],
)
@every_scheme
def test_numbers_that_cannot_be_meant_are_refused(name, ids, error, said, plain_errors):
    module, scheme = layer(name)
    with pytest.raises(error, match=said):
        module(randn(2, 3, WIDTH), position_ids=ids)
    if name in ("learned", "sinusoidal"):
        with pytest.raises(error, match=said):
            scheme.add(randn(2, 3, WIDTH), ids)


def test_a_bias_that_would_fit_by_accident_is_refused(plain_errors):
    module, _ = layer("alibi")
    with pytest.raises(ValueError, match="bias has shape"):
        module(randn(3, 4, WIDTH), bias=torch.randn(1, 4))


@pytest.mark.parametrize(("sizes", "said"), [((0, 4), "n_positions is 0"), ((4, 0), "d_model is 0")])
def test_an_empty_table_is_refused(sizes, said):
    with pytest.raises(ValueError, match=said):
        LearnedPositions(*sizes)


def test_schemes_are_made_by_name():
    made = [type(position_scheme(name, d_model=4, n_positions=4)) for name in NAMES]
    assert made == [NoPositions, LearnedPositions, SinusoidalPositions, RotaryPositions, AlibiPositions]
    assert position_scheme("rope", d_model=4, n_positions=4, layout="half_split").layout == "half_split"
    with pytest.raises(ValueError, match="name is 'rotary'; it must be one of 'none', 'learned', "):
        position_scheme("rotary", d_model=4, n_positions=4)


def test_padding_and_causal_masks_meet_a_scheme():
    module, scheme = layer("alibi")
    x, mask = randn(2, 4, WIDTH), padding_mask([2, 4], 4, side="left")
    both = combine_masks(mask, torch.ones(4, 4, dtype=torch.bool).tril())
    assert_close(run(module, scheme, x, mask=both), run(module, scheme, x, mask=mask, causal=True))
    assert run(module, scheme, x, mask=mask, causal=True).isfinite().all()
