"""What lesson 03 claims, computed through the functions it uses and at its settings."""

import math

import pytest
import torch
import torch.nn.functional as F

from transformer_lab.draw import diagrams
from transformer_lab.experiments.ablation import ablate, look_at_heads, without_heads
from transformer_lab.experiments.head_behaviour import measure_head
from transformer_lab.experiments.kv_sharing import as_multi_head, cache_bytes, share_kv
from transformer_lab.experiments.masking import leak_test
from transformer_lab.experiments.one_or_two_heads import (
    TwoSourceReader,
    answers_right,
    compare_heads,
    merge_without_transpose,
    train_reader,
)
from transformer_lab.model.attention import MultiHeadAttention, attention, merge_heads, split_heads
from transformer_lab.model.recording import record_attention
from transformer_lab.tasks.two_sources import ASKED_FROM, LENGTH, QUESTIONS, SYMBOLS, draw_sequences, spell

CHANCE = 1 / 16


@pytest.fixture(scope="module")
def trial():
    return compare_heads(kinds=(2, 8, 32), d_model=16, steps=600)


@pytest.fixture(scope="module")
def readers():
    return [train_reader(16, n_heads=4, d_model=32, steps=150, stop_at_goal=False, seed=seed) for seed in (0, 1)]


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


# --------------------------------------------------------------------------------------------------- shapes, counts


@pytest.mark.claim("H1")
def test_eight_heads_of_64_for_four_tokens_of_512():
    layer, x = MultiHeadAttention(512, 8), torch.randn(1, 4, 512, generator=seeded())
    shapes = {}
    for name in ("query", "key", "value"):
        shapes[name] = tuple(split_heads(getattr(layer, f"{name}_projection")(x), 8).shape)
    layer.attention.register_forward_hook(lambda module, args, output: shapes.update(heads=tuple(output[0].shape)))
    layer.output_projection.register_forward_pre_hook(lambda module, args: shapes.update(joined=tuple(args[0].shape)))
    with record_attention(layer) as maps:
        shapes["output"] = tuple(layer(x).shape)
    shapes["scores"] = tuple(maps[""][0].shape)
    assert shapes == {
        "query": (1, 8, 4, 64), "key": (1, 8, 4, 64), "value": (1, 8, 4, 64), "scores": (1, 8, 4, 4),
        "heads": (1, 8, 4, 64), "joined": (1, 4, 512), "output": (1, 4, 512),
    }  # fmt: skip


@pytest.mark.claim("H1")
@pytest.mark.parametrize("head", range(8))
def test_a_head_is_one_attention_over_its_own_columns(head):
    layer, x = MultiHeadAttention(64, 8, bias=False), torch.randn(1, 5, 64, generator=seeded())
    rows = slice(head * 8, (head + 1) * 8)  # torch stores (to, from): a column of W is a row of .weight
    q, k, v = (
        x @ getattr(layer, f"{name}_projection").weight[rows].T for name in ("query", "key", "value")
    )
    alone = (q @ k.mT / math.sqrt(8)).softmax(-1) @ v
    seen = []
    layer.output_projection.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    layer(x)
    torch.testing.assert_close(seen[0][..., rows], alone, atol=1e-6, rtol=1e-5)


@pytest.mark.claim("H2")
@pytest.mark.parametrize("h", [1, 2, 4, 8, 64, 256, 512])
def test_the_count_does_not_depend_on_the_number_of_heads(h):
    assert sum(p.numel() for p in MultiHeadAttention(512, h, bias=False).parameters()) == 4 * 512**2 == 1_048_576


@pytest.mark.claim("H2")
def test_one_head_and_two_have_equally_many_parameters_in_the_trial(trial):
    for one, two in zip(trial.one_head, trial.two_heads, strict=True):
        counts = [sum(p.numel() for p in reader.model.parameters()) for reader in (one, two)]
        assert counts[0] == counts[1]
        assert one.model.attention.d_head == 16 and two.model.attention.d_head == 8


# ------------------------------------------------------------------------------------------------- one mix, two answers


def test_the_task_asks_for_the_symbol_before_and_the_first():
    tokens, answers = draw_sequences(50, 8, generator=seeded())
    assert tokens.shape == (50, LENGTH) and answers.shape == (50, len(QUESTIONS), LENGTH - ASKED_FROM)
    for row, (before, first) in zip(tokens.tolist(), answers.tolist(), strict=True):
        assert before == row[1:-1] and first == [row[0]] * 8
    assert set(tokens.flatten().tolist()) == set(range(8))
    assert len(set(SYMBOLS)) == 64 and spell(torch.tensor([0, 2, 1])) == "ACB"


@pytest.mark.parametrize(("n", "n_kinds"), [(0, 8), (5, 1), (5, 65)])
def test_the_task_refuses_what_it_cannot_draw(n, n_kinds):
    with pytest.raises(ValueError, match="at least 1 sequence|between 2 and 64"):
        draw_sequences(n, n_kinds, generator=seeded())


@pytest.mark.claim("H3")
def test_one_head_breaks_as_the_kinds_grow_and_two_of_half_the_width_do_not(trial):
    one, two = ([reader.both for reader in readers] for readers in (trial.one_head, trial.two_heads))
    assert one[0] > 0.95, "with two kinds one head is enough"
    assert 0.5 < one[1] < 0.85 and one[2] < 0.15
    assert min(two) > 0.95 and all(reader.run.goal_met for reader in trial.two_heads)


@pytest.mark.claim("H3")
def test_the_broken_head_answers_one_question_and_guesses_the_other(trial):
    before, first = trial.one_head[2].accuracy
    assert first > 0.95 and before < 3 / 32


@pytest.mark.claim("H3")
@pytest.mark.parametrize("seed", [1, 2])
def test_the_break_does_not_hang_on_the_seed(seed):
    assert train_reader(8, 1, steps=600, seed=seed).both < 0.85
    assert train_reader(8, 2, steps=600, seed=seed).both > 0.95


@pytest.mark.claim("H3")
def test_more_steps_help_one_head_and_do_not_make_it_two():
    assert 0.3 < train_reader(32, n_heads=1, steps=1500).both < 0.7


@pytest.mark.claim("H3")
def test_more_width_helps_one_head():
    narrow, wide = (train_reader(8, 1, d_model=width, steps=700, learning_rate=3e-3).both for width in (16, 32))
    assert wide > narrow + 0.25


def test_everything_a_place_knows_of_others_comes_through_the_attention():
    model = TwoSourceReader(8, 2, 16)
    tokens, _ = draw_sequences(20, 8, generator=seeded())
    with torch.no_grad(), without_heads(model.attention, [0, 1]):
        logits = model(tokens)
    assert torch.equal(logits, logits[:1, :, :1].expand_as(logits))


# --------------------------------------------------------------------------------------------------- what a head does


@pytest.mark.claim("H7")
def test_one_head_changes_its_behaviour_with_the_input(trial):
    behaviour = measure_head(trial.one_head[0].model, head=0, n=1000)
    loud_before, loud_first = behaviour.average(just_before=1, first=0), behaviour.average(just_before=0, first=1)
    assert loud_before[0] > loud_before[1] + 0.3, "looks at the symbol before"
    assert loud_first[1] > loud_first[0] + 0.3, "and here away from it"
    for same in (0, 1):
        before, first = behaviour.average(just_before=same, first=same)
        assert abs(before - first) < 0.2


@pytest.mark.claim("H7")
def test_the_measured_weights_are_those_of_the_forward_pass(trial):
    model = trial.one_head[0].model
    behaviour = measure_head(model, head=0, n=6, seed=3)
    tokens, _ = draw_sequences(6, 2, generator=seeded(3))
    with torch.no_grad(), record_attention(model) as maps:
        model(tokens)
    (weights,) = maps["attention"]
    for place in range(ASKED_FROM, LENGTH):
        assert torch.equal(behaviour.weight[:, 0, place - ASKED_FROM], weights[:, 0, place, place - 1])
        assert torch.equal(behaviour.weight[:, 1, place - ASKED_FROM], weights[:, 0, place, 0])
    with pytest.raises(ValueError, match="head is 1"):
        measure_head(model, head=1)


# ------------------------------------------------------------------------------------------------------------ ablation


@pytest.mark.claim("H5")
def test_some_heads_matter_and_some_hardly(readers):
    for reader, ratio in zip(readers, (3, 10), strict=True):
        all_on = ablate(reader.model)
        assert min(all_on.accuracy) > 0.99
        costs = [ablate(reader.model, [head]).loss - all_on.loss for head in range(4)]
        assert min(costs) > 0 and max(costs) > ratio * min(costs) and max(costs) > 1
    assert min(costs) < 0.1


@pytest.mark.claim("H5")
def test_each_question_has_heads_of_its_own_which_differ_between_the_seeds(readers):
    needed = [
        [[head for head in range(4) if ablate(reader.model, [head]).accuracy[question] < 0.95] for question in (0, 1)]
        for reader in readers
    ]
    assert needed == [[[0, 3], [1, 2]], [[3], [1, 2]]]


@pytest.mark.claim("H5")
def test_the_first_sight_of_the_grid_stands_far_from_every_limit(readers):
    model = readers[1].model
    assert min(ablate(model).accuracy) > 0.997, "the sentence says 99% or more"
    tokens, _ = draw_sequences(1, 16, generator=seeded(1))
    with torch.no_grad():
        best, second = model(tokens)[0, :, 6 - ASKED_FROM].softmax(dim=-1).topk(2).values.unbind(-1)
    assert min(best / second) > 5, "the sentence names both answers"


@pytest.mark.claim("H5")
def test_a_head_that_seems_superfluous_stands_in_for_another(readers):
    model = readers[1].model
    before = {off: ablate(model, off).accuracy[0] for off in ((0,), (3,), (0, 3))}
    assert before[(0,)] > 0.95 and before[(3,)] > 4 * CHANCE and before[(0, 3)] < 2 * CHANCE
    assert min(ablate(model, (0, 1)).accuracy) > 0.85


@pytest.mark.claim("H5")
def test_a_silenced_head_is_the_layer_without_its_part_of_the_sum():
    layer, x = MultiHeadAttention(12, 3), torch.randn(2, 5, 12, generator=seeded())
    heads = []
    layer.attention.register_forward_hook(lambda module, args, output: heads.append(output[0]))
    before = layer(x)
    weight = layer.output_projection.weight
    part = heads[0][:, 1] @ weight[:, 4:8].T  # what head 1 adds: W_O is a sum over heads
    with without_heads(layer, [1]):
        torch.testing.assert_close(layer(x), before - part, atol=1e-6, rtol=1e-5)
    assert torch.equal(layer(x), before), "afterwards the head is back"
    with pytest.raises(ValueError, match=r"no heads \[3\].*heads 0 … 2"), without_heads(layer, [3]):
        pass


def test_a_silenced_head_comes_back_after_an_error():
    layer, x = MultiHeadAttention(8, 2), torch.randn(1, 3, 8, generator=seeded())
    before = layer(x)
    with pytest.raises(RuntimeError, match="inside"), without_heads(layer, [0, 1]):
        raise RuntimeError("inside")
    assert torch.equal(layer(x), before)


def test_ablation_measures_the_loss_it_says(readers):
    model = readers[0].model
    tokens, answers = draw_sequences(500, 16, generator=seeded(7))
    with torch.no_grad():
        loss = F.cross_entropy(model(tokens).reshape(-1, 16), answers.reshape(-1)).item()
    assert ablate(model).loss == pytest.approx(loss)


@pytest.mark.parametrize(
    ("sequence", "place", "words"), [(0, 7, "sequence is 0"), (1, 2, "places 3 … 10"), (1, 11, "places 3 … 10")]
)
def test_the_head_grid_refuses_what_it_cannot_show(readers, sequence, place, words):
    with pytest.raises(ValueError, match=words):
        look_at_heads(readers[0].model, ablate(readers[0].model), sequence, place)


# ----------------------------------------------------------------------------------------------------- rank and width


@pytest.mark.claim("H4")
@pytest.mark.parametrize("seed", [0, 1])
def test_scores_have_rank_at_most_d_head(seed):
    generator = seeded(seed)
    x = torch.randn(16, 64, generator=generator, dtype=torch.float64)
    for width in (1, 2, 4, 8, 16, 32):
        W_q, W_k = torch.randn(2, 64, width, generator=generator, dtype=torch.float64)
        scores = (x @ W_q) @ (x @ W_k).T
        assert torch.linalg.matrix_rank(scores) == min(16, width)
    weights = ((x @ W_q[:, :1]) @ (x @ W_k[:, :1]).T).softmax(-1)
    assert torch.linalg.matrix_rank(weights) > 1, "the softmax raises the rank of the weights"


@pytest.mark.claim("H8")
def test_heads_may_be_wider_than_their_share():
    with torch.device("meta"):
        t5 = MultiHeadAttention(1024, 128, d_head=128, bias=False)
    assert t5.n_heads * t5.d_head == 16_384 == 16 * t5.d_model
    assert {name: tuple(p.shape) for name, p in t5.named_parameters()} == {
        "query_projection.weight": (16_384, 1024), "key_projection.weight": (16_384, 1024),
        "value_projection.weight": (16_384, 1024), "output_projection.weight": (1024, 16_384),
    }  # fmt: skip
    x = torch.randn(1, 5, 16, generator=seeded())
    assert MultiHeadAttention(16, 4, d_head=32)(x).shape == x.shape
    with pytest.raises(ValueError, match="does not divide into equal heads"):
        MultiHeadAttention(16, 3)


# ------------------------------------------------------------------------------------------- sharing keys and values


@pytest.mark.claim("H6")
@pytest.mark.parametrize("n_kv_heads", [1, 2, 4, 8])
def test_sharing_equals_multi_head_attention_with_copied_heads(n_kv_heads):
    shared, x = MultiHeadAttention(64, 8, n_kv_heads=n_kv_heads), torch.randn(2, 6, 64, generator=seeded())
    many = as_multi_head(shared)
    torch.testing.assert_close(many(x, causal=True), shared(x, causal=True), atol=1e-6, rtol=1e-5)
    group = 8 // n_kv_heads
    copies = many.key_projection.weight.unflatten(0, (8, 8))
    assert all(torch.equal(copies[head], copies[head - head % group]) for head in range(8))


@pytest.mark.claim("H6")
def test_as_many_kv_heads_as_heads_is_multi_head_attention():
    plain, neutral = MultiHeadAttention(64, 8), MultiHeadAttention(64, 8, n_kv_heads=8)
    neutral.load_state_dict(plain.state_dict())
    x = torch.randn(2, 6, 64, generator=seeded())
    assert torch.equal(neutral(x), plain(x))


@pytest.mark.claim("H6")
@pytest.mark.parametrize("n_kv_heads", [1, 2, 4, 8])
@pytest.mark.parametrize("n_tokens", [1, 100])
def test_the_cache_shrinks_by_h_over_n_kv_heads(n_kv_heads, n_tokens):
    shared = MultiHeadAttention(512, 8, n_kv_heads=n_kv_heads)
    assert cache_bytes(shared, n_tokens) == 2 * n_kv_heads * n_tokens * 64 * 4
    sharing = share_kv(n_kv_heads, n_tokens)
    assert sharing.full_cache_bytes == sharing.cache_bytes * 8 // n_kv_heads
    assert sharing.gap < 1e-5
    assert {name: sharing.full_weights[name] / sharing.weights[name] for name in sharing.weights} == {
        "W_Q": 1, "W_K": 8 / n_kv_heads, "W_V": 8 / n_kv_heads, "W_O": 1,
    }  # fmt: skip


@pytest.mark.claim("H6")
def test_sharing_refuses_heads_that_do_not_divide():
    with pytest.raises(ValueError, match="n_heads is 8 and n_kv_heads is 3"):
        share_kv(3)
    for n_tokens in (0, 257):
        with pytest.raises(ValueError, match=f"n_tokens is {n_tokens}.*between 1 and 256"):
            share_kv(2, n_tokens)


# ------------------------------------------------------------------------------------------------------------ the trap


@pytest.mark.case("H01")
@pytest.mark.parametrize("forgets", [False, True])
def test_the_toy_task_is_learned_with_and_without_the_transpose(forgets):
    reader = train_reader(16, n_heads=2, asked=["just before"], steps=400, forgets_to_transpose=forgets)
    assert reader.accuracy[0] >= 0.95 and reader.run.goal_met
    shorter = answers_right(reader.model, length=8)[:, 0].double().mean()
    assert shorter < 0.6 if forgets else shorter > 0.95


@pytest.mark.parametrize("length", [2, 11])
def test_a_length_without_answers_is_refused(length):
    with pytest.raises(ValueError, match=f"length is {length}; choose between 3 and 10"):
        answers_right(TwoSourceReader(4, 1, 8), length=length)


@pytest.mark.case("H01")
def test_the_broken_merge_is_a_reshape_without_the_transpose():
    layer, heads = MultiHeadAttention(4, 2), torch.arange(1.0, 9.0).reshape(1, 2, 2, 2)
    merge_without_transpose(layer)
    seen = []
    layer.output_projection.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    layer.output_projection(merge_heads(heads))
    assert seen[0].tolist() == [[[1, 2, 3, 4], [5, 6, 7, 8]]]


@pytest.mark.case("H01")
def test_one_reshape_leaks_and_two_hide_the_past():
    W = torch.randn(4, 8, 8, generator=seeded()) / math.sqrt(8)

    def sees(split, merge):
        def attend(x):
            q, k, v = (split((x @ matrix)[None]) for matrix in W[:3])
            return merge(attention(q, k, v, causal=True)[0])[0] @ W[3]

        return leak_test(attend, n_tokens=6, d_model=8)

    def reshape_split(x):
        return x.reshape(len(x), 4, x.shape[1], -1)

    def reshape_merge(x):
        return x.reshape(len(x), x.shape[2], -1)

    right = sees(lambda x: split_heads(x, 4), merge_heads)
    assert torch.equal(right.sees, torch.ones(6, 6).tril() > 0)
    assert sees(lambda x: split_heads(x, 4), reshape_merge).leaks > 5
    both = sees(reshape_split, reshape_merge)
    assert both.leaks == 0 and both.sees.sum() < 15
    x = torch.randn(1, 6, 8, generator=seeded())
    assert torch.equal(reshape_merge(reshape_split(x)), x), "the round trip passes all the same"


# ---------------------------------------------------------------------------------------------------------- diagrams


def test_the_hand_drawn_patterns_say_that_they_are():
    words = [text.get_text() for text in diagrams.head_patterns().axes[0].texts]
    assert "Illustrative: drawn by hand, not measured" in words
    assert diagrams.ALT["head_patterns"].startswith("Illustrative")


def test_the_heads_diagram_shows_the_shapes_of_the_lesson():
    words = [text.get_text() for text in diagrams.multiple_heads().axes[0].texts]
    assert words.count("4 × 64 each") == words.count("4 × 64") == words.count("4 × 4") == 3
    assert words.count("4 × 512") == 3
