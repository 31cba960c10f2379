"""How well a reward explains amounts chosen by units it was not fitted on.

Coefficients without a fold of units are one Newton step away from those with it, as in
`reward/_held_out.py`. Beside them two simple densities, to compare with: the histogram of
actions whatever the state, and choosing any action alike.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar

from .._shapes import Codes, PerRow
from ..actions._space import ActionSpace, Amounts
from ..reward._held_out import clearly_better
from ..reward._rounds import Fitted
from ._problem import AmountProblem, PerShape

# Bins of the histogram per dimension: a hundred in all at most.
BINS = {1: 20, 2: 10}


@dataclass(frozen=True, eq=False)
class AmountScores:
    """Log densities of held-out actions, and the multiple of the coefficients they prefer.

    All with respect to the measure of the space.
    """

    log_density: PerRow
    of_histogram: PerRow
    factor: float

    @property
    def note(self) -> str:
        return f", times {self.factor:.2f}" if self.factor < 0.995 else ""


def judge(problem: AmountProblem, fit: Fitted, fold: Codes) -> AmountScores:
    """Log density of each action under coefficients found without its fold.

    Unless held-out decisions clearly need the coefficients, one factor on them, which
    these decisions choose, shrinks them.
    """
    numbers, penalised = np.unique(fold), fit.basis.group >= 0
    score = np.zeros((len(numbers), len(fit.theta)))
    place = np.searchsorted(numbers, fold)
    columns = problem.columns(fit.basis)
    for rows, z in problem.scores(fit.basis, columns, fit.successor):
        weighted = z * problem.weight[rows, None].astype(z.dtype)
        for number in np.unique(place[rows]):
            own = place[rows] == number
            score[number] += weighted[own].sum(axis=0, dtype=np.float64)
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

    def scores(factor: float) -> PerRow:
        return problem.taken_log_density(offset + factor * predictor)

    full, factor = scores(1.0), 1.0
    if penalised.any() and not clearly_better(full, scores(0.0), problem.weight):
        loss = lambda t: -float(problem.weight @ scores(t))
        factor = float(minimize_scalar(loss, bounds=(0.0, 1.0), method="bounded").x)
        full = scores(factor)
    space = problem.shapes.space
    simple = held_out_histogram(space, problem.action, problem.weight, fold)
    return AmountScores(full, simple, factor)


def _along(problem: AmountProblem, fit: Fitted, theta: np.ndarray, rows) -> PerShape:
    """What coefficients add to Q at some rows."""
    light = (problem.discount * fit.successor @ theta).astype(problem.dtype)
    found = fit.basis.combine(problem.columns(fit.basis)[rows], theta)
    for place, part in enumerate(problem.ahead):
        found[:, place] += part[rows] @ light
    return found


def held_out_histogram(
    space: ActionSpace, action: Amounts, weight: PerRow, fold: Codes
) -> PerRow:
    """Log density of each action in a histogram of the other folds' actions."""
    number = BINS.get(space.dimensions, 1)
    unit = np.clip((space.centred(action) + 1) / 2, 0, 1 - 1e-12)
    cell = np.zeros(len(action), dtype=np.int64)
    for column in unit.T:
        cell = cell * number + (column * number).astype(np.int64)
    cells, atoms = number**space.dimensions, len(space.points)
    atom = space.atom_of(action)
    cell = np.where(atom >= 0, cells + atom, cell)
    # Half a row in each cell, so that none is impossible.
    volume = np.append(np.full(cells, 1 / cells), np.ones(atoms))
    found = np.empty(len(action))
    for one in np.unique(fold):
        out = fold == one
        count = np.bincount(cell[~out], weight[~out], cells + atoms) + 0.5
        found[out] = np.log(count / count.sum() / volume)[cell[out]]
    return found
