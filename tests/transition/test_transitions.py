"""Learned laws of the next state: what they expect, and which is believed."""

import jax.random as jr
import numpy as np
import pytest

import deeppqr
from deeppqr.policy import Given
from deeppqr.transition._choice import learn_transition
from deeppqr.transition._moves import Moves
from deeppqr.transition._regression import Regression
from deeppqr.transition._table import Table
from deeppqr.transition._transition import Steps


@pytest.fixture(scope="module")
def paper():
    world = deeppqr.worlds.PaperWorld(p=3, reward_scale=5.0, seed=1)
    return world, world.simulate(steps=6_000, units=60, seed=7)


def policy_of(world, panel):
    return Given(world.log_policy).fit(panel, key=jr.key(0)).policy


def test_moves_find_the_walls_of_the_papers_world(paper):
    world, panel = paper
    moves = Moves.learn(Steps.of(panel), key=jr.key(0))
    np.testing.assert_allclose(moves.step[:, 0], [-0.5, -0.3, -0.1, 0.1, 0.3], atol=1e-9)
    fresh = world.simulate(steps=2_000, units=20, seed=8).state
    leaves = np.stack([(np.abs(fresh + s) > 3).any(axis=1) for s in moves.step], axis=1)
    error = np.mean((moves.chances(fresh)[:, :, 1] - leaves) ** 2)
    assert error < 0.1 * leaves.mean()


def test_moves_expect_the_value_better_than_regression(paper):
    world, panel = paper
    steps = Steps.of(panel)
    fresh = world.simulate(steps=2_000, units=20, seed=8).state
    truth = (world.q(fresh) - world.reward(fresh)) / world.discount
    value = lambda state: world.value(np.clip(state, -3, 3))[:, None]
    laws = (
        Moves.learn(steps, key=jr.key(0)),
        Regression.learn(steps, key=jr.key(0)),
    )
    moved, regressed = (
        np.mean((law.ahead(value)(fresh)[:, :, 0] - truth) ** 2) for law in laws
    )
    assert moved < 0.5 * regressed


def test_the_table_counts():
    world = deeppqr.worlds.random_tabular(4, 3, seed=2)
    steps = Steps.of(world.simulate(steps=20_000, units=20, seed=3))
    table = Table.learn(steps)
    assert table is not None
    rows = (steps.state[:, 0] == 1) & (steps.action == 2)
    expected = table.ahead(lambda state: state**2)(np.array([[1.0]]))[0, 2, 0]
    assert expected == pytest.approx(np.mean(steps.next_state[rows] ** 2))


def test_the_choice_is_by_held_out_error_and_says_so(paper):
    world, panel = paper
    learned = learn_transition(panel, policy_of(world, panel), key=jr.key(0))
    assert learned.name == "moves"
    assert {name for name, _ in learned.evidence} >= {"moves", "regression"}
    assert "held-out error" in learned.note


def test_what_ends_is_worth_nothing():
    rng = np.random.default_rng(0)
    state = rng.normal(size=(500, 2))
    action = rng.integers(2, size=500)
    ends = action == 1
    panel = deeppqr.Panel.from_arrays(
        state, action, state + 0.1, unit=np.arange(500) // 10, terminal=ends
    )
    moves = Moves.learn(Steps.of(panel), key=jr.key(0))
    after = moves.ahead(lambda s: np.ones((len(s), 1)))(state[:50])[:, :, 0]
    assert after[:, 0].mean() > 0.95
    assert after[:, 1].mean() < 0.05
