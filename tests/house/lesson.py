"""A notebook as the rules see it, and the list of the rules."""
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import nbformat.v4

Rule = Callable[["Lesson"], Iterator[str]]
RULES: dict[str, Rule] = {}

FENCE = re.compile(r"^```.*?^```[ \t]*$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^(#{1,6}) +(.+?)\s*$", re.MULTILINE)


def rule(function: Rule) -> Rule:
    """Adds a function to the house rules. It yields one message for every breach and nothing for a clean notebook."""
    RULES[function.__name__] = function
    return function


@dataclass(frozen=True)
class Lesson:
    """One notebook file. Cells are named in messages by their place, counted from 1 as a reader would."""

    path: Path

    @cached_property
    def notebook(self) -> nbformat.NotebookNode:
        # without nbformat's validation, which would mend what the rules look for
        return nbformat.v4.reads(self.path.read_text(encoding="utf-8"))

    @property
    def number(self) -> str:
        return self.path.name[:2]

    @cached_property
    def code(self) -> list[tuple[int, nbformat.NotebookNode]]:
        return self._cells("code")

    @cached_property
    def markdown(self) -> list[tuple[int, nbformat.NotebookNode]]:
        return self._cells("markdown")

    @cached_property
    def prose(self) -> list[tuple[int, str]]:
        """The text of the markdown cells without fenced code."""
        return [(place, FENCE.sub("", cell.source)) for place, cell in self.markdown]

    @cached_property
    def headings(self) -> list[tuple[int, int, str]]:
        """(cell, level, text) of every heading, in reading order."""
        return [(place, len(marks), text) for place, prose in self.prose for marks, text in HEADING.findall(prose)]

    @cached_property
    def outputs(self) -> list[tuple[int, nbformat.NotebookNode]]:
        return [(place, output) for place, cell in self.code for output in cell.outputs]

    @cached_property
    def bundles(self) -> list[tuple[int, dict]]:
        """What the cells display, as MIME type -> content."""
        return [(place, output.data) for place, output in self.outputs if "data" in output]

    def _cells(self, kind: str) -> list[tuple[int, nbformat.NotebookNode]]:
        return [(i, cell) for i, cell in enumerate(self.notebook.cells, start=1) if cell.cell_type == kind]
