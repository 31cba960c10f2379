"""The world built backwards: its reward makes its action values optimal, exactly."""

import numpy as np
import pytest
from scipy.special import logsumexp

from deeppqr import DataError
from deeppqr.worlds import SmoothWorld

SIZES = [(3, 4), (4, 6), (6, 25)]


def simpson(world, states, action, points=2_001):
    """E[V(s') | s, a] by Simpson's rule over the noise: a rule other than the world's."""
    noise = np.linspace(-np.sqrt(3), np.sqrt(3), points)
    weight = np.ones(points)
    weight[1:-1:2], weight[2:-1:2] = 4, 2
    still, direction = world._moves(states, action)
    ahead = still + noise[:, None, None] * direction
    value = world.value(ahead.reshape(-1, world.dim)).reshape(points, len(states))
    return weight @ value / weight.sum()


@pytest.mark.parametrize(("dim", "num_actions"), SIZES)
def test_q_satisfies_the_soft_bellman_equation(dim, num_actions, rng):
    """By Simpson's rule, whose error at steps of h = 0.0017 is of the order h^4 = 1e-11."""
    world = SmoothWorld(dim=dim, num_actions=num_actions, seed=dim)
    states = rng.normal(size=(5, dim))
    q, reward = world.q(states), world.reward(states)
    np.testing.assert_allclose(world.value(states), logsumexp(q, axis=1), atol=1e-12)
    for action in (0, num_actions // 2, num_actions - 1):
        target = reward[:, action] + world.discount * simpson(world, states, action)
        np.testing.assert_allclose(q[:, action], target, atol=1e-10)


@pytest.mark.parametrize("discount", [0.0, 0.5, 0.99])
@pytest.mark.parametrize("temperature", [0.2, 5.0])
def test_any_discount_and_temperature(discount, temperature, rng):
    """The same policy at every temperature; without a future the reward is Q."""
    world = SmoothWorld(discount=discount, temperature=temperature)
    states = rng.normal(size=(5, 4))
    q, reward = world.q(states), world.reward(states)
    target = reward[:, 1] + discount * simpson(world, states, 1)
    np.testing.assert_allclose(q[:, 1], target, atol=1e-10 * (1 + temperature))
    policy = SmoothWorld().log_policy(states)
    np.testing.assert_allclose(world.log_policy(states), policy, atol=1e-12)
    if discount == 0:
        np.testing.assert_array_equal(reward, q)


def test_simulated_steps_follow_the_law(rng):
    """The mean of V over simulated next states, within four standard errors."""
    world = SmoothWorld(dim=3, num_actions=4, seed=2)
    for action, state in enumerate(rng.normal(size=(4, 3))):
        states = np.tile(state, (20_000, 1))
        reached = world.next_states(states, np.full(20_000, action), rng)
        value = world.value(reached)
        expected = world.continuation(state[None], action)[0]
        assert abs(value.mean() - expected) < 4 * value.std() / np.sqrt(len(value))


def test_the_law_as_an_object_gives_the_same_expectation(rng):
    world = SmoothWorld(dim=3, num_actions=4, labels=True)
    states = rng.normal(size=(20, 3))
    for column, action in enumerate(world.actions):
        found = world.transition.expect(world.value, states, action, common_value=0.0)
        expected = world.continuation(states, column)
        np.testing.assert_allclose(found, expected, atol=1e-12)


def test_the_anchor_earns_what_the_world_says(rng):
    """A function that varies: nobody could guess it from a constant."""
    world = SmoothWorld(seed=3)
    states = rng.normal(size=(200, 4))
    np.testing.assert_array_equal(world.anchor_reward(states), world.reward(states)[:, 0])
    assert world.anchor_reward(states).std() > 0.3
    assert world.anchor == world.actions[0] == 0


@pytest.mark.parametrize(("dim", "num_actions"), SIZES)
@pytest.mark.parametrize("seed", [0, 1])
def test_panels_are_neither_flat_nor_starved(dim, num_actions, seed):
    """Every action is taken, every direction is visited, Q differs as much as asked."""
    world = SmoothWorld(dim=dim, num_actions=num_actions, seed=seed)
    panel = world.simulate(steps=20_000, units=1_000, seed=1)
    share = np.bincount(panel.action, minlength=num_actions) / len(panel)
    assert share.min() > 0.015
    q = world.q(panel.state)
    spread = np.sqrt(2 * q.var(axis=1, ddof=1).mean())
    assert 1.0 < spread < 1.5  # normalised over normal states, not over these
    late = panel.state[19::20]
    assert np.linalg.eigvalsh(np.cov(late.T)).min() > 0.15
    assert np.abs(late).max() < 8


def test_decisions_follow_the_policy():
    """The score of each action has mean zero within four standard errors."""
    world = SmoothWorld(dim=3, num_actions=5, seed=4)
    panel = world.simulate(steps=20_000, units=1_000, seed=1)
    policy = np.exp(world.log_policy(panel.state))
    np.testing.assert_allclose(policy.sum(axis=1), 1, atol=1e-12)
    score = np.eye(5)[panel.action] - policy
    assert (np.abs(score.mean(axis=0)) < 4 * score.std(axis=0) / np.sqrt(len(score))).all()


def test_the_reward_is_neither_linear_nor_the_same_for_all_actions():
    """What a regression on the states alone leaves unexplained."""
    world = SmoothWorld()
    states = world.simulate(steps=5_000, units=500).state
    design = np.column_stack([np.ones(len(states)), states])
    reward = world.reward(states)
    left = reward - design @ np.linalg.lstsq(design, reward, rcond=None)[0]
    assert (left.var(axis=0) / reward.var(axis=0)).mean() > 0.1
    assert (reward - reward.mean(axis=1, keepdims=True)).std() > 0.3


def test_same_seed_same_panel():
    one, two, other = (
        SmoothWorld(seed=1).simulate(steps=200, units=20, seed=s) for s in (5, 5, 6)
    )
    np.testing.assert_array_equal(one.next_state, two.next_state)
    np.testing.assert_array_equal(one.action, two.action)
    assert (one.next_state != other.next_state).any()


def test_labels_change_nothing_else():
    plain, named = SmoothWorld(), SmoothWorld(labels=True)
    one, two = (world.simulate(steps=200, units=20) for world in (plain, named))
    assert one.actions == (0, 1, 2, 3, 4, 5)
    assert two.actions == ("a0", "a1", "a2", "a3", "a4", "a5")
    np.testing.assert_array_equal(one.action, two.action)
    np.testing.assert_array_equal(one.state, two.state)


def test_messages():
    with pytest.raises(DataError, match="`dim` must be at least 2, but it is 1"):
        SmoothWorld(dim=1)
    with pytest.raises(DataError, match="`num_actions` must be at least 2, but it is 0"):
        SmoothWorld(num_actions=0)
    with pytest.raises(DataError, match="`spread` must be positive, but it is 0"):
        SmoothWorld(spread=0.0)
    with pytest.raises(DataError, match="`discount` must lie in"):
        SmoothWorld(discount=1.0)
    with pytest.raises(DataError, match=r"`states` must have 4 columns.*\(2, 3\)"):
        SmoothWorld().q(np.zeros((2, 3)))
    with pytest.raises(DataError, match="finite numbers, but row 1 does not"):
        SmoothWorld().reward([[0.0, 0.0, 0.0, 0.0], [0.0, np.nan, 0.0, 0.0]])
