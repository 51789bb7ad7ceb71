"""The one training loop: repeatable, equal to a plain loop, honest about bad settings."""
import math

import pytest
import torch
from torch import nn

from transformer_lab.training import DivergedError, seeded, train

SETTINGS = {"steps": 30, "learning_rate": 0.05}


def small_model(dropout: float = 0.0) -> nn.Module:
    with seeded(3):
        return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Dropout(dropout), nn.Linear(8, 1))


def fit(model: nn.Module, **settings):
    """Learn the sum of four numbers."""

    def batch_loss(generator):
        x = torch.randn(16, 4, generator=generator)
        return (model(x).squeeze(-1) - x.sum(-1)).pow(2).mean()

    return train(model, batch_loss, **{**SETTINGS, **settings})


def test_the_loss_falls_and_every_step_is_kept():
    run = fit(small_model(), steps=200)
    assert run.steps == len(run.losses) == len(run.gradient_norms) == 200
    assert run.losses[-1] < 0.1 < 1 < run.losses[0]
    assert not run.goal_met


def test_a_run_repeats_bit_by_bit_and_another_seed_differs():
    one, two = (small_model(dropout=0.5) for _ in range(2))
    assert fit(one).losses == fit(two).losses
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))
    assert fit(small_model(dropout=0.5), seed=1).losses != fit(small_model(dropout=0.5)).losses


def test_dropout_does_not_hang_on_the_global_state_nor_move_it():
    torch.manual_seed(11)
    first = fit(small_model(dropout=0.5)).losses
    state = torch.random.get_rng_state()
    torch.manual_seed(12)
    assert fit(small_model(dropout=0.5)).losses == first
    torch.manual_seed(11)
    assert torch.equal(torch.random.get_rng_state(), state)


def test_seeded_fixes_initial_weights_and_leaks_nothing():
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    with seeded(1):
        one = nn.Linear(3, 3)
    with seeded(1):
        two = nn.Linear(3, 3)
    assert torch.equal(one.weight, two.weight)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_the_loop_equals_a_plain_one_written_out():
    ours, theirs = small_model(), small_model()
    fit(ours)
    optimizer = torch.optim.Adam(theirs.parameters(), lr=SETTINGS["learning_rate"])
    generator = torch.Generator().manual_seed(0)
    for _ in range(SETTINGS["steps"]):
        x = torch.randn(16, 4, generator=generator)
        optimizer.zero_grad()
        (theirs(x).squeeze(-1) - x.sum(-1)).pow(2).mean().backward()
        optimizer.step()
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-7)


def test_a_parameter_without_gradient_stays():
    model = small_model()
    model.spare = nn.Parameter(torch.ones(2))
    fit(model)
    assert torch.equal(model.spare, torch.ones(2))


def test_frozen_parameters_stay():
    model = small_model()
    model[0].requires_grad_(False)
    before = model[0].weight.clone()
    fit(model)
    assert torch.equal(model[0].weight, before)


def test_the_goal_is_asked_in_evaluation_mode_and_ends_the_run():
    model, seen = small_model(), []

    def goal():
        seen.append((model.training, torch.is_grad_enabled()))
        return len(seen) == 3

    run = fit(model, goal=goal, goal_every=5)
    assert run.goal_met and run.steps == 15
    assert seen == [(False, False)] * 3


def test_training_mode_inside_evaluation_mode_after():
    model = small_model().eval()
    modes = []

    def batch_loss(generator):
        modes.append(model.training)
        return model(torch.ones(1, 4)).sum()

    train(model, batch_loss, **SETTINGS)
    assert all(modes) and not model.training
    assert all(parameter.grad is None for parameter in model.parameters())


def test_warmup_climbs_in_a_straight_line():
    """Adam's first steps have the size of the learning rate, so they show the schedule."""
    model = nn.Linear(1, 1, bias=False)
    positions = []

    def batch_loss(generator):
        positions.append(model.weight.item())
        return model(torch.ones(1, 1)).sum()

    train(model, batch_loss, steps=6, learning_rate=0.01, warmup=4)
    steps = [-(b - a) for a, b in zip(positions, positions[1:], strict=False)]
    assert steps == pytest.approx([0.0025, 0.005, 0.0075, 0.01, 0.01], rel=1e-3)


def test_clip_shortens_what_is_applied_and_reports_what_was_found():
    """The gradient is 100 along one weight; Adam's averages see at most 1."""
    model = nn.Linear(1, 1, bias=False)
    seen = []

    def batch_loss(generator):
        model.weight.register_post_accumulate_grad_hook(lambda weight: seen.append(weight.grad))
        return 100 * model(torch.ones(1, 1)).sum()

    run = train(model, batch_loss, steps=1, learning_rate=0.01, clip=1.0)
    assert run.gradient_norms == pytest.approx([100.0])
    assert seen[0].item() == pytest.approx(1.0)


def test_the_monitor_hears_every_step_and_the_end():
    heard = []
    fit(small_model(), goal=lambda: True, goal_every=10, monitor=lambda *news: heard.append(news), name="first")
    assert [news[:3] for news in heard[:2]] == [("first", 1, 30), ("first", 2, 30)]
    assert heard[-1][:3] == ("first", 10, 10)
    assert all(isinstance(news[3], float) for news in heard)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"steps": 0}, "steps is 0"),
        ({"steps": 2.5}, "steps is 2.5"),
        ({"learning_rate": 0.0}, "learning_rate is 0"),
        ({"learning_rate": -1.0}, "learning_rate is -1"),
        ({"learning_rate": math.nan}, "learning_rate is nan"),
        ({"learning_rate": math.inf}, "learning_rate is inf"),
        ({"clip": 0.0}, "clip is 0"),
        ({"warmup": -1}, "warmup is -1"),
        ({"goal_every": 0}, "goal_every is 0"),
    ],
)
def test_settings_out_of_range_are_named(settings, named):
    with pytest.raises(ValueError, match=named):
        fit(small_model(), **settings)


@pytest.mark.parametrize("loss", [torch.ones(2, requires_grad=True), torch.ones(()), 3.0])
def test_a_loss_that_cannot_be_trained_on_is_refused(loss):
    with pytest.raises(ValueError, match="batch_loss returned"):
        train(small_model(), lambda generator: loss, **SETTINGS)


def test_a_model_with_nothing_to_train_is_refused():
    with pytest.raises(ValueError, match="nothing to train"):
        train(nn.Tanh(), lambda generator: torch.ones(()), **SETTINGS)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_lost_loss_stops_the_run_and_keeps_what_was(bad):
    model, calls = small_model(), []

    def batch_loss(generator):
        calls.append(1)
        return model(torch.ones(1, 4)).sum() * (bad if len(calls) == 4 else 1.0)

    with pytest.raises(DivergedError, match="at step 4") as caught:
        train(model, batch_loss, **SETTINGS)
    assert len(caught.value.losses) == 3 and len(calls) == 4
    assert not model.training


def test_a_failing_loss_leaves_the_global_state_as_it_was():
    torch.manual_seed(2)
    before = torch.random.get_rng_state()
    with pytest.raises(ValueError):
        train(small_model(), lambda generator: torch.rand(2), **SETTINGS)
    assert torch.equal(torch.random.get_rng_state(), before)
