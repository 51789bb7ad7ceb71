"""The bug clinic: a small language model with one mask or label bug at most, and the tests that find it.

Every number of the evidence comes from running the model, broken as it is, on a sentence of five words.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from transformer_lab.model.attention import Attention, MultiHeadAttention
from transformer_lab.model.averages import IGNORE, masked_cross_entropy
from transformer_lab.model.masks import causal_mask, combine_masks, mask_from_tokens
from transformer_lab.model.positions import position_ids, sinusoidal_table
from transformer_lab.model.recording import record_attention
from transformer_lab.training import seeded

HEALTHY = "healthy"
BUGS = (
    HEALTHY, "no_causal", "upper_triangle", "diagonal_excluded", "after_softmax", "padding_ignored",
    "padding_inverted", "padding_on_queries", "labels_unshifted", "labels_shifted_twice", "pads_in_loss",
)  # fmt: skip
TESTS = ("future", "padding", "rows", "labels")

PAD, END = 0, 1
VOCABULARY = ("pad", "<end>", "the", "cat", "sat", "on", "mats", "dogs")
SENTENCE = (2, 3, 4, 5, 6)
WORDS = tuple(VOCABULARY[token] for token in SENTENCE)
OTHER_WORD = 7  # what a word is replaced with in the future test
N_PADS, MORE_PADS = 3, 12
MOVED = 1e-5


class LateMaskAttention(Attention):
    """The bug "mask after softmax": every key shares in the softmax, and forbidden weights are crossed out later."""

    def forward(self, query: Tensor, key: Tensor, value: Tensor, *, mask: Any = None, **kwargs: Any) -> tuple:
        """Like `Attention`, wrongly."""
        _, weights = super().forward(query, key, value, **(kwargs | {"need_weights": True}))
        weights = weights * mask
        return weights @ value, weights


class Patient(nn.Module):
    """Embedding, positions, one masked attention, one linear layer to the next word's logits — and one bug at most."""

    def __init__(self, bug: str = HEALTHY, seed: int = 0) -> None:
        if bug not in BUGS:
            raise ValueError(f"bug is {bug!r}; it must be one of {', '.join(BUGS)}.")
        super().__init__()
        self.bug = bug
        with seeded(seed):
            self.embedding = nn.Embedding(len(VOCABULARY), 16)
            self.attention = MultiHeadAttention(16, 1)
            self.next_word = nn.Linear(16, len(VOCABULARY))
        self.register_buffer("table", sinusoidal_table(64, 16))
        if bug == "after_softmax":
            self.attention.attention = LateMaskAttention()
        self.eval()

    def forward(self, tokens: Tensor) -> Tensor:
        """Tokens (batch, length) to logits (batch, length, vocabulary)."""
        real = mask_from_tokens(tokens, PAD)
        x = self.embedding(tokens) + self.table[position_ids(real)]
        return self.next_word(self.attention(x, mask=self.mask(real)))

    def mask(self, real: Tensor) -> Tensor:
        """Which key each query may attend to, given which tokens are real (batch, 1, 1, key)."""
        length = real.shape[-1]
        causal, padding = causal_mask(length), real
        if self.bug == "no_causal":
            causal = torch.ones_like(causal)
        elif self.bug == "upper_triangle":
            causal = causal.mT
        elif self.bug == "diagonal_excluded":
            causal = causal.tril(-1)
        elif self.bug == "padding_ignored":
            padding = None
        elif self.bug == "padding_inverted":
            padding = ~real
        elif self.bug == "padding_on_queries":
            padding = real.mT.expand(-1, -1, -1, length)
        return combine_masks(causal, padding)

    def labels(self, tokens: Tensor) -> Tensor:
        """What each position is trained to predict: the next token, the end after the last, nothing at pads."""
        steps = {"labels_unshifted": 0, "labels_shifted_twice": 2}.get(self.bug, 1)
        closing = tokens.new_tensor([[END, IGNORE]])[:, : min(steps, 2)].expand(len(tokens), -1)
        labels = torch.cat([tokens, closing], dim=1)[:, steps:]
        return labels if self.bug == "pads_in_loss" else labels.masked_fill(tokens == PAD, IGNORE)


def padded(n_pads: int) -> Tensor:
    """The sentence with pads before it, where a causal mask alone does not hide them."""
    return torch.tensor([[PAD] * n_pads + list(SENTENCE)])


@dataclass(frozen=True)
class FutureTest:
    """``moved[i][j]``: how far the logits at word i move when word j is replaced."""

    moved: tuple[tuple[float, ...], ...]

    @property
    def pattern(self) -> tuple:
        """What can be seen without reading the numbers."""
        return tuple(tuple(value > MOVED for value in row) for row in self.moved)


@dataclass(frozen=True)
class PaddingTest:
    """How far each word's logits move when 3 pads are put before the sentence."""

    moved: tuple[float, ...]

    @property
    def pattern(self) -> tuple:
        """What can be seen without reading the numbers."""
        return tuple(value > MOVED for value in self.moved)


@dataclass(frozen=True)
class RowTest:
    """For each row of the attention weights of the padded sentence: the sum over words, and the sum over pads."""

    on_words: tuple[float, ...]
    on_pads: tuple[float, ...]

    @property
    def pattern(self) -> tuple:
        """What can be seen without reading the numbers: each part is nothing, some, or all."""
        return tuple((_part(words), _part(pads)) for words, pads in zip(self.on_words, self.on_pads, strict=True))


@dataclass(frozen=True)
class LabelTest:
    """Inputs and labels of the padded sentence ("" = ignored), and the loss with 3 and with 12 pads."""

    inputs: tuple[str, ...]
    labels: tuple[str, ...]
    loss: float
    loss_with_more_pads: float

    @property
    def pattern(self) -> tuple:
        """What can be seen without reading the numbers."""
        return self.labels


@torch.no_grad()
def run_test(name: str, patient: Patient) -> FutureTest | PaddingTest | RowTest | LabelTest:
    """Run one of `TESTS` on a model.

    Raises:
        ValueError: an unknown test.
    """
    runs = {"future": _future, "padding": _padding, "rows": _rows, "labels": _labels}
    if name not in runs:
        raise ValueError(f"there is no test {name!r}; the tests are {', '.join(TESTS)}.")
    return runs[name](patient)


def _future(patient: Patient) -> FutureTest:
    original = torch.tensor([SENTENCE])
    before = patient(original)[0]
    columns = []
    for place in range(len(SENTENCE)):
        changed = original.clone()
        changed[0, place] = OTHER_WORD
        columns.append((patient(changed)[0] - before).abs().amax(dim=-1))
    return FutureTest(tuple(map(tuple, torch.stack(columns, dim=1).tolist())))


def _padding(patient: Patient) -> PaddingTest:
    alone, together = patient(padded(0))[0], patient(padded(N_PADS))[0, N_PADS:]
    return PaddingTest(tuple((alone - together).abs().amax(dim=-1).tolist()))


def _rows(patient: Patient) -> RowTest:
    with record_attention(patient) as maps:
        patient(padded(N_PADS))
    weights = maps["attention"][0][0, 0]
    return RowTest(tuple(weights[:, N_PADS:].sum(-1).tolist()), tuple(weights[:, :N_PADS].sum(-1).tolist()))


def _labels(patient: Patient) -> LabelTest:
    losses = [
        masked_cross_entropy(patient(tokens), patient.labels(tokens)).item()
        for tokens in (padded(N_PADS), padded(MORE_PADS))
    ]
    tokens = padded(N_PADS)
    inputs = tuple(VOCABULARY[token] for token in tokens[0])
    labels = tuple("" if label == IGNORE else VOCABULARY[label] for label in patient.labels(tokens)[0])
    return LabelTest(inputs, labels, *losses)


def _part(total: float) -> str:
    return "none" if total < MOVED else "all" if abs(total - 1) < MOVED else "some"


def admit(ward: int, number: int) -> str:
    """The bug of one patient of a ward. Each round brings every bug once, healthy included, in a new random order."""
    turn, place = divmod(number, len(BUGS))
    order = torch.randperm(len(BUGS), generator=torch.Generator().manual_seed(1000 * ward + turn))
    return BUGS[order[place]]
