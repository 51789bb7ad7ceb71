"""One sentence through a translator, step by step: what it writes, how sure it is, and where it looks."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from transformer_lab.experiments.translation import source_mask, translate_greedily
from transformer_lab.experiments.translation_maps import CROSS
from transformer_lab.model.families import EncoderDecoder
from transformer_lab.model.recording import record_attention
from transformer_lab.tasks.translation import Pair
from transformer_lab.tasks.translation_data import END, END_ID, WORDS, batch

N_CANDIDATES = 3


@dataclass(frozen=True)
class Translation:
    """What a translator writes for one sentence.

    Args:
        source, written: the tokens read and written, each with ``<end>`` if there is one.
        weights: of cross-attention; row ``i`` belongs to the query that produces ``written[i]``.
        candidates: at each step the likeliest words and their probabilities.
        right, alignment: the grammar's French and the place in the source that each of its words comes from, both
            with ``<end>``.
        cut: whether cross-attention was cut.
    """

    source: tuple[str, ...]
    written: tuple[str, ...]
    weights: Float[Tensor, "step source"]
    candidates: tuple[tuple[tuple[str, float], ...], ...]
    right: tuple[str, ...]
    alignment: tuple[int, ...]
    cut: bool


@torch.no_grad()
def translate_and_record(model: EncoderDecoder, pair: Pair, *, cut: bool = False) -> Translation:
    """Let the model write, then read its own words once more and record the pass that produces them."""
    source, _ = batch([pair])
    written = translate_greedily(model, source, blind=cut)[0]
    ends = (written == END_ID).nonzero()
    n_steps = int(ends[0]) if len(ends) else len(written) - 1
    memory = model.encode(source)
    with record_attention(model) as maps:
        logits = model.decode(written[None, :n_steps], memory, memory_mask=source_mask(source, blind=cut))[0]
    likeliest = logits.softmax(dim=-1).topk(N_CANDIDATES)
    return Translation(
        source=(*pair.source, END),
        written=tuple(WORDS[token] for token in written[1 : n_steps + 1].tolist()),
        weights=maps[CROSS][0][0, 0],
        candidates=tuple(
            tuple((WORDS[token], share) for token, share in zip(tokens, shares, strict=True))
            for tokens, shares in zip(likeliest.indices.tolist(), likeliest.values.tolist(), strict=True)
        ),
        right=(*pair.target, END),
        alignment=(*pair.alignment, len(pair.source)),
        cut=cut,
    )


@dataclass(frozen=True)
class TranslationStep:
    """A translation and the step of it that is looked at, counted from 1."""

    translation: Translation
    step: int

    @property
    def word(self) -> str:
        """What this step writes."""
        return self.translation.written[self.step - 1]

    @property
    def so_far_right(self) -> bool:
        """Whether everything up to this step is the grammar's French."""
        return self.translation.written[: self.step] == self.translation.right[: self.step]
