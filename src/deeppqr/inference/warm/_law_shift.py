r"""How the learned law's expectations move when units are weighted anew, to first order.

With $t_i = V(s'_i) - E[V(s')|s_i,a_i]$ what the law did not foresee of the fit's value, and
weights $w_i c_i$ in place of $w_i$, its expectation moves by the regression
$$\delta(s,a) = x(s,a)'\,(X'WX + R)^{-1}\sum_i (c_i - 1)\,w_i\,x_i\,t_i$$
on what the law itself fits: the pairs of a table, the columns and ridge of a regression,
the leaves of a tree of resets, or the columns of a drift. An expectation of V is all that
the reward's equations take from a law, so that its error is a change of the reward by
$\gamma\delta$.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int, Num
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve

from ..._shapes import Codes, PerRow, States
from ...law._moves import Moves
from ...law._regression import RIDGE, Regression
from ...law._table import Table
from ...law._transition import AbstractTransition, StateFunction, Steps
from ...learners._basis import penalty
from ...learners._boosting import BoostedTrees
from ...learners._chunks import in_chunks, row_slices
from ...learners._ridges import Ridges
from ...panel._cells import Cells
from ...panel._panel import Panel

# Rows whose surprises are looked up at once.
ROWS_AT_ONCE = 20_000


@dataclass(frozen=True, eq=False)
class Surprises:
    """V(s') less its expectation in the steps that a law was learned from."""

    state: States
    action: Codes
    unit: Codes
    weight: PerRow
    value: PerRow

    @classmethod
    def of(cls, panel: Panel, law: AbstractTransition, value: StateFunction) -> "Surprises":
        steps, rows = Steps.of(panel), np.flatnonzero(panel.is_transition)
        after = steps.follow(lambda state: value(state)[:, :1])[:, 0]
        ahead = law.ahead(lambda state: value(state)[:, :1])
        expected = [
            ahead.of_taken(steps.state[part], steps.action[part])[:, 0]
            for part in row_slices(len(rows), ROWS_AT_ONCE)
        ]
        return cls(
            steps.state,
            steps.action,
            panel.unit[rows],
            steps.weight,
            after - np.concatenate([np.zeros(0), *expected]),
        )

    def of_units(self, unit: Codes) -> "Surprises":
        """The same with other numbers of the units."""
        return replace(self, unit=unit[self.unit])

    def scaled(self, count: Num[np.ndarray, "unit replicate"]) -> np.ndarray:
        """(c - 1) w t, (row, replicate)."""
        moved = (count[self.unit] - 1).astype(np.float32)
        return moved * (self.weight * self.value).astype(np.float32)[:, None]


class LawShift(ABC):
    """The change of E[V(s')|s,a] with the weights of units."""

    surprises: Surprises

    @abstractmethod
    def coefficients(self, count: np.ndarray) -> np.ndarray:
        """Of each replicate, which are last; `count` is (unit, replicate)."""

    @abstractmethod
    def places(self, state: States) -> np.ndarray:
        """What the coefficients are multiplied with: places (row, action), or columns."""

    @abstractmethod
    def at(self, state: States, coefficients: np.ndarray) -> np.ndarray:
        """The change at some states, (row, action), of one replicate's coefficients."""


@dataclass(frozen=True, eq=False)
class PairShift(LawShift):
    """Means over groups of pairs of a state and an action."""

    surprises: Surprises
    groups: "TablePairs | TreeLeaves"
    taken: Int[np.ndarray, " step"]
    """The group of each step."""
    mass: Float[np.ndarray, " group"]

    @classmethod
    def of(cls, surprises: Surprises, groups: "TablePairs | TreeLeaves") -> "PairShift":
        taken = groups.of_taken(surprises.state, surprises.action)
        mass = np.bincount(taken, surprises.weight, groups.count)
        return cls(surprises, groups, taken, mass)

    def coefficients(self, count):
        shape = (self.groups.count, len(self.taken))
        place = (self.taken, np.arange(len(self.taken)))
        members = sparse.csr_array((np.ones(len(self.taken), np.float32), place), shape)
        total = np.asarray(members @ self.surprises.scaled(count), np.float64)
        return total / np.maximum(self.mass, 1e-300)[:, None]

    def places(self, state):
        return self.groups(state)

    def at(self, state, coefficients):
        return coefficients[self.groups(state)]


@dataclass(frozen=True, eq=False)
class ColumnShift(LawShift):
    """A ridge regression on columns of the state for each action."""

    surprises: Surprises
    columns: Ridges
    num_actions: int
    factor: tuple

    @classmethod
    def of(cls, surprises: Surprises, columns: Ridges, num_actions: int) -> "ColumnShift":
        ridge, factor = penalty(columns.width, RIDGE), []
        x = in_chunks(columns, surprises.state)
        for action in range(num_actions):
            rows = surprises.action == action
            gram = x[rows].T @ (x[rows] * surprises.weight[rows, None]) + ridge
            # The level of an action never taken has no ridge of its own.
            gram += 1e-8 * (1 + np.diag(gram).max()) * np.eye(len(gram))
            factor.append(cho_factor(gram))
        return cls(surprises, columns, num_actions, tuple(factor))

    def coefficients(self, count):
        told, scaled = self.surprises, self.surprises.scaled(count)
        found = np.zeros((self.num_actions, self.columns.width, count.shape[1]))
        for rows in row_slices(len(told.action), ROWS_AT_ONCE):
            x = self.columns(told.state[rows]).astype(np.float32)
            for action in range(self.num_actions):
                mine = told.action[rows] == action
                found[action] += x[mine].T @ scaled[rows][mine]
        return np.stack(
            [cho_solve(f, part) for f, part in zip(self.factor, found, strict=True)]
        )

    def places(self, state):
        return in_chunks(self.columns, state)

    def at(self, state, coefficients):
        return self.places(state) @ coefficients.T


@dataclass(frozen=True, eq=False)
class TablePairs:
    """Each state with each action."""

    cells: Cells
    num_actions: int

    @property
    def count(self) -> int:
        return len(self.cells) * self.num_actions

    def __call__(self, state: States) -> Int[np.ndarray, "row action"]:
        first = self.cells.require(state) * self.num_actions
        return first[:, None] + np.arange(self.num_actions)

    def of_taken(self, state: States, action: Codes) -> Codes:
        return self.cells.require(state) * self.num_actions + action


@dataclass(frozen=True, eq=False)
class TreeLeaves:
    """The leaves of the tree of a law's fates, for each action apart."""

    moves: Moves

    @property
    def count(self) -> int:
        nodes = 1 if self.moves.fate is None else self.moves.fate.value.shape[1]
        return len(self.moves.keeps) * nodes

    def __call__(self, state: States) -> Int[np.ndarray, "row action"]:
        return in_chunks(self._places, state)

    def _places(self, state: States) -> np.ndarray:
        moves, every = self.moves, self.moves.every
        nodes = self.count // len(every)
        found = np.repeat(every[None] * nodes, len(state), axis=0)
        if moves.fate is None:
            return found
        of_aim = moves.fate_of_aim
        start = moves.aimed(state) if of_aim else np.repeat(state[:, None], len(every), 1)
        inputs = moves.fate_inputs(start, every, of_aim=of_aim)
        leaf = first_leaf(moves.fate, inputs.reshape(-1, inputs.shape[2]))
        return np.where(moves.varied, found + leaf.reshape(found.shape), found)

    def of_taken(self, state: States, action: Codes) -> Codes:
        return self(state)[np.arange(len(state)), action]


def first_leaf(trees: BoostedTrees, inputs: np.ndarray) -> Codes:
    """The leaf of the first tree that each row falls into."""
    number = np.broadcast_to(
        np.arange(trees.value.shape[1], dtype=np.float64), trees.value.shape
    )
    found = np.zeros(len(inputs), dtype=np.int64)
    for tree, rows, leaf in trees.trees.values(inputs, number):
        if tree == 0:
            found[rows] = leaf
    return found


def law_shift(panel: Panel, law: AbstractTransition, value: StateFunction) -> LawShift:
    """The regression that a law is, with what it did not foresee in its panel."""
    surprises, number = Surprises.of(panel, law, value), panel.num_actions
    if isinstance(law, Table):
        return PairShift.of(surprises, TablePairs(law.cells, number))
    if isinstance(law, Regression):
        return ColumnShift.of(surprises, law.features, number)
    assert isinstance(law, Moves)
    single = law.fate is None or len(law.fate.trees) == len(law.fate.baseline)
    if single and not law.is_smooth.any():
        return PairShift.of(surprises, TreeLeaves(law))
    return ColumnShift.of(surprises, law.drift, number)
