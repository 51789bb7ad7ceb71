"""The attention explorer: edit a sentence, pick a query, and walk from scores to the mixed value."""

from collections.abc import Mapping
from typing import Any

from transformer_lab.draw.attention_walk import AttentionWalkPicture
from transformer_lab.experiments.attention_walk import HAND_SET, MASKS, STEPS, AttentionWalk, walk_attention
from transformer_lab.tasks.words import tokenize
from transformer_lab.widgets import controls
from transformer_lab.widgets.explorer import Explorer

WIDTHS = (HAND_SET, 16, 64, 256, 1024)


def attention_explorer(
    sentence: str = "The bank approved it", query: int = 3, key: int = 1, step: str = "mixed"
) -> Explorer:
    """Attention over a sentence of known words, one step at a time.

    Args:
        sentence: at most ten of the words of `transformer_lab.tasks.words`.
        query, key: the positions looked at first.
        step: scores, scaled, masked, weights or mixed.
    """
    places = _places(sentence)
    return Explorer(
        controls={
            "sentence": controls.text("Sentence", sentence),
            "query": controls.choice("Query", places, query),
            "step": controls.choice("Step", STEPS, step, buttons=True),
            "key": controls.choice("Key to read out", places, key),
            "mask": controls.choice("Mask", MASKS),
            "temperature": controls.slider("Temperature", 0.1, 4.0, 1.0, 0.1),
            "d_k": controls.choice("d_k", [(_width_name(d_k), d_k) for d_k in WIDTHS]),
            "scale": controls.toggle("divide by √d_k", True),
        },
        compute=walk_attention,
        picture=AttentionWalkPicture,
        describe=describe,
        adjust=_follow_sentence,
    )


def describe(walk: AttentionWalk) -> str:
    """What the chosen step shows, with the winner and its number."""
    asking, answering = walk.tokens[walk.query_index], walk.tokens[walk.key_index]
    q, k = walk.query_index, walk.key_index
    where = "" if walk.hand_set else f"Random queries and keys, d_k = {walk.query.shape[-1]}. "
    if walk.step == "scores":
        return f"{where}“{asking}” meets “{answering}”: {_dot_product(walk)}."
    if walk.step == "scaled":
        return (
            f"{where}Every score is divided by {walk.divisor:.3g}: “{asking}” and “{answering}” go from "
            f"{_signed(walk.scores[q, k])} to {_signed(walk.scaled[q, k])}."
        )
    if walk.step == "masked":
        hidden = int((~walk.allowed[q]).sum())
        if walk.allowed.all():
            return f"{where}There is no mask, so every query may read every key and the scores stay as they are."
        return f"{where}“{asking}” may not read {_count(hidden)} of {len(walk.tokens)}: a score of −∞ forbids."
    sentence = f"{where}Row “{asking}” puts {_winners(walk)}."
    if walk.step == "weights":
        return f"{sentence} “{answering}” gets {walk.weights[q, k]:.2f}. The row sums to 1."
    mix = ", ".join(f"{part} {amount:.2f}" for part, amount in zip(walk.parts, walk.output[q], strict=True))
    return f"{sentence} Mixed in these shares, the values give {mix}."


def _follow_sentence(found: Mapping[str, Any]) -> None:
    """Offer the words of the sentence as queries and keys; an unreadable sentence leaves the offer as it is."""
    try:
        places = _places(found["sentence"].value)
    except ValueError:
        return
    for name in ("query", "key"):
        controls.set_options(found[name], places)


def _places(sentence: str) -> list[tuple[str, int]]:
    return [(f"{i + 1} {token}", i) for i, token in enumerate(tokenize(sentence))]


def _width_name(d_k: int) -> str:
    return f"{d_k} (hand-set)" if d_k == HAND_SET else f"{d_k:,} (random)"


def _dot_product(walk: AttentionWalk) -> str:
    score = _signed(walk.scores[walk.query_index, walk.key_index])
    if not walk.hand_set:
        return f"the {walk.query.shape[-1]:,} products of their components sum to a score of {score}"
    pairs = zip(walk.query[walk.query_index], walk.key[walk.key_index], strict=True)
    return "q · k = " + " + ".join(f"{_factor(a)}×{_factor(b)}" for a, b in pairs) + f" = {score}"


def _winners(walk: AttentionWalk) -> str:
    row = walk.weights[walk.query_index]
    best = float(row.max())
    winners = [token for token, weight in zip(walk.tokens, row, strict=True) if best - float(weight) < 5e-3]
    if len(winners) == 1:
        return f"{best:.2f} on “{winners[0]}”"
    return f"its largest weight, {best:.2f} each, on " + " and ".join(f"“{token}”" for token in winners)


def _count(n: int) -> str:
    return "any word" if n == 0 else "1 word" if n == 1 else f"{n} words"


def _signed(number: Any) -> str:
    return f"{float(number):.2f}".replace("-", "−")


def _factor(number: Any) -> str:
    shown = f"{float(number):.3g}".replace("-", "−")
    return f"({shown})" if shown.startswith("−") else shown
