"""What a notebook needs besides its subject: the set-up cell, and a look at the library's source."""

import inspect
from html import escape
from typing import Any

import torch

from transformer_lab.draw import style as figure_style


def begin(seed: int = 0, style: str = "screen") -> None:
    """The set-up cell of every lesson: one torch thread, one seed, one figure style.

    One thread, because the course's tensors are small and several kernels share two cores; it also makes training
    repeat bit by bit. ``style="projector"`` draws everything larger.
    """
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    figure_style.use(style)


class Source:
    """The source of a library object, folded until the learner opens it."""

    def __init__(self, thing: Any) -> None:
        self._title = f"{thing.__module__}.{thing.__qualname__}"
        self._text = inspect.getsource(inspect.unwrap(thing))

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        summary = f"Source of {self._title} (open to read)"
        return {
            "text/plain": summary,
            "text/html": f"<details><summary>{escape(summary)}</summary><pre>{escape(self._text)}</pre></details>",
        }


def source(thing: Any) -> Source:
    """Show the source of a function or class of the library in place: `source(MultiHeadAttention)`."""
    return Source(thing)
