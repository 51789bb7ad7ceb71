"""What padding does to a sentence: one review in two batches, the attention lost, the loss diluted, the norms."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from transformer_lab.experiments.reviews import hand_set_classifier
from transformer_lab.model.averages import IGNORE, masked_cross_entropy
from transformer_lab.model.masks import mask_from_tokens
from transformer_lab.model.positions import position_ids
from transformer_lab.model.recording import record_attention
from transformer_lab.tasks.reviews import CLASSES, PAD, encode

FIRST_PADS = 3  # pads in the first of the two batches
MOST_PADS = 124
SIDES = ("right", "left")
POSITIONS = ("off", "count all", "count words")  # no positions; numbered with the pads; numbered without them
LOGIT_RANGE = (-2.6, 3.8)

_hand_set = functools.cache(lambda positions: hand_set_classifier(positions=positions))


@dataclass(frozen=True)
class Reading:
    """How the classifier read one padded review.

    ``weights`` has one number a token, pads included: the attention row, averaged over the words' queries, which is
    all that the logits depend on. ``pad_share`` is the part of it that went to pads.
    """

    words: tuple[str, ...]
    n_pads: int
    side: str
    weights: tuple[float, ...]
    pad_share: float
    logits: tuple[float, ...]

    @property
    def word_weights(self) -> tuple[float, ...]:
        """The weights of the words alone."""
        return self.weights[: len(self.words)] if self.side == "right" else self.weights[self.n_pads :]

    @property
    def pad_weights(self) -> tuple[float, ...]:
        """The weights of the pads alone."""
        return self.weights[len(self.words) :] if self.side == "right" else self.weights[: self.n_pads]

    @property
    def predicted(self) -> str:
        """The class with the largest logit."""
        return CLASSES[max(range(len(CLASSES)), key=lambda index: self.logits[index])]


@dataclass(frozen=True)
class Comparison:
    """One review in two batches; ``positions`` is one of `POSITIONS`.

    ``logit_range`` holds every logit that the hand-set classifier can give it here.
    """

    classes: tuple[str, ...]
    first: Reading
    second: Reading
    masked: bool
    positions: str
    logit_range: tuple[float, float] = LOGIT_RANGE

    @property
    def gap(self) -> float:
        """The largest absolute difference between the two batches' logits."""
        return max(abs(a - b) for a, b in zip(self.first.logits, self.second.logits, strict=True))


@torch.no_grad()
def read_review(
    review: str,
    n_pads: int,
    *,
    masked: bool,
    positions: str = "off",
    side: str = "right",
) -> Reading:
    """Pad a review and let the hand-set classifier read it, with or without the padding mask.

    Raises:
        ValueError: no word, a word the model does not know, a number of pads below 0, an unknown side, or
            ``positions`` that is none of `POSITIONS`.
    """
    if positions not in POSITIONS:
        raise ValueError(f"positions is {positions!r}; it must be one of {', '.join(POSITIONS)}.")
    words = tuple(review.split())
    if not words:
        raise ValueError("the review is empty; write at least one word.")
    tokens = encode(words, n_pads, side=side)[None]
    mask = mask_from_tokens(tokens, PAD)
    numbers = position_ids(mask) if positions == "count words" else None
    model = _hand_set(positions != "off")
    with record_attention(model) as maps:
        logits = model(tokens, mask if masked else None, numbers)[0]
    real = tokens[0] != PAD
    row = maps["attention"][0][0, :, real].mean(dim=(0, 1))  # over heads and the words' queries
    return Reading(words, n_pads, side, tuple(row.tolist()), row[~real].sum().item(), tuple(logits.tolist()))


def compare_batches(
    review: str, n_pads: int = MOST_PADS, *, masked: bool = False, positions: str = "off", side: str = "right"
) -> Comparison:
    """The same review in a batch that gives it 3 pads and in one that gives it ``n_pads``."""
    first, second = (
        read_review(review, pads, masked=masked, positions=positions, side=side) for pads in (FIRST_PADS, n_pads)
    )
    return Comparison(CLASSES, first, second, masked, positions)


@dataclass(frozen=True)
class LeakCurve:
    """Share of attention lost to pads, one number for each of ``pads``, without the mask and without positions.

    ``equal`` is what n pads would take from four words if all scores were equal: n / (n + 4).
    """

    pads: tuple[int, ...]
    lost: tuple[float, ...]
    equal: tuple[float, ...]


def leak_curve(review: str, pads: Sequence[int] = tuple(range(MOST_PADS + 1))) -> LeakCurve:
    """The share lost to pads against their number."""
    n_words = len(review.split())
    lost = tuple(read_review(review, n, masked=False).pad_share for n in pads)
    return LeakCurve(tuple(pads), lost, tuple(n / (n + n_words) for n in pads))


@dataclass(frozen=True)
class PaddedLoss:
    """The loss of four targets and ``n_pads`` pads, averaged over all positions and over the targets alone.

    The norms are those of the gradients by the logits.
    """

    n_pads: int
    over_everything: float
    over_targets: float
    gradient_over_everything: float
    gradient_over_targets: float


def padded_loss(n_pads: int, *, n_targets: int = 4, vocab: int = 10, seed: int = 0) -> PaddedLoss:
    """Zero the loss at pads, then average: over every position (the mistake), or over the real targets alone."""
    generator = torch.Generator().manual_seed(seed)
    real = torch.randn(1, n_targets, vocab, generator=generator)
    labels = torch.randint(vocab, (1, n_targets), generator=generator)
    logits = torch.cat([real, torch.randn(1, n_pads, vocab, generator=generator)], dim=1).requires_grad_()
    targets = F.pad(labels, (0, n_pads), value=IGNORE)
    everything = F.cross_entropy(logits.mT, targets, ignore_index=IGNORE, reduction="none").mean()
    over_targets = masked_cross_entropy(logits, targets)
    norms = [torch.autograd.grad(loss, logits)[0].norm().item() for loss in (everything, over_targets)]
    return PaddedLoss(n_pads, everything.item(), over_targets.item(), *norms)


@dataclass(frozen=True)
class NormLeak:
    """How far a normalisation moves the *real* tokens when only the padded positions change."""

    layer_norm: float
    batch_norm_training: float
    batch_norm_evaluation: float


def norm_leak(n_pads: int, *, n_real: int = 4, d_model: int = 8, seed: int = 0) -> NormLeak:
    """Overwrite the vectors at padded positions and compare what torch's own norms give the real tokens.

    BatchNorm averages over every position of the batch while it trains; in evaluation it uses stored averages.
    """
    generator = torch.Generator().manual_seed(seed)
    before = torch.randn(2, n_real + n_pads, d_model, generator=generator)
    after = before.clone()
    after[:, n_real:] = 3 * torch.randn(2, n_pads, d_model, generator=generator)

    def moved(norm: nn.Module, channels_first: bool) -> float:
        outputs = [norm(x.mT).mT if channels_first else norm(x) for x in (before, after)]
        return (outputs[0] - outputs[1])[:, :n_real].abs().max().item()

    return NormLeak(
        moved(nn.LayerNorm(d_model), False),
        moved(nn.BatchNorm1d(d_model).train(), True),
        moved(nn.BatchNorm1d(d_model).eval(), True),
    )
