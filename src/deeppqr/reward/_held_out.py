"""How well a reward explains decisions of units it was not fitted on.

Coefficients without a fold of units are one Newton step away from those with it:
theta - (H_rest + Lambda)^-1 g_fold. That costs one pass over the rows for all folds.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from .._shapes import Codes, PerRow
from ._rounds import Fitted
from ._value_problem import ValueProblem


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Scores of the decisions, and the multiple of the coefficients they prefer."""

    scores: PerRow
    factor: float

    @property
    def note(self) -> str:
        return f", times {self.factor:.2f}" if self.factor < 0.995 else ""


def verdict(scores: PerRow, factor: float) -> str:
    """What held-out decisions say of the coefficients, for whoever waits."""
    kept = f"are shrunk to {factor:.2f} of themselves" if factor < 0.995 else "are kept"
    mean = np.nanmean(scores)
    return f"{mean:.4f} nats a decision in units left out; the coefficients {kept}"


def judge(problem: ValueProblem, fit: Fitted, fold: Codes) -> HeldOut:
    """Log-probability of each choice under coefficients found without its fold.

    With little signal the chosen penalties are noise themselves, and too small as often as
    too large. Unless held-out decisions clearly need the coefficients, one factor on them,
    which these decisions choose, corrects that; not for a user's own features.
    """
    numbers, penalised = np.unique(fold), fit.basis.group >= 0
    score = np.zeros((len(numbers), len(fit.theta)))
    place = np.searchsorted(numbers, fold)

    columns = problem.columns(fit.basis)
    for rows, z in problem.scores(fit.basis, columns, fit.successor):
        z *= problem.weight[rows, None].astype(z.dtype)
        for number in np.unique(place[rows]):
            score[number] += z[place[rows] == number].sum(axis=0, dtype=np.float64)
    total = problem.weight.sum()
    offset, predictor = np.empty_like(problem.q), np.empty_like(problem.q)
    for number in range(len(numbers)):
        out = place == number
        rest = 1 - problem.weight[out].sum() / total
        system = rest * fit.information + np.diag(fit.diagonal)
        theta = fit.theta - np.linalg.lstsq(system, score[number], rcond=1e-12)[0]
        predictor[out] = _along(problem, fit, np.where(penalised, theta, 0.0), out)
        free = np.where(penalised, 0.0, theta)
        offset[out] = problem.q[out] - _along(problem, fit, fit.theta - free, out)
    rows = np.arange(len(fold))

    def scores(factor: float) -> PerRow:
        return log_softmax(offset + factor * predictor, axis=1)[rows, problem.action]

    full, factor = scores(1.0), 1.0
    if penalised.any() and not clearly_better(full, scores(0.0), problem.weight):
        loss = lambda t: -float(problem.weight @ scores(t))
        factor = float(minimize_scalar(loss, bounds=(0.0, 1.0), method="bounded").x)
        full = scores(factor)
    return HeldOut(full, factor)


def _along(problem: ValueProblem, fit: Fitted, theta: np.ndarray, rows: np.ndarray):
    """What coefficients add to Q at some rows."""
    light = (problem.discount * fit.successor @ theta).astype(problem.dtype)
    after = np.stack([part[rows] @ light for part in problem.ahead], axis=1)
    return fit.basis.combine(problem.columns(fit.basis)[rows], theta) + after


def clearly_better(scores: PerRow, others: PerRow, weight: PerRow) -> bool:
    """Whether the mean advantage exceeds twice its standard error.

    Given the states, choices are independent: rows count, by their weight.
    """
    gain = scores - others
    mean = np.average(gain, weights=weight)
    error = np.sqrt(np.sum(weight * (gain - mean) ** 2)) / weight.sum()
    return bool(mean > 2 * error)
