"""Worlds whose rewards and values are tables: states by number, and a bus engine."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from math import isqrt
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from .._errors import DataError
from .._shapes import PerAction, PerRow, States
from ..mdp._simulate import check_count, draw, generator, simulate
from ..mdp._tabular import (
    SoftSolution,
    TabularMDP,
    check_preferences,
    check_transition,
    solve_soft,
)
from ..panel._panel import Panel

# The design of [kang2025gladius]: twenty mileages, increments of 1 to 4 with probability
# 1/4 each, a replacement cost of 5 against running costs equal to the mileage.
MAX_MILEAGE = 20
INCREMENTS = np.arange(1, 5)
REPLACEMENT_COST = 5.0
KEEP, REPLACE = 0, 1
# Of a table of transitions: 0.24 GB, several times that while it is solved, in a minute.
MAX_ENTRIES = 30_000_000


def check_log_size(units: int, periods: int, groups: tuple[str, ...], each: str) -> None:
    """Refuse a log too small for every one of its `groups` to occur."""
    if units < len(groups) or periods < 1:
        raise DataError(
            f"`units` must be at least {len(groups)}, one for each {each}, and `periods` "
            f"at least 1, but they are {units} and {periods}."
        )


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

    def __post_init__(self):
        # Units are simulated for the same number of periods: nobody may drop out.
        check_transition(self.mdp.transition, ends=False)

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
    check_count("num_actions", num_actions, least=2)
    most = isqrt(MAX_ENTRIES // num_actions)
    why = f" With {num_actions} actions, more would not fit in memory."
    check_count("num_states", num_states, most=most, why=why)
    reward = rng.normal(size=(num_states, num_actions))
    transition = rng.dirichlet(np.ones(num_states), size=reward.shape)
    return TabularWorld(TabularMDP(reward, transition, discount, temperature))


@dataclass(frozen=True, eq=False)
class KnownCostBus(AbstractTabularWorld):
    r"""Rust's bus with mileage 1..20 and a known cost of replacement, 5: the anchor.

    $$r(x, \text{keep}) = -x, \qquad r(x, \text{replace}) = -5.$$

    Keeping adds 1, 2, 3 or 4 to the mileage, equally likely, up to 20. Replacing leads to
    mileage 1 at the next decision, with no increment on top. A bus starts at 1.

    Parameters
    ----------
    irrelevant
        Number of further state variables, uniform on the integers -10..10 in every
        period, that neither reward nor transition depends on.

    References
    ----------
    [kang2025gladius], the bus engine experiments; [rust1987].
    """

    irrelevant: int = 0
    discount: float = 0.95
    temperature: float = 1.0

    anchor: ClassVar[str] = "replace"
    anchor_reward: ClassVar[float] = -REPLACEMENT_COST

    def __post_init__(self):
        if self.irrelevant < 0:
            raise DataError(
                f"`irrelevant` must be at least 0, but it is {self.irrelevant}."
            )
        check_preferences(self.discount, self.temperature)

    @property
    def actions(self) -> tuple[str, ...]:
        return ("keep", "replace")

    @property
    def state_names(self) -> list[str]:
        return ["mileage", *(f"z{i + 1}" for i in range(self.irrelevant))]

    @cached_property
    def mdp(self) -> TabularMDP:
        """The decision problem in mileage alone; cell i is mileage i + 1."""
        mileage = np.arange(1, MAX_MILEAGE + 1)
        reward = np.empty((MAX_MILEAGE, 2))
        reward[:, KEEP], reward[:, REPLACE] = -mileage, -REPLACEMENT_COST
        transition = np.zeros((MAX_MILEAGE, 2, MAX_MILEAGE))
        for increment in INCREMENTS:
            reached = np.minimum(mileage + increment, MAX_MILEAGE)
            transition[mileage - 1, KEEP, reached - 1] += 1 / len(INCREMENTS)
        transition[:, REPLACE, 0] = 1.0
        return TabularMDP(reward, transition, self.discount, self.temperature)

    def simulate(self, steps: int = 100_000, units: int = 1_000, seed: int = 1) -> Panel:
        """Decisions of the exactly optimal policy, every bus starting at mileage 1.

        `steps` is the total, split evenly over the units: by default 100 periods each.
        """
        return simulate(self, steps=steps, units=units, seed=seed)

    def initial_states(self, number: int, rng: np.random.Generator) -> np.ndarray:
        return self._with_irrelevant(np.ones(number), rng)

    def next_states(self, state, action, rng: np.random.Generator) -> np.ndarray:
        kept = np.minimum(state[:, 0] + rng.choice(INCREMENTS, len(state)), MAX_MILEAGE)
        return self._with_irrelevant(np.where(action == REPLACE, 1.0, kept), rng)

    # Drawn anew each period, so that no estimator can learn a law for them.
    def _with_irrelevant(self, mileage, rng: np.random.Generator) -> np.ndarray:
        drawn = rng.integers(-10, 10, size=(len(mileage), self.irrelevant), endpoint=True)
        return np.column_stack([mileage, drawn])

    def _cell(self, states) -> np.ndarray:
        mileage = check_columns(states, self.state_names)[:, 0]
        wrong = ~np.isin(mileage, np.arange(1, MAX_MILEAGE + 1))
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raise DataError(
                f"Column mileage of `states` must hold whole numbers from 1 to "
                f"{MAX_MILEAGE}, but row {row} has {mileage[row]} "
                f"({int(wrong.sum())} rows in all)."
            )
        return mileage.astype(np.int64) - 1


def check_columns(states, names: list[str]) -> States:
    """States as an array of numbers, refusing another number of columns."""
    states = np.asarray(states, dtype=np.float64)
    if states.ndim != 2 or states.shape[1] != len(names):
        count = "1 column" if len(names) == 1 else f"{len(names)} columns"
        raise DataError(
            f"`states` must have {count}, one row per state, but its shape is "
            f"{states.shape}."
        )
    return states
