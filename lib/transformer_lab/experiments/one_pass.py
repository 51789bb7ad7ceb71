"""What an encoder gives in one pass: a class for a sentence, a label for every token, a vector to search with."""

from collections.abc import Callable
from copy import deepcopy

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from transformer_lab.experiments.objectives import N_SPECIALS, real
from transformer_lab.model.averages import IGNORE, masked_cross_entropy, masked_mean
from transformer_lab.tasks import cloze
from transformer_lab.training import Monitor, seeded, train

BATCH = 48
POOLS = ("special token", "mean", "mean with pads")
_WORDS_THAT_AGREE = (1, 3, 4, 5)  # places of determiner, noun, verb and place, after <start>
_MANY = torch.tensor([word.endswith("s") and word in cloze.WORDS_OF["noun"] for word in cloze.WORDS])


def sentence_vectors(
    model: nn.Module, tokens: Int[Tensor, "batch position"], pool: str = "mean"
) -> Float[Tensor, "batch d_model"]:
    """One vector a sentence, from one pass of an encoder.

    Args:
        pool: ``"special token"`` takes the row of ``<start>``, ``"mean"`` averages the rows of the real tokens, and
            ``"mean with pads"`` averages all rows, a mistake. The attention leaves pads out in all three.

    Raises:
        ValueError: another pool.
    """
    if pool not in POOLS:
        raise ValueError(f"pool is {pool!r}; it must be one of {', '.join(POOLS)}.")
    rows = model.encode(tokens, mask=real(tokens))
    if pool == "special token":
        return rows[:, 0]
    return masked_mean(rows, real(tokens)) if pool == "mean" else rows.mean(dim=1)


class WithHead(nn.Module):
    """A copy of a trained encoder, and one new linear layer on what ``read`` takes from it."""

    def __init__(self, encoder: nn.Module, read: Callable[[nn.Module, Tensor], Tensor]) -> None:
        super().__init__()
        self.encoder, self.read = deepcopy(encoder), read
        self.head = nn.Linear(encoder.config.d_model, 2)

    def forward(self, tokens: Int[Tensor, "batch position"]) -> Float[Tensor, "batch ... 2"]:
        return self.head(self.read(self.encoder, tokens))


def fine_tune(
    encoder: nn.Module,
    read: Callable[[nn.Module, Tensor], Tensor],
    loss: Callable[[nn.Module, torch.Generator], Tensor],
    *,
    steps: int,
    seed: int,
    monitor: Monitor | None,
    name: str,
) -> WithHead:
    """Train a copy of the encoder and a new head on it further."""
    with seeded(seed):
        model = WithHead(encoder, read)
    train(
        model, lambda generator: loss(model, generator), steps=steps, learning_rate=3e-3, warmup=20, seed=seed,
        monitor=monitor, name=name,
    )  # fmt: skip
    return model


def spoil_half(
    tokens: Int[Tensor, "batch position"], generator: torch.Generator
) -> tuple[Int[Tensor, "batch position"], Int[Tensor, " batch"]]:
    """Every second sentence gets one wrong word, another of its kind; labels are 1 for a sentence of the language."""
    tokens, labels = tokens.clone(), torch.ones(len(tokens), dtype=torch.long)
    for row in range(0, len(tokens), 2):
        labels[row] = 0
        right = tokens[row].clone()
        while cloze.is_sentence(cloze.decode(tokens[row])):
            place = _WORDS_THAT_AGREE[int(torch.randint(len(_WORDS_THAT_AGREE), (1,), generator=generator))]
            words = cloze.WORDS_OF[cloze.SLOTS[place - 1]]
            tokens[row] = right
            tokens[row, place] = cloze.WORDS.index(words[int(torch.randint(len(words), (1,), generator=generator))])
    return tokens, labels


def classify(
    encoder: nn.Module, pool: str | None, *, steps: int = 200, seed: int = 0, monitor: Monitor | None = None
) -> float:
    """Fine-tune "is this a sentence of the language?" and return the share of right answers on held-out sentences.

    Args:
        pool: as in `sentence_vectors`; ``None`` averages the word embeddings and leaves the block out.
    """

    def read(model: nn.Module, tokens: Tensor) -> Tensor:
        if pool is None:
            return masked_mean(model.embedding.token(tokens), real(tokens))
        return sentence_vectors(model, tokens, pool)

    def loss(model: nn.Module, generator: torch.Generator) -> Tensor:
        tokens, labels = spoil_half(cloze.draw(BATCH, generator), generator)
        return F.cross_entropy(model(tokens), labels)

    name = f"classify from the {pool or 'words alone'}"
    model = fine_tune(encoder, read, loss, steps=steps, seed=seed, monitor=monitor, name=name)
    tokens, labels = spoil_half(cloze.HELD_OUT.repeat(4, 1), torch.Generator().manual_seed(seed))
    with torch.no_grad():
        return (model(tokens).argmax(-1) == labels).double().mean().item()


def how_many(tokens: Int[Tensor, "batch position"]) -> Int[Tensor, "batch position"]:
    """A label for every word: 1 if its sentence is about several animals, 0 if about one; special tokens have none."""
    several = _MANY[tokens].any(dim=1, keepdim=True).long()
    return several.expand_as(tokens).masked_fill(tokens < N_SPECIALS, IGNORE)


def label_tokens(
    encoder: nn.Module, *, in_context: bool, steps: int = 60, seed: int = 0, monitor: Monitor | None = None
) -> dict[str, float]:
    """Fine-tune "one animal or several?" as a label of every word; the share of right labels by slot, held out.

    Args:
        in_context: read the encoder's row of each token; else the word's embedding, which knows no neighbours.
    """

    def read(model: nn.Module, tokens: Tensor) -> Tensor:
        return model.encode(tokens, mask=real(tokens)) if in_context else model.embedding.token(tokens)

    def loss(model: nn.Module, generator: torch.Generator) -> Tensor:
        tokens = cloze.draw(BATCH, generator)
        return masked_cross_entropy(model(tokens), how_many(tokens))

    name = f"label tokens from {'rows in context' if in_context else 'words alone'}"
    model = fine_tune(encoder, read, loss, steps=steps, seed=seed, monitor=monitor, name=name)
    labels = how_many(cloze.HELD_OUT)
    with torch.no_grad():
        right = (model(cloze.HELD_OUT).argmax(-1) == labels).double()
    asked = labels != IGNORE
    return {slot: right[:, i][asked[:, i]].mean().item() for i, slot in enumerate(cloze.SLOTS, start=1)}
