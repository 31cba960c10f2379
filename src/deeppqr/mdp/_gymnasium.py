"""Gymnasium: panels from environments, worlds as environments, fitted rewards in them."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, SupportsFloat

import numpy as np

from .._errors import DataError
from ..panel._panel import Panel, panel_of_paths
from ..panel._trajectories import Trajectory
from ._simulate import World, draw, generator

try:
    import gymnasium
except ImportError as problem:
    raise DataError(
        "Environments need the package gymnasium, which is not installed: "
        "pip install 'deeppqr[rl]'"
    ) from problem
from gymnasium.spaces import Box, Discrete


def rollout(
    env: gymnasium.Env,
    policy: Callable[[np.ndarray], Any] | None,
    *,
    steps: int,
    seed: int,
    max_episode: int | None = None,
) -> Panel:
    """Decisions of a policy in an environment as a panel, one unit per episode.

    An episode that terminates ends there; one that is truncated, by the environment, by
    `max_episode` or by the last of the `steps`, keeps its next state.

    Parameters
    ----------
    env
        An environment with discrete actions; observations are Box (one column per entry)
        or Discrete (one category).
    policy
        A function from states to log-probabilities (row, action); None is uniform.
    steps
        Decisions in all.
    max_episode
        Most decisions in an episode.
    """
    actions = action_labels(env)
    rng = generator(seed)
    for name, value in (("steps", steps), ("max_episode", max_episode)):
        if value is not None and value < 1:
            raise DataError(f"`{name}` must be at least 1, but it is {value}.")
    episodes, left = [], steps
    # Only the first reset is seeded: Gymnasium's generator then runs on over episodes.
    options: dict[str, Any] = {"seed": seed}
    while left > 0:
        longest = left if max_episode is None else min(left, max_episode)
        first, _ = env.reset(**options)
        episodes.append(_episode(env, first, policy, actions, longest, rng))
        left -= len(episodes[-1][1])
        options = {}
    discrete = isinstance(env.observation_space, Discrete)
    paths = (Trajectory(*episode, discrete=discrete) for episode in episodes)
    return panel_of_paths(paths, "episode", actions=actions)


class WorldEnv(gymnasium.Env):
    """A world as a Gymnasium environment; action i is `world.actions[i]`.

    Parameters
    ----------
    world
        A `World` that also has `reward(states)`, one column per action: `PaperWorld`,
        `TabularWorld` or your own.
    horizon
        Decisions after which an episode is truncated; by default it goes on forever.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 (Gymnasium's own convention)

    def __init__(self, world: Any, horizon: int | None = None):
        if not isinstance(world, World) or not hasattr(world, "reward"):
            raise DataError(
                "`world` must have `actions`, `state_names`, `initial_states`, "
                "`next_states`, `log_policy` and `reward`, as PaperWorld and TabularWorld "
                f"do, but {type(world).__name__} has not."
            )
        if horizon is not None and horizon < 1:
            raise DataError(f"`horizon` must be at least 1 or None, but it is {horizon}.")
        self.world: Any = world
        self.horizon = horizon
        self.action_space = Discrete(len(world.actions))
        shape = (len(world.state_names),)
        self.observation_space = Box(-np.inf, np.inf, shape, np.float64)
        self._state: np.ndarray | None = None
        self._elapsed = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        state = self._state = self.world.initial_states(1, self.np_random)
        self._elapsed = 0
        return np.array(state[0], dtype=np.float64), {}

    def step(self, action: Any):
        if self._state is None:
            raise DataError("An episode must begin with `env.reset()` before `env.step`.")
        if not self.action_space.contains(action):
            raise DataError(
                "`action` must be a whole number from 0 to "
                f"{len(self.world.actions) - 1}, but it is {action!r}."
            )
        reward = float(self.world.reward(self._state)[0, action])
        choice = np.array([action])
        state = self._state = self.world.next_states(self._state, choice, self.np_random)
        self._elapsed += 1
        truncated = self.horizon is not None and self._elapsed >= self.horizon
        return np.array(state[0], dtype=np.float64), reward, False, truncated, {}


class FittedReward(gymnasium.Wrapper):
    """An environment with a fit's reward; its own is in `info["env_reward"]`.

    The reward is that of the state before the step, `fit.reward(state)[action]`.

    Parameters
    ----------
    env
        An environment whose observations are the states of the fit.
    fit
        A fit; the environment's i-th action is taken to be `fit.actions[i]`.
    """

    def __init__(self, env: gymnasium.Env, fit: Any):
        super().__init__(env)
        labels = action_labels(env)
        if len(labels) != len(fit.actions):
            raise DataError(
                f"The environment must have one action for each of the fit's "
                f"{len(fit.actions)}, {list(fit.actions)}, but it has {len(labels)}: "
                f"{list(labels)}. Build the panel with `actions` in the environment's "
                "order, or give the environment a wrapper that leaves the others out."
            )
        self.fit = fit
        self._first_action = labels[0]
        # A prediction for a single state has a fixed cost of array calls, and agents in
        # small environments return to the same states: the last 4,096 are remembered.
        self._rewards = lru_cache(4_096)(lambda state: fit.reward(np.array([state]))[0])
        self._state: np.ndarray | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        observation, info = self.env.reset(seed=seed, options=options)
        self._state = as_state(observation)
        return observation, info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        if self._state is None:
            raise DataError("An episode must begin with `env.reset()` before `env.step`.")
        rewards = self._rewards(tuple(self._state[0]))
        # Before the step: the reward belongs to the state in which the agent acted.
        reward = float(rewards[action - self._first_action])
        observation, paid, terminated, truncated, info = self.env.step(action)
        self._state = as_state(observation)
        return observation, reward, terminated, truncated, {**info, "env_reward": paid}


def action_labels(env: gymnasium.Env) -> tuple[int, ...]:
    """The numbers of an environment's actions; spaces no panel can hold are refused."""
    if not isinstance(env.observation_space, (Box, Discrete)):
        raise DataError(
            "The environment's observations must be Box or Discrete, but they are "
            f"{env.observation_space}. Flatten them first: "
            "gymnasium.wrappers.FlattenObservation(env)."
        )
    if not isinstance(env.action_space, Discrete):
        raise DataError(
            "The environment's actions must be Discrete, but they are "
            f"{env.action_space}. Wrap it so that an action is one of a few choices."
        )
    first = int(env.action_space.start)  # Discrete spaces may begin at another number
    return tuple(range(first, first + int(env.action_space.n)))


def as_state(observation: Any) -> np.ndarray:
    """An observation as one row of state columns."""
    return np.asarray(observation, dtype=np.float64).reshape(1, -1)


def _episode(env, first, policy, actions, longest: int, rng) -> tuple:
    """States, actions and whether the episode terminated, as `from_trajectories` reads."""
    states, taken, terminated = [as_state(first)], [], False
    for _ in range(longest):
        choice = draw(_probability(policy, states[-1], len(actions)), rng)[0]
        observation, _, terminated, truncated, _ = env.step(actions[choice])
        states.append(as_state(observation))
        taken.append(actions[choice])
        if terminated or truncated:
            break
    return np.concatenate(states), np.array(taken), bool(terminated)


def _probability(policy, state: np.ndarray, num_actions: int) -> np.ndarray:
    if policy is None:
        return np.full((1, num_actions), 1 / num_actions)
    probability = np.exp(np.asarray(policy(state.copy()), dtype=np.float64))
    # The tolerance allows for policies computed in float32.
    if probability.shape != (1, num_actions) or not abs(probability.sum() - 1) < 1e-4:
        raise DataError(
            "`policy` must return log-probabilities, one column per action: for one state "
            f"an array of shape {(1, num_actions)} whose exponentials sum to one, but in "
            f"state {state[0]} it has shape {probability.shape} and sum "
            f"{probability.sum():.4g}."
        )
    return probability
