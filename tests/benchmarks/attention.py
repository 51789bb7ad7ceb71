"""Time our attention against torch's: `python tests/benchmarks/attention.py`. Exits with 1 when over budget."""

import sys

import torch
from timing import ratio, report
from torch import nn

from transformer_lab.model.attention import KeyValueCache, MultiHeadAttention
from transformer_lab.model.recording import record_attention

BATCH, LENGTH, WIDTH, HEADS = 32, 128, 256, 8


def training_step(need_weights: bool, our_words: dict, torch_words: dict) -> float:
    """Forward and backward, ours against `nn.MultiheadAttention` with weights per head or with none."""
    ours, theirs = MultiHeadAttention(WIDTH, HEADS), nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
    x = torch.randn(BATCH, LENGTH, WIDTH, generator=torch.Generator().manual_seed(0), requires_grad=True)

    def step_ours():
        ours(x, **our_words).sum().backward()

    def step_ours_recorded():
        with record_attention(ours):
            step_ours()

    def step_theirs():
        output, _ = theirs(x, x, x, need_weights=need_weights, average_attn_weights=False, **torch_words)
        output.sum().backward()

    return ratio(step_ours_recorded if need_weights else step_ours, step_theirs)


@torch.no_grad()
def decoding() -> float:
    """128 tokens one by one: with a cache against projecting the whole text again at every token."""
    module = MultiHeadAttention(WIDTH, HEADS).eval()
    x = torch.randn(1, LENGTH, WIDTH, generator=torch.Generator().manual_seed(0))

    def cached():
        cache = KeyValueCache()
        for t in range(LENGTH):
            module(x[:, t : t + 1], causal=True, cache=cache)

    def uncached():
        for t in range(LENGTH):
            module(x[:, : t + 1], causal=True)

    return ratio(cached, uncached, rounds=5)


PADS = torch.arange(LENGTH) >= torch.linspace(LENGTH // 2, LENGTH, BATCH)[:, None]
FUTURE = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
# What is measured, the most that the ratio may be, and how.
BENCHMARKS = {
    "fused": (1.10, lambda: training_step(False, {}, {})),
    "fused, causal": (1.10, lambda: training_step(False, {"causal": True}, {"attn_mask": FUTURE})),
    "fused, padding": (1.10, lambda: training_step(False, {"mask": ~PADS[:, None, None]}, {"key_padding_mask": PADS})),
    "weights": (1.20, lambda: training_step(True, {}, {})),
    "weights, causal": (1.20, lambda: training_step(True, {"causal": True}, {"attn_mask": FUTURE})),
    "weights, padding": (1.20, lambda: training_step(True, {"mask": ~PADS[:, None, None]}, {"key_padding_mask": PADS})),
    "cached decoding, against uncached": (1.0, decoding),
}


if __name__ == "__main__":
    sys.exit(report(BENCHMARKS))
