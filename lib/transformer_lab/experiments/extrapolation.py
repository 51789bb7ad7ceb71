"""Train short, test long: one small causal attention, five position schemes, two questions about earlier symbols."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from transformer_lab.model.attention import MultiHeadAttention
from transformer_lab.model.positions import position_scheme
from transformer_lab.tasks.looking_back import N_SYMBOLS, NO_ANSWER, TASKS
from transformer_lab.training import Monitor, seeded, train

SCHEMES = ("none", "learned", "sinusoidal", "rope", "alibi")
SHORTEST, LONGEST = 8, 16  # lengths of the training sequences
TESTED = 64
FIRST = 3  # positions count from 1, and "two back" asks nothing at the first two


class LookingBack(nn.Module):
    """Embeddings, one causal attention added to them, and an answer at every position.

    The scheme adds to the embeddings here, or rotates and biases inside the attention.
    """

    def __init__(self, scheme: str, d_model: int = 32, n_heads: int = 4) -> None:
        super().__init__()
        self.position = position_scheme(scheme, d_model=d_model, n_positions=LONGEST)
        self.embedding = nn.Embedding(N_SYMBOLS, d_model)
        self.attention = MultiHeadAttention(d_model, n_heads, position=self.position)
        self.answer = nn.Linear(d_model, N_SYMBOLS)

    def forward(self, tokens: Int[Tensor, "batch length"]) -> Float[Tensor, "batch length symbol"]:
        x = self.position.add(self.embedding(tokens), torch.arange(tokens.shape[1])[None])
        return self.answer(x + self.attention(x, causal=True))


@dataclass(frozen=True)
class Extrapolation:
    """Share of right answers at each of ``positions`` (3 to 64), and the trained models, by scheme.

    ``accuracy[scheme]`` is shorter than ``positions`` where the scheme cannot go further.
    """

    task: str
    positions: tuple[int, ...]
    trained_to: int
    accuracy: dict[str, tuple[float, ...]]
    models: dict[str, LookingBack] = field(default_factory=dict)

    def at(self, scheme: str, position: int) -> float | None:
        """Accuracy at ``position``; ``None`` where the scheme has no answer."""
        values, index = self.accuracy[scheme], self.positions.index(position)
        return values[index] if index < len(values) else None


def train_short_test_long(
    task: str,
    *,
    schemes: Sequence[str] = SCHEMES,
    steps: int = 300,
    batch: int = 32,
    learning_rate: float = 1e-2,
    seed: int = 0,
    monitor: Monitor | None = None,
) -> Extrapolation:
    """Train each scheme on sequences of 8 to 16 symbols, then ask it at every position up to 64.

    Every scheme is trained on the same batches and asked about the same unseen sequences.

    Raises:
        ValueError: an unknown task or scheme.
    """
    if task not in TASKS:
        raise ValueError(f"task is {task!r}; the tasks are {', '.join(TASKS)}.")
    unseen = TASKS[task](1000, TESTED, generator=torch.Generator().manual_seed(seed + 1))
    accuracy, models = {}, {}
    for scheme in schemes:
        models[scheme] = model = _trained(scheme, task, steps, batch, learning_rate, seed, monitor)
        reach = LONGEST if scheme == "learned" else TESTED  # a learned table has no row past its length
        accuracy[scheme] = _accuracy(model, *(each[:, :reach] for each in unseen))
    return Extrapolation(task, tuple(range(FIRST, TESTED + 1)), LONGEST, accuracy, models)


def _trained(
    scheme: str, task: str, steps: int, batch: int, learning_rate: float, seed: int, monitor: Monitor | None
) -> LookingBack:
    with seeded(seed):
        model = LookingBack(scheme)

    def batch_loss(generator: torch.Generator) -> Tensor:
        length = int(torch.randint(SHORTEST, LONGEST + 1, (1,), generator=generator))
        tokens, labels = TASKS[task](batch, length, generator=generator)
        return F.cross_entropy(model(tokens).flatten(0, 1), labels.flatten(), ignore_index=NO_ANSWER)

    name = f"{task}, {scheme}"
    train(model, batch_loss, steps=steps, learning_rate=learning_rate, seed=seed, monitor=monitor, name=name)
    return model


@torch.no_grad()
def _accuracy(model: LookingBack, tokens: Tensor, labels: Tensor) -> tuple[float, ...]:
    """From position 3 on. The model is causal, so its answer at a position does not depend on what follows."""
    answers = model(tokens).argmax(dim=-1)
    asked, right = (labels != NO_ANSWER), (answers == labels)  # no answer is ever right where nothing is asked
    asked, right = (flags[:, FIRST - 1 :].sum(dim=0) for flags in (asked, right))
    return tuple((right / asked).tolist())
