r"""The covariance of jointly estimated coefficients.

Row i moves $\hat\theta$ by $(H + \Lambda)^{-1}\xi_i$ with
$$\xi_i = z_i - \gamma\,\{z_i + \rho(s_i)\}\,\{V(s'_i) - E[V(s')|s_i,a_i]\},$$
$z_i = Z(s_i,a_i) - \sum_a\pi_a Z(s_i,a)$: the first part is the choice's, the second what
estimating the law costs, with $\rho = L'(\sum_i L_i L_i')^{-1}C$ the effect of a
change in V through all later periods, $L = \phi - \gamma\sum_a\pi_a E[\phi(s')|s,a]$ the
left side of the value's equation and
$C = \gamma\sum_i\sum_a\pi_a E[\phi(s')|s_i,a](Z_a - \bar Z)'$.
The two parts are uncorrelated. The choices' is read as a posterior, $(H + \Lambda)^{-1}$,
which counts the bias of the penalty (Nychka 1988), with what the penalties' own error adds
(`learners/_penalty_error.py`); the law's is clustered by unit.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from .._shapes import Codes, PerRow
from ..panel._clusters import Clusters, clustered_covariance
from ..panel._panel import Panel
from ..panel.scan._rows import AllRows
from ._decisions import Decisions
from ._rounds import Fitted
from ._value_problem import ValueProblem


def coefficient_covariance(
    panel: Panel,
    decisions: Decisions,
    used: np.ndarray,
    problem: ValueProblem,
    fit: Fitted,
    everyone: AllRows | None = None,
) -> tuple[
    Float[np.ndarray, "coefficient coefficient"],
    Float[np.ndarray, "coefficient coefficient"],
]:
    """Covariance of the coefficients, found on the decisions in `used`, and the part of
    it that is the choices'."""
    columns = problem.columns(fit.basis)
    inverse = np.linalg.pinv(fit.information + np.diag(fit.diagonal), hermitian=True)
    # Moments, for which the rows that the value's weights are found on are enough.
    sums = problem.sums(fit.basis, columns, few=problem.valued)
    moved = sums.own_other.T + problem.discount * sums.other_other @ fit.successor
    passed_on = problem.transport_weights(problem.discount * moved)
    surprise = _surprises(panel, decisions, used, problem)
    clusters = Clusters.of(panel)
    clustered = np.zeros((clusters.count, len(fit.theta)))
    light = inverse.astype(np.float32)
    for rows, effect in problem.scores(fit.basis, columns, fit.successor):
        effect += problem.transport(passed_on, rows)
        inside = (surprise.place >= rows.start) & (surprise.place < rows.stop)
        size = -problem.discount * surprise.value[inside]
        at = surprise.panel_row[inside]
        size = (size * panel.weight[at]).astype(np.float32)
        part = effect[surprise.place[inside] - rows.start] * size[:, None]
        clustered += clusters.sum(part @ light, at=at)
    # Where rounds used a share of the rows, sums over these stand for sums over all, and
    # the information is already that of all.
    whole = decisions.weight.sum()
    share = problem.weight.sum() / whole
    if everyone is not None:
        # The law was learned on the panel alone, and its error moves all rows alike: the
        # effects are more, and as large as those of the panel.
        share *= (whole / everyone.weight) ** 2
    choices = inverse + fit.penalty_error
    return choices + clustered_covariance(clustered) / share, choices


class _Surprises(NamedTuple):
    """V(s') less its expectation, in rows whose next state was seen."""

    value: PerRow
    panel_row: Codes
    place: Codes
    """Their places among the problem's rows."""


def _surprises(
    panel: Panel, decisions: Decisions, used: np.ndarray, problem: ValueProblem
) -> _Surprises:
    place = np.full(len(decisions.state), -1)
    place[used] = np.arange(len(used))
    at = np.full(len(panel), -1)
    at[decisions.panel_row] = place[decisions.at]
    rows = np.flatnonzero((at >= 0) & panel.is_transition)
    at = at[rows]
    ended = panel.terminal[rows]
    after = np.zeros(len(rows))
    if (~ended).any():
        value = problem.value_function(None)
        states = panel.next_state[rows[~ended]]
        parts = np.array_split(states, -(-len(states) // 20_000))
        after[~ended] = np.concatenate([value(part)[:, 0] for part in parts])
    expected = problem.continuation(problem.value_weight, problem.left)
    return _Surprises(after - expected[at, problem.action[at]], rows, at)
