"""Let the three families write: word after word, into blanks, and into a gap."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from transformer_lab.experiments.objectives import real
from transformer_lab.tasks import cloze

Sentence = tuple[str, ...]
MOST_WORDS = len(cloze.SLOTS)


def grammatical_share(sentences: Sequence[Sentence]) -> float:
    """The share of sentences that the grammar makes."""
    return sum(map(cloze.is_sentence, sentences)) / len(sentences)


def in_words(share: float) -> str:
    """A share as a verdict that is the same on every machine; the digits stand in the pictures."""
    if share == 0:
        return "none"
    return "at least 80 %" if share >= 0.8 else "under 20 %" if share < 0.2 else "between 20 and 80 %"


@torch.no_grad()
def write(causal: nn.Module, n: int, generator: torch.Generator, prompt: Sequence[str] = ()) -> list[Sentence]:
    """``n`` sentences from a causal model that begin with ``prompt``; every next word is drawn."""
    tokens = torch.tensor([[cloze.START_ID, *map(cloze.WORDS.index, prompt)]]).repeat(n, 1)
    while tokens.shape[1] < cloze.LENGTH:
        tokens = _append(tokens, causal(tokens)[:, -1], generator)
    return list(map(cloze.decode, tokens))


@torch.no_grad()
def write_with_masks(masked: nn.Module, n: int, generator: torch.Generator) -> list[Sentence]:
    """A masked model run like a causal one: put ``<mask>`` after the words so far, draw its word, and so on.

    Stops where a sentence must have ended, if the model does not end it.
    """
    tokens = torch.full((n, 1), cloze.START_ID)
    while tokens.shape[1] < cloze.LENGTH:
        asked = torch.cat((tokens, torch.full((n, 1), cloze.MASK_ID)), dim=1)
        tokens = _append(tokens, masked(asked)[:, -1], generator)
    return list(map(cloze.decode, tokens))


@torch.no_grad()
def fill_masks(masked: nn.Module, tokens: Tensor, generator: torch.Generator, *, at_once: bool) -> list[Sentence]:
    """Draw a word for every ``<mask>`` in ``tokens`` (batch, position), the same places in each row.

    Args:
        at_once: all from one pass, each without knowing the others; else one after the other, from the left.
    """
    tokens, asked = tokens.clone(), (tokens[0] == cloze.MASK_ID).nonzero()[:, 0].tolist()
    mask = real(tokens)
    first_logits = masked(tokens, mask=mask)
    for place in asked:
        logits = first_logits if at_once else masked(tokens, mask=mask)
        tokens[:, place] = _draw(logits[:, place], generator)
    return list(map(cloze.decode, tokens))


def all_masks(n: int, n_words: int = MOST_WORDS) -> Tensor:
    """``n`` rows of ``<start>``, ``n_words`` masks and ``<end>``: the length is handed over, the words are not."""
    row = [cloze.START_ID, *[cloze.MASK_ID] * n_words, cloze.END_ID]
    return torch.tensor([row]).repeat(n, 1)


@torch.no_grad()
def fill_gaps(filler: nn.Module, sources: Sequence[Sentence], generator: torch.Generator) -> list[Sentence]:
    """The words that an encoder–decoder writes for the ``<gap>`` of each source. The source is encoded once."""
    source = torch.tensor([cloze.encode(words) for words in sources])
    mask = real(source)
    memory = filler.encode(source, mask=mask)
    tokens = torch.full((len(sources), 1), cloze.START_ID)
    while tokens.shape[1] < cloze.LENGTH:
        tokens = _append(tokens, filler.decode(tokens, memory, memory_mask=mask)[:, -1], generator)
    return list(map(cloze.decode, tokens))


def put_into_gap(source: Sentence, missing: Sentence) -> Sentence:
    """The source with ``missing`` in place of its ``<gap>``."""
    place = source.index(cloze.GAP)
    return (*source[:place], *missing, *source[place + 1 :])


def continue_into_gap(
    filler: nn.Module, n: int, generator: torch.Generator, prompt: Sequence[str]
) -> list[Sentence]:
    """``n`` continuations of one prompt by an encoder–decoder, whose gap stands at the end."""
    source = (*prompt, cloze.GAP)
    return [put_into_gap(source, missing) for missing in fill_gaps(filler, [source] * n, generator)]


def _draw(logits: Tensor, generator: torch.Generator) -> Tensor:
    return torch.multinomial(logits.softmax(-1), 1, generator=generator)[:, 0]


def _append(tokens: Tensor, logits: Tensor, generator: torch.Generator) -> Tensor:
    return torch.cat((tokens, _draw(logits, generator)[:, None]), dim=1)
