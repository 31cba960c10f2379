"""Laws of the next state in a counterfactual: those of the fit, given anew, or edited."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from .._errors import DataError
from .._shapes import States
from ..law._table import Table
from ..law._transition import AbstractAhead, AbstractTransition, StateFunction
from ..learners._chunks import in_chunks
from ..mdp._law import Law
from ..mdp._tabular import as_floats, check_transition
from ..panel._cells import Cells
from ..panel._encoding import Encoding
from ..panel._user_function import call_with_states

# States whose possible next states are looked up at once.
STATES_AT_ONCE = 1_000


@dataclass(frozen=True, eq=False)
class Edited:
    """The law as it was learned, with the places it leads to changed.

    Parameters
    ----------
    function
        Called as `function(next_states, action)` with an array of the state columns as
        given and the label of the action that was taken; it returns such an array. For
        example half as fast a growth of the first column cannot be written so, as it needs
        the state before; a cap on it can: `lambda after, action: np.minimum(after, 5)`.
    """

    function: Callable[[np.ndarray, Any], Any]

    def at(self, state: States, action: Any, encoding: Encoding) -> States:
        """Encoded next states, changed."""
        raw = encoding.decode(state)
        changed = call_with_states(
            lambda states: self.function(states, action),
            raw,
            role="transition",
            names=encoding.names,
            shape=raw.shape,
            returns="the next states changed",
        )
        return encoding.encode_any(changed)


@dataclass(frozen=True, eq=False)
class EditedLaw(AbstractTransition):
    """Expectations under a law whose places are edited."""

    law: AbstractTransition
    edit: Edited
    actions: tuple[Any, ...]
    encoding: Encoding

    def ahead(self, function: StateFunction) -> "ColumnsAhead":
        parts = []
        for code, action in enumerate(self.actions):
            moved = lambda state, label=action: function(
                self.edit.at(state, label, self.encoding)
            )
            parts.append((self.law.ahead(moved), code))
        return ColumnsAhead(tuple(parts))


@dataclass(frozen=True, eq=False)
class FunctionLaw(AbstractTransition):
    """Expectations under a law that is known as a function of states and actions."""

    law: Law
    actions: tuple[Any, ...]

    def ahead(self, function: StateFunction) -> "FunctionAhead":
        common = self.law.common
        landed = None if common is None else function(common).mean(axis=0)
        return FunctionAhead(self.law, self.actions, function, landed)


@dataclass(frozen=True, eq=False)
class FunctionAhead(AbstractAhead):
    """The expectation of one function under such a law."""

    law: Law
    actions: tuple[Any, ...]
    function: StateFunction
    landed: np.ndarray | None

    def __call__(self, state):
        found = [
            in_chunks(partial(self._expect, action=action), state, STATES_AT_ONCE)
            for action in self.actions
        ]
        return np.stack(found, axis=1)

    def _expect(self, state: np.ndarray, action: Any) -> np.ndarray:
        outcomes = self.law.outcomes(state, action)
        rows, number, width = outcomes.states.shape
        values = self.function(outcomes.states.reshape(-1, width))
        values = values.reshape(rows, number, -1)
        # A next state of probability zero may lie anywhere; its value must not count.
        chance = outcomes.probability[:, :, None]
        found = np.where(chance > 0, chance * values, 0.0).sum(axis=1)
        return (
            found if self.landed is None else found + outcomes.rest[:, None] * self.landed
        )


@dataclass(frozen=True, eq=False)
class ColumnsAhead(AbstractAhead):
    """Each action's expectation from a column of another one's."""

    parts: tuple[tuple[AbstractAhead, int], ...]

    def __call__(self, state):
        # A law that several actions share is asked once.
        asked: dict[int, np.ndarray] = {}
        for ahead, _ in self.parts:
            if id(ahead) not in asked:
                asked[id(ahead)] = ahead(state)
        columns = [asked[id(ahead)][:, code] for ahead, code in self.parts]
        return np.stack(columns, axis=1)


@dataclass(frozen=True, eq=False)
class ChosenLaws(AbstractTransition):
    """For each action a law and the action whose column of it counts."""

    parts: tuple[tuple[AbstractTransition, int], ...]

    def ahead(self, function: StateFunction) -> ColumnsAhead:
        asked = {id(law): law.ahead(function) for law, _ in self.parts}
        return ColumnsAhead(tuple((asked[id(law)], code) for law, code in self.parts))


Moves = tuple[sparse.csr_array, ...]
"""For each action the probabilities (state, next_state)."""


def counted_moves(law: Table, actions: Sequence[Any]) -> Moves:
    """The shares of a table; refuses pairs that never occurred."""
    steps, cells = law.steps, law.cells
    here, size = cells.require(steps.state), len(cells)
    there = np.zeros(len(here), dtype=np.int64)
    there[~steps.ends] = cells.require(steps.next_state[~steps.ends])
    mass = cells.tally(steps.state, steps.action, steps.num_actions, steps.weight)
    never = np.argwhere(mass == 0)
    if len(never):
        cell, action = never[0]
        raise DataError(
            "A problem can be solved again only where every action's next state is known, "
            f"but {actions[action]!r} was never seen in the state {cells.states[cell]} "
            f"({len(never)} such pairs). Pool states, or take the default reward, which "
            "generalises across states."
        )
    found = []
    for action in range(steps.num_actions):
        rows = (steps.action == action) & ~steps.ends
        share = steps.weight[rows] / mass[here[rows], action]
        pairs = (here[rows], there[rows])
        found.append(sparse.csr_array((share, pairs), shape=(size, size)))
    return tuple(found)


def listed_moves(probability: np.ndarray) -> Moves:
    """From an array (state, action, next_state)."""
    return tuple(sparse.csr_array(part) for part in np.moveaxis(probability, 1, 0))


def function_moves(law: Law, cells: Cells, action: Any) -> sparse.csr_array:
    """One action's probabilities under a function, whose outcomes must be known states."""
    outcomes = law.outcomes(cells.states, action)
    row, place = np.nonzero(outcomes.probability)
    there = cells.require(outcomes.states[row, place] + 0.0)
    size = len(cells)
    moves = sparse.csr_array(
        (outcomes.probability[row, place], (row, there)), shape=(size, size)
    )
    if law.common is not None:
        landing = np.bincount(cells.require(law.common), minlength=size) / len(law.common)
        moves = moves + sparse.csr_array(np.outer(outcomes.rest, landing))
    return moves


def edited_moves(
    moves: sparse.csr_array, edit: Edited, cells: Cells, action: Any, encoding: Encoding
) -> sparse.csr_array:
    """One action's probabilities, with the places it leads to changed."""
    there = cells.require(edit.at(cells.states, action, encoding))
    size = len(cells)
    sends = sparse.csr_array((np.ones(size), (np.arange(size), there)), shape=(size, size))
    return sparse.csr_array(moves @ sends)


def table_moves(transition: Any, cells: Cells, actions: Sequence[Any], encoding: Encoding):
    """From what a user gives as a table: an array, or a pair (states, array)."""
    states = cells.states
    if isinstance(transition, tuple):
        if len(transition) != 2:
            raise DataError(
                "`transition` must be an array, a pair (states, array), a function, a "
                f"deeppqr.mdp.Law or an Edited, but a tuple of {len(transition)} arrived."
            )
        states = encoding.encode_any(transition[0])
        transition = transition[1]
    probability = as_floats("transition", transition)
    wanted = (len(states), len(actions), len(states))
    if probability.shape != wanted or len(states) != len(cells):
        raise DataError(
            "`transition` must have the shape (state, action, next_state) = "
            f"{(len(cells), len(actions), len(cells))}, one row for each state that was "
            f"seen, in sorted order or named by a pair (states, array), and one column for "
            f"each of the actions {list(actions)}, but its shape is {probability.shape} "
            f"over {len(states)} states."
        )
    check_transition(probability)
    order = np.argsort(cells.require(states))
    return listed_moves(probability[order][:, :, order])
