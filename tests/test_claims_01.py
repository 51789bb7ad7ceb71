"""What lesson 01 claims about recurrence: paths, waiting, gradients, gates and recall."""
import functools

import pytest
import torch
from torch import nn

from transformer_lab.experiments import time_length
from transformer_lab.experiments.gates import force_gate, memory_cell, walk_gates
from transformer_lab.experiments.gradient_gap import (
    DRAWS,
    attention_gradients,
    attention_layer,
    compare_gaps,
    explore_gap,
    gru_cell,
    lstm_cell,
    random_inputs,
    rnn_cell,
    state_gradients,
    step_jacobians,
)
from transformer_lab.experiments.recall import CHANCE, build_reader, compare_recall
from transformer_lab.experiments.time_length import longest_chain, measure_lengths
from transformer_lab.model.attention import MultiHeadAttention
from transformer_lab.model.cache import KeyValueCache
from transformer_lab.model.recurrence import GRUCell, LSTMCell, RNNCell, at, unroll
from transformer_lab.tasks.recall import draw_sequences
from transformer_lab.training import seeded

CELLS = (RNNCell, LSTMCell, GRUCell)


def build(cell, *widths, seed=0):
    with seeded(seed):
        return cell(*widths)


# ---------------------------------------------------------------------------------------------------- the path


@pytest.mark.claim("R1")
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("first, last", [(1, 2), (1, 5), (3, 7)])
def test_a_signal_passes_every_transition_between_two_tokens(cell, first, last):
    cell = build(cell, 3, 4)
    x = random_inputs(last, width=3)
    changed = x.clone()
    changed[:, first - 1] += 1

    def end(x, broken_after=None):
        """The last state; the state after one step replaced by the start, as if nothing had been read."""
        if broken_after is None:
            return at(unroll(cell, x), -1).hidden
        return at(unroll(cell, x[:, broken_after:]), -1).hidden

    assert not torch.equal(end(x), end(changed))
    necessary = [t for t in range(1, last) if torch.equal(end(x, t), end(changed, t))]
    assert len([t for t in necessary if t >= first]) == last - first  # every one of the j − i transitions
    assert [t for t in necessary if t < first] == []  # and none before the token


@pytest.mark.claim("R1")
def test_attention_needs_none_of_the_tokens_between():
    layer = build(lambda: MultiHeadAttention(3, n_heads=1))
    x = random_inputs(5, width=3)
    changed = x.clone()
    changed[:, 0] += 1
    ends, changed_ends = x[:, [0, 4]], changed[:, [0, 4]]
    assert not torch.equal(layer(ends[:, -1:], context=ends), layer(ends[:, -1:], context=changed_ends))


# ------------------------------------------------------------------------------------------------- the waiting


def test_the_longest_chain_of_known_graphs():
    x = torch.ones(2, requires_grad=True)
    assert longest_chain((x * 2 + 1).tanh()) == 4  # the leaf, ×, +, tanh
    assert longest_chain(x * 2 + (x + 1).tanh().exp()) == 5  # the longer branch: leaf, +, tanh, exp, +
    y = x
    for _ in range(5000):  # deeper than Python's own recursion reaches
        y = y + 1
    assert longest_chain(y) == 5001
    with pytest.raises(ValueError, match="no graph"):
        longest_chain(torch.ones(2))


@pytest.mark.claim("R2")
@pytest.mark.claim("R6")
def test_recurrent_chains_grow_with_every_token_and_attentions_does_not():
    lengths = (8, 9, 10, 40)
    chain = measure_lengths(lengths, repeats=1).chain
    for name, per_token in {"RNN": 3, "LSTM": 8, "GRU": 9}.items():  # gates make it longer, not shorter
        assert chain[name] == tuple(per_token * n + 3 for n in lengths), name
    assert set(chain["attention"]) == {12}


@pytest.mark.claim("R2")
@pytest.mark.claim("R6")
def test_recurrent_time_grows_with_the_tokens_and_above_attentions():
    measured = measure_lengths()
    for name in ("RNN", "LSTM", "GRU"):  # far below what a quiet machine measures, 5 and 11: others may be busy
        assert measured.growth(name) > 2 and measured.times_attention(name) > 2, name


@pytest.mark.claim("R2")
def test_a_busy_moment_spoils_a_round_and_not_a_point(monkeypatch):
    """A clock on which a whole round takes ten times as long: the points stay in line."""
    calls = []

    def seconds(run, x):
        calls.append(x.shape[1])
        return x.shape[1] * (10 if len(calls) <= 8 else 1)

    monkeypatch.setattr(time_length, "_seconds", seconds)
    measured = measure_lengths((4, 8), repeats=2)
    assert len(calls) == 2 * 2 * 4
    assert all(values == (4, 8) for values in measured.seconds.values())
    assert measured.growth("LSTM") == 2 and measured.times_attention("LSTM") == 1


# ------------------------------------------------------------------------------------------------ the gradients


@pytest.mark.claim("R3")
@pytest.mark.parametrize(
    "cell", [rnn_cell(0.9, width=4), rnn_cell(1.2, "linear", width=4), lstm_cell(1.0, width=4), gru_cell(width=4)]
)
def test_state_gradients_are_torchs_own_jacobians(cell):
    x = random_inputs(7, width=4)
    first = at(unroll(cell, x[:, :1]), -1)
    norms = state_gradients(cell, x)
    for gap in range(1, 7):
        def h_T(h_1, gap=gap):
            start = first._replace(hidden=h_1[None])
            return at(unroll(cell, x[:, 1 : gap + 1], start), -1).hidden[0]

        jacobian = torch.autograd.functional.jacobian(h_T, first.hidden[0])
        assert norms[gap - 1].item() == pytest.approx(torch.linalg.matrix_norm(jacobian, ord=2).item(), rel=1e-4)


@pytest.mark.claim("R3")
def test_attention_gradients_are_torchs_own_jacobians():
    layer, x = attention_layer(width=4), random_inputs(5, width=4)
    norms = attention_gradients(layer, x)
    for gap in range(1, 5):
        def y_T(x_1, gap=gap):
            seen = torch.cat((x_1[None, None], x[:, 1 : gap + 1]), dim=1)
            return layer(seen[:, -1:], context=seen)[0, 0]

        jacobian = torch.autograd.functional.jacobian(y_T, x[0, 0])
        assert norms[gap - 1].item() == pytest.approx(torch.linalg.matrix_norm(jacobian, ord=2).item(), rel=1e-4)


@pytest.mark.claim("R3")
@pytest.mark.parametrize("radius", [0.8, 1.0, 1.2])
def test_a_linear_rnn_follows_the_power_of_its_spectral_radius(radius):
    cell = rnn_cell(radius, "linear")
    assert torch.linalg.eigvals(cell.from_hidden.weight).abs().max().item() == pytest.approx(radius, rel=1e-4)
    norms = state_gradients(cell, random_inputs(41))
    for gap in (1, 10, 40):
        assert norms[gap - 1].item() == pytest.approx(radius**gap, rel=1e-3)


@pytest.fixture(scope="module", params=[DRAWS, (3, 4, 5)], ids=["the lesson's draws", "other draws"])
def curves(request):
    return compare_gaps(draws=request.param).curves


@pytest.mark.claim("R3")
def test_ten_models_on_one_axis_vanish_explode_or_stay(curves):
    at_100 = {name: curve[99] for name, curve in curves.items()}
    assert len(curves) == 10
    assert at_100["RNN linear 1.1"] > 1e4 and at_100["RNN linear 0.9"] < 1e-4
    assert at_100["RNN linear 1.0"] == pytest.approx(1, rel=1e-3)
    assert at_100["RNN tanh 0.9"] < at_100["RNN tanh 1.0"] < 1e-3
    assert at_100["RNN tanh 1.1"] < curves["RNN tanh 1.1"][49] / 5 < curves["RNN tanh 1.1"][9] / 5  # falling
    assert at_100["LSTM, bias 0"] < 1e-15 and at_100["GRU"] < 1e-15
    assert 1 < at_100["LSTM, bias 5"] < 100
    kept = [name for name, norm in at_100.items() if 1e-3 < norm < 1e2]
    assert kept == ["RNN linear 1.0", "RNN tanh 1.1", "LSTM, bias 5", "attention"]


@pytest.mark.claim("R3")
def test_gates_alone_lose_the_signal_faster_than_any_rnn(curves):
    for gap in (10, 50, 100):
        slowest = min(curve[gap - 1] for name, curve in curves.items() if name.startswith("RNN"))
        assert max(curves["LSTM, bias 0"][gap - 1], curves["GRU"][gap - 1]) < slowest


@pytest.mark.claim("R3")
def test_a_curve_is_the_geometric_mean_of_its_draws():
    singles = [compare_gaps(30, draws=(seed,)).curves["RNN tanh 1.1"] for seed in (0, 1)]
    both = compare_gaps(30, draws=(0, 1)).curves["RNN tanh 1.1"]
    assert both[29] == pytest.approx((singles[0][29] * singles[1][29]) ** 0.5, rel=1e-4)


@pytest.mark.claim("R3")
def test_tanh_only_ever_takes_away(curves):
    for radius in ("0.9", "1.0", "1.1"):
        pairs = zip(curves[f"RNN tanh {radius}"], curves[f"RNN linear {radius}"], strict=True)
        assert all(squeezed <= linear * 1.0001 for squeezed, linear in pairs)


@pytest.mark.claim("R3")
def test_tanh_bounds_the_state_and_slows_the_explosion_without_ending_it():
    squeezed, linear = explore_gap(1.5, "tanh").curves["RNN"], explore_gap(1.5, "linear").curves["RNN"]
    assert squeezed[99] > squeezed[49] > squeezed[9] > 5
    assert squeezed[99] < 1e5 < 1e15 < linear[99]
    ends = []
    for seed in range(4):
        cell, x = rnn_cell(1.5, "tanh", seed=seed), random_inputs(101, seed=seed)
        assert unroll(cell, x).hidden.abs().max() <= 1
        ends.append(state_gradients(cell, x)[-1].item())
    assert max(ends) > 20 * min(ends) and min(ends) > 0.1  # from draw to draw very different, and none vanishes


@pytest.mark.claim("R3")
def test_attention_falls_like_one_over_n_and_not_like_a_power(curves):
    norms = torch.tensor(curves["attention"])
    shares = norms * torch.arange(2, 102)  # n = gap + 1 positions share the look
    assert 0.1 < shares[10:].min() and shares[10:].max() < 10


@pytest.mark.claim("R3")
def test_the_forget_bias_decides_how_far_an_lstm_reaches():
    at_50 = [explore_gap(forget_bias=bias, gap=50).at_gap("LSTM") for bias in (-2.0, 0.0, 2.0, 5.0)]
    assert at_50 == sorted(at_50) and at_50[1] < 1e-8 and at_50[3] > 0.1


@pytest.mark.claim("R3")
def test_clipping_shortens_and_leaves_short_ones_and_shares_alone():
    free, clipped = explore_gap(1.2), explore_gap(1.2, clip=True)
    assert max(clipped.curves["RNN"]) == 1.0 < max(free.curves["RNN"])
    assert clipped.unclipped == {"RNN": free.curves["RNN"]} and free.unclipped == {}
    before, after = (torch.tensor(gap.curves["RNN"]).log() for gap in (free, clipped))
    assert torch.allclose(before.diff(), after.diff(), atol=1e-5)  # moved down, the slope is the same
    assert clipped.curves["GRU"] == free.curves["GRU"]  # vanished and still vanished
    for radius in (0.9, 1.0):
        assert explore_gap(radius, clip=True) == explore_gap(radius)  # nothing too long, nothing shortened
    for radius in (0.8, 1.2):
        inputs = random_inputs(50).requires_grad_()
        unroll(rnn_cell(radius, "linear"), inputs).hidden[0, -1].mean().backward()
        before = inputs.grad.clone()
        nn.utils.clip_grad_norm_([inputs], max_norm=1.0)
        assert torch.equal(inputs.grad, before) == (radius < 1)
        assert inputs.grad.norm() < 1.001
        direction = nn.functional.cosine_similarity(inputs.grad.flatten(), before.flatten(), dim=0)
        assert direction.item() == pytest.approx(1, abs=1e-5)
        reach, reach_before = ((g[0, 0].norm() / g[0, -1].norm()).item() for g in (inputs.grad, before))
        assert reach == pytest.approx(reach_before, rel=1e-4)  # far tokens count what they counted before
        assert 0.5 < reach / radius**49 < 2


# ---------------------------------------------------------------------------------------------------- the gates


@pytest.mark.claim("R4")
def test_gates_are_shares_and_the_cell_is_kept_old_plus_gated_new():
    x = 3 * random_inputs(20, width=3).expand(4, -1, -1)
    lstm, gru = unroll(build(LSTMCell, 3, 5), x), unroll(build(GRUCell, 3, 5), x)
    for gate in (lstm.input_gate, lstm.forget_gate, lstm.output_gate, gru.update_gate, gru.reset_gate):
        assert (gate > 0).all() and (gate < 1).all()
    kept, new = lstm.forget_gate[:, 1:] * lstm.cell[:, :-1], lstm.input_gate[:, 1:] * lstm.candidate[:, 1:]
    assert torch.allclose(lstm.cell[:, 1:], kept + new, atol=1e-6)
    assert torch.allclose(lstm.hidden, lstm.output_gate * lstm.cell.tanh(), atol=1e-6)
    z = gru.update_gate[:, 1:]
    assert torch.allclose(gru.hidden[:, 1:], (1 - z) * gru.candidate[:, 1:] + z * gru.hidden[:, :-1], atol=1e-6)
    assert LSTMCell.carries == ("hidden", "cell") and GRUCell.carries == ("hidden",)


@pytest.mark.claim("R4")
def test_from_cell_to_cell_the_gradient_is_the_forget_gate():
    cell = lstm_cell(1.5, width=4)
    cell.from_hidden.weight.data.zero_()  # so that only the straight path is left
    x = random_inputs(2, width=4)
    block = step_jacobians(cell, x)[0, 4:, 4:]  # ∂c_2 / ∂c_1
    assert torch.allclose(block, torch.diag(unroll(cell, x).forget_gate[0, 1]), atol=1e-6)


@pytest.mark.claim("R4")
@pytest.mark.parametrize("seed", DRAWS)
def test_all_paths_together_carry_more_than_the_straight_one(seed):
    cell, x = lstm_cell(5.0, seed=seed), random_inputs(101, seed=seed)
    straight = unroll(cell, x).forget_gate[0, 1:].prod(dim=0)
    assert straight.mean().item() == pytest.approx(torch.tensor(5.0).sigmoid().item() ** 100, abs=0.1)
    assert straight.max() < 1 < state_gradients(cell, x)[-1]


@pytest.mark.claim("R4")
@pytest.mark.parametrize("d_input, d_hidden", [(64, 64), (3, 5), (1, 1)])
@pytest.mark.parametrize("bias_vectors", [0, 1, 2])
def test_parameters_stand_as_one_to_three_to_four(d_input, d_hidden, bias_vectors):
    rnn, gru, lstm = (
        sum(p.numel() for p in cell(d_input, d_hidden, bias_vectors=bias_vectors).parameters())
        for cell in (RNNCell, GRUCell, LSTMCell)
    )
    assert (gru, lstm) == (3 * rnn, 4 * rnn)
    assert rnn == d_hidden * (d_input + d_hidden + bias_vectors)


@pytest.mark.claim("R4")
@pytest.mark.parametrize(
    "settings, stored, read",
    [
        ({}, 1.0, 0.7616),
        ({"step": 2, "force": "forget gate shut"}, 0.0, 0.0),
        ({"step": 2, "force": "input gate open"}, 0.25, 0.2449),
        ({"step": 0, "force": "input gate shut"}, 0.0, 0.0),
        ({"step": 4, "force": "output gate shut"}, 1.0, 0.0),
        ({"forget_bias": 0.0}, 1 / 8, 0.0624),  # half of it at each of three steps, and once more before it is read
    ],
)
def test_a_stored_value_lives_or_dies_by_its_gates(settings, stored, read):
    steps = walk_gates("+...?..x.?", **settings).steps
    assert steps.cell[3].item() == pytest.approx(stored, abs=1e-4)
    assert steps.hidden[4].item() == pytest.approx(read, abs=1e-4)
    assert abs(steps.hidden[9].item()) < 1e-4  # after the erasure nothing is read


@pytest.mark.claim("R4")
def test_an_open_forget_gate_survives_the_erasure():
    steps = walk_gates("+...?..x.?", step=7, force="forget gate open").steps
    assert steps.hidden[9].item() > 0.7


def test_a_forced_gate_reads_nothing_and_the_cell_it_came_from_is_untouched():
    cell = memory_cell()
    before = {name: value.clone() for name, value in cell.state_dict().items()}
    for gate in ("input", "forget", "output"):
        for value in (0, 1):
            step = unroll(force_gate(cell, gate, value), torch.eye(5)[None])
            assert torch.equal(getattr(step, f"{gate}_gate").round(decimals=6), torch.full((1, 5, 1), float(value)))
    assert all(torch.equal(cell.state_dict()[name], value) for name, value in before.items())


# ------------------------------------------------------------------------------------------------------- recall


def test_the_first_symbol_is_the_answer_and_nothing_helps_to_guess_it():
    tokens, answers = draw_sequences(4000, 6, generator=torch.Generator().manual_seed(0))
    assert tokens.shape == (4000, 7) and torch.equal(answers, tokens[:, 0])
    agreement = (tokens[:, 1:] == answers[:, None]).float().mean(dim=0)
    assert ((agreement - CHANCE).abs() < 0.03).all()
    with pytest.raises(ValueError, match="batch is 0"):
        draw_sequences(0, 6, generator=torch.Generator())


@functools.cache
def recall(gap, models, forget_bias=1.0, seed=0):
    result = compare_recall((gap,), models, forget_bias=forget_bias, seed=seed)
    return {name: values[0] for name, values in result.accuracy.items()}


@pytest.mark.claim("R5")
def test_gates_beat_the_rnn_at_twelve_distractors():
    everyone = recall(12, ("RNN", "LSTM", "GRU", "attention"))
    assert everyone["RNN"] < 0.3
    assert min(everyone["LSTM"], everyone["GRU"], everyone["attention"]) > 0.9


@pytest.mark.claim("R5")
def test_attention_beats_all_of_them_at_twenty_four():
    everyone = recall(24, ("RNN", "LSTM", "GRU", "attention"))
    assert max(everyone["RNN"], everyone["LSTM"], everyone["GRU"]) < 0.3 and everyone["attention"] > 0.9


@pytest.mark.claim("R5")
def test_everyone_recalls_across_two():
    assert min(recall(2, ("RNN", "LSTM", "GRU", "attention")).values()) > 0.9


@pytest.mark.claim("R5")
def test_an_open_forget_gate_brings_the_lstm_across_twenty_four():
    assert recall(24, ("LSTM",), forget_bias=3.0)["LSTM"] > 0.9


@pytest.mark.claim("R5")
def test_the_verdicts_do_not_hang_on_the_seed():
    twelve, far = recall(12, ("RNN", "LSTM"), seed=1), recall(24, ("LSTM", "attention"), seed=1)
    assert twelve["RNN"] < 0.3 and twelve["LSTM"] > 0.9
    assert far["LSTM"] < 0.3 and far["attention"] > 0.9


def test_an_unknown_reader_is_refused():
    with pytest.raises(ValueError, match="no model 'transformer'.*RNN, LSTM, GRU, attention"):
        build_reader("transformer")


# -------------------------------------------------------------------------------------------- what attention pays


@pytest.mark.claim("R6")
def test_order_is_seen_by_recurrence_and_not_by_one_look():
    x = random_inputs(5, width=3)
    swapped = x[:, [0, 1, 3, 2, 4]]
    for cell in CELLS:
        cell = build(cell, 3, 4)
        difference = (at(unroll(cell, x), -1).hidden - at(unroll(cell, swapped), -1).hidden).abs().max()
        assert difference > 1e-3
    layer = build(lambda: MultiHeadAttention(3, n_heads=1))
    assert torch.allclose(layer(x[:, -1:], context=x), layer(x[:, -1:], context=swapped), atol=1e-6)


@pytest.mark.claim("R6")
def test_the_state_stays_as_small_as_it_was_and_attention_keeps_every_token():
    for cell in CELLS:
        cell = build(cell, 3, 4)
        sizes = set()
        for n in (10, 300):
            last = at(unroll(cell, random_inputs(n, width=3)), -1)
            sizes.add(sum(getattr(last, name).numel() for name in cell.carries))
        assert sizes == {4 * len(cell.carries)}
    layer = build(lambda: MultiHeadAttention(4, n_heads=1))
    for n in (10, 300):
        cache = KeyValueCache()
        layer(random_inputs(n, width=4), cache=cache)
        assert cache.key.numel() + cache.value.numel() == 2 * n * 4
