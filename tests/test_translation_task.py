"""The English→French grammar: its French against sentences written by hand, its alignment, its splits, its errors."""

import random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from transformer_lab.tasks import french, translation_data
from transformer_lab.tasks.translation import ENGLISH, MAX_WORDS, PARTS_OF_SPEECH, translate
from transformer_lab.tasks.translation_data import BEGIN_ID, END_ID, HELD_OUT, PAD_ID, WORDS, batch, decode, encode

# Written by hand, not by the grammar.
ANCHORS = {
    "the cat sees the house": "le chat voit la maison",
    "the black cat sees a small house": "le chat noir voit une petite maison",
    "the black cats see the small houses": "les chats noirs voient les petites maisons",
    "the small black cat sees the house": "le petit chat noir voit la maison",
    "the girl wants a white dress": "la fille veut une robe blanche",
    "the girls want the white dresses": "les filles veulent les robes blanches",
    "the girls want white": None,  # no noun
    "a good king sells his": None,  # not a word of the grammar
    "a good king sells the green boat": "un bon roi vend le bateau vert",
    "the good kings sell the green boats": "les bons rois vendent les bateaux verts",
    "this queen washes this hat": "cette reine lave ce chapeau",
    "these queens wash these hats": "ces reines lavent ces chapeaux",
    "my dog pushes her hen": "mon chien pousse sa poule",
    "my dogs push her hens": "mes chiens poussent ses poules",
    "her new car": None,  # no verb
    "her boy finds her new car": "son garçon trouve sa nouvelle voiture",
    "her boys find her new cars": "ses garçons trouvent ses nouvelles voitures",
    "the boy draws a new garden": "le garçon dessine un nouveau jardin",
    "the boys draw the new gardens": "les garçons dessinent les nouveaux jardins",
    "the pretty cow knows the big dog": "la jolie vache connaît le grand chien",
    "the pretty cows know the big dogs": "les jolies vaches connaissent les grands chiens",
    "I see a red flower": "je vois une fleur rouge",
    "we see the red flowers": "nous voyons les fleurs rouges",
    "he wants a blue book": "il veut un livre bleu",
    "she wants the blue books": "elle veut les livres bleus",
    "I do not see the grey cat": "je ne vois pas le chat gris",
    "we do not see the grey cats": "nous ne voyons pas les chats gris",
    "she does not sell the grey hens": "elle ne vend pas les poules grises",
    "he does not want a green dress": "il ne veut pas de robe verte",
    "the slow hens do not push a quiet cow": "les poules lentes ne poussent pas de vache calme",
    "a slow boy does not want this big boat": "un garçon lent ne veut pas ce grand bateau",
    "the girl pushes me": "la fille me pousse",
    "the girl does not push me": "la fille ne me pousse pas",
    "the cats do not know us": "les chats ne nous connaissent pas",
    "I know him": "je le connais",
    "we do not know them": "nous ne les connaissons pas",
    "my white hens find them": "mes poules blanches les trouvent",
    "she washes us": "elle nous lave",
    "I draw them": "je les dessine",
    "we wash my car": "nous lavons ma voiture",
    "I want my hat": "je veux mon chapeau",
    "we want her flowers": "nous voulons ses fleurs",
    "I push these slow cows": "je pousse ces vaches lentes",
    "we push a car": "nous poussons une voiture",
    "we sell this good garden": "nous vendons ce bon jardin",
}  # fmt: skip
SENTENCES = {english: french for english, french in ANCHORS.items() if french}


@pytest.mark.parametrize("english", SENTENCES)
def test_french_is_what_was_written_by_hand(english):
    assert " ".join(translate(english).target) == SENTENCES[english]


@pytest.mark.parametrize("english", [english for english, french in ANCHORS.items() if not french])
def test_what_is_no_sentence_is_refused(english):
    with pytest.raises(ValueError):
        translate(english)


def test_the_anchors_use_every_word_class_and_both_genders():
    assert len(SENTENCES) >= 30
    used = {word for english in SENTENCES for word in english.split()}
    assert used >= {noun.english[0] for noun in french.NOUNS} | {adj.english for adj in french.ADJECTIVES}
    assert used >= set(french.SUBJECTS) | set(french.OBJECTS) | {each.english for each in french.DETERMINERS}


def test_alignments_worked_out_by_hand():
    pair = translate("the small black cats do not see a white house")
    #            0     1      2     3     4   5    6   7   8     9
    assert pair.target == ("les", "petits", "chats", "noirs", "ne", "voient", "pas", "de", "maison", "blanche")
    assert pair.alignment == (0, 1, 3, 2, 5, 6, 5, 7, 9, 8)
    assert pair.parts == (
        "determiner", "adjective", "noun", "adjective", "negation", "verb", "negation", "determiner", "noun",
        "adjective",
    )  # fmt: skip
    assert pair.combinations == {("cat", "small"), ("cat", "black"), ("house", "white")}
    assert translate("she does not see them").alignment == (0, 2, 4, 3, 2)  # elle ne les voit pas


# Hand-written: what a determiner may look like beside a noun of each kind, whatever it stands for.
BESIDE = {
    ("masculine", False): {"le", "un", "ce", "mon", "son", "de"},
    ("feminine", False): {"la", "une", "cette", "ma", "sa", "de"},
    ("masculine", True): {"les", "ces", "mes", "ses"},
    ("feminine", True): {"les", "ces", "mes", "ses"},
}
FEMININE = {"fille", "reine", "vache", "poule", "maison", "voiture", "fleur", "robe"}
IN_FRONT = {"petit", "grand", "joli", "nouveau", "bon"}


def test_gender_and_word_order_hold_in_every_drawn_sentence():
    nouns = {form: (noun, bool(plural)) for noun in french.NOUNS for plural, form in enumerate(noun.french)}
    masculine = {form: adjective.french[0] for adjective in french.ADJECTIVES for form in adjective.french}
    for pair in every_pair():
        for place, (word, part) in enumerate(zip(pair.target, pair.parts, strict=True)):
            if part == "determiner":
                noun, plural = nouns[next(each for each in pair.target[place:] if each in nouns)]
                gender = "feminine" if noun.french[0] in FEMININE else "masculine"
                assert word in BESIDE[gender, plural]
            if part == "adjective":
                neighbour = pair.target[place + 1 if masculine[word] in IN_FRONT else place - 1]
                noun, plural = nouns[neighbour]
                forms = next(a for a in french.ADJECTIVES if a.french[0] == masculine[word]).french
                assert word == forms[2 * (noun.french[0] in FEMININE) + plural]


def test_no_french_word_would_be_elided():
    vowels = {word for word in WORDS[3:] if word not in ENGLISH and word[0] in "aàâeéèêhiîoôuûyœ"}
    assert vowels == {"il", "elle", "un", "une"}  # nothing that is elided stands before these


# ------------------------------------------------------------------------------------------------ data


def every_pair():
    splits = translation_data.splits()
    return (*splits.train, *splits.validation, *splits.test)


def test_forty_words_a_side_and_thousands_of_sentences():
    french_words = {word for pair in every_pair() for word in pair.target}
    assert len(ENGLISH) == len(set(ENGLISH)) >= 40 and len(french_words) >= 40
    assert len(every_pair()) == 6800
    assert set(WORDS[3:]) == set(ENGLISH) | french_words  # no entry is unused


def test_one_vocabulary_holds_both_languages_and_shares_one_word():
    french_words = {word for pair in every_pair() for word in pair.target}
    assert french_words & set(ENGLISH) == {"me"} and len(WORDS) == len(set(WORDS))
    assert WORDS[PAD_ID] == "<pad>" and WORDS[BEGIN_ID] == "<start>" and WORDS[END_ID] == "<end>"


def test_no_sentence_stands_in_two_splits():
    sources = [pair.source for pair in every_pair()]
    targets = [(pair.source, pair.target) for pair in every_pair()]
    assert len(set(sources)) == len(sources) == len(set(targets))


def test_the_test_split_holds_combinations_that_training_never_sees():
    splits = translation_data.splits()
    trained = frozenset().union(*(pair.combinations for pair in splits.train))
    assert not trained & HELD_OUT
    assert all(pair.combinations & HELD_OUT for pair in splits.test)
    assert not any(pair.combinations & HELD_OUT for pair in splits.validation)
    # Held out is the combination only: each noun and each adjective is known, and so is every word.
    assert {noun for noun, _ in HELD_OUT} <= {noun for noun, _ in trained}
    assert {adjective for _, adjective in HELD_OUT} <= {adjective for _, adjective in trained}
    seen = {word for pair in splits.train for word in (*pair.source, *pair.target)}
    assert seen == set(WORDS[3:])


def test_the_splits_are_the_same_every_time_and_another_seed_draws_others():
    first = translation_data.splits()
    translation_data.splits.cache_clear()
    assert translation_data.splits() == first
    assert translation_data.splits(seed=1).train != first.train


def test_every_target_word_has_a_source_word_and_a_part_of_speech():
    for pair in every_pair():
        assert len(pair.target) == len(pair.alignment) == len(pair.parts)
        assert all(0 <= place < len(pair.source) for place in pair.alignment)
        assert set(pair.parts) <= set(PARTS_OF_SPEECH)
        unaligned = {word for place, word in enumerate(pair.source) if place not in pair.alignment}
        assert unaligned <= {"do", "does"}
        assert len(pair.source) <= MAX_WORDS


def test_reading_and_writing_ids_gives_the_words_back():
    pairs = random.Random(0).sample(every_pair(), 50)
    source, target = batch(pairs)
    assert source.dtype == target.dtype == torch.int64
    for row, pair in zip(source, pairs, strict=True):
        assert decode(row) == pair.source and row[len(pair.source)] == END_ID
        assert (row[len(pair.source) + 1 :] == PAD_ID).all()
    for row, pair in zip(target, pairs, strict=True):
        assert row[0] == BEGIN_ID and decode(row) == pair.target and row[len(pair.target) + 1] == END_ID
    assert decode([BEGIN_ID, *encode(("le", "chat"))]) == ("le", "chat")  # never ended


# ------------------------------------------------------------------------------------------------ errors


@pytest.mark.parametrize(
    ("sentence", "words"),
    [
        ("", "The sentence is empty"),
        (" . , ", "The sentence is empty"),
        ("the kat sees a dog", "“kat” is not in this grammar. Did you mean"),
        ("the zzzz sees a dog", "“zzzz” is not in this grammar. Its nouns are cat, dog"),
        ("le chat voit la maison", "“le” is not in this grammar"),
        ("the " * 12, "The sentence has 12 words; this grammar makes at most 11"),
        ("x" * 300, "The sentence has 300 characters; please stay within 200"),
        ("x" * 150, "“xxxxxxxxxxxxxxxxxxxx…” is not"),
        ("the cat see a dog", "After “cat” this grammar wants a verb with its -s"),
        ("the cats sees a dog", "After “cats” this grammar wants a verb without -s"),
        ("I sees a dog", "a verb without -s, since “I” goes before it; got “sees”"),
        ("she do not see me", "After “she” this grammar wants “does”; got “do”."),
        ("we does not see him", "After “we” this grammar wants “do”; got “does”."),
        ("the cat does see a dog", "After “does” this grammar wants “not”"),
        ("the cat does not sees a dog", "After “not” this grammar wants a verb without -s; got “sees”"),
        ("this cats see a dog", "a singular noun for a person or an animal; got “cats”"),
        ("the cat sees these dog", "a plural noun; got “dog”"),
        ("the hat sees a dog", "for a person or an animal; got “hat”"),
        ("the black small cat sees a dog", "“small” is one adjective too many here"),
        ("the small big cat sees a dog", "“big” is one adjective too many here"),
        ("I see me", "“I … me” looks back at its own subject"),
        ("the cat sees", "me, us, him or them; here the sentence ends. Possible: me, us, him, them, the"),
        ("the", "After “the” this grammar wants an adjective or a noun for a person or an animal; here the sentence"),
        ("cat", "At the beginning this grammar wants a determiner, or I, he, she or we; got “cat”"),
        ("the cat sees the dog the", "The sentence is complete before “the”"),
        ("the cat sees him dog", "The sentence is complete before “dog”"),
        ("they see the dog", "“they” is not in this grammar. French would have to know whether “ils” or “elles”"),
        ("it sees the dog", "name it, as in “the house”"),
        ("I see it", "name it, as in “the house”"),
        ("you see the dog", "between “tu” and “vous”; try him, them, he, she or we"),
        ("the cat is black", "“is” is not in this grammar. It has no form of “to be”"),
        ("I don't see him", "“don't” is not in this grammar. Please write “do not”"),
        ("I don’t see him", "Please write “do not”"),
        ("he doesn't see me", "Please write “does not”"),
        ("I see her", "After “her” this grammar wants a noun, as in “her hat”. Name the person: “the girl”."),
        ("I see her black", "After “black” this grammar wants a noun; here the sentence ends"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(sentence, words):
    with pytest.raises(ValueError) as refused:
        translate(sentence)
    assert words in str(refused.value)
    assert str(refused.value).endswith((".", "?")) and len(str(refused.value)) < 600


def test_capitals_and_punctuation_are_welcome():
    assert translate("The black cat sees me!").source == ("the", "black", "cat", "sees", "me")
    assert translate("i see HIM.").target == ("je", "le", "vois")


@given(st.lists(st.sampled_from(ENGLISH), max_size=13))
def test_any_words_are_translated_or_refused_in_a_sentence(words):
    try:
        pair = translate(words)
    except ValueError as error:
        assert str(error).endswith((".", "?"))
    else:
        assert pair.source == tuple(words)


@given(st.text(max_size=40))
def test_any_text_is_translated_or_refused_in_a_sentence(sentence):
    try:
        translate(sentence)
    except ValueError as error:
        assert str(error).strip()


def test_ids_of_unknown_words_and_empty_batches_are_refused():
    with pytest.raises(ValueError, match="“kat” is not one of the"):
        encode(("the", "kat"))
    with pytest.raises(ValueError, match="pairs is empty"):
        batch([])
