"""The quick default policy: a multinomial logit on smooth terms, penalised by evidence."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.special import log_softmax

from .._stored import stored
from ..learners._build_basis import smooth_basis
from ..learners._logit_sums import choice_scores, logit_sums
from ..learners._ridge_logit import best_penalty, penalty_diagonal
from ..learners._smooth_basis import SmoothBasis
from ..panel._panel import Panel
from ._policy import FOLDS, AbstractPolicy, AbstractPolicyEstimator, PolicyFit

# Decisions it is fitted on, evenly spaced; more add little to a policy that is a start and
# a check of the reward.
ROWS = 25_000
# Expected gain of a step at which it ends, in nats for each effective coefficient: they are
# within a tenth of a standard error of the maximum.
ENOUGH = 5e-3
# Coefficients beyond which curved terms are left out: with 25 actions and 40 columns lines
# alone are a thousand.
MAX_COEFFICIENTS = 600


@dataclass(frozen=True)
class SmoothLogit(AbstractPolicyEstimator):
    """Lines, bends, products and ridges of the state by action, as the evidence supports.

    Nothing is random. Scores without a fold of units are one Newton step away from the
    estimate on all.
    """

    def fit(self, panel, *, key):
        del key
        rows = _spaced_rows(panel)
        state, action, weight = panel.state[rows], panel.action[rows], panel.weight[rows]
        options = (state, panel.actions, 0, panel.encoding)
        basis = smooth_basis(*options, curved=True)
        if len(basis) > MAX_COEFFICIENTS:
            basis = smooth_basis(*options)
        fitted = _Newton(basis, basis.columns(state), action, weight)
        fitted.maximise()
        policy = SmoothPolicy(basis, fitted.theta, fitted.penalty)
        held_out = np.full(len(panel), np.nan)
        held_out[rows] = fitted.held_out(
            panel.unit[rows] % FOLDS
            if panel.num_units >= FOLDS
            else np.arange(len(rows)) * FOLDS // len(rows)
        )
        return PolicyFit(policy, held_out, "smooth logit")


@stored
@dataclass(frozen=True, eq=False)
class SmoothPolicy(AbstractPolicy):
    """Coefficients of a logit on smooth terms."""

    basis: SmoothBasis
    theta: Float[np.ndarray, " coefficient"]
    penalty: Float[np.ndarray, " group"]
    """Under which the coefficients were found; their covariance needs it."""

    def log_prob(self, state):
        return log_softmax(self.basis(state, self.theta), axis=1)

    def posterior_root(self, panel: Panel) -> Float[np.ndarray, "direction coefficient"]:
        """A root of the posterior covariance of the coefficients, on their own panel.

        It counts the bias of the penalty, which a sandwich of the scores leaves out.
        """
        rows = _spaced_rows(panel)
        columns = self.basis.columns(panel.state[rows])
        prob = np.exp(self.log_prob(panel.state[rows]))
        sums = logit_sums(self.basis, columns, prob, panel.action[rows], panel.weight[rows])
        information = sums.through(None)[1]
        information += np.diag(penalty_diagonal(self.penalty, self.basis.group))
        size, axes = np.linalg.eigh(information)
        # The constants of all actions may move together, which changes no probability.
        kept = size > 1e-10 * size.max()
        return (axes[:, kept] / np.sqrt(size[kept])).T


def _spaced_rows(panel: Panel) -> np.ndarray:
    """The decisions that the logit is fitted on."""
    return np.arange(len(panel))[:: max(1, len(panel) // ROWS)]


class _Newton:
    """Newton's method for the logit, penalties chosen on the way."""

    def __init__(self, basis: SmoothBasis, columns, action, weight):
        self.basis, self.columns, self.action, self.weight = basis, columns, action, weight
        self.theta = np.zeros(len(basis))
        self.penalty = np.ones(int(basis.group.max()) + 1)
        self.information = np.zeros((len(basis), len(basis)))

    def _scores(self, theta: np.ndarray) -> np.ndarray:
        return log_softmax(self.columns @ self.basis.weights(theta), axis=1)

    def _fit(self, theta: np.ndarray, diagonal: np.ndarray) -> float:
        chosen = self._scores(theta)[np.arange(len(self.action)), self.action]
        return float(self.weight @ chosen - 0.5 * diagonal @ theta**2)

    def maximise(self, max_steps: int = 25) -> None:
        basis = self.basis
        for _ in range(max_steps):
            prob = np.exp(self._scores(self.theta))
            sums = logit_sums(basis, self.columns, prob, self.action, self.weight)
            gradient, self.information = sums.through(None)
            right = self.information @ self.theta + gradient
            self.penalty, effective = best_penalty(
                self.information, right, basis.group, self.penalty, 40
            )
            diagonal = penalty_diagonal(self.penalty, basis.group)
            step = np.linalg.solve(self.information + np.diag(diagonal), right) - self.theta
            slope = float(step @ (gradient - diagonal * self.theta))
            now, length = self._fit(self.theta, diagonal), 1.0
            while length > 1e-4:
                if self._fit(self.theta + length * step, diagonal) >= now + 1e-4 * slope:
                    break
                length /= 2
            self.theta = self.theta + length * step
            if slope < max(0.05, ENOUGH * effective.sum()):
                break

    def held_out(self, fold: np.ndarray) -> np.ndarray:
        """Log-probabilities of the choices without their fold."""
        score = np.zeros((FOLDS, len(self.theta)))

        prob = np.exp(self._scores(self.theta))
        for rows, z in choice_scores(self.basis, self.columns, prob, self.action):
            z *= self.weight[rows, None].astype(np.float32)
            for number in range(FOLDS):
                score[number] += z[fold[rows] == number].sum(axis=0, dtype=np.float64)
        diagonal = np.diag(penalty_diagonal(self.penalty, self.basis.group))
        found = np.empty(len(self.action))
        for number in range(FOLDS):
            out = fold == number
            rest = 1 - self.weight[out].sum() / self.weight.sum()
            system = rest * self.information + diagonal
            theta = self.theta - np.linalg.solve(system, score[number])
            scores = log_softmax(self.columns[out] @ self.basis.weights(theta), axis=1)
            found[out] = scores[np.arange(out.sum()), self.action[out]]
        return found
