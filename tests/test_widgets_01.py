"""The widgets and charts of lesson 01: every control through its range, strange input, and legible text."""
import io
import itertools

import numpy as np
import pytest
from PIL import Image

from legibility import unreadable
from transformer_lab.draw.curves import Curves, LineChart
from transformer_lab.draw.gates import GateTimeline
from transformer_lab.draw.recurrence import GapCurves, RecallCurves, TimeCurves
from transformer_lab.experiments.gates import FORCES, MOST_SYMBOLS, walk_gates
from transformer_lab.experiments.gradient_gap import ACTIVATIONS, LONGEST, compare_gaps, explore_gap, rnn_cell
from transformer_lab.experiments.recall import Recall
from transformer_lab.experiments.time_length import TimeByLength
from transformer_lab.widgets.explorer import show
from transformer_lab.widgets.gate_explorer import gate_explorer
from transformer_lab.widgets.gradient_gap import figure, gradient_gap


def colours(png):
    return len(np.unique(np.asarray(Image.open(io.BytesIO(png)).convert("RGB")).reshape(-1, 3), axis=0))


# ------------------------------------------------------------------------------------------------- gate explorer


def test_the_gate_explorer_says_what_a_step_does():
    widget = gate_explorer(step=2)
    assert widget.error is None and colours(widget.png) > 20
    assert widget.sentence == (
        "Step 2, “.” (noise, of −0.76): the cell held 0.99, keeps 0.99, adds 0.00 and now holds 0.99. "
        "The hidden state shows 0.00. Readings: 0.75 at step 5, 0.00 at step 10."
    )


@pytest.mark.parametrize(
    "change, words",
    [
        ({"step": 3, "force": "forget gate shut"}, "Readings: 0.00 at step 5"),
        ({"step": 3, "force": "input gate open"}, "adds −0.76 and now holds 0.22"),
        ({"step": 8, "force": "forget gate open"}, "0.75 at step 5, 0.74 at step 10"),
        ({"step": 3, "force": "output gate open"}, "The hidden state shows 0.75"),
        ({"forget_bias": 0.0}, "Readings: 0.06 at step 5"),
        ({"sequence": "+ . ."}, "No “?” reads it"),
        ({"sequence": "-?", "step": 2}, "The hidden state shows −0.76"),
    ],
)
def test_forcing_a_gate_changes_what_is_read(change, words):
    widget = gate_explorer()
    before = widget.png
    widget.set(**change)
    assert widget.error is None and words in widget.sentence and widget.png != before


def test_every_step_with_every_force_and_every_bias_is_drawn():
    widget = gate_explorer()
    for step, force in itertools.product(range(1, 11), FORCES):
        widget.set(step=step, force=force)
        assert widget.error is None
    for bias in np.arange(-2.0, 6.5, 0.5):
        widget.set(forget_bias=float(bias))
        assert widget.error is None


@pytest.mark.parametrize(
    "sequence, words", [("", "0 symbols"), ("+" * 17, "17 symbols"), ("+a?", "“a” is no symbol"), ("<b>", "“<”")]
)
def test_strange_sequences_keep_the_last_picture_and_say_what_to_type(sequence, words):
    widget = gate_explorer()
    before = widget.png
    widget.set(sequence=sequence)
    assert words in widget.error and "+ (store plus one)" in widget.error and widget.png == before
    widget.set(sequence="+?", step=1)
    assert widget.error is None and widget.png != before


def test_a_shorter_sequence_takes_the_step_along():
    widget = gate_explorer(step=9)
    widget.set(sequence="+.?")
    assert widget.error is None and widget.values["step"] == 3


def test_the_gate_picture_reads_out_every_bar():
    widget = gate_explorer()
    regions = widget._rendering.regions
    assert len(regions) == 6 * 10
    assert {region.text for region in regions} >= {"step 1 “+”: cell c = 0.99", "step 5 “?”: hidden h = 0.75"}


def test_the_texts_of_the_gate_picture_are_legible():
    longest = ("+-.?x" * 4)[:MOST_SYMBOLS]
    walks = [walk_gates(longest, step, force) for step, force in zip(range(16), itertools.cycle(FORCES))]
    assert unreadable(GateTimeline, walks) == []
    assert unreadable(GateTimeline, [walk_gates("+")]) == []


@pytest.mark.parametrize(
    "step, force, words", [(3, "nothing", "step is 3"), (-1, "nothing", "step is -1"), (0, "all", "force is 'all'")]
)
def test_walk_gates_refuses(step, force, words):
    with pytest.raises(ValueError, match=words):
        walk_gates("+.?", step, force)


# ---------------------------------------------------------------------------------------------- gradient and gap


def test_the_gradient_widget_names_values_and_verdict():
    widget = gradient_gap()
    assert widget.error is None and colours(widget.png) > 20
    assert widget.sentence.startswith("After 50 steps: RNN 117, LSTM ")
    assert widget.sentence.endswith("Vanished: LSTM, GRU. Exploded: RNN.")


@pytest.mark.parametrize(
    "change, words",
    [
        ({"gap": 1}, "After 1 step: RNN 1.1,"),
        ({"radius": 1.0}, "RNN 1,"),
        ({"radius": 0.5}, "Vanished: RNN, LSTM, GRU."),
        ({"clip": True}, "RNN 1,"),
        ({"activation": "tanh"}, "RNN 0.022,"),
        ({"forget_bias": 6.0}, "Vanished: GRU. Exploded: RNN."),
        ({"forget_bias": 6.0, "gap": 5}, "None of them has vanished or exploded."),
    ],
)
def test_every_control_of_the_gradient_widget_counts(change, words):
    widget = gradient_gap()
    before = widget.png
    widget.set(**change)
    assert widget.error is None and words in widget.sentence and widget.png != before


def test_the_gradient_widget_is_drawn_at_every_extreme():
    widget = gradient_gap()
    for radius, activation, bias, gap, clip in itertools.product(
        (0.5, 1.5), ACTIVATIONS, (-2.0, 6.0), (1, LONGEST), (False, True)
    ):
        widget.set(radius=radius, activation=activation, forget_bias=bias, gap=gap, clip=clip)
        assert widget.error is None and "nan" not in widget.sentence


def test_the_gap_stays_within_its_limits():
    widget = gradient_gap()
    before = widget.png
    widget.set(gap=LONGEST + 1)
    assert "choose between 1 and 100" in widget.error and widget.png == before


@pytest.mark.parametrize(
    "arguments, words",
    [((0.0,), "radius is 0.0"), ((float("nan"),), "radius is nan"), ((1.0, "relu"), "activation is 'relu'")],
)
def test_rnn_cell_refuses(arguments, words):
    with pytest.raises(ValueError, match=words):
        rnn_cell(*arguments)


@pytest.mark.parametrize("gap", [0, LONGEST + 1])
def test_explore_gap_refuses(gap):
    with pytest.raises(ValueError, match=f"gap is {gap}"):
        explore_gap(gap=gap)


@pytest.mark.parametrize(
    "value, words",
    [(0.0, "0"), (0.0625, "0.062"), (4.4, "4.4"), (7.1e5, "7·10⁵"), (2.4e-5, "2·10⁻⁵"), (1000.0, "1·10³")],
)
def test_figures_are_short(value, words):
    assert figure(value) == words


# -------------------------------------------------------------------------------------------------------- charts


def test_the_charts_of_the_lesson_are_legible():
    names = ("RNN", "LSTM", "GRU", "attention")
    recall = Recall((2, 12, 24), {name: (1.0, 0.1 + 0.2 * place, 0.1) for place, name in enumerate(names)})
    flat = Recall((2, 12, 24), {name: (1.0, 1.0, 1.0) for name in names})
    lengths = (16, 64, 256)
    times = TimeByLength(lengths, {}, {name: (1e-4, 4e-4 * place, 1e-3) for place, name in enumerate(names, 1)})
    assert unreadable(RecallCurves, [recall, flat]) == []
    assert unreadable(TimeCurves, [times]) == []
    assert unreadable(GapCurves, [compare_gaps()]) == []
    assert unreadable(GapCurves, [explore_gap(radius) for radius in (0.5, 1.0, 1.5)]) == []


def test_ten_curves_have_ten_looks():
    chart = GapCurves.chart(compare_gaps())
    assert len({chart.look(name) for name in chart.series}) == 10
    figure = show(GapCurves, compare_gaps(), "ten curves")
    assert figure.error is None and colours(figure.png) > 100


def test_curves_that_look_alike_are_refused():
    series = {f"curve {place}": ([1, 2], [place, place]) for place in range(7)}
    with pytest.raises(ValueError, match="6 colours"):
        LineChart(series, "x", "y")
    with pytest.raises(ValueError, match="look alike"):
        LineChart(dict(list(series.items())[:2]), "x", "y", looks={"curve 0": (1, 1)})
    chart = LineChart(series, "x", "y", looks={"curve 6": (0, 1)})
    assert show(Curves, chart, "seven").error is None
    with pytest.raises(ValueError, match="1 to 12 curves"):
        LineChart({str(place): ([1], [1]) for place in range(13)}, "x", "y")
