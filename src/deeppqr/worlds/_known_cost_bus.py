"""A bus engine with twenty mileages and a known cost of replacement."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .._errors import DataError
from .._shapes import States
from ..mdp._simulate import simulate
from ..mdp._tabular import TabularMDP, check_preferences
from ..panel._panel import Panel
from ._tabular import AbstractTabularWorld

# The design of [kang2025gladius]: twenty mileages, increments of 1 to 4 with probability
# 1/4 each, a replacement cost of 5 against running costs equal to the mileage.
MAX_MILEAGE = 20
INCREMENTS = np.arange(1, 5)
REPLACEMENT_COST = 5.0
KEEP, REPLACE = 0, 1


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
    def anchor(self) -> str:
        return "replace"

    @property
    def anchor_reward(self) -> float:
        return -REPLACEMENT_COST

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
