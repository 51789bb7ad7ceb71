"""With the weights of the reference library's models, ours give the same outputs, layers, maps and gradients.

The references are small, of odd sizes, randomly initialised in every tensor, and never downloaded.
"""

import re
from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
import transformers
from torch import Tensor, nn
from torch.func import functional_call

from reference_weights import copy_of, translate
from transformer_lab.model.config import TransformerConfig
from transformer_lab.model.masks import padding_mask
from transformer_lab.model.positions import position_ids
from transformer_lab.model.recording import record_attention

pytestmark = pytest.mark.claim("F6")
TOLERANCE = 1e-4
LENGTHS, LONGEST, VOCAB = (7, 4, 1), 7, 29
SOURCE_LENGTHS, LONGEST_SOURCE = (3, 9, 5), 9
transformers.logging.set_verbosity_error()  # it warns of token numbers that our small vocabularies do not have

SIZES = {"hidden_size": 20, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 37}
TEXT = SIZES | {"vocab_size": VOCAB, "max_position_embeddings": 13, "attn_implementation": "eager", "num_labels": 3}
T5 = {
    "d_model": 20, "num_layers": 2, "num_decoder_layers": 3, "num_heads": 3, "d_kv": 6, "d_ff": 37,
    "vocab_size": VOCAB, "relative_attention_num_buckets": 8, "relative_attention_max_distance": 12,
    "attn_implementation": "eager",
}  # fmt: skip


def _t5(**changes):
    return transformers.T5ForConditionalGeneration(transformers.T5Config(**T5 | changes))


REFERENCES = {
    "BERT": lambda: transformers.BertForSequenceClassification(transformers.BertConfig(**TEXT, type_vocab_size=3)),
    "RoBERTa": lambda: transformers.RobertaForSequenceClassification(
        transformers.RobertaConfig(**TEXT, pad_token_id=1)
    ),
    "DistilBERT": lambda: transformers.DistilBertModel(
        transformers.DistilBertConfig(
            dim=20, n_layers=3, n_heads=4, hidden_dim=37, vocab_size=VOCAB, max_position_embeddings=13,
            attn_implementation="eager",
        )  # fmt: skip
    ),
    "ALBERT": lambda: transformers.AlbertForSequenceClassification(
        transformers.AlbertConfig(**TEXT, embedding_size=5, type_vocab_size=3, hidden_act="gelu_new")
    ),
    "ViT": lambda: transformers.ViTForImageClassification(
        transformers.ViTConfig(**SIZES, image_size=(6, 9), patch_size=3, num_labels=3, attn_implementation="eager")
    ),
    "GPT-2": lambda: transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            n_embd=20, n_layer=3, n_head=4, n_inner=37, n_positions=13, vocab_size=VOCAB, attn_implementation="eager"
        )
    ),
    "BLOOM": lambda: transformers.BloomForCausalLM(
        transformers.BloomConfig(hidden_size=24, n_layer=3, n_head=6, vocab_size=VOCAB, attn_implementation="eager")
    ),
    "Llama": lambda: transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            **TEXT | {"hidden_size": 24, "num_attention_heads": 6}, num_key_value_heads=2, head_dim=8,
            rope_parameters={"rope_type": "default", "rope_theta": 500.0},
        )  # fmt: skip
    ),
    "Llama, tied": lambda: transformers.LlamaForCausalLM(
        transformers.LlamaConfig(**TEXT | {"hidden_size": 24}, num_key_value_heads=1, tie_word_embeddings=True)
    ),
    "T5": _t5,
    "T5, gated and untied": lambda: _t5(feed_forward_proj="gated-silu", tie_word_embeddings=False),
}
PADDED = [name for name in REFERENCES if name != "ViT"]


@pytest.fixture(params=REFERENCES)
def reference(request) -> nn.Module:
    return randomised(REFERENCES[request.param]())


def randomised(reference: nn.Module, seed: int = 0) -> nn.Module:
    """Every tensor gets other numbers, those that start at 0 or 1 too: there, a swapped pair would not show."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, tensor in reference.named_parameters():
            noise = torch.randn(tensor.shape, generator=generator)
            if tensor.ndim > 1:
                tensor.copy_(noise / tensor.shape[-1] ** 0.5)
            else:
                tensor.copy_(0.3 * noise + (0.0 if name.endswith("bias") else 1.0))
    return reference.eval()


def example(reference: nn.Module, side: str = "right") -> SimpleNamespace:
    """A batch with padding on one side; pads hold other tokens than 0, so that nothing passes by accident."""
    generator = torch.Generator().manual_seed(1)

    def tokens(*shape: int, top: int = VOCAB) -> Tensor:
        return torch.randint(2, top, shape, generator=generator)

    if reference.config.model_type == "vit":
        images = torch.randn((3, 3, 6, 9), generator=generator)
        patches = F.unfold(images, kernel_size=3, stride=3).mT  # (batch, patch, channel · row · column)
        return SimpleNamespace(images=images, inputs=patches, mask=None, rows=torch.ones(3, 7, dtype=torch.bool))
    mask = padding_mask(LENGTHS, LONGEST, side=side)
    inputs, rows = tokens(3, LONGEST), mask[:, 0, 0]
    if reference.config.model_type == "roberta":
        inputs = inputs.masked_fill(~rows, 1)  # it finds its positions by the pad token
    segments = torch.randint(0, reference.config.type_vocab_size, inputs.shape, generator=generator) if hasattr(
        reference.config, "type_vocab_size"
    ) else None  # fmt: skip
    source_mask = padding_mask(SOURCE_LENGTHS, LONGEST_SOURCE, side=side)
    return SimpleNamespace(
        inputs=inputs, mask=mask, rows=rows, segments=segments, source=tokens(3, LONGEST_SOURCE),
        source_mask=source_mask, source_rows=source_mask[:, 0, 0],
    )  # fmt: skip


def run_theirs(reference: nn.Module, data: SimpleNamespace, **kwargs: bool) -> SimpleNamespace:
    kind = reference.config.model_type
    if kind == "vit":
        return reference(pixel_values=data.images, **kwargs)
    real = data.rows.long()
    if kind == "t5":
        return reference(
            input_ids=data.source, attention_mask=data.source_rows.long(), decoder_input_ids=data.inputs,
            decoder_attention_mask=real, use_cache=False, **kwargs,
        )  # fmt: skip
    extra = {"token_type_ids": data.segments} if data.segments is not None else {}
    if kind in ("bert", "albert", "distilbert", "gpt2", "llama"):
        extra["position_ids"] = position_ids(data.mask)
    return reference(input_ids=data.inputs, attention_mask=real, **extra, **kwargs)


def run_ours(model: Callable, config: TransformerConfig, data: SimpleNamespace) -> Tensor:
    if config.family == "encoder-decoder":
        return model(data.source, data.inputs, source_mask=data.source_mask, target_mask=data.mask)
    segments = {"segments": data.segments} if config.n_segments else {}
    return model(data.inputs, mask=data.mask, **segments)


def stream_of(model: nn.Module, data: SimpleNamespace) -> dict[str, list[Tensor]]:
    """What goes into the first block of each stack, and what every block and every stack gives out."""
    streams: dict[str, list[Tensor]] = {}
    handles = []
    for name in ("encoder", "decoder"):
        if (stack := getattr(model, name, None)) is None:
            continue
        found = streams.setdefault(name, [])
        handles += [stack.register_forward_pre_hook(lambda _, args, found=found: found.append(args[0]))]
        handles += [
            module.register_forward_hook(lambda _, args, out, found=found: found.append(out))
            for module in dict.fromkeys(stack.blocks)  # a shared block reports on every pass
        ]
        handles += [stack.register_forward_hook(lambda _, args, out, found=found: found.append(out))]
    run_ours(model, model.config, data)
    for handle in handles:
        handle.remove()
    return streams


def outputs_to_compare(reference, model, data) -> dict[str, tuple[Tensor, Tensor, Tensor]]:
    """Theirs, ours and the real rows, by name: hidden states of every layer and what the model returns."""
    theirs = run_theirs(reference, data, output_hidden_states=True)
    streams = stream_of(model, data)
    pairs = {}
    if model.config.family == "encoder-decoder":
        stacks = {
            "encoder": (theirs.encoder_hidden_states, data.source_rows),
            "decoder": (theirs.decoder_hidden_states, data.rows),
        }
    else:
        stacks = {next(iter(streams)): (theirs.hidden_states, data.rows)}
    for stack, (states, rows) in stacks.items():
        *ours, before_norm, end = streams[stack]
        *states, last = states
        assert len(states) == len(ours) == len(getattr(model, stack).blocks)
        pairs |= {f"{stack} {i}": (a, b, rows) for i, (a, b) in enumerate(zip(states, ours, strict=True))}
        # The last of their states is normed in most models, and in ViT it is not.
        pairs[f"{stack} end"] = (last, before_norm if reference.config.model_type == "vit" else end, rows)
    if getattr(reference.config, "scale_decoder_outputs", False):  # T5's scale of the vectors is in our last norm
        last, ours, rows = pairs["decoder end"]
        pairs["decoder end"] = (last, ours * model.config.d_model**0.5, rows)
    if "logits" in theirs:
        per_token = model.config.n_classes == 0
        pairs["logits"] = (theirs.logits, run_ours(model, model.config, data), data.rows if per_token else ...)
    return pairs


def largest_difference(pairs: dict[str, tuple[Tensor, Tensor, Tensor]]) -> dict[str, float]:
    return {name: (theirs - ours)[rows].abs().max().item() for name, (theirs, ours, rows) in pairs.items()}


@torch.no_grad()
def test_hidden_states_and_outputs(reference):
    data = example(reference)
    differences = largest_difference(outputs_to_compare(reference, copy_of(reference), data))
    assert max(differences.values()) < TOLERANCE, differences


@torch.no_grad()
@pytest.mark.parametrize("name", PADDED)
def test_padding_on_the_left(name):
    reference = randomised(REFERENCES[name]())
    pairs = outputs_to_compare(reference, copy_of(reference), example(reference, side="left"))
    if reference.config.model_type in ("bert", "roberta", "albert"):
        del pairs["logits"]  # they pool the first column, which is a pad; ours pools the first token
    differences = largest_difference(pairs)
    assert max(differences.values()) < TOLERANCE, differences


@torch.no_grad()
@pytest.mark.parametrize("name", ["BERT", "ALBERT", "ViT"])
def test_pooled_output(name):
    reference = randomised(REFERENCES[name]())
    if name == "ViT":  # the classifier has no pooler; the bare model has one
        reference = randomised(transformers.ViTModel(reference.config))
    data, model = example(reference), copy_of(reference)
    assert model.pooler is not None
    segments = {} if data.mask is None else {"segments": data.segments}
    ours = model.pool(model.encode(data.inputs, mask=data.mask, **segments), mask=data.mask)
    theirs = run_theirs(reference.base_model, data).pooler_output
    assert (theirs - ours).abs().max() < TOLERANCE


@torch.no_grad()
def test_attention_maps(reference):
    data, model = example(reference), copy_of(reference)
    theirs = run_theirs(reference, data, output_attentions=True)
    with record_attention(model) as maps:
        run_ours(model, model.config, data)
    if model.config.family == "encoder-decoder":
        groups = {
            "encoder.blocks.{}.self_attention": (theirs.encoder_attentions, data.source_rows),
            "decoder.blocks.{}.self_attention": (theirs.decoder_attentions, data.rows),
            "decoder.blocks.{}.cross_attention": (theirs.cross_attentions, data.rows),
        }
    else:
        stack = "encoder" if model.config.family == "encoder-only" else "decoder"
        groups = {f"{stack}.blocks.{{}}.self_attention": (theirs.attentions, data.rows)}
    assert sum(map(len, maps.values())) == sum(len(layers) for layers, _ in groups.values())
    for name, (layers, rows) in groups.items():
        for i, layer in enumerate(layers):
            block, call = (0, i) if model.config.share_layers else (i, 0)
            ours = maps[f"{name.format(block)}.sublayer"][call]
            difference = (layer - ours).transpose(1, 2)[rows]  # (row, heads, key)
            assert difference.abs().max() < TOLERANCE, (name, i)


def test_gradients_of_every_tensor(reference):
    """Our loss is differentiated through the translation too, down to the tensors of the reference."""
    data = example(reference)

    def gradients(outputs: Tensor) -> dict[str, Tensor]:
        rows = data.rows if outputs.ndim == 3 else ...
        target = torch.randn(outputs[rows].shape, generator=torch.Generator().manual_seed(2))
        F.mse_loss(outputs[rows], target, reduction="sum").backward()
        found = {name: tensor.grad for name, tensor in reference.named_parameters()}
        reference.zero_grad(set_to_none=True)
        return found

    outputs = run_theirs(reference, data)
    theirs = gradients(outputs.logits if "logits" in outputs else outputs.last_hidden_state)
    model, (config, weights) = copy_of(reference), translate(reference)
    ours = gradients(run_ours(lambda *args, **kwargs: functional_call(model, weights, args, kwargs), config, data))
    for name, gradient in theirs.items():
        size = gradient.abs().max()
        # No tensor is idle, so none could be wrong unseen. A key's bias is: it shifts all scores of a row alike.
        assert size > 100 * TOLERANCE or re.search(r"(key|k_lin|k_proj)\.bias$", name), name
        assert (gradient - ours[name]).abs().max() < TOLERANCE * max(1.0, size), name


def test_a_name_that_is_left_over_is_an_error():
    reference = REFERENCES["GPT-2"]()
    reference.transformer.surplus = nn.Linear(2, 2)
    with pytest.raises(AssertionError, match="surplus"):
        copy_of(reference)
