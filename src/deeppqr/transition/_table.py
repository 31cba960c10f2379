"""The counted law of the next state, where distinct states are few."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from ..panel import Cells
from ._transition import AbstractAhead, AbstractTransition, StateFunction, Steps


@dataclass(frozen=True, eq=False)
class Table(AbstractTransition):
    """Means over the rows of each state and action; NaN where a pair was never seen."""

    cells: Cells
    steps: Steps

    @classmethod
    def learn(cls, steps: Steps) -> "Table | None":
        """The table of all states, or None where some pair (state, action) is unseen."""
        steps = steps.pooled()
        cells = Cells.of(np.concatenate([steps.state, steps.next_state]))
        table = cls(cells, steps)
        return table if table.num_unseen == 0 else None

    @property
    def num_unseen(self) -> int:
        """Pairs of a state and an action without rows."""
        return int((self._mass() == 0).sum())

    def ahead(self, function: StateFunction) -> "TableAhead":
        steps, pair, mass = self.steps, self._pair(), self._mass()
        total = [
            np.bincount(pair, steps.weight * column, len(mass))
            for column in steps.follow(function).T
        ]
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = np.stack(total, axis=1) / mass[:, None]
        return TableAhead(self.cells, mean.reshape(len(self.cells), steps.num_actions, -1))

    def _pair(self) -> np.ndarray:
        cell = self.cells.require(self.steps.state)
        return cell * self.steps.num_actions + self.steps.action

    def _mass(self) -> np.ndarray:
        size = len(self.cells) * self.steps.num_actions
        return np.bincount(self._pair(), self.steps.weight, size)


@dataclass(frozen=True, eq=False)
class TableAhead(AbstractAhead):
    """A tabulated expectation."""

    cells: Cells
    table: Float[np.ndarray, "cell action column"]

    def __call__(self, state):
        return self.table[self.cells.require(state)]
