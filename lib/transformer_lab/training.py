"""The one training loop: seeded, watched, and stopped when the goal is met or the loss is lost.

    with seeded(0):
        model = MyModel()
    run = train(model, lambda generator: my_loss(model, draw_batch(generator)), steps=300, learning_rate=3e-3)
    run.losses[-1]
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

# name of the run, steps done, steps planned, loss. The last call of a run has as many done as planned.
Monitor = Callable[[str, int, int, float], None]


@dataclass(frozen=True)
class TrainingRun:
    """What happened: one loss and one gradient norm (before clipping) a step, and whether the goal stopped it."""

    losses: tuple[float, ...]
    gradient_norms: tuple[float, ...]
    goal_met: bool

    @property
    def steps(self) -> int:
        """How many steps were taken."""
        return len(self.losses)

    @property
    def final_loss(self) -> float:
        """Mean loss of the last 20 steps."""
        last = self.losses[-20:]
        return sum(last) / len(last)


class DivergedError(ValueError):
    """The loss became NaN or infinite. ``losses`` holds the ones before."""

    def __init__(self, message: str, losses: Sequence[float]) -> None:
        super().__init__(message)
        self.losses = tuple(losses)


def train(
    model: nn.Module,
    batch_loss: Callable[[torch.Generator], Tensor],
    *,
    steps: int,
    learning_rate: float,
    seed: int = 0,
    goal: Callable[[], bool] | None = None,
    goal_every: int = 25,
    clip: float | None = None,
    warmup: int = 0,
    monitor: Monitor | None = None,
    name: str = "training",
) -> TrainingRun:
    """Train ``model`` with Adam (Kingma and Ba 2015), in training mode, and leave it in evaluation mode.

    Args:
        batch_loss: draws its own batch from the generator it is given and returns the loss, a tensor of one number.
        steps: how many steps at most.
        learning_rate: Adam's step size.
        seed: of the batches and of dropout. torch's global random state is as it was afterwards.
        goal: asked every ``goal_every`` steps, in evaluation mode without gradients; True ends the run.
        clip: largest gradient norm; longer gradients are shortened to it.
        warmup: the learning rate climbs in a straight line over this many steps.
        monitor: called after every step with ``(name, steps done, steps planned, loss)``.
        name: what the monitor calls this run.

    Raises:
        ValueError: a setting outside its range, a model without trainable parameters, a loss of more than one number
            or without a gradient.
        DivergedError: (a ValueError) the loss became NaN or infinite.
    """
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    _check(parameters, steps, learning_rate, goal_every, clip, warmup)
    optimizer = torch.optim.Adam(parameters)
    losses, norms, met = [], [], False
    model.train()
    try:
        with seeded(seed) as generator:
            while len(losses) < steps and not met:
                loss = batch_loss(generator)
                losses.append(_number(loss, losses, learning_rate))
                optimizer.zero_grad()
                loss.backward()
                norms.append(float(nn.utils.clip_grad_norm_(parameters, clip or math.inf)))
                optimizer.param_groups[0]["lr"] = learning_rate * min(1.0, len(losses) / max(warmup, 1))
                optimizer.step()
                if goal is not None and len(losses) % goal_every == 0:
                    met = _ask(goal, model)
                if monitor is not None:
                    monitor(name, len(losses), len(losses) if met else steps, losses[-1])
    finally:
        model.zero_grad()
        model.eval()
    return TrainingRun(tuple(losses), tuple(norms), met)


@contextmanager
def seeded(seed: int) -> Iterator[torch.Generator]:
    """Inside, initial weights and dropout draw from ``seed``; afterwards torch's global state is as it was.

    Yields:
        a generator of the same seed, for draws that take one.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield torch.Generator().manual_seed(seed)


def _check(
    parameters: Sequence[nn.Parameter],
    steps: int,
    learning_rate: float,
    goal_every: int,
    clip: float | None,
    warmup: int,
) -> None:
    if not parameters:
        raise ValueError("model has no parameter that requires a gradient: there is nothing to train.")
    for name, value, lowest in (("steps", steps, 1), ("goal_every", goal_every, 1), ("warmup", warmup, 0)):
        if not isinstance(value, int) or value < lowest:
            raise ValueError(f"{name} is {value!r}; it must be a whole number, at least {lowest}.")
    for name, value in (("learning_rate", learning_rate), ("clip", clip)):
        if value is not None and not 0 < value < math.inf:
            raise ValueError(f"{name} is {value}; it must be a finite number above 0.")


def _number(loss: Tensor, losses: Sequence[float], learning_rate: float) -> float:
    if not isinstance(loss, Tensor) or loss.numel() != 1 or not loss.requires_grad:
        kind = f"a tensor of shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else type(loss).__name__
        raise ValueError(
            f"batch_loss returned {kind}; it must return one number that depends on the parameters. "
            "Average the losses, and keep .item() and .detach() out of batch_loss."
        )
    value = float(loss.detach())
    if not math.isfinite(value):
        raise DivergedError(
            f"the loss is {value} at step {len(losses) + 1}. Lower the learning rate ({learning_rate}), clip the "
            "gradient, or look for a softmax over nothing but −∞.",
            losses,
        )
    return value


def _ask(goal: Callable[[], bool], model: nn.Module) -> bool:
    model.eval()
    try:
        with torch.no_grad():
            return bool(goal())
    finally:
        model.train()
