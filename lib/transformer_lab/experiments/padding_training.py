"""Can a learning rate make up for a missing mask? The same classifier, trained at several rates, with and without."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from transformer_lab.experiments.padding import FIRST_PADS, MOST_PADS
from transformer_lab.experiments.reviews import ReviewClassifier
from transformer_lab.model.masks import mask_from_tokens
from transformer_lab.tasks.reviews import PAD, sample_reviews
from transformer_lab.training import Monitor, seeded, train

RATES = (1e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1)
MOST_TRAINING_PADS = 12


@dataclass(frozen=True)
class SweepRun:
    """One trained classifier, tested on 200 new reviews padded with 3 and with 124 pads.

    ``gap`` is the largest difference between the two logits of one review, ``flips`` how many reviews changed class.
    """

    masked: bool
    learning_rate: float
    last_loss: float
    accuracy_few_pads: float
    accuracy_many_pads: float
    gap: float
    flips: int


def learning_rate_sweep(
    rates: Sequence[float] = RATES, *, steps: int = 150, seed: int = 0, monitor: Monitor | None = None
) -> tuple[SweepRun, ...]:
    """Train from the same initial weights on the same batches at every rate, first without the mask, then with it.

    Each training batch holds 32 reviews and between 0 and 12 pads, as batches of mixed lengths do.
    """
    return tuple(_trained(masked, rate, steps, seed, monitor) for masked in (False, True) for rate in rates)


def _trained(masked: bool, rate: float, steps: int, seed: int, monitor: Monitor | None) -> SweepRun:
    with seeded(seed) as generator:
        model = ReviewClassifier(d_model=16, n_heads=2)
        reviews, labels = sample_reviews(512, generator)
        new_reviews, new_labels = sample_reviews(200, generator)

    def logits(tokens: Tensor, n_pads: int) -> Tensor:
        tokens = F.pad(tokens, (0, n_pads), value=PAD)
        return model(tokens, mask_from_tokens(tokens, PAD) if masked else None)

    def batch_loss(generator: torch.Generator) -> Tensor:
        chosen = torch.randint(len(reviews), (32,), generator=generator)
        n_pads = int(torch.randint(MOST_TRAINING_PADS + 1, (1,), generator=generator))
        return F.cross_entropy(logits(reviews[chosen], n_pads), labels[chosen])

    name = f"{'mask' if masked else 'no mask'}, rate {rate:g}"
    run = train(model, batch_loss, steps=steps, learning_rate=rate, seed=seed, monitor=monitor, name=name)
    model.double()  # measured in float64, so that rounding of large logits cannot pass for a leak
    with torch.no_grad():
        few, many = logits(new_reviews, FIRST_PADS), logits(new_reviews, MOST_PADS)
    accuracies = [(scores.argmax(-1) == new_labels).float().mean().item() for scores in (few, many)]
    flips = int((few.argmax(-1) != many.argmax(-1)).sum())
    return SweepRun(masked, rate, run.losses[-1], *accuracies, (few - many).abs().max().item(), flips)
