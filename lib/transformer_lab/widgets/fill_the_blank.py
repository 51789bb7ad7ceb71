"""Fill the blank: a masked and a causal model before the same blank, and the causal one writing on."""

from collections.abc import Mapping
from contextlib import suppress

import ipywidgets
from torch import nn

from transformer_lab.draw.filling import FilledBlankPicture, percent
from transformer_lab.experiments.filling import BLANK, FilledBlank, Reader, fill_blank
from transformer_lab.tasks import cloze
from transformer_lab.widgets import controls
from transformer_lab.widgets.explorer import Explorer


def fill_the_blank(
    masked: nn.Module, causal: nn.Module, sentence: str = "these old dogs barked here", blank: int = 0
) -> Explorer:
    """Type a sentence of the language and choose which word is missing; both models answer.

    Args:
        masked, causal: trained by `transformer_lab.experiments.objectives.train_family`.
        sentence: at most six words of `transformer_lab.tasks.cloze`; ``_``, ``___`` or ``?`` for one of them sets
            the blank.
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
    return [word for word in map(_bare, sentence.lower().split()) if word][:20]


def _bare(word: str) -> str:
    """The word without punctuation around it; `BLANK` for underscores, and for a question mark that stands alone."""
    bare = word.strip(".,!?;:")
    return BLANK if word == "?" or set(bare) == {"_"} else bare


def _blanks(sentence: str) -> list[tuple[str, int]]:
    words = _words(sentence)
    blanks = [(f"{place + 1} {word[:20]}", place) for place, word in enumerate(words)]
    return [blank for blank in blanks if words[blank[1]] == BLANK] or blanks or [("1", 0)]


def _adjust(found: Mapping[str, ipywidgets.Widget]) -> None:
    """While a sentence is refused, the blank stays as it was chosen."""
    words = _words(found["sentence"].value)
    with suppress(ValueError):
        cloze.check_words([word for word in words if word != BLANK])
        if 1 <= len(words) <= len(cloze.SLOTS):
            controls.set_options(found["blank"], _blanks(found["sentence"].value))


def describe(filled: FilledBlank) -> str:
    """What both models say if they are sure, what fits, and whether the causal one writes on well."""
    asked = " ".join("___" if place == filled.place else word for place, word in enumerate(filled.words))
    said = "; ".join(f"the {reader.name} model {_opinion(reader)}" for reader in filled.readers)
    both, left = map(percent, filled.best)
    if filled.fits:
        fits = f"Only “{filled.fits[0]}” fits" if len(filled.fits) == 1 else f"{len(filled.fits)} words fit"
        fits += f". Whoever reads both sides of such a blank can be right {both} of the time, "
        fits += f"whoever reads the left {left}"
    else:
        fits = "Another word is wrong or missing already: whatever stands here, it is no sentence"
    where = "From" if filled.written else "After"
    before = f"“{' '.join(filled.words[: filled.place])}”" if filled.place else "<start> alone"
    verdict = "a sentence" if filled.grammatical else "no sentence"
    goes_on = f"writes on to {verdict}" if filled.written else f"says <end> at once: {verdict}"
    return f"{asked}: {said}. {fits}. {where} {before} the causal model {goes_on} of the language."


def _opinion(reader: Reader) -> str:
    return f"says “{reader.words[0]}”" if reader.shares[0] > 0.5 else "gives no word more than half"
