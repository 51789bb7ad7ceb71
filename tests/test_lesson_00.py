"""The opening lesson: its widget counts right, and its environment table tells the truth."""

import pytest

from transformer_lab.draw.pairs import LARGEST
from transformer_lab.lesson import environment
from transformer_lab.practice.exercises.start import N_PAIRS
from transformer_lab.widgets.pairs import pairs_explorer


@pytest.mark.parametrize("n_tokens", range(1, LARGEST + 1))
def test_the_first_widget_counts_the_pairs(n_tokens):
    widget = pairs_explorer().set(n_tokens=n_tokens)
    assert widget.error is None
    assert f" {n_tokens**2} pair" in widget.sentence
    assert len(widget.regions) == n_tokens**2


def test_the_first_widget_says_what_it_cannot_count():
    widget = pairs_explorer()
    before = widget.png
    widget.set(n_tokens=LARGEST + 1)
    assert f"between 1 and {LARGEST}" in widget.error and widget.png == before


@pytest.mark.parametrize(
    ("answer", "title"),
    [
        (lambda n_tokens: n_tokens * n_tokens - n_tokens, "Nobody looks at itself here"),
        (lambda n_tokens: sum(range(n_tokens)), "Each pair is counted once, and nobody looks at itself"),
        (lambda n_tokens: sum(range(n_tokens + 1)), "Each pair is counted once"),
        (lambda n_tokens: n_tokens + n_tokens, "This grows too slowly"),
    ],
)
def test_each_miscount_is_recognised(answer, title):
    assert N_PAIRS.judge(answer).title == title


def test_right_and_unplanned_answers():
    assert N_PAIRS.judge(lambda n_tokens: n_tokens**2).status == "right"
    unplanned = N_PAIRS.judge(lambda n_tokens: n_tokens**3)
    assert unplanned.status == "wrong" and unplanned.title not in {mistake.title for mistake in N_PAIRS.mistakes}


def test_the_environment_table_names_what_differs(tmp_path, capsys):
    pins = tmp_path / "requirements.txt"
    pins.write_text("# a comment\ntorch==0.0.1\nno-such-package==1.0\nmatplotlib==3.11.2\n-e ./lib\n", encoding="utf-8")
    environment(str(pins))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[-1] == "ok"
    assert "here: 2.13.0" in lines[1] and "here: missing" in lines[2] and lines[3].split()[-1] == "ok"
    assert "pip install -r requirements.txt" in lines[-1]
