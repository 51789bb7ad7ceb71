"""How time grows with the number of tokens: the chain of steps that wait for one another, and the clock."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from transformer_lab.model.attention import MultiHeadAttention
from transformer_lab.model.recurrence import GRUCell, LSTMCell, RNNCell, unroll
from transformer_lab.training import seeded

WIDTH = 32
LENGTHS = (16, 32, 48, 64, 80)  # short enough to end before a busy machine takes the processor away


@dataclass(frozen=True)
class TimeByLength:
    """For each model and each length: operations in the longest chain, and seconds for one forward pass."""

    lengths: tuple[int, ...]
    chain: dict[str, tuple[int, ...]]
    seconds: dict[str, tuple[float, ...]]

    def growth(self, name: str) -> float:
        """Time at the longest length over time at the shortest."""
        return self.seconds[name][-1] / self.seconds[name][0]

    def times_attention(self, name: str) -> float:
        """Time at the longest length over attention's time for it."""
        return self.seconds[name][-1] / self.seconds["attention"][-1]


def longest_chain(output: Tensor) -> int:
    """Operations on the longest path from the output back to the inputs, in the graph that torch keeps for gradients.

    Each of them waits for the one before, so this is the number of steps that no amount of hardware can do at once.

    Raises:
        ValueError: an output that remembers no operations.
    """
    if output.grad_fn is None:
        raise ValueError("the output has no graph behind it; compute it outside torch.no_grad().")
    depth: dict[object, int] = {}
    waiting = [output.grad_fn]
    while waiting:
        node = waiting[-1]
        before = [earlier for earlier, _ in node.next_functions if earlier is not None]
        unknown = [earlier for earlier in before if earlier not in depth]
        if unknown:
            waiting += unknown
        else:
            depth[node] = 1 + max((depth[earlier] for earlier in before), default=0)
            waiting.pop()
    return depth[output.grad_fn]


def measure_lengths(lengths: Sequence[int] = LENGTHS, *, repeats: int = 25, seed: int = 0) -> TimeByLength:
    """RNN, LSTM, GRU and one attention layer on one sequence of each length.

    The clock is read in ``repeats`` rounds through all models and lengths, and the shortest time of each counts:
    whatever else the machine is doing only adds, and a busy moment then spoils one round, not one point.
    """
    models = _models(seed)
    inputs = {n: torch.randn(1, n, WIDTH, generator=torch.Generator().manual_seed(seed)) for n in lengths}
    chain = {name: tuple(longest_chain(run(x)) for x in inputs.values()) for name, run in models.items()}
    rounds = [
        {name: [_seconds(run, x) for x in inputs.values()] for name, run in models.items()} for _ in range(repeats)
    ]
    seconds = {name: tuple(map(min, zip(*(times[name] for times in rounds), strict=True))) for name in models}
    return TimeByLength(tuple(lengths), chain, seconds)


def _models(seed: int) -> dict[str, Callable[[Tensor], Tensor]]:
    with seeded(seed):
        cells = {"RNN": RNNCell(WIDTH, WIDTH), "LSTM": LSTMCell(WIDTH, WIDTH), "GRU": GRUCell(WIDTH, WIDTH)}
        layer = MultiHeadAttention(WIDTH, n_heads=1)
    runs = {name: lambda x, cell=cell: unroll(cell, x).hidden for name, cell in cells.items()}
    return {**runs, "attention": layer}


@torch.no_grad()
def _seconds(run: Callable[[Tensor], Tensor], x: Tensor) -> float:
    run(x)  # whatever ran before has emptied the caches
    begin = time.perf_counter()
    run(x)
    return time.perf_counter() - begin
