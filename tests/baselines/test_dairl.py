"""D-AIRL: its theorem where the assumptions hold, and its failure where they do not."""

import numpy as np
import pytest

import deeppqr
from deeppqr.baselines import DAIRL
from deeppqr.baselines._discriminator import discriminator_loss
from deeppqr.mdp import TabularMDP
from deeppqr.policy import Training
from deeppqr.worlds import TabularWorld


def ring(reward, *, discount=0.9, temperature=1.0):
    """Action a moves a steps around the ring: deterministic and decomposable."""
    num_states, num_actions = reward.shape
    after = (np.arange(num_states)[:, None] + np.arange(num_actions)) % num_states
    transition = np.eye(num_states)[after]
    return TabularWorld(TabularMDP(reward, transition, discount, temperature))


@pytest.fixture
def state_reward(rng):
    return np.repeat(rng.normal(size=(7, 1)), 3, axis=1)


@pytest.mark.parametrize("generator", ["policy", "uniform"])
@pytest.mark.parametrize(("discount", "temperature"), [(0.0, 1.0), (0.9, 0.7), (0.99, 2.0)])
def test_recovers_a_state_only_reward(generator, discount, temperature, state_reward):
    """With the exact policy: up to a constant, to the rounding of Q over 1 - discount."""
    world = ring(state_reward, discount=discount, temperature=temperature)
    panel = world.simulate(steps=4_000, units=40, seed=1)
    fit = DAIRL(discount, temperature, policy=world.log_policy, generator=generator).fit(
        panel
    )
    off = fit.reward(world.states) - world.mdp.reward
    if discount == 0:  # then nothing of the reward shows in behaviour
        np.testing.assert_allclose(fit.reward(world.states), 0, atol=1e-9)
        return
    np.testing.assert_allclose(off, off[0, 0], atol=1e-9 / (1 - discount))
    visited = fit.reward(panel.state)[:, 0]
    np.testing.assert_allclose(visited.mean(), 0, atol=1e-9)


def test_recovers_it_from_decisions(state_reward):
    """The error falls with the root of the number of decisions."""
    world = ring(state_reward)
    errors = []
    for steps in (10_000, 160_000):
        panel = world.simulate(steps=steps, units=100, seed=2)
        off = DAIRL(0.9, policy="frequency").fit(panel).reward(world.states)[:, 0]
        off = off - world.mdp.reward[:, 0]
        errors.append((off - off.mean()).std())
    assert errors[1] < 0.5 * errors[0]  # a quarter is expected
    assert errors[1] < 0.1 * world.mdp.reward.std()


@pytest.mark.filterwarnings("ignore::deeppqr.DataWarning")  # ten copies of each row
def test_terminal_rows_pin_the_level_down(rng):
    """Where some decisions end the process, g is r and not only up to a constant."""
    world = ring(np.repeat(rng.normal(size=(5, 1)), 3, axis=1))
    stop = rng.random((5, 3)) < 0.3
    stop[0, 0] = True
    alive = world.mdp.transition * ~stop[:, :, None]
    value = np.zeros(5)
    for _ in range(400):
        q = world.mdp.reward + 0.9 * alive @ value
        value = np.log(np.exp(q).sum(axis=1))
    log_policy = q - value[:, None]
    state, action = (index.ravel() for index in np.indices((5, 3)))
    after = np.where(stop[state, action], np.nan, (state + action) % 5)
    panel = deeppqr.Panel.from_arrays(
        np.tile(state, 10).astype(float),
        np.tile(action, 10),
        np.tile(after, 10),
        terminal=np.tile(stop[state, action], 10),
    )
    given = lambda states: log_policy[states[:, 0].astype(int)]
    fit = DAIRL(0.9, policy=given, form="table").fit(panel)
    np.testing.assert_allclose(fit.reward(world.states), world.mdp.reward, atol=1e-8)


@pytest.mark.parametrize("seed", range(3))
def test_fails_where_the_reward_depends_on_the_action(seed):
    """With the exact policy: no constant brings the estimate near the truth."""
    reward = np.random.default_rng(seed).normal(size=(7, 3))
    world = ring(reward)
    panel = world.simulate(steps=4_000, units=40, seed=1)
    off = DAIRL(0.9, policy=world.log_policy).fit(panel).reward(world.states) - reward
    assert off.std() > 0.5 * reward.std()
    mean = off.mean(axis=1)
    assert mean.std() > 0.1 * reward.std()  # nor the truth's mean over actions


def test_fails_where_transitions_are_random(rng, state_reward):
    transition = rng.dirichlet(np.ones(7), size=(7, 3))
    world = TabularWorld(TabularMDP(state_reward, transition, 0.9))
    panel = world.simulate(steps=20_000, units=40, seed=1)
    off = DAIRL(0.9, policy=world.log_policy).fit(panel).reward(world.states)
    off = off - state_reward
    assert off.std() > 0.1 * state_reward.std()


def test_a_state_only_reward_grounded_is_zero(state_reward):
    world = ring(state_reward)
    fit = DAIRL(0.9).fit(world.simulate(steps=4_000, units=40, seed=1)).grounded(0)
    assert (fit.reward(world.states) == 0).all()


def test_networks_agree_with_tables(state_reward):
    """On indicators a network is a table: the same f, up to training."""
    world = ring(state_reward[:5])
    panel = world.simulate(steps=4_000, units=40, seed=1)
    names = np.array(list("abcde"), dtype=object)
    code = lambda states: names[states.astype(int)]
    named = deeppqr.Panel.from_arrays(
        code(panel.state), panel.action, code(panel.next_state), unit=panel.unit
    )
    given = lambda states: world.log_policy(
        [[list("abcde").index(s)] for s in states[:, 0]]
    )
    training = Training(width=32, depth=1, members=2, max_steps=1_500, batch_size=256)
    fit = DAIRL(0.9, policy=given, form="network", training=training).fit(named)
    off = fit.reward(names)[:, 0] - world.mdp.reward[:, 0]
    # (g, h) moves along its flattest direction at rate 1 - discount: a tenth is left.
    assert (off - off.mean()).std() < 0.1 * world.mdp.reward.std()


def test_the_discriminator_is_best_at_the_policy():
    """The loss of one row is least at f = log pi, whatever P is."""
    score = np.linspace(-4, 0, 4_001)
    for log_policy, log_generator in ((-1.0, -1.0), (-2.5, -0.5), (-0.3, -3.0)):
        negative = np.exp(log_generator - log_policy)
        loss = np.asarray(discriminator_loss(score, log_generator, negative))
        assert abs(score[loss.argmin()] - log_policy) < 0.02  # float32 is flat there
