"""A small English→French grammar: who may say what, its French, and which source word each French word comes from.

    pair = translate("the black cats do not see a small house")
    pair.target     # les chats noirs ne voient pas de petite maison
    pair.alignment  # the place in the source that each French word comes from

French determiners and adjectives agree with their noun in gender and number, most adjectives move behind the noun,
an object pronoun moves in front of the verb, and *not* becomes the two words *ne … pas* around it.
"""

import difflib
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from transformer_lab.tasks.french import (
    ADJECTIVES,
    DETERMINERS,
    IL,
    ILS,
    NO_LONGER_A,
    NOUNS,
    OBJECTS,
    SUBJECTS,
    VERBS,
    Adjective,
    Noun,
)

PARTS_OF_SPEECH = ("noun", "adjective", "verb", "pronoun", "negation", "determiner")
MAX_WORDS = 11  # the longest sentence: four words, "do not see", four words
MAX_CHARACTERS = 200
_TO_BE = "It has no form of “to be”; try another verb, such as see, know or draw."
_DO_NOT = "Please write “{} not”, in two words."
LEFT_OUT = {  # words that a reader is likely to try, and what to write instead
    "they": "French would have to know whether “ils” or “elles”: name them, as in “the girls”.",
    "it": "French would have to know whether it is masculine or feminine: name it, as in “the house”.",
    "you": "French would have to choose between “tu” and “vous”; try him, them, he, she or we.",
    "am": _TO_BE, "is": _TO_BE, "are": _TO_BE,
    "don't": _DO_NOT.format("do"), "doesn't": _DO_NOT.format("does"),
}  # fmt: skip

_DETERMINERS = {each.english: each for each in DETERMINERS}
_ADJECTIVES = {each.english: each for each in ADJECTIVES}
_NOUNS = {noun.english[plural]: (noun, bool(plural)) for noun in NOUNS for plural in (0, 1)}
_VERBS = {verb.english[s]: (verb, bool(s)) for verb in VERBS for s in (0, 1)}
ENGLISH: tuple[str, ...] = (
    *SUBJECTS, *OBJECTS, *_DETERMINERS, *_ADJECTIVES, *_NOUNS, *_VERBS, "do", "does", "not",
)  # fmt: skip


@dataclass(frozen=True)
class Pair:
    """One sentence and its French.

    ``alignment[i]`` is the place in ``source`` that French word ``i`` comes from, ``parts[i]`` its part of speech, and
    ``combinations`` are the noun–adjective pairs in it, in English. *ne* and *pas* both come from *not*; *do* and
    *does* have no French.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    alignment: tuple[int, ...]
    parts: tuple[str, ...]
    combinations: frozenset[tuple[str, str]]


@dataclass(frozen=True)
class _Word:
    """One French word, where it comes from and what it is."""

    french: str
    place: int
    part: str


@dataclass(frozen=True)
class _Phrase:
    """A determiner, adjectives and a noun, or a pronoun: its French, the verb form it asks for, what it combines."""

    french: tuple[_Word, ...]
    person: int
    english: str  # the word that a message names
    pronoun: bool = False
    combinations: tuple[tuple[str, str], ...] = ()


def translate(sentence: str | Sequence[str]) -> Pair:
    """The French of an English sentence, as typed or as words.

    Raises:
        ValueError: empty, too long, a word that the grammar does not know, or one that it does not expect there.
    """
    words = _words(sentence)
    reader = _Reader(words)
    subject = reader.subject()
    negation = reader.negation(subject)
    verb = reader.verb(subject, negated=negation is not None)
    object_ = reader.object(subject, negated=negation is not None)
    reader.end()

    middle = (*object_.french, verb) if object_.pronoun else (verb,)  # a pronoun moves in front of the verb
    if negation is not None:
        middle = (_Word("ne", negation, "negation"), *middle, _Word("pas", negation, "negation"))
    french = (*subject.french, *middle, *(() if object_.pronoun else object_.french))
    return Pair(
        source=words,
        target=tuple(word.french for word in french),
        alignment=tuple(word.place for word in french),
        parts=tuple(word.part for word in french),
        combinations=frozenset(subject.combinations + object_.combinations),
    )


def _words(sentence: str | Sequence[str]) -> tuple[str, ...]:
    if isinstance(sentence, str):
        if len(sentence) > MAX_CHARACTERS:
            raise ValueError(
                f"The sentence has {len(sentence):,} characters; please stay within {MAX_CHARACTERS} and "
                f"{MAX_WORDS} words."
            )
        pieces = (piece.strip(string.punctuation + "“”‘’…–—") for piece in sentence.split())
        sentence = [piece for piece in pieces if piece]
    words = tuple("I" if word in ("i", "I") else word.lower().replace("’", "'") for word in sentence)
    if not words:
        raise ValueError("The sentence is empty; try “the black cat sees a small house”.")
    for word in words:
        if word not in ENGLISH:
            raise ValueError(f"{_quoted(word)} is not in this grammar. {_suggestion(word)}")
    if len(words) > MAX_WORDS:
        raise ValueError(f"The sentence has {len(words)} words; this grammar makes at most {MAX_WORDS}.")
    return words


class _Reader:
    """Reads a sentence word by word and says which word does not fit."""

    def __init__(self, words: tuple[str, ...]) -> None:
        self._words, self._place = words, 0

    def _next(self) -> str | None:
        return self._words[self._place] if self._place < len(self._words) else None

    def _take(self, known: Mapping[str, Any], what: str) -> tuple[Any, int]:
        word, place = self._next(), self._place
        if word not in known:
            after = f"After {_quoted(self._words[place - 1])}" if place else "At the beginning"
            ending = "here the sentence ends" if word is None else f"got {_quoted(word)}"
            raise ValueError(f"{after} this grammar wants {what}; {ending}.{_some_of(known)}")
        self._place += 1
        return known[word], place

    def subject(self) -> _Phrase:
        word = self._next()
        if word in SUBJECTS:
            (french, person), place = self._take(SUBJECTS, "a subject")
            return _Phrase((_Word(french, place, "pronoun"),), person, word, pronoun=True)
        if word not in _DETERMINERS:
            self._take(SUBJECTS | _DETERMINERS, "a determiner, or I, he, she or we")
        return self._noun_phrase(acts=True)

    def negation(self, subject: _Phrase) -> int | None:
        """The place of *not*, if the sentence is negated."""
        if self._next() not in ("do", "does"):
            return None
        right = "does" if subject.person == IL else "do"
        self._take({right: right}, f"“{right}”")
        return self._take({"not": "not"}, "“not”")[1]

    def verb(self, subject: _Phrase, *, negated: bool) -> _Word:
        with_s = subject.person == IL and not negated
        fitting = {word: verb for word, (verb, has_s) in _VERBS.items() if has_s == with_s}
        form = "with its -s" if with_s else "without -s"
        what = f"a verb {form}, since {_quoted(subject.english)} goes before it" if not negated else f"a verb {form}"
        verb, place = self._take(fitting, what)
        return _Word(verb.french[subject.person], place, "verb")

    def object(self, subject: _Phrase, *, negated: bool) -> _Phrase:
        word = self._next()
        if word in OBJECTS:
            if subject.english in ("I", "we") and word in ("me", "us"):
                raise ValueError(
                    f"“{subject.english} … {word}” looks back at its own subject, which this grammar leaves out. "
                    "Try “him” or “them”."
                )
            french, place = self._take(OBJECTS, "an object")
            return _Phrase((_Word(french, place, "pronoun"),), IL, word, pronoun=True)
        if word == "her" and self._words[self._place + 1 :] == ():
            raise ValueError("After “her” this grammar wants a noun, as in “her hat”. Name the person: “the girl”.")
        if word not in _DETERMINERS:
            self._take(OBJECTS | _DETERMINERS, "a determiner, or me, us, him or them")
        return self._noun_phrase(acts=False, negated=negated)

    def end(self) -> None:
        if self._next() is not None:
            raise ValueError(f"The sentence is complete before {_quoted(self._next())}; please end it there.")

    def _noun_phrase(self, *, acts: bool, negated: bool = False) -> _Phrase:
        determiner, determiner_place = self._take(_DETERMINERS, "a determiner")
        adjectives = self._adjectives()
        allowed = {
            word: (noun, plural)
            for word, (noun, plural) in _NOUNS.items()
            if (noun.acts or not acts) and determiner.plural in (None, plural)
        }
        kind = {True: "a plural noun", False: "a singular noun", None: "a noun"}[determiner.plural]
        doing = " for a person or an animal" if acts else ""
        (noun, plural), noun_place = self._take(allowed, f"{'' if adjectives else 'an adjective or '}{kind}{doing}")
        french = _agreeing(noun, plural, adjectives, noun_place)
        article = determiner.agreeing(noun.gender, plural)
        if negated and determiner.english == "a":
            article = NO_LONGER_A
        return _Phrase(
            (_Word(article, determiner_place, "determiner"), *french),
            ILS if plural else IL,
            self._words[noun_place],
            combinations=tuple((noun.english[0], adjective.english) for adjective, _ in adjectives),
        )

    def _adjectives(self) -> list[tuple[Adjective, int]]:
        """At most one of those that French keeps in front, then at most one of those that it moves behind."""
        found = []
        for in_front in (True, False):
            word = self._next()
            if word in _ADJECTIVES and _ADJECTIVES[word].in_front == in_front:
                found.append(self._take(_ADJECTIVES, "an adjective"))
        if self._next() in _ADJECTIVES:
            first = ", ".join(each.english for each in ADJECTIVES if each.in_front)
            raise ValueError(
                f"{_quoted(self._next())} is one adjective too many here: this grammar takes one of {first}, then one "
                "of the others."
            )
        return found


def _agreeing(noun: Noun, plural: bool, adjectives: Sequence[tuple[Adjective, int]], place: int) -> tuple[_Word, ...]:
    """The noun with its adjectives around it, in the French order."""
    words = {True: [], False: []}
    for adjective, adjective_place in adjectives:
        form = adjective.agreeing(noun.gender, plural)
        words[adjective.in_front].append(_Word(form, adjective_place, "adjective"))
    return (*words[True], _Word(noun.french[plural], place, "noun"), *words[False])


def _quoted(word: str) -> str:
    return f"“{word if len(word) <= 20 else word[:20] + '…'}”"


def _suggestion(word: str) -> str:
    if word in LEFT_OUT:
        return LEFT_OUT[word]
    near = difflib.get_close_matches(word, ENGLISH, n=3, cutoff=0.6)
    if near:
        return f"Did you mean {' or '.join(near)}?"
    return (
        f"Its nouns are {', '.join(noun.english[0] for noun in NOUNS)}; its verbs "
        f"{', '.join(verb.english[0] for verb in VERBS)}; its adjectives {', '.join(_ADJECTIVES)}."
    )


def _some_of(known: Mapping[str, Any]) -> str:
    words = list(known)
    if len(words) == 1:
        return ""
    shown = ", ".join(words[:8]) + (", …" if len(words) > 8 else "")
    return f" Possible: {shown}."
