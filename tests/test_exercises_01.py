"""Lesson 01's exercises: each mistake of a learner, written as a learner writes it, gets its own feedback."""
import pytest
import torch

from transformer_lab.practice import check

tanh, sigmoid = torch.tanh, torch.sigmoid


@pytest.fixture(autouse=True)
def own_progress(tmp_path, monkeypatch):
    monkeypatch.setenv("TRANSFORMER_LAB_PROGRESS", str(tmp_path))


# ------------------------------------------------------------------------------------------- one RNN step


def rnn_as_told(x, hidden, W, U, bias):
    return tanh(x @ W + hidden @ U + bias)


def rnn_by_concatenation(x, hidden, W, U, bias):
    return tanh(torch.cat([x, hidden], dim=1) @ torch.cat([W, U]) + bias)


@pytest.mark.parametrize("answer", [rnn_as_told, rnn_by_concatenation])
def test_a_right_rnn_step_passes(answer):
    assert check.rnn_step(answer).status == "right"


RNN_WRONG = {
    "no tanh": lambda x, h, W, U, b: x @ W + h @ U + b,
    "σ where tanh": lambda x, h, W, U, b: sigmoid(x @ W + h @ U + b),
    "old state is not read": lambda x, h, W, U, b: tanh(x @ W + b),
    "input is not read": lambda x, h, W, U, b: tanh(h @ U + b),
    "multiplied": lambda x, h, W, U, b: tanh((x @ W) * (h @ U) + b),
    "swapped": lambda x, h, W, U, b: tanh(x @ U + h @ W + b),
    "bias is missing": lambda x, h, W, U, b: tanh(x @ W + h @ U),
    "bias stands outside": lambda x, h, W, U, b: b + torch.tanh(torch.matmul(x, W) + torch.matmul(h, U)),
    "W is transposed": lambda x, h, W, U, b: tanh(torch.einsum("bi,ui->bu", x, W) + h @ U + b),
    "U is transposed": lambda x, h, W, U, b: tanh(x @ W + torch.einsum("bv,uv->bu", h, U) + b),
}


@pytest.mark.parametrize("title", RNN_WRONG)
def test_a_wrong_rnn_step_is_named(title):
    feedback = check.rnn_step(RNN_WRONG[title])
    assert feedback.status == "wrong" and title in feedback.title, feedback


def test_torchs_habit_of_transposing_both_is_named_twice():
    feedback = check.rnn_step(lambda x, h, W, U, b: tanh(torch.nn.functional.linear(x, W, b) + h @ U.T))
    assert feedback.status == "wrong" and "W is transposed" in str(feedback) and "U is transposed" in str(feedback)


# ------------------------------------------------------------------------------------------ one LSTM step


def lstm(
    x, h, c, W, U, b, *, order="ifgo", show=tanh, total=lambda x, h, W, U, b: x @ W + h @ U + b,
    store=lambda f, c, i, g: f * c + i * g, write=tanh, gate=lambda o, shown: o * shown,
):  # fmt: skip
    """An LSTM step with exchangeable pieces, written apart from the one that the check uses."""
    d = h.shape[1]
    blocks = {name: total(x, h, W, U, b)[:, n * d : (n + 1) * d] for n, name in enumerate(order)}
    cell = store(sigmoid(blocks["f"]), c, sigmoid(blocks["i"]), write(blocks["g"]))
    return gate(sigmoid(blocks["o"]), show(cell)), cell


def test_a_right_lstm_step_passes():
    assert check.lstm_step(lambda x, h, c, W, U, b: lstm(x, h, c, W, U, b)).status == "right"
    assert check.lstm_step(lambda x, h, c, W, U, b: list(lstm(x, h, c, W, U, b))).status == "right"


LSTM_WRONG = {
    "Forget gate and input gate are swapped": {"order": "figo"},
    "no tanh on the exposed cell": {"show": lambda cell: cell},
    "look at the old state alone": {"total": lambda x, h, W, U, b: h @ U + b},
    "look at the input alone": {"total": lambda x, h, W, U, b: x @ W + b},
    "overwritten instead of added to": {"store": lambda f, c, i, g: i * g},
    "forget gate does nothing": {"store": lambda f, c, i, g: c + i * g},
    "candidate goes through σ": {"write": sigmoid},
    "no tanh on the candidate": {"write": lambda block: block},
    "Candidate and output gate are mixed up": {"order": "ifog"},
    "The bias is missing": {"total": lambda x, h, W, U, b: x @ W + h @ U},
    "output gate is missing": {"gate": lambda o, shown: shown},
}


@pytest.mark.parametrize("title", LSTM_WRONG)
def test_a_wrong_lstm_step_is_named(title):
    feedback = check.lstm_step(lambda x, h, c, W, U, b: lstm(x, h, c, W, U, b, **LSTM_WRONG[title]))
    assert feedback.status == "wrong" and title in feedback.title, feedback


def test_the_two_states_returned_the_other_way_round_are_named():
    feedback = check.lstm_step(lambda x, h, c, W, U, b: lstm(x, h, c, W, U, b)[::-1])
    assert feedback.status == "wrong" and "returned the other way round" in feedback.title, feedback


def test_two_mistakes_in_one_lstm_step_are_both_named():
    wrong = LSTM_WRONG["no tanh on the exposed cell"] | LSTM_WRONG["look at the old state alone"]
    feedback = check.lstm_step(lambda x, h, c, W, U, b: lstm(x, h, c, W, U, b, **wrong))
    said = " ".join(feedback.messages)
    assert "no tanh on the exposed cell" in said and "look at the old state alone" in said


def test_an_unplanned_mistake_gets_the_first_difference():
    feedback = check.lstm_step(lambda x, h, c, W, U, b: (h, c))
    assert feedback.status == "wrong" and feedback.title.endswith("other numbers in the hidden state")
    assert "First difference at batch 0, unit 0" in feedback.messages[0]


def test_the_hidden_state_alone_is_too_little():
    feedback = check.lstm_step(lambda x, h, c, W, U, b: lstm(x, h, c, W, U, b)[0])
    assert feedback.status == "wrong" and "2 things: hidden state, cell state" in feedback.title


# ---------------------------------------------------------------------------------------- the path length


def test_a_right_path_length_passes():
    assert check.path_lengths(lambda first, last: (last - first, 1)).status == "right"


PATH_WRONG = {
    "count the tokens, not": lambda first, last: (last - first + 1, 1),
    "tokens in between": lambda first, last: (last - first - 1, 1),
    "from the start": lambda first, last: (last, 1),
    "Attention takes 0": lambda first, last: (last - first, 0),
    "walks past every token": lambda first, last: (last - first, last - first),
    "attention's pairs": lambda first, last: (last - first, last**2),
    "swapped": lambda first, last: (1, last - first),
}


@pytest.mark.parametrize("title", PATH_WRONG)
def test_a_wrong_path_length_is_named(title):
    feedback = check.path_lengths(PATH_WRONG[title])
    assert feedback.status == "wrong" and title in feedback.title, feedback


def test_an_unplanned_number_is_put_in_plain_words():
    feedback = check.path_lengths(lambda first, last: (last * first, 1))
    assert feedback.title == "The recurrent path is not right"


@pytest.mark.parametrize("name, n_parameters", [("rnn_step", 5), ("lstm_step", 6), ("path_lengths", 2)])
def test_an_untouched_stub_is_not_attempted(name, n_parameters):
    stubs = {
        5: lambda x, hidden, W, U, bias: ...,
        6: lambda x, hidden, cell, W, U, bias: ...,
        2: lambda first, last: ...,
    }
    assert getattr(check, name)(stubs[n_parameters]).status == "not attempted"
