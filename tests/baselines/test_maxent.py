"""MaxEnt-IRL: right without a future, wrong with one, and what Q(0, 0) does for it."""

import numpy as np
import pytest

from deeppqr.baselines import MaxEntIRL
from deeppqr.mdp import TabularMDP
from deeppqr.policy import Frequency
from deeppqr.worlds import TabularWorld, random_tabular


def grounded(world, fit):
    return fit.grounded(0, lambda s: world.reward(s)[:, 0]).reward(world.states)


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_right_without_a_future(temperature):
    """At discount zero Q is the reward: log-odds have its error and no other."""
    world = random_tabular(discount=0.0, temperature=temperature, seed=3)
    panel = world.simulate(steps=40_000, units=100, seed=4)
    fit = MaxEntIRL(temperature, policy=Frequency(smoothing=0.0)).fit(panel)
    count = np.zeros((7, 3))
    np.add.at(count, (panel.state[:, 0].astype(int), panel.action), 1)
    # The delta method on log-odds of counts.
    error = temperature * np.sqrt(1 / count + 1 / count[:, :1])
    miss = np.abs(grounded(world, fit) - world.mdp.reward)
    assert (miss[:, 1:] < 4 * error[:, 1:]).all()
    assert (miss[:, 0] == 0).all()


def test_far_off_with_one():
    """With the exact policy, so that nothing but the method is to blame: what is left is
    what follows the action, on average as large as the reward where actions decide on it."""
    after = (np.arange(7)[:, None] + np.arange(3)) % 7
    ratios = []
    for seed in range(6):
        reward = np.random.default_rng(seed).normal(size=(7, 3))
        world = TabularWorld(TabularMDP(reward, np.eye(7)[after], 0.9))
        panel = world.simulate(steps=500, units=5, seed=4)
        miss = grounded(world, MaxEntIRL(policy=world.log_policy).fit(panel)) - reward
        ahead = 0.9 * world.solution.value[after]
        np.testing.assert_allclose(miss, ahead - ahead[:, :1], atol=1e-10)
        ratios.append(np.mean(miss**2) / np.mean((reward - reward[:, :1]) ** 2))
    assert np.mean(ratios) > 0.5


def test_the_origin_shifts_by_a_constant(tabular):
    world, panel = tabular
    q = world.solution.q[3, 1]
    plain = MaxEntIRL(policy="frequency").fit(panel)
    told = MaxEntIRL(policy="frequency", q_at_origin=(3, 1, q)).fit(panel)
    shift = told.reward(world.states) - plain.reward(world.states)
    np.testing.assert_allclose(shift, shift[0, 0], atol=1e-12)
    np.testing.assert_allclose(told.reward(world.states)[3, 1], q, atol=1e-12)
    assert (plain.given, told.given) == ("nothing", "the true Q at one state and action")
    # What is common to all actions drops out of the paper's comparison of rewards.
    np.testing.assert_allclose(grounded(world, told), grounded(world, plain), atol=1e-12)


def test_energies_sum_to_one(tabular):
    world, panel = tabular
    fit = MaxEntIRL(temperature=0.5, policy="frequency").fit(panel)
    np.testing.assert_allclose(
        fit.reward(world.states), 0.5 * fit.log_policy(world.states), atol=1e-12
    )
