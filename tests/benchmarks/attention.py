"""Time our attention against torch's: `python tests/benchmarks/attention.py`. Exits with 1 when over budget.

The two contenders take turns, so that a busy machine slows both; the ratio is that of their median times.
The lines with two threads mean something only while nothing else uses the two cores.
"""

import statistics
import sys
import time
from collections.abc import Callable

import torch
from torch import nn

from transformer_lab.model.attention import KeyValueCache, MultiHeadAttention
from transformer_lab.model.recording import record_attention

BATCH, LENGTH, WIDTH, HEADS = 32, 128, 256, 8
ROUNDS = 25


def ratio(ours: Callable[[], object], theirs: Callable[[], object], rounds: int = ROUNDS) -> float:
    times: dict[Callable, list[float]] = {ours: [], theirs: []}
    for turn in range(rounds + 2):
        for contender in (ours, theirs) if turn % 2 else (theirs, ours):
            start = time.perf_counter()
            contender()
            if turn >= 2:  # the first two warm up
                times[contender].append(time.perf_counter() - start)
    return statistics.median(times[ours]) / statistics.median(times[theirs])


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


def main() -> int:
    over_budget = False
    for threads in (1, 2):
        torch.set_num_threads(threads)
        print(f"{threads} thread{'s' * (threads > 1)}, our time / torch's")
        for name, (budget, measure) in BENCHMARKS.items():
            measured = measure()
            over_budget |= measured > budget
            print(f"  {name:<34} {measured:5.2f}   budget {budget:.2f}   {'OVER' if measured > budget else 'ok'}")
    return int(over_budget)


if __name__ == "__main__":
    sys.exit(main())
