"""Sinusoids against the formula number by number, and position numbers that start at the first real token."""

import math

import pytest
import torch
from torch.testing import assert_close

from transformer_lab.model.masks import mask_from_tokens, padding_mask
from transformer_lab.model.positions import position_ids, sinusoidal_table


@pytest.mark.case("P01")
@pytest.mark.parametrize("d_model", [1, 2, 5, 6, 64])
def test_every_entry_is_the_formula(d_model):
    table = sinusoidal_table(50, d_model)
    assert table.shape == (50, d_model) and table.dtype == torch.float32
    for p in (0, 1, 7, 49):
        for column in range(d_model):
            wave = math.sin if column % 2 == 0 else math.cos
            expected = wave(p / 10_000 ** (2 * (column // 2) / d_model))
            assert table[p, column].item() == pytest.approx(expected, abs=1e-6)


def test_far_positions_stay_exact():
    """In float32 the angle itself would be off by a thousandth here."""
    assert sinusoidal_table(20_001, 2)[20_000, 0].item() == pytest.approx(math.sin(20_000), abs=1e-6)


@pytest.mark.case("P03")
def test_another_order_of_columns_changes_no_inner_product():
    table = sinusoidal_table(4, 6)
    halves = torch.cat([table[:, 0::2], table[:, 1::2]], dim=1)
    assert not torch.allclose(halves, table)
    assert_close(halves @ halves.T, table @ table.T)


@pytest.mark.parametrize(("n_positions", "d_model", "said"), [(0, 4, "n_positions is 0"), (3, 0, "d_model is 0")])
def test_sizes_below_one_are_refused(n_positions, d_model, said):
    with pytest.raises(ValueError, match=said):
        sinusoidal_table(n_positions, d_model)


@pytest.mark.case("P14")
def test_numbers_start_at_the_first_real_token():
    left = mask_from_tokens(torch.tensor([[0, 0, 4, 5, 6], [7, 4, 5, 6, 8]]), pad_id=0)
    assert position_ids(left).tolist() == [[0, 0, 0, 1, 2], [0, 1, 2, 3, 4]]
    right = padding_mask([3, 5, 0], 5)
    ids = position_ids(right)
    assert ids[0, :3].tolist() == [0, 1, 2] and ids[1].tolist() == [0, 1, 2, 3, 4]
    assert ids[2].tolist() == [0] * 5


@pytest.mark.parametrize("mask", [torch.ones(2, 3).bool(), torch.ones(2, 1, 3, 3).bool(), torch.ones(2, 1, 1, 3)])
def test_only_a_padding_mask_numbers_tokens(mask, plain_errors):
    with pytest.raises(ValueError, match=r"it must be boolean \(batch, 1, 1, key\), as padding_mask"):
        position_ids(mask)
