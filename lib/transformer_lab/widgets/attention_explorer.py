"""The attention explorer: edit a sentence, pick a query, and walk from scores to the mixed value."""

from collections.abc import Mapping
from typing import Any

from transformer_lab.draw.attention_walk import AttentionWalkPicture
from transformer_lab.experiments.attention_walk import HAND_SET, MASKS, STEPS, AttentionWalk, walk_attention
from transformer_lab.tasks.words import tokenize
from transformer_lab.widgets import controls
from transformer_lab.widgets.explorer import Explorer

WIDTHS = (HAND_SET, 16, 64, 256, 1024)
TEMPERATURES = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0)
WITHOUT_A_MASK = tuple(step for step in STEPS if step != "masked")  # nothing happens there


def attention_explorer(
    sentence: str = "The bank approved it", query: int | None = None, key: int | None = None, step: str = "mixed"
) -> Explorer:
    """Attention over a sentence of known words, one step at a time.

    Args:
        sentence: at most ten of the words of `transformer_lab.tasks.words`.
        query, key: the positions looked at first; without them the last word asks and the second answers.
        step: scores, scaled, weights or mixed.
    """
    typed = _Sentence(sentence)
    places = _places(typed.tokens)
    last = len(places) - 1
    return Explorer(
        controls={
            "sentence": controls.text("Sentence", sentence),
            "query": controls.choice("Query", places, last if query is None else query),
            "key": controls.choice("Key", places, min(1, last) if key is None else key),
            "mask": controls.choice("Mask", MASKS),  # the steps are fitted to the mask
            "step": controls.choice("Step", WITHOUT_A_MASK, step, buttons=True),
            "temperature": controls.stops("Temperature", TEMPERATURES, 1.0),
            "d_k": controls.choice("d_k", [(_width_name(d_k), d_k) for d_k in WIDTHS]),
            "scale": controls.toggle("divide by √d_k", True),
        },
        rows=(("sentence", "query", "step"), ("key", "mask", "temperature", "d_k", "scale")),
        compute=typed.compute,
        picture=AttentionWalkPicture,
        describe=describe,
        adjust=typed.follow,
        reset=True,
    )


class _Sentence:
    """The last sentence that could be read: it stays in use until the learner has typed another."""

    def __init__(self, sentence: str) -> None:
        self._sentence, self.tokens = sentence, tokenize(sentence)

    def follow(self, found: Mapping[str, Any]) -> str | None:
        """Fit queries, keys and steps to the sentence and the mask; say what is wrong with an unreadable sentence."""
        complaint = None
        try:
            self._take(found, found["sentence"].value)
        except ValueError as error:
            complaint = str(error)
        controls.set_options(found["step"], WITHOUT_A_MASK if found["mask"].value == "none" else STEPS)
        for name in ("temperature", "scale"):  # a score is not divided yet
            found[name].disabled = found["step"].value == "scores"
        return complaint

    def compute(self, sentence: str, **choices: Any) -> AttentionWalk:
        return walk_attention(self._sentence, **choices)

    def _take(self, found: Mapping[str, Any], sentence: str) -> None:
        before, self.tokens, self._sentence = self.tokens, tokenize(sentence), sentence
        if self.tokens == before:
            return
        words = [token.lower() for token in self.tokens]
        for name in ("query", "key"):
            word, place = before[found[name].value].lower(), found[name].value
            if word in words and words[place : place + 1] != [word]:
                place = words.index(word)  # the same word stays chosen, wherever it stands now
            place = min(place, len(words) - 1)
            found[name].options = _places(self.tokens)
            found[name].value = place


def describe(walk: AttentionWalk) -> str:
    """What the chosen step shows, with the winner and its number."""
    q, k = walk.query_index, walk.key_index
    asking, answering = walk.names[q], walk.names[k]
    where = "" if walk.hand_set else f"Random queries and keys, d_k = {walk.query.shape[-1]:,}. "
    return (
        f"{where}{walk.finding}. "
        + {
            "scores": lambda: f"“{asking}” meets “{answering}”: {_dot_product(walk)}.",
            "scaled": lambda: (
                f"Every score is divided by {walk.divisor:.3g}: “{asking}” and “{answering}” go from "
                f"{_signed(walk.scores[q, k])} to {_signed(walk.scaled[q, k])}."
            ),
            "masked": lambda: _masking(walk),
            "weights": lambda: f"“{answering}” gets {walk.weights[q, k]:.2f}. The row sums to 1.",
            "mixed": lambda: (
                f"The output of “{asking}” is {_amounts(walk, walk.output[q])}. "
                f"“{answering}” puts in {_amounts(walk, walk.weights[q, k] * walk.value[k], all_parts=False)}."
            ),
        }[walk.step]()
    )


def _places(tokens: tuple[str, ...]) -> list[tuple[str, int]]:
    return [(f"{i + 1} {token}", i) for i, token in enumerate(tokens)]


def _masking(walk: AttentionWalk) -> str:
    hidden = int((~walk.allowed[walk.query_index]).sum())
    if hidden:
        return f"{hidden} {'is' if hidden == 1 else 'are'} hidden (score −∞, weight 0)."
    return "It is the last word, and nothing after it is there to hide."


def _amounts(walk: AttentionWalk, amounts: Any, all_parts: bool = True) -> str:
    pairs = [(part, float(amount)) for part, amount in zip(walk.parts, amounts, strict=True)]
    return ", ".join(f"{part} {amount:.2f}" for part, amount in pairs if all_parts or amount) or "nothing"


def _width_name(d_k: int) -> str:
    return f"{d_k} (hand-set)" if d_k == HAND_SET else f"{d_k:,} (random)"


def _dot_product(walk: AttentionWalk) -> str:
    score = _signed(walk.scores[walk.query_index, walk.key_index])
    if not walk.hand_set:
        return f"the {walk.query.shape[-1]:,} products of their components sum to a score of {score}"
    pairs = zip(walk.query[walk.query_index], walk.key[walk.key_index], strict=True)
    return "q · k = " + " + ".join(f"{_factor(a)}×{_factor(b)}" for a, b in pairs) + f" = {score}"


def _signed(number: Any) -> str:
    return f"{round(float(number), 2) + 0.0:.2f}".replace("-", "−")  # + 0.0: no zero with a sign


def _factor(number: Any) -> str:
    shown = f"{float(number):.3g}".replace("-", "−")
    return f"({shown})" if shown.startswith("−") else shown
