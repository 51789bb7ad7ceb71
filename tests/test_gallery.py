"""The picture at the top of the README is the widget as it opens."""

import re
from pathlib import Path

import pytest

from transformer_lab.draw import diagrams
from transformer_lab.widgets.gallery import NAME, explorer_picture

NUMBER = re.compile(r"-?\d+\.\d+")
FIGURE = Path(__file__).resolve().parents[1] / "figures" / f"{NAME}.svg"


def test_the_stored_picture_is_the_widget_as_it_opens():
    """Places come from float32 weights, whose last digit differs between processors; everything else is compared."""
    drawn, stored = diagrams.svg(explorer_picture(), NAME).decode(), FIGURE.read_text(encoding="utf-8")
    assert NUMBER.sub("#", drawn) == NUMBER.sub("#", stored)
    places, stored_places = ([float(number) for number in NUMBER.findall(text)] for text in (drawn, stored))
    assert places == pytest.approx(stored_places, abs=0.01)
