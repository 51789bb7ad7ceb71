"""Who still knows the first symbol? The same task, the same steps of training, four ways to carry it across a gap."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer_lab.model.attention import MultiHeadAttention
from transformer_lab.model.positions import sinusoidal_table
from transformer_lab.model.recurrence import GRUCell, LSTMCell, RecurrentCell, RNNCell, at, unroll
from transformer_lab.tasks.recall import CHANCE, N_SYMBOLS, draw_sequences
from transformer_lab.training import Monitor, seeded, train

MODELS = ("RNN", "LSTM", "GRU", "attention")
WIDTH, BATCH = 64, 64


class RecurrentReader(nn.Module):
    """Reads the symbols from left to right and answers from its last hidden state."""

    def __init__(self, cell: RecurrentCell) -> None:
        super().__init__()
        self.embedding = nn.Embedding(N_SYMBOLS, cell.d_input)
        self.cell = cell
        self.answer = nn.Linear(cell.d_hidden, N_SYMBOLS)

    def forward(self, tokens: Tensor) -> Tensor:
        steps = unroll(self.cell, self.embedding(tokens))
        return self.answer(at(steps, -1).hidden)


class AttentionReader(nn.Module):
    """The last position looks once at all positions and answers from what it took. A position is added to each
    symbol: attention alone does not know which one came first."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(N_SYMBOLS, width)
        self.attention = MultiHeadAttention(width, n_heads=1)
        self.answer = nn.Linear(width, N_SYMBOLS)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)
        x = x + sinusoidal_table(*x.shape[1:])
        return self.answer(self.attention(x[:, -1:], context=x)[:, 0])


@dataclass(frozen=True)
class Recall:
    """Share of unseen sequences whose first symbol was named, by model, for each number of distractors."""

    gaps: tuple[int, ...]
    accuracy: dict[str, tuple[float, ...]]
    chance: float = CHANCE


def compare_recall(
    gaps: Sequence[int],
    models: Sequence[str] = MODELS,
    *,
    forget_bias: float = 1.0,
    steps: int = 200,
    seed: int = 0,
    monitor: Monitor | None = None,
) -> Recall:
    """Train each model anew for each gap, with the same budget, and ask it about 500 unseen sequences.

    Args:
        gaps: numbers of distractors.
        models: some of ``MODELS``.
        forget_bias: the LSTM's forget gate starts with this bias. 1 is usual (Jozefowicz et al. 2015).
        steps: of training, at most; the same for every model. Who makes no mistake any more stops earlier.

    Raises:
        ValueError: an unknown model.
    """
    accuracy = {
        name: tuple(_train_one(build_reader(name, forget_bias, seed), name, gap, steps, seed, monitor) for gap in gaps)
        for name in models
    }
    return Recall(tuple(gaps), accuracy)


def build_reader(name: str, forget_bias: float = 1.0, seed: int = 0) -> RecurrentReader | AttentionReader:
    """One of ``MODELS``, untrained, of width ``WIDTH``."""
    with seeded(seed):
        if name == "attention":
            return AttentionReader(WIDTH)
        if name == "RNN":
            return RecurrentReader(RNNCell(WIDTH, WIDTH))
        if name == "GRU":
            return RecurrentReader(GRUCell(WIDTH, WIDTH))
        if name == "LSTM":
            cell = LSTMCell(WIDTH, WIDTH)
            nn.init.constant_(cell.from_input.bias.chunk(4)[1], forget_bias)
            return RecurrentReader(cell)
    raise ValueError(f"there is no model {name!r}; the models are {', '.join(MODELS)}.")


def _train_one(model: nn.Module, name: str, gap: int, steps: int, seed: int, monitor: Monitor | None) -> float:
    unseen, answers = draw_sequences(500, gap, generator=torch.Generator().manual_seed(seed))

    def batch_loss(generator: torch.Generator) -> Tensor:
        tokens, target = draw_sequences(BATCH, gap, generator=generator)
        return F.cross_entropy(model(tokens), target)

    @torch.no_grad()
    def accuracy() -> float:
        return (model(unseen).argmax(dim=-1) == answers).float().mean().item()

    train(
        model, batch_loss, steps=steps, learning_rate=5e-3, seed=seed + 1, clip=1.0, goal=lambda: accuracy() == 1.0,
        monitor=monitor, name=f"{name}, {gap} distractors",
    )  # fmt: skip
    return accuracy()
