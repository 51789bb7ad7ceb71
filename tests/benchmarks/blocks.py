"""Time our block against torch's encoder layer: `python tests/benchmarks/blocks.py`. Exits with 1 when over budget.

Torch's layer also drops out inside its feed-forward layer, which ours does not; with dropout 0 both do the same work.
"""

import sys

import torch
from timing import ratio, report
from torch import nn

from transformer_lab.model.blocks import Block

BATCH, LENGTH, WIDTH, HEADS, INNER = 32, 128, 256, 8, 1024


def training_step(order: str, dropout: float) -> float:
    """Forward and backward of one block with everything in it."""
    ours = Block(WIDTH, HEADS, INNER, norm_order=order, activation="relu", dropout=dropout)
    theirs = nn.TransformerEncoderLayer(WIDTH, HEADS, INNER, dropout, batch_first=True, norm_first=order == "pre")
    x = torch.randn(BATCH, LENGTH, WIDTH, generator=torch.Generator().manual_seed(0), requires_grad=True)
    return ratio(lambda: ours(x).sum().backward(), lambda: theirs(x).sum().backward(), rounds=9)


# What is measured, the most that the ratio may be, and how.
BENCHMARKS = {
    f"{order}-norm, dropout {dropout}": (1.15, lambda order=order, dropout=dropout: training_step(order, dropout))
    for order in ("pre", "post")
    for dropout in (0.1, 0.0)
}

if __name__ == "__main__":
    sys.exit(report(BENCHMARKS))
