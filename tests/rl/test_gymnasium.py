"""Environments as sources of panels, worlds as environments, fitted rewards in them."""

import builtins
import sys

import numpy as np
import pytest

import deeppqr
from deeppqr import DataError
from deeppqr.mdp import TabularMDP
from deeppqr.worlds import PaperWorld, TabularWorld

gymnasium = pytest.importorskip("gymnasium")
from deeppqr.mdp import FittedReward, WorldEnv, rollout  # noqa: E402


class Corridor(gymnasium.Env):
    """Cells 0, 1, 2, ...: action 6 steps on, 5 stays; cell 2 is the end."""

    def __init__(self, observation_space=None):
        self.observation_space = observation_space or gymnasium.spaces.Discrete(3)
        self.action_space = gymnasium.spaces.Discrete(2, start=5)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.cell = 0
        return self.cell, {}

    def step(self, action):
        self.cell += int(action) - 5
        return self.cell, -1.0, self.cell == 2, False, {"cell": self.cell}


def advance(states):
    return np.log(np.tile([1e-300, 1.0], (len(states), 1)))


def test_episodes_end_or_are_cut_short():
    panel = rollout(Corridor(), advance, steps=5, seed=0)
    np.testing.assert_array_equal(panel.state[:, 0], [0, 1, 0, 1, 0])
    np.testing.assert_array_equal(panel.next_state[:, 0], [1, np.nan, 1, np.nan, 1])
    np.testing.assert_array_equal(panel.terminal, [False, True, False, True, False])
    np.testing.assert_array_equal(panel.unit, [0, 0, 1, 1, 2])
    assert panel.actions == (5, 6)
    cut = rollout(Corridor(), advance, steps=3, seed=0, max_episode=1)
    assert cut.num_units == 3
    assert not cut.terminal.any()
    assert cut.has_next.all()


def test_the_environment_may_truncate():
    env = gymnasium.wrappers.TimeLimit(WorldEnv(PaperWorld(p=2)), 4)
    panel = rollout(env, None, steps=12, seed=0)
    assert panel.num_units == 3
    assert panel.has_next.all()
    assert panel.state.shape == (12, 2)


def test_a_seed_fixes_the_panel(tabular):
    world, _ = tabular
    one, same, other = (
        rollout(WorldEnv(world), world.log_policy, steps=50, seed=seed, max_episode=10)
        for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(one.state, same.state)
    np.testing.assert_array_equal(one.action, same.action)
    assert (one.state != other.state).any()
    assert len(np.unique(one.state[::10])) > 1  # episodes differ


def test_a_world_is_the_same_as_an_environment(tabular):
    """Choices and moves within four standard errors of the world's own laws."""
    world, _ = tabular
    panel = rollout(WorldEnv(world), world.log_policy, steps=6_000, seed=0, max_episode=60)
    cell = panel.state[:, 0].astype(int)
    lands = panel.next_state[:, 0].astype(int)
    for state in range(7):
        at = cell == state
        laws = (
            (panel.action[at], np.exp(world.solution.log_policy[state])),
            (lands[at & (panel.action == 1)], world.mdp.transition[state, 1]),
        )
        for seen, law in laws:
            share = np.bincount(seen, minlength=len(law)) / len(seen)
            error = np.sqrt(law * (1 - law) / len(seen))
            assert (np.abs(share - law) < 4 * error + 1 / len(seen)).all()


@pytest.mark.filterwarnings("ignore::UserWarning")  # unbounded boxes are worth a remark
def test_world_env_passes_gymnasiums_checks(tabular):
    from gymnasium.utils.env_checker import check_env

    check_env(WorldEnv(tabular[0], horizon=5), skip_render_check=True)
    check_env(WorldEnv(PaperWorld(p=2)), skip_render_check=True)


def test_world_env_pays_the_worlds_reward(tabular):
    world, _ = tabular
    env = WorldEnv(world, horizon=3)
    before, _ = env.reset(seed=0)
    for step, action in enumerate([2, 0, 1]):
        after, reward, terminated, truncated, _ = env.step(action)
        assert reward == world.mdp.reward[int(before[0]), action]
        assert (terminated, truncated) == (False, step == 2)
        before = after


def test_fitted_rewards_replace_the_environments(tabular, anchor_reward):
    world, panel = tabular
    fit = deeppqr.PQR(
        discount=0.9, anchor=0, anchor_reward=anchor_reward, reward="regression"
    ).fit(panel)
    env = FittedReward(WorldEnv(world), fit)
    before, _ = env.reset(seed=0)
    for action in (0, 1, 2, 2):
        after, reward, _, _, info = env.step(action)
        assert reward == fit.reward(before[None])[0, action]
        assert info["env_reward"] == world.reward(before)[0, action]
        before = after


def test_fitted_rewards_count_actions_from_the_first():
    class Paid:
        actions = ("stay", "go")

        def reward(self, states):
            return states + np.array([[10.0, 20.0]])

    env = FittedReward(Corridor(), Paid())
    env.reset()
    assert env.step(6)[1] == 20.0
    assert env.step(5)[1] == 11.0
    assert env.step(6)[4] == {"cell": 2, "env_reward": -1.0}


def test_messages(tabular):
    world, panel = tabular
    fit = deeppqr.PQR(discount=0.9, anchor=0, reward="regression").fit(panel)
    box = gymnasium.spaces.Box(-1, 1, (2,))
    several, continuous = Corridor(gymnasium.spaces.Dict(a=box)), Corridor()
    continuous.action_space = box
    cases = (
        (lambda: rollout(several, None, steps=3, seed=0), "must be Box or Discrete, but they are Dict"),
        (lambda: rollout(continuous, None, steps=3, seed=0), "must be Discrete, but they are Box"),
        (lambda: rollout(Corridor(), None, steps=0, seed=0), "`steps` must be at least 1, but it is 0"),
        (lambda: rollout(Corridor(), None, steps=3, seed=0, max_episode=0), "`max_episode` must be at least 1"),
        (lambda: rollout(Corridor(), lambda s: np.zeros((1, 2)), steps=3, seed=0), r"shape \(1, 2\) and sum 2"),
        (lambda: rollout(Corridor(), lambda s: np.zeros(2), steps=3, seed=0), r"shape \(1, 2\) .* shape \(2,\)"),
        (lambda: WorldEnv(object()), "`world` must have .* but object has not"),
        (lambda: WorldEnv(world, horizon=0), "`horizon` must be at least 1 or None, but it is 0"),
        (lambda: WorldEnv(world).step(0), "must begin with `env.reset"),
        (lambda: FittedReward(WorldEnv(world), fit).step(0), "must begin with `env.reset"),
        (lambda: FittedReward(Corridor(), fit), r"each of the fit's 3, \[0, 1, 2\], but it has 2: \[5, 6\]"),
    )  # fmt: skip
    for call, message in cases:
        with pytest.raises(DataError, match=message):
            call()
    env = WorldEnv(world)
    env.reset()
    with pytest.raises(DataError, match="whole number from 0 to 2, but it is 3"):
        env.step(3)
    with pytest.raises(AttributeError, match="has no attribute 'rollouts'"):
        deeppqr.mdp.rollouts  # noqa: B018


def test_gymnasium_is_optional(monkeypatch):
    really = builtins.__import__

    def without(name, *rest, **options):
        if name.startswith("gymnasium"):
            raise ImportError(name)
        return really(name, *rest, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    name = "_gymnasium"
    monkeypatch.delitem(sys.modules, f"deeppqr.mdp.{name}")
    monkeypatch.delattr(deeppqr.mdp, name)
    with pytest.raises(DataError, match=r"pip install 'deeppqr\[rl\]'"):
        deeppqr.mdp.rollout  # noqa: B018


def test_a_panel_from_an_environment_fits():
    """The reward of a small world, from decisions made in its environment."""
    world = TabularWorld(
        TabularMDP(
            np.array([[0.0, 1.0], [0.0, -1.0]]),
            np.array([[[0.7, 0.3], [0.2, 0.8]], [[0.4, 0.6], [0.5, 0.5]]]),
            discount=0.5,
        )
    )
    panel = rollout(WorldEnv(world), world.log_policy, steps=8_000, seed=0, max_episode=80)
    fit = deeppqr.PQR(discount=0.5, anchor=0, reward="regression").fit(panel)
    # A log-odds' standard error is at most 1 / sqrt(2000 * 0.18), about 0.05.
    np.testing.assert_allclose(fit.reward(world.states), world.mdp.reward, atol=0.25)
