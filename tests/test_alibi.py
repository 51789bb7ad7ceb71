"""ALiBi: slopes number by number, a bias that grows with distance and is added to the scores."""

import pytest
import torch
from torch.testing import assert_close

from oracles import randn, row_by_row
from transformer_lab.model.attention import attention
from transformer_lab.model.positions import AlibiPositions, alibi_slopes


@pytest.mark.claim("P9")
@pytest.mark.case("P11")
@pytest.mark.case("P13")
@pytest.mark.parametrize(
    ("n_heads", "expected"),
    [
        (1, [1 / 256]),
        (2, [1 / 16, 1 / 256]),
        (3, [1 / 16, 1 / 256, 1 / 4]),
        (6, [1 / 4, 1 / 16, 1 / 64, 1 / 256, 1 / 2, 1 / 8]),
        (8, [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256]),
        (12, [2.0**-i for i in range(1, 9)] + [2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5]),
    ],
)
def test_slopes_follow_the_reference_rule(n_heads, expected):
    assert_close(alibi_slopes(n_heads), torch.tensor(expected))


@pytest.mark.claim("P9")
def test_powers_of_two_follow_the_formula_and_other_counts_do_not():
    def formula(n):
        return torch.tensor([2.0 ** (-8 * i / n) for i in range(1, n + 1)])

    for power in (1, 2, 4, 8, 16, 32):
        assert_close(alibi_slopes(power), formula(power))
    for other in (3, 6, 12, 20):
        assert not torch.allclose(alibi_slopes(other), formula(other), atol=1e-2)
        assert len(alibi_slopes(other).unique()) == other


def test_no_head_has_no_slope():
    with pytest.raises(ValueError, match="n_heads is 0"):
        alibi_slopes(0)


@pytest.mark.claim("P9")
def test_the_bias_is_minus_slope_times_distance():
    bias = AlibiPositions().bias(torch.arange(5)[None], torch.arange(5)[None], 8)
    assert bias.shape == (1, 8, 5, 5)
    for head, slope in enumerate(alibi_slopes(8).tolist()):
        for query in range(5):
            for key in range(5):
                assert bias[0, head, query, key].item() == pytest.approx(-slope * abs(query - key))
    assert (bias[0, :, 4].diff(dim=-1) > 0).all()  # the nearer, the less is taken off


@pytest.mark.claim("P9")
def test_the_bias_meets_the_scaled_scores_before_the_softmax():
    query, key, value = (randn(1, 4, 5, 8, seed=i) for i in range(3))
    ids, causal = torch.arange(5)[None], torch.ones(5, 5, dtype=torch.bool).tril()
    bias = AlibiPositions().bias(ids, ids, 4)
    output, weights = attention(query, key, value, bias=bias, causal=True, need_weights=True)
    assert_close(output, row_by_row(query, key, value, causal, bias))
    _, plain = attention(query, key, value, causal=True, need_weights=True)
    tilted = plain * bias.exp()
    assert_close(weights, tilted / tilted.sum(-1, keepdim=True))


def test_numbers_decide_the_distance_not_the_place_in_memory():
    bias = AlibiPositions().bias(torch.tensor([[3], [5]]), torch.tensor([[0, 0, 0, 1, 2, 3], [0, 1, 2, 3, 4, 5]]), 2)
    assert bias.shape == (2, 2, 1, 6)
    assert_close(bias[:, 0, 0], -torch.tensor([[3.0, 3, 3, 2, 1, 0], [5, 4, 3, 2, 1, 0]]) / 16)
