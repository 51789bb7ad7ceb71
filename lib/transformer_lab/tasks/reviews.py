"""Four-word film reviews and the class each belongs to: negative, mixed or positive."""

from collections.abc import Sequence

import torch
from torch import Tensor

PAD = 0
CLASSES = ("negative", "mixed", "positive")
PRAISE = ("great", "lovely", "brilliant", "moving")
BLAME = ("awful", "dull", "clumsy", "boring")
BOTH = ("okay", "uneven")  # half praise, half blame
SUBJECTS = ("film", "plot", "cast", "script", "story", "music")
FILLERS = ("the", "this", "was", "felt", "only")
VOCABULARY = ("<pad>", *PRAISE, *BLAME, *BOTH, *SUBJECTS, *FILLERS)

REVIEWS = (
    "the film was great",
    "this story felt moving",
    "awful script great cast",
    "the music was uneven",
    "the plot was dull",
)


def encode(words: Sequence[str], n_pads: int = 0, *, side: str = "right") -> Tensor:
    """The token ids of one review, with ``n_pads`` pads on one side.

    Raises:
        ValueError: a word outside the vocabulary, fewer than 0 pads, an unknown side.
    """
    if n_pads < 0:
        raise ValueError(f"n_pads is {n_pads}; it must be at least 0.")
    if side not in ("right", "left"):
        raise ValueError(f"side is {side!r}; it must be 'right' or 'left'.")
    for word in words:
        if word not in VOCABULARY[1:]:
            raise ValueError(f"{word!r} is not in the vocabulary; it knows {', '.join(VOCABULARY[1:])}.")
    real, pads = [VOCABULARY.index(word) for word in words], [PAD] * n_pads
    return torch.tensor(real + pads if side == "right" else pads + real)


def verdict(words: Sequence[str]) -> int:
    """The class of a review: positive or negative if everything in it points one way, otherwise mixed."""
    praise = any(word in PRAISE or word in BOTH for word in words)
    blame = any(word in BLAME or word in BOTH for word in words)
    return CLASSES.index("mixed" if praise == blame else "positive" if praise else "negative")


def sample_reviews(n_reviews: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Random reviews as token ids (review, 4), and their classes (review,).

    One half is of the kind "the film was great", the other of the kind "awful script great cast".
    """
    opinions = (*PRAISE, *BLAME, *BOTH)
    plain = (("the", "this"), SUBJECTS, ("was", "felt"), opinions)
    double = (opinions, SUBJECTS, opinions, SUBJECTS)
    reviews = []
    for index in range(n_reviews):
        kinds = double if index % 2 else plain
        reviews.append([kind[int(torch.randint(len(kind), (1,), generator=generator))] for kind in kinds])
    return torch.stack([encode(words) for words in reviews]), torch.tensor([verdict(words) for words in reviews])
