"""Forty-odd words with hand-set vectors, small enough to read, and hand-set projections for one head of attention.

Every component has a name, so every score and every output can be worked out with a pencil. Nothing here is
trained: a trained model finds its own numbers, and its components have no names.
"""

import string

import torch
from torch import Tensor

FEATURES = ("water", "money", "thing", "action", "pointing", "double")  # d_model = 6
PARTS = FEATURES[:4]  # d_k = d_v = 4: what queries look for, keys offer and values hand over
MAX_TOKENS = 10
MAX_CHARACTERS = 200

# One row a kind of word: (water, money, thing, action, pointing, double). "pointing" words stand for something else
# in the sentence; "double" words have two meanings, and only the context says which.
WORDS: dict[str, tuple[float, ...]] = {
    **dict.fromkeys(("the", "a", "this"), (0, 0, 0, 0, 0.5, 0)),
    **dict.fromkeys(("of", "in", "by", "at", "and", "near", "with"), (0, 0, 0, 0, 0.2, 0)),
    **dict.fromkeys(("it", "they"), (0, 0, 0, 0, 1, 0)),
    **dict.fromkeys(("bank", "pool", "deposit", "current"), (0.5, 0.5, 1, 0, 0, 1)),
    **dict.fromkeys(("river", "lake"), (1, 0, 1, 0, 0, 0)),
    **dict.fromkeys(("loan", "coin", "cash"), (0, 1, 1, 0, 0, 0)),
    "fish": (0.8, 0, 1, 0, 0, 0),
    "boat": (0.6, 0, 1, 0, 0, 0),
    "bridge": (0.4, 0, 1, 0, 0, 0),
    "clerk": (0, 0.6, 1, 0, 0, 0),
    "price": (0, 0.8, 1, 0, 0, 0),
    **dict.fromkeys(("child", "house"), (0, 0, 1, 0, 0, 0)),
    **dict.fromkeys(("swam", "flooded"), (1, 0, 0, 1, 0, 0)),
    "sailed": (0.8, 0, 0, 1, 0, 0),
    "paid": (0, 1, 0, 1, 0, 0),
    "approved": (0, 0.5, 0, 1, 0, 0),
    **dict.fromkeys(("saw", "crossed", "closed", "opened"), (0, 0, 0, 1, 0, 0)),
    **dict.fromkeys(("is", "was"), (0, 0, 0, 0.5, 0, 0)),
    "deep": (0.5, 0, 0, 0, 0, 0),
    "rich": (0, 0.5, 0, 0, 0, 0),
}

# Rows are the features of a word; columns are the parts.
_W_Q = (  # what a word looks for
    (1.0, 0.0, 0.0, 0.0),  # water words look for water
    (0.0, 1.0, 0.0, 0.0),  # money words look for money
    (0.0, 0.0, 0.0, 0.5),  # things look for what is done with them
    (0.0, 0.0, 1.0, 0.0),  # actions look for things
    (0.0, 0.0, 1.8, 0.7),  # pointing words look for a thing, and a little for what it does
    (1.5, 1.5, 0.0, 0.0),  # words with two meanings look for water or money
)
_W_K = (  # what a word can be found by
    (2.0, 0.0, 0.0, 0.0),
    (0.0, 2.0, 0.0, 0.0),
    (0.0, 0.0, 2.0, 0.0),
    (0.0, 0.0, 0.0, 2.0),
    (0.0, 0.0, 0.0, 0.0),
    (-1.0, -1.0, 0.0, 0.0),  # a word with two meanings is no help in choosing one
)
_W_V = (  # what a word hands over
    (1.0, 0.0, 0.0, 0.0),
    (0.0, 1.0, 0.0, 0.0),
    (0.0, 0.0, 1.0, 0.0),
    (0.0, 0.0, 0.0, 1.0),
    (0.0, 0.0, 1.0, 0.0),  # a pointing word stands for some thing
    (0.0, 0.0, 0.0, 0.0),
)


def tokenize(sentence: str) -> tuple[str, ...]:
    """The words of a sentence as typed, without the punctuation around them.

    Raises:
        ValueError: nothing to read, too much of it, or a word without a vector; the message lists the known words.
    """
    if len(sentence) > MAX_CHARACTERS:
        raise ValueError(
            f"The sentence has {len(sentence):,} characters; please stay within {MAX_CHARACTERS} "
            f"and {MAX_TOKENS} words."
        )
    tokens = tuple(filter(None, (piece.strip(string.punctuation + "“”‘’…–—") for piece in sentence.split())))
    if not tokens:
        raise ValueError(f"The sentence is empty; the known words are {known_words()}.")
    if len(tokens) > MAX_TOKENS:
        raise ValueError(f"The sentence has {len(tokens)} words; please use at most {MAX_TOKENS}.")
    unknown = [token for token in tokens if token.lower() not in WORDS]
    if unknown:
        shown = unknown[0] if len(unknown[0]) <= 20 else unknown[0][:20] + "…"
        raise ValueError(f"“{shown}” has no vector here; the known words are {known_words()}.")
    return tokens


def known_words() -> str:
    """Every word with a vector, in alphabetical order, as one line."""
    return ", ".join(sorted(WORDS))


def embed(tokens: tuple[str, ...]) -> Tensor:
    """The vector of each token, (position, d_model). Same word, same vector, whatever stands beside it."""
    return torch.tensor([WORDS[token.lower()] for token in tokens], dtype=torch.float32)


def projections() -> tuple[Tensor, Tensor, Tensor]:
    """W_Q, W_K and W_V, hand-set: (d_model, d_k), (d_model, d_k) and (d_model, d_v)."""
    return torch.tensor(_W_Q), torch.tensor(_W_K), torch.tensor(_W_V)
