"""The anchor's equation with transitions that the user gives as a table."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from .._errors import DataError
from ..mdp._law import Law
from ..mdp._tabular import check_transition
from ..panel._cells import Cells
from ..panel._panel import Panel
from ._exact import TableFunction, condition_number, solve_bellman
from ._problem import AbstractAnchorSolver, AnchorProblem, AnchorSolution


@dataclass(frozen=True, eq=False)
class KnownTransition:
    """The law of the next state on a table: who can go where, with what probability."""

    cells: Cells
    probability: Float[np.ndarray, "cell action next_cell"]


def resolve_transition(transition: Any, panel: Panel) -> KnownTransition | Law:
    """The law behind `transition`: a function, an array, or a pair (states, array).

    An array alone is over the states 0, 1, 2, ... of a single state column.
    """
    encoding, num_actions = panel.encoding, panel.num_actions
    if callable(transition) or isinstance(transition, Law):
        if any(column.kind == "categorical" for column in encoding.columns):
            raise DataError(
                "A `transition` given as a function needs numeric states, but "
                f"{[str(c) for c in encoding.columns if c.kind == 'categorical']} are "
                "categorical. Number the categories."
            )
        return transition if isinstance(transition, Law) else Law(transition)
    states, probability = (
        transition if isinstance(transition, tuple) else (None, transition)
    )
    probability = np.asarray(probability, dtype=np.float64)
    num_states = len(probability)
    if probability.shape != (num_states, num_actions, num_states):
        raise DataError(
            "`transition` must have the shape (state, action, next_state) with "
            f"{num_actions} actions, but its shape is {probability.shape}."
        )
    check_transition(probability)
    if states is None:
        states = np.arange(num_states, dtype=np.float64)[:, None]
    encoded = encoding.encode_any(states)
    cells = Cells.of(encoded)
    if len(cells) != num_states or len(encoded) != num_states:
        raise DataError(
            f"`transition` has {num_states} states, but its table of states has "
            f"{len(encoded)} rows, {len(cells)} of them distinct."
        )
    # Cells are sorted, the user's states may not be.
    order = np.argsort(cells.locate(encoded))
    return KnownTransition(cells, probability[order][:, :, order])


@dataclass(frozen=True)
class Known(AbstractAnchorSolver):
    """The anchor's equation under a known transition law: exact, no regression."""

    transition: KnownTransition
    anchor: int

    def solve(self, problem: AnchorProblem, *, key) -> AnchorSolution:
        del key
        cells = self.transition.cells
        moves = self.transition.probability[:, self.anchor]
        bonus = problem.bonus(cells.states)
        table = solve_bellman(moves, moves @ bonus, discount=problem.discount)
        residual = table - moves @ (bonus + problem.discount * table)
        from scipy import sparse

        return AnchorSolution(
            TableFunction(cells, table),
            residual=float(np.abs(residual).max()),
            condition=condition_number(sparse.csc_array(moves), discount=problem.discount),
            note=f"exact solve with the known transitions of {len(cells):,} states",
        )
