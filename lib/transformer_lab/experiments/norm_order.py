"""Deep models with the norm before the sublayer or after the sum, trained with and without warm-up."""

import math
from collections import Counter
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from transformer_lab.experiments.deep_models import language_model, loss_of, some_sentences
from transformer_lab.model.families import DecoderOnly
from transformer_lab.tasks import agreement
from transformer_lab.training import Monitor, TrainingRun, train

BATCH = 16


@dataclass(frozen=True)
class OrderRun:
    """One model and how its training went."""

    norm_order: str
    warmup: int
    run: TrainingRun
    model: DecoderOnly

    @property
    def name(self) -> str:
        return f"{self.norm_order}, " + ("warm-up" if self.warmup else "no warm-up")

    @property
    def final_loss(self) -> float:
        """Mean loss of the last 20 steps."""
        return self.run.final_loss

    @property
    def verdict(self) -> str:
        """Whether the loss has left the level of word frequencies and come nearer to the lowest honest loss."""
        lowest, frequencies = agreement.best_loss(), frequency_loss()
        if self.final_loss > frequencies - 0.1:
            return "stuck: knows how often each word comes, and no more"
        return "learns" if self.final_loss < (lowest + frequencies) / 2 else "on the way"


def frequency_loss() -> float:
    """The loss of a model that says the same at every place: how often each word comes."""
    counts = Counter(word for sentence in agreement.SENTENCES for word in (*sentence, agreement.END))
    return -sum(n / counts.total() * math.log(n / counts.total()) for n in counts.values())


def train_order(
    depth: int,
    norm_order: str,
    *,
    warmup: int = 0,
    steps: int = 60,
    learning_rate: float = 5e-3,
    final_norm: bool = True,
    shortcut: bool = True,
    seed: int = 0,
    monitor: Monitor | None = None,
) -> OrderRun:
    """Train one model on sentences of the grammar; the seed fixes its weights and its batches.

    Raises:
        ValueError: as `language_model` and `train`.
    """
    model = language_model(depth, norm_order=norm_order, final_norm=final_norm, shortcut=shortcut, seed=seed)

    def batch_loss(generator: torch.Generator) -> Tensor:
        return loss_of(model, agreement.draw(BATCH, generator))

    norms = "no norms" if norm_order == "none" else f"{norm_order}-norm"
    parts = [f"{depth} blocks", norms, *([] if shortcut else ["no shortcuts"]), "warm-up" if warmup else "no warm-up"]
    name = ", ".join([*parts, f"rate {learning_rate:g}"])
    run = train(
        model, batch_loss, steps=steps, learning_rate=learning_rate, warmup=warmup, seed=seed, monitor=monitor,
        name=name,
    )  # fmt: skip
    return OrderRun(norm_order, warmup, run, model)


def compare_orders(
    depth: int, *, steps: int = 60, learning_rate: float = 5e-3, seed: int = 0, monitor: Monitor | None = None
) -> tuple[OrderRun, ...]:
    """Post- and pre-norm, each without warm-up and with one over half the steps; same weights, same batches."""
    return tuple(
        train_order(
            depth, norm_order, warmup=warmup, steps=steps, learning_rate=learning_rate, seed=seed, monitor=monitor
        )
        for norm_order in ("post", "pre")
        for warmup in (0, steps // 2)
    )


@torch.no_grad()
def stream_sizes(model: DecoderOnly, tokens: Int[Tensor, "batch position"] | None = None) -> tuple[float, ...]:
    """Root mean square of the stream's components: as it enters, and after each block, before any final norm."""
    sizes = []
    blocks = model.decoder.blocks

    def note(x: Tensor) -> None:
        sizes.append(x.square().mean().sqrt().item())

    handles = [blocks[0].register_forward_pre_hook(lambda module, args: note(args[0]))]
    handles += [block.register_forward_hook(lambda module, args, output: note(output)) for block in blocks]
    model(some_sentences() if tokens is None else tokens)
    for handle in handles:
        handle.remove()
    return tuple(sizes)
