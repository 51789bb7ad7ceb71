"""What a notebook needs besides its subject: the set-up cell, and a look at the library's source."""

import inspect
import re
import sys
from html import escape
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
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


def environment(requirements: str = "../requirements.txt") -> None:
    """Print what is installed beside what the course is tested with, which ``requirements`` pins, and a verdict."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    rows = [("python", "3.11 or newer", "ok" if sys.version_info >= (3, 11) else python)]
    pins = re.findall(r"^([\w-]+)==([\w.]+)", Path(requirements).read_text(encoding="utf-8"), re.MULTILINE)
    for name, pinned in pins:
        try:
            installed = version(name).split("+")[0]  # a local build, such as +cpu, is the same release
        except PackageNotFoundError:
            installed = "missing"
        rows.append((name, pinned, "ok" if installed == pinned else installed))
    for name, wanted, found in rows:
        print(f"{name:14}{wanted:16}{found if found == 'ok' else 'here: ' + found}")
    if all(found == "ok" for _, _, found in rows):
        print("Everything is as tested.")
    else:
        print("Most lessons will work; numbers may differ. To match, run: python -m pip install -r requirements.txt")
