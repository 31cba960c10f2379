r"""The temperature: the reward is affine in it, so choosing it needs no refit.

$$r_\alpha = \alpha\, r_\pi + r_g, \qquad r_g(s,a) = G(s) - \gamma E[G(s') | s, a],$$

where $r_\pi$ is the reward at temperature one with g = 0, and $G$ is what g adds to V. The
paper's theorem has g / (1 - discount) in place of G, which is right for constant g only.
"""

from collections.abc import Callable
from dataclasses import dataclass

import jax.random as jr
import numpy as np
from scipy.optimize import brentq

from .._errors import DataError
from .._shapes import PerRow
from .._stored import stored
from ._refined import FixedReward, carry_over
from ._reward import AbstractReward, AbstractRewardEstimator, RewardFit


@dataclass(frozen=True)
class Affine(AbstractRewardEstimator):
    """Any estimator, applied to the two parts of the value one by one.

    For estimators that are linear in the value (tables, linear regressions) this changes
    nothing; for the others it makes the estimate affine in the temperature.
    """

    estimator: AbstractRewardEstimator

    def fit(self, panel, value, *, key):
        key_policy, key_known = jr.split(key)
        fit = self.estimator.fit(panel, value.policy_part, key=key_policy)
        known = None
        if value.known_part is not None:
            estimator = self.estimator.known_part()
            known = estimator.fit(panel, value.known_part, key=key_known).reward
            if fit.value is not None:
                known = FixedReward(known, value.known_part)
        refined = fit.value and carry_over(value, fit.value)
        return RewardFit(AffineReward(fit.reward, known), fit.note, refined, fit.held_out)


@stored
@dataclass(frozen=True, eq=False)
class AffineReward(AbstractReward):
    """The two parts of a reward; None where g is zero."""

    policy_part: AbstractReward
    known_part: AbstractReward | None

    def __call__(self, state, value):
        bare, known = self.parts(state, value)
        return value.temperature * bare + known

    def parts(self, state, value) -> tuple[np.ndarray, np.ndarray]:
        """r_pi and r_g."""
        bare = self.policy_part(state, value.policy_part)
        if self.known_part is None or value.known_part is None:
            return bare, np.zeros_like(bare)
        return bare, self.known_part(state, value.known_part)


def select_temperature(
    bare: PerRow,
    known: PerRow,
    weight: PerRow,
    *,
    average: float | None = None,
    maximum: float | None = None,
    minimum: float | None = None,
) -> float:
    """The temperature at which observed decisions earn what is known of them.

    `bare` and `known` are r_pi and r_g of each decision that was taken. Exactly one of
    the reward's average, maximum and minimum over them is given.

    References
    ----------
    [geng2020pqr], Algorithm "alpha Selection".
    """
    asked = {"average": average, "maximum": maximum, "minimum": minimum}
    given = {name: target for name, target in asked.items() if target is not None}
    if len(given) != 1:
        raise DataError(
            "Exactly one of `average`, `maximum` and `minimum` must be given, but "
            f"{len(given)} were: {sorted(given)}."
        )
    ((name, target),) = given.items()
    # An average is affine in the temperature and has one solution; extremes are piecewise
    # linear and convex or concave.
    if name == "average":
        slope, level = np.average(bare, weights=weight), np.average(known, weights=weight)
        temperature = (target - level) / slope if slope != 0 else np.inf
    else:
        temperature = _crossing(lambda a: _summary(a * bare + known, weight, name) - target)
    if not (np.isfinite(temperature) and temperature > 0):
        raise DataError(
            f"No positive temperature gives the observed decisions the {name} reward "
            f"{target:g}. At temperature zero it is {_summary(known, weight, name):.4g}, "
            f"at one {_summary(bare + known, weight, name):.4g}: check the sign and the "
            "anchor reward."
        )
    return float(temperature)


def _crossing(gap: Callable[[float], float]) -> float:
    """The largest temperature at which the gap changes sign, or NaN.

    A maximum of lines may fall before it rises; beyond the last crossing the reward
    scales with the temperature.
    """
    # A grid first, because there may be several crossings: twenty points per decade.
    grid = np.concatenate([[0.0], np.geomspace(1e-6, 1e6, 241)])
    signs = np.sign([gap(alpha) for alpha in grid])
    away = np.flatnonzero(signs)
    flips = np.flatnonzero(np.diff(signs[away]))
    # If the anchor earns the extreme, the gap is zero on a whole interval of temperatures
    # and identifies none of them.
    flips = flips[np.diff(away)[flips] <= 2]
    if len(flips) == 0:
        return np.nan
    low, high = grid[away[flips[-1]]], grid[away[flips[-1] + 1]]
    return float(brentq(gap, low, high, xtol=1e-14, rtol=1e-14))


def _summary(reward: np.ndarray, weight: np.ndarray, name: str) -> float:
    if name == "average":
        return float(np.average(reward, weights=weight))
    return float(reward.max() if name == "maximum" else reward.min())
