"""One head or two: can one softmax keep two answers apart? Trained readers of the two-source task."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from transformer_lab.model.attention import MultiHeadAttention, split_heads
from transformer_lab.model.positions import sinusoidal_table
from transformer_lab.tasks.two_sources import ASKED_FROM, LENGTH, QUESTIONS, draw_sequences
from transformer_lab.training import Monitor, TrainingRun, seeded, train

GOAL = 0.995  # share of questions answered right that ends a training
BATCH, LEARNING_RATE = 128, 1e-2


class TwoSourceReader(nn.Module):
    """Embedding + sinusoidal positions → one attention layer → one linear read-out a question. Nothing else.

    All that a place knows about other places has gone through the attention. It computes in float64, so that
    rounding, which differs between machines, does not reach any printed digit.
    """

    def __init__(self, n_kinds: int, n_heads: int, d_model: int) -> None:
        super().__init__()
        self.n_kinds = n_kinds
        self.embedding = nn.Embedding(n_kinds, d_model)
        self.attention = MultiHeadAttention(d_model, n_heads)
        self.read_outs = nn.ModuleList(nn.Linear(d_model, n_kinds) for _ in QUESTIONS)
        self.register_buffer("positions", sinusoidal_table(LENGTH, d_model))
        self.double()

    def forward(self, tokens: Int[Tensor, "batch position"]) -> Float[Tensor, "batch question asked n_kinds"]:
        mixed = self.attention(self.embedding(tokens) + self.positions[: tokens.shape[1]])[:, ASKED_FROM:]
        return torch.stack([read_out(mixed) for read_out in self.read_outs], dim=1)


@dataclass(frozen=True)
class TrainedReader:
    """A reader after training, and how it was trained.

    Args:
        accuracy: share of 1,000 new sequences' places answered right, for each question.
        both: share of places at which both answers are right.
    """

    model: TwoSourceReader
    run: TrainingRun
    accuracy: tuple[float, ...]
    both: float


def train_reader(
    n_kinds: int,
    n_heads: int,
    *,
    d_model: int = 16,
    asked: Sequence[str] = QUESTIONS,
    steps: int = 800,
    learning_rate: float = LEARNING_RATE,
    forgets_to_transpose: bool = False,
    stop_at_goal: bool = True,
    seed: int = 0,
    monitor: Monitor | None = None,
) -> TrainedReader:
    """Train a reader on random sequences, until it meets ``GOAL`` on unseen ones or the steps are used up.

    Args:
        asked: the questions that count in training and for the goal.
        forgets_to_transpose: merge the heads by a reshape alone, the mistake of the lesson's trap.
        stop_at_goal: ``False`` takes all steps.
    """
    places = [QUESTIONS.index(question) for question in asked]
    with seeded(seed):
        model = TwoSourceReader(n_kinds, n_heads, d_model)
    if forgets_to_transpose:
        merge_without_transpose(model.attention)
    unseen, unseen_answers = draw_sequences(300, n_kinds, generator=torch.Generator().manual_seed(seed + 1000))

    def batch_loss(generator: torch.Generator) -> Tensor:
        tokens, answers = draw_sequences(BATCH, n_kinds, generator=generator)
        return F.cross_entropy(model(tokens)[:, places].flatten(0, 2), answers[:, places].flatten())

    def goal() -> bool:
        right = model(unseen).argmax(dim=-1) == unseen_answers
        return right[:, places].double().mean().item() >= GOAL

    run = train(
        model, batch_loss, steps=steps, learning_rate=learning_rate, seed=seed, goal=goal if stop_at_goal else None,
        monitor=monitor, name=f"{n_heads} {'head' if n_heads == 1 else 'heads'}, {n_kinds} kinds",
    )  # fmt: skip
    right = answers_right(model, seed=seed + 2000).double()
    return TrainedReader(model, run, tuple(right.mean(dim=(0, 2)).tolist()), right.prod(dim=1).mean().item())


def answers_right(model: TwoSourceReader, *, n: int = 1000, length: int = LENGTH, seed: int = 0) -> Tensor:
    """Which answers to ``n`` new sequences are right, (sequence, question, asked).

    Args:
        length: how much of each sequence the model reads. Both answers lie in the past, so they stay the same.

    Raises:
        ValueError: a length at which no place is asked, or longer than the sequences are.
    """
    if not ASKED_FROM < length <= LENGTH:
        raise ValueError(f"length is {length}; choose between {ASKED_FROM + 1} and {LENGTH}.")
    tokens, answers = draw_sequences(n, model.n_kinds, generator=torch.Generator().manual_seed(seed))
    with torch.no_grad():
        return model(tokens[:, :length]).argmax(dim=-1) == answers[..., : length - ASKED_FROM]


def merge_without_transpose(attention: MultiHeadAttention) -> None:
    """Break an attention layer the way people do: its heads are merged by a reshape, without the transpose."""

    def scramble(module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor]:
        (merged,) = args
        return (split_heads(merged, attention.n_heads).reshape(merged.shape),)

    attention.output_projection.register_forward_pre_hook(scramble)


@dataclass(frozen=True)
class HeadsComparison:
    """One wide head and two heads of half its width, trained on each number of symbol kinds."""

    kinds: tuple[int, ...]
    one_head: tuple[TrainedReader, ...]
    two_heads: tuple[TrainedReader, ...]


def compare_heads(
    kinds: Sequence[int], *, d_model: int = 16, steps: int = 800, seed: int = 0, monitor: Monitor | None = None
) -> HeadsComparison:
    """Train one head and two, of equal width together and equally many parameters, for each number of kinds."""
    one, two = (
        tuple(
            train_reader(n_kinds, n_heads, d_model=d_model, steps=steps, seed=seed, monitor=monitor)
            for n_kinds in kinds
        )
        for n_heads in (1, 2)
    )
    return HeadsComparison(tuple(kinds), one, two)
