"""The permutation lab: shuffle the tokens and see whether every output follows its token."""

import random
from collections.abc import Mapping
from typing import Any

from transformer_lab.draw.permutation import PermutationPicture, largest
from transformer_lab.experiments.permutation import Shuffle, shuffle, tokenize
from transformer_lab.widgets import controls
from transformer_lab.widgets.explorer import Explorer

SCHEMES = (("none", "none"), ("learned", "learned"), ("sinusoidal", "sinusoidal"), ("RoPE", "rope"), ("ALiBi", "alibi"))
NAMES = {value: name for name, value in SCHEMES}
PRESSES = ("swap", "shuffle", "reset")


def permutation_lab(sentence: str = "dog bites man", *, scheme: str = "none", causal: bool = False) -> Explorer:
    """Tokens before and after a shuffle, each with its output vector.

    Args:
        sentence: two to seven words; every word has a random vector of its own.
        scheme: none, learned, sinusoidal, rope or alibi.
        causal: whether a causal mask is on.
    """
    table = _Table(sentence)
    places = _places(sentence)
    return Explorer(
        controls={
            "sentence": controls.text("Sentence", sentence),
            "scheme": controls.choice("Positions", SCHEMES, scheme, buttons=True),
            "causal": controls.toggle("causal mask", causal),
            "first": controls.choice("Swap", places, 0),
            "second": controls.choice("with", places, len(places) - 1),
            "swap": controls.press("Swap them"),
            "shuffle": controls.press("Shuffle"),
            "reset": controls.press("Reset"),
        },
        rows=(("scheme", "causal", "first", "second", *PRESSES, "sentence"),),
        adjust=table.follow,
        compute=table.compute,
        picture=PermutationPicture,
        describe=describe,
    )


class _Table:
    """The order in which the tokens lie now: what the presses of swap, shuffle and reset have made of it."""

    def __init__(self, sentence: str) -> None:
        self._sentence, self._presses = sentence, dict.fromkeys(PRESSES, 0)
        self.order = list(range(len(tokenize(sentence))))

    def follow(self, found: Mapping[str, Any]) -> None:
        """Do what was pressed since the last look; a new sentence starts in its own order."""
        sentence = found["sentence"].value
        try:
            places = _places(sentence)
        except ValueError:  # `compute` says what to fix
            return
        for name in ("first", "second"):
            controls.set_options(found[name], places)
        if sentence != self._sentence:
            self._sentence, self.order = sentence, list(range(len(places)))
        for name in PRESSES:
            pressed = found[name].value
            if pressed > self._presses[name]:
                getattr(self, f"_{name}")(found, pressed)
            self._presses[name] = pressed

    def _swap(self, found: Mapping[str, Any], pressed: int) -> None:
        a, b = (self.order.index(found[name].value) for name in ("first", "second"))
        self.order[a], self.order[b] = self.order[b], self.order[a]

    def _shuffle(self, found: Mapping[str, Any], pressed: int) -> None:
        before, own, draw = list(self.order), sorted(self.order), random.Random(pressed)
        while self.order in (before, own) and (len(own) > 2 or self.order == before):
            draw.shuffle(self.order)

    def _reset(self, found: Mapping[str, Any], pressed: int) -> None:
        self.order.sort()

    def compute(self, sentence: str, scheme: str, causal: bool, first: int, second: int, **_: int) -> Shuffle:
        return shuffle(tokenize(sentence), self.order, scheme, causal, picked=(first, second))


def describe(result: Shuffle) -> str:
    """How many outputs changed, by how much at most, and what made them."""
    n, count = len(result.tokens), sum(result.changed)
    where = f"With {NAMES[result.scheme]}" + (" positions" if result.scheme in ("learned", "sinusoidal") else "")
    if result.scheme == "none":
        where = "With the causal mask alone" if result.causal else "Without positions and without a mask"
    elif result.causal:
        where += " and the causal mask"
    if not result.moved:
        return "The order is still the same, so both columns show the same outputs. Press Shuffle, or swap two tokens."
    if not count:
        why = ""
        if result.scheme == "alibi":
            why = " ALiBi knows distances and no direction: here every distance stayed the same."
        return (
            f"{where}, all {n} outputs travelled with their tokens, unchanged: the largest difference is "
            f"{largest(result)}.{why}"
        )
    stayed = [f"{i + 1} {token}" for i, token in enumerate(result.tokens) if not result.changed[i]]
    kept = f" Unchanged: {', '.join(stayed)}." if stayed else ""
    return f"{where}, {count} of {n} outputs changed when the tokens moved, by up to {largest(result)}.{kept}"


def _places(sentence: str) -> list[tuple[str, int]]:
    return [(f"{i + 1} {token}", i) for i, token in enumerate(tokenize(sentence))]
