"""What an identified reward is for: an agent trained on it where the world has changed.

Demonstrations come from the soft optimum of one world; the agent acts in another with the
same reward and other transitions. Q read as a reward carries the first world's
transitions along; the reward does not.
"""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import log_softmax

import deeppqr
from deeppqr.mdp import TabularMDP, solve_soft
from deeppqr.worlds import TabularWorld
from oracles import policy_value

DISCOUNT = 0.9
SEEDS = range(10)


def worlds(seed):
    """Two worlds of six states and three actions that differ in where actions lead."""
    rng = np.random.default_rng(seed)
    reward = rng.normal(size=(6, 3))
    laws = rng.dirichlet(np.full(6, 0.3), size=(2, 6, 3))
    return [TabularWorld(TabularMDP(reward, law, DISCOUNT)) for law in laws]


def fitted(world, seed):
    """PQR from 20,000 decisions, knowing the reward of action 0."""
    panel = world.simulate(steps=20_000, units=100, seed=seed)
    g = lambda states: world.reward(states)[:, 0]
    return deeppqr.PQR(
        discount=DISCOUNT, anchor=0, anchor_reward=g, reward="regression"
    ).fit(panel)


def regret(world, log_policy, temperature):
    """The share of the optimum's gain over uniform choice that a policy misses.

    Values count the true reward and `temperature` times the entropy.
    """
    mdp = replace(world.mdp, temperature=temperature)
    best = solve_soft(mdp).value.mean()
    uniform = policy_value(mdp, np.full((6, 3), -np.log(3))).mean()
    return (best - policy_value(mdp, log_policy).mean()) / (best - uniform)


def planned(world, reward, temperature):
    """The policy that is optimal in `world` for another reward."""
    return solve_soft(replace(world.mdp, reward=reward, temperature=temperature)).log_policy


@pytest.mark.slow
@pytest.mark.parametrize("temperature", [1.0, 0.01], ids=["soft", "nearly greedy"])
def test_a_fitted_reward_transfers_and_q_does_not(temperature, capsys):
    """Agents that plan in the new world, softly and almost without randomness."""
    found = []
    for seed in SEEDS:
        old, new = worlds(seed)
        fit = fitted(old, seed)
        rewards = new.mdp.reward, fit.reward(old.states), fit.q(old.states)
        found.append(
            [regret(new, planned(new, r, temperature), temperature) for r in rewards]
        )
    true, pqr, q = np.mean(found, axis=0)
    with capsys.disabled():
        print(
            f"\nshare of the gain missed, temperature {temperature}: true reward {true:.4f}, "
            f"PQR {pqr:.4f} (worst {np.max(found, axis=0)[1]:.4f}), Q {q:.4f}"
        )
    assert abs(true) < 1e-8
    assert pqr < 0.03
    assert q > 5 * pqr
    assert q > 0.05


def soft_q_learning(env, *, steps, seed):
    """A table of Q learned from the rewards an environment pays, every step an update."""
    rng = np.random.default_rng(seed)
    q, visits = np.zeros((6, 3)), np.zeros((6, 3))
    state = int(env.reset(seed=seed)[0][0])
    for _ in range(steps):
        action = int(rng.integers(3))
        after, reward, _, _, _ = env.step(action)
        after = int(after[0])
        visits[state, action] += 1
        target = reward + DISCOUNT * np.log(np.exp(q[after]).sum())
        # Rates 1/n forget too slowly at this discount; n**-0.7 is a usual choice.
        q[state, action] += visits[state, action] ** -0.7 * (target - q[state, action])
        state = after
    return log_softmax(q, axis=1)


@pytest.mark.slow
def test_an_agent_learns_the_reward_in_gymnasium(capsys):
    """The same without a model: Q-learning inside the new world's environment."""
    pytest.importorskip("gymnasium")
    from deeppqr.mdp import FittedReward, WorldEnv

    class QAsReward:
        def __init__(self, fit):
            self.actions, self.reward = fit.actions, fit.q

    found = []
    for seed in range(3):
        old, new = worlds(seed)
        fit = fitted(old, seed)
        envs = (
            WorldEnv(new),
            FittedReward(WorldEnv(new), fit),
            FittedReward(WorldEnv(new), QAsReward(fit)),
        )
        learned = [soft_q_learning(env, steps=20_000, seed=seed) for env in envs]
        found.append([regret(new, log_policy, 1.0) for log_policy in learned])
    true, pqr, q = np.mean(found, axis=0)
    with capsys.disabled():
        print(
            f"\nshare of the gain missed after Q-learning: true reward {true:.4f}, "
            f"PQR {pqr:.4f}, Q {q:.4f}"
        )
    assert pqr < 0.05
    assert q > 5 * pqr
