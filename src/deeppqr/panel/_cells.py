"""Distinct states as numbered cells, for estimators that work on tables."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from .._errors import BadRows
from .._messages import counted
from .._shapes import Codes, PerRow, States
from .._stored import stored

# Rows of a state and action from which a frequency or a mean is taken as it is, instead of
# a model: the usual rule for a normal approximation. At 60 the estimators chosen on the
# random table, the firms and Rust's group 4 are the same.
COUNTED = 30


@stored
@dataclass(frozen=True)
class Cells:
    """The distinct states of a sample, numbered in lexicographic order."""

    states: Float[np.ndarray, "cell state_feature"]

    @classmethod
    def of(cls, state: States) -> "Cells":
        """The distinct rows of `state`."""
        codes = _codes(state)
        row = np.zeros(codes.max(initial=-1) + 1, dtype=np.int64)
        row[codes] = np.arange(len(codes))  # any row of a code will do: they are equal
        return cls(state[row] + 0.0)  # -0.0 and 0.0 are the same state

    def __len__(self) -> int:
        return len(self.states)

    def locate(self, state: States) -> Codes:
        """The cell of each state, or -1 where it is none of them."""
        known, queried = self.states[:, 0], state[:, 0]
        if state.shape[1] > 1:  # of one column the values themselves can be searched
            both = _codes(np.concatenate([self.states, state + 0.0]))
            known, queried = both[: len(self)], both[len(self) :]
        # A search in sorted codes: a dict over rows would be a Python loop.
        order = np.argsort(known)
        position = np.searchsorted(known, queried, sorter=order)
        position = order[np.minimum(position, len(self) - 1)]
        return np.where(known[position] == queried, position, -1)

    def tally(
        self, state: States, action: Codes, num_actions: int, weight: PerRow | None = None
    ) -> Float[np.ndarray, "cell action"]:
        """Rows, or their weight, by cell and action; every state must be a cell."""
        pair = self.require(state) * num_actions + action
        count = np.bincount(pair, weight, len(self) * num_actions)
        return count.reshape(-1, num_actions).astype(np.float64)

    def require(self, state: States) -> Codes:
        """The cell of each state, refusing states that are none of them."""
        cell = self.locate(state)
        if (cell < 0).any():
            row = int(np.flatnonzero(cell < 0)[0])
            raise BadRows(
                f"A tabular fit knows {counted(len(self), 'state')}, and row {row}, "
                f"{np.array2string(state[row], precision=4)}, is none of them "
                f"({counted(int((cell < 0).sum()), 'row')} in all). Predict at observed "
                'states, or fit with policy="logit", anchor_value="averager" and '
                'reward="linear", which generalise across states.',
                cell < 0,
            )
        return cell


def fewest_rows(state: States, action: Codes, num_actions: int) -> int:
    """Rows of the rarest (distinct state, action) pair; 0 if a pair never occurs."""
    return int(Cells.of(state).tally(state, action, num_actions).min())


def few_states(
    state: States,
    *,
    rows_per_cell: int,
    max_cells: int = 5_000,  # a dense matrix over pairs of states then takes 200 MB
) -> bool:
    """Whether there are at most `max_cells` distinct states, with enough rows for each."""
    # A sample of the rows rejects continuous states without sorting all of them.
    probe = state[:: max(1, len(state) // 20_000)]
    if len(Cells.of(probe)) > max_cells:
        return False
    return len(Cells.of(state)) * rows_per_cell <= len(state)


def _codes(state: np.ndarray) -> np.ndarray:
    """One integer per row, equal for equal rows and in lexicographic order.

    `np.unique(axis=0)` does the same by sorting whole rows, which is slower. Columns are
    combined one at a time and the codes compressed after each, so that the product of the
    columns' numbers of levels never overflows.
    """
    code = np.zeros(len(state), dtype=np.int64)
    for number, column in enumerate(state.T):
        level, inverse = np.unique(column + 0.0, return_inverse=True)
        code = code * len(level) + inverse
        if number:  # of the first column all levels occur: there is nothing to compress
            _, code = np.unique(code, return_inverse=True)
    return code
