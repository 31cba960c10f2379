"""The anchor's Bellman equation on a finite table."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy import sparse
from scipy.sparse.linalg import onenormest, splu

from .._errors import AnchorNeverTaken
from .._shapes import TableValues
from .._stored import stored
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


def solve_bellman(transition: Any, target: TableValues, *, discount: float) -> TableValues:
    """Solve (I - discount P) x = target for a dense or sparse P."""
    num_states = len(target)
    if not sparse.issparse(transition):
        return np.linalg.solve(np.eye(num_states) - discount * transition, target)
    system = sparse.identity(num_states, format="csc") - discount * transition.tocsc()
    # A counted law has a few next states per state: sparse LU is exact and stays sparse.
    return splu(system).solve(target)


@stored
@dataclass(frozen=True, eq=False)
class TableFunction(AbstractStateFunction):
    """A function known at finitely many states."""

    cells: Cells
    table: Float[np.ndarray, " cell"]

    def __call__(self, state, log_prob):
        del log_prob
        return self.table[self.cells.require(state)]


@dataclass(frozen=True)
class Exact(AbstractAnchorSolver):
    """The tabular solution, with the transition law counted from the panel.

    Every state that occurs must have had the anchor taken in it at least once: there is
    no other way to know where it leads.
    """

    def solve(self, problem: AnchorProblem, *, key) -> AnchorSolution:
        del key
        cells = Cells.of(problem.query_states)
        moves = count_moves(
            cells, problem.state, problem.next_state, problem.ends, problem.weight
        )
        # No smoothing across states here: a state without anchor rows has no equation.
        never = np.flatnonzero(moves.total == 0)
        if len(never):
            raise AnchorNeverTaken(
                f"The tabular solution needs the anchor {problem.anchor_label!r} taken in "
                f"every state, but in {len(never):,} of {len(cells):,} states it never "
                f"was; the first is {np.array2string(cells.states[never[0]])}. Use "
                'anchor_value="linear" or "averager", which generalise across states.'
            )
        bonus = problem.bonus(cells.states)
        table = solve_bellman(moves.share, moves.share @ bonus, discount=problem.discount)
        residual = table - moves.share @ (bonus + problem.discount * table)
        return AnchorSolution(
            TableFunction(cells, table),
            residual=float(np.abs(residual).max()),
            condition=condition_number(moves.share, discount=problem.discount),
            note=f"exact solve on {len(cells):,} states",
        )


@dataclass(frozen=True, eq=False)
class Moves:
    """Counted transitions out of each cell."""

    share: Any
    """Sparse (cell, cell): where a decision led; what is missing to one ended."""
    total: Float[np.ndarray, " cell"]


def count_moves(cells: Cells, state, next_state, ends, weight) -> Moves:
    """Transition shares between cells; rows in `ends` lead nowhere."""
    source = cells.require(state)
    total = np.bincount(source, weight, len(cells))
    goes = ~ends
    target = cells.require(next_state[goes])
    count = sparse.coo_array(
        (weight[goes], (source[goes], target)), shape=(len(cells), len(cells))
    ).tocsr()
    # Ends are in the total and not in the counts, so that rows sum to less than one.
    inverse = sparse.diags_array(1 / np.where(total > 0, total, 1.0))
    return Moves((inverse @ count).tocsr(), total)


def condition_number(transition: Any, *, discount: float) -> float:
    """One-norm condition of I - discount P, estimated where the table is large."""
    num_states = transition.shape[0]
    system = sparse.identity(num_states, format="csc") - discount * transition.tocsc()
    # Exact up to 500 states, where a dense inverse takes milliseconds; Higham's estimate
    # beyond, from a few solves with the sparse factors.
    if num_states <= 500:
        return float(np.linalg.cond(system.toarray(), 1))
    from scipy.sparse.linalg import LinearOperator

    factor = splu(system)
    inverse = LinearOperator(
        system.shape, matvec=factor.solve, rmatvec=lambda x: factor.solve(x, trans="T")
    )
    return float(onenormest(inverse) * onenormest(system))
