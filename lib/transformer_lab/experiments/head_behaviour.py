"""What one head looks at, measured over many inputs instead of one."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from transformer_lab.experiments.one_or_two_heads import TwoSourceReader
from transformer_lab.model.recording import record_attention
from transformer_lab.tasks.two_sources import ASKED_FROM, LENGTH, draw_sequences


@dataclass(frozen=True)
class HeadBehaviour:
    """The weight that a head puts on the symbol just before and on the first one, at every asked place of many inputs.

    Args:
        weight: one number a question, in the order of ``QUESTIONS``.
        symbols: which symbols stood at these two places.
    """

    weight: Float[Tensor, "sequence question asked"]
    symbols: Int[Tensor, "sequence question asked"]

    def average(self, just_before: int | None = None, first: int | None = None) -> tuple[float, float]:
        """Mean weight on both places; only over inputs with these symbols there, if they are given."""
        chosen = torch.ones_like(self.symbols[:, 0], dtype=torch.bool)
        for question, symbol in enumerate((just_before, first)):
            if symbol is not None:
                chosen &= self.symbols[:, question] == symbol
        return tuple(self.weight[:, question][chosen].mean().item() for question in (0, 1))


def measure_head(model: TwoSourceReader, head: int, *, n: int = 1000, seed: int = 5) -> HeadBehaviour:
    """Record a head on ``n`` sequences.

    Raises:
        ValueError: a head that the model does not have.
    """
    if not 0 <= head < model.attention.n_heads:
        raise ValueError(f"head is {head}; the model has heads 0 … {model.attention.n_heads - 1}.")
    tokens, symbols = draw_sequences(n, model.n_kinds, generator=torch.Generator().manual_seed(seed))
    with torch.no_grad(), record_attention(model) as maps:
        model(tokens)
    weights = maps["attention"][0][:, head]  # (sequence, query, key)
    asked = torch.arange(ASKED_FROM, LENGTH)
    return HeadBehaviour(torch.stack((weights[:, asked, asked - 1], weights[:, asked, 0]), dim=1), symbols)
