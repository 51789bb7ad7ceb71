"""Three objectives on one language: name the hidden words, say the next word, turn a source into a target."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from transformer_lab.model.averages import IGNORE, masked_cross_entropy
from transformer_lab.model.config import TransformerConfig
from transformer_lab.model.families import build
from transformer_lab.model.masks import mask_from_tokens
from transformer_lab.tasks import cloze
from transformer_lab.training import Monitor, TrainingRun, seeded, train

SMALL = TransformerConfig(
    family="encoder-only", d_model=48, n_layers=1, n_heads=4, d_ff=96, vocab=len(cloze.WORDS), n_positions=32
)
N_SPECIALS = len(cloze.SPECIALS)
CHOSEN, MASKED, SWAPPED = 0.15, 0.8, 0.1  # of all words; of the chosen words
LONGEST_GAP = 3
BATCH = 64


def real(tokens: Int[Tensor, "batch position"]) -> Bool[Tensor, "batch 1 1 position"]:
    """The padding mask of these tokens, True on real ones."""
    return mask_from_tokens(tokens, cloze.PAD_ID)


def mask_words(
    tokens: Int[Tensor, "batch position"], generator: torch.Generator
) -> tuple[Int[Tensor, "batch position"], Int[Tensor, "batch position"]]:
    """Inputs and labels of the masked objective (Devlin et al. 2018).

    15 % of the words are chosen, each by a draw of its own. Of these 80 % become ``<mask>``, 10 % another word drawn at
    random, and 10 % stay. The label of a chosen word is the word itself; all others are ignored.
    """
    chosen = (torch.rand(tokens.shape, generator=generator) < CHOSEN) & (tokens >= N_SPECIALS)
    kind = torch.rand(tokens.shape, generator=generator)
    others = torch.randint(N_SPECIALS, len(cloze.WORDS), tokens.shape, generator=generator)
    inputs = tokens.masked_fill(chosen & (kind < MASKED), cloze.MASK_ID)
    inputs = torch.where(chosen & (kind >= MASKED) & (kind < MASKED + SWAPPED), others, inputs)
    return inputs, tokens.masked_fill(~chosen, IGNORE)


def next_words(
    tokens: Int[Tensor, "batch position"],
) -> tuple[Int[Tensor, "batch input"], Int[Tensor, "batch input"]]:
    """Inputs and labels of the causal objective: every token is asked for the one after it; pads are ignored."""
    labels = tokens[:, 1:]
    return tokens[:, :-1], labels.masked_fill(labels == cloze.PAD_ID, IGNORE)


def cut_gap(words: tuple[str, ...], first: int, n_missing: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The words with ``<gap>`` in place of ``n_missing`` of them from place ``first`` on, and the missing words."""
    after = first + n_missing
    return (*words[:first], cloze.GAP, *words[after:]), words[first:after]


def gap_batch(
    sentences: list[tuple[str, ...]], generator: torch.Generator
) -> tuple[Int[Tensor, "batch position"], Int[Tensor, "batch position"]]:
    """Sources with one gap of 1 to 3 words anywhere, and targets: the missing words (after Raffel et al. 2019)."""
    pairs = []
    draws = torch.rand(len(sentences), 2, generator=generator).tolist()
    for words, (place, length) in zip(sentences, draws, strict=True):
        first = int(place * len(words))
        pairs.append(cut_gap(words, first, 1 + int(length * min(LONGEST_GAP, len(words) - first))))
    source, target = (torch.tensor([cloze.encode(words) for words in side]) for side in zip(*pairs, strict=True))
    return source, target


def masked_loss(
    model: nn.Module, tokens: Int[Tensor, "batch position"], generator: torch.Generator
) -> Float[Tensor, ""]:
    """An encoder-only model names the chosen words."""
    inputs, labels = mask_words(tokens, generator)
    return masked_cross_entropy(model(inputs, mask=real(tokens)), labels)


def next_word_loss(
    model: nn.Module, tokens: Int[Tensor, "batch position"], generator: torch.Generator
) -> Float[Tensor, ""]:
    """A decoder-only model says the next word at every place. Nothing is drawn."""
    inputs, labels = next_words(tokens)
    return masked_cross_entropy(model(inputs), labels)


def gap_loss(
    model: nn.Module, tokens: Int[Tensor, "batch position"], generator: torch.Generator
) -> Float[Tensor, ""]:
    """An encoder–decoder reads a sentence with a gap and writes the missing words, each from the ones before it."""
    source, target = gap_batch(list(map(cloze.decode, tokens)), generator)
    inputs, labels = next_words(target)
    return masked_cross_entropy(model(source, inputs, source_mask=real(source)), labels)


@dataclass(frozen=True)
class Objective:
    """What a family is trained to do, and how long it takes on this language."""

    name: str
    loss: Callable[[nn.Module, Tensor, torch.Generator], Tensor]
    steps: int


OBJECTIVES = {
    "encoder-only": Objective("masked words", masked_loss, 400),
    "decoder-only": Objective("next word", next_word_loss, 200),
    "encoder-decoder": Objective("source to target", gap_loss, 400),
}


@dataclass(frozen=True)
class Trained:
    """A trained model and how its training went."""

    model: nn.Module
    run: TrainingRun


def train_family(
    family: str, *, steps: int | None = None, seed: int = 0, monitor: Monitor | None = None
) -> Trained:
    """The family of `SMALL`, trained with its own objective on sentences of the language; the same loop for all."""
    objective = OBJECTIVES[family]
    with seeded(seed):
        model = build(replace(SMALL, family=family))

    def batch_loss(generator: torch.Generator) -> Tensor:
        return objective.loss(model, cloze.draw(BATCH, generator), generator)

    steps = objective.steps if steps is None else steps
    run = train(
        model, batch_loss, steps=steps, learning_rate=5e-3, warmup=20, seed=seed, monitor=monitor, name=objective.name
    )
    return Trained(model, run)
