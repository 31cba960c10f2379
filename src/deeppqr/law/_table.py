"""The empirical law of the next state, for few distinct states."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from .._stored import stored
from ..panel._cells import Cells
from ._transition import AbstractAhead, AbstractTransition, StateFunction, Steps


@stored
@dataclass(frozen=True, eq=False)
class Table(AbstractTransition):
    """Means over the rows of each state and action; NaN where a pair was never seen."""

    cells: Cells
    steps: Steps

    @classmethod
    def learn(cls, steps: Steps) -> "Table | None":
        """The table of all states, or None where some pair (state, action) is unseen."""
        # Pooled first: f is evaluated once for each distinct next state and not each row.
        steps = steps.pooled()
        cells = Cells.of(np.concatenate([steps.state, steps.next_state]))
        table = cls(cells, steps)
        return table if table.num_unseen == 0 else None

    @property
    def num_unseen(self) -> int:
        """Pairs of a state and an action without rows."""
        return int((self._tally(self.steps.weight) == 0).sum())

    def ahead(self, function: StateFunction) -> "TableAhead":
        total = [
            self._tally(self.steps.weight * column)
            for column in self.steps.follow(function).T
        ]
        mass = self._tally(self.steps.weight)
        with np.errstate(invalid="ignore", divide="ignore"):
            return TableAhead(self.cells, np.stack(total, axis=2) / mass[:, :, None])

    def _tally(self, weight: np.ndarray) -> Float[np.ndarray, "cell action"]:
        steps = self.steps
        return self.cells.tally(steps.state, steps.action, steps.num_actions, weight)


@stored
@dataclass(frozen=True, eq=False)
class TableAhead(AbstractAhead):
    """A tabulated expectation."""

    cells: Cells
    table: Float[np.ndarray, "cell action column"]

    def __call__(self, state):
        return self.table[self.cells.require(state)]
