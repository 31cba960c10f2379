"""The counted law of the next state, where distinct states are few."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from ..panel import Cells
from ._transition import AbstractAhead, AbstractTransition, StateFunction, Steps


@dataclass(frozen=True, eq=False)
class Table(AbstractTransition):
    """Means over the rows of each state and action; every pair must have been seen."""

    cells: Cells
    steps: Steps

    @classmethod
    def learn(cls, steps: Steps) -> "Table | None":
        """The table, or None where some pair (state, action) was never seen."""
        cells = Cells.of(np.concatenate([steps.state, steps.next_state]))
        table = cls(cells, steps)
        return table if (table._mass() > 0).all() else None

    def ahead(self, function: StateFunction) -> "TableAhead":
        values = function(self.cells.states)
        after = values[self.cells.require(self.steps.next_state)]
        after[self.steps.ends] = 0.0
        pair, mass = self._pair(), self._mass()
        total = np.stack(
            [
                np.bincount(pair, self.steps.weight * column, len(mass))
                for column in after.T
            ],
            axis=1,
        )
        shape = (len(self.cells), self.steps.num_actions, -1)
        return TableAhead(self.cells, (total / mass[:, None]).reshape(shape))

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
