"""A translator trained on the English→French grammar: how often it is right, with its source and without."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from transformer_lab.model.averages import IGNORE, masked_cross_entropy
from transformer_lab.model.config import TransformerConfig
from transformer_lab.model.families import EncoderDecoder, build
from transformer_lab.model.masks import mask_from_tokens
from transformer_lab.tasks.translation import Pair
from transformer_lab.tasks.translation_data import BEGIN_ID, PAD_ID, WORDS, batch, decode, splits
from transformer_lab.training import Monitor, seeded, train

BATCH = 64
STAGES = ((250, 5e-3), (75, 1e-3), (75, 2e-4))  # steps and learning rate: large steps first, then smaller ones
MOST_STEPS = 13  # the longest French sentence and its <end>, and one to spare


def translator_config() -> TransformerConfig:
    """One encoder block, one decoder block, one head: as small as a translator gets, so that there is one map."""
    return TransformerConfig(
        family="encoder-decoder", d_model=64, n_layers=1, n_heads=1, d_ff=128, vocab=len(WORDS),
        position="sinusoidal", scale_embeddings=True,
    )  # fmt: skip


@dataclass(frozen=True)
class TrainedTranslator:
    """A translator after training, its losses step by step, and whether it was trained without seeing the source."""

    model: EncoderDecoder
    losses: tuple[float, ...]
    blind: bool


def train_translator(
    *,
    blind: bool = False,
    stages: Sequence[tuple[int, float]] = STAGES,
    seed: int = 0,
    monitor: Monitor | None = None,
) -> TrainedTranslator:
    """Train on the 6,000 training sentences; ``blind`` hides the whole source from cross-attention all the time."""
    with seeded(seed):
        model = build(translator_config())
    sources, targets = batch(splits().train)

    def batch_loss(generator: torch.Generator) -> Tensor:
        chosen = torch.randint(len(sources), (BATCH,), generator=generator)
        source, target = _trimmed(sources[chosen]), _trimmed(targets[chosen])
        logits = teacher_forced(model, source, target, blind=blind)
        labels = target[:, 1:]
        return masked_cross_entropy(logits, labels.masked_fill(labels == PAD_ID, IGNORE))

    losses: tuple[float, ...] = ()
    for number, (steps, rate) in enumerate(stages):
        name = f"{'without the source' if blind else 'translator'}, rate {rate:g}"
        # Another seed for each stage, or the second would draw the first one's batches again.
        run = train(
            model, batch_loss, steps=steps, learning_rate=rate, clip=1.0, seed=seed + 1000 * number, monitor=monitor,
            name=name,
        )  # fmt: skip
        losses += run.losses
    return TrainedTranslator(model, losses, blind)


def _trimmed(tokens: Int[Tensor, "batch longest"]) -> Int[Tensor, "batch position"]:
    """Without the columns that are padding in every row."""
    return tokens[:, (tokens != PAD_ID).any(dim=0)]


def source_mask(source: Int[Tensor, "batch source"], *, blind: bool = False) -> Bool[Tensor, "batch 1 1 source"]:
    """What cross-attention may read: the words of the source, or nothing at all.

    A row that may read nothing gets zeros (lesson 05), so ``blind`` cuts the only wire between the two stacks.
    """
    mask = mask_from_tokens(source, PAD_ID)
    return torch.zeros_like(mask) if blind else mask


def teacher_forced(
    model: EncoderDecoder, source: Int[Tensor, "batch source"], target: Int[Tensor, "batch target"], *,
    blind: bool = False,
) -> Tensor:  # fmt: skip
    """Logits for every word after the first, each given the *right* words before it: (batch, target − 1, vocab)."""
    memory = model.encode(source, mask=source_mask(source))
    if blind:
        memory = memory.detach()  # nothing of it arrives, so nothing goes back: saves the encoder's backward pass
    return model.decode(target[:, :-1], memory, memory_mask=source_mask(source, blind=blind))


@torch.no_grad()
def translate_greedily(
    model: EncoderDecoder, source: Int[Tensor, "batch source"], *, blind: bool = False
) -> Int[Tensor, "batch position"]:
    """Encode the source once, then let the model write."""
    return write_greedily(model, model.encode(source, mask=source_mask(source)), source_mask(source, blind=blind))


@torch.no_grad()
def write_greedily(
    model: EncoderDecoder,
    memory: Float[Tensor, "batch source d_model"],
    memory_mask: Bool[Tensor, "batch 1 1 source"] | None,
) -> Int[Tensor, "batch position"]:
    """From ``<start>``, always the likeliest next word, given the model's *own* words before it."""
    caches = model.new_caches()
    written = torch.full((len(memory), 1), BEGIN_ID)
    for _ in range(MOST_STEPS):
        logits = model.decode(written[:, -1:], memory, memory_mask=memory_mask, caches=caches)
        written = torch.cat((written, logits[:, -1:].argmax(dim=-1)), dim=1)
    return written


def translations(model: EncoderDecoder, pairs: Sequence[Pair], *, blind: bool = False) -> list[tuple[str, ...]]:
    """The French that the model writes for each pair's source."""
    return [decode(row) for row in translate_greedily(model, batch(pairs)[0], blind=blind)]


def share_right(written: Int[Tensor, "batch position"], pairs: Sequence[Pair]) -> float:
    """Share of rows that are the grammar's French, word for word."""
    return sum(decode(row) == pair.target for row, pair in zip(written, pairs, strict=True)) / len(pairs)


def exact_match(model: EncoderDecoder, pairs: Sequence[Pair], *, blind: bool = False) -> float:
    """Share of sentences written without a single wrong word, from the source alone."""
    return share_right(translate_greedily(model, batch(pairs)[0], blind=blind), pairs)


@torch.no_grad()
def word_accuracy(model: EncoderDecoder, pairs: Sequence[Pair], *, blind: bool = False) -> float:
    """Share of next words, ``<end>`` among them, that are right when all words before are given right.

    The accuracy that a training run watches.
    """
    source, target = batch(pairs)
    labels = target[:, 1:]
    right = teacher_forced(model, source, target, blind=blind).argmax(dim=-1) == labels
    return right[labels != PAD_ID].float().mean().item()
