r"""Influence functions of V: its derivatives in the weight of each row.

$$V(s) = g(s) - \alpha\log\pi(a^A|s) + \gamma h(s), \qquad
h = E[b(s') + \gamma h(s') \mid s, a^A], \quad b = g - \alpha\log\pi(a^A|\cdot).$$

The continuation h has parameters of its own: one number under a renewal, a table where it
was counted, none under a self-loop. They move with the row's own residual of this
equation, and with the policy through b.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy import sparse
from scipy.sparse.linalg import splu

from .._errors import NoInfluenceFunction
from .._shapes import PerRow
from ..anchor._exact import TableFunction
from ..anchor._structure import ConstantFunction, SelfLoopFunction
from ..anchor._value import AnchoredValue
from ..panel._cells import Cells
from ..panel._clusters import Clusters
from ..panel._panel import Panel
from ._policy_score import OTHER_PANEL, PolicyScore

# Largest violation of the anchor's equation on the panel, relative to V. A direct solve
# leaves rounding error on its own panel; another panel violates it by far more.
MAX_RESIDUAL = 1e-6


@dataclass(frozen=True, eq=False)
class ValueScore:
    """The parameters of policy and V together: what moves them, and what they move."""

    value: AnchoredValue
    policy: PolicyScore
    score: Float[np.ndarray, "cluster parameter"]
    """Policy's parameters first, then the continuation's."""
    cells: Cells | None
    """States that the continuation is tabulated at; None where it is one number."""
    size: int
    """Number of the continuation's parameters."""
    gain: float = 0.0
    """What h adds of b at the same state: 1 / (1 - discount) under a self-loop."""

    def log_prob(self, state, action):
        """Sparse (row, parameter): derivatives of log pi(a_j | s_j)."""
        own = self.policy.jacobian(state, action)
        return sparse.hstack([own, sparse.csr_array((len(state), self.size))]).tocsr()

    def value_at(self, state):
        """Sparse (row, parameter): derivatives of V(s_j)."""
        known = self.value
        anchor = np.full(len(state), known.anchor)
        bonus = -known.temperature * self.policy.jacobian(state, anchor)
        ahead = sparse.csr_array((len(state), self.size))
        if self.size:
            at = np.zeros(len(state), np.int64)
            if self.cells is not None:
                at = self.cells.require(state)
            pairs = (np.arange(len(state)), at)
            ahead = sparse.csr_array((np.ones(len(state)), pairs), (len(state), self.size))
        own = (1 + known.discount * self.gain) * bonus
        return sparse.hstack([own, known.discount * ahead]).tocsr()


@dataclass(frozen=True, eq=False)
class _AnchorRows:
    """The anchor's rows, and the residual of its equation in each."""

    at: np.ndarray
    state: np.ndarray
    next_state: np.ndarray
    """Of the rows after which something follows."""
    goes: np.ndarray
    weight: np.ndarray
    residual: PerRow
    """b(s') + discount h(s') - h(s)."""

    @classmethod
    def of(cls, panel: Panel, value: AnchoredValue) -> "_AnchorRows":
        rows = (panel.action == value.anchor) & panel.is_transition
        goes = panel.has_next[rows] & ~panel.terminal[rows]
        state, next_state = panel.state[rows], panel.next_state[rows][goes]
        # h from V itself, so that policy's and g's parts need not be added up here.
        ahead = lambda at: (value(at).value - _bonus(value, at)) / value.discount
        residual = -ahead(state)
        residual[goes] += value(next_state).value  # V = b + discount h
        return cls(
            np.flatnonzero(rows), state, next_state, goes, panel.weight[rows], residual
        )


def value_score(
    value: AnchoredValue, panel: Panel, policy: PolicyScore, clusters: Clusters
) -> ValueScore:
    """The score of a value whose continuation was found in closed form on this panel."""
    kinds = {type(value.policy_continuation)}
    if value.known_continuation is not None:
        kinds.add(type(value.known_continuation))
    own = clusters.sum(policy.score)
    if value.discount == 0 or kinds == {SelfLoopFunction}:
        gain = 1 / (1 - value.discount) if value.discount else 0.0
        return ValueScore(value, policy, own, None, 0, gain)
    rows = _AnchorRows.of(panel, value)
    if kinds == {ConstantFunction}:
        score, cells = _renewal(value, policy, rows, own, clusters), None
    elif kinds == {TableFunction}:
        assert isinstance(value.policy_continuation, TableFunction)
        cells = value.policy_continuation.cells
        score = _table(value, policy, rows, own, clusters, cells)
    else:
        raise NoInfluenceFunction(
            f"An anchor's value that is a {sorted(k.__name__ for k in kinds)[-1]} has no "
            "influence function in closed form; exits, self-loops, renewals and "
            'anchor_value="exact" do. Bootstrap instead.'
        )
    return ValueScore(value, policy, np.column_stack([own, score]), cells, score.shape[1])


def _renewal(value, policy, rows: _AnchorRows, own, clusters: Clusters) -> np.ndarray:
    r"""How h moves, with $1_i$ where something follows row i:
    $$dh = \{w_i\,(b(s'_i) + \gamma h - h) + \textstyle\sum_A w\,db(s')\}
    / \textstyle\sum_A w\,(1 - \gamma 1).$$
    """
    # The derivative of the renewal's scalar equation in h.
    lasting = float(rows.weight @ (1 - value.discount * rows.goes))
    direct = _per_row(len(clusters.code), rows.at, rows.weight * rows.residual / lasting)
    _check_equation(value, rows, np.zeros(len(rows.at), np.int64), 1)
    bonus = _bonus_jacobian(value, policy, rows.next_state)
    slope = (rows.weight[rows.goes] / lasting) @ bonus
    return clusters.sum(direct) + (own @ slope)[:, None]


def _table(value, policy, rows: _AnchorRows, own, clusters, cells: Cells) -> np.ndarray:
    r"""$dh = (I - \gamma P_A)^{-1}\{(b + \gamma h - h)/n + P_A\,db\}$."""
    source = cells.require(rows.state)
    total = np.bincount(source, rows.weight, len(cells))
    share = rows.weight / np.maximum(total[source], 1e-300)
    _check_equation(value, rows, source, len(cells))
    goes = rows.goes
    moves = sparse.csr_array(
        (share[goes], (source[goes], cells.require(rows.next_state))),
        shape=(len(cells), len(cells)),
    )
    # Factored once for all clusters, whose influences are columns of the right side.
    system = splu(
        sparse.identity(len(cells), format="csc") - value.discount * moves.tocsc()
    )
    residual = sparse.csr_array(
        (share * rows.residual, (rows.at, source)), shape=(len(clusters.code), len(cells))
    )
    slope = moves @ _bonus_jacobian(value, policy, cells.states)
    return system.solve((clusters.sum(residual) + own @ slope.T).T).T


def _bonus_jacobian(value: AnchoredValue, policy: PolicyScore, state) -> Any:
    anchor = np.full(len(state), value.anchor)
    return -value.temperature * policy.jacobian(state, anchor)


def _bonus(value: AnchoredValue, state) -> np.ndarray:
    known = value(state)
    return known.anchor_reward - value.temperature * known.log_prob[:, value.anchor]


def _check_equation(value, rows: _AnchorRows, source, size: int) -> None:
    """Raise unless residuals average to zero in each cell, as they do on h's own panel."""
    total = np.bincount(source, rows.weight, size)
    mean = np.bincount(source, rows.weight * rows.residual, size) / np.maximum(
        total, 1e-300
    )
    scale = max(float(np.abs(value(rows.state).value).max()), 1.0)
    if np.abs(mean).max() > MAX_RESIDUAL * scale or (size > 1 and (total == 0).any()):
        raise NoInfluenceFunction(OTHER_PANEL.format(what="anchor's value"))


def _per_row(num_rows: int, at: np.ndarray, values: np.ndarray) -> np.ndarray:
    every = np.zeros((num_rows, 1))
    every[at, 0] = values
    return every
