"""Lesson 07's exercises: each mistake of a learner, written as a learner writes it, gets its own feedback."""

import math
from itertools import count

import pytest
import torch

from mistakes import assert_all_differ, assert_named, each_mistake
from transformer_lab.practice import check
from transformer_lab.practice.exercises.cross_attention import CROSS_ATTENTION
from transformer_lab.practice.exercises.greedy_translation import GREEDY_TRANSLATION

INFINITY = torch.inf
EXERCISES = {"cross": CROSS_ATTENTION, "greedy": GREEDY_TRANSLATION}
CHECKS = {"cross": check.cross_attention, "greedy": check.greedy_translation}


@pytest.fixture(autouse=True)
def own_progress(tmp_path, monkeypatch):
    monkeypatch.setenv("TRANSFORMER_LAB_PROGRESS", str(tmp_path))


# ------------------------------------------------------------------ right answers, in the spellings learners use


def cross_in_lines(target, memory, W_Q, W_K, W_V, source_real):
    query, key, value = target @ W_Q, memory @ W_K, memory @ W_V
    scores = query @ key.transpose(-2, -1) / math.sqrt(W_Q.shape[1])
    return scores.masked_fill(~source_real[:, None], -1e9).softmax(-1) @ value


def cross_by_torch(target, memory, W_Q, W_K, W_V, source_real):
    return torch.nn.functional.scaled_dot_product_attention(
        target @ W_Q, memory @ W_K, memory @ W_V, attn_mask=source_real[:, None, :].expand(-1, target.shape[1], -1)
    )


def cross_by_loops(target, memory, W_Q, W_K, W_V, source_real):
    rows = []
    for sentence in range(len(target)):
        real = memory[sentence][source_real[sentence]]
        scores = (target[sentence] @ W_Q) @ (real @ W_K).T / W_K.shape[1] ** 0.5
        rows.append(scores.softmax(1) @ (real @ W_V))
    return torch.stack(rows)


def greedy_with_a_list(encode, decode, source, start, end, max_tokens):
    memory, tokens = encode(source), [start]
    for _ in range(max_tokens):
        token = decode(torch.tensor(tokens), memory)[-1].argmax().item()
        if token == end:
            break
        tokens.append(token)
    return torch.tensor(tokens[1:])


def greedy_with_cat(encode, decode, source, start, end, max_tokens):
    memory, tokens = encode(source), torch.tensor([start])
    while len(tokens) <= max_tokens:
        token = decode(tokens, memory)[-1:].argmax(-1)
        if token == end:
            return tokens[1:]
        tokens = torch.cat([tokens, token])
    return tokens[1:]


def greedy_cut_afterwards(encode, decode, source, start, end, max_tokens):
    memory, tokens = encode(source), torch.tensor([start])
    for _ in range(max_tokens):
        tokens = torch.cat((tokens, decode(tokens, memory)[-1].softmax(-1).argmax()[None]))
    written = tokens[1:].tolist()
    return torch.tensor(written[: written.index(end)] if end in written else written)


RIGHT = {
    "cross": (cross_in_lines, cross_by_torch, cross_by_loops),
    "greedy": (greedy_with_a_list, greedy_with_cat, greedy_cut_afterwards),
}


@pytest.mark.parametrize(("name", "answer"), [(name, answer) for name, each in RIGHT.items() for answer in each])
def test_right_answers_pass_in_every_spelling(name, answer):
    feedback = CHECKS[name](answer)
    assert feedback.status == "right", feedback


def test_the_cases_are_the_deliberate_ones():
    cross = [case.inputs for case in CROSS_ATTENTION.built_cases]
    sizes = [(*each["target"].shape[:2], each["memory"].shape[1]) for each in cross]
    assert any(batch == target == source for batch, target, source in sizes)
    assert any(target > source for _, target, source in sizes) and any(target == 1 for _, target, _ in sizes)
    assert all(each["source_real"].any(-1).all() and not each["source_real"].all() for each in cross)
    lengths = [len(answer) for answer in GREEDY_TRANSLATION.expected]
    most = [case.inputs["max_tokens"] for case in GREEDY_TRANSLATION.built_cases]
    assert sum(length == limit for length, limit in zip(lengths, most, strict=True)) == 1  # one never ends
    assert min(lengths) > 0 and len(set(lengths)) == len(lengths)


# --------------------------------------------- wrong answers, one step each, so that any two can be put together


def cross(
    ask=lambda t, m: t,
    key_from=lambda t, m: m,
    value_from=lambda t, m: m,
    weights=lambda q, k, v: (q, k, v),
    scale=lambda q, w: q.shape[-1] ** 0.5,
    forbid=lambda s, real: s.masked_fill(~real[:, None, :], -INFINITY),
    axis=-1,
    after=lambda w, real: w,
    read=lambda m, real: m,
    turn=lambda k: k.mT,
):
    def my_cross_attention(target, memory, W_Q, W_K, W_V, source_real):
        for_query, for_key, for_value = weights(W_Q, W_K, W_V)
        memory = read(memory, source_real)
        query = ask(target, memory) @ for_query
        scores = query @ turn(key_from(target, memory) @ for_key) / scale(query, W_Q)
        shares = after(forbid(scores, source_real).softmax(axis), source_real)
        return shares @ (value_from(target, memory) @ for_value)

    return my_cross_attention


def triangle(scores):
    return torch.ones(scores.shape[-2:], dtype=torch.bool).tril()


def greedy(
    begin=lambda start, end, source: [start],
    feed=lambda tokens, first: tokens,
    read=lambda logits: logits[-1],
    stop=True,
    give=lambda first, new, ended: new,
    most=0,
    steps=range,
):
    def my_translation(encode, decode, source, start, end, max_tokens):
        memory, first, new, ended = encode(source), begin(start, end, source), [], []
        for _ in steps(max_tokens + most):
            token = int(read(decode(torch.tensor(feed(first + new, first)), memory)).argmax())
            if stop and token == end:
                ended = [end]
                break
            new.append(token)
        return torch.tensor(give(first, new, ended))

    return my_translation


# name: (a part of its title, the steps it gets wrong). The curriculum's come first in each.
WRONG = {
    "cross": {
        "keys": ("keys come from the decoder", {"key_from": lambda t, m: t}),
        "values": ("values come from the decoder", {"value_from": lambda t, m: t}),
        "both": ("self-attention", {"key_from": lambda t, m: t, "value_from": lambda t, m: t}),
        "causal": ("target's causal mask", {"forbid": lambda s, real: s.masked_fill(~triangle(s), -INFINITY)}),
        "no pads": ("pads of the source are read", {"forbid": lambda s, real: s}),
        "causal too": (
            "besides the pads",
            {"forbid": lambda s, real: s.masked_fill(~(real[:, None] & triangle(s)), -INFINITY)},
        ),
        "queries": ("queries come from the encoder", {"ask": lambda t, m: m}),
        "sides": (
            "changed places",
            {"ask": lambda t, m: m, "key_from": lambda t, m: t, "value_from": lambda t, m: t},
        ),
        "inverted": ("inverted", {"forbid": lambda s, real: s.masked_fill(real[:, None], -INFINITY)}),
        "rows": ("on the queries", {"forbid": lambda s, real: s.masked_fill(~real[:, :, None], -INFINITY)}),
        "no axis": ("meets the target tokens", {"forbid": lambda s, real: s.masked_fill(~real, -INFINITY)}),
        "late mask": (
            "after the softmax",
            {"forbid": lambda s, real: s, "after": lambda w, real: w * real[:, None]},
        ),
        "pads of 0": ("set to 0", {"read": lambda m, real: m * real[..., None], "forbid": lambda s, real: s}),
        "fill 0": ("filled with 0", {"forbid": lambda s, real: s.masked_fill(~real[:, None], 0.0)}),
        "fill 1e9": ("highest score", {"forbid": lambda s, real: s.masked_fill(~real[:, None], 1e9)}),
        "view": ("reshaped", {"turn": lambda k: k.reshape(len(k), k.shape[2], k.shape[1])}),
        "Q and K": ("W_Q and W_K", {"weights": lambda q, k, v: (k, q, v)}),
        "K and V": ("W_K and W_V", {"weights": lambda q, k, v: (q, v, k)}),
        "Q and V": ("W_Q and W_V", {"weights": lambda q, k, v: (v, k, q)}),
        "no W_V": ("without W_V", {"weights": lambda q, k, v: (q, k, torch.eye(len(v)))}),
        "no scale": ("not divided", {"scale": lambda q, w: 1.0}),
        "d_k": ("not by its root", {"scale": lambda q, w: q.shape[-1]}),
        "d_model": ("by √d_model", {"scale": lambda q, w: len(w) ** 0.5}),
        "columns": ("over the target", {"axis": -2}),
        "batch": ("over the batch", {"axis": 0}),
    },
    "greedy": {
        "source": ("source is fed", {"begin": lambda start, end, source: source.tolist()}),
        "no append": ("same prediction", {"feed": lambda tokens, first: first}),
        "no stop": ("does not stop", {"stop": False}),
        "begins with end": ("begins with `end`", {"begin": lambda start, end, source: [end]}),
        "newest": ("newest token", {"feed": lambda tokens, first: tokens[-1:]}),
        "reverse": ("reverse order", {"feed": lambda tokens, first: tokens[::-1]}),
        "all": ("over all positions", {"read": lambda logits: logits}),
        "sum": ("added up", {"read": lambda logits: logits.sum(0)}),
        "least": ("least likely", {"read": lambda logits: -logits[-1]}),
        "with end": ("still holds `end`", {"give": lambda first, new, ended: new + ended}),
        "with start": ("was fed first", {"give": lambda first, new, ended: first + new}),
        "too many": ("too many", {"most": 1}),
        "too few": ("too few", {"most": -1}),
        "no limit": ("ignores max_tokens", {"steps": count}),
    },
}
BUILD = {"cross": cross, "greedy": greedy}


@pytest.mark.parametrize(("name", "mistake"), each_mistake(WRONG))
def test_each_known_mistake_is_named(name, mistake):
    title, wrong = WRONG[name][mistake]
    assert_named(CHECKS[name](BUILD[name](**wrong)), title)


@pytest.mark.parametrize("name", WRONG)
def test_every_mistake_has_feedback_of_its_own(name):
    said = [CHECKS[name](BUILD[name](**wrong)) for _, wrong in WRONG[name].values()]
    assert_all_differ(said)
    assert len(said) == len(EXERCISES[name].mistakes)


@pytest.mark.parametrize(
    ("answer", "title"),
    [
        (greedy(read=lambda logits: logits[0]), "same prediction"),  # reading the first row ends in the same tokens
        (
            greedy(
                begin=lambda start, end, source: source.tolist(),
                give=lambda first, new, ended: (first + new)[1:],
            ),
            "source is fed",
        ),
    ],
)
def test_a_mistake_is_named_in_its_other_spellings(answer, title):
    assert title in check.greedy_translation(answer).title


@pytest.mark.parametrize(("first", "second"), [("values", "no pads"), ("keys", "no scale"), ("columns", "Q and K")])
def test_two_mistakes_at_once_are_both_named(first, second):
    (title_1, wrong_1), (title_2, wrong_2) = WRONG["cross"][first], WRONG["cross"][second]
    feedback = check.cross_attention(cross(**wrong_1 | wrong_2))
    said = " ".join(feedback.messages)
    assert feedback.title == "Two things to repair" and title_1 in said and title_2 in said


def test_an_unplanned_mistake_gets_the_first_difference():
    def my_cross_attention(target, memory, W_Q, W_K, W_V, source_real):
        return cross_in_lines(target, memory, W_Q, W_K, W_V, source_real) * 1.01

    feedback = check.cross_attention(my_cross_attention)
    assert "First difference at" in feedback.messages[0], feedback


@pytest.mark.parametrize(
    ("answer", "title"),
    [
        (cross(forbid=lambda s, real: s.masked_fill(~real[:, None], 1e-9)), "filled with 0"),
        (cross(turn=lambda k: k.reshape(len(k), k.shape[2], k.shape[1]), scale=lambda q, w: 1.0), "Two things"),
    ],
)
def test_a_fault_of_cross_attention_is_named_in_its_other_spellings(answer, title):
    assert title in check.cross_attention(answer).title


def loops_until_the_end(encode, decode, source, start, end, max_tokens):
    memory, tokens = encode(source), [start]
    while tokens[-1] != end:
        tokens.append(int(decode(torch.tensor(tokens), memory)[-1].argmax()))
    return torch.tensor(tokens[1:-1])


def loops_thousands_of_times(encode, decode, source, start, end, max_tokens):
    memory, tokens = encode(source), [start]
    while tokens[-1] != end and len(tokens) < 10_000:
        tokens.append(int(decode(torch.tensor(tokens), memory)[-1].argmax()))
    return torch.tensor(tokens[1:-1])


def loops_and_keeps_the_end(encode, decode, source, start, end, max_tokens):
    memory, tokens = encode(source), [start]
    while tokens[-1] != end:
        tokens.append(int(decode(torch.tensor(tokens), memory)[-1].argmax()))
    return torch.tensor(tokens[1:])


def never_appends(encode, decode, source, start, end, max_tokens):
    memory, token = encode(source), start
    while token != end or source is None:
        token = int(decode(torch.tensor([start]), memory)[-1].argmax())
    return torch.tensor([token])


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (loops_until_the_end, "The loop ignores max_tokens"),
        (loops_thousands_of_times, "The loop ignores max_tokens"),
        (loops_and_keeps_the_end, "The loop ignores max_tokens. "),
        (never_appends, "The loop in `never_appends` does not end"),
    ],
)
def test_a_loop_without_a_limit_is_stopped_and_named(answer, words):
    feedback = check.greedy_translation(answer)
    assert feedback.status == "wrong" and words in " ".join((feedback.title, *feedback.messages)), feedback


@pytest.mark.parametrize(
    "answer",
    [
        lambda encode, decode, source, *rest: greedy_with_a_list(encode, decode, source.flip(0), *rest),
        lambda encode, decode, source, *rest: greedy_with_a_list(encode, decode, source.sort().values, *rest),
        lambda encode, decode, source, start, end, most: greedy_with_a_list(encode, decode, source, 1, end, most),
        lambda encode, decode, source, start, end, most: greedy_with_a_list(encode, decode, source, start, 2, most),
        lambda encode, decode, source, start, end, most: greedy_with_a_list(encode, decode, source, start, end, 12),
        lambda encode, decode, *rest: greedy_with_a_list(
            encode, lambda tokens, memory: decode(tokens, memory.flip(0)), *rest
        ),
    ],
)
def test_the_order_of_the_source_and_every_number_count(answer):
    assert check.greedy_translation(answer).status == "wrong"


def test_encoding_at_every_step_is_right_and_told():
    def my_translation(encode, decode, source, start, end, max_tokens):
        tokens = [start]
        while len(tokens) <= max_tokens:
            token = decode(torch.tensor(tokens), encode(source))[-1].argmax().item()
            if token == end:
                break
            tokens.append(token)
        return torch.tensor(tokens[1:])

    feedback = check.greedy_translation(my_translation)
    n_steps = len(GREEDY_TRANSLATION.expected[0]) + 1  # and one for end
    assert feedback.status == "right" and f"the encoder ran {n_steps} times" in feedback.messages[-1]
    assert not any("encoder ran" in message for message in check.greedy_translation(greedy_with_a_list).messages)


@pytest.mark.parametrize("take", [lambda token: token, lambda token: token.item(), int])
def test_an_argmax_of_every_row_is_told_why_it_is_no_number(take):
    def my_translation(encode, decode, source, start, end, max_tokens):
        memory, tokens = encode(source), [start]
        for _ in range(max_tokens):
            token = take(decode(torch.tensor(tokens), memory).argmax(-1))
            if token == end:
                break
            tokens.append(token)
        return torch.tensor(tokens[1:])

    feedback = check.greedy_translation(my_translation)
    assert feedback.status == "wrong" and "Did you take the argmax of *all* rows?" in feedback.messages[-1], feedback


@pytest.mark.parametrize("pads", ["weights", "values"])
def test_pads_set_to_0_too_late_are_told_apart_from_a_mask(pads):
    def my_cross_attention(target, memory, W_Q, W_K, W_V, source_real):
        weights = (target @ W_Q @ (memory @ W_K).mT / W_Q.shape[1] ** 0.5).softmax(-1)
        if pads == "weights":
            return weights * source_real[:, None] @ (memory @ W_V)
        return weights @ (memory @ W_V * source_real[..., None])

    feedback = check.cross_attention(my_cross_attention)
    assert "after the softmax" in feedback.title and "or their values, are set to 0" in feedback.messages[0]


def test_the_last_token_cut_off_always_and_a_list_are_told():
    def cuts_the_last(encode, decode, source, start, end, max_tokens):
        memory, tokens = encode(source), torch.tensor([start])
        while tokens[-1] != end and len(tokens) <= max_tokens:
            tokens = torch.cat([tokens, decode(tokens, memory)[-1:].argmax(-1)])
        return tokens[1:-1]

    assert "you cut off the last token as if it were `end`" in check.greedy_translation(cuts_the_last).messages[0]
    feedback = check.greedy_translation(lambda *inputs: greedy_with_a_list(*inputs).tolist())
    assert "`torch.tensor(…)` makes a tensor" in feedback.messages[0]


def test_a_source_given_as_memory_is_said_in_words():
    def my_translation(encode, decode, source, start, end, max_tokens):
        return decode(torch.tensor([start]), source)[-1].argmax()[None]

    assert "memory must be what encode(source) returned" in " ".join(check.greedy_translation(my_translation).messages)


@pytest.mark.parametrize("name", CHECKS)
def test_an_untouched_stub_is_not_attempted(name):
    def cross_stub(target, memory, W_Q, W_K, W_V, source_real):
        ...

    def greedy_stub(encode, decode, source, start, end, max_tokens):
        ...

    assert CHECKS[name]({"cross": cross_stub, "greedy": greedy_stub}[name]).status == "not attempted"
