"""What holds for every widget of the course: it opens, it can be reached by keyboard, it refuses by name."""

import inspect
import pkgutil
from importlib import import_module

import ipywidgets
import pytest

from transformer_lab import widgets
from transformer_lab.experiments.attention_walk import walk_attention
from transformer_lab.experiments.extrapolation import LookingBack
from transformer_lab.experiments.objectives import train_family
from transformer_lab.experiments.one_or_two_heads import train_reader
from transformer_lab.experiments.translation import train_translator
from transformer_lab.tasks.words import WORDS
from transformer_lab.widgets.attention_explorer import attention_explorer
from transformer_lab.widgets.block_walk import block_walk
from transformer_lab.widgets.bug_clinic import bug_clinic
from transformer_lab.widgets.depth_and_gradient import depth_and_gradient
from transformer_lab.widgets.explorer import Explorer
from transformer_lab.widgets.fill_the_blank import fill_the_blank
from transformer_lab.widgets.gate_explorer import gate_explorer
from transformer_lab.widgets.gradient_gap import gradient_gap
from transformer_lab.widgets.head_grid import head_grid
from transformer_lab.widgets.kv_sharing import kv_sharing
from transformer_lab.widgets.mask_painter import mask_painter
from transformer_lab.widgets.norm_explorer import norm_explorer
from transformer_lab.widgets.padding_lab import padding_lab
from transformer_lab.widgets.pairs import pairs_explorer
from transformer_lab.widgets.parameter_calculator import parameter_calculator
from transformer_lab.widgets.permutation_lab import permutation_lab
from transformer_lab.widgets.position_schemes import alibi_slopes_explorer, rope_dials, sinusoid_clock
from transformer_lab.widgets.rope_lookalikes import rope_lookalikes
from transformer_lab.widgets.scaling_sweep import scaling_sweep
from transformer_lab.widgets.translate_and_inspect import translate_and_inspect
from transformer_lab.widgets.wiring_selector import wiring_selector
from transformer_lab.widgets.work_against_rule import work_against_rule

MAKERS = {
    "alibi_slopes_explorer": alibi_slopes_explorer,
    "attention_explorer": attention_explorer,
    "block_walk": block_walk,
    "bug_clinic": bug_clinic,
    "depth_and_gradient": depth_and_gradient,
    "fill_the_blank": lambda: fill_the_blank(
        *(train_family(family, steps=1).model for family in ("encoder-only", "decoder-only"))
    ),
    "gate_explorer": gate_explorer,
    "gradient_gap": gradient_gap,
    "head_grid": lambda: head_grid(train_reader(4, n_heads=4, steps=1)),
    "kv_sharing": kv_sharing,
    "mask_painter": mask_painter,
    "norm_explorer": norm_explorer,
    "padding_lab": padding_lab,
    "pairs_explorer": pairs_explorer,
    "parameter_calculator": parameter_calculator,
    "permutation_lab": permutation_lab,
    "rope_dials": rope_dials,
    "rope_lookalikes": lambda: rope_lookalikes(LookingBack("rope")),
    "scaling_sweep": scaling_sweep,
    "sinusoid_clock": sinusoid_clock,
    "translate_and_inspect": lambda: translate_and_inspect(train_translator(stages=((1, 1e-3),)), step=1),
    "wiring_selector": wiring_selector,
    "work_against_rule": work_against_rule,
}
# What the browser draws as something the Tab key stops at.
REACHABLE = (
    ipywidgets.Button,
    ipywidgets.Checkbox,
    ipywidgets.Dropdown,
    ipywidgets.ToggleButtons,
    ipywidgets.Text,
    ipywidgets.BoundedIntText,
    ipywidgets.BoundedFloatText,
    ipywidgets.IntSlider,
    ipywidgets.FloatSlider,
    ipywidgets.SelectionSlider,
)


def test_no_widget_of_the_library_is_missing_here():
    found = set()
    for module in pkgutil.iter_modules(widgets.__path__, "transformer_lab.widgets."):
        for name, function in inspect.getmembers(import_module(module.name), inspect.isfunction):
            own = function.__module__ == module.name and not name.startswith("_")
            if own and name != "show" and inspect.signature(function).return_annotation is Explorer:
                found.add(name)
    assert found == set(MAKERS)


@pytest.fixture(scope="module", params=MAKERS)
def widget(request):
    return MAKERS[request.param]()


def test_it_opens_with_a_picture_and_a_sentence(widget):
    assert widget.error is None and widget.png and widget.sentence.endswith(".")


def in_rows(parts):
    """The controls of rows, and of rows folded away."""
    boxes = (ipywidgets.Box, ipywidgets.Accordion)
    return [found for part in parts for found in (in_rows(part.children) if isinstance(part, boxes) else [part])]


def test_every_control_is_labelled_reachable_and_shown_once(widget):
    shown = in_rows(widget.children[:-1])
    assert all(control in shown for control in widget.controls.values())
    assert len(shown) == len({control.model_id for control in shown})
    labels = [control.description for control in shown]
    assert all(labels) and len(set(labels)) == len(labels)
    for control in shown:
        assert isinstance(control, REACHABLE) and control.tabbable is not False and not control.tooltip


def test_the_pointer_reads_inside_the_picture(widget):
    rendering = widget._rendering
    for region in widget.regions:
        assert (
            0 <= region.left < region.right <= rendering.width and 0 <= region.top < region.bottom <= rendering.height
        )
        assert region.text.strip()


def test_bad_values_move_nothing_and_are_named(widget):
    before = widget.values, widget.png
    for name, control in widget.controls.items():
        widget.set(**{name: None})
        assert widget.error == f"{control.description}: None is not one of its values."
        assert (widget.values, widget.png) == before
    assert widget.set().error is None and widget.png == before[1]


@pytest.mark.parametrize(
    ("make", "given", "words"),
    [
        (attention_explorer, {"query": 9}, "'Query' starts at 9; choose one of 0, 1, 2, 3."),
        (attention_explorer, {"key": -1}, "'Key' starts at -1; choose one of"),
        (attention_explorer, {"step": "zzz"}, "'Step' starts at 'zzz'; choose one of 'scores', 'scaled'"),
        (scaling_sweep, {"d_k": 5}, "'d_k' starts at 5; choose one of 4, 8, 16"),
        (scaling_sweep, {"divided": "no"}, "'divide by √d_k' starts at 'no'; give True or False"),
        (padding_lab, {"review": "bad"}, "'Review' starts at 'bad'; choose one of 'the film was great'"),
        (padding_lab, {"n_pads": 2.5}, "'Pads in batch B' starts at 2.5; it takes whole numbers"),
        (padding_lab, {"n_pads": 125}, "'Pads in batch B' starts at 125, outside its limits 0 … 124"),
        (bug_clinic, {"ward": 1.5}, "'Ward' starts at 1.5; it takes whole numbers"),
        (kv_sharing, {"n_kv_heads": 3}, "'key/value heads' starts at 3; choose one of 8, 4, 2, 1."),
        (parameter_calculator, {"model": "x"}, "'model' starts at 'x'; choose one of 'BERT-base'"),
        (gradient_gap, {"radius": 9}, "'RNN: spectral radius' starts at 9, outside its limits 0.5 … 1.5"),
        (permutation_lab, {"scheme": "x"}, "'Positions' starts at 'x'; choose one of 'none', 'learned'"),
        (sinusoid_clock, {"position": "3"}, "'position p' needs finite numbers; got low 0, high 300, value '3'"),
        (rope_dials, {"layout": "x"}, "'Layout' starts at 'x'; choose one of 'interleaved', 'half_split'"),
        (alibi_slopes_explorer, {"head": 9}, "'look at head' starts at 9, outside its limits 1 … 8"),
        (block_walk, {"token": 6}, "'Token' starts at 6; choose one of 0, 1, 2, 3, 4, 5."),
        (depth_and_gradient, {"depth": 25}, "'Blocks' starts at 25, outside its limits 1 … 24"),
        (norm_explorer, {"eps": 0.5}, "'ε' starts at 0.5; choose one of 0.0, 1e-05, 0.01, 1.0."),
        (gate_explorer, {"force": "x"}, "'At this step, force' starts at 'x'; choose one of 'nothing'"),
    ],
)
def test_a_wrong_opening_is_refused_by_name(make, given, words):
    with pytest.raises(ValueError) as refused:
        make(**given)
    assert words in str(refused.value)


@pytest.mark.parametrize("sentence", ["bank", "river bank", "The boat crossed the river"])
def test_the_attention_explorer_opens_on_any_sentence(sentence):
    explorer = attention_explorer(sentence)
    assert explorer.error is None and explorer.result.query_index == len(sentence.split()) - 1


@pytest.mark.parametrize(
    ("make", "before", "moves"),
    [
        (mask_painter, {"n_query": 1}, {"row": 8, "n_query": 8}),
        (attention_explorer, {}, {"step": "masked", "mask": "causal"}),
        (attention_explorer, {}, {"key": 4, "query": 3, "sentence": "The boat crossed the river"}),
        (bug_clinic, {}, {"diagnosis": "no_causal", "next_patient": 1, "ward": 5}),
        (permutation_lab, {}, {"second": 4, "first": 3, "sentence": "one two three four five"}),
        (alibi_slopes_explorer, {"n_heads": 2}, {"head": 12, "n_heads": 12}),
        (parameter_calculator, {"model": "GPT-2"}, {"d_model": 1024, "n_heads": 16, "vocab": 1000}),
        (gate_explorer, {"sequence": "+?"}, {"step": 5, "sequence": "+..?."}),
    ],
)
def test_moves_work_in_any_order(make, before, moves):
    results = []
    for given in (moves, dict(reversed(moves.items()))):
        lab = make().set(**before).set(**given)
        assert lab.error is None and lab.values == lab.values | moves
        results.append(lab.png)
    assert results[0] == results[1]


def test_a_word_that_repeats_is_named_with_its_place():
    explorer = attention_explorer("the bank saw the bank", query=1, key=4, step="weights")
    assert explorer.sentence.startswith("“2 bank” puts 0.29 on “saw”. “5 bank” gets 0.18.")
    texts = {region.text.split(": ")[0] for region in explorer.regions}
    assert "query 2 bank, key 5 bank" in texts and "query saw, key 4 the" in texts
    assert attention_explorer("The bank saw it").result.names == ("The", "bank", "saw", "it")
    assert attention_explorer("The bank saw the").result.names[::3] == ("1 The", "4 the")


def test_no_zero_has_a_sign():
    for d_k in (16, 64):  # random queries and keys: scores on both sides of zero
        explorer = attention_explorer("The boat crossed the deep river near the flooded bank", step="scaled")
        explorer.set(d_k=d_k, temperature=20.0)
        for query in range(10):
            for key in range(10):
                if abs(explorer.result.scaled[query, key]) < 0.005:
                    explorer.set(query=query, key=key)
                    texts = [explorer.sentence, *(region.text for region in explorer.regions)]
                    assert not [text for text in texts if "−0.00" in text or "-0.00" in text]
    below = 0
    for word in WORDS:  # alone, its one score is the best of its row
        walk = walk_attention(word, step="scaled", d_k=16, temperature=5000.0)
        below += -0.005 < walk.scaled.item() < 0
        assert "−0.00" not in walk.finding
    assert below  # at least one of them would have had a sign
