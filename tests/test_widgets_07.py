"""The widget of lesson 07: every control through its range, strange input, and text that stays inside the picture."""

import io

import numpy as np
import pytest
from PIL import Image

from legibility import unreadable
from transformer_lab.draw import style
from transformer_lab.draw.translation import TranslationPicture
from transformer_lab.experiments.translation import train_translator
from transformer_lab.experiments.translation_steps import TranslationStep, translate_and_record
from transformer_lab.tasks.translation import translate
from transformer_lab.widgets.translate_and_inspect import EXAMPLES, OWN, translate_and_inspect

LONGEST = "these pretty quiet queens do not push her pretty quiet flowers"
SHORTEST = "I see him"


@pytest.fixture(scope="module")
def translator():
    return train_translator(stages=((150, 5e-3), (50, 1e-3)))


@pytest.fixture(scope="module")
def model(translator):
    return translator.model


@pytest.fixture
def widget(translator):
    return translate_and_inspect(translator)


@pytest.fixture(params=["screen", "projector"])
def look(request):
    yield style.use(request.param)
    style.use("screen")


def test_the_first_sight_shows_a_crossing(widget):
    assert widget.error is None
    assert widget.sentence.startswith("Step 3 of 10 writes “blanche” and puts ")
    assert "of its attention on “white”, where it comes from. The whole sentence, la vache" in widget.sentence
    bundle = widget._repr_mimebundle_()
    assert bundle["text/plain"] == widget.sentence and bundle["image/png"]


def test_every_step_of_every_example_is_drawn_and_changes_the_picture(widget):
    for example in EXAMPLES:
        widget.set(example=example)
        assert widget.error is None and widget.values["sentence"] == example
        written = widget.result.translation.written
        assert widget.controls["step"].max == len(written)
        seen = set()
        for step in range(1, len(written) + 1):
            widget.set(step=step)
            assert widget.error is None and widget.sentence.startswith(f"Step {step} of {len(written)} writes “")
            assert f"“{written[step - 1]}”" in widget.sentence
            seen.add(widget.png)
        assert len(seen) == len(written)


@pytest.mark.parametrize("sentence", [SHORTEST, LONGEST])
def test_cutting_empties_the_map_and_ends_the_reading(widget, sentence):
    widget.set(sentence=sentence, cut=True, step=1)
    assert widget.error is None and not widget.result.translation.weights.any()
    assert "cross-attention cut: all its weights are 0" in widget.sentence
    widget.set(cut=False)
    assert widget.result.translation.weights.sum(-1).allclose(widget.result.translation.weights.new_ones(1))


def test_the_same_words_are_written_for_every_source_once_it_is_cut(widget):
    widget.set(cut=True)
    written = {widget.set(example=example).result.translation.written for example in EXAMPLES}
    assert len(written) == 1


def test_an_example_fills_the_sentence_and_a_sentence_finds_its_example(widget):
    widget.set(example=EXAMPLES[3])
    assert widget.values["sentence"] == EXAMPLES[3]
    widget.set(sentence="the dogs want me")
    assert widget.values["example"] == OWN and widget.result.translation.source[:-1] == ("the", "dogs", "want", "me")
    widget.set(sentence=EXAMPLES[1])
    assert widget.values["example"] == EXAMPLES[1]
    widget.set(example=OWN)
    assert widget.values["sentence"] == EXAMPLES[1] and widget.error is None


@pytest.mark.parametrize(
    ("sentence", "words"),
    [
        ("the kat sees me", "“kat” is not in this grammar. Did you mean"),
        ("", "The sentence is empty"),
        ("the cat see me", "a verb with its -s"),
        ("the " * 30, "The sentence has 30 words"),
        ("<b>cat</b> sees", "is not in this grammar"),
        ("x" * 1000, "The sentence has 1,000 characters"),
    ],
)
def test_an_unreadable_sentence_is_explained_and_the_last_good_picture_stays(widget, sentence, words):
    before = widget.png
    widget.set(sentence=sentence)
    assert words in widget.error and widget.png == before
    assert widget.error.startswith(f"Still showing “{EXAMPLES[0]}”. ")
    assert "<b>cat" not in widget._view.value
    widget.set(step=2)
    assert widget.error is not None and widget.result.step == 2  # the sentence shown can still be stepped through
    widget.set(sentence=EXAMPLES[2])
    assert widget.error is None


def test_a_capital_and_a_full_stop_are_welcome(widget):
    widget.set(sentence="The black cat sees me.")
    assert widget.error is None and widget.result.translation.source == ("the", "black", "cat", "sees", "me", "<end>")


@pytest.mark.parametrize("wrong", [{"step": 0}, {"step": 11}, {"example": "x"}])
def test_a_value_outside_the_widget_moves_nothing(widget, wrong):
    before = widget.values, widget.png
    widget.set(**wrong)
    assert widget.error and (widget.values, widget.png) == before


def test_another_sentence_begins_at_its_first_step(widget):
    widget.set(sentence=LONGEST)
    widget.set(step=widget.controls["step"].max)
    widget.set(sentence=SHORTEST)
    assert widget.error is None and widget.result.step == 1 and widget.controls["step"].max < 10
    widget.set(step=3)
    widget.set(sentence="no sentence")
    assert widget.result.step == 3  # the sentence shown is still the last one
    widget.controls["example"].value = EXAMPLES[3]  # as a learner's hand does it
    assert widget.error is None and widget.result.step == 1


def test_cutting_keeps_a_step_that_is_still_there(widget):
    widget.set(step=2)
    widget.set(cut=True)
    assert widget.result.step == 2


def test_openings_that_cannot_be_shown_are_refused(translator):
    with pytest.raises(ValueError, match="“kat” is not in this grammar"):
        translate_and_inspect(translator, sentence="the kat sees me")
    with pytest.raises(ValueError, match="'step' starts at 99, outside its limits"):
        translate_and_inspect(translator, step=99)
    assert translate_and_inspect(translator, sentence="she sees me", step=1).values["example"] == OWN


def test_the_pointer_reads_every_written_row_where_it_is_drawn(widget):
    widget.set(step=4)
    shown = widget.result.translation
    assert len(widget.regions) == 4 * len(shown.source)
    pixels = np.asarray(Image.open(io.BytesIO(widget.png)).convert("RGB"))
    for index, region in enumerate(widget.regions[: 3 * len(shown.source)]):  # not the framed row
        row, column = divmod(index, len(shown.source))
        weight = float(shown.weights[row, column])
        assert region.text == (
            f"step {row + 1} ({shown.written[row]}) puts {weight:.2f} on {shown.source[column]}"
        )
        painted = pixels[(region.top + region.bottom) // 2, (region.left + region.right) // 2]
        np.testing.assert_allclose(painted, np.array(style.WEIGHTS(weight)[:3]) * 255, atol=3)


def test_the_mark_stands_at_the_aligned_word_only_while_the_french_is_right(model):
    whole = translate_and_record(model, translate(EXAMPLES[0]), cut=True)
    assert not TranslationStep(whole, len(whole.written)).so_far_right
    right = translate_and_record(model, translate(EXAMPLES[0]))
    assert all(TranslationStep(right, step).so_far_right for step in range(1, len(right.written) + 1))


def test_the_recorded_rows_belong_to_the_words_that_were_written(model):
    """The candidates of each step, from the recorded pass, are led by the word that greedy writing chose."""
    for sentence in (SHORTEST, LONGEST):
        for cut in (False, True):
            whole = translate_and_record(model, translate(sentence), cut=cut)
            assert whole.weights.shape == (len(whole.written), len(whole.source))
            assert [best[0][0] for best in whole.candidates] == list(whole.written)


@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize("sentence", [SHORTEST, LONGEST, EXAMPLES[5]])
def test_no_text_is_clipped_or_runs_into_another(model, look, sentence, cut):
    whole = translate_and_record(model, translate(sentence), cut=cut)
    steps = [TranslationStep(whole, step) for step in range(1, len(whole.written) + 1)]
    assert TranslationPicture.size(steps[0])[0] <= 9
    # The boxes of two slanted labels overlap where their letters do not.
    labels = {f"{one!r} runs into {other!r}" for one in whole.source for other in whole.source}
    assert [trouble for trouble in unreadable(TranslationPicture, steps) if trouble not in labels] == []
