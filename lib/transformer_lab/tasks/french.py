"""The words of the English→French grammar, with the forms that French agreement asks for.

Every French word begins with a consonant, so nothing is ever elided: no *l'*, *n'*, *j'* or *cet*.
"""

from dataclasses import dataclass

MASCULINE, FEMININE = "masculine", "feminine"


@dataclass(frozen=True)
class Noun:
    """A noun: English and French, one and many, its gender, and whether it can act."""

    english: tuple[str, str]
    french: tuple[str, str]
    gender: str
    acts: bool


@dataclass(frozen=True)
class Adjective:
    """An adjective: (masculine, its plural, feminine, its plural), and whether it stands in front of the noun."""

    english: str
    french: tuple[str, str, str, str]
    in_front: bool

    def agreeing(self, gender: str, plural: bool) -> str:
        """The form that goes with a noun of this gender and number."""
        return self.french[2 * (gender == FEMININE) + plural]


@dataclass(frozen=True)
class Determiner:
    """A determiner: French (masculine, feminine, plural); ``plural`` says what it stands with, ``None`` either."""

    english: str
    french: tuple[str, str, str]
    plural: bool | None

    def agreeing(self, gender: str, plural: bool) -> str:
        """The form that goes with a noun of this gender and number."""
        return self.french[2 if plural else gender == FEMININE]


@dataclass(frozen=True)
class Verb:
    """A verb: English (without and with -s), French after je, il or elle, nous, ils or elles."""

    english: tuple[str, str]
    french: tuple[str, str, str, str]


JE, IL, NOUS, ILS = range(4)  # which of a verb's four French forms

NOUNS = (
    Noun(("cat", "cats"), ("chat", "chats"), MASCULINE, True),
    Noun(("dog", "dogs"), ("chien", "chiens"), MASCULINE, True),
    Noun(("boy", "boys"), ("garçon", "garçons"), MASCULINE, True),
    Noun(("king", "kings"), ("roi", "rois"), MASCULINE, True),
    Noun(("girl", "girls"), ("fille", "filles"), FEMININE, True),
    Noun(("queen", "queens"), ("reine", "reines"), FEMININE, True),
    Noun(("cow", "cows"), ("vache", "vaches"), FEMININE, True),
    Noun(("hen", "hens"), ("poule", "poules"), FEMININE, True),
    Noun(("hat", "hats"), ("chapeau", "chapeaux"), MASCULINE, False),
    Noun(("book", "books"), ("livre", "livres"), MASCULINE, False),
    Noun(("boat", "boats"), ("bateau", "bateaux"), MASCULINE, False),
    Noun(("garden", "gardens"), ("jardin", "jardins"), MASCULINE, False),
    Noun(("house", "houses"), ("maison", "maisons"), FEMININE, False),
    Noun(("car", "cars"), ("voiture", "voitures"), FEMININE, False),
    Noun(("flower", "flowers"), ("fleur", "fleurs"), FEMININE, False),
    Noun(("dress", "dresses"), ("robe", "robes"), FEMININE, False),
)
ADJECTIVES = (
    Adjective("small", ("petit", "petits", "petite", "petites"), True),
    Adjective("big", ("grand", "grands", "grande", "grandes"), True),
    Adjective("pretty", ("joli", "jolis", "jolie", "jolies"), True),
    Adjective("new", ("nouveau", "nouveaux", "nouvelle", "nouvelles"), True),
    Adjective("good", ("bon", "bons", "bonne", "bonnes"), True),
    Adjective("black", ("noir", "noirs", "noire", "noires"), False),
    Adjective("white", ("blanc", "blancs", "blanche", "blanches"), False),
    Adjective("red", ("rouge", "rouges", "rouge", "rouges"), False),
    Adjective("green", ("vert", "verts", "verte", "vertes"), False),
    Adjective("blue", ("bleu", "bleus", "bleue", "bleues"), False),
    Adjective("grey", ("gris", "gris", "grise", "grises"), False),
    Adjective("slow", ("lent", "lents", "lente", "lentes"), False),
    Adjective("quiet", ("calme", "calmes", "calme", "calmes"), False),
)
DETERMINERS = (
    Determiner("the", ("le", "la", "les"), None),
    Determiner("a", ("un", "une", ""), False),
    Determiner("this", ("ce", "cette", ""), False),
    Determiner("these", ("", "", "ces"), True),
    Determiner("my", ("mon", "ma", "mes"), None),
    Determiner("her", ("son", "sa", "ses"), None),
)
VERBS = (
    Verb(("see", "sees"), ("vois", "voit", "voyons", "voient")),
    Verb(("push", "pushes"), ("pousse", "pousse", "poussons", "poussent")),
    Verb(("want", "wants"), ("veux", "veut", "voulons", "veulent")),
    Verb(("find", "finds"), ("trouve", "trouve", "trouvons", "trouvent")),
    Verb(("draw", "draws"), ("dessine", "dessine", "dessinons", "dessinent")),
    Verb(("wash", "washes"), ("lave", "lave", "lavons", "lavent")),
    Verb(("sell", "sells"), ("vends", "vend", "vendons", "vendent")),
    Verb(("know", "knows"), ("connais", "connaît", "connaissons", "connaissent")),
)
SUBJECTS = {"I": ("je", JE), "he": ("il", IL), "she": ("elle", IL), "we": ("nous", NOUS)}  # they: ils or elles?
OBJECTS = {"me": "me", "us": "nous", "him": "le", "them": "les"}  # her: the word is taken by son, sa, ses
NO_LONGER_A = "de"  # what *a* becomes in the object of a negated verb: je ne vois pas de chat
