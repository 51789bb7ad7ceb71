"""The checks a learner calls: `from transformer_lab.practice import check`, then `check.attention(my_attention)`.

Every check returns feedback that shows itself, and keeps the result in the learner's progress file. An untouched
stub is "not attempted yet", never an error.

To add one: write the exercise in ``exercises/<topic>.py``, give it a function here and a place in ``EXERCISES``.
"""

from collections.abc import Callable

from transformer_lab.practice import progress, sentences
from transformer_lab.practice.checking import FunctionExercise
from transformer_lab.practice.exercises.attention import ATTENTION
from transformer_lab.practice.exercises.attention_steps import ATTENTION_STEPS
from transformer_lab.practice.exercises.counting import BLOCK_PARAMETERS, CACHE_BYTES
from transformer_lab.practice.exercises.cross_attention import CROSS_ATTENTION
from transformer_lab.practice.exercises.feed_forward import FEED_FORWARD
from transformer_lab.practice.exercises.greedy_translation import GREEDY_TRANSLATION
from transformer_lab.practice.exercises.heads import MERGE_HEADS, SHARE_KV_HEADS, SPLIT_HEADS
from transformer_lab.practice.exercises.layer_norm import LAYER_NORM
from transformer_lab.practice.exercises.mask_words import MASK_WORDS
from transformer_lab.practice.exercises.masks import CAUSAL_MASK, PADDING_MASK
from transformer_lab.practice.exercises.mixed_row import MIXED_ROW
from transformer_lab.practice.exercises.positions import ROPE, SINUSOIDAL_TABLE
from transformer_lab.practice.exercises.pre_norm_block import PRE_NORM_BLOCK
from transformer_lab.practice.exercises.recurrence import LSTM_STEP, PATH_LENGTHS, RNN_STEP
from transformer_lab.practice.exercises.safe_softmax import SAFE_SOFTMAX
from transformer_lab.practice.exercises.shift_labels import SHIFT_LABELS
from transformer_lab.practice.exercises.start import N_PAIRS
from transformer_lab.practice.exercises.totals import CROSSING_WIDTH, MODEL_PARAMETERS
from transformer_lab.practice.feedback import Feedback
from transformer_lab.practice.values import ValueExercise

EXERCISES = (
    N_PAIRS, RNN_STEP, LSTM_STEP, PATH_LENGTHS, ATTENTION_STEPS, ATTENTION, MIXED_ROW, SPLIT_HEADS, MERGE_HEADS,
    SHARE_KV_HEADS, SINUSOIDAL_TABLE, ROPE, CAUSAL_MASK, PADDING_MASK, SAFE_SOFTMAX,
    LAYER_NORM, FEED_FORWARD, PRE_NORM_BLOCK,
    CROSS_ATTENTION, GREEDY_TRANSLATION,
    BLOCK_PARAMETERS, MODEL_PARAMETERS, CROSSING_WIDTH, CACHE_BYTES,
    MASK_WORDS, SHIFT_LABELS,
)


def n_pairs(my_n_pairs: Callable) -> Feedback:
    """Check `my_n_pairs(n_tokens)`: how many pairs there are when every token looks at every token, itself included."""
    return _checked(N_PAIRS, my_n_pairs)


def rnn_step(my_rnn_step: Callable) -> Feedback:
    """Check `my_rnn_step(x, hidden, W, U, bias)`, which returns the new hidden state, (batch, d_hidden).

    ``x`` is (batch, d_input), ``hidden`` (batch, d_hidden), ``W`` (d_input, d_hidden), ``U`` (d_hidden, d_hidden).
    """
    return _checked(RNN_STEP, my_rnn_step)


def lstm_step(my_lstm_step: Callable) -> Feedback:
    """Check `my_lstm_step(x, hidden, cell, W, U, bias)`, which returns the new hidden and cell state.

    ``hidden`` and ``cell`` are (batch, d_hidden). The columns of ``W`` (d_input, 4 · d_hidden), ``U`` and ``bias``
    hold the blocks input gate, forget gate, candidate, output gate, in this order.
    """
    return _checked(LSTM_STEP, my_lstm_step)


def path_lengths(my_path_lengths: Callable) -> Feedback:
    """Check `my_path_lengths(first, last)`: how many steps a signal takes from one position to a later one.

    It returns two whole numbers: through an RNN, and through one layer of attention.
    """
    return _checked(PATH_LENGTHS, my_path_lengths)


def attention_steps(my_attention: Callable) -> Feedback:
    """Check `my_attention(query, key, value)`, which returns the output of attention for one sentence and one head.

    ``query`` is (query, d_k), ``key`` is (key, d_k), ``value`` is (key, d_v); the output is (query, d_v).
    """
    return _checked(ATTENTION_STEPS, my_attention)


def attention(my_attention: Callable) -> Feedback:
    """Check `my_attention(query, key, value, mask)`, which returns the output of scaled dot-product attention.

    ``query`` is (batch, heads, query, d_head), ``key`` and ``value`` are (batch, heads, key, d_head). ``mask`` is
    boolean, True = may attend, and fits the scores (batch, heads, query, key) by broadcasting; every query may
    attend to at least one key. The output is (batch, heads, query, d_head).
    """
    return _checked(ATTENTION, my_attention)


def mixed_row(my_row: object) -> Feedback:
    """Check one output row worked out by hand: four numbers, as a list or a tensor.

    The weights are ``HAND_WEIGHTS`` and the value vectors ``HAND_VALUES``, both in ``exercises/mixed_row.py``.
    """
    return _checked(MIXED_ROW, my_row)


def split_heads(my_split_heads: Callable) -> Feedback:
    """Check `my_split_heads(x, n_heads)`, which cuts (batch, length, width) into (batch, heads, length, d_head)."""
    return _checked(SPLIT_HEADS, my_split_heads)


def merge_heads(my_merge_heads: Callable) -> Feedback:
    """Check `my_merge_heads(x)`, which undoes the split: (batch, heads, length, d_head) to (batch, length, width)."""
    return _checked(MERGE_HEADS, my_merge_heads)


def share_kv_heads(my_share_kv_heads: Callable) -> Feedback:
    """Check `my_share_kv_heads(x, n_heads)`: (batch, kv_heads, length, d_head) to (batch, n_heads, length, d_head).

    ``n_heads`` is a multiple of ``kv_heads``; query heads 0 … n_heads / kv_heads − 1 read the first key/value head,
    and so on.
    """
    return _checked(SHARE_KV_HEADS, my_share_kv_heads)


def sinusoidal_table(my_table: Callable) -> Feedback:
    """Check `my_table(n_positions, d_model)`, which returns the sinusoids as one row a position; ``d_model`` is even.

    Column 2i holds sin(p / 10000^(2i / d_model)) and column 2i + 1 the cosine of the same angle.
    """
    return _checked(SINUSOIDAL_TABLE, my_table)


def apply_rope(my_rope: Callable) -> Feedback:
    """Check `my_rope(query, key, value, positions)`, which returns the three after RoPE, interleaved, base 10,000.

    The tensors are (batch, heads, length, d_head) with an even d_head; ``positions`` is (length,), whole numbers.
    """
    return _checked(ROPE, my_rope)


def causal_mask(my_causal_mask: Callable) -> Feedback:
    """Check `my_causal_mask(n_query, n_key)`, which returns a boolean (query, key) mask, True = may attend.

    ``n_query`` is at most ``n_key``: the queries are the last tokens of the sequence.
    """
    return _checked(CAUSAL_MASK, my_causal_mask)


def padding_mask(my_padding_mask: Callable) -> Feedback:
    """Check `my_padding_mask(lengths, n_key)`, which returns a boolean (batch, 1, 1, key) mask, True = may attend.

    ``lengths`` is a tensor of whole numbers, one a sentence; the pads stand on the right.
    """
    return _checked(PADDING_MASK, my_padding_mask)


def safe_softmax(my_safe_softmax: Callable) -> Feedback:
    """Check `my_safe_softmax(scores, mask)`: weights over the keys that ``mask`` allows, zeros in a row without any.

    Both arguments and the result are (query, key); ``mask`` is boolean, True = may attend.
    """
    return _checked(SAFE_SOFTMAX, my_safe_softmax)


def layer_norm(my_layer_norm: Callable) -> Feedback:
    """Check `my_layer_norm(x, scale, shift, eps)`, which norms every token by its own mean and variance.

    ``x`` is (batch, position, feature); ``scale`` and ``shift`` are (feature,). The output has the shape of ``x``.
    """
    return _checked(LAYER_NORM, my_layer_norm)


def feed_forward(my_feed_forward: Callable) -> Feedback:
    """Check `my_feed_forward(x, W_up, b_up, W_down, b_down)`: up, ReLU, down, for each token alone.

    ``x`` is (batch, position, d_model), ``W_up`` (d_model, d_ff), ``W_down`` (d_ff, d_model).
    """
    return _checked(FEED_FORWARD, my_feed_forward)


def pre_norm_block(my_block: Callable) -> Feedback:
    """Check `my_block(x, attend, feed, norm_1, norm_2)`, which returns the stream after one pre-norm block.

    The last four are functions that keep the shape of ``x``: attention, a feed-forward layer and a norm for each.
    """
    return _checked(PRE_NORM_BLOCK, my_block)


def cross_attention(my_cross_attention: Callable) -> Feedback:
    """Check `my_cross_attention(target, memory, W_Q, W_K, W_V, source_real)`: one head, (batch, target, d_v).

    ``target`` is (batch, target, d_model), ``memory`` (batch, source, d_model), the projections (d_model, d_k).
    ``source_real`` is (batch, source), True on real tokens; every source has at least one.
    """
    return _checked(CROSS_ATTENTION, my_cross_attention)


def greedy_translation(my_translation: Callable) -> Feedback:
    """Check `my_translation(encode, decode, source, start, end, max_tokens)`: the written token ids, (step,).

    ``encode(source)`` gives a memory; ``decode(tokens, memory)`` gives logits (position, vocab) for all tokens so far.
    """
    return _checked(GREEDY_TRANSLATION, my_translation)


def block_parameters(my_block_parameters: Callable) -> Feedback:
    """Check `my_block_parameters(d_model, n_heads, d_head, n_kv_heads, d_ff, gated)`: the numbers in its matrices.

    Attention and feed-forward layer, without biases and norms. ``gated`` says whether the feed-forward layer has a
    gate.
    """
    return _checked(BLOCK_PARAMETERS, my_block_parameters)


def model_parameters(my_total: object) -> Feedback:
    """Check the total of a small decoder, worked out by hand; its sizes stand in ``exercises/totals.py``."""
    return _checked(MODEL_PARAMETERS, my_total)


def crossing_width(my_width: object) -> Feedback:
    """Check the width at which all blocks of a model together hold as much as its tied embedding.

    The vocabulary and the number of blocks stand in ``exercises/totals.py``.
    """
    return _checked(CROSSING_WIDTH, my_width)


def cache_bytes(my_cache_bytes: Callable) -> Feedback:
    """Check `my_cache_bytes(n_layers, d_model, n_heads, n_kv_heads, d_head, n_positions, bytes_each)`.

    It returns the bytes of the K/V cache of one sequence.
    """
    return _checked(CACHE_BYTES, my_cache_bytes)


def mask_words(my_mask_words: Callable) -> Feedback:
    """Check `my_mask_words(tokens, special, choose, kind, random_words, mask_id)`, which returns inputs and labels.

    All tensors are (batch, position). ``special`` is True on tokens that are no words; ``choose`` and ``kind`` are
    draws from 0 to 1. A word is chosen where ``choose`` is below 0.15. It becomes ``mask_id`` where ``kind`` is below
    0.8, the word of ``random_words`` from there up to 0.9, and stays from 0.9 on. The label of a chosen word is the
    word itself, of everything else −100.
    """
    return _checked(MASK_WORDS, my_mask_words)


def shift_labels(my_shift_labels: Callable) -> Feedback:
    """Check `my_shift_labels(tokens, pad_id)`: labels of the same shape, the next token of each place.

    Pads stand on the right. A label that would be a pad is −100, and so is the label of the last place.
    """
    return _checked(SHIFT_LABELS, my_shift_labels)


def _checked(exercise: FunctionExercise | ValueExercise, answer: object) -> Feedback:
    try:
        feedback = exercise.judge(answer)
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # no answer, however odd, ends in a traceback
        feedback = sentences.not_judged(exercise.name, error)
    if feedback.status == "not attempted":
        return feedback
    return feedback.with_message(progress.record_exercise(exercise.name, feedback.status == "right"))
