"""What the benchmarks against torch share: contenders that take turns, and a table of ratios with budgets."""

import statistics
import time
from collections.abc import Callable

import torch

ROUNDS = 25


def ratio(ours: Callable[[], object], theirs: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Our median time over theirs. The two take turns, so that a busy machine slows both."""
    times: dict[Callable, list[float]] = {ours: [], theirs: []}
    for turn in range(rounds + 2):
        for contender in (ours, theirs) if turn % 2 else (theirs, ours):
            start = time.perf_counter()
            contender()
            if turn >= 2:  # the first two warm up
                times[contender].append(time.perf_counter() - start)
    return statistics.median(times[ours]) / statistics.median(times[theirs])


def report(benchmarks: dict[str, tuple[float, Callable[[], float]]]) -> int:
    """Measure and print every benchmark, with one thread and with two; 1 if any is over its budget, else 0.

    The lines with two threads mean something only while nothing else uses the two cores.
    """
    over_budget = False
    for threads in (1, 2):
        torch.set_num_threads(threads)
        print(f"{threads} thread{'s' * (threads > 1)}, our time / torch's")
        for name, (budget, measure) in benchmarks.items():
            measured = measure()
            over_budget |= measured > budget
            print(f"  {name:<34} {measured:5.2f}   budget {budget:.2f}   {'OVER' if measured > budget else 'ok'}")
    return int(over_budget)
