"""The mask painter, the training monitor and the line chart, driven without a browser."""
import itertools
import time

import numpy as np
import pytest

from legibility import unreadable
from transformer_lab.draw import style
from transformer_lab.draw.curves import Curves, LineChart
from transformer_lab.draw.masks import LeakTestPicture, PaintedMaskPicture
from transformer_lab.experiments.masking import causal_leaks, paint_mask
from transformer_lab.widgets import training_monitor
from transformer_lab.widgets.explorer import show
from transformer_lab.widgets.mask_painter import CORNERS, mask_painter
from transformer_lab.widgets.training_monitor import WAITING, TrainingMonitor

# ---------------------------------------------------------------------------------------------------- mask painter


@pytest.fixture
def painter():
    return mask_painter()


def test_the_painter_opens_on_a_causal_mask_and_reads_row_four(painter):
    assert painter.error is None and painter.png
    assert painter.sentence == (
        "Row 4, “on”, may attend to 4 of 8 keys: The, cat, sat, on. "
        "Read the other way round, it would see the, mat, and, slept."
    )


def test_every_control_changes_the_picture(painter):
    painter.set(n_query=3, row=2)
    changes = {"causal": False, "window": 2, "real_tokens": 5, "n_query": 2, "row": 1, "alignment": "top left"}
    assert changes.keys() == painter.controls.keys()
    for name, value in changes.items():
        before, old = painter.png, painter.values[name]
        painter.set(**{name: value})
        assert painter.error is None and painter.png != before, name
        painter.set(**{name: old})
        assert painter.png == before, name


def test_every_control_works_through_its_whole_range(painter):
    for window, real in itertools.product((0, 1, 8), range(9)):
        painter.set(window=window, real_tokens=real)
        assert painter.error is None
    for n_query, corner, causal in itertools.product((1, 2, 8), CORNERS, (True, False)):
        painter.set(n_query=n_query, alignment=corner, causal=causal)
        for row in range(1, n_query + 1):
            painter.set(row=row)
            assert painter.error is None and painter.sentence.startswith(f"Row {row},")


def test_the_row_follows_when_there_are_fewer_queries(painter):
    painter.set(row=8)
    painter.set(n_query=3)
    assert painter.error is None and painter.values["row"] == 3 and "“slept”" in painter.sentence


def test_an_empty_row_is_named_and_no_answer_given_away(painter):
    painter.set(real_tokens=0)
    assert "may attend to nothing." in painter.sentence and "zero" not in painter.sentence
    assert "8 rows are empty" in painter.sentence


def test_the_corner_can_be_chosen_exactly_where_it_changes_the_picture(painter):
    for n_query, window, causal in itertools.product((1, 5, 8), (0, 3), (True, False)):
        pictures = {
            painter.set(n_query=n_query, window=window, causal=causal, row=1, alignment=corner).png
            for corner in CORNERS
        }
        assert painter.controls["alignment"].disabled == (len(pictures) == 1), (n_query, window, causal)


@pytest.mark.case("M01")
def test_the_pointer_reads_both_conventions(painter):
    regions = painter.regions
    left, right = regions[: len(regions) // 2], regions[len(regions) // 2 :]
    assert len(left) == len(right) == 64
    for one, other in zip(left, right, strict=True):
        assert ("may not" in one.text) != ("may not" in other.text)
        assert one.text.split("(")[1] == other.text.split("(")[1]
    assert left[1].text == "The may not attend to cat (the tensor holds False)"


def test_no_text_of_the_painter_is_clipped_or_covered():
    settings = itertools.product((True,), (0, 2), (0, 4, 8), (1, 3, 8))
    assert unreadable(PaintedMaskPicture, [paint_mask(*each, 0) for each in settings]) == []


def test_no_text_of_the_leak_test_is_clipped_or_covered():
    assert unreadable(LeakTestPicture, [causal_leaks(5)]) == []
    assert show(LeakTestPicture, causal_leaks(5), "leaks").error is None


# ------------------------------------------------------------------------------------------------ training monitor


@pytest.fixture
def quick(monkeypatch):
    """Draw after every step, as if each took long."""
    monkeypatch.setattr(training_monitor, "_BAR_SECONDS", -1.0)
    monkeypatch.setattr(training_monitor, "_CURVE_SECONDS", -1.0)
    return TrainingMonitor()


def test_the_monitor_shows_the_bar_and_the_curve_while_it_lasts(quick):
    for step in range(1, 6):
        quick("first", step, 10, 1 / step)
    assert (quick._bar.value, quick._bar.max) == (5, 10)
    assert quick._now.value == "first: step 5 of 10, loss 0.2"
    assert quick._chart.png and quick._chart.error is None and quick._chart.sentence == "Loss so far: first 0.2"
    assert quick._chart.layout.display != "none"


def test_a_finished_run_leaves_a_line_and_the_next_one_joins_the_curves(quick):
    for step in range(1, 4):
        quick("first", step, 3, 2.0)
    assert quick._chart.layout.display == "none" and quick._now.value == "first: 3 steps, last loss 2"
    for step in range(1, 3):
        quick("second <b>", step, 4, 1.0)
    assert quick._chart.sentence == "Loss so far: first 2; second <b> 1" and quick._chart.layout.display != "none"
    for step in range(3, 5):
        quick("second <b>", step, 4, 1.0)
    quick("third", 1, 1, 3.0)
    assert quick._done.value == "first: 3 steps, last loss 2; second &lt;b&gt;: 4 steps, last loss 1"


def test_the_same_cell_run_twice_starts_the_curve_again(quick):
    for _ in range(2):
        for step in range(1, 4):
            quick("run", step, 3, float(step))
    assert quick.losses == {"run": [1.0, 2.0, 3.0]}


def test_more_runs_than_curves_show_the_latest(quick):
    for run in range(15):
        quick(f"run {run}", 1, 2, 1.0)
    assert quick._chart.error is None and "run 14" in quick._chart.sentence


def test_the_stored_text_of_the_monitor_never_changes(quick):
    before = quick._repr_mimebundle_()["text/plain"]
    quick("first", 1, 2, 0.5)
    assert before == quick._repr_mimebundle_()["text/plain"] == WAITING


def test_watching_costs_little():
    monitor = TrainingMonitor()
    start = time.process_time()
    for step in range(1, 2001):
        monitor("run", step, 2001, 1.0)
    assert time.process_time() - start < 1.0


# ------------------------------------------------------------------------------------------------------ line chart

X = list(range(1, 101))
CHARTS = {
    "two curves that end together": LineChart({"one": (X, X), "another": (X, X)}, "step", "loss"),
    "six long names": LineChart(
        {f"the curve with a long name {i}": (X, np.cos(np.array(X) / 9 + i)) for i in range(6)}, "x", "y", title="A"
    ),
    "logarithms and zeros": LineChart({"a": (X, [0] + [1 / x**3 for x in X[1:]])}, "x", "y", x_log=True, y_log=True),
    "gaps": LineChart({"a": (X, [np.nan] * 50 + X[50:])}, "x", "y", levels={"chance": 10.0}),
    "nothing to draw": LineChart({"a": (X, [np.nan] * 100)}, "x", "y"),
    "one point": LineChart({"a": ([1], [3])}, "x", "y"),
    "a constant": LineChart({"a": (X, [5.0] * 100)}, "x", "y", y_log=True),
}


@pytest.mark.parametrize("chart", CHARTS.values(), ids=CHARTS.keys())
def test_charts_are_drawn_with_every_name_in_sight(chart):
    explorer = show(Curves, chart, "chart")
    assert explorer.error is None and explorer.png
    # Only the names: the axes place their own labels, and only when they are drawn.
    words = {word for name in (*chart.series, *chart.levels) for word in name.split()}
    assert [each for each in unreadable(Curves, [chart]) if any(word in each for word in words)] == []


def test_curves_hold_the_values_they_were_given():
    chart = LineChart({"a": ([1, 2, 3], [0.5, np.nan, 2.0])}, "x", "y")
    picture = Curves(style.new_figure(*Curves.size(chart)), chart)
    picture.update(chart)
    (line,) = picture._lines
    np.testing.assert_array_equal(line.get_xdata(), [1, 2, 3])
    np.testing.assert_array_equal(line.get_ydata(), [0.5, np.nan, 2.0])


def test_the_pointer_reads_every_curve_at_its_place():
    chart = LineChart({"a": ([1, 2, 3], [0.5, 1.0, 2.0]), "b": ([2], [7.0])}, "step", "loss")
    texts = [each.text for each in show(Curves, chart, "chart").regions]
    assert texts == ["step 1 — a: 0.5", "step 2 — a: 1; b: 7", "step 3 — a: 2"]


@pytest.mark.parametrize(
    ("series", "named"),
    [({}, "got 0"), ({"a": ([1, 2], [1])}, "2 x values and 1 y values"), ({"a": ([], [])}, "0 x values")],
)
def test_a_chart_that_cannot_be_drawn_says_so(series, named):
    with pytest.raises(ValueError, match=named):
        LineChart(series, "x", "y")
