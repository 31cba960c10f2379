r"""The covariance of jointly estimated coefficients of a reward over amounts.

That of `reward/_joint_covariance.py` with sums over actions replaced by moments of the
shapes under the policy: the effect of a change in V through the choices is
$$C = \gamma\sum_i\sum_{kt} E[\phi(s')|s_i]_k\,
\mathrm{cov}_\pi(\tau_k, \tau_t)\,\partial q_{it}/\partial\theta'.$$
"""

import numpy as np
from jaxtyping import Float

from .._shapes import Codes, PerRow
from ..learners._row_threads import sum_over_blocks
from ..panel._clusters import Clusters, clustered_covariance
from ..panel._panel import Panel
from ..reward._rounds import Fitted
from ._problem import AmountProblem


def amount_covariance(
    panel: Panel, used: np.ndarray, problem: AmountProblem, fit: Fitted
) -> Float[np.ndarray, "coefficient coefficient"]:
    """Covariance of the coefficients, found on the rows in `used`."""
    columns = problem.columns(fit.basis)
    inverse = np.linalg.pinv(fit.information + np.diag(fit.diagonal), hermitian=True)
    light = (problem.discount * fit.successor).astype(problem.dtype)
    number = problem.shapes.num_law

    def block(rows: slice) -> tuple[np.ndarray]:
        slopes = problem.slopes(fit.basis, columns, light, rows)
        covariance = problem.covariances(rows) * problem.weight[rows, None, None]
        pull = np.matmul(covariance[:, :number].astype(problem.dtype), slopes)
        total = np.zeros((problem.features.width, len(fit.theta)))
        for place in range(number):
            total += problem.ahead[place, rows].T @ pull[:, place]
        return (total,)

    (moved,) = sum_over_blocks(block, problem.blocks(fit.basis))
    # The sums of the value's equation are over fewer rows than these.
    valued = problem.weight[problem.valued].sum() / problem.weight.sum()
    passed_on = problem.transport_weights(problem.discount * valued * moved)
    place, surprise = _surprises(panel, used, problem)
    mean = problem.means()
    clusters = Clusters.of(panel)
    clustered = np.zeros((clusters.count, len(fit.theta)))
    for rows, effect in problem.scores(fit.basis, columns, fit.successor):
        effect = effect + problem.drop(mean[rows], rows) @ passed_on
        inside = (place >= rows.start) & (place < rows.stop)
        at = used[place[inside]]
        size = -problem.discount * surprise[inside] * panel.weight[at]
        part = effect[place[inside] - rows.start] * size[:, None]
        clustered += clusters.sum(part @ inverse, at=at)
    # Where rounds used a share of the rows, as if the others had been like them.
    return inverse + fit.penalty_error + clustered_covariance(clustered)


def _surprises(
    panel: Panel, used: np.ndarray, problem: AmountProblem
) -> tuple[Codes, PerRow]:
    """Places among the problem's rows, and V(s') less its expectation there."""
    place = np.flatnonzero(panel.is_transition[used])
    rows = used[place]
    ended, after = panel.terminal[rows], np.zeros(len(rows))
    if (~ended).any():
        value = problem.value_function(None)
        states = panel.next_state[rows[~ended]]
        parts = np.array_split(states, -(-len(states) // 20_000))
        after[~ended] = np.concatenate([value(part)[:, 0] for part in parts])
    expected = problem.project(problem.value_weight)
    expected = np.einsum("rt,rt->r", expected, problem.taken)
    return place, after - expected[place]
