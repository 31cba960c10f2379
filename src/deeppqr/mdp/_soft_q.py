"""Soft Q-learning with a network, for worlds without an exact solution."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import jax.random as jr
import numpy as np
from scipy.special import log_softmax, logsumexp

from .._random import check_seed, numpy_rng
from .._shapes import PerAction, PerRow, States
from ..learners._network import Ensemble, Predict, Training, chosen_squared_error, train
from ..panel._panel import Panel
from ._simulate import World, draw, generator, simulate


@dataclass(frozen=True)
class SoftQLearning:
    r"""Soft Q-learning for discrete actions.

    A network is regressed on
    $$y = r(s,a) + \gamma\,\alpha \log \sum_b \exp\{Q(s',b)/\alpha\}$$
    over transitions, and the targets y are recomputed every `check_every` steps. The
    transitions come from actions drawn uniformly: in a world that can be simulated, from
    `states` starting states for `horizon` steps each; or in a Gymnasium environment.

    Parameters
    ----------
    discount, temperature
        The agent's.
    rounds
        How often the targets are recomputed. Errors shrink by the discount each time: 150
        rounds leave 1e-7 of them at 0.9, and a fifth at 0.99.

    References
    ----------
    [haarnoja2017], in the form for discrete actions that [geng2020pqr] uses.
    """

    discount: float
    temperature: float = 1.0
    states: int = 2_000
    horizon: int = 20
    rounds: int = 150
    # No early stopping and one member: targets are computed, not observed with noise, so
    # there is nothing to overfit.
    training: Training = field(
        default_factory=lambda: Training(
            members=1, check_every=40, width=128, early_stopping=False, learning_rate=1e-3
        )
    )

    def solve(
        self, world: World, reward: Callable[[np.ndarray], np.ndarray], *, seed: int = 0
    ) -> "SoftQFunction":
        """Learn Q in a world that can be simulated; `reward` has a column per action."""
        check_seed(seed)
        key_data, key_train = jr.split(jr.key(seed))
        state, action, after = self._explore(world, numpy_rng(key_data))
        earned = reward(state.copy())[np.arange(len(state)), action]
        moves = (state, action, earned, after, len(world.actions))
        return self.solve_transitions(*moves, key=key_train)

    def solve_env(self, env: Any, *, steps: int = 40_000, seed: int = 0) -> "SoftQFunction":
        """Learn Q in a Gymnasium environment with discrete actions, by random play."""
        from ._gymnasium import action_labels, as_state

        labels = action_labels(env)
        rng = generator(seed)
        state, _ = env.reset(seed=seed)
        moves = []
        for _ in range(steps):
            choice = int(rng.integers(len(labels)))
            after, reward, terminated, truncated, _ = env.step(labels[choice])
            ends = (as_state(state)[0], as_state(after)[0])
            moves.append((ends[0], choice, float(reward), ends[1], terminated))
            state = env.reset()[0] if terminated or truncated else after
        state, action, earned, after, ended = map(np.array, zip(*moves, strict=True))
        moves = (state, action, earned, after, len(labels))
        return self.solve_transitions(*moves, terminal=ended, key=jr.key(seed))

    def solve_transitions(
        self, state, action, earned, after, num_actions: int, *, terminal=None, key
    ) -> "SoftQFunction":
        """Learn Q from recorded transitions; the value after a terminal one is zero."""
        goes = np.ones(len(state)) if terminal is None else 1.0 - np.asarray(terminal)
        entropy = self.temperature * np.log(num_actions)
        typical = earned.mean() + self.discount * goes.mean() * entropy
        # The mean of Q, which is about r / (1 - discount), is kept outside the network:
        # float32 would lose the differences between actions beside it.
        level = trained_level = typical / (1 - self.discount * goes.mean())
        # The scale of the network's targets; not zero where all rewards are equal.
        unit = max(float(np.std(earned)), 0.1 * self.temperature)

        def targets(predict: Predict | None):
            nonlocal level, trained_level
            trained_level = level
            value = np.full(len(state), level)
            if predict is not None:
                q = level + unit * predict(after).mean(axis=0)
                value = self.temperature * logsumexp(q / self.temperature, axis=1)
            target = earned + self.discount * goes * value
            level = float(target.mean())
            return action, (target - level) / unit

        ensemble = train(
            state,
            targets(None),
            np.ones(len(state)),
            np.arange(len(state)) % 5,  # folds are not used: there is no early stopping
            loss=chosen_squared_error,
            num_outputs=num_actions,
            training=replace(
                self.training, max_steps=self.rounds * self.training.check_every
            ),
            key=key,
            label="Soft Q-learning",
            refresh=targets,
        )
        return SoftQFunction(ensemble, float(trained_level), unit, self.temperature)

    def _explore(self, world: World, rng: np.random.Generator):
        state = world.initial_states(self.states, rng)
        uniform = np.full((self.states, len(world.actions)), 1.0 / len(world.actions))
        moves = []
        for _ in range(self.horizon):
            action = draw(uniform, rng)
            moves.append((state, action, world.next_states(state, action, rng)))
            state = moves[-1][2]
        return map(np.concatenate, zip(*moves, strict=True))


@dataclass(frozen=True, eq=False)
class SoftQFunction:
    """A learned Q with its softmax policy."""

    ensemble: Ensemble
    level: float
    unit: float
    temperature: float

    def q(self, states: States) -> PerAction:
        return self.level + self.unit * self.ensemble(states).mean(axis=0)

    def value(self, states) -> PerRow:
        return self.temperature * logsumexp(self.q(states) / self.temperature, axis=1)

    def log_policy(self, states) -> PerAction:
        return log_softmax(self.q(states) / self.temperature, axis=1)

    def simulate(
        self, world: World, *, steps: int, units: int = 50, seed: int = 1
    ) -> Panel:
        """Demonstrations of the learned policy in a world."""
        return simulate(world, steps=steps, units=units, seed=seed, policy=self.log_policy)
