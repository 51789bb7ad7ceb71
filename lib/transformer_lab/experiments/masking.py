"""What masks do, measured from outside: who moves when a token changes, what an empty row and a fill are worth."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from transformer_lab.model.attention import attention
from transformer_lab.model.masks import causal_mask, masked_softmax, sliding_window_mask

TOLERANCE = 1e-6

Attend = Callable[[Float[Tensor, "position d_model"]], Float[Tensor, "position d_model"]]


@dataclass(frozen=True)
class LeakTest:
    """How far each output moved when each token was changed.

    ``moved[i, j]`` is the largest difference in output ``i`` after a change of token ``j``.
    """

    name: str
    moved: Float[Tensor, "output changed"]

    @property
    def sees(self) -> Bool[Tensor, "output changed"]:
        """Which token each output really depends on."""
        return self.moved > TOLERANCE

    @property
    def leaks(self) -> int:
        """How many (output, later token) pairs are connected although no output may see ahead."""
        return int(self.sees.triu(1).sum())


def leak_test(attend: Attend, *, name: str = "", n_tokens: int = 5, d_model: int = 4, seed: int = 0) -> LeakTest:
    """Change one token after the other and watch every output. It asks nothing about masks: only outputs count."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n_tokens, d_model, generator=generator)
    before = attend(x)
    columns = []
    for token in range(n_tokens):
        changed = x.clone()
        changed[token] += torch.randn(d_model, generator=generator)
        columns.append((attend(changed) - before).abs().amax(-1))
    return LeakTest(name, torch.stack(columns, dim=-1))


def self_attention(mask: Bool[Tensor, "query key"], *, after_softmax: bool = False) -> Attend:
    """Self-attention without projections under a mask, or with the mask wrongly applied to finished weights."""

    def attend(x: Float[Tensor, "position d_model"]) -> Float[Tensor, "position d_model"]:
        if after_softmax:
            return (x @ x.T / math.sqrt(x.shape[-1])).softmax(-1).masked_fill(~mask, 0.0) @ x
        heads = x[None, None]
        return attention(heads, heads, heads, mask=mask)[0][0, 0]

    return attend


def causal_leaks(n_tokens: int = 5) -> tuple[LeakTest, ...]:
    """The leak test for the right causal mask and for three wrong ones."""
    right = causal_mask(n_tokens)
    masks = {
        "correct": self_attention(right),
        "one step too far": self_attention(torch.ones_like(right).tril(diagonal=1)),
        "inverted": self_attention(~right),
        "after the softmax": self_attention(right, after_softmax=True),
    }
    return tuple(leak_test(attend, name=name, n_tokens=n_tokens) for name, attend in masks.items())


@dataclass(frozen=True)
class EmptyRow:
    """One way to treat a query that may attend to nothing.

    Args:
        weights: the row of weights the query gets.
        value_gradient: gradient of the row's output with respect to each value, one number a key.
        query_gradient, value_projection_gradient: norms of the gradients of the query and the value projection, from
            a loss that reads the *other* rows only.
    """

    policy: str
    weights: Float[Tensor, " key"]
    value_gradient: Float[Tensor, " key"]
    query_gradient: float
    value_projection_gradient: float


def empty_row_policies(seed: int = 0) -> tuple[EmptyRow, ...]:
    """Three queries and keys; the second query may attend to nothing. Four ways to treat it."""
    mask = torch.tensor([[True, False, False], [False, False, False], [True, True, True]])
    lowest = torch.finfo(torch.float32).min
    policies = {
        "add −∞": lambda scores: (scores + torch.zeros(3, 3).masked_fill(~mask, -torch.inf)).softmax(-1),
        "fill with −∞": lambda scores: scores.masked_fill(~mask, -torch.inf).softmax(-1),
        "fill with the lowest number": lambda scores: scores.masked_fill(~mask, lowest).softmax(-1),
        "zeros (ours)": lambda scores: masked_softmax(scores, mask),
    }
    return tuple(_empty_row(policy, softmax, seed) for policy, softmax in policies.items())


def _empty_row(policy: str, softmax: Callable[[Tensor], Tensor], seed: int) -> EmptyRow:
    generator = torch.Generator().manual_seed(seed)
    x, query_projection = torch.randn(3, 2, generator=generator), torch.randn(2, 2, generator=generator)
    projections = query_projection.requires_grad_(), torch.eye(2, requires_grad=True)
    value = x @ projections[1]
    weights = softmax((x @ projections[0]) @ x.T / math.sqrt(2))
    output = weights @ value
    (value_gradient,) = torch.autograd.grad(output[1, 0], value, retain_graph=True)
    gradients = torch.autograd.grad(output[[0, 2]].pow(2).sum(), projections)
    return EmptyRow(policy, weights[1].detach(), value_gradient[:, 0], *(float(each.norm()) for each in gradients))


def future_share(fill: float, future_score: float) -> float:
    """Weight that a query gives to a forbidden key: its own key scores 0, the forbidden one ``future_score + fill``."""
    return float(torch.tensor([0.0, future_score + fill]).softmax(-1)[1])


@dataclass(frozen=True)
class PaintedMask:
    """A mask over the end of a short sentence, and the row that is read out."""

    mask: Bool[Tensor, "query key"]
    query_tokens: tuple[str, ...]
    key_tokens: tuple[str, ...]
    row: int

    @property
    def empty_rows(self) -> int:
        """How many queries may attend to nothing."""
        return int((~self.mask.any(-1)).sum())


WORDS = ("The", "cat", "sat", "on", "the", "mat", "and", "slept")


def paint_mask(
    causal: bool, window: int, real_tokens: int, n_query: int, row: int, alignment: str = "bottom right"
) -> PaintedMask:
    """Combine the masks of the mask painter over eight tokens, of which the last ``n_query`` ask.

    Args:
        causal: nothing ahead is seen.
        window: only the nearest ``window`` keys are seen, the query's own included; ``0`` switches it off.
        real_tokens: this many tokens are words; the rest is padding, and no query sees it.
        n_query: how many queries, as in decoding with a cache.
        row: the query to read out, counted from 0.
        alignment: which corner the causal triangle and the window sit in when there are fewer queries than keys;
            ``"top left"`` is what torch's ``is_causal`` does.

    Raises:
        ValueError: a number outside its range, or another alignment.
    """
    n_key = len(WORDS)
    limits = (("window", window, 0, n_key), ("real_tokens", real_tokens, 0, n_key), ("n_query", n_query, 1, n_key),
              ("row", row, 0, n_query - 1))  # fmt: skip
    for name, value, low, high in limits:
        if not low <= value <= high:
            raise ValueError(f"{name} is {value}; it must lie between {low} and {high}.")
    if alignment not in ("bottom right", "top left"):
        raise ValueError(f"alignment is {alignment!r}; it must be 'bottom right' or 'top left'.")
    whole = torch.ones(n_key, n_key, dtype=torch.bool)
    if causal:
        whole &= causal_mask(n_key)
    if window:
        near = sliding_window_mask(n_key, window=window)
        whole &= near | near.T  # the window alone looks both ways; the causal mask takes the future away
    mask = whole[-n_query:] if alignment == "bottom right" else whole[:n_query]
    mask = mask & (torch.arange(n_key) < real_tokens)
    tokens = tuple(word if place < real_tokens else "pad" for place, word in enumerate(WORDS))
    return PaintedMask(mask, tokens[-n_query:], tokens, row)
