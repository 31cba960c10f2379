"""The imitation library: its trajectories, its AIRL, and what is said without it."""

import builtins
from dataclasses import replace

import jax.random as jr
import numpy as np
import pytest

import deeppqr
from deeppqr import DataError, Panel
from deeppqr.policy import ImitationAIRL
from deeppqr.policy._given import from_stable_baselines
from deeppqr.policy._policy import log_shares
from deeppqr.worlds import random_tabular

ignore_warnings = pytest.mark.filterwarnings("ignore")  # torch's and Gymnasium's own


@pytest.fixture(scope="module")
def small():
    """Four states, three actions, and 8,000 decisions."""
    world = random_tabular(4, 3, seed=2)
    return world, world.simulate(steps=8_000, units=100, seed=3)


@pytest.fixture
def quick():
    """Two rounds of training and no more."""
    pytest.importorskip("imitation")
    import torch  # pyright: ignore[reportMissingImports]

    torch.set_num_threads(1)
    options = {"total_timesteps": 256, "num_envs": 2, "steps_per_round": 64}
    return lambda make, **more: ImitationAIRL(make, discount=0.9, **{**options, **more})


def test_the_extra_is_named_when_it_is_missing(small, key, monkeypatch):
    really = builtins.__import__

    def without(name, *rest, **options):
        if name.startswith("imitation"):
            raise ImportError(name, name=name)
        return really(name, *rest, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(DataError, match=r"package imitation, .* 'deeppqr\[imitation\]'"):
        ImitationAIRL(lambda: None, discount=0.9).fit(small[1], key=key)


@ignore_warnings
@pytest.mark.adapters
def test_its_airl_learns_the_policy(small, quick):
    """It predicts held-out units better than action shares do, and PQR runs on it."""
    from deeppqr.mdp import WorldEnv

    world, panel = small
    airl = quick(
        lambda: WorldEnv(world, horizon=50),
        total_timesteps=30_000,
        num_envs=4,
        steps_per_round=128,
        updates_per_round=8,
        learning_rate=1e-3,
        discriminator_rate=3e-3,
    )
    found = airl.fit(panel, key=jr.key(0))
    judged = ~np.isnan(found.held_out)
    assert 0.15 < judged.mean() < 0.25
    shares = log_shares(panel)[panel.action[judged]].mean()
    best = world.log_policy(panel.state)[np.arange(len(panel)), panel.action][judged].mean()
    # Adversarial training gets near, not there: about 0.4 of the shares' distance is left.
    assert best - found.held_out[judged].mean() < 0.6 * (best - shares)
    assert found.note == "imitation's AIRL, 58 rounds, 6,400 decisions"
    fit = deeppqr.PQR(
        discount=0.9,
        anchor=0,
        anchor_reward=lambda states: world.reward(states)[:, 0],
        policy=lambda states: found.policy.log_prob(states),
    ).fit(panel)
    assert np.isfinite(fit.reward(world.states)).all()


@ignore_warnings
@pytest.mark.adapters
def test_a_key_fixes_the_policy_and_weights_matter(small, quick):
    from deeppqr.mdp import WorldEnv

    world, panel = small
    airl = quick(lambda: WorldEnv(world, horizon=16))
    heavy = replace(panel, weight=np.where(panel.action == 1, 1.5, 0.5))
    one, same, other, weighted = (
        airl.fit(data, key=jr.key(seed)).policy.log_prob(world.states)
        for data, seed in ((panel, 0), (panel, 0), (panel, 1), (heavy, 0))
    )
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()
    assert (one != weighted).any()


@ignore_warnings
@pytest.mark.adapters
def test_episodes_that_end_and_discrete_observations(quick, key):
    """Environments of another make: CartPole, which ends, and Taxi with its cells."""
    gymnasium = pytest.importorskip("gymnasium")

    make = lambda: gymnasium.make("CartPole-v1", max_episode_steps=20)
    panel = deeppqr.mdp.rollout(make(), None, steps=600, seed=0)
    assert panel.terminal.any()
    ends = quick(make, variable_horizon=True, entropy=False).fit(panel, key=key)
    assert np.isfinite(ends.policy.log_prob(panel.state)).all()

    make = lambda: gymnasium.make("Taxi-v3", max_episode_steps=20)
    panel = deeppqr.mdp.rollout(make(), None, steps=300, seed=0)
    cells = quick(make, variable_horizon=True).fit(panel, key=key)
    total = np.exp(cells.policy.log_prob(panel.state)).sum(axis=1)
    np.testing.assert_allclose(total, 1, atol=1e-5)


@ignore_warnings
@pytest.mark.adapters
def test_its_trajectories_and_generators_are_read(small):
    """Rollouts by imitation, of a stable-baselines3 policy, in our environment."""
    rollout = pytest.importorskip("imitation.data.rollout")
    from stable_baselines3 import PPO  # pyright: ignore[reportMissingImports]
    from stable_baselines3.common.vec_env import DummyVecEnv  # pyright: ignore[reportMissingImports]

    from deeppqr.mdp import WorldEnv

    world, _ = small
    envs = DummyVecEnv([lambda: WorldEnv(world, horizon=10)] * 2)
    model = PPO("MlpPolicy", envs, seed=0, device="cpu", n_steps=32, batch_size=64)
    trajectories = rollout.rollout(
        model,
        envs,
        rollout.make_sample_until(min_episodes=20),
        rng=np.random.default_rng(0),
        unwrap=False,
    )
    panel = Panel.from_trajectories(trajectories, state_names=["s"])
    assert panel.num_units == len(trajectories)
    np.testing.assert_array_equal(panel.state[:10], trajectories[0].obs[:10])
    np.testing.assert_array_equal(panel.terminal[9], trajectories[0].terminal)
    given = from_stable_baselines(model).fit(panel, key=jr.key(0))
    assert given.policy.log_prob(world.states).shape == (4, 3)


@ignore_warnings
@pytest.mark.adapters
def test_messages(small, quick, key):
    from deeppqr.mdp import WorldEnv
    from deeppqr.worlds import PaperWorld

    world, panel = small
    names = np.array(["a", "b", "c", "d"], dtype=object)
    code = lambda states: names[states.astype(int)]
    named = Panel.from_arrays(code(panel.state), panel.action, code(panel.next_state))
    wide = Panel.from_arrays(
        panel.state[:, [0, 0]], panel.action, panel.next_state[:, [0, 0]]
    )
    five, three = lambda: WorldEnv(PaperWorld(p=1)), lambda: WorldEnv(world)
    for airl, data, message in (
        (quick(three, total_timesteps=100), panel, "2 environments times 64 steps, but it is 100"),
        (quick(five), panel, r"each of the panel's 3, \[0, 1, 2\], but it has Discrete\(5\)"),
        (quick(three), named, "must be numeric to be observations, but 'x1' is categorical"),
        (quick(three), wide, r"the panel's 2 state columns, \['x1', 'x2'\], but .* have 1"),
    ):  # fmt: skip
        with pytest.raises(DataError, match=message):
            airl.fit(data, key=key)
