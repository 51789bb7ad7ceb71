"""The recurrent cells: parity with torch, hand-computed anchors, padding, and what they say about wrong input."""
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

from transformer_lab.model.recurrence import (
    GRUCell,
    LSTMCell,
    RNNCell,
    RNNStep,
    at,
    from_torch,
    unroll,
)

CELLS = (RNNCell, LSTMCell, GRUCell)
MODULES = (nn.RNN, nn.LSTM, nn.GRU)


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def seeded(build, *args, seed=0, **kwargs):
    torch.manual_seed(seed)
    return build(*args, **kwargs)


def close(a, b, tolerance=1e-6):
    return torch.allclose(a, b, atol=tolerance, rtol=0)


@pytest.mark.claim("R7")
@pytest.mark.case("R01")
@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize("bias", [True, False])
@settings(max_examples=8, deadline=None)
@given(d_input=st.integers(1, 6), d_hidden=st.integers(1, 7), n=st.integers(1, 9), seed=st.integers(0, 99))
def test_our_cells_with_torchs_weights_give_torchs_numbers(module, bias, d_input, d_hidden, n, seed):
    theirs = seeded(module, d_input, d_hidden, batch_first=True, bias=bias, seed=seed)
    x = draw(3, n, d_input, seed=seed)
    steps = unroll(from_torch(theirs), x)
    output, final = theirs(x)
    assert close(steps.hidden, output)
    hidden, *cell = final if module is nn.LSTM else (final,)
    assert close(steps.hidden[:, -1], hidden[0])
    assert all(close(steps.cell[:, -1], c[0]) for c in cell)


@pytest.mark.claim("R7")
@pytest.mark.case("R05")
@pytest.mark.parametrize("module", MODULES)
def test_stacked_cells_equal_two_layers_and_keep_the_batch_first(module):
    theirs = seeded(module, 4, 6, num_layers=2, batch_first=True)
    x = draw(3, 5, 4, seed=91)
    first = unroll(from_torch(theirs, layer=0), x)
    second = unroll(from_torch(theirs, layer=1), first.hidden)
    output, final = theirs(x)
    h_n = final[0] if module is nn.LSTM else final
    assert h_n.shape == (2, 3, 6)  # torch leaves the final state layers first
    assert second.hidden.shape == (3, 5, 6) and close(second.hidden, output)
    assert at(second, -1).hidden.shape == (3, 6) and close(at(second, -1).hidden, h_n[-1])


@pytest.mark.claim("R7")
@pytest.mark.case("R06")
@pytest.mark.parametrize("module", MODULES)
def test_backwards_equals_the_reverse_direction(module):
    theirs = seeded(module, 3, 4, batch_first=True, bidirectional=True)
    x = draw(2, 6, 3, seed=5)
    output, final = theirs(x)
    steps = unroll(from_torch(theirs, backwards=True), x, backwards=True)
    h_n = final[0] if module is nn.LSTM else final
    assert close(steps.hidden, output[..., 4:])
    assert close(steps.hidden[:, 0], h_n[1])


@pytest.mark.case("R06")
def test_the_backward_state_has_read_everything_at_position_zero_only():
    cell = RNNCell(1, 1, activation=torch.relu, bias_vectors=0)
    with torch.no_grad():
        for parameter in cell.parameters():
            parameter.fill_(1.0)
    x = torch.tensor([1.0, 0, 0, 2]).view(1, 4, 1)
    assert unroll(cell, x).hidden.flatten().tolist() == [1, 1, 1, 3]
    assert unroll(cell, x, backwards=True).hidden.flatten().tolist() == [3, 2, 2, 2]


@pytest.mark.claim("R7")
@pytest.mark.case("R01")
def test_the_reset_gate_before_the_product_is_another_function():
    theirs = seeded(nn.GRU, 3, 4, batch_first=True)
    x, h = draw(1, 1, 3, seed=86), draw(1, 1, 4, seed=87)
    after = from_torch(theirs)
    before = GRUCell(3, 4, reset_after=False, bias_vectors=2)
    before.load_state_dict(after.state_dict())
    start = after.start(1)._replace(hidden=h[0])
    expected = theirs(x, h)[0]
    assert after.reset_after and close(unroll(after, x, start).hidden, expected)
    got = unroll(before, x, start)
    assert not close(got.hidden, expected, 1e-4)
    # Cho et al. 2014, by hand
    (w_r, w_z, w_n), (u_r, u_z, u_n) = theirs.weight_ih_l0.chunk(3), theirs.weight_hh_l0.chunk(3)
    (b_r, b_z, b_n), (c_r, c_z, c_n) = theirs.bias_ih_l0.chunk(3), theirs.bias_hh_l0.chunk(3)
    r = torch.sigmoid(w_r @ x[0, 0] + b_r + u_r @ h[0, 0] + c_r)
    z = torch.sigmoid(w_z @ x[0, 0] + b_z + u_z @ h[0, 0] + c_z)
    n = torch.tanh(w_n @ x[0, 0] + b_n + u_n @ (r * h[0, 0]) + c_n)
    assert close(got.hidden[0, 0], (1 - z) * n + z * h[0, 0])
    assert close(got.reset_gate[0, 0], r) and close(got.update_gate[0, 0], z) and close(got.candidate[0, 0], n)


@pytest.mark.case("R03")
@pytest.mark.parametrize("cell, module, blocks", list(zip(CELLS, MODULES, (1, 4, 3), strict=True)))
def test_parameters_with_one_and_with_two_bias_vectors(cell, module, blocks):
    def count(model):
        return sum(p.numel() for p in model.parameters())

    assert count(cell(3, 5)) == blocks * (5 * (3 + 5) + 5)
    assert count(cell(3, 5, bias_vectors=2)) == count(module(3, 5)) == blocks * (5 * (3 + 5) + 2 * 5)
    assert count(cell(3, 5, bias_vectors=0)) == count(module(3, 5, bias=False)) == blocks * 5 * (3 + 5)


@pytest.mark.case("R03")
@pytest.mark.parametrize("module", [nn.RNN, nn.LSTM])
def test_two_biases_add_up_to_one(module):
    two = from_torch(seeded(module, 3, 5))
    one = type(two)(3, 5, bias_vectors=1)
    weights = two.state_dict()
    weights["from_input.bias"] = weights["from_input.bias"] + weights.pop("from_hidden.bias")
    one.load_state_dict(weights)
    x = draw(2, 4, 3, seed=90)
    assert close(unroll(one, x).hidden, unroll(two, x).hidden)


@pytest.mark.case("R08")
@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize("backwards", [False, True])
def test_padding_changes_nothing_and_an_empty_sequence_stays_at_the_start(module, backwards):
    theirs = seeded(module, 2, 3, batch_first=True, bidirectional=True)
    cell = from_torch(theirs, backwards=backwards)
    x, lengths = draw(4, 5, 2, seed=92), torch.tensor([3, 0, 5, 1])
    end = 0 if backwards else -1
    final = at(unroll(cell, x, lengths=lengths, backwards=backwards), end)
    packed = pack_padded_sequence(x, lengths.clamp(min=1), batch_first=True, enforce_sorted=False)
    h_n = theirs(packed)[1]
    h_n = (h_n[0] if module is nn.LSTM else h_n)[int(backwards)]
    assert close(final.hidden[[0, 2, 3]], h_n[[0, 2, 3]])
    assert final.hidden[1].count_nonzero() == 0
    other = torch.where(torch.arange(5)[None, :, None] < lengths[:, None, None], x, torch.tensor(9.0))
    assert torch.equal(at(unroll(cell, other, lengths=lengths, backwards=backwards), end).hidden, final.hidden)


@pytest.mark.parametrize("cell", CELLS)
def test_a_sequence_in_two_pieces_equals_the_whole(cell):
    cell = seeded(cell, 3, 4)
    x = draw(2, 7, 3, seed=1)
    whole = unroll(cell, x)
    first = unroll(cell, x[:, :3])
    second = unroll(cell, x[:, 3:], start=at(first, -1))
    for field, a, b in zip(whole, first, second, strict=True):
        assert torch.equal(field, torch.cat((a, b), dim=1))


@pytest.mark.parametrize("cell", CELLS)
def test_a_state_knows_the_past_and_not_the_future(cell):
    cell = seeded(cell, 3, 4)
    x = draw(1, 6, 3)
    changed = x.clone()
    changed[:, 3] += 1
    difference = (unroll(cell, x).hidden - unroll(cell, changed).hidden).abs().amax(dim=-1)[0]
    assert (difference[:3] == 0).all() and (difference[3:] > 0).all()


@pytest.mark.claim("R4")
def test_one_lstm_step_by_hand():
    cell = LSTMCell(1, 1)
    with torch.no_grad():
        cell.from_input.weight.zero_()
        cell.from_hidden.weight.zero_()
        # σ(ln 3) = 3/4; the blocks stand in the order input, forget, candidate, output
        cell.from_input.bias.copy_(torch.tensor([3.0, 1 / 3, 1.0, 3.0]).log())
        cell.from_input.bias[2] = torch.atanh(torch.tensor(0.5))
    step = cell(torch.zeros(1, 1), cell.start(1)._replace(cell=torch.tensor([[2.0]])))
    assert [round(v.item(), 6) for v in (step.input_gate, step.forget_gate, step.candidate, step.output_gate)] == [
        0.75, 0.25, 0.5, 0.75,
    ]  # fmt: skip
    assert step.cell.item() == pytest.approx(0.25 * 2 + 0.75 * 0.5)
    assert step.hidden.item() == pytest.approx(0.75 * 0.7039056)  # 0.75 · tanh(0.875)


def test_float64_stays_float64():
    for module in MODULES:
        theirs = seeded(module, 2, 3, batch_first=True).double()
        x = draw(1, 4, 2).double()
        got = unroll(from_torch(theirs), x).hidden
        assert got.dtype == torch.float64 and close(got, theirs(x)[0], 1e-12)


def test_a_copied_cell_shares_no_weights():
    theirs = seeded(nn.LSTM, 2, 3)
    cell = from_torch(theirs)
    with torch.no_grad():
        cell.from_input.weight.zero_()
    assert theirs.weight_ih_l0.count_nonzero() > 0


class TestErrors:
    @pytest.fixture(autouse=True)
    def unchecked(self, plain_errors):
        pass

    @pytest.mark.parametrize("cell", CELLS)
    def test_sizes(self, cell):
        with pytest.raises(ValueError, match="d_input is 0"):
            cell(0, 3)
        with pytest.raises(ValueError, match="d_hidden is -1"):
            cell(3, -1)
        with pytest.raises(ValueError, match="bias_vectors is 3"):
            cell(3, 3, bias_vectors=3)

    @pytest.mark.case("R08")
    @pytest.mark.parametrize("shape", [(2, 0, 3), (2, 4, 5), (4, 3), (3,)])
    @pytest.mark.parametrize("cell", CELLS)
    def test_sequences(self, cell, shape):
        with pytest.raises(ValueError, match=r"\(batch, position, d_input = 3\)"):
            unroll(cell(3, 4), torch.zeros(shape))

    @pytest.mark.case("R05")
    def test_a_state_that_is_not_batch_first(self):
        cell = RNNCell(3, 4)
        with pytest.raises(ValueError, match="batch first"):
            unroll(cell, torch.zeros(2, 5, 3), RNNStep(torch.zeros(1, 2, 4)))

    def test_a_state_of_another_cell(self):
        with pytest.raises(TypeError, match="reads a LSTMStep"):
            unroll(LSTMCell(3, 4), torch.zeros(2, 5, 3), GRUCell(3, 4).start(2))

    def test_a_step_of_the_wrong_width(self):
        cell = GRUCell(3, 4)
        with pytest.raises(ValueError, match="one step reads"):
            cell(torch.zeros(2, 5), cell.start(2))

    @pytest.mark.case("R08")
    @pytest.mark.parametrize("lengths, words", [((3, 6), r"lengths\[1\] is 6"), ((-1, 2), r"lengths\[0\] is -1")])
    def test_lengths_outside_the_sequence(self, lengths, words):
        with pytest.raises(ValueError, match=words):
            unroll(RNNCell(1, 1), torch.zeros(2, 5, 1), lengths=lengths)

    def test_one_length_per_sequence(self):
        with pytest.raises(ValueError, match="one number per sequence"):
            unroll(RNNCell(1, 1), torch.zeros(2, 5, 1), lengths=torch.tensor([1, 2, 3]))

    def test_from_torch(self):
        with pytest.raises(TypeError, match="Linear"):
            from_torch(nn.Linear(2, 2))
        for module, where in (
            (nn.RNN(2, 3), {"layer": 1}),
            (nn.GRU(2, 3), {"backwards": True}),
            (nn.LSTM(2, 3, proj_size=2), {}),
        ):
            with pytest.raises(ValueError, match="is not there"):
                from_torch(module, **where)


