"""Translate and inspect: choose or type a sentence, step through its French, see where each step looks."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from transformer_lab.draw.translation import TranslationPicture
from transformer_lab.experiments.translation import TrainedTranslator
from transformer_lab.experiments.translation_steps import Translation, TranslationStep, translate_and_record
from transformer_lab.tasks.translation import translate
from transformer_lab.widgets import controls
from transformer_lab.widgets.explorer import Explorer

OWN = "my own sentence"
EXAMPLES = (
    "the white cow does not see the small house",
    "my small black dog pushes the girls",
    "the queens want a red dress",
    "she does not know them",
    "the boys draw me",
    "this king sells these pretty blue flowers",
    "we do not find a good green book",
    "a slow hen washes her new hats",
)


def translate_and_inspect(translator: TrainedTranslator, *, sentence: str = EXAMPLES[0], step: int = 3) -> Explorer:
    """A trained translator on one sentence of the grammar, one target word at a time.

    Args:
        translator: from `transformer_lab.experiments.translation.train_translator`.
        sentence: the English one to begin with, in the words of `transformer_lab.tasks.translation`.
        step: which target word is looked at first, counted from 1.
    """
    typed = _Typed(translator, sentence)
    most = len(typed.translation(sentence, False).written)
    return Explorer(
        controls={
            "example": controls.choice("Example", (*EXAMPLES, OWN), typed.example),
            "sentence": controls.text("Sentence", sentence),
            "cut": controls.toggle("cut cross-attention", False),  # the steps are fitted to what is written
            "step": controls.slider("step", 1, most, step),
        },
        rows=(("example", "sentence"), ("step", "cut")),
        compute=typed.compute,
        picture=TranslationPicture,
        describe=describe,
        adjust=typed.follow,
        reset=True,
    )


class _Typed:
    """The last sentence that could be read: it stays in use until another one can be."""

    def __init__(self, translator: TrainedTranslator, sentence: str) -> None:
        @cache  # stepping through a sentence translates it once
        def translation(sentence: str, cut: bool) -> Translation:
            return translate_and_record(translator.model, translate(sentence), cut=cut)

        self.translation = translation
        self._sentence, self.example = sentence, sentence if sentence in EXAMPLES else OWN
        self._typed = sentence

    def follow(self, found: Mapping[str, Any]) -> str | None:
        """Fit the sentence to the example, or the other way round; a new sentence begins at its first step."""
        example, sentence = found["example"], found["sentence"]
        if example.value not in (self.example, OWN):
            sentence.value = example.value
        elif sentence.value != self._typed:
            example.value = sentence.value if sentence.value in EXAMPLES else OWN
        self.example, self._typed = example.value, sentence.value
        complaint, before = None, self._sentence
        try:
            translate(sentence.value)
            self._sentence = sentence.value
        except ValueError as error:
            complaint = f"Still showing “{self._sentence}”. {error}"
        if self._sentence != before:
            found["step"].value = 1
        written = self.translation(self._sentence, found["cut"].value).written
        controls.set_range(found["step"], 1, len(written))
        return complaint

    def compute(self, *, step: int, cut: bool, **_: str) -> TranslationStep:
        return TranslationStep(self.translation(self._sentence, cut), step)


def describe(shown: TranslationStep) -> str:
    """What the step writes, where it looks, and whether it is right."""
    whole, row = shown.translation, shown.step - 1
    opening = f"Step {shown.step} of {len(whole.written)} writes “{shown.word}”"
    if whole.cut:
        return (
            f"{opening}, with cross-attention cut: all its weights are 0, and the English cannot reach it. "
            f"{_verdict(whole)}"
        )
    weights = whole.weights[row]
    best = int(weights.argmax())
    where = f"“{whole.source[best]}”"
    looks = f"{_share(float(weights[best]))} of its attention on {where}"
    if not shown.so_far_right:
        return f"{opening} and puts {looks}. {_verdict(whole)}"
    aligned = whole.alignment[row]
    if best == aligned:
        return f"{opening} and puts {looks}, where it comes from. {_verdict(whole)}"
    return f"{opening} and puts {looks}; it comes from “{whole.source[aligned]}”. {_verdict(whole)}"


def _share(share: float) -> str:
    """Rounded so far that a sentence reads alike on every machine."""
    return "0.9 or more" if share >= 0.9 else f"about {share:.1f}"


def _verdict(whole: Translation) -> str:
    french = " ".join(whole.written[:-1] if whole.written[-1:] == whole.right[-1:] else whole.written)
    if whole.written == whole.right:
        return f"The whole sentence, {french}, is right."
    return f"The whole is {french}; right would be {' '.join(whole.right[:-1])}."
