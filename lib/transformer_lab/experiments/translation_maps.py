"""Where a translator looks: its attention against the grammar's own alignment, and where it finds the gender."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from transformer_lab.experiments.translation import teacher_forced
from transformer_lab.model.families import EncoderDecoder
from transformer_lab.model.recording import record_attention
from transformer_lab.tasks.french import FEMININE, MASCULINE, NOUNS
from transformer_lab.tasks.translation import Pair, translate
from transformer_lab.tasks.translation_data import BEGIN_ID, batch, encode

ALIGNED = ("noun", "adjective", "verb", "determiner", "pronoun", "ne", "pas")
CROSS = "decoder.blocks.0.cross_attention.sublayer"
ENCODER = "encoder.blocks.0.self_attention.sublayer"


@torch.no_grad()
def attention_maps(model: EncoderDecoder, pairs: Sequence[Pair]) -> dict[str, Float[Tensor, "batch query key"]]:
    """The recorded weights of the first head of every attention, by its name, while the right target is read."""
    source, target = batch(pairs)
    with record_attention(model) as maps:
        teacher_forced(model, source, target)
    return {name: calls[0][:, 0] for name, calls in maps.items()}


def alignment_accuracy(model: EncoderDecoder, pairs: Sequence[Pair]) -> dict[str, float]:
    """Share of words, by part of speech, whose largest cross-attention weight lies on the aligned source word.

    The two words of a negation, *ne* and *pas*, are told apart: both are aligned with *not*.
    Row ``i`` of the map is the query that *produces* target word ``i``; what it has read last is word ``i − 1``.
    """
    weights = attention_maps(model, pairs)[CROSS]
    hits: dict[str, list[bool]] = {}
    for map_, pair in zip(weights, pairs, strict=True):
        looked_at = map_.argmax(dim=-1).tolist()
        for word, part, place, found in zip(pair.target, pair.parts, pair.alignment, looked_at, strict=False):
            hits.setdefault(word if part == "negation" else part, []).append(place == found)
    return {part: sum(hits[part]) / len(hits[part]) for part in ALIGNED if part in hits}


@dataclass(frozen=True)
class DeterminersLook:
    """The mean weight of determiners on themselves and on their noun, in cross-attention and inside the encoder."""

    cross_on_itself: float
    cross_on_noun: float
    encoder_on_itself: float
    encoder_on_noun: float


def determiners_look(model: EncoderDecoder, pairs: Sequence[Pair]) -> DeterminersLook:
    """Where the gender of a determiner could come from: what the maps say."""
    maps = attention_maps(model, pairs)
    found = []
    for pair, cross, encoder in zip(pairs, maps[CROSS], maps[ENCODER], strict=True):
        for row, part in enumerate(pair.parts):
            if part == "determiner":
                itself = pair.alignment[row]
                noun = pair.alignment[pair.parts.index("noun", row)]
                found.append((cross[row, itself], cross[row, noun], encoder[itself, itself], encoder[itself, noun]))
    return DeterminersLook(*torch.tensor(found).mean(dim=0).tolist())


# For every noun one of the other gender that acts alike, in the same number.
_OTHER_GENDER = {
    first.english[plural]: second.english[plural]
    for one, other in ((MASCULINE, FEMININE), (FEMININE, MASCULINE))
    for acts in (True, False)
    for first, second in zip(
        [noun for noun in NOUNS if (noun.gender, noun.acts) == (one, acts)],
        [noun for noun in NOUNS if (noun.gender, noun.acts) == (other, acts)],
        strict=True,
    )
    for plural in (0, 1)
}


@dataclass(frozen=True)
class GenderSwap:
    """What the next determiner becomes when one encoder vector is exchanged for that of a noun of the other gender.

    Args:
        n: how many sentences were tried.
        noun, determiner: share of them whose determiner changes its gender when the vector at the noun's place is
            exchanged, and when the vector at the determiner's own place is.
    """

    n: int
    noun: float
    determiner: float


@torch.no_grad()
def swap_gender(model: EncoderDecoder, pairs: Sequence[Pair]) -> GenderSwap:
    """Read a sentence and its twin, whose last noun has the other gender; give the decoder a mixture of both.

    Everything is the first sentence's, but for one vector: the twin's, at the noun or at its determiner.
    """
    changed = {"noun": [], "determiner": []}
    for pair, twin in _twins(pairs):
        row = len(pair.parts) - 1 - pair.parts[::-1].index("determiner")
        so_far = torch.tensor([[BEGIN_ID, *encode(pair.target[:row])]])
        own, other = (model.encode(batch([each])[0]) for each in (pair, twin))
        for name, place in (("noun", len(pair.source) - 1), ("determiner", pair.alignment[row])):
            mixed = own.clone()
            mixed[:, place] = other[:, place]
            word = model.decode(so_far, mixed)[0, -1].argmax().item()
            changed[name].append(word == encode([twin.target[row]])[0])
    shares = {name: sum(found) / len(found) for name, found in changed.items()}
    return GenderSwap(len(changed["noun"]), shares["noun"], shares["determiner"])


def _twins(pairs: Sequence[Pair]) -> list[tuple[Pair, Pair]]:
    """Sentences that end in a noun, beside the same sentence with a noun of the other gender, if that shows."""
    found = []
    for pair in pairs:
        if pair.source[-1] in _OTHER_GENDER:
            twin = translate((*pair.source[:-1], _OTHER_GENDER[pair.source[-1]]))
            row = len(pair.parts) - 1 - pair.parts[::-1].index("determiner")
            if pair.target[row] != twin.target[row]:  # les, ces, mes, ses and de have one form for both
                found.append((pair, twin))
    return found
