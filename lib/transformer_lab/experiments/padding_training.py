"""Can training make up for a missing mask? The same classifier, trained in three ways at several learning rates."""

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

RATES = (0.003, 0.01, 0.03)
N_REVIEWS = 200
# name: (with the padding mask, most pads of a training batch)
SETTINGS = {
    "no mask, up to 12 pads": (False, 12),
    "no mask, up to 124 pads": (False, MOST_PADS),
    "padding mask, up to 12 pads": (True, 12),
}


@dataclass(frozen=True)
class SweepRun:
    """One trained classifier, tested on 200 new reviews padded with 3 and with 124 pads.

    ``gap`` is the largest difference between the logits of one review in the two batches, ``flips`` how many of the
    reviews changed class.
    """

    setting: str
    learning_rate: float
    last_loss: float
    accuracy_few_pads: float
    accuracy_many_pads: float
    gap: float
    flips: int


def learning_rate_sweep(
    rates: Sequence[float] = RATES, *, steps: int = 150, seed: int = 0, monitor: Monitor | None = None
) -> dict[str, tuple[SweepRun, ...]]:
    """Train in each of `SETTINGS`, from the same initial weights on the same reviews, once at every rate.

    Each training batch holds 32 reviews with one number of pads, drawn anew, as batches of mixed lengths have.
    """
    return {name: tuple(_trained(name, rate, steps, seed, monitor) for rate in rates) for name in SETTINGS}


def _trained(setting: str, rate: float, steps: int, seed: int, monitor: Monitor | None) -> SweepRun:
    masked, most_pads = SETTINGS[setting]
    with seeded(seed) as generator:
        model = ReviewClassifier(d_model=16, n_heads=2)
        reviews, labels = sample_reviews(512, generator)
        new_reviews, new_labels = sample_reviews(N_REVIEWS, generator)

    def logits(tokens: Tensor, n_pads: int) -> Tensor:
        tokens = F.pad(tokens, (0, n_pads), value=PAD)
        return model(tokens, mask_from_tokens(tokens, PAD) if masked else None)

    def batch_loss(generator: torch.Generator) -> Tensor:
        chosen = torch.randint(len(reviews), (32,), generator=generator)
        n_pads = int(torch.randint(most_pads + 1, (1,), generator=generator))
        return F.cross_entropy(logits(reviews[chosen], n_pads), labels[chosen])

    name = f"{setting}, rate {rate:g}"
    run = train(model, batch_loss, steps=steps, learning_rate=rate, seed=seed, monitor=monitor, name=name)
    model.double()  # measured in float64, so that rounding of large logits cannot pass for a leak
    with torch.no_grad():
        few, many = logits(new_reviews, FIRST_PADS), logits(new_reviews, MOST_PADS)
    accuracies = [(scores.argmax(-1) == new_labels).float().mean().item() for scores in (few, many)]
    flips = int((few.argmax(-1) != many.argmax(-1)).sum())
    return SweepRun(setting, rate, run.losses[-1], *accuracies, (few - many).abs().max().item(), flips)


def verdict(runs: Sequence[SweepRun]) -> str:
    """Several runs in words and thresholds, which read the same on every machine; the figures themselves do not."""
    right, gaps = min(run.accuracy_few_pads for run in runs), [run.gap for run in runs]
    changed = sum(run.flips for run in runs) / len(runs) / N_REVIEWS
    answers = (
        "no answer changes" if changed == 0
        else "under 5 % of the answers change" if changed < 0.05
        else "5 to 10 % of the answers change" if changed <= 0.1
        else "over 10 % of the answers change"
    )  # fmt: skip
    gap = "gap over 1" if min(gaps) > 1 else "gap under 0.00001" if max(gaps) < 1e-5 else "gap between 0.00001 and 1"
    return f"{'over' if right > 0.9 else 'not over'} 90 % right, {answers}, {gap}"
