"""The anchor's Bellman equation on a finite table."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, onenormest, splu

from .._errors import AnchorNeverTaken
from .._shapes import TableValues
from .._stored import stored
from ..mdp._tabular import bellman_system, solve_bellman
from ..panel._cells import Cells
from ._problem import (
    AbstractAnchorSolver,
    AbstractStateFunction,
    AnchorProblem,
    AnchorSolution,
)


def solve_anchor_q(
    anchor_log_prob: TableValues,
    anchor_reward: TableValues,
    anchor_transition: Any,
    *,
    discount: float,
    temperature: float,
) -> TableValues:
    r"""Solve for the action value of the anchor, $Q^A(s) = Q(s, a^A)$.

    $Q^A$ is the fixed point of a Bellman equation with a single action, hence linear:
    $$(I - \gamma P_A)\, Q^A = g - \gamma\alpha\, P_A \log \pi(\cdot, a^A).$$

    Parameters
    ----------
    anchor_log_prob
        Log-probability of the anchor in each state, $\log \pi(s, a^A)$.
    anchor_reward
        The known reward of the anchor, $g(s)$; zeros when it means "do nothing".
    anchor_transition
        $P_A$, the law of the next state given the anchor, dense or sparse. A row may sum
        to less than one where the process can end.
    discount, temperature
        $\gamma$ and $\alpha$; the agent's, not the optimiser's.

    References
    ----------
    [geng2020pqr], Definition 2 and Theorem 1.
    """
    target = anchor_reward - discount * temperature * (anchor_transition @ anchor_log_prob)
    return solve_bellman(anchor_transition, target, discount=discount)


@stored
@dataclass(frozen=True, eq=False)
class TableFunction(AbstractStateFunction):
    """A function known at finitely many states."""

    cells: Cells
    table: Float[np.ndarray, " cell"]

    def __call__(self, state, log_prob):
        return self.table[self.cells.require(state)]


@dataclass(frozen=True)
class Exact(AbstractAnchorSolver):
    """The tabular solution, with the transition law counted from the panel.

    Every state that occurs must have had the anchor taken in it at least once: there is
    no other way to know where it leads.
    """

    def solve(self, problem: AnchorProblem, *, key) -> AnchorSolution:
        cells = Cells.of(problem.query_states)
        source, goes = cells.require(problem.state), ~problem.ends
        total = np.bincount(source, problem.weight, len(cells))
        # No smoothing across states here: a state without anchor rows has no equation.
        never = np.flatnonzero(total == 0)
        if len(never):
            raise AnchorNeverTaken(
                f"The tabular solution needs the anchor {problem.anchor_label!r} taken in "
                f"every state, but in {len(never):,} of {len(cells):,} states it never "
                f"was; the first is {np.array2string(cells.states[never[0]])}. Use "
                'anchor_value="linear" or "averager", which generalise across states.'
            )
        pairs = (source[goes], cells.require(problem.next_state[goes]))
        count = sparse.coo_array((problem.weight[goes], pairs), (len(cells), len(cells)))
        # Ends are in the total and not in the counts, so that rows sum to less than one.
        moves = (sparse.diags_array(1 / total) @ count.tocsr()).tocsr()
        return solve_table(problem, cells, moves, f"exact solve on {len(cells):,} states")


def solve_table(
    problem: AnchorProblem, cells: Cells, moves: Any, note: str
) -> AnchorSolution:
    """The anchor's continuation at each cell, with its moves between them known."""
    bonus, discount = problem.bonus(cells.states), problem.discount
    table = solve_bellman(moves, moves @ bonus, discount=discount)
    residual = float(np.abs(table - moves @ (bonus + discount * table)).max())
    condition = condition_number(moves, discount=discount)
    return AnchorSolution(TableFunction(cells, table), residual, note, condition)


def condition_number(moves: Any, *, discount: float) -> float:
    """One-norm condition of I - discount P, estimated where the table is large."""
    system = bellman_system(sparse.csc_array(moves), discount=discount)
    # Exact up to 500 states, where a dense inverse takes milliseconds; Higham's estimate
    # beyond, from a few solves with the sparse factors.
    if moves.shape[0] <= 500:
        return float(np.linalg.cond(system.toarray(), 1))
    factor = splu(system)
    inverse = LinearOperator(
        system.shape, matvec=factor.solve, rmatvec=lambda x: factor.solve(x, trans="T")
    )
    return float(onenormest(inverse) * onenormest(system))
