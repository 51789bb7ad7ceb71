"""The visual vocabulary and the still diagrams: legible, deterministic, and true to what the course holds."""

import io
import itertools
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.patches import FancyBboxPatch
from matplotlib.text import Text

from transformer_lab.draw import diagrams, style
from transformer_lab.widgets import gallery

ROOT = Path(__file__).parents[1]
FIGURES = ROOT / "figures"
READY = diagrams.available_lessons(ROOT / "notebooks")
ROLES = {name: getattr(style, name) for name in ("QUERY", "KEY", "VALUE", "OUTPUT", "PAD", "FORBIDDEN")}

# Colour-vision simulation, Machado et al. 2009, severity 1, on linear RGB.
VISION = {
    "normal": np.eye(3),
    "deuteranopia": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    "protanopia": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    "tritanopia": [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]],
}
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def seen_as(colour, vision):
    """CIE Lab coordinates of a colour as somebody with this vision sees it."""
    channels = np.array(to_rgb(colour))
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    x, y, z = np.cbrt(XYZ @ np.clip(VISION[vision] @ linear, 0, 1) / (0.9505, 1, 1.089))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.fixture(autouse=True)
def on_screen():
    yield style.use("screen")
    style.use("screen")


@pytest.fixture(scope="module")
def figures():
    return diagrams.draw_all(READY)


# --- style ---------------------------------------------------------------------------------------


def test_projector_draws_the_same_picture_larger():
    style.use("screen")
    small = style.new_figure(4, 3)
    style.use("projector")
    large = style.new_figure(4, 3)
    assert style.current().name == "projector" and style.scale() == 1.5
    assert np.allclose(np.array(large.bbox.size), 1.5 * np.array(small.bbox.size))


def test_an_unknown_style_is_refused_and_nothing_changes():
    style.use("projector")
    with pytest.raises(ValueError, match="'poster'.*choose"):
        style.use("poster")
    assert style.current().name == "projector"


@pytest.mark.parametrize("name", ["QUERY", "KEY", "VALUE", "OUTPUT", "TEXT", "MUTED"])
def test_colours_used_for_words_are_readable_on_white(name):
    assert style.contrast(getattr(style, name), style.BACKGROUND) >= 4.5


@pytest.mark.parametrize("vision", VISION)
@pytest.mark.parametrize("first, second", list(itertools.combinations(ROLES, 2)))
def test_roles_stay_apart_for_every_colour_vision(vision, first, second):
    distance = np.linalg.norm(seen_as(ROLES[first], vision) - seen_as(ROLES[second], vision))
    assert distance >= 15, f"{first} and {second} look alike with {vision}: {distance:.1f}"


@pytest.mark.parametrize("colormap, peak", [(style.WEIGHTS, 0), (style.SIGNED, 0.5)])
def test_colormaps_change_lightness_evenly(colormap, peak):
    positions = np.linspace(peak, 1, 128)
    light = np.array([style.lightness(colour[:3]) for colour in colormap(positions)])
    straight = np.linspace(light[0], light[-1], len(light))
    assert light[0] > 95 and light[-1] < 40
    assert np.abs(light - straight).max() < 1
    if peak:
        mirrored = np.array([style.lightness(colour[:3]) for colour in colormap(1 - positions)])
        assert np.abs(light - mirrored).max() < 1


@pytest.mark.parametrize("vision", VISION)
def test_the_signs_look_apart(vision):
    below, above = (seen_as(style.SIGNED(end)[:3], vision) for end in (0.0, 1.0))
    assert np.linalg.norm(below - above) >= 25


@pytest.mark.parametrize("end", [0.0, 1.0])
def test_a_sign_has_no_colour_of_a_role(end):
    """In normal vision; with fewer cones there are not enough colours, and the numbers in the cells must do."""
    for name, colour in ROLES.items():
        assert np.linalg.norm(seen_as(style.SIGNED(end)[:3], "normal") - seen_as(colour, "normal")) >= 30, name


@pytest.mark.parametrize("colormap", [style.WEIGHTS, style.SIGNED])
def test_numbers_on_a_map_are_readable_everywhere(colormap):
    for colour in colormap(np.linspace(0, 1, 101)):
        assert style.contrast(style.text_on(colour), colour) >= 4.5


def test_black_text_on_light_white_text_on_dark():
    assert style.text_on("#FFFFFF") == "#000000"
    assert style.text_on((0.0, 0.1, 0.3, 1.0)) == "#FFFFFF"


def test_lightness_and_contrast_hit_their_known_ends():
    assert style.contrast("black", "white") == pytest.approx(21)
    assert style.lightness("white") == pytest.approx(100) and style.lightness("black") == pytest.approx(0)
    assert style.tint(style.QUERY, 0) == to_rgb(style.QUERY) and style.tint(style.QUERY, 1) == (1, 1, 1)
    with pytest.raises(ValueError, match="between 0 and 1, got 2"):
        style.tint(style.QUERY, 2)


def test_drawing_never_imports_pyplot():
    code = "import sys, transformer_lab.draw.diagrams; print('matplotlib.pyplot' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "False"


# --- diagrams ------------------------------------------------------------------------------------


def texts_of(figure):
    FigureCanvasAgg(figure).draw()
    texts = [text for text in figure.findobj(Text) if text.get_text() and text.get_visible()]
    return [(text.get_text(), text.get_window_extent()) for text in texts if text.axes and text in text.axes.texts]


@pytest.mark.parametrize("name", diagrams.ALT)
def test_the_stored_svg_is_what_the_function_draws(name, figures):
    stored = (FIGURES / f"{name}.svg").read_bytes()
    assert stored == diagrams.svg(figures[name], name), (
        f"figures/{name}.svg is out of date: run `python -m transformer_lab.draw.diagrams figures/`"
    )


def test_every_figure_is_drawn_by_a_function_and_described(figures):
    stored = {path.stem for path in FIGURES.iterdir()} - {gallery.NAME}  # a widget's picture: test_gallery.py
    assert set(figures) == set(diagrams.ALT) == stored
    assert all(len(alt) > 60 and alt.endswith(".") for alt in diagrams.ALT.values())


@pytest.mark.parametrize("name", diagrams.ALT)
def test_svg_is_small_dateless_and_needs_no_font(name, figures):
    content = diagrams.svg(figures[name], name)
    assert content == diagrams.svg(figures[name], name)
    assert 5_000 < len(content) < 150_000
    text = content.decode()
    assert "<text" not in text and "dc:date" not in text
    assert f"<dc:title>{name.replace('_', ' ')}</dc:title>" in text


@pytest.mark.parametrize("name", diagrams.ALT)
def test_the_picture_is_not_blank_and_its_corners_are_clear(name, figures):
    stream = io.BytesIO()
    figures[name].savefig(stream, format="rgba", dpi=96, transparent=False)
    width, height = (figures[name].get_size_inches() * 96).round().astype(int)
    pixels = np.frombuffer(stream.getvalue(), np.uint8).reshape(height, width, 4)
    assert width == 900
    assert pixels[0, 0, 3] < 255, "a rounded sheet leaves its corners transparent"
    assert (pixels[20:-20, 20:-20, 3] == 255).all(), "the sheet is opaque, so it reads on a dark page"
    ink = (pixels[..., :3].min(axis=2) < 128).mean()
    assert 0.01 < ink < 0.5


@pytest.mark.parametrize("name", diagrams.ALT)
def test_words_stay_inside_the_sheet_and_do_not_touch_each_other(name, figures):
    figure = figures[name]
    extents = texts_of(figure)
    assert extents
    width, height = figure.bbox.size
    for words, box in extents:
        assert box.x0 > 8 and box.y0 > 8 and box.x1 < width - 8 and box.y1 < height - 8, f"{words!r} is clipped"
    for (words, box), (others, other) in itertools.combinations(extents, 2):
        assert not box.overlaps(other), f"{words!r} overlaps {others!r}"


@pytest.mark.parametrize("name", diagrams.ALT)
def test_words_never_cross_the_edge_of_a_box_or_grid(name, figures):
    extents = texts_of(figures[name])
    boxes = [patch.get_window_extent() for patch in figures[name].findobj(FancyBboxPatch)]
    assert boxes
    for words, text in extents:
        for box in boxes:
            inside = box.x0 <= text.x0 and text.x1 <= box.x1 and box.y0 <= text.y0 and text.y1 <= box.y1
            assert inside or not box.overlaps(text), f"{words!r} crosses an edge"


@pytest.mark.parametrize("name", diagrams.ALT)
def test_type_is_large_enough_to_project(name, figures):
    sizes = [text.get_fontsize() for text in figures[name].findobj(Text) if text.get_text()]
    assert min(sizes) >= 14 * 72 / 96


def test_the_map_marks_exactly_the_missing_lessons_as_planned():
    for available in (set(), {0, 2, 5}, set(range(15))):
        words = [words for words, _ in texts_of(diagrams.course_map(available))]
        assert sum("planned" in word for word in words) == 15 - len(available)
        assert (f"{len(available)} of them ready" in words) == (len(available) < 15)


def test_the_map_refuses_a_lesson_it_does_not_know():
    with pytest.raises(ValueError, match=r"\[15\].*0 to 14"):
        diagrams.course_map({0, 15})


def test_every_lesson_builds_on_earlier_ones_only():
    assert [lesson.number for lesson in diagrams.LESSONS] == list(range(15))
    for lesson in diagrams.LESSONS:
        assert all(need < lesson.number for need in lesson.needs)
        assert lesson.needs or lesson.number == 0


def test_lessons_are_found_by_the_notebooks_that_exist(tmp_path):
    for name in ("00_start_here.ipynb", "07_cross_attention.ipynb", "draft.ipynb", "08_notes.txt"):
        (tmp_path / name).touch()
    assert diagrams.available_lessons(tmp_path) == {0, 7}


def test_the_causal_triangle_allows_fifteen_of_twenty_five_cells():
    words = [words for words, _ in texts_of(diagrams.causal_triangle())]
    assert words.count("✓") == 15 and words.count("✗") == 10


def test_the_padding_picture_and_its_alt_text_state_the_computed_shares():
    words = " ".join(words for words, _ in texts_of(diagrams.padding_bug()))
    for pads in (3, 124):
        share = f"{4 / (4 + pads):.0%}"
        assert f"words {share}" in words and share in diagrams.ALT["padding_bug"]


def test_weights_in_the_attention_picture_are_a_masked_softmax():
    from transformer_lab.draw.diagrams.attention import _attention_by_hand

    steps = _attention_by_hand()
    weights = steps["weights"]
    assert np.allclose(weights.sum(axis=1), 1)
    assert (weights[np.triu_indices(4, 1)] == 0).all() and (weights[np.tril_indices(4)] > 0).all()
    assert np.allclose(np.exp(steps["scaled"][3]) / np.exp(steps["scaled"][3]).sum(), weights[3])


def test_write_all_reports_what_it_wrote(tmp_path):
    paths = diagrams.write_all(tmp_path, READY)
    assert {path.stem for path in paths} == set(diagrams.ALT)
    assert all(re.match(rb"<\?xml", path.read_bytes()) for path in paths)
