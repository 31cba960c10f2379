"""The decisions that enter a likelihood, pooled where states are few."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from .._shapes import Codes, PerRow, States
from ..panel._cells import Cells, few_states
from ..panel._panel import Panel


@dataclass(frozen=True, eq=False)
class Decisions:
    """States with the action taken in each; equal rows are pooled where states are few."""

    state: States
    action: Codes
    weight: PerRow
    fold: Codes
    """Units of one fold are held out together."""
    panel_row: Int[np.ndarray, " panel_row"]
    """Rows of the panel that are among these decisions."""
    at: Int[np.ndarray, " panel_row"]
    """For each of them, its place among the decisions."""

    @classmethod
    def of(cls, panel: Panel, fold: Codes) -> "Decisions":
        if not few_states(panel.state, rows_per_cell=2 * panel.num_actions):
            every = np.arange(len(panel))
            return cls(panel.state, panel.action, panel.weight, fold, every, every)
        cells = Cells.of(panel.state)
        # By fold as well, so that a fold can still be held out after pooling.
        keys = np.stack([cells.locate(panel.state), panel.action, fold], axis=1)
        pooled, at = np.unique(keys, axis=0, return_inverse=True)
        at = at.reshape(-1)
        cell, action, fold = pooled.T
        weight = np.bincount(at, panel.weight, len(pooled))
        every = np.arange(len(panel))
        return cls(cells.states[cell], action, weight, fold, every, at)

    @property
    def pooled(self) -> bool:
        """Whether states are so few that equal rows were pooled."""
        return len(self.at) > len(self.action)

    def thinned(self, number: int) -> "Decisions":
        """About `number` rows, evenly spaced, or all where there are no more."""
        step = max(1, len(self.action) // number)
        if step == 1:
            return self
        # Evenly and not at random: the same rows for every seed, and all units.
        rows = slice(0, None, step)
        kept = self.at % step == 0
        return Decisions(
            self.state[rows],
            self.action[rows],
            self.weight[rows],
            self.fold[rows],
            self.panel_row[kept],
            self.at[kept] // step,
        )
