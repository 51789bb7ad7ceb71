"""The parameter calculator: every control through its range, every published model, refusals by both names."""

import pytest

from legibility import unreadable
from transformer_lab.accounting.calculator import GROUPS, OWN, SETTINGS, calculate, config_of, settings_of
from transformer_lab.accounting.memory import format_bytes
from transformer_lab.accounting.named_models import NAMED_MODELS
from transformer_lab.accounting.parameters import count_parameters
from transformer_lab.draw import style
from transformer_lab.draw.parameter_bar import ParameterBarPicture, percent
from transformer_lab.widgets.parameter_calculator import parameter_calculator


@pytest.fixture(scope="module")
def shared():
    return parameter_calculator()


@pytest.fixture
def widget(shared):
    shared.set(model="Llama-2-7B")
    return shared


@pytest.fixture(params=["screen", "projector"])
def look(request):
    yield style.use(request.param)
    style.use("screen")


# ------------------------------------------------------------------------------------------------- published models


def test_it_opens_on_a_published_figure(widget):
    assert widget.sentence == (
        "Llama-2-7B: 6,738,415,616 parameters, the published figure. The largest part is “feed-forward”, 64.2 %. In "
        "bfloat16 the weights take 13.48 GB, which is 12.55 GiB. Tied embeddings would save 131,072,000."
    )


@pytest.mark.parametrize("name", NAMED_MODELS)
def test_a_published_model_moves_every_control_and_shows_its_figure(widget, name):
    widget.set(model=name)
    named = NAMED_MODELS[name]
    assert widget.error is None and widget.controls["model"].value == name
    assert {setting: widget.controls[setting].value for setting in SETTINGS} == settings_of(named.config)
    assert widget.result.total == widget.result.published == named.published
    assert f"{named.published:,} parameters, the published figure" in widget.sentence


def test_a_published_model_can_be_the_opening():
    assert parameter_calculator("GPT-2").sentence.startswith("GPT-2: 124,439,808 parameters, the published figure.")
    for wrong in ("GPT-5", OWN):
        with pytest.raises(ValueError, match=f"'model' starts at '{wrong}'; choose one of 'BERT-base'"):
            parameter_calculator(wrong)


def test_a_moved_control_makes_the_model_ones_own(widget):
    widget.set(n_layers=33)
    assert widget.controls["model"].value == OWN and widget.sentence.startswith("Your own model: 6,940,798,976 param")
    assert "published" not in widget.sentence
    widget.set(model="Llama-2-7B")
    assert widget.controls["n_layers"].value == 32 and widget.result.published


def test_the_name_follows_the_settings(widget):
    widget.set(model=OWN)
    assert widget.controls["model"].value == "Llama-2-7B" and widget.result.published
    widget.set(model=OWN, d_ff=11_016)
    assert widget.controls["model"].value == OWN and widget.result.published is None
    widget.set(d_ff=14_336, n_kv_heads=8)
    assert widget.sentence.startswith("Mistral-7B: 7,241,732,096 parameters, the published figure.")


# --------------------------------------------------------------------------------------------------- every control

SWEEPS = {
    "family": ["encoder-only", "decoder-only", "encoder-decoder"],
    "d_model": [64, 2048, 4096, 8192, 32_768],
    "n_layers": [1, 2, 80, 200],
    "n_heads": [1, 2, 8, 64, 256],
    "n_kv_heads": [0, 1, 2, 8, 32],
    "d_head": [0, 2, 64, 256, 1024],
    "d_ff": [8, 16, 16_384, 131_072],
    "activation": ["relu", "gelu", "gelu_tanh", "swiglu", "geglu"],
    "norm": ["layernorm", "rmsnorm"],
    "norm_order": ["pre", "post"],
    "bias": [True, False],
    "vocab": [1, 1000, 1_000_000],
    "tie_embeddings": [True, False],
    "vocab_head": [True, False],
    "position": ["none", "sinusoidal", "rope", "alibi", "relative"],
    "share_layers": [True, False],
    "embedding_norm": [True, False],
    "d_embedding": [0, 16, 128, 32_768],
}


@pytest.mark.parametrize("name", SWEEPS)
def test_every_value_of_a_control_is_counted_and_drawn(widget, name):
    seen = set()
    for value in SWEEPS[name]:
        widget.set(model="Llama-2-7B").set(**{name: value})
        assert widget.error is None
        settings = {setting: widget.controls[setting].value for setting in SETTINGS}
        assert widget.result.total == count_parameters(config_of(settings)).total
        assert f"{widget.result.total:,} parameters" in widget.sentence
        seen.add(widget.png)
    assert len(seen) == len(SWEEPS[name]) or name in ("activation", "position", "d_head", "n_kv_heads", "vocab_head")
    assert len(seen) > 1


@pytest.mark.parametrize(
    ("model", "name", "values"),
    [
        ("T5-small", "n_decoder_layers", [0, 1, 200]),
        ("T5-small", "n_buckets", [4, 32, 254]),
        ("GPT-2", "n_positions", [1, 512, 1_000_000]),
        ("BERT-base", "n_segments", [0, 1, 100]),
        ("BERT-base", "pooler", [True, False]),
        ("BERT-base", "class_token", [True, False]),
        ("BERT-base", "n_classes", [0, 2, 1_000_000]),
        ("ViT-B/16", "d_patch", [1, 768, 10_000]),
    ],
)
def test_controls_of_other_models_are_counted_and_drawn(widget, model, name, values):
    for value in values:
        widget.set(model=model).set(**{name: value})
        assert widget.error is None and settings_of(widget.result.config)[name] == value


def test_every_setting_has_a_control_and_every_control_is_swept():
    swept = set(SWEEPS) | {"n_decoder_layers", "n_buckets", "n_positions", "n_segments", "pooler", "class_token"}
    assert swept | {"n_classes", "d_patch", "model"} == set(parameter_calculator().controls) == {"model", *SETTINGS}


def test_the_number_of_heads_never_moves_the_total(widget):
    widget.set(model="GPT-2")
    totals = set()
    for n_heads in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256):
        totals.add(widget.set(n_heads=n_heads).result.total)
    assert totals == {124_439_808} and widget.error is None


# ------------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("model", "moves", "words"),
    [
        ("GPT-2", {"n_heads": 11}, ("d_model is 768", "n_heads is 11")),
        ("Llama-2-7B", {"n_kv_heads": 5}, ("n_heads is 32", "n_kv_heads is 5")),
        ("BERT-base", {"family": "decoder-only"}, ("family is 'decoder-only'", "n_segments is 2")),
        ("GPT-2", {"d_embedding": 128}, ("tie_embeddings is True", "d_embedding is 128")),
        ("GPT-2", {"vocab": 0}, ("vocab is 0", "d_patch is 0")),
        ("GPT-2", {"n_positions": 0}, ("position is 'learned'", "n_positions is 0")),
        ("Llama-2-7B", {"d_head": 3}, ("position is 'rope'", "d_head is 3")),
        ("BERT-base", {"vocab_head": True}, ("vocab_head is True", "pooler is True")),
    ],
)
def test_an_impossible_model_is_refused_by_both_fields_and_gets_no_number(widget, model, moves, words):
    widget.set(model=model)
    before = widget.result, widget.sentence, widget.png
    widget.set(**moves)
    assert all(word in widget.error for word in words), widget.error
    assert (widget.result, widget.sentence, widget.png) == before
    settings = {setting: widget.controls[setting].value for setting in SETTINGS}
    with pytest.raises(ValueError):
        calculate(OWN, **settings)
    assert widget.set(model=model).error is None


@pytest.mark.parametrize(("name", "value"), [("d_model", 0), ("d_model", 40_000), ("vocab", -1), ("vocab", 2_000_000)])
def test_limits_are_explicit(widget, name, value):
    before = widget.values
    widget.set(**{name: value})
    control = widget.controls[name]
    assert f"choose between {control.min} and {control.max}" in widget.error and widget.values == before


def test_controls_that_mean_nothing_are_off(widget):
    def off():
        return {name for name, control in widget.controls.items() if control.disabled}

    assert off() == {"n_decoder_layers", "n_positions", "n_buckets"}
    widget.set(model="T5-small")
    assert off() == {"n_positions"}
    widget.set(model="BERT-base")
    assert off() == {"n_decoder_layers", "n_buckets", "tie_embeddings"}


def test_a_table_of_positions_that_is_not_used_is_not_refused(widget):
    widget.set(model="GPT-2", position="rope")
    assert widget.error is None and widget.result.config.n_positions == 0
    assert widget.result.total == 124_439_808 - 1024 * 768


# ------------------------------------------------------------------------------------------------- what is shown


def test_groups_hold_every_part_once_and_add_up():
    names = [name for parts in GROUPS.values() for name in parts]
    assert len(names) == len(set(names))
    for name, named in NAMED_MODELS.items():
        result = calculate(name, **settings_of(named.config))
        assert {part.name for part in count_parameters(named.config).parts} <= set(names)
        assert sum(group.count for group in result.groups) == result.total


def test_a_tied_or_shared_part_says_so():
    def notes(name):
        result = calculate(name, **settings_of(NAMED_MODELS[name].config))
        return {group.name: group.note for group in result.groups}

    assert notes("GPT-2")["vocabulary head"] == "tied: it is the token embedding"
    assert notes("ALBERT-base v2")["attention"] == "one, shared by all"
    assert notes("Llama-2-7B")["feed-forward"] == "32 × 135,266,304"
    assert notes("Llama-2-7B")["norms"] == "65 × 4,096"


def test_bytes_are_shown_in_both_units(widget):
    rows = {row[0]: row[1:] for row in widget.result.bytes_table}
    total = widget.result.total
    assert rows["float32"] == (format_bytes(4 * total), format_bytes(4 * total, binary=True))
    assert rows["int4"] == (format_bytes(total // 2), format_bytes(total // 2, binary=True))
    assert list(rows) == ["float32", "bfloat16", "float16", "int8", "int4"]


def test_the_pointer_reads_rows_and_bar(widget):
    texts = [region.text for region in widget.regions]
    assert texts.count("feed-forward: 4,328,521,728, 64.2 % (32 × 135,266,304)") == 2
    assert "cross-attention: 0, 0.0 % (none)" in texts


@pytest.mark.parametrize(("count", "total", "words"), [(0, 9, "0.0 %"), (1, 9000, "< 0.1 %"), (1, 8, "12.5 %")])
def test_a_share_that_is_there_is_never_shown_as_nothing(count, total, words):
    assert percent(count, total) == words


EXTREMES = {
    "tiny": {"d_model": 8, "n_layers": 1, "n_heads": 1, "d_ff": 8, "vocab": 1, "n_positions": 1},
    "huge": {"d_model": 32_768, "n_layers": 200, "n_heads": 256, "d_ff": 131_072, "vocab": 1_000_000,
             "n_positions": 1_000_000},
    "vocabulary alone": {"d_model": 8, "n_layers": 1, "n_heads": 1, "d_ff": 8, "vocab": 1_000_000},
    "cross-attention": {"family": "encoder-decoder", "n_decoder_layers": 200, "d_ff": 8},
    "feed-forward alone": {"d_model": 32_768, "d_ff": 131_072, "n_heads": 1, "d_head": 2},
    "everything": {"family": "encoder-only", "n_segments": 7, "class_token": True, "pooler": True, "n_classes": 12_345,
                   "vocab_head": False, "d_embedding": 64, "embedding_norm": True, "share_layers": True},
}  # fmt: skip


def test_no_word_is_clipped_or_covered(look):
    settings = [settings_of(named.config) for named in NAMED_MODELS.values()]
    settings += [settings_of(NAMED_MODELS["GPT-2"].config) | changes for changes in EXTREMES.values()]
    results = [calculate(OWN, **each) for each in settings]
    assert unreadable(ParameterBarPicture, results) == []
