r"""A multinomial logit whose penalties are chosen by their evidence.

$$\max_\theta \sum_i w_i \log\mathrm{softmax}\{x_i\theta + o_i\}_{a_i}
- \tfrac12\sum_g \lambda_g \|\theta_g\|^2.$$

The likelihood is concave and so is the penalised one: Newton's method finds the maximum
from anywhere. Each group of coefficients has a penalty of its own, and all are chosen by
maximising the Laplace approximation of the marginal likelihood. A group that says nothing
about the choices is shrunk to zero.
"""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.linalg import cho_solve
from scipy.linalg.lapack import dpotrf, dpotri
from scipy.special import log_softmax

from .._shapes import Codes, PerAction, PerRow
from ._row_threads import blas_threads

ROWS_AT_ONCE = 4_096  # with 5 actions and 300 features, 50 MB for the Hessian's root
# Upper bound of a group's penalty, at which its coefficients are zero for all purposes.
# Doubling it moves rewards on the paper world by 3e-5 of their standard deviation; doubling
# the other one changes nothing there, on the random table or on Rust's group 4.
MAX_PENALTY = 1e8
# Relative change of the penalties at which they are found.
PENALTY_TOL = 0.02
# Penalties that a fold's fit starts from are cut to this: updates are multiplicative, and a
# group that was dropped on all rows would need many to return.
RESTART_PENALTY = 1e4
# The group of coefficients that are not penalised.
FREE = -1


@dataclass(frozen=True, eq=False)
class RidgeLogit:
    """Coefficients with the penalties they were found under."""

    theta: Float[np.ndarray, " feature"]
    penalty: Float[np.ndarray, " group"]
    effective: Float[np.ndarray, " group"]
    """Effective number of coefficients in each group."""
    log_likelihood: float
    """Mean per unit of weight, in sample."""


@dataclass(frozen=True, eq=False)
class Choices:
    """Observed choices with the regressors and the offset of each alternative."""

    design: Float[np.ndarray, "row action feature"]
    offset: PerAction
    action: Codes
    weight: PerRow

    def select(self, rows: np.ndarray) -> "Choices":
        return Choices(
            self.design[rows], self.offset[rows], self.action[rows], self.weight[rows]
        )

    def use(self, features: Bool[np.ndarray, " feature"]) -> "Choices":
        """These choices explained by some of the features."""
        if features.all():
            return self
        return replace(self, design=self.design[:, :, features])

    def log_prob(self, theta: np.ndarray) -> PerAction:
        return log_softmax(self.design @ theta + self.offset, axis=1)

    def chosen(self, theta: np.ndarray) -> PerRow:
        return self.log_prob(theta)[np.arange(len(self.action)), self.action]

    def derivatives(
        self, theta: np.ndarray, rows: np.ndarray | None = None
    ) -> tuple[Float[np.ndarray, " feature"], Float[np.ndarray, "feature feature"]]:
        """The log-likelihood's gradient and negative Hessian, over all rows or some."""
        rows = np.arange(len(self.action)) if rows is None else rows
        number = self.design.shape[2]
        gradient, hessian = np.zeros(number), np.zeros((number, number))
        # In chunks: the weighted design would otherwise be a second copy of it.
        for first in range(0, len(rows), ROWS_AT_ONCE):
            at = rows[first : first + ROWS_AT_ONCE]
            x, weight = self.design[at], self.weight[at]
            prob = np.exp(log_softmax(x @ theta + self.offset[at], axis=1))
            mean = np.einsum("ra,rak->rk", prob, x)
            taken = x[np.arange(len(x)), self.action[at]]
            gradient += weight @ (taken - mean)
            root = np.sqrt(weight[:, None] * prob)[:, :, None] * x
            root = root.reshape(-1, number)
            hessian += root.T @ root - (mean * weight[:, None]).T @ mean
        # Keeps the Hessian regular in directions on which no choice depends.
        return gradient, hessian + np.diag(1e-9 * (1.0 + np.diag(hessian)))


def fit_ridge_logit(
    choices: Choices,
    group: Int[np.ndarray, " feature"],
    *,
    start: RidgeLogit | None = None,
    max_steps: int = 50,
) -> RidgeLogit:
    """Maximise over coefficients and penalties at once.

    A step takes the likelihood's quadratic approximation, finds the penalties and the
    coefficients that suit it best (MacKay's rounds, which need no data), and goes there,
    or part of the way if the likelihood disagrees. Groups number 0, 1, ...; `FREE`
    coefficients have no penalty.

    References
    ----------
    [mackay1992evidence]; [wood2017fellner].
    """
    num_groups = int(group.max(initial=FREE)) + 1
    theta, penalty = np.zeros(len(group)), np.ones(num_groups)
    if start is not None:
        theta, penalty = start.theta, np.minimum(start.penalty, RESTART_PENALTY)
    effective = np.zeros(num_groups)
    for _ in range(max_steps):
        gradient, hessian = choices.derivatives(theta)
        right = hessian @ theta + gradient
        penalty, effective = best_penalty(hessian, right, group, penalty)
        diagonal = penalty_diagonal(penalty, group)
        step = np.linalg.solve(hessian + np.diag(diagonal), right) - theta
        slope = float(step @ (gradient - diagonal * theta))
        # Newton's full step where the likelihood agrees; halved where the quadratic
        # approximation overshoots.
        theta = _search(choices, diagonal, theta, step, slope)
        if slope < 1e-3:  # the expected gain of the next step, in nats over all rows
            break
    total = float((choices.chosen(theta) * choices.weight).sum())
    # A fold may leave no row that has weight: then nothing was learned, and all is zero.
    mean = total / max(float(choices.weight.sum()), np.finfo(float).tiny)
    return RidgeLogit(theta, penalty, effective, mean)


def best_penalty(
    hessian, right, group, penalty, rounds=200
) -> tuple[np.ndarray, np.ndarray]:
    """Penalties of the largest evidence where the log-likelihood is quadratic."""
    penalised, num_groups = group >= 0, len(penalty)
    inside = group[penalised]
    size = np.bincount(inside, minlength=num_groups)
    effective = np.zeros(num_groups)
    # Each round inverts the Hessian: fewer where it is large, as later calls go on.
    rounds = min(rounds, max(6, int(4e9 / max(len(group), 1) ** 3)))
    for _ in range(rounds if num_groups else 0):
        system = hessian + np.diag(penalty_diagonal(penalty, group))
        with blas_threads():
            variance, theta = _variance_and_mean(system, right)
        spread = np.bincount(inside, variance[penalised], num_groups)
        square = np.bincount(inside, theta[penalised] ** 2, num_groups)
        effective = np.maximum(size - penalty * spread, 1e-12)
        updated = np.clip(effective / np.maximum(square, 1e-300), 1e-3, MAX_PENALTY)
        # A group with no effective coefficients may keep growing its penalty, which
        # changes nothing: convergence is judged on the other groups.
        # Doubling 0.05 moves rewards by 0.001 of their spread.
        moving = np.abs(np.log(updated / penalty)) * (effective > 0.05)
        penalty = updated
        if moving.max(initial=0.0) < PENALTY_TOL:
            break
    return penalty, effective


def _variance_and_mean(system: np.ndarray, right: np.ndarray):
    """The inverse's diagonal, and its product with a vector."""
    # Of Cholesky's factor: a third of the time of a general inverse.
    factor, failed = dpotrf(system, lower=1)
    if failed:
        inverse = np.linalg.inv(system)
        return np.diag(inverse), inverse @ right
    theta = cho_solve((factor, True), right, check_finite=False)
    inverse, _ = dpotri(factor, lower=1, overwrite_c=1)
    return np.diag(inverse), theta


def log_evidence(hessian, right, group, penalty) -> float:
    """The log marginal likelihood of a quadratic log-likelihood, up to a constant."""
    diagonal = penalty_diagonal(penalty, group)
    system = hessian + np.diag(diagonal)
    fit = 0.5 * float(right @ np.linalg.solve(system, right))
    volume = 0.5 * float(np.log(diagonal[diagonal > 0]).sum())
    return fit + volume - 0.5 * float(np.linalg.slogdet(system)[1])


def _search(choices: Choices, penalty, theta, step, slope: float) -> np.ndarray:
    """Along the step as far as the penalised likelihood rises enough."""

    def objective(at: np.ndarray) -> float:
        fit = choices.weight @ choices.chosen(at)
        return float(fit - 0.5 * np.sum(penalty * at**2))

    start, length = objective(theta), 1.0
    while length > 1e-8:
        if objective(theta + length * step) >= start + 1e-4 * length * slope:
            return theta + length * step
        length /= 2
    return theta


def held_out_predictor(
    choices: Choices, fit: RidgeLogit, group: Int[np.ndarray, " feature"], fold: Codes
) -> PerAction:
    """Each alternative's linear predictor, without the offset, by coefficients and
    penalties found without the row's fold."""
    predictor = np.empty_like(choices.offset)
    for number in np.unique(fold):
        out = fold == number
        # Penalties are chosen again without the fold: reusing them would leak it.
        without = fit_ridge_logit(choices.select(~out), group, start=fit)
        predictor[out] = choices.design[out] @ without.theta
    return predictor


def penalty_diagonal(penalty: np.ndarray, group: np.ndarray) -> np.ndarray:
    return np.where(group >= 0, np.append(penalty, 0.0)[group], 0.0)
