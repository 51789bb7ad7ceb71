"""The widgets and charts of lesson 01: every control through its range, strange input, and legible text."""
import io
import itertools
import re

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from PIL import Image

from legibility import unreadable
from transformer_lab.draw import style
from transformer_lab.draw.curves import Curves, LineChart
from transformer_lab.draw.gates import GateTimeline, _arithmetic
from transformer_lab.draw.recurrence import GapCurves, RecallCurves, TimeCurves
from transformer_lab.experiments.gates import FORCES, KEEPS, MOST_SYMBOLS, walk_gates
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
        "Step 2, “.” (noise, of −0.75): the cell held 1.000, keeps 1.000, adds 0.000 and now holds 1.000. "
        "The hidden state shows 0.000. Readings: 0.762 at step 5, 0.000 at step 10."
    )


@pytest.mark.parametrize(
    "change, words",
    [
        ({"step": 3, "force": "forget gate shut"}, "Readings: 0.000 at step 5"),
        ({"step": 3, "force": "input gate open"}, "adds −0.750 and now holds 0.250"),
        ({"step": 8, "force": "forget gate open"}, "0.762 at step 5, 0.762 at step 10"),
        ({"step": 3, "force": "output gate open"}, "The hidden state shows 0.762"),
        ({"forget_bias": 0.0}, "Readings: 0.062 at step 5"),
        ({"sequence": "+ . ."}, "No “?” reads it"),
        ({"sequence": "-?", "step": 2}, "The hidden state shows −0.762"),
    ],
)
def test_forcing_a_gate_changes_what_is_read(change, words):
    widget = gate_explorer()
    before = widget.png
    widget.set(**change)
    assert widget.error is None and words in widget.sentence and widget.png != before


def shown_sums(walk):
    """The numbers of the printed arithmetic: f, old c, i, g, kept, new, c, o, tanh c, h."""
    words = _arithmetic(walk).partition("i · g")[2].replace("−", "-").replace("(c)", "")
    return [float(number) for number in re.findall(r"-?\d+\.\d+", words)]


@pytest.mark.parametrize("force", FORCES)
def test_the_printed_arithmetic_is_right_as_printed(force):
    """Whoever works the line out again from the printed numbers gets the printed result, to the last digit."""
    for step in range(10):
        f, old, i, g, kept, new, cell, o, shown, hidden = shown_sums(walk_gates("+.-.?..x.?", step, force))
        assert (round(f * old, 3), round(i * g, 3), round(kept + new, 3)) == (kept, new, cell)
        assert round(o * shown, 3) == hidden
    for bias in np.arange(-2.0, KEEPS, 0.5):
        f, old, i, g, kept, new, cell, *_ = shown_sums(walk_gates("+...?", 3, force, float(bias)))
        assert round(kept + new, 3) == cell and abs(f * old - kept) < 0.0015


def test_a_leak_can_be_seen_and_each_reading_stands_beside_its_bar():
    figure = style.new_figure(9.0, 4.4)
    picture = GateTimeline(figure, walk_gates("+...?..x.?"))
    picture.update(walk_gates("+...?..x.?", forget_bias=2.0))
    heights = [abs(bar.get_height()) for bar in picture._bars["cell"]][:4]
    assert all(before - after > 0.02 for before, after in itertools.pairwise(heights))  # 1.5 pixels and more
    assert heights[0] > 0.35
    readings = [text.get_text() for text in picture._readings]
    assert readings == ["", "", "", "", "0.54", "", "", "", "", "0.00"]


def test_every_step_with_every_force_and_every_bias_is_drawn():
    widget = gate_explorer()
    for step, force in itertools.product(range(1, 11), FORCES):
        widget.set(step=step, force=force)
        assert widget.error is None
    for bias in np.arange(-2.0, KEEPS + 0.5, 0.5):
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
    regions = widget.regions
    assert len(regions) == 6 * 10
    assert {region.text for region in regions} >= {"step 1 “+”: cell c = 1.000", "step 5 “?”: hidden h = 0.762"}


def test_the_texts_of_the_gate_picture_are_legible():
    longest = ("+-.?x" * 4)[:MOST_SYMBOLS]
    walks = [walk_gates(longest, step, force) for step, force in zip(range(16), itertools.cycle(FORCES))]
    assert unreadable(GateTimeline, walks) == []
    assert unreadable(GateTimeline, [walk_gates("+")]) == []
    for n in (10, MOST_SYMBOLS - 1):
        assert unreadable(GateTimeline, [walk_gates("-" + "?" * n)]) == []


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
        ({"clip": True}, "Vanished: LSTM, GRU. Clipped, at every gap alike: RNN ÷ 1·10⁴."),
        ({"activation": "tanh"}, "RNN 0.12,"),
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


def test_clipping_leaves_the_curve_before_it_faintly_behind():
    figure = style.new_figure(8.6, 4.4)
    picture = GapCurves(figure, explore_gap(1.1))
    picture.update(explore_gap(1.1, clip=True))
    before = {name: line.get_ydata() for name, line in picture._before.items()}
    assert tuple(before["RNN"]) == explore_gap(1.1).curves["RNN"] and not any(map(len, (before["GRU"], before["LSTM"])))
    picture.update(explore_gap(1.1))
    assert len(picture._before["RNN"].get_ydata()) == 0


def test_an_exploding_curve_stops_at_the_edge_of_the_axes():
    """Nothing of its colour lies above or below, where the title and the numbers of the axis are."""
    picture = Image.open(io.BytesIO(show(GapCurves, explore_gap(1.5), "explodes").png)).convert("RGB")
    pixels = np.asarray(picture).astype(int)
    blue = (np.abs(pixels - np.array(to_rgb(style.SERIES[0])) * 255).max(axis=2) < 40)[:, : int(0.8 * picture.width)]
    rows = np.flatnonzero(blue.any(axis=1))
    assert rows[0] >= round(0.12 * picture.height) - 1 and rows[-1] <= round(0.83 * picture.height) + 1


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
