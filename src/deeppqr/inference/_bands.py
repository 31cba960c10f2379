"""Simultaneous confidence bands (sup-t), and pointwise intervals."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from .._errors import DataError
from .._shapes import PerAction, PerRow, TableValues
from ..learners._chunks import row_slices
from ..report._interval import check_level, normal_interval

if TYPE_CHECKING:
    from .._fit import Fit

# Draws of the largest deviation. The simulated 95 % critical value then has a standard
# error of 0.014 for twenty independent states (3.0) and 0.019 for one (1.96); with twice
# as many draws 0.010 and 0.013.
NUM_DRAWS = 10_000
# States whose deviations are held at once: 10,000 draws of them take 40 MB.
STATES_AT_ONCE = 1_000


@dataclass(frozen=True, eq=False)
class Bands:
    r"""A curve with the band that holds all of it with a given probability.

    $$\hat r(s) \pm c\, \mathrm{se}(s), \qquad
    P\{\max_s |\hat r(s) - r(s)| / \mathrm{se}(s) \le c\} = \text{level}.$$
    """

    states: np.ndarray
    estimate: TableValues
    standard_errors: TableValues
    critical: float
    """c; the pointwise interval at 95 % would have 1.96."""
    level: float

    @property
    def low(self) -> TableValues:
        return self.estimate - self.critical * self.standard_errors

    @property
    def high(self) -> TableValues:
        return self.estimate + self.critical * self.standard_errors


def reward_interval(
    fit: "Fit", states: Any, level: float, simultaneous: bool
) -> tuple[PerAction, PerAction]:
    """The ends of `Fit.interval`."""
    check_level(level)
    error = fit.standard_errors(states)  # first: it may be that there are none
    reward = fit.reward(states)
    if not simultaneous:
        low, high = normal_interval(reward, error, level)
        return low, high
    state, uncertainty = fit.encoding.encode_any(states), fit._errors()
    critical = np.zeros(len(fit.actions))
    for action in range(len(critical)):
        vary = np.flatnonzero(error[:, action] > 0)
        if action != fit.estimate.anchor and len(vary):
            root = uncertainty.curve(state[vary], action, fit.estimate)
            critical[action] = _critical(root / error[vary, action][:, None], level)
    return reward - critical * error, reward + critical * error


def amount_interval(
    fit: "Fit", states: Any, actions: Any, level: float, simultaneous: bool
) -> tuple[PerRow, PerRow]:
    """The ends of `Fit.interval` for an amount in each state."""
    check_level(level)
    if simultaneous:
        raise DataError(
            "Simultaneous bands are for the grid `fit.actions`, but `actions` were given. "
            "Leave out one of the two."
        )
    error = fit.standard_errors(states, actions)
    low, high = normal_interval(fit.reward(states, actions), error, level)
    return low, high


def _critical(
    root: Float[np.ndarray, "state direction"], level: float, *, seed: int = 0
) -> float:
    """The quantile of the largest of jointly normal deviations of unit variance."""
    normal = np.random.default_rng(seed).normal(size=(NUM_DRAWS, root.shape[1]))
    normal, root = normal.astype(np.float32), root.astype(np.float32)
    largest = np.zeros(NUM_DRAWS, np.float32)
    for rows in row_slices(len(root), STATES_AT_ONCE):
        np.maximum(largest, np.abs(normal @ root[rows].T).max(axis=1), out=largest)
    return float(np.quantile(largest, level))


def sup_t_bands(
    states: np.ndarray,
    estimate: TableValues,
    covariance: Float[np.ndarray, "state state"],
    *,
    level: float = 0.95,
    seed: int = 0,
) -> Bands:
    """The band of a curve that is jointly normal, its critical value by simulation.

    References
    ----------
    [montiel2019simultaneous].
    """
    check_level(level)
    error = np.sqrt(np.diag(covariance))
    # States without error, such as the anchor's, would divide by zero; they need no band.
    vary = error > 0
    root = _root(covariance[np.ix_(vary, vary)] / np.outer(error[vary], error[vary]))
    return Bands(states, estimate, error, _critical(root, level, seed=seed), level)


def sup_t_bands_of_draws(
    states: np.ndarray,
    estimate: TableValues,
    draws: Float[np.ndarray, "draw state"],
    *,
    level: float = 0.95,
) -> Bands:
    """The band of a curve from its bootstrap draws, centred at their mean."""
    check_level(level)
    check_draws(draws, 2, "A band")
    if draws.shape[1:] != np.shape(estimate):
        raise DataError(
            f"`draws` must have a column for each of the {np.size(estimate)} entries of "
            f"`estimate`, but their shape is {draws.shape}."
        )
    error = draws.std(axis=0, ddof=1)
    vary = error > 0
    away = np.abs(draws - draws.mean(axis=0))[:, vary] / error[vary]
    return _band(states, estimate, error, away, level)


def quantile_band(
    draws: Float[np.ndarray, "draw state"], *, level: float = 0.95
) -> Float[np.ndarray, "end state"]:
    """Low and high ends between which a share `level` of drawn curves lies as a whole.

    The ends are the k-th smallest and the k-th largest draw in each state, with the largest
    k that will do. Long tails on one side make it wide on that side alone, and a curve's
    logarithm has the logarithm of its band.

    References
    ----------
    [montiel2019simultaneous], the quantile-based bootstrap.
    """
    check_level(level)
    check_draws(draws, needed_draws(level), f"A band of {100 * level:g} %")
    # From below and from above, the worse rank that a curve has anywhere.
    rank = np.argsort(np.argsort(draws, axis=0), axis=0)
    worst = np.minimum(rank, len(draws) - 1 - rank).min(axis=1)
    needed = int(np.ceil(level * len(draws)))
    k = int(np.sort(worst)[::-1][needed - 1])
    ordered = np.sort(draws, axis=0)
    return np.stack([ordered[k], ordered[len(draws) - 1 - k]])


def check_draws(draws: np.ndarray, needed: int, what: str) -> None:
    """Refuse too few draws, and draws that are no numbers."""
    if draws.ndim != 2 or len(draws) < needed:
        raise DataError(
            f"{what} takes {needed} draws at least, of shape (draw, state), but their "
            f"shape is {draws.shape}. Draw more `replicates`."
        )
    if not np.isfinite(draws).all():
        row = int(np.flatnonzero(~np.isfinite(draws).all(axis=1))[0])
        raise DataError(
            f"`draws` must be finite, but draw {row} is not in "
            f"{int((~np.isfinite(draws[row])).sum())} of {draws.shape[1]} states: a table "
            "has no reward where a pair never occurred."
        )


def needed_draws(level: float) -> int:
    """Draws of which at least one is expected beyond either end of the interval."""
    # The smallest of R draws has 1 / (R + 1) below it on average.
    return int(np.ceil(2 / (1 - level) - 1e-9)) - 1


def _band(states, estimate, error, away: np.ndarray, level: float) -> Bands:
    critical = float(np.quantile(away.max(axis=1, initial=0.0), level))
    return Bands(states, estimate, error, critical, level)


def _root(correlation: np.ndarray) -> np.ndarray:
    """A square root of a matrix that may be singular."""
    values, vectors = np.linalg.eigh(correlation)
    # Not Cholesky, which fails for curves with fewer clusters than states.
    return vectors * np.sqrt(np.maximum(values, 0.0))
