"""The typical steps of one action: a move or a fresh draw, its drift and deviations."""

from dataclasses import dataclass
from functools import cache
from itertools import permutations

import numpy as np
from scipy.special import ndtri

from .._shapes import PerRow, States
from ..learners._ridges import Ridges, penalised_least_squares

# Deviations beyond six median absolute deviations (four standard deviations of a normal
# variable), and beyond twice the range of the middle eight tenths, are resets. The second
# rule is for variables on a coarse grid, whose median deviation can be far too small.
OUTLYING, OUTLYING_RANGE = 6.0, 2.0
# A smaller share of them beside continuous noise is taken for its tail.
MIN_RESETS = 0.003
# Deviations that represent all, and so evaluations of f per action: all distinct ones up
# to eight, otherwise points that have their mean and covariance.
MAX_OUTCOMES, LINE_OUTCOMES, MAX_AXES = 8, 7, 4


@dataclass(frozen=True, eq=False)
class ActionSteps:
    """What one action does to the state."""

    keeps: np.ndarray
    step: np.ndarray
    weight: np.ndarray
    deviation: np.ndarray
    probability: np.ndarray
    resets: np.ndarray


def learn_action(here: States, there: States, weight: PerRow, drift: Ridges, bounds):
    """Typical steps of one action: a move or a draw for each variable, and its drift."""
    dim, number = here.shape[1], len(here)
    smooth = np.zeros((drift.width, dim))
    if weight.sum() <= 0:  # the action always ends the process
        none = np.zeros(dim)
        return ActionSteps(none, none, smooth, np.zeros((1, dim)), np.ones(1), weight > 0)
    # Medians and mean absolute deviations: resets are outliers and must not count.
    moved, fresh = np.median(there - here, axis=0), np.median(there, axis=0)
    keeps = np.abs(there - here - moved).mean(axis=0) < np.abs(there - fresh).mean(axis=0)
    step = np.where(keeps, moved, fresh)
    deviation = there - np.clip(keeps * here + step, *bounds)
    # Steps without noise have a limit of zero; the second term is for rounding.
    size = np.abs(there).max(axis=0, initial=1.0)
    outlies, noisy = _outlying(deviation, size)
    columns = drift(here)
    if number < 3 * drift.width:
        columns[:, drift.linear :] = 0.0
    for attempt in range(2):
        if outlies.mean() > 0.5 or (noisy and outlies.mean() < MIN_RESETS):
            outlies = np.zeros(number, dtype=bool)
        inside = ~outlies & (weight > 0)
        smooth = _drift(columns[inside], deviation[inside], weight[inside], size, drift)
        if attempt == 1 or not (outlies.any() and smooth.any()):
            break
        # A drift may explain what looked like resets.
        outlies &= _outlying(deviation - columns @ smooth, size)[0]
    left = (deviation - columns @ smooth)[inside]
    found, chance = few_outcomes(left, weight[inside])
    return ActionSteps(keeps.astype(float), step, smooth, found, chance, outlies)


def _outlying(deviation: States, size: np.ndarray) -> tuple[np.ndarray, bool]:
    """Rows in which a variable is too far from its typical step, and whether any varies."""
    distance = np.abs(deviation)
    low, high = np.quantile(deviation, [0.1, 0.9], axis=0)
    limit = np.maximum(
        OUTLYING * np.median(distance, axis=0), OUTLYING_RANGE * (high - low)
    )
    outlies = np.any(distance > limit + 1e-9 * size, axis=1)
    return outlies, bool((limit > 1e-8 * size).any())


def _drift(columns, deviation, weight, size, drift: Ridges) -> np.ndarray:
    """Coefficients of the smooth part of the steps; zero for variables without one."""
    found = np.zeros((drift.width, deviation.shape[1]))
    varies = np.flatnonzero(deviation.std(axis=0) > 1e-9 * size)
    number, dim = len(deviation), deviation.shape[1]
    if len(varies) == 0 or number <= 4 * (1 + dim):
        return found
    target = deviation[:, varies]
    fitted = penalised_least_squares(columns, target, weight, drift.linear)
    left = ((target - columns @ fitted) ** 2 * weight[:, None]).sum(axis=0)
    mean = np.average(target, axis=0, weights=weight)
    whole = ((target - mean) ** 2 * weight[:, None]).sum(axis=0)
    # Schwarz's criterion with about as many coefficients as the drift uses.
    gain = number * (np.log(whole) - np.log(np.maximum(left, 1e-300)))
    used = gain > (dim + 5) * np.log(number)
    found[:, varies[used]] = fitted[:, used]
    return found


def few_outcomes(deviation: np.ndarray, weight: PerRow) -> tuple[np.ndarray, np.ndarray]:
    """A few deviations that represent all, and their probabilities.

    All distinct ones if they are few; along a line the middles of seven equal parts; in a
    few dimensions two points on each principal axis, which have the mean and covariance of
    all; in many, points in which every variable has a law close to its own.
    """
    # Rounded, because differences such as 0.3 - 0.2 come out in several last digits.
    rounded, at = np.unique(deviation.round(9), axis=0, return_inverse=True)
    if len(rounded) <= MAX_OUTCOMES:
        chance = np.bincount(at.reshape(-1), weight, len(rounded))
        return rounded, chance / chance.sum()
    mean = np.average(deviation, axis=0, weights=weight)
    centred = deviation - mean
    size = np.sqrt(np.average(centred**2, axis=0, weights=weight))
    size = np.where(size > 0, size, 1.0)
    scaled = centred / size
    variance, axes = np.linalg.eigh((scaled * weight[:, None]).T @ scaled / weight.sum())
    variance, axes = variance[::-1], axes[:, ::-1]
    held = np.cumsum(variance) / variance.sum()
    number = int(np.searchsorted(held, 0.95)) + 1
    if number > MAX_AXES:
        points = _balanced(scaled, weight)
    elif number == 1:
        along = scaled @ axes[:, 0]
        order = np.argsort(along)
        share = np.cumsum(weight[order]) - 0.5 * weight[order]
        parts = (np.arange(LINE_OUTCOMES) + 0.5) / LINE_OUTCOMES * weight.sum()
        middles = np.interp(parts, share, along[order])
        size_along = np.sqrt(variance[0])
        middles = (middles - middles.mean()) * size_along / max(middles.std(), 1e-12)
        points = middles[:, None] * axes[:, 0]
    else:
        reach = np.sqrt(number * variance[:number])[:, None] * axes[:, :number].T
        points = np.concatenate([reach, -reach])
    return mean + points * size, np.full(len(points), 1 / len(points))


def _balanced(scaled: np.ndarray, weight: PerRow) -> np.ndarray:
    """Points whose every coordinate takes the means of equal parts of that variable.

    Functions of one variable have nearly their expectation, whatever the number of
    variables: a Latin hypercube, its ranks arranged for the correlations as by Iman and
    Conover (1982).
    """
    spread = np.sqrt(np.average(scaled**2, axis=0, weights=weight))
    moments = (scaled * weight[:, None]).T @ scaled / weight.sum()
    correlation = moments / np.outer(spread, spread).clip(1e-12)
    root = np.linalg.cholesky(0.999 * correlation + 0.001 * np.eye(len(spread)))
    drawn = ndtri((_spread_ranks(len(spread)) + 0.5) / MAX_OUTCOMES)
    ranks = np.argsort(np.argsort(drawn @ root.T, axis=0), axis=0)
    points = np.empty(ranks.shape)
    for place, column in enumerate(scaled.T):
        order = np.argsort(column, kind="stable")
        # The mean of a part is the slope of the total over that part.
        share = np.concatenate([[0.0], np.cumsum(weight[order])])
        total = np.concatenate([[0.0], np.cumsum((weight * column)[order])])
        ends = np.linspace(0.0, share[-1], MAX_OUTCOMES + 1)
        middles = np.diff(np.interp(ends, share, total)) * MAX_OUTCOMES / share[-1]
        middles *= spread[place] / max(middles.std(), 1e-12)
        points[:, place] = middles[ranks[:, place]]
    return points


@cache
def _spread_ranks(dim: int) -> np.ndarray:
    """Orders of the points, one for each variable, as little correlated as can be."""
    every = np.array(list(permutations(range(MAX_OUTCOMES))))
    centred = every - every.mean(axis=1, keepdims=True)
    chosen, crossed = [0], np.outer(centred[0], centred[0])
    for _ in range(1, dim):
        chosen.append(int(((centred @ crossed) * centred).sum(axis=1).argmin()))
        crossed += np.outer(centred[chosen[-1]], centred[chosen[-1]])
    return every[chosen].T
