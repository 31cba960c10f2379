"""The paper's world: the printed formula, the exact solution, the demonstrations."""

import numpy as np
import pytest
from scipy.special import logsumexp

from deeppqr import DataError
from deeppqr.worlds import PaperWorld
from oracles import paper_reward

STEPS = np.array([-0.5, -0.3, -0.1, 0.1, 0.3])


def bellman_gap(world, states):
    """Largest |Q - r - discount E[V(s')]|, the jump's expectation being J."""
    q, reward = world.q(states), world.reward(states)
    gap = 0.0
    for action, step in enumerate(STEPS):
        moved = states + step
        inside = (np.abs(moved) <= world.p + 1e-9).all(axis=1)
        ahead = np.full(len(states), world.jump_value)
        ahead[inside] = world.value(moved[inside])
        target = reward[:, action] + world.discount * ahead
        gap = max(gap, float(np.abs(q[:, action] - target).max()))
    return gap


def test_reward_is_the_printed_formula(rng):
    world = PaperWorld(p=4, reward_scale=3.0, seed=2)
    states = rng.uniform(-4, 4, size=(10, 4))
    found = world.reward(states)
    for row, state in enumerate(states):
        for action in range(5):
            expected = paper_reward(state, action, world.omega, 3.0)
            assert found[row, action] == pytest.approx(expected, abs=1e-14)


@pytest.mark.parametrize("p", [1, 5, 10, 20, 40])
@pytest.mark.parametrize("scale", [1.0, 10.0])
def test_q_satisfies_the_soft_bellman_equation(p, scale, rng):
    world = PaperWorld(p=p, reward_scale=scale, seed=p)
    states = rng.uniform(-p, p, size=(200, p))
    assert bellman_gap(world, states) < 1e-9
    value = logsumexp(world.q(states), axis=1)
    np.testing.assert_allclose(value, world.value(states), atol=1e-9)


@pytest.mark.parametrize("discount", [0.0, 0.5, 0.9999])
@pytest.mark.parametrize("temperature", [0.1, 10.0])
def test_any_discount_and_temperature(discount, temperature, rng):
    world = PaperWorld(p=3, reward_scale=5.0, discount=discount, temperature=temperature)
    states = rng.uniform(-3, 3, size=(50, 3))
    size = 1 + abs(world.jump_value)
    assert bellman_gap(world, states) < 1e-9 * size
    log_policy = world.log_policy(states)
    np.testing.assert_allclose(np.exp(log_policy).sum(axis=1), 1, atol=1e-12)


@pytest.mark.parametrize(
    "feature", [{"state_only": True}, {"premium": 4.0}], ids=["state only", "premium"]
)
@pytest.mark.parametrize("p", [1, 10])
def test_the_truth_is_as_exact_with_other_rewards(feature, p, rng):
    world = PaperWorld(p=p, reward_scale=3.0, seed=p, **feature)
    states = rng.uniform(-p, p, size=(200, p))
    assert bellman_gap(world, states) < 1e-10


def test_a_state_only_reward_is_one_of_the_state(rng):
    world = PaperWorld(p=4, reward_scale=3.0, seed=2, state_only=True)
    states = rng.uniform(-4, 4, size=(10, 4))
    expected = [3 * np.tanh(state @ world.omega[:4] / 4) for state in states]
    np.testing.assert_allclose(world.reward(states), np.outer(expected, np.ones(5)))
    # Then actions differ only in where they lead.
    assert world.log_policy(states).std() > 0.01


def test_a_shaped_reward_explains_the_same_decisions(rng):
    """Lemma 2: with phi(s) the gap in V, r' + gamma E[V'] differs from Q by phi(s) alone.

    Where the belief is right, nothing is shaped.
    """
    world = PaperWorld(p=3, reward_scale=3.0, seed=2, state_only=True)
    states = rng.uniform(-2, 2, size=(50, 3))
    shaped = world.shaped_reward(states, 3)
    np.testing.assert_allclose(shaped[:, 3], 0, atol=1e-12)
    # One step by action 2 and back by action 3 stays inside the box and costs nothing in
    # phi: phi(s) - gamma phi(s') + gamma {phi(s') - gamma phi(s)} = (1 - gamma^2) phi(s).
    there = states + STEPS[2]
    along = shaped[:, 2] + 0.9 * world.shaped_reward(there, 3)[:, 3]
    real = world.reward(states)[:, 2] + 0.9 * world.reward(there)[:, 3]
    again = shaped[:, 3] + 0.9 * world.shaped_reward(states + STEPS[3], 3)[:, 2]
    true = world.reward(states)[:, 3] + 0.9 * world.reward(states + STEPS[3])[:, 2]
    np.testing.assert_allclose(along - real, again - true, atol=1e-11)
    honest = PaperWorld(p=3, reward_scale=3.0, seed=2)
    np.testing.assert_allclose(
        honest.shaped_reward(states, 0), honest.reward(states), atol=1e-12
    )


def test_a_premium_leaves_the_anchor_alone_and_makes_it_rare(rng):
    states = rng.uniform(-3, 3, size=(500, 3))
    plain, paid = PaperWorld(p=3, seed=2), PaperWorld(p=3, seed=2, premium=4.0)
    np.testing.assert_allclose(
        paid.reward(states) - plain.reward(states), np.outer(np.ones(500), [0, 4, 4, 4, 4])
    )
    shares = [np.exp(world.log_policy(states))[:, 0].mean() for world in (plain, paid)]
    # Where nothing else differs, 1/5 and 1 / (1 + 4 exp 4).
    np.testing.assert_allclose(shares, [0.2, 0.0046], rtol=0.5)


def test_without_them_nothing_changes(rng):
    """Bit for bit: the printed formula, evaluated as it was before they were added."""
    world = PaperWorld(p=4, reward_scale=3.0, seed=2)
    states = rng.uniform(-4, 4, size=(10, 4))
    index, action = states @ world.omega[:-1] / 4, np.arange(5)
    bend = np.tanh(index[:, None] + action / 4 * world.omega[-1])
    before = 3.0 * action * bend / (4 * world.omega.sum())
    np.testing.assert_array_equal(world.reward(states), before)


def test_jump_value_is_the_mean_value_of_a_uniform_state(rng):
    """Within four standard errors of an independent Monte-Carlo mean."""
    world = PaperWorld(p=5, reward_scale=10.0, seed=0)
    value = world.value(rng.uniform(-5, 5, size=(4_000, 5)))
    assert abs(value.mean() - world.jump_value) < 4 * value.std() / np.sqrt(4_000)


def test_the_values_our_notes_record():
    """J of an independent prototype, one draw of omega, to its two decimals."""
    found = [PaperWorld(p=p, seed=0).jump_value for p in (5, 10, 20)]
    np.testing.assert_allclose(found, [17.03, 16.34, 16.09], atol=0.005)


def test_no_future_makes_q_the_reward(rng):
    world = PaperWorld(p=3, discount=0.0)
    states = rng.uniform(-3, 3, size=(20, 3))
    np.testing.assert_allclose(world.q(states), world.reward(states), atol=1e-15)


def test_demonstrations_follow_the_transition_law():
    world = PaperWorld(p=5, seed=3)
    panel = world.simulate(steps=2_000, units=20, seed=4)
    moved = panel.state + STEPS[panel.action][:, None]
    inside = (np.abs(moved) <= 5 + 1e-9).all(axis=1)
    np.testing.assert_allclose(panel.next_state[inside], moved[inside], atol=1e-9)
    assert 0.01 < 1 - inside.mean() < 0.5
    assert (np.abs(panel.next_state) <= 5 + 1e-9).all()


def test_demonstrations_follow_the_optimal_policy():
    """The score of a correct log-likelihood: mean zero within four standard errors."""
    world = PaperWorld(p=3, reward_scale=10.0, seed=5)
    panel = world.simulate(steps=5_000, units=50, seed=6)
    policy = np.exp(world.log_policy(panel.state))
    taken = np.eye(5)[panel.action]
    for action in range(5):
        score = (taken - policy)[:, action]
        assert abs(score.mean()) < 4 * score.std() / np.sqrt(len(score))


def test_messages():
    world = PaperWorld(p=3)
    with pytest.raises(DataError, match="`states` must have 3 columns"):
        world.q(np.zeros((2, 4)))
    with pytest.raises(DataError, match=r"box \[-3, 3\]\^3, but row 1 does not"):
        world.q(np.array([[0.0, 0, 0], [4, 0, 0]]))
    with pytest.raises(DataError, match="`p` must be a whole number, 1 to 21,201"):
        PaperWorld(p=0)
    with pytest.raises(DataError, match="`premium` must be a number between"):
        PaperWorld(premium=np.inf)
    with pytest.raises(DataError, match="`discount` must lie in"):
        PaperWorld(discount=1.0)
