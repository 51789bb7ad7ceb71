"""Fill the blank: a masked and a causal model before the same blank, and the causal one writing on."""

from collections.abc import Mapping

import ipywidgets
from torch import nn

from transformer_lab.draw.filling import FilledBlankPicture, percent
from transformer_lab.experiments.filling import FilledBlank, Reader, fill_blank
from transformer_lab.widgets import controls
from transformer_lab.widgets.explorer import Explorer


def fill_the_blank(
    masked: nn.Module, causal: nn.Module, sentence: str = "these old dogs barked here", blank: int = 0
) -> Explorer:
    """Type a sentence of the language and choose which word is missing; both models answer.

    Args:
        masked, causal: trained by `transformer_lab.experiments.objectives.train_family`.
        sentence: at most six words of `transformer_lab.tasks.cloze`.
        blank: which word is missing, counted from 0.
    """
    return Explorer(
        controls={
            "sentence": controls.text("Sentence", sentence),
            "blank": controls.choice("Blank", _blanks(sentence), blank),
            "again": controls.press("Write on again"),
        },
        adjust=_adjust,
        compute=lambda sentence, blank, again: fill_blank(masked, causal, _words(sentence), blank, draw=again),
        picture=FilledBlankPicture,
        describe=describe,
    )


def _words(sentence: str) -> list[str]:
    return sentence.lower().replace(".", " ").split()[:20]


def _blanks(sentence: str) -> list[tuple[str, int]]:
    return [(f"{place + 1} {word[:20]}", place) for place, word in enumerate(_words(sentence))] or [("1", 0)]


def _adjust(found: Mapping[str, ipywidgets.Widget]) -> None:
    controls.set_options(found["blank"], _blanks(found["sentence"].value))


def describe(filled: FilledBlank) -> str:
    """What both models say if they are sure, what fits, and whether the causal one writes on well."""
    asked = " ".join("___" if place == filled.place else word for place, word in enumerate(filled.words))
    said = "; ".join(f"the {reader.name} model {_opinion(reader)}" for reader in filled.readers)
    if not filled.fits:
        fits = "No word makes this a sentence of the language"
    elif len(filled.fits) == 1:
        fits = f"Only “{filled.fits[0]}” fits"
    else:
        fits = f"{len(filled.fits)} words fit"
    both, left = map(percent, filled.best)
    before = f"“{' '.join(filled.words[: filled.place])}”" if filled.place else "nothing"
    verdict = "a sentence" if filled.grammatical else "no sentence"
    return (
        f"{asked}: {said}. {fits}. Whoever reads both sides of such a blank can be right {both} of the time, whoever "
        f"reads the left {left}. From {before} the causal model writes on to {verdict} of the language."
    )


def _opinion(reader: Reader) -> str:
    return f"says “{reader.words[0]}”" if reader.shares[0] > 0.5 else "gives no word more than half"
