"""Lesson 07: the loop that lets an encoder–decoder write, always its likeliest next token."""

from itertools import count

import torch
from torch import Tensor

from transformer_lab.practice.checking import Case, FunctionExercise, Mistake, Output, seeded
from transformer_lab.practice.feedback import Feedback
from transformer_lab.practice.running import Limited, attempt, copies

_VOCAB, _ROWS = 9, 61


class Encoder:
    """A stand-in for an encoder: ``encode(source)`` gives a memory that depends on every source token and its place."""

    def __init__(self, step: int) -> None:
        self._step, self.calls = step, 0

    def __call__(self, source: Tensor) -> Tensor:
        self.calls += 1
        return source.double() + torch.arange(len(source)) * self._step / 2


class Decoder:
    """A stand-in for a decoder: logits (position, vocab) that depend on the memory and all tokens up to a place.

    Every place of the memory and every token counts with a factor of its own, so that their order matters.
    """

    def __init__(self, seed: int) -> None:
        self._table = seeded(_ROWS, _VOCAB, seed=seed)

    def __call__(self, tokens: Tensor, memory: Tensor) -> Tensor:
        if memory.dtype != torch.float64:
            raise TypeError("memory must be what encode(source) returned")
        tokens = torch.as_tensor(tokens).reshape(-1)
        turns = 3 * torch.arange(len(tokens)) + 1
        states = (tokens * turns).cumsum(0) + int((memory * (2 * torch.arange(len(memory)) + 2)).sum())
        return self._table[states % _ROWS]


def greedy_with_faults(
    encode: Encoder,
    decode: Decoder,
    source: Tensor,
    start: int,
    end: int,
    max_tokens: int,
    *,
    begins: str = "start",
    feeds: str = "all",
    reads: str = "last",
    stops: str = "at end or limit",
    returns: str = "new",
    extra: int = 0,
    drops: str = "all",
) -> Tensor:
    """The token ids written between ``start`` and ``end``, at most ``max_tokens``, with a switch for each fault.

    ``drops`` says how much of what was fed first is left out of the answer when that was the source.
    """
    memory = encode(source)
    first = {"start": [start], "source": source.tolist(), "end": [end]}[begins]
    tokens, new = list(first), []
    for _ in count() if stops == "at end" else range(max_tokens + extra):
        fed = {"all": tokens, "last": tokens[-1:], "first": first, "newest first": tokens[::-1]}[feeds]
        logits = decode(torch.tensor(fed), memory)
        scores = {"last": logits[-1], "all": logits, "sum": logits.sum(0), "least": -logits[-1]}[reads]
        token = int(scores.argmax())
        if token == end and stops != "at limit":
            if returns == "with end":
                new.append(token)
            break
        tokens.append(token)
        new.append(token)
    if returns == "with start":
        return torch.tensor([*first, *new])
    return torch.tensor(new if begins != "source" or drops == "all" else [*first[1:], *new])


def _case(label: str, seed: int, source: list[int], start: int, end: int, max_tokens: int, step: int = 1) -> Case:
    return Case(
        label,
        {
            "encode": Encoder(step), "decode": Limited(Decoder(seed), 3 * max_tokens + 10),
            "source": torch.tensor(source), "start": start, "end": end, "max_tokens": max_tokens,
        },
    )  # fmt: skip


# What torch says of several numbers where the loop wants one.
_SEVERAL = (
    "Boolean value of Tensor with more than one value",
    "cannot be converted to Scalar",
    "only one element tensors can be converted",
)


class _GreedyTranslation(FunctionExercise):
    """Says two things more, which the tokens do not show: that it encodes too often, and why a choice is no number."""

    def judge(self, answer: object) -> Feedback:
        feedback = super().judge(answer)
        if any(words in message for message in feedback.messages for words in _SEVERAL):
            return feedback.with_message(
                "Did you take the argmax of *all* rows? Only the last one is about the next token: "
                "`logits[-1].argmax()`."
            )
        if feedback.status != "right":
            return feedback
        inputs = copies(self.built_cases[0].inputs)
        attempt(answer, lambda: answer(*inputs.values()))
        n = inputs["encode"].calls
        return feedback.with_message(
            f"But the encoder ran {n} times for one sentence. The source does not change: encode once, before the loop."
            if n > 1 else None
        )  # fmt: skip


GREEDY_TRANSLATION = _GreedyTranslation(
    name="greedy_translation",
    title="A greedy loop that writes from the source, token by token.",
    reference=greedy_with_faults,
    cases=lambda: (
        _case("five source tokens", 26, [4, 7, 3, 5, 8], start=1, end=2, max_tokens=12),
        _case("the same decoder, another source", 26, [6, 3], start=1, end=2, max_tokens=12),
        _case("a sentence that never ends in time", 0, [5, 5, 3], start=0, end=8, max_tokens=4, step=2),
        _case("one source token", 0, [8], start=4, end=0, max_tokens=10, step=3),
    ),
    outputs=(Output("token ids", ("step",)),),
    spellings=({}, {"drops": "one"}),
    mistakes=(
        Mistake(
            {"begins": "source"},
            "The source is fed to the decoder",
            "The decoder reads what it has *written*, from `start` on. The source reaches it through the memory alone.",
        ),
        Mistake(
            {"begins": "end"},
            "The decoder begins with `end`",
            "The first token it reads is `start`.",
        ),
        Mistake(
            {"feeds": "first"},
            "Every step reads the same prediction",
            "Either the new token is not appended to what the decoder reads, or you always take `logits[0]`. Append it "
            "and read the *last* row, `logits[-1]`.",
        ),
        Mistake(
            {"feeds": "last"},
            "Only the newest token is fed",
            "This decoder keeps no cache, so it has forgotten everything before. Feed all tokens written so far.",
        ),
        Mistake(
            {"feeds": "newest first"},
            "The tokens are fed in reverse order",
            "Append the new token at the end; the decoder reads from left to right.",
        ),
        Mistake(
            {"reads": "all"},
            "The argmax runs over all positions at once",
            "Without an axis `argmax` counts through the whole (position, vocab) table. The next token is predicted in "
            "the last row: `logits[-1].argmax()`.",
        ),
        Mistake(
            {"reads": "sum"},
            "The logits of all positions are added up",
            "Each row predicts the token after *its* place. Only the last row is about the next one.",
        ),
        Mistake(
            {"reads": "least"},
            "The least likely token is taken",
            "The largest logit is the likeliest token: `argmax`.",
        ),
        Mistake(
            {"stops": "at limit"},
            "It does not stop at `end`",
            "When the new token is `end`, the sentence is finished: leave the loop.",
        ),
        Mistake(
            # The other settings are the right ones: with them wrong too, the loop may never end at all.
            {"stops": "at end", "begins": "start", "feeds": "all", "reads": "last", "extra": 0},
            "The loop ignores max_tokens",
            "A decoder may never come to `end`, and then your loop goes on and on: the check stopped it. Count the new "
            "tokens too: `for _ in range(max_tokens)`, and `break` at `end`.",
        ),
        Mistake(
            {"returns": "with end"},
            "The answer still holds `end`",
            "`end` says that the sentence is over; it is no word of it. Leave it out.",
        ),
        Mistake(
            {"returns": "with start"},
            "The answer still holds what was fed first",
            "The decoder did not write that token. Return only the new ones.",
        ),
        Mistake(
            {"extra": 1},
            "One token too many is written",
            "At most `max_tokens` new tokens; `start` is not one of them. `range(max_tokens)`.",
        ),
        Mistake(
            {"extra": -1},
            "One token too few is written",
            "Where the limit comes before `end`, one is missing. Either the loop stops a step early (`start` does not "
            "count: `max_tokens` *new* tokens are allowed), or you cut off the last token as if it were `end`.",
        ),
    ),
)
