r"""Realised rewards, and how the first two stages' estimates move them.

A decision's *realised reward* is $y = Q(s,a) - \gamma V(s')$, whose mean given (s,a) is
r(s,a). Regressed on columns b(s,a) by least squares, with weights w, it has coefficients
$\beta$; with an indicator for each pair (s,a) these are the tabular rewards. A small
growth of row i's weight moves them by
$$\psi_i = (\textstyle\sum_j w_j b_j b_j')^{-1}
\{w_i b_i (y_i - b_i'\beta) + \textstyle\sum_j w_j b_j\, dy_j(i)\},$$
where $dy_j = \alpha\,d\log\pi(a_j|s_j) + dV(s_j) - \gamma\,dV(s'_j)$ follows from the
policy's and the anchor's scores. No term is dropped: these are the derivatives of the
estimator itself, as refitting with changed weights shows.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy import sparse

from .._errors import NoInfluenceFunction
from .._shapes import Mask
from ..anchor._score import ValueScore, value_score
from ..anchor._value import AnchoredValue
from ..panel._cells import Cells
from ..panel._clusters import Clusters
from ..panel._panel import Panel
from ..policy._score import OTHER_PANEL, policy_score


@dataclass(frozen=True, eq=False)
class Realised:
    """Realised rewards of the decisions other than the anchor, ready to be regressed."""

    panel: Panel
    rows: Mask
    """Decisions that are not the anchor and whose sequel was seen."""
    outcome: Float[np.ndarray, " chosen"]
    jacobian: Any
    """Sparse (chosen, parameter): how each outcome moves with the first two stages."""
    score: ValueScore
    clusters: Clusters

    @classmethod
    def of(cls, value: AnchoredValue, panel: Panel, clusters: Clusters) -> "Realised":
        score = value_score(value, panel, policy_score(value.policy, panel), clusters)
        rows = panel.is_transition & (panel.action != value.anchor) & (panel.weight > 0)
        state, action = panel.state[rows], panel.action[rows]
        goes = panel.has_next[rows] & ~panel.terminal[rows]
        after = panel.next_state[rows][goes]
        outcome = value(state).q[np.arange(len(state)), action]
        outcome[goes] -= value.discount * value(after).value
        pairs = (np.flatnonzero(goes), np.arange(len(after)))
        spread = sparse.csr_array((np.ones(len(after)), pairs), (len(state), len(after)))
        jacobian = (
            value.temperature * score.log_prob(state, action)
            + score.value_at(state)
            - value.discount * (spread @ score.value_at(after))
        )
        return cls(panel, rows, outcome, jacobian, score, clusters)

    def regress(
        self, columns: Any
    ) -> tuple[Float[np.ndarray, " column"], Float[np.ndarray, "cluster column"]]:
        """Coefficients on the chosen rows' columns, and the clusters' influence on them.

        Columns are dense, or a sparse matrix of indicators that exclude each other.
        """
        weight = self.panel.weight[self.rows]
        weighted = columns * weight[:, None]
        # Indicators that exclude each other have a diagonal Gram matrix.
        if sparse.issparse(columns):
            mass = np.asarray(weighted.sum(axis=0)).ravel()
            seen = np.where(mass > 0, mass, np.nan)
            solve = lambda right: right / seen[:, None]
        else:
            solve = partial(solve_gram, columns.T @ weighted)
        with np.errstate(invalid="ignore"):
            beta = solve((weighted.T @ self.outcome)[:, None])[:, 0]
            residual = self.outcome - columns @ np.nan_to_num(beta)
            direct = sparse.csr_array(weighted * residual[:, None])
            own = self.clusters.sum(direct, at=self.rows)
            slope = weighted.T @ self.jacobian
            slope = slope.toarray() if sparse.issparse(slope) else np.asarray(slope)
            influence = solve(own.T + slope @ self.score.score.T).T
        return beta, influence


def solve_gram(
    gram: Float[np.ndarray, "column column"], right: Float[np.ndarray, "column other"]
) -> Float[np.ndarray, "column other"]:
    """Least squares from a Gram matrix, whatever the columns' scales."""
    # Scaled first: beside a column of 1e4 one of 1e-2 has an entry of 1e-12 of the
    # largest, which a solver would drop as rounding error, and its coefficient with it.
    scale = np.sqrt(np.maximum(np.diag(gram), 1e-300))
    scaled = gram / np.outer(scale, scale)
    found = np.linalg.lstsq(scaled, right / scale[:, None], rcond=1e-13)[0]
    return found / scale[:, None]


def table_influence(
    realised: Realised, cells: Cells, num_actions: int
) -> tuple[Float[np.ndarray, "cell action"], Float[np.ndarray, "cluster cell action"]]:
    """Means of realised rewards in each cell and action, and the clusters' influence.

    NaN in pairs never seen; the anchor's column is the caller's to fill, as its reward is
    known and not estimated.
    """
    rows = realised.rows
    cell = cells.locate(realised.panel.state[rows])
    if (cell < 0).any():
        raise NoInfluenceFunction(OTHER_PANEL.format(what="reward's table"))
    pair = cell * num_actions + realised.panel.action[rows]
    pairs, shape = (np.arange(len(pair)), pair), (len(cells), num_actions)
    size = len(cells) * num_actions
    indicator = sparse.csr_array((np.ones(len(pair)), pairs), (len(pair), size))
    beta, influence = realised.regress(indicator)
    return beta.reshape(shape), influence.reshape(-1, *shape)
