"""The empirical law of the next state, for few distinct states."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float

from .._stored import stored
from ..panel._cells import Cells
from ._transition import AbstractAhead, AbstractSampledTransition, StateFunction, Steps


@stored
@dataclass(frozen=True, eq=False)
class Table(AbstractSampledTransition):
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

    def survival(self, state, action):
        steps = self.steps
        goes, mass = self._tally(steps.weight * ~steps.ends), self._tally(steps.weight)
        with np.errstate(invalid="ignore", divide="ignore"):
            return (goes / mass)[self.cells.require(state), action]

    def land(self, state, action, rng):
        pair, total, there = self._going_on
        asked = self.cells.require(state) * self.steps.num_actions + action
        first = np.searchsorted(pair, asked)
        # Up to the pair's last row: total[i] is the weight of all rows before row i.
        last = np.searchsorted(pair, asked, side="right")
        low, high = total[first], total[last]
        at = np.searchsorted(total, low + rng.random(len(asked)) * (high - low), "right")
        # Pairs that always end lead nowhere: any state will do, as it is never used.
        at = np.clip(at - 1, first, np.maximum(last - 1, first))
        return there[np.minimum(at, len(there) - 1)]

    @cached_property
    def _going_on(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows after which the process goes on, by pair of state and action: the pair,
        the weight before each row, and the next state."""
        steps = self.steps
        pair = self.cells.require(steps.state) * steps.num_actions + steps.action
        rows = np.flatnonzero(~steps.ends & (steps.weight > 0))
        rows = rows[np.argsort(pair[rows], kind="stable")]
        total = np.append(0.0, np.cumsum(steps.weight[rows]))
        there = steps.next_state[rows] if len(rows) else self.cells.states[:1]
        return pair[rows], total, there

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
