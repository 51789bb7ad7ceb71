"""Search sentences by their vectors, then read the best ones again together with the query."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from transformer_lab.experiments.objectives import real
from transformer_lab.experiments.one_pass import BATCH, WithHead, fine_tune, sentence_vectors
from transformer_lab.model.averages import masked_mean
from transformer_lab.tasks import cloze
from transformer_lab.training import Monitor

N_CANDIDATES = 32  # that the search hands to the reranker
SUBJECT = slice(1, 4)  # determiner, adjective and noun
COLLECTION = torch.tensor([cloze.encode(words) for words in cloze.SENTENCES])


@torch.no_grad()
def similarities(
    encoder: nn.Module,
    queries: Int[Tensor, "query position"],
    collection: Int[Tensor, "sentence position"],
    pool: str = "mean",
) -> Float[Tensor, "query sentence"]:
    """The cosine between the vectors of queries and of sentences; each was made in a pass of its own."""
    vectors = [F.normalize(sentence_vectors(encoder, tokens, pool), dim=-1) for tokens in (queries, collection)]
    return vectors[0] @ vectors[1].T


def found_itself(encoder: nn.Module, pool: str, n_pads: int) -> float:
    """The share of held-out sentences that find themselves first when the collection carries ``n_pads`` more pads."""
    padded = F.pad(cloze.HELD_OUT, (0, n_pads), value=cloze.PAD_ID)
    best = similarities(encoder, cloze.HELD_OUT, padded, pool).argmax(-1)
    return (best == torch.arange(len(best))).double().mean().item()


def hits_about_the_same(encoder: nn.Module, *, n_hits: int = 5) -> tuple[float, float]:
    """Among the nearest held-out sentences of each, the share with the same noun and place; and the share by chance."""
    sentences = cloze.HELD_OUT
    same = (sentences[:, None, [3, 5]] == sentences[None, :, [3, 5]]).all(dim=-1).fill_diagonal_(False)
    nearest = similarities(encoder, sentences, sentences).fill_diagonal_(-torch.inf).topk(n_hits).indices
    by_chance = same.double().sum() / (same.numel() - len(same))
    return same.gather(1, nearest).double().mean().item(), by_chance.item()


def read_together(
    encoder: nn.Module, pairs: Int[Tensor, "batch position"]
) -> Float[Tensor, "batch d_model"]:
    """The mean row of a query and a candidate that attend to each other: one pass a pair."""
    return masked_mean(encoder.encode(pairs, mask=real(pairs)), real(pairs))


def as_pairs(
    queries: Int[Tensor, "batch position"], candidates: Int[Tensor, "batch position"]
) -> Int[Tensor, "batch both"]:
    """``<start> query <end> candidate <end>`` as one sequence."""
    return torch.cat((queries, candidates[:, 1:]), dim=1)


def same_subject(
    queries: Int[Tensor, "query position"], sentences: Int[Tensor, "sentence position"]
) -> Bool[Tensor, "query sentence"]:
    """Whether two sentences are about the same thing: determiner, adjective and noun agree."""
    return (queries[:, None, SUBJECT] == sentences[None, :, SUBJECT]).all(dim=-1)


def train_reranker(
    encoder: nn.Module, *, steps: int = 300, seed: int = 0, monitor: Monitor | None = None
) -> WithHead:
    """Fine-tune a copy of the encoder to say whether two sentences share their subject, reading both at once.

    Half of the candidates have the query's subject. Most others differ in the adjective alone, some are any sentence.
    """
    adjectives = torch.tensor([cloze.WORDS.index(word) for word in cloze.WORDS_OF["adjective"]])
    kind = torch.arange(BATCH) % 8  # 0 … 3 as the query, 4 … 6 another adjective, 7 any sentence

    def loss(model: nn.Module, generator: torch.Generator) -> Tensor:
        queries, candidates = cloze.draw(BATCH, generator), cloze.draw(BATCH, generator)
        drawn = adjectives[torch.randint(len(adjectives), (BATCH,), generator=generator)]
        candidates[kind < 7, 1:6] = queries[kind < 7, 1:6]
        candidates[:, 2] = torch.where((kind > 3) & (kind < 7), drawn, candidates[:, 2])
        labels = (queries[:, SUBJECT] == candidates[:, SUBJECT]).all(dim=-1).long()
        return F.cross_entropy(model(as_pairs(queries, candidates)), labels)

    return fine_tune(encoder, read_together, loss, steps=steps, seed=seed, monitor=monitor, name="reranker")


@dataclass(frozen=True)
class Search:
    """Of the best three hits of each query, the share that is about the same subject; and the passes of one query."""

    by_vector: float
    reranked: float
    candidates_hold: float
    passes_by_vector: int
    passes_reranked: int
    passes_of_reading_all: int


@torch.no_grad()
def search(encoder: nn.Module, reranker: nn.Module, *, n_hits: int = 3) -> Search:
    """Look for each held-out sentence's subject in the whole language, by vectors alone and with reranking.

    ``candidates_hold`` is the share of all right hits that the search hands on. The collection's own vectors are made
    once, before any query comes, and are not counted.
    """
    queries = cloze.HELD_OUT
    scores = similarities(encoder, queries, COLLECTION)
    itself = (queries[:, None] == COLLECTION[None]).all(dim=-1)
    scores = scores.masked_fill(itself, -torch.inf)
    relevant = same_subject(queries, COLLECTION) & ~itself
    candidates = scores.topk(N_CANDIDATES).indices
    pairs = as_pairs(queries.repeat_interleave(N_CANDIDATES, dim=0), COLLECTION[candidates.flatten()])
    logits = reranker(pairs).view(len(queries), N_CANDIDATES, 2)
    best = candidates.gather(1, (logits[..., 1] - logits[..., 0]).topk(n_hits).indices)
    return Search(
        by_vector=relevant.gather(1, candidates[:, :n_hits]).double().mean().item(),
        reranked=relevant.gather(1, best).double().mean().item(),
        candidates_hold=(relevant.gather(1, candidates).sum() / relevant.sum()).item(),
        passes_by_vector=1,
        passes_reranked=1 + N_CANDIDATES,
        passes_of_reading_all=len(COLLECTION),
    )
