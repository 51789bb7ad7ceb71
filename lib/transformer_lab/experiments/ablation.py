"""Switch heads off in a trained model and see what is missed (Michel et al. 2019)."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from transformer_lab.experiments.one_or_two_heads import TwoSourceReader
from transformer_lab.model.attention import MultiHeadAttention, merge_heads, split_heads
from transformer_lab.model.recording import record_attention
from transformer_lab.tasks.two_sources import ASKED_FROM, LENGTH, QUESTIONS, SYMBOLS, draw_sequences


@contextmanager
def without_heads(attention: MultiHeadAttention, off: Collection[int]) -> Iterator[None]:
    """Inside the ``with`` block, the outputs of the heads numbered ``off`` are zeros when they reach W_O.

    Raises:
        ValueError: a head that the layer does not have.
    """
    unknown = sorted(set(off) - set(range(attention.n_heads)))
    if unknown:
        raise ValueError(f"there are no heads {unknown}; this layer has heads 0 … {attention.n_heads - 1}.")

    def silence(module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor]:
        heads = split_heads(args[0], attention.n_heads).clone()
        heads[:, list(off)] = 0
        return (merge_heads(heads),)

    handle = attention.output_projection.register_forward_pre_hook(silence)
    try:
        yield
    finally:
        handle.remove()


@dataclass(frozen=True)
class Ablation:
    """What a model can do with some heads off: its loss, and the share of right answers to each question."""

    off: tuple[int, ...]
    loss: float
    accuracy: tuple[float, ...]


def ablate(model: TwoSourceReader, off: Sequence[int] = (), *, n: int = 500, seed: int = 7) -> Ablation:
    """Ask the model about ``n`` new sequences while the heads ``off`` are silent."""
    tokens, answers = draw_sequences(n, model.n_kinds, generator=torch.Generator().manual_seed(seed))
    with torch.no_grad(), without_heads(model.attention, off):
        logits = model(tokens)
    loss = F.cross_entropy(logits.flatten(0, 2), answers.flatten()).item()
    right = (logits.argmax(dim=-1) == answers).double().mean(dim=(0, 2))
    return Ablation(tuple(off), loss, tuple(right.tolist()))


@dataclass(frozen=True)
class HeadGrid:
    """One sequence through a model with some heads off, and how it fares on many.

    Args:
        maps: the weights of every head, recorded in the same forward pass.
        answers, given: symbols, one for each of ``questions``, at the chosen place.
    """

    questions: tuple[str, ...]
    symbols: tuple[str, ...]
    maps: Float[Tensor, "heads query key"]
    place: int
    answers: tuple[str, ...]
    given: tuple[str, ...]
    on_many: Ablation


def look_at_heads(model: TwoSourceReader, on_many: Ablation, sequence: int, place: int) -> HeadGrid:
    """Run sequence number ``sequence`` through the model and read the answers at ``place``, counted from 1.

    The same heads are off as in ``on_many``, which `ablate` has measured.

    Raises:
        ValueError: a sequence below 1, a place that is not asked.
    """
    if sequence < 1:
        raise ValueError(f"sequence is {sequence}; the first is number 1.")
    if not ASKED_FROM < place <= LENGTH:
        raise ValueError(f"place is {place}; the model is asked at places {ASKED_FROM + 1} … {LENGTH}.")
    tokens, answers = draw_sequences(1, model.n_kinds, generator=torch.Generator().manual_seed(sequence))
    with torch.no_grad(), without_heads(model.attention, on_many.off), record_attention(model) as maps:
        given = model(tokens).argmax(dim=-1)
    chosen = (0, slice(None), place - 1 - ASKED_FROM)
    return HeadGrid(
        questions=QUESTIONS,
        symbols=tuple(SYMBOLS[token] for token in tokens[0].tolist()),
        maps=maps["attention"][0][0],
        place=place,
        answers=tuple(SYMBOLS[token] for token in answers[chosen].tolist()),
        given=tuple(SYMBOLS[token] for token in given[chosen].tolist()),
        on_many=on_many,
    )
