r"""Influence functions of V: its derivatives in the weight of each row.

$$V(s) = g(s) - \alpha\log\pi(a^A|s) + \gamma h(s), \qquad
h = E[b(s') + \gamma h(s') \mid s, a^A], \quad b = g - \alpha\log\pi(a^A|\cdot).$$

The continuation h has parameters of its own: one number under a renewal, a table where it
was counted, none under a self-loop. They move with the row's own residual of this
equation, and with the policy through b.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import sparse

from .._errors import NoInfluenceFunction
from .._shapes import Codes, Mask
from ..mdp._tabular import solve_bellman
from ..panel._cells import Cells
from ..panel._clusters import Clusters
from ..panel._panel import Panel
from ..policy._score import OTHER_PANEL, PolicyScore
from ._exact import TableFunction
from ._structure import ConstantFunction, SelfLoopFunction
from ._value import AnchoredValue

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
        discount = self.value.discount
        ahead = sparse.csr_array((len(state), self.size))
        if self.size:
            pairs = (np.arange(len(state)), _cell(self.cells, state))
            ahead = sparse.csr_array((np.ones(len(state)), pairs), (len(state), self.size))
        bonus = _bonus_jacobian(self.value, self.policy, state)
        own = (1 + discount * self.gain) * bonus
        return sparse.hstack([own, discount * ahead]).tocsr()


class _AnchorRows(NamedTuple):
    """The anchor's rows, and the residual of its equation in each."""

    at: Mask
    source: Codes
    """The cell of each row's state; zero where the continuation is one number."""
    next_state: np.ndarray
    """Of the rows after which something follows."""
    goes: np.ndarray
    weight: np.ndarray
    residual: np.ndarray
    """b(s') + discount h(s') - h(s)."""


def value_score(
    value: AnchoredValue, panel: Panel, policy: PolicyScore, clusters: Clusters
) -> ValueScore:
    """The score of a value whose continuation was found in closed form on this panel."""
    parts = (value.policy_continuation, value.known_continuation)
    kinds = {type(part) for part in parts if part is not None}
    own = clusters.sum(policy.score)
    if value.discount == 0 or kinds == {SelfLoopFunction}:
        gain = 1 / (1 - value.discount) if value.discount else 0.0
        return ValueScore(value, policy, own, None, 0, gain)
    if kinds not in ({ConstantFunction}, {TableFunction}):
        raise NoInfluenceFunction(
            f"An anchor's value that is a {sorted(k.__name__ for k in kinds)[-1]} has no "
            "influence function in closed form; exits, self-loops, renewals and "
            'anchor_value="exact" do. Bootstrap instead.'
        )
    cells = getattr(value.policy_continuation, "cells", None)
    rows = _anchor_rows(panel, value, cells)
    if cells is None:
        score = _renewal(value, policy, rows, own, clusters)
    else:
        score = _table(value, policy, rows, own, clusters, cells)
    return ValueScore(value, policy, np.column_stack([own, score]), cells, score.shape[1])


def _anchor_rows(panel: Panel, value: AnchoredValue, cells: Cells | None) -> _AnchorRows:
    """The rows, refused unless residuals average to zero, as they do on h's own panel."""
    rows = (panel.action == value.anchor) & panel.is_transition
    goes, weight = panel.has_next[rows] & ~panel.terminal[rows], panel.weight[rows]
    state, next_state = panel.state[rows], panel.next_state[rows][goes]
    known = value(state)
    bonus = known.anchor_reward - value.temperature * known.log_prob[:, value.anchor]
    residual = -((known.value - bonus) / value.discount)
    residual[goes] += value(next_state).value  # V = b + discount h
    source, size = _cell(cells, state), 1 if cells is None else len(cells)
    total = np.bincount(source, weight, size)
    mean = np.bincount(source, weight * residual, size) / np.maximum(total, 1e-300)
    scale = max(float(np.abs(known.value).max()), 1.0)
    if np.abs(mean).max() > MAX_RESIDUAL * scale or (size > 1 and (total == 0).any()):
        raise NoInfluenceFunction(OTHER_PANEL.format(what="anchor's value"))
    return _AnchorRows(rows, source, next_state, goes, weight, residual)


def _cell(cells: Cells | None, state) -> Codes:
    return np.zeros(len(state), np.int64) if cells is None else cells.require(state)


def _renewal(value, policy, rows: _AnchorRows, own, clusters: Clusters) -> np.ndarray:
    r"""How h moves, with $1_i$ where something follows row i:
    $$dh = \{w_i\,(b(s'_i) + \gamma h - h) + \textstyle\sum_A w\,db(s')\}
    / \textstyle\sum_A w\,(1 - \gamma 1).$$
    """
    # The derivative of the renewal's scalar equation in h.
    lasting = float(rows.weight @ (1 - value.discount * rows.goes))
    direct = (rows.weight * rows.residual / lasting)[:, None]
    bonus = _bonus_jacobian(value, policy, rows.next_state)
    slope = (rows.weight[rows.goes] / lasting) @ bonus
    return clusters.sum(direct, at=rows.at) + (own @ slope)[:, None]


def _table(value, policy, rows: _AnchorRows, own, clusters, cells: Cells) -> np.ndarray:
    r"""$dh = (I - \gamma P_A)^{-1}\{(b + \gamma h - h)/n + P_A\,db\}$."""
    source, goes, size = rows.source, rows.goes, len(cells)
    share = rows.weight / np.bincount(source, rows.weight, size)[source]
    pairs = (source[goes], cells.require(rows.next_state))
    moves = sparse.csr_array((share[goes], pairs), (size, size))
    pairs = (np.arange(len(source)), source)
    residual = sparse.csr_array((share * rows.residual, pairs), (len(source), size))
    slope = moves @ _bonus_jacobian(value, policy, cells.states)
    moved = clusters.sum(residual, at=rows.at) + own @ slope.T
    return solve_bellman(moves, moved.T, discount=value.discount).T


def _bonus_jacobian(value: AnchoredValue, policy: PolicyScore, state) -> Any:
    anchor = np.full(len(state), value.anchor)
    return -value.temperature * policy.jacobian(state, anchor)
