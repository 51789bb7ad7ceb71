"""What the three families promise, for every kind of config: padding, reading, caches, shared tensors, refusals."""

import copy
import re
from dataclasses import replace

import jaxtyping
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.testing import assert_close

from oracles import randn
from small_configs import configs, on_meta
from transformer_lab.model.attention import Attention
from transformer_lab.model.cache import KeyValueCache
from transformer_lab.model.config import FAMILIES, POSITIONS, TransformerConfig
from transformer_lab.model.embedding import Embedding
from transformer_lab.model.families import DecoderOnly, EncoderDecoder, EncoderOnly, build
from transformer_lab.model.masks import padding_mask
from transformer_lab.model.recording import record_attention

SIZES = {"d_model": 12, "n_layers": 2, "n_heads": 4, "d_ff": 20, "position": "none"}
ENCODER = TransformerConfig(family="encoder-only", vocab=7, **SIZES)
DECODER = replace(ENCODER, family="decoder-only")
BOTH = replace(ENCODER, family="encoder-decoder")
CLASSES = replace(ENCODER, vocab_head=False, n_classes=3, pooler=True)
LENGTH = 5

@pytest.fixture(autouse=True, scope="module")
def shapes_are_not_executed():
    """Numbers are compared here, many times; tests/test_config.py executes the annotated shapes for every config."""
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", before)


few = settings(max_examples=12, deadline=None, derandomize=True)
each_position = pytest.mark.parametrize("position", POSITIONS)
each_family = pytest.mark.parametrize("family", FAMILIES)
each_decoder = pytest.mark.parametrize("family", FAMILIES[1:])


def with_position(config: TransformerConfig, position: str) -> TransformerConfig:
    """The same with another scheme, so that each scheme meets many configs."""
    d_head = config.head_width + config.head_width % 2  # rotary positions need an even width
    return replace(config, position=position, n_positions=19 if position == "learned" else 0, d_head=d_head)


def build_seeded(config: TransformerConfig) -> nn.Module:
    torch.manual_seed(0)
    return build(config).eval()


def made(config: TransformerConfig) -> nn.Module:
    """The model in float64, with no tensor at the 0 or 1 that it starts with."""
    model = build_seeded(config).double()
    with torch.no_grad():
        for i, tensor in enumerate(model.parameters()):
            tensor.add_(0.3 * randn(*tensor.shape, seed=i, dtype=torch.float64))
    return model


def sentences(config: TransformerConfig, batch: int = 3, length: int = LENGTH, seed: int = 0) -> Tensor:
    if config.d_patch:
        return randn(batch, length, config.d_patch, seed=seed, dtype=torch.float64)
    return torch.randint(0, config.vocab, (batch, length), generator=torch.Generator().manual_seed(seed))


def run(model: nn.Module, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
    """One pass; beside an encoder the target is the source again, so that both sides are padded."""
    if isinstance(model, EncoderDecoder):
        return model(inputs, inputs, source_mask=mask, target_mask=mask)
    return model(inputs, mask=mask)


def step_by_step(model: nn.Module, inputs: Tensor, mask: Tensor | None, cuts: list[int]) -> Tensor:
    """The same through caches, in chunks that end at ``cuts``."""
    caches, outputs, start = model.new_caches(), [], 0
    memory = model.encode(inputs, mask=mask) if isinstance(model, EncoderDecoder) else None
    for end in cuts:
        words = {"mask": None if mask is None else mask[..., :end], "caches": caches}
        if memory is None:
            outputs.append(model(inputs[:, start:end], **words))
        else:
            outputs.append(model.decode(inputs[:, start:end], memory, memory_mask=mask, **words))
        start = end
    return torch.cat(outputs, dim=1)


def real_rows(config: TransformerConfig, outputs: Tensor, row: Tensor) -> Tensor:
    """The vectors of the real tokens of one sentence, and that of a class token in front."""
    if outputs.ndim == 1:  # class logits, one vector for the sentence
        return outputs
    return outputs[F.pad(row, (1, 0), value=True) if config.class_token else row]


# ------------------------------------------------------------------------------------------------------- embeddings


@torch.no_grad()
def test_what_goes_into_the_first_block():
    """Token vectors times the root of their width, then segments and positions, then the matrix that widens them."""
    config = replace(CLASSES, scale_embeddings=True, n_segments=2, d_embedding=6, position="learned", n_positions=9)
    model, tokens = made(config), sentences(config)
    segments = tokens % 2
    entered = []
    model.encoder.register_forward_pre_hook(lambda module, args: entered.append(args[0]))
    model(tokens, segments=segments)
    own = model.embedding
    summed = own.token(tokens) * 6**0.5 + own.segment(segments) + own.position.table.weight[:LENGTH]
    assert_close(entered[0], own.widen(summed))
    assert torch.equal(model(tokens), model(tokens, segments=torch.zeros_like(tokens)))


@pytest.mark.parametrize("config", [ENCODER, DECODER, BOTH], ids=FAMILIES)
def test_tied_logits_start_near_one(config):
    config = replace(config, d_model=64, vocab=500, norm="rmsnorm")
    model = build_seeded(config)
    assert abs(tables(model)[0].std() * 8 - 1) < 0.05
    assert 0.9 < run(model, sentences(config, 8, 20)).std() < 1.1


# ---------------------------------------------------------------------------------------------- padding and batches


@torch.no_grad()
@each_family
@few
@given(data=st.data(), side=st.sampled_from(("left", "right")), lengths=st.tuples(*[st.integers(1, LENGTH)] * 3))
def test_a_padded_sentence_gives_what_it_gives_alone(family, data, side, lengths):
    config = data.draw(configs(families=(family,)))
    model, inputs = made(config), sentences(config)
    mask = padding_mask(lengths, LENGTH, side=side)
    together = run(model, inputs, mask)
    for i, row in enumerate(mask[:, 0, 0]):
        alone = run(model, inputs[i : i + 1, row])[0]
        assert_close(real_rows(config, together[i], row), alone)


@torch.no_grad()
@each_family
@few
@given(data=st.data(), order=st.permutations(range(3)))
def test_sentences_of_a_batch_do_not_meet(family, data, order):
    config = data.draw(configs(families=(family,)))
    model, inputs = made(config), sentences(config)
    outputs = run(model, inputs)
    assert_close(run(model, inputs[order]), outputs[order])
    inputs[0] = sentences(config, seed=1)[0]
    assert_close(run(model, inputs)[1:], outputs[1:])


@torch.no_grad()
@each_position
@pytest.mark.parametrize("side", ["left", "right"])
def test_a_class_token_stands_in_front_of_the_padding_and_is_never_masked(position, side):
    config = with_position(replace(CLASSES, class_token=True), position)
    model, tokens = made(config), sentences(config)
    mask = padding_mask([1, 2, 5], LENGTH, side=side)
    hidden = model.encode(tokens, mask=mask)
    assert hidden.shape == (3, 1 + LENGTH, 12)
    for i, row in enumerate(mask[:, 0, 0]):
        assert_close(real_rows(config, hidden[i], row), model.encode(tokens[i : i + 1, row])[0])
    assert_close(model(tokens, mask=mask), model.head(model.pooler(hidden[:, 0])))


@torch.no_grad()
def test_pooling_takes_the_first_token_and_not_a_pad():
    model = made(CLASSES)
    mask = padding_mask([2, 5, 3], LENGTH, side="left")
    hidden = model.encode(sentences(CLASSES), mask=mask)
    first = torch.stack((hidden[0, 3], hidden[1, 0], hidden[2, 2]))
    assert torch.equal(model.pool(hidden, mask=mask), model.pooler(first))
    assert torch.equal(model.pool(hidden, mask=None), model.pooler(hidden[:, 0]))
    with pytest.raises(TypeError, match="mask"):  # left out, it would pool a pad without a word
        model.pool(hidden)
    assert torch.equal(model(sentences(CLASSES), mask=mask), model.head(model.pooler(first)))


# ------------------------------------------------------------------------------------------------------- who reads whom


@torch.no_grad()
@each_decoder
@few
@given(data=st.data(), start=st.integers(1, LENGTH - 1))
def test_no_decoder_reads_ahead(family, data, start):
    config = data.draw(configs(families=(family,)))
    model, inputs = made(config), sentences(config)
    changed = inputs.clone()
    changed[:, start:] = (changed[:, start:] + 1) % config.vocab
    if isinstance(model, EncoderDecoder):
        before, after = model(inputs, inputs), model(inputs, changed)
    else:
        before, after = model(inputs), model(changed)
    assert_close(after[:, :start], before[:, :start])


READS = {
    ENCODER: {"embedding": "everything"},
    DECODER: {"embedding": "what stands before"},
    BOTH: {"source_embedding": "everything", "target_embedding": "what stands before"},
}


@each_position
@pytest.mark.parametrize("config", READS, ids=FAMILIES)
def test_who_reads_whom(config, position):
    model, inputs = made(with_position(config, position)), sentences(config)
    embedded = {}
    for name in READS[config]:
        getattr(model, name).register_forward_hook(
            lambda module, args, output, name=name: embedded.update({name: output[0]})
        )
    outputs = run(model, inputs)
    triangle = torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril()
    for name, wanted in READS[config].items():
        reaches = reach(outputs, embedded[name])
        assert torch.equal(reaches, triangle if wanted == "what stands before" else torch.ones_like(triangle))


def reach(outputs: Tensor, embedded: Tensor) -> Tensor:
    """(output position, input position): whether a change of one input reaches the output of one row."""
    gradients = [torch.autograd.grad(outputs[0, i].sum(), embedded, retain_graph=True)[0][0] for i in range(LENGTH)]
    return torch.stack(gradients).abs().amax(dim=-1) > 1e-9


# ------------------------------------------------------------------------------------------------------------- caches


@torch.no_grad()
@pytest.mark.case("P08")
@pytest.mark.case("M09")
@pytest.mark.case("M11")
@each_position
@settings(max_examples=12, deadline=None, derandomize=True)
@given(data=st.data())
def test_cached_steps_equal_the_whole_pass(position, data):
    config = with_position(data.draw(configs(families=FAMILIES[1:])), position)
    cuts = sorted(data.draw(st.sets(st.integers(1, LENGTH - 1)))) + [LENGTH]
    side = data.draw(st.sampled_from((None, "left", "right")))
    mask = side and padding_mask([5, 2, 4], LENGTH, side=side)
    model, inputs = made(config), sentences(config)
    whole, stepped = run(model, inputs, mask), step_by_step(model, inputs, mask, cuts)
    rows = slice(None) if mask is None else mask[:, 0, 0]
    assert_close(stepped[rows], whole[rows])


@torch.no_grad()
@pytest.mark.parametrize("config", [DECODER, BOTH, replace(DECODER, share_layers=True)])
def test_a_refused_step_leaves_every_cache_as_it_was(config):
    model, inputs = made(with_position(config, "rope")), sentences(config)
    caches, memory = model.new_caches(), randn(3, 4, 12, dtype=torch.float64)

    def step(tokens: Tensor) -> Tensor:
        if isinstance(model, EncoderDecoder):
            return model.decode(tokens, memory, caches=caches)
        return model(tokens, caches=caches)

    step(inputs[:, :3])
    before = [copy.copy(cache) for cache in caches]

    def fail(*_: object) -> None:
        raise RuntimeError("half way")

    for module in (model.decoder.blocks[-1].feedforward, model.decoder.final_norm):
        handle = module.register_forward_hook(fail)
        with pytest.raises(RuntimeError, match="half way"):
            step(inputs[:, 3:])
        handle.remove()
        for cache, old in zip(caches, before, strict=True):
            assert cache.key is old.key and cache.value is old.value and cache.position_ids is old.position_ids
    whole = model.decode(inputs, memory) if isinstance(model, EncoderDecoder) else model(inputs)
    assert_close(step(inputs[:, 3:]), whole[:, 3:])


REAL = torch.ones(3, 1, 1, LENGTH, dtype=torch.bool)
PADDED = padding_mask([5, 2, 4], LENGTH, side="left")
# The mask of the first call, the mask of the second, what the message says of them.
CONTRADICTIONS = {
    "a cached token is hidden": (None, PADDED, "is another.* token 0 of sentence 1 was real"),
    "of several": (REAL, PADDED, "is another.* token 0 of sentence 1 was real"),
    "a pad is shown": (PADDED, REAL, "is another.* token 0 of sentence 1 was a pad"),
    "a pad is forgotten": (PADDED, None, "is missing.* token 0 of sentence 1 was a pad"),
    "other pads": (padding_mask([5, 1, 4], LENGTH), PADDED, "is another.* token 0 of sentence 1 was real"),
}


@torch.no_grad()
@each_position
@pytest.mark.parametrize("n_cached", [1, 2, 4])
@pytest.mark.parametrize(("before", "after", "said"), CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_a_mask_repeats_what_the_caches_were_filled_with(before, after, said, n_cached, position, plain_errors):
    config = with_position((DECODER, BOTH)[n_cached % 2], position)
    model, inputs = made(config), sentences(config)
    caches, memory = model.new_caches(), randn(3, 4, 12, dtype=torch.float64)

    def call(start: int, end: int, mask: Tensor | None) -> Tensor:
        words = {"mask": mask if mask is None else mask[..., :end], "caches": caches}
        tokens = inputs[:, start:end]
        return model.decode(tokens, memory, **words) if isinstance(model, EncoderDecoder) else model(tokens, **words)

    call(0, n_cached, before)
    with pytest.raises(ValueError, match=rf"^mask of \w+ {said}: repeat the mask of the {n_cached} cached tokens"):
        call(n_cached, LENGTH, after)
    call(n_cached, LENGTH, before)  # the refused call has changed nothing
    assert len(caches[0]) == LENGTH


@torch.no_grad()
def test_a_mask_that_the_caller_writes_in_later_is_remembered_as_it_was():
    model, inputs = made(DECODER), sentences(DECODER)
    caches, mask = model.new_caches(), PADDED.clone()
    model(inputs[:, :2], mask=mask[..., :2], caches=caches)
    mask[1, ..., 0] = True
    with pytest.raises(ValueError, match="token 0 of sentence 1 was a pad"):
        model(inputs[:, 2:], mask=mask, caches=caches)


@torch.no_grad()
def test_the_source_is_encoded_once_for_all_steps():
    model, inputs = made(BOTH), sentences(BOTH)
    passes = []
    model.encoder.register_forward_hook(lambda *_: passes.append(1))
    step_by_step(model, inputs, None, [1, 2, 3, 4, 5])
    assert len(passes) == 1


# ---------------------------------------------------------------------------------------------------- shared tensors


def tables(model: nn.Module) -> list[Tensor]:
    """The token embeddings of a model, two of them beside an encoder."""
    return [module.token.weight for module in model.modules() if isinstance(module, Embedding)]


@pytest.mark.case("C03")
@pytest.mark.parametrize("config", [ENCODER, DECODER, BOTH], ids=FAMILIES)
def test_tied_weights_are_one_tensor_and_stay_so(config):
    for model in (build_seeded(config), copy.deepcopy(build_seeded(config)), build_seeded(config).double()):
        start, optimizer = model.head.weight.clone(), torch.optim.SGD(model.parameters(), lr=0.1)
        F.cross_entropy(run(model, sentences(config)).flatten(0, 1), sentences(config, seed=1).flatten()).backward()
        optimizer.step()
        assert not torch.equal(model.head.weight, start)
        assert all(table is model.head.weight for table in tables(model))
    untied = build_seeded(replace(config, tie_embeddings=False))
    assert {table.data_ptr() for table in tables(untied)} == {tables(untied)[0].data_ptr()} != {
        untied.head.weight.data_ptr()
    }


@pytest.mark.parametrize("config", [ENCODER, DECODER, BOTH], ids=FAMILIES)
def test_shared_layers_are_one_block_run_again(config):
    one, three = (made(replace(config, share_layers=True, n_layers=n)) for n in (1, 3))
    assert sum(p.numel() for p in one.parameters()) == sum(p.numel() for p in three.parameters())
    separate = made(replace(config, n_layers=3))
    with torch.no_grad():
        own = dict(separate.named_parameters())
        for name, tensor in three.named_parameters():
            for i in range(3):
                own[name.replace(".blocks.0.", f".blocks.{i}.")].copy_(tensor)
    assert_close(run(three, sentences(config)), run(separate, sentences(config)))
    run(three, sentences(config)).square().sum().backward()
    run(separate, sentences(config)).square().sum().backward()
    name = "encoder" if hasattr(three, "encoder") else "decoder"
    shared = getattr(three, name).blocks[0].feedforward.sublayer.up.weight.grad
    summed = sum(block.feedforward.sublayer.up.weight.grad for block in getattr(separate, name).blocks)
    assert_close(shared, summed)


# ------------------------------------------------------------------------------------- seeds, kinds of numbers, devices


@torch.no_grad()
@each_family
@few
@given(data=st.data())
def test_weights_follow_from_the_seed_and_survive_saving(family, data):
    config = data.draw(configs(families=(family,)))
    models = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        models.append(build(config).eval())
    inputs = sentences(config).float() if config.d_patch else sentences(config)
    first, again, other = (run(model, inputs) for model in models)
    assert torch.equal(first, again) and first.isfinite().all()
    models[2].load_state_dict(models[0].state_dict(), strict=True)
    assert torch.equal(run(models[2], inputs), first)
    if config.embedding_width > 2:  # a norm over two components leaves only signs
        assert not torch.equal(first, other)


@torch.no_grad()
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 0.1), (torch.float16, 0.02)])
@each_position
def test_narrow_floats_stay_near_float64(position, dtype, tolerance):
    for config in (ENCODER, DECODER, BOTH):
        wide = build_seeded(with_position(config, position))
        narrow = build_seeded(with_position(config, position)).to(dtype)
        outputs, wanted = run(narrow, sentences(config)), run(wide.double(), sentences(config))
        assert outputs.dtype == dtype and (outputs.double() - wanted).abs().max() < tolerance


@each_decoder
@settings(few, max_examples=8)
@given(data=st.data())
def test_cached_steps_run_without_memory(family, data):
    config = data.draw(configs(families=(family,)))
    model = on_meta(config)
    tokens = torch.zeros(2, 3, dtype=torch.long, device="meta")
    mask = torch.ones(2, 1, 1, 3, dtype=torch.bool, device="meta")
    assert step_by_step(model, tokens, mask, [2, 3]).shape[:2] == (2, 3)


@pytest.mark.parametrize("config", [ENCODER, DECODER, BOTH], ids=FAMILIES)
def test_dropout_acts_everywhere_in_training_and_nowhere_else(config):
    model, plain, inputs = made(replace(config, dropout=0.5)), made(config), sentences(config)
    assert_close(run(model, inputs), run(plain, inputs))
    torch.manual_seed(0)
    places = [module for module in model.modules() if isinstance(module, (nn.Dropout, Attention))]
    for place in places:
        place.train()  # this one alone
        assert not torch.allclose(run(model, inputs), run(plain, inputs))
        place.eval()
    # the embeddings; in each block an attention map and what each sublayer adds
    assert len(places) == {ENCODER: 1 + 2 * 3, DECODER: 1 + 2 * 3, BOTH: 2 + 2 * 3 + 2 * 5}[config]


# ------------------------------------------------------------------------------------------------------ recorded maps

NAMES = {
    ENCODER: ["encoder.blocks.{}.self_attention.sublayer"],
    DECODER: ["decoder.blocks.{}.self_attention.sublayer"],
    BOTH: [
        "encoder.blocks.{}.self_attention.sublayer",
        "decoder.blocks.{}.self_attention.sublayer",
        "decoder.blocks.{}.cross_attention.sublayer",
    ],
}


@torch.no_grad()
@pytest.mark.parametrize("config", NAMES, ids=FAMILIES)
@pytest.mark.parametrize("changes", [{}, {"n_kv_heads": 2}, {"share_layers": True}], ids=["plain", "grouped", "shared"])
def test_attention_maps_of_every_family(config, changes):
    model, inputs = made(replace(config, **changes)), sentences(config)
    mask = padding_mask([5, 2, 4], LENGTH)
    plain = run(model, inputs, mask)
    with record_attention(model) as maps:
        assert_close(run(model, inputs, mask), plain)
    shared = model.config.share_layers
    wanted = {name.format(i): 1 + shared for name in NAMES[config] for i in ([0] if shared else [0, 1])}
    assert {name: len(calls) for name, calls in maps.items()} == wanted
    for name, calls in maps.items():
        for weights in calls:
            assert weights.shape == (3, 4, LENGTH, LENGTH)
            assert_close(weights.sum(dim=-1), torch.ones(3, 4, LENGTH, dtype=torch.float64))
            assert not weights.masked_select(~mask).any()
            assert bool(weights.triu(1).any()) != name.startswith("decoder") or "cross" in name


# ---------------------------------------------------------------------------------------------------- what is refused

TOKENS, MASK = sentences(ENCODER), padding_mask([5, 2, 4], LENGTH)
MEMORY = randn(3, 4, 12)
PATCHED = replace(CLASSES, vocab=0, d_patch=6)


def filled(model: nn.Module, n: int = 2, mask: Tensor | None = None) -> list[KeyValueCache]:
    caches = model.new_caches()
    model(TOKENS[:, :n], caches=caches, mask=mask)
    return caches


MISTAKES = {
    "floats": (ENCODER, lambda m: m(TOKENS.float()), TypeError, r"inputs has dtype torch.float32.*\.long\(\)"),
    "booleans": (DECODER, lambda m: m(TOKENS > 1), TypeError, "tokens has dtype torch.bool"),
    "a list": (DECODER, lambda m: m([[1, 2]]), TypeError, "tokens is a list.*as_tensor"),
    "no batch": (DECODER, lambda m: m(TOKENS[0]), ValueError, r"tokens has shape \(5,\); it must be \(batch, length\)"),
    "no tokens": (DECODER, lambda m: m(TOKENS[:, :0]), ValueError, r"tokens has shape \(3, 0\)"),
    "too high": (DECODER, lambda m: m(TOKENS + 7), ValueError, r"tokens holds \d+; config.vocab is 7.*raise vocab"),
    "negative": (BOTH, lambda m: m(TOKENS - 7, TOKENS), ValueError, r"source holds -\d; config.vocab is 7"),
    "target": (BOTH, lambda m: m(TOKENS, TOKENS + 7), ValueError, "target holds"),
    "patches of another width": (PATCHED, lambda m: m(randn(3, 4, 5)), ValueError, r"inputs has shape.*d_patch = 6"),
    "patches of another dtype": (
        PATCHED, lambda m: m(randn(3, 4, 6).double()), TypeError, "inputs has dtype torch.float64.*the weights"),
    "tokens for patches": (PATCHED, lambda m: m(TOKENS), TypeError, "inputs has dtype torch.int64"),
    "patches with NaN": (PATCHED, lambda m: m(randn(3, 4, 6) * float("nan")), ValueError, "holds nan at"),
    "no segments": (ENCODER, lambda m: m(TOKENS, segments=TOKENS), ValueError, "segments.*config.n_segments is 0"),
    "segments too high": (
        replace(ENCODER, n_segments=2), lambda m: m(TOKENS, segments=TOKENS), ValueError,
        r"segments holds \d; config.n_segments is 2"),
    "segments of another shape": (
        replace(ENCODER, n_segments=2), lambda m: m(TOKENS, segments=TOKENS[:, :3]), ValueError, "segments has shape"),
    "segments for a row": (
        replace(ENCODER, n_segments=2), lambda m: m(TOKENS, segments=TOKENS[0]), ValueError, "segments has shape"),
    "positions run out": (
        replace(DECODER, position="learned", n_positions=4), lambda m: m(TOKENS), ValueError, "position 4 has no row"),
    "mask of 0 and 1": (
        ENCODER, lambda m: m(TOKENS, mask=MASK.long()), TypeError, "mask of inputs has dtype torch.int64.*as_mask"),
    "additive mask": (
        DECODER, lambda m: m(TOKENS, mask=MASK.float().log()), TypeError, "mask of tokens has dtype torch.float32"),
    "mask as a list": (DECODER, lambda m: m(TOKENS, mask=[[True]]), TypeError, "mask of tokens is a list"),
    "two dimensions": (
        ENCODER, lambda m: m(TOKENS, mask=MASK[:, 0, 0]), ValueError,
        r"mask of inputs has shape \(3, 5\); it must be \(batch = 3, 1, 1, length = 5\).*\[:, None, None, :\]"),
    "a square mask": (
        DECODER, lambda m: m(TOKENS, mask=torch.ones(5, 5).bool()), ValueError, r"mask of tokens has shape \(5, 5\)"),
    "mask of another length": (
        replace(CLASSES, class_token=True), lambda m: m(TOKENS, mask=MASK[..., :4]), ValueError,
        r"mask of inputs has shape \(3, 1, 1, 4\).*length = 5.*padding_mask"),
    "mask of another batch": (ENCODER, lambda m: m(TOKENS, mask=MASK[:1]), ValueError, "batch = 3"),
    "source mask": (BOTH, lambda m: m(TOKENS, TOKENS, source_mask=MASK[..., 1:]), ValueError, "mask of source has"),
    "target mask": (BOTH, lambda m: m(TOKENS, TOKENS, target_mask=MASK[..., 1:]), ValueError, "mask of target has"),
    "mask of the new tokens alone": (
        DECODER, lambda m: m(TOKENS[:, 2:], caches=filled(m), mask=MASK[..., 2:]), ValueError,
        r"mask of tokens has shape \(3, 1, 1, 3\).*length = 2 cached tokens and 3 new"),
    "mask left out after pads": (
        DECODER, lambda m: m(TOKENS[:, 4:], caches=filled(m, 4, MASK[..., :4])), ValueError,
        "mask of tokens is missing.*4 cached tokens before the new"),
    "pool mask": (CLASSES, lambda m: m.pool(MEMORY, mask=MASK), ValueError, "mask has shape"),
    "pool mask beside a class token": (
        replace(CLASSES, class_token=True), lambda m: m.pool(MEMORY, mask=MASK[..., :4]), ValueError, "length = 3"),
    "pooling one vector": (
        CLASSES, lambda m: m.pool(MEMORY[:, 0], mask=None), ValueError,
        r"hidden has shape \(3, 12\); it must be \(batch, position, d_model = 12\)"),
    "pooling another width": (
        replace(CLASSES, pooler=False), lambda m: m.pool(MEMORY[..., :5], mask=None), ValueError, "d_model = 12"),
    "pooling nothing": (CLASSES, lambda m: m.pool(MEMORY[:, :0], mask=None), ValueError, r"\(3, 0, 12\).*no axis"),
    "pooling another dtype": (CLASSES, lambda m: m.pool(MEMORY.double(), mask=None), TypeError, "hidden has dtype"),
    "pooling a list": (CLASSES, lambda m: m.pool([1.0], mask=None), TypeError, "hidden is a list"),
    "tokens torch cannot count": (DECODER, lambda m: m(TOKENS.to(torch.uint16)), TypeError, r"tokens has.*\.long\(\)"),
    "segments torch cannot count": (
        replace(ENCODER, n_segments=2), lambda m: m(TOKENS, segments=(TOKENS % 2).to(torch.uint64)), TypeError,
        r"segments has dtype torch.uint64.*\.long\(\)"),
    "memory of another batch": (
        BOTH, lambda m: m.decode(TOKENS, MEMORY[:2]), ValueError, r"memory has shape \(2, 4, 12\).*batch = 3"),
    "memory of another width": (
        BOTH, lambda m: m.decode(TOKENS, MEMORY[..., :8]), ValueError, r"memory has shape \(3, 4, 8\).*d_model = 12"),
    "memory of another dtype": (BOTH, lambda m: m.decode(TOKENS, MEMORY.double()), TypeError, "memory has dtype"),
    "tokens for memory": (BOTH, lambda m: m.decode(TOKENS, TOKENS), ValueError, "memory has shape"),
    "no memory": (BOTH, lambda m: m.decode(TOKENS, None), TypeError, "memory is a NoneType"),
    "memory with NaN": (BOTH, lambda m: m.decode(TOKENS, MEMORY * float("nan")), ValueError, "holds nan at"),
    "memory mask of the target": (
        BOTH, lambda m: m.decode(TOKENS, MEMORY, memory_mask=MASK), ValueError,
        r"memory_mask has shape \(3, 1, 1, 5\); it must be \(batch = 3, 1, 1, length = 4\)"),
    "memory mask of 0 and 1": (
        BOTH, lambda m: m.decode(TOKENS, MEMORY, memory_mask=MASK[..., :4].int()), TypeError, "memory_mask has dtype"),
    "caches of another batch": (
        DECODER, lambda m: m(TOKENS[:1, 2:], caches=filled(m)), ValueError, r"tokens has shape \(1, 3\).*batch = 3"),
    "one cache": (DECODER, lambda m: m(TOKENS, caches=KeyValueCache()), TypeError, "caches is.*new_caches"),
    "too few caches": (DECODER, lambda m: m(TOKENS, caches=[KeyValueCache()]), ValueError, "caches holds 1 .*2 blocks"),
    "one cache twice": (
        DECODER, lambda m: m(TOKENS, caches=[KeyValueCache()] * 2), ValueError, "caches holds 1 different.*new_caches"),
    "no caches in the list": (DECODER, lambda m: m(TOKENS, caches=[None, None]), TypeError, r"caches\[i\] is None"),
    "caches that differ": (
        DECODER, lambda m: m(TOKENS, caches=[filled(m)[0], KeyValueCache()]), ValueError, r"caches hold \[2, 0\]"),
}  # fmt: skip


@pytest.mark.parametrize(("config", "call", "kind", "message"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_are_named(config, call, kind, message):
    model = build_seeded(config)
    with pytest.raises(kind) as refused:
        call(model)
    assert re.search(message, str(refused.value)), refused.value


def test_what_is_right_beside_the_mistakes():
    """The same calls without the mistake pass, so no check refuses too much."""
    model = build_seeded(DECODER)
    assert model(TOKENS[:, 2:], caches=filled(model), mask=torch.ones_like(MASK)).shape == (3, 3, 7)
    assert model(TOKENS[:, 4:], caches=filled(model, 4, MASK[..., :4]), mask=MASK).shape == (3, 1, 7)
    assert model(TOKENS[:, 4:], caches=filled(model, 4, torch.ones_like(MASK[..., :4]))).shape == (3, 1, 7)
    assert build_seeded(BOTH).decode(TOKENS, MEMORY, memory_mask=MASK[..., :4], mask=MASK).shape == (3, 5, 7)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32])
def test_numbers_of_any_size_name_tokens_segments_and_positions(dtype, plain_errors):
    model = build_seeded(replace(ENCODER, n_segments=2, position="learned", n_positions=5))
    few = TOKENS.to(dtype)
    assert model(few, segments=few % 2).equal(model(TOKENS, segments=TOKENS % 2))
    x, ids = randn(3, 5, 12), torch.arange(5)[None]
    table, block = model.embedding.position, model.encoder.blocks[0]
    assert table.add(x, ids.to(dtype)).equal(table.add(x, ids))
    assert block(x, position_ids=ids.to(dtype)).equal(block(x, position_ids=ids))


@pytest.mark.parametrize("config", [ENCODER, DECODER, BOTH], ids=FAMILIES)
@pytest.mark.parametrize("changes", [{}, {"d_embedding": 6, "tie_embeddings": False, "embedding_norm": True}])
@each_position
def test_inside_autocast_torch_picks_the_dtypes(config, changes, position):
    """There the parts of a model meet in several dtypes, and no check of ours stands in between."""
    model = build_seeded(with_position(replace(config, **changes), position)).eval()
    arguments = (TOKENS, TOKENS) if config is BOTH else (TOKENS,)
    exact = model(*arguments)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = model(*arguments)
    assert found.dtype == torch.bfloat16 and exact.dtype == torch.float32
    assert_close(found.float(), exact, atol=0.05, rtol=0.05)
    with pytest.raises(TypeError, match=r"x has dtype torch.float64.*\.to\(dtype\)"):  # outside, it does
        (model.decoder if config is DECODER else model.encoder)(MEMORY.double(), ids=torch.arange(4)[None])


def test_a_model_is_built_from_a_config_of_its_family():
    for family, config in ((EncoderOnly, DECODER), (DecoderOnly, BOTH), (EncoderDecoder, ENCODER)):
        with pytest.raises(ValueError, match=r"config.family is .*Call build\(config\)"):
            family(config)
    with pytest.raises(TypeError, match="config is .*TransformerConfig"):
        build({"family": "encoder-only"})
