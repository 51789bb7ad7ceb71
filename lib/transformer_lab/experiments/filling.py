"""Fill a blank with a masked model, which reads both sides, and with a causal one, which reads the left."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from transformer_lab.experiments.objectives import N_SPECIALS, next_words, real
from transformer_lab.experiments.writing import write
from transformer_lab.model.averages import IGNORE
from transformer_lab.tasks import cloze

BLANK = "___"


@torch.no_grad()
def blank_probabilities(
    model: nn.Module, tokens: Int[Tensor, "batch position"], place: int
) -> Float[Tensor, "batch words"]:
    """What the model would put at ``place``, counted from 1 because ``<start>`` is 0, over the words alone.

    An encoder-only model finds ``<mask>`` there and reads the rest; a decoder-only model is handed what stands before.
    """
    if model.config.family == "encoder-only":
        hidden = tokens.clone()
        hidden[:, place] = cloze.MASK_ID
        logits = model(hidden, mask=real(tokens))[:, place]
    else:
        logits = model(tokens[:, :place])[:, -1]
    return logits[:, N_SPECIALS:].softmax(-1)


@torch.no_grad()
def sentence_scores(model: nn.Module, tokens: Int[Tensor, "batch position"]) -> Float[Tensor, " batch"]:
    """The log-probability that a causal model gives to each whole sentence."""
    inputs, labels = next_words(tokens)
    log_shares = model(inputs).log_softmax(-1)
    each = log_shares.gather(-1, labels.clamp(min=0)[..., None])[..., 0]
    return each.masked_fill(labels == IGNORE, 0.0).sum(-1)


def fill_by_trying(model: nn.Module, tokens: Int[Tensor, "batch position"], place: int) -> Int[Tensor, " batch"]:
    """The word at ``place`` that makes the whole sentence most probable for a causal model: one pass for every word."""
    n_words = len(cloze.WORDS) - N_SPECIALS
    tried = tokens[:, None].repeat(1, n_words, 1)
    tried[:, :, place] = torch.arange(N_SPECIALS, len(cloze.WORDS))
    scores = sentence_scores(model, tried.flatten(0, 1)).view(len(tokens), n_words)
    return scores.argmax(-1) + N_SPECIALS


def accuracy_by_slot(
    model: nn.Module, *, by_trying: bool = False, sentences: Int[Tensor, "batch position"] = cloze.HELD_OUT
) -> dict[str, float]:
    """For each slot, how often the model's first choice is the word that stood there, over held-out sentences."""
    found = {}
    for place, slot in enumerate(cloze.SLOTS, start=1):
        asked = sentences[sentences[:, place] >= N_SPECIALS]  # short sentences have no ending
        if by_trying:
            given = fill_by_trying(model, asked, place)
        else:
            given = blank_probabilities(model, asked, place).argmax(-1) + N_SPECIALS
        found[slot] = (given == asked[:, place]).double().mean().item()
    return found


@dataclass(frozen=True)
class Reader:
    """One model at one blank: its best words with their probabilities, and which places of the sentence it read."""

    name: str
    words: tuple[str, ...]
    shares: tuple[float, ...]
    reads: tuple[bool, ...]


@dataclass(frozen=True)
class FilledBlank:
    """One sentence with a blank before two readers, and what the causal one writes on from the words before it.

    ``best`` is what the grammar allows: the most often right that a reader of both sides, and of the left, can be.
    ``ended`` says whether the causal model said ``<end>`` after ``written``, and ``grammatical`` whether the words
    before the blank and ``written`` are a sentence of the language.
    """

    words: tuple[str, ...]
    place: int
    slot: str
    readers: tuple[Reader, Reader]
    best: tuple[float, float]
    written: tuple[str, ...]
    ended: bool
    grammatical: bool
    fits: tuple[str, ...]


def fill_blank(
    masked: nn.Module, causal: nn.Module, words: Sequence[str], place: int, *, draw: int = 0, n_shown: int = 4
) -> FilledBlank:
    """Ask both models for the word at ``place`` (counted from 0), and let the causal one write on from there.

    Args:
        words: the sentence; `BLANK` may stand for the word at ``place``.
        draw: which of the causal model's continuations; each number is another draw.

    Raises:
        ValueError: no words, a word outside the language, a second blank, a place outside the sentence.
    """
    words = tuple(words)
    if not words:
        raise ValueError("The sentence is empty; try: this old dog barked here.")
    # Any word keeps the place of the blank: no model reads what stands there.
    tokens = torch.tensor([cloze.encode([cloze.WORDS[-1] if word == BLANK else word for word in words])])
    if not 0 <= place < len(words):
        raise ValueError(f"place is {place}; the sentence has the places 0 … {len(words) - 1}.")
    if BLANK in (*words[:place], *words[place + 1 :]):
        raise ValueError("One blank at a time: write a word of the language for each of the others.")
    readers = []
    for name, model in (("masked", masked), ("causal", causal)):
        best = blank_probabilities(model, tokens, place + 1)[0].topk(n_shown)
        shown = tuple(cloze.WORDS[index + N_SPECIALS] for index in best.indices.tolist())
        sees = [i < place or (name == "masked" and i > place) for i in range(len(words))]
        readers.append(Reader(name, shown, tuple(best.values.tolist()), tuple(sees)))
    written = write(causal, 1, torch.Generator().manual_seed(draw), prompt=words[:place])[0][place:]
    return FilledBlank(
        words=words,
        place=place,
        slot=cloze.SLOTS[place],
        readers=tuple(readers),
        best=tuple(cloze.best_accuracy(side)[cloze.SLOTS[place]] for side in ("both", "left")),
        written=written,
        ended=len(words[:place]) + len(written) < cloze.LENGTH - 1,
        grammatical=cloze.is_sentence((*words[:place], *written)),
        fits=cloze.fitting_words(words, place),
    )
