"""What a translator still knows without its source: which word comes next, and which form it must have."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from transformer_lab.experiments.translation import teacher_forced
from transformer_lab.model.families import EncoderDecoder
from transformer_lab.tasks.french import (
    ADJECTIVES,
    DETERMINERS,
    FEMININE,
    IL,
    ILS,
    MASCULINE,
    NO_LONGER_A,
    NOUNS,
    SUBJECTS,
    VERBS,
)
from transformer_lab.tasks.translation import Pair
from transformer_lab.tasks.translation_data import batch, encode

# Every French form of a kind, and the dictionary word that it is a form of.
FORMS = {
    "verb": {form: verb.english[0] for verb in VERBS for form in verb.french},
    "noun": {form: noun.english[0] for noun in NOUNS for form in noun.french},
    "adjective": {form: adjective.english for adjective in ADJECTIVES for form in adjective.french},
}
_PERSONS = dict(SUBJECTS.values())


@dataclass(frozen=True)
class WordAndForm:
    """One kind of word, asked for among words of that kind only, when all French words before it are given right.

    Args:
        word: share of places where the likeliest word is the right one, in whatever form.
        form: share of places where its form is one that French allows there.
        best_word: the largest ``word`` that anybody could reach who knows French and not the source, on average.
    """

    word: float
    form: float
    best_word: float


@torch.no_grad()
def word_and_form(model: EncoderDecoder, pairs: Sequence[Pair], *, blind: bool = False) -> dict[str, WordAndForm]:
    """Verbs, nouns, and adjectives behind their noun: is the word right, and does its form fit the French before it?"""
    source, target = batch(pairs)
    logits = teacher_forced(model, source, target, blind=blind)
    choices = {kind: torch.tensor(encode(tuple(forms))) for kind, forms in FORMS.items()}
    found: dict[str, list[tuple[bool, bool, float]]] = {kind: [] for kind in FORMS}
    for rows, pair in zip(logits, pairs, strict=True):
        for place, kind in enumerate(pair.parts):
            fitting = fitting_forms(pair, place)
            if fitting:
                guess = list(FORMS[kind])[rows[place, choices[kind]].argmax()]
                words = {FORMS[kind][form] for form in fitting}
                right = FORMS[kind][guess] == FORMS[kind][pair.target[place]]
                found[kind].append((right, guess in fitting, 1 / len(words)))
    return {kind: WordAndForm(*torch.tensor(each).double().mean(dim=0).tolist()) for kind, each in found.items()}


@torch.no_grad()
def pas_is_found(model: EncoderDecoder, pairs: Sequence[Pair], *, blind: bool = False) -> float:
    """Share of *pas* that are the likeliest of all words after the right French so far."""
    source, target = batch(pairs)
    pas = target[:, 1:] == encode(("pas",))[0]
    likeliest = teacher_forced(model, source, target, blind=blind).argmax(dim=-1)
    return (likeliest == target[:, 1:])[pas].float().mean().item()


def fitting_forms(pair: Pair, place: int) -> set[str]:
    """What French leaves open at one place of the target, if only the French words before it are known.

    Nothing for words of other kinds, and for adjectives in front of their noun.
    """
    before, part = pair.target[:place], pair.parts[place]
    if part == "verb":
        person = _PERSONS[before[0]] if pair.parts[0] == "pronoun" else (ILS if _noun(before)[1] else IL)
        return {verb.french[person] for verb in VERBS}
    if part == "noun":
        start = len(before) - 1 - pair.parts[:place][::-1].index("determiner")
        return _fitting_nouns(before[start], before[start + 1 :], acts=start == 0)
    if part == "adjective" and pair.parts[place - 1] == "noun":
        gender, plural = _noun(before[-1:])
        return {adjective.agreeing(gender, plural) for adjective in ADJECTIVES if not adjective.in_front}
    return set()


def _noun(words: Sequence[str]) -> tuple[str, bool]:
    """Gender of the first noun, and whether it is many."""
    return next(
        (noun.gender, bool(plural)) for word in words for noun in NOUNS for plural in (0, 1)
        if noun.french[plural] == word
    )  # fmt: skip


def _fitting_nouns(determiner: str, adjectives: Sequence[str], *, acts: bool) -> set[str]:
    """The noun forms that agree with a determiner and the adjectives in front of the noun."""
    found = set()
    for gender in (MASCULINE, FEMININE):
        for plural in (False, True):
            articles = {each.agreeing(gender, plural) for each in DETERMINERS if each.plural in (None, plural)}
            if not plural:
                articles.add(NO_LONGER_A)
            agreeing = {each.agreeing(gender, plural) for each in ADJECTIVES}
            if determiner in articles and agreeing.issuperset(adjectives):
                found |= {noun.french[plural] for noun in NOUNS if noun.gender == gender and (noun.acts or not acts)}
    return found
