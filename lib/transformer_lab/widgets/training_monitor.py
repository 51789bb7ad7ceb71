"""Watch a training run while the cell works: a progress bar, and the loss curve as it grows."""

import time
from html import escape
from typing import Any

import ipywidgets
from IPython.display import display

from transformer_lab.draw.curves import Curves, LineChart
from transformer_lab.widgets.explorer import Explorer

_BAR_SECONDS, _CURVE_SECONDS = 0.1, 0.5
WAITING = "The progress of the training is shown here while the cell runs."


class TrainingMonitor(ipywidgets.VBox):
    """The monitor that `train` calls after every step. It hears several runs, one after another, by name.

    While a run lasts it shows a bar and the curves so far; a finished run leaves one line. The finished curves belong
    in a figure of the lesson, which a reader without a kernel sees too.

    Attributes:
        losses: the losses heard so far, by run.
    """

    def __init__(self, y_log: bool = False) -> None:
        self.losses: dict[str, list[float]] = {}
        self._y_log = y_log
        self._bar = ipywidgets.IntProgress(description="Training", style={"description_width": "initial"})
        self._now, self._done = ipywidgets.Label(WAITING), ipywidgets.HTML()
        self._chart: Explorer | None = None
        self._bar_drawn = self._curve_drawn = 0.0
        super().__init__([ipywidgets.HBox([self._bar, self._now]), self._done])

    def __call__(self, name: str, done: int, planned: int, loss: float) -> None:
        """Hear of one more step; draw if the last drawing is old enough."""
        losses = self.losses.setdefault(name, [])
        if done == 1:
            losses.clear()
            self._curve_drawn = time.monotonic()
        losses.append(loss)
        if done == planned:
            self._finish(name, planned)
            return
        now = time.monotonic()
        if now - self._bar_drawn > _BAR_SECONDS:
            self._bar_drawn = now
            self._bar.max, self._bar.value = planned, done
            self._now.value = f"{name}: step {done:,} of {planned:,}, loss {loss:.3g}"
        if now - self._curve_drawn > _CURVE_SECONDS:
            self._draw()
            self._curve_drawn = time.monotonic()

    def _draw(self) -> None:
        if self._chart is None:
            self._chart = Explorer(compute=self._curves, picture=Curves, describe=self._describe)
            self.children = [*self.children, self._chart]
        self._chart.layout.display = ""
        self._chart.set()

    def _curves(self) -> LineChart:
        latest = list(self.losses.items())[-6:]
        series = {name: (range(1, len(losses) + 1), losses) for name, losses in latest}
        return LineChart(series, "training step", "loss", y_log=self._y_log)

    def _describe(self, chart: LineChart) -> str:
        return "Loss so far: " + "; ".join(f"{name} {losses[-1]:.3g}" for name, (_, losses) in chart.series.items())

    def _finish(self, name: str, steps: int) -> None:
        self._bar.max, self._bar.value = steps, steps
        self._now.value = f"{name}: {steps:,} steps, last loss {self.losses[name][-1]:.3g}"
        earlier = [
            f"{other}: {len(losses):,} steps, last loss {losses[-1]:.3g}"
            for other, losses in self.losses.items()
            if other != name
        ]
        self._done.value = escape("; ".join(earlier))
        if self._chart is not None:
            self._chart.layout.display = "none"

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        """The live widget, with a text that never changes: the stored output of a lesson is compared word by word."""
        return {**super()._repr_mimebundle_(**kwargs), "text/plain": WAITING}


def watch(y_log: bool = False) -> TrainingMonitor:
    """Show a new monitor under the cell and return it, to be handed to `train` or an experiment as ``monitor``."""
    monitor = TrainingMonitor(y_log)
    display(monitor)
    return monitor
