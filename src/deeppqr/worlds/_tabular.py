"""Worlds with finitely many states, which are numbered 0, 1, 2, ..."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float

from .._errors import DataError
from .._shapes import PerAction, PerRow
from ..mdp._simulate import draw, generator, simulate
from ..mdp._tabular import SoftSolution, TabularMDP, solve_soft
from ..panel._panel import Panel


class AbstractTabularWorld(ABC):
    """A world whose rewards and values are those of a table's cells."""

    mdp: TabularMDP

    @cached_property
    def solution(self) -> SoftSolution:
        return solve_soft(self.mdp)

    def reward(self, states) -> PerAction:
        return self.mdp.reward[self._cell(states)]

    def q(self, states) -> PerAction:
        return self.solution.q[self._cell(states)]

    def value(self, states) -> PerRow:
        return self.solution.value[self._cell(states)]

    def log_policy(self, states) -> PerAction:
        return self.solution.log_policy[self._cell(states)]

    @abstractmethod
    def _cell(self, states) -> np.ndarray:
        """The number of each state's cell."""


@dataclass(frozen=True, eq=False)
class TabularWorld(AbstractTabularWorld):
    """A tabular decision problem with its exact solution; states are cell numbers."""

    mdp: TabularMDP

    @property
    def discount(self) -> float:
        return self.mdp.discount

    @property
    def temperature(self) -> float:
        return self.mdp.temperature

    @property
    def actions(self) -> tuple[int, ...]:
        return tuple(range(self.mdp.reward.shape[1]))

    @property
    def state_names(self) -> list[str]:
        return ["s"]

    @property
    def states(self) -> Float[np.ndarray, "state 1"]:
        """Every state once, as one column."""
        return np.arange(len(self.mdp.reward), dtype=np.float64)[:, None]

    def initial_states(self, number: int, rng: np.random.Generator) -> np.ndarray:
        return rng.integers(len(self.mdp.reward), size=(number, 1)).astype(np.float64)

    def next_states(self, state, action, rng: np.random.Generator) -> np.ndarray:
        moves = self.mdp.transition[self._cell(state), action]
        return draw(moves, rng)[:, None].astype(np.float64)

    def simulate(self, *, steps: int, units: int = 50, seed: int = 1) -> Panel:
        """Decisions of the exactly optimal policy."""
        return simulate(self, steps=steps, units=units, seed=seed)

    def _cell(self, states) -> np.ndarray:
        cell = np.asarray(states, dtype=np.float64).reshape(-1)
        wrong = ~np.isin(cell, self.states[:, 0])
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raise DataError(
                f"`states` must be whole numbers from 0 to {len(self.states) - 1}, but "
                f"row {row} is {cell[row]} ({int(wrong.sum())} rows in all)."
            )
        return cell.astype(np.int64)


def random_tabular(
    num_states: int = 7,
    num_actions: int = 3,
    *,
    discount: float = 0.9,
    temperature: float = 1.0,
    seed: int = 0,
) -> TabularWorld:
    """A random world: Gaussian rewards and Dirichlet transitions.

    Every reward is random, that of action 0 too: as the anchor it has a reward that
    varies with the state, `world.mdp.reward[:, 0]`.
    """
    # A flat Dirichlet law: from every state all others are reached, none of them surely.
    rng = generator(seed)
    reward = rng.normal(size=(num_states, num_actions))
    transition = rng.dirichlet(np.ones(num_states), size=reward.shape)
    return TabularWorld(TabularMDP(reward, transition, discount, temperature))
