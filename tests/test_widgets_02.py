"""The widgets of lesson 02: every control through its range, strange input, and text that stays inside the picture."""

import io
import itertools

import numpy as np
import pytest
from PIL import Image

from legibility import unreadable
from transformer_lab.draw import style
from transformer_lab.draw.attention_place import LEAN_ABOVE
from transformer_lab.draw.attention_walk import AttentionWalkPicture
from transformer_lab.draw.canvas import Canvas
from transformer_lab.draw.scaling import ScalingPicture
from transformer_lab.experiments.attention_walk import STEPS, walk_attention
from transformer_lab.experiments.scaling import WIDTHS, sweep_scaling
from transformer_lab.tasks.words import MAX_TOKENS
from transformer_lab.widgets.attention_explorer import attention_explorer
from transformer_lab.widgets.scaling_sweep import scaling_sweep

LONG = "The boat crossed the deep river near the flooded bank"
WIDE = "APPROVED CURRENT DEPOSIT SAILED CROSSED FLOODED"


@pytest.fixture
def explorer():
    return attention_explorer()


def test_the_first_sight_names_the_winner_and_the_mix(explorer):
    assert explorer.error is None
    assert explorer.sentence.startswith("“it” takes 0.60 from “bank”. The output of “it” is")
    assert "water 0.30, money 0.40, thing 0.75, action 0.20. “bank” puts in water 0.30" in explorer.sentence
    bundle = explorer._repr_mimebundle_()
    assert bundle["text/plain"] == explorer.sentence and bundle["image/png"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"step": "scores"}, "q · k = 0×0 + 0×0 + 1.8×2 + 0.7×0 = 3.60"),
        ({"step": "scaled"}, "divided by 2: “it” and “bank” go from 3.60 to 1.80"),
        ({"step": "scaled", "scale": False}, "divided by 1:"),
        ({"mask": "causal", "step": "masked", "query": 1}, "may read 2 of 4 words. 2 are hidden (score −∞, weight 0)"),
        ({"mask": "causal", "step": "masked", "query": 2}, "“approved” may read 3 of 4 words. 1 is hidden"),
        ({"mask": "causal", "step": "masked"}, "“it” may read all 4 words. It is the last word"),
        ({"step": "weights", "key": 2}, "“it” puts 0.60 on “bank”. “approved” gets 0.20"),
        ({"step": "weights", "query": 0, "mask": "causal"}, "puts 1.00 on “The”"),
        ({"sentence": "river bank"}, "“bank” takes 0.88 from “river”"),
        ({"sentence": "bank loan", "query": 0}, "water 0.06, money 0.94"),
        ({"sentence": "a a"}, "takes 0.50 each from “a” (1 and 2)"),
        ({"sentence": "a a a"}, "takes 0.33 each from 3 words"),
        ({"sentence": "the house", "query": 1, "step": "scores"}, "“house” matches “the” and “house” best: 0.00 each"),
        ({"temperature": 0.1}, "takes 1.00 from “bank”"),
        ({"d_k": 64}, "Random queries and keys, d_k = 64."),
        ({"d_k": 64, "step": "scores"}, "the 64 products"),
        ({"sentence": "deposit bank", "step": "scores", "query": 0}, "= 0.00"),
    ],
)
def test_the_sentence_tells_what_is_shown(explorer, change, words):
    explorer.set(**change)
    assert explorer.error is None
    assert words in explorer.sentence


def test_every_control_changes_the_picture(explorer):
    for name, value in {
        "query": 1, "step": "scores", "key": 2, "mask": "causal", "temperature": 2.0, "d_k": 16, "scale": False,
        "sentence": "The bank saw it",
    }.items():  # fmt: skip
        fresh = attention_explorer(step="weights")
        before = fresh.png
        fresh.set(**{name: value})
        assert fresh.error is None and fresh.png != before, name


def test_the_key_and_the_step_always_change_the_picture(explorer):
    explorer.set(mask="causal", query=2)
    for step in STEPS:
        seen = {explorer.set(step=step, key=key).png for key in range(4)}
        assert len(seen) == 4 and explorer.error is None


def test_a_control_without_an_effect_is_grey(explorer):
    for step in ("scores", "scaled", "weights", "mixed"):
        explorer.set(step=step)
        assert explorer.controls["temperature"].disabled == explorer.controls["scale"].disabled == (step == "scores")


def test_the_masked_step_is_there_with_a_mask_only(explorer):
    assert "masked" not in explorer.controls["step"].options
    explorer.set(mask="causal", step="masked")
    assert explorer.error is None and explorer.result.step == "masked"
    explorer.set(mask="none")
    assert explorer.error is None and "masked" not in explorer.controls["step"].options


def test_reset_brings_the_first_sight_back(explorer):
    first, values = explorer.png, explorer.values
    for change in ({"sentence": LONG, "query": 9, "key": 3}, {"mask": "causal", "step": "masked"}, {"d_k": 1024}):
        explorer.set(**change)
    explorer.controls["sentence"].value = "what is this"
    (reset,) = [w for row in explorer.children for w in getattr(row, "children", ()) if w.description == "Reset"]
    reset.click()
    assert explorer.error is None and explorer.values == values and explorer.png == first


def test_every_combination_of_the_choices_is_drawn(explorer):
    for mask, step, scale, d_k in itertools.product(("causal", "none"), STEPS, (True, False), (4, 1024)):
        if (mask, step) != ("none", "masked"):
            explorer.set(mask=mask, step=step, scale=scale, d_k=d_k)
            assert explorer.error is None, explorer.error
    explorer.set(sentence=LONG)
    for query, temperature in zip(range(10), itertools.cycle((0.1, 20.0))):
        explorer.set(temperature=temperature, query=query, key=9 - query)
        assert explorer.error is None
        assert explorer.result.query_index == query and explorer.result.key_index == 9 - query


def test_queries_follow_the_sentence(explorer):
    explorer.set(sentence="river bank")
    assert [name for name, _ in explorer.controls["query"].options] == ["1 river", "2 bank"]
    assert explorer.result.tokens == ("river", "bank") and explorer.result.query_index == 1
    explorer.controls["sentence"].value = LONG  # as a learner types it
    assert explorer.error is None and len(explorer.controls["key"].options) == 10


def test_the_same_word_stays_chosen_when_the_sentence_changes(explorer):
    for sentence, place in (("river bank", 1), ("bank loan", 0), ("The boat crossed the river near the bank", 7)):
        if sentence == "river bank":
            explorer.set(query=1)
        explorer.controls["sentence"].value = sentence
        assert explorer.result.tokens[explorer.result.query_index].lower() == "bank"
        assert explorer.result.query_index == explorer.controls["query"].value == place
    explorer.controls["sentence"].value = "bank saw the bank"  # the first of two
    assert explorer.result.query_index == 0


def test_the_other_controls_work_beside_an_unreadable_sentence(explorer):
    explorer.controls["sentence"].value = "The bank fired it"
    before = explorer.png
    explorer.controls["query"].value = 1
    assert explorer.png != before and explorer.result.query_index == 1
    assert explorer.result.tokens == ("The", "bank", "approved", "it")
    assert "“fired” has no vector here" in explorer.error


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("", "The sentence is empty; the known words are a, and, approved"),
        ("   ?! ", "The sentence is empty"),
        ("The bank fired it", "“fired” has no vector here; the known words are"),
        ("<b>bank</b>", "“b>bank</b” has no vector here"),
        ("<script>alert(1)</script>", "has no vector here"),
        ("bank " * (MAX_TOKENS + 1), f"The sentence has {MAX_TOKENS + 1} words; please use at most {MAX_TOKENS}."),
        ("x" * 10_000, "The sentence has 10,000 characters"),
        ("bank " * 2_000, "The sentence has 10,000 characters"),
        ("银行 批准", "“银行” has no vector here"),
        ("x" * 150, "“xxxxxxxxxxxxxxxxxxxx…” has no vector here"),
    ],
)
def test_strange_sentences_leave_the_last_picture(explorer, typed, words):
    before = explorer.png
    explorer.controls["sentence"].value = typed
    assert words in explorer.error and len(explorer.error) < 500
    assert explorer.error.count(".") == 1  # one sentence
    assert explorer.png == before and explorer.result.tokens == ("The", "bank", "approved", "it")
    assert "<script" not in explorer._view.value and "<b>bank" not in explorer._view.value
    explorer.controls["sentence"].value = "river bank"
    assert explorer.error is None and explorer.png != before


@pytest.mark.parametrize(
    "wrong", [{"temperature": 9.0}, {"temperature": 0.0}, {"query": 7}, {"d_k": 5}, {"step": "all"}]
)
def test_a_value_outside_a_control_moves_nothing(explorer, wrong):
    before = explorer.values
    explorer.set(**wrong)
    assert explorer.error and explorer.values == before


def test_a_refused_change_puts_the_sentence_back_with_its_queries(explorer):
    explorer.set(sentence="river bank", temperature=9.0)
    assert explorer.error and explorer.values["sentence"] == "The bank approved it"
    assert explorer.values["query"] == 3


def test_a_bad_first_sentence_is_an_error_for_the_author():
    with pytest.raises(ValueError, match="no vector"):
        attention_explorer("The dog barked")


def test_the_pointer_reads_every_cell_of_the_map(explorer):
    regions = explorer.regions
    assert len(regions) > 16
    assert regions[13].text == "query it, key bank: score 3.60, scaled 1.80, weight 0.60"
    assert "bank puts 0.60 thing into the output of it" in [region.text for region in regions[16:]]
    explorer.set(mask="causal")
    assert explorer.regions[1].text == "query The, key bank: score 1.80, masked, weight 0"


def test_the_region_of_a_cell_lies_where_the_cell_is_drawn(explorer):
    pixels = np.asarray(Image.open(io.BytesIO(explorer.png)).convert("RGB"))
    weights = explorer.result.weights.flatten().tolist()
    assert len(set(weights)) > 4
    for region, weight in zip(explorer.regions[:16], weights, strict=True):
        x = region.left + (region.right - region.left) // 8  # beside the number and inside the frames
        y = region.top + (region.bottom - region.top) // 5
        np.testing.assert_allclose(pixels[y, x], np.multiply(style.WEIGHTS(weight)[:3], 255), atol=2)


@pytest.mark.parametrize(
    "sentence", ["it", "APPROVED APPROVED", "The bank approved it", WIDE, WIDE + " APPROVED", LONG]
)
@pytest.mark.parametrize("look", ["screen", "projector"])
def test_no_word_of_the_map_is_clipped_or_covered(sentence, look):
    style.use(look)
    try:
        settings = itertools.product(STEPS, (4, 1024))
        walks = [walk_attention(sentence, step=s, d_k=d_k, scale=d_k == 4, mask="causal") for s, d_k in settings]
        found = unreadable(AttentionWalkPicture, walks)
        if len(walks[0].tokens) > LEAN_ABOVE:  # the key labels lean: their boxes overlap, the words do not
            labels = {f"{one!r} runs into {other!r}" for one, other in itertools.permutations(walks[0].tokens, 2)}
            found = [words for words in found if words not in labels]
        assert found == []
    finally:
        style.use("screen")


def test_numbers_stand_in_small_maps_only():
    small, large = Canvas(AttentionWalkPicture), Canvas(AttentionWalkPicture)
    small.render(walk_attention(WIDE))
    large.render(walk_attention(WIDE + " it"))
    assert len(small._picture._map_numbers) == 36 and large._picture._map_numbers == []


# The sweep.


def test_the_sweep_says_all_four_measurements():
    sweep = scaling_sweep()
    assert sweep.error is None
    assert "d_k = 4, not scaled: the scores have variance 4.32" in sweep.sentence
    sweep.set(d_k=64)
    for words in ("variance 67.2", "0.53 in this row and 0.85 on average", "at most 2.77 nats", "0.036 of a gradient"):
        assert words in sweep.sentence
    sweep.set(divided=True)
    assert "divided by √d_k: the scores have variance 1.05" in sweep.sentence
    sweep.set(divided=False, d_k=1024)
    assert "variance 1,020." in sweep.sentence


@pytest.mark.parametrize("seed", range(10))
def test_the_tallest_bar_only_grows_with_the_width_and_stays_when_it_is_divided(seed):
    sweep = scaling_sweep()
    sweep.set(seed=seed)
    tallest = [float(sweep.set(d_k=d_k).result.weights.max()) for d_k in WIDTHS]
    assert tallest == sorted(tallest) and tallest[-1] > tallest[0] + 0.15
    sweep.set(divided=True)
    assert len({float(sweep.set(d_k=d_k).result.weights.max()) for d_k in WIDTHS}) == 1


def test_every_setting_of_the_sweep_is_drawn():
    sweep = scaling_sweep()
    seen = set()
    for d_k, divided in itertools.product(WIDTHS, (False, True)):
        sweep.set(d_k=d_k, divided=divided)
        assert sweep.error is None
        seen.add(sweep.png)
    assert len(seen) == 2 * len(WIDTHS)
    for n_keys, seed in ((2, 0), (32, 9), (4, 5)):
        sweep.set(n_keys=n_keys, seed=seed)
        assert sweep.error is None and len(sweep.result.weights) == n_keys


@pytest.mark.parametrize("n_keys", [2, 32])
def test_no_word_of_the_sweep_is_clipped_or_covered(n_keys):
    assert unreadable(ScalingPicture, [sweep_scaling(d_k=d_k, n_keys=n_keys) for d_k in WIDTHS]) == []


def test_the_bars_show_the_weights():
    canvas = Canvas(ScalingPicture)
    result = sweep_scaling(d_k=16, divided=True)
    canvas.render(result)
    heights = [bar.get_height() for bar in canvas._picture._bars]
    np.testing.assert_allclose(heights, result.weights.numpy())
