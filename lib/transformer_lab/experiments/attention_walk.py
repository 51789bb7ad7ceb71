"""One sentence through one head of attention, with every step kept to look at."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from transformer_lab.model.attention import attention
from transformer_lab.model.masks import causal_mask
from transformer_lab.tasks import words

STEPS = ("scores", "scaled", "masked", "weights", "mixed")
MASKS = ("none", "causal")
HAND_SET = 4


@dataclass(frozen=True)
class AttentionWalk:
    """Every step of one attention, and which row, column and step the learner looks at."""

    tokens: tuple[str, ...]
    parts: tuple[str, ...]
    query: Float[Tensor, "position d_k"]
    key: Float[Tensor, "position d_k"]
    value: Float[Tensor, "position d_v"]
    scores: Float[Tensor, "query key"]
    scaled: Float[Tensor, "query key"]
    allowed: Bool[Tensor, "query key"]
    weights: Float[Tensor, "query key"]
    output: Float[Tensor, "query d_v"]
    divisor: float
    query_index: int
    key_index: int
    step: str

    @property
    def hand_set(self) -> bool:
        """Whether queries and keys are the readable ones, not random ones."""
        return self.query.shape[-1] == HAND_SET

    @property
    def names(self) -> tuple[str, ...]:
        """The tokens, and a word that stands in several places with its place: 2 bank."""
        words = [token.lower() for token in self.tokens]
        return tuple(f"{i + 1} {token}" if words.count(words[i]) > 1 else token for i, token in enumerate(self.tokens))

    @property
    def finding(self) -> str:
        """The chosen step in one line: what the chosen query matches best, may read, or takes."""
        asking, n = f"“{self.names[self.query_index]}”", len(self.tokens)
        if self.step == "masked":
            readable = int(self.allowed[self.query_index].sum())
            return f"{asking} may read {f'all {n}' if readable == n else f'{readable} of {n}'} words"
        shown = {"scores": self.scores, "scaled": self.scaled}.get(self.step, self.weights)
        best, names = _winners(self, shown[self.query_index])
        if self.step in ("scores", "scaled"):
            divided = f" after ÷ {self.divisor:.3g}" if self.step == "scaled" else ""
            return f"{asking} matches {names} best{divided}: {best}"
        return f"{asking} puts {best} on {names}" if self.step == "weights" else f"{asking} takes {best} from {names}"


def walk_attention(
    sentence: str,
    query: int = 0,
    key: int = 0,
    step: str = "mixed",
    mask: str = "none",
    temperature: float = 1.0,
    d_k: int = HAND_SET,
    scale: bool = True,
) -> AttentionWalk:
    """softmax(Q Kᵀ / (√d_k · temperature)) V for a sentence of known words; `attention` gives weights and output.

    Args:
        query, key: positions to look at.
        step: how far to walk, one of ``STEPS``.
        mask: ``"none"`` or ``"causal"``.
        d_k: 4 for the hand-set queries and keys; any other width draws random ones of unit variance, as in a model
            that nobody has trained. The values stay hand-set.
        scale: whether to divide by √d_k.

    Raises:
        ValueError: a sentence that cannot be read, a position outside it, an unknown step or mask, a temperature
            or d_k that is not positive.
    """
    tokens = words.tokenize(sentence)
    for name, position in (("query", query), ("key", key)):
        if not 0 <= position < len(tokens):
            raise ValueError(f"{name} is position {position}, but the sentence has {len(tokens)} words.")
    for name, choice, options in (("step", step, STEPS), ("mask", mask, MASKS)):
        if choice not in options:
            raise ValueError(f"{name} is {choice!r}; choose one of {', '.join(options)}.")
    if not (temperature > 0 and math.isfinite(temperature)):
        raise ValueError(f"temperature is {temperature}; it divides the scores, so it must be above 0.")
    if d_k < 1:
        raise ValueError(f"d_k is {d_k}; it must be at least 1.")

    W_Q, W_K, W_V = words.projections()
    X = words.embed(tokens)
    Q, K = (X @ W_Q, X @ W_K) if d_k == HAND_SET else _untrained(tokens, d_k)
    V = X @ W_V
    divisor = (math.sqrt(d_k) if scale else 1.0) * temperature
    scores = Q @ K.mT
    allowed = causal_mask(len(tokens)) if mask == "causal" else torch.ones(scores.shape, dtype=torch.bool)
    # attention() always divides by √d_k; a query made larger beforehand gives any other divisor.
    output, weights = attention(
        (Q * (math.sqrt(d_k) / divisor))[None, None], K[None, None], V[None, None], mask=allowed, need_weights=True
    )
    return AttentionWalk(
        tokens=tokens,
        parts=words.PARTS,
        query=Q,
        key=K,
        value=V,
        scores=scores,
        scaled=scores / divisor,
        allowed=allowed,
        weights=weights[0, 0],
        output=output[0, 0],
        divisor=divisor,
        query_index=query,
        key_index=key,
        step=step,
    )


def _untrained(
    tokens: tuple[str, ...], d_k: int, seed: int = 0
) -> tuple[Float[Tensor, "position d_k"], Float[Tensor, "position d_k"]]:
    """Random queries and keys; a word has the same ones wherever it stands."""
    generator = torch.Generator().manual_seed(seed)
    tables = torch.randn(2, len(words.WORDS), d_k, generator=generator)
    names = list(words.WORDS)
    rows = [names.index(token.lower()) for token in tokens]
    return tables[0, rows], tables[1, rows]


def _winners(walk: AttentionWalk, row: Float[Tensor, " key"]) -> tuple[str, str]:
    """The largest number of a row, and the words that hold it, to the digits that are shown."""
    best = row.max()
    places = [place for place, number in enumerate(row) if best - number < 5e-3]
    shown = f"{round(best.item(), 2) + 0.0:.2f}".replace("-", "−")  # + 0.0: no zero with a sign
    if len(places) == 1:
        return shown, f"“{walk.names[places[0]]}”"
    if len(places) > 2:
        return f"{shown} each", f"{len(places)} words"
    first, second = places
    if walk.tokens[first].lower() == walk.tokens[second].lower():
        return f"{shown} each", f"“{walk.tokens[first]}” ({first + 1} and {second + 1})"
    return f"{shown} each", f"“{walk.names[first]}” and “{walk.names[second]}”"
