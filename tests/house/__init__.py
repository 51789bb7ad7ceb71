"""The house rules of a notebook: each is a function from a `Lesson` to messages that tell its author what to fix."""
from house import code, exercises, outputs, prose, structure  # noqa: F401  (importing them registers their rules)
from house.lesson import RULES, Lesson

__all__ = ["RULES", "Lesson"]
