"""The anchor's equation solved directly on linear features (LSTD)."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from .._stored import stored
from ..learners._basis import (
    AbstractBasis,
    AbstractFeatures,
    Indicators,
    RandomFeatures,
    penalty,
)
from ..panel._cells import Cells, few_states
from ._problem import (
    AbstractAnchorSolver,
    AbstractStateFunction,
    AnchorProblem,
    AnchorSolution,
)


@dataclass(frozen=True)
class Linear(AbstractAnchorSolver):
    r"""Least-squares temporal differences: one linear solve, no iteration.

    With features $\phi$ of the rows where the anchor was taken and $\phi'$ of their next
    states (zero where the process ended), $h = \phi^\top\theta$ with
    $$\theta = \{\Phi^\top(\Phi - \gamma\Phi') + \lambda I\}^{-1}
    \Phi^\top\{g(s') - \alpha\log\pi(a^A|s')\}.$$

    Parameters
    ----------
    basis
        Features; by default one indicator per state where states are few, otherwise
        random ridges with the policy's log-probabilities among them.
    ridge
        $\lambda$ in pseudo-rows: 100 weighs as much as a hundred rows saying zero, so it
        fades as data grow. Indicators are not penalised.

    References
    ----------
    [bradtke1996lstd].
    """

    basis: AbstractBasis | None = None
    # Doubled, rewards by RE move by up to 0.43 of their standard deviation where the anchor
    # has 46 rows (paper world, p = 2, 1,500 decisions). Joint estimation does not use it.
    ridge: float = 100.0

    def solve(self, problem: AnchorProblem, *, key) -> AnchorSolution:
        basis = self.basis or default_basis(problem.state, problem.query_states)
        ridge = 0.0 if isinstance(basis, Indicators) else self.ridge
        features = basis.fit(problem.state, problem.log_prob, key=key)
        here = features(problem.state, problem.log_prob(problem.state))
        there = np.zeros_like(here)
        follows = ~problem.ends
        states = problem.next_state[follows]
        there[follows] = features(states, problem.log_prob(states))
        # Phi (Phi - gamma Phi') and not its square: the LSTD fixed point, which next states
        # with noise do not bias, as minimising Bellman residuals would.
        weighted = here * problem.weight[:, None]
        system = weighted.T @ (here - problem.discount * there)
        system += penalty(here.shape[1], ridge)
        target = weighted.T @ problem.next_bonus()
        note = f"direct solve on {len(target)} features, {len(here):,} anchor rows"
        return solve_features(features, system, target, problem.weight.sum(), note)


@stored
@dataclass(frozen=True, eq=False)
class LinearFunction(AbstractStateFunction):
    """A linear function of features."""

    features: AbstractFeatures
    theta: Float[np.ndarray, " feature"]

    def __call__(self, state, log_prob):
        return self.features(state, log_prob) @ self.theta


def default_basis(state: np.ndarray, query_states: np.ndarray) -> AbstractBasis:
    """Indicators where every state that matters occurs, else random ridges."""
    # At most 500 indicators, since the solve takes an SVD of that size.
    if few_states(state, rows_per_cell=2, max_cells=500):
        if (Cells.of(state).locate(query_states) >= 0).all():
            return Indicators()
    return RandomFeatures()


def solve_features(
    features: AbstractFeatures, system: np.ndarray, target: np.ndarray, rows: float, note
) -> AnchorSolution:
    """The features' coefficients, and the condition number after scaling them."""
    # Scaled first, so that the condition number does not depend on the features' units.
    scale = np.sqrt(np.maximum(np.abs(np.diag(system)), 1e-300))
    scaled = system / scale[:, None] / scale[None, :]
    left, singular, right = np.linalg.svd(scaled)
    # Directions that the data do not determine get coefficient zero; dividing by their
    # singular values would multiply rounding error by 1e13 and more.
    keep = singular > 1e-13 * singular[0]
    solution = right[keep].T @ ((left[:, keep].T @ (target / scale)) / singular[keep])
    theta = solution / scale
    residual = float(np.abs(system @ theta - target).max() / rows)
    condition = float(singular[0] / max(singular[-1], 1e-300))
    return AnchorSolution(LinearFunction(features, theta), residual, note, condition)
