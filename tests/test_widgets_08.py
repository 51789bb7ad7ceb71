"""The widgets of lesson 08: every control through its range, strange input, and text that stays inside the picture."""

import io

import numpy as np
import pytest
from PIL import Image

from legibility import unreadable
from transformer_lab.draw import style
from transformer_lab.draw.filling import FilledBlankPicture
from transformer_lab.draw.wiring import PARTS, WiringPicture
from transformer_lab.experiments.filling import fill_blank
from transformer_lab.experiments.objectives import train_family
from transformer_lab.experiments.wiring import look_at_wiring, sequence_of
from transformer_lab.model.config import FAMILIES
from transformer_lab.tasks import cloze
from transformer_lab.widgets.fill_the_blank import fill_the_blank
from transformer_lab.widgets.wiring_selector import wiring_selector


@pytest.fixture(params=["screen", "projector"])
def look(request):
    yield style.use(request.param)
    style.use("screen")


@pytest.fixture(scope="module")
def models():
    return tuple(train_family(family, steps=150).model for family in ("encoder-only", "decoder-only"))


@pytest.fixture
def blank(models):
    return fill_the_blank(*models)


def pixels(widget):
    return np.asarray(Image.open(io.BytesIO(widget.png)).convert("RGB")).astype(int)


# The wiring selector.


def test_the_selector_opens_on_a_hidden_word_that_reads_everything():
    widget = wiring_selector()
    assert widget.error is None
    assert widget.sentence == (
        "encoder-only: “<mask>” reads 7 of 7 tokens, itself included. Which word is hidden here? Right is “dogs”."
    )
    assert widget._repr_mimebundle_()["text/plain"] == widget.sentence


def test_each_family_says_what_it_reads_and_is_asked():
    widget = wiring_selector()
    widget.set(family="decoder-only")
    assert widget.sentence == (
        "decoder-only: “dogs” reads 4 of 6 tokens (<start>, these, old, dogs). Which word comes next? Right is "
        "“barked”."
    )
    widget.set(family="encoder-decoder", asks=2)
    assert widget.sentence == (
        "encoder-decoder: “<gap>” reads 6 of 9 tokens (<start>, these, <gap>, barked, here, <end>). The objective asks "
        "nothing here: the encoder is only read."
    )
    widget.set(asks=7)
    assert "“old” reads 8 of 9 tokens" in widget.sentence and "Right is “dogs”." in widget.sentence
    widget.set(family="encoder-only", asks=0)
    assert widget.sentence.endswith("The objective asks nothing here: special tokens are never hidden.")


def test_every_setting_of_the_selector_is_drawn_and_is_another_picture():
    widget, seen, settings = wiring_selector(), set(), 0
    for family in FAMILIES:
        for padded in (False, True):
            tokens, _ = sequence_of(family, 2 * padded)
            for asks in (i for i, token in enumerate(tokens) if token != cloze.PAD):
                widget.set(family=family, padded=padded, asks=asks)
                assert widget.error is None and widget.result.asks == asks, (family, padded, asks)
                seen.add(widget.png)
                settings += 1
    assert len(seen) == settings == 2 * (7 + 6 + 9)


def test_the_token_stays_chosen_though_its_number_changes():
    widget, chosen = wiring_selector("encoder-decoder", asks=8), []
    for move in (
        {"padded": True}, {"padded": False}, {"family": "decoder-only"}, {"family": "encoder-decoder"},
        {"family": "encoder-only", "padded": True}, {"asks": 1}, {"family": "encoder-decoder"}, {"padded": False},
        {"asks": 6}, {"padded": True},
    ):  # fmt: skip
        widget.set(**move)
        assert widget.error is None and widget.result.asks == widget.values["asks"]
        chosen.append(widget.controls["asks"].label)
    assert chosen == [
        "target: dogs", "target: dogs", "dogs", "target: dogs", "dogs", "these", "source: these", "source: these",
        "target: <start>", "target: <start>",
    ]  # fmt: skip


def test_a_token_that_is_not_there_any_more_gives_way_to_another():
    widget = wiring_selector("encoder-only", asks=6)  # <end>
    widget.set(family="decoder-only")
    assert widget.error is None and widget.result.asks == 5  # the last one
    widget.set(family="encoder-decoder", asks=2).set(family="encoder-only")  # <gap>
    assert widget.error is None and widget.result.asks == 2


def test_the_map_and_the_chips_hide_the_same_word():
    widget = wiring_selector(asks=3)
    texts = [region.text for region in widget.regions]
    assert texts[3] == "<start> reads, by encoder self-attention, <mask>" and not any("dogs" in text for text in texts)
    picture = WiringPicture(style.new_figure(9, 4.75), widget.result)
    for asks, hidden, plain in ((3, "dogs", "old"), (2, "old", "dogs")):
        picture.update(look_at_wiring("encoder-only", asks))
        names = [text.get_text() for text in picture.axes.texts]
        assert (names.count("<mask>"), names.count(hidden), names.count(plain)) == (3, 0, 3)  # row, column and chip


def test_no_chip_stands_alone_in_a_row():
    for family in FAMILIES:
        for n_pads in (0, 2):
            result = look_at_wiring(family, 1, n_pads)
            picture = WiringPicture(style.new_figure(9, 4.75), result)
            rows = np.unique(picture._places[:, 1], return_counts=True)[1]
            assert min(rows) >= 3 and max(rows) <= 7, (family, n_pads)


def test_the_pointer_names_the_attention_under_it():
    widget = wiring_selector("encoder-decoder", asks=8)
    texts = [region.text for region in widget.regions]
    assert len(texts) == 81
    assert texts[0] == "<start> reads, by encoder self-attention, <start>"
    assert texts[6] == "<start> may not read <start>"
    assert texts[7 * 9 + 3] == "old reads, by cross-attention, barked"
    assert texts[7 * 9 + 7] == "old reads, by decoder self-attention, old"
    assert texts[7 * 9 + 8] == "old may not read dogs"


def test_a_cell_has_the_colour_of_its_attention_exactly_where_it_is_read():
    for family in FAMILIES:
        for padded in (False, True):
            widget = wiring_selector(family, asks=1, padded=padded)
            image, result = pixels(widget), widget.result
            n = len(result.tokens)
            for region, (query, key) in zip(widget.regions, np.ndindex(n, n), strict=True):
                spot = image[region.top + (region.bottom - region.top) // 4, (region.left + region.right) // 2]
                part = result.parts[query][key]
                painted = bool(part) and np.abs(spot - np.multiply(PARTS[part], 255)).max() < 3
                assert painted == bool(result.sees[query, key]), (family, query, key)


def test_no_word_of_the_selector_is_clipped_or_covered(look):
    for family in FAMILIES:
        for n_pads in (0, 2):
            tokens, _ = sequence_of(family, n_pads)
            places = [i for i, token in enumerate(tokens) if token != cloze.PAD]
            assert unreadable(WiringPicture, [look_at_wiring(family, i, n_pads) for i in places]) == []


# Fill the blank.


def test_the_blank_opens_where_only_the_masked_model_can_know(blank):
    assert blank.error is None
    assert blank.sentence.startswith(
        "___ old dogs barked here: the masked model says “these”; the causal model gives no word more than half. Only "
        "“these” fits. Whoever reads both sides of such a blank can be right 100% of the time, whoever reads the left "
        "25%."
    )
    assert blank._repr_mimebundle_()["image/png"]


def test_every_blank_of_a_sentence_is_drawn(blank):
    seen = set()
    for sentence in ("these old dogs barked here", "that wild owl hooted there twice", "old", "here here here"):
        blank.set(sentence=sentence, blank=0)
        for place in range(len(sentence.split())):
            blank.set(blank=place)
            assert blank.error is None and blank.result.place == place
            assert len(blank.sentence.split(":")[0].split()) == len(sentence.split())
            seen.add(blank.png)
    assert len(seen) == 5 + 6 + 1 + 3


def test_the_causal_model_says_what_it_says_whatever_follows(blank):
    blank.set(sentence="these old dogs barked here", blank=0)
    first = blank.result.readers[1]
    blank.set(sentence="these old cats meowed there twice")
    assert blank.result.readers[1].shares == first.shares
    assert blank.result.readers[0].words[0] == "those"


def test_writing_again_draws_another_continuation(blank):
    lines = set()
    for _ in range(6):
        blank.controls["again"].click()
        assert blank.error is None
        lines.add(blank.result.written)
    assert blank.values["again"] == 6 and len(lines) > 2
    blank.set(blank=3)
    assert blank.result.written[0] == "barked"


@pytest.mark.parametrize(
    ("sentence", "says"),
    [
        ("", "The sentence is empty; try: this old dog barked here."),
        ("   .  ", "The sentence is empty"),
        ("these old cows mooed here", "“cows” is not a word of this language. It has: this, that, these, those;"),
        ("old " * 7, "There are 7 words; a sentence of this language has at most 6."),
        ("old " * 5000, "a sentence of this language has at most 6."),
        ("<b>x</b>", "“<b>x</b>” is not a word"),
        ("<mask> old dogs", "“<mask>” is not a word"),
    ],
)
def test_strange_sentences_are_explained_and_the_picture_stays(blank, sentence, says):
    before = blank.png
    blank.controls["sentence"].value = sentence
    assert says in blank.error and blank.png == before
    blank.set(sentence="this old dog barked here", blank=2)
    assert blank.error is None and blank.result.fits == ("dog",)


def test_a_wrong_sentence_is_filled_too_and_said_to_be_wrong(blank):
    blank.set(sentence="These old dog barked here.", blank=3)
    assert blank.error is None
    assert "Another word is wrong or missing already: whatever stands here, it is no sentence." in blank.sentence
    assert "can be right" not in blank.sentence
    blank.set(blank=2)
    assert "Only “dogs” fits" in blank.sentence
    blank.set(sentence="this old dog barked here", blank=1)
    assert "8 words fit" in blank.sentence


def test_where_nothing_fits_no_ceiling_and_no_cross_is_drawn(models):
    wrong, right = (
        fill_blank(*models, sentence.split(), 3)
        for sentence in ("these old dog barked here", "this old dog barked here")
    )
    said = []
    for result in (right, wrong):
        picture = FilledBlankPicture(style.new_figure(9, 4.7), result)
        picture.update(result)
        said.append(" ".join(text.get_text() for text in picture.axes.texts))
    assert "✓ fits" in said[0] and "best possible from" in said[0] and "✗" in said[0]
    assert "fits" not in said[1] and "best possible" not in said[1] and "% –" in said[1] and "% ✗" not in said[1]


def test_the_end_that_the_causal_model_says_is_shown(blank):
    blank.set(sentence="this old dog barked here twice", blank=5)
    at_once = set()
    for _ in range(12):
        blank.controls["again"].click()
        assert blank.result.ended
        if not blank.result.written:
            assert "After “this old dog barked here” the causal model says <end> at once: a sentence" in blank.sentence
        at_once.add(not blank.result.written)
    assert at_once == {True, False}
    picture = FilledBlankPicture(style.new_figure(9, 4.7), blank.result)
    picture.update(blank.result)
    ends = [text for text in picture.axes.texts if text.get_text() == "<end>"]
    assert [text.get_color() for text in ends] == [style.OUTPUT]
    blank.set(blank=0)
    assert "From <start> alone the causal model writes on to" in blank.sentence


@pytest.mark.parametrize("typed", ["this ___ dog barked here", "This, _ dog barked here!", "this ? dog; barked: here?"])
def test_a_blank_can_be_typed(blank, typed):
    blank.set(blank=4)
    blank.controls["sentence"].value = typed
    assert blank.error is None and blank.result.place == blank.values["blank"] == 1
    assert blank.controls["blank"].options == (("2 ___", 1),)
    assert blank.sentence.startswith("this ___ dog barked here: ") and "8 words fit" in blank.sentence
    readers = blank.result.readers
    blank.controls["sentence"].value = "this old dog barked here"
    assert blank.result.place == 1 and blank.result.readers == readers


@pytest.mark.parametrize("sentence", ["", " . ", "these old cows", "old " * 7, "these _ old _ _ _ _"])
def test_the_chosen_blank_outlives_a_refused_sentence(blank, sentence):
    blank.set(blank=3)
    options = blank.controls["blank"].options
    blank.controls["sentence"].value = sentence
    assert blank.error and blank.controls["blank"].options == options and blank.values["blank"] == 3
    blank.controls["sentence"].value = "this old dog barked there"
    assert blank.error is None and blank.result.place == 3


def test_two_typed_blanks_are_one_too_many(blank):
    before = blank.png
    blank.controls["sentence"].value = "this ___ ___ barked here"
    assert blank.error.startswith("One blank at a time") and blank.png == before


def test_the_bars_are_as_long_as_the_probabilities(blank):
    image = pixels(blank)
    regions = iter(blank.regions)
    for reader, colour in zip(blank.result.readers, (style.QUERY, style.VALUE), strict=True):
        for share in reader.shares:
            region = next(regions)
            row = image[(region.top + region.bottom) // 2, region.left + 2 : region.right]
            painted = (np.abs(row - np.multiply(style.tint(colour, 0), 255)).max(axis=-1) < 3).sum()
            assert painted / len(row) == pytest.approx(share, abs=0.02)


def test_no_word_of_the_blank_is_clipped_or_covered(models, look):
    longest = "these young horses neighed there today"
    for sentence in (longest, "those white ducks quacked there"):
        words = sentence.split()
        results = [fill_blank(*models, words, place, draw=place) for place in range(len(words))]
        assert unreadable(FilledBlankPicture, results) == []
    assert unreadable(FilledBlankPicture, [fill_blank(*models, ["quacked"], 0)]) == []
