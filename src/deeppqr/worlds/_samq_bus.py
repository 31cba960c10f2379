"""A bus with a continuous mileage, whose exact solution is one function of it.

Replacing leads to mileage 0 from anywhere, so its action value is one number,
discount * V(0). What is left to find is the *advantage* of going on at mileage s,
D(s) = Q(s, 1) - Q(s, 0), and the excess W(s) = V(s) - Q(s, 0) it is worth, the scaled
softplus of D(s). Since V(0) = W(0) / (1 - discount), both solve an equation that no
longer mentions V. They are analytic in s, and W vanishes exponentially as s grows, so
Chebyshev collocation on a bounded range is exact to rounding.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from jaxtyping import Float
from scipy.special import expit, log_softmax

from .._errors import DataError
from .._shapes import PerAction, PerRow
from ..mdp._simulate import simulate
from ..mdp._tabular import check_preferences
from ..panel._panel import Panel
from ._tabular import check_columns

INCOME = 5.0  # [geng2023samq]: running pays 5 less the mileage
RESET, RUN = 0, 1
# The number of nodes is proportional to one over the temperature: 1,120 at 0.05, and a
# dense system of as many unknowns is solved at each Newton step.
MIN_TEMPERATURE = 0.05
POINTS_AT_ONCE = 10_000  # times 360 nodes at temperature 1: 30 MB of interpolation weights


@dataclass(frozen=True, eq=False)
class SamqBus:
    r"""The bus of the SAmQ paper: one state variable that matters, two that do not.

    Action 0, the anchor, pays nothing and resets s1 to 0. Action 1 pays 5 - s1 and adds a
    uniform draw from (1, 2) to s1. In every period s2 and s3 are uniform on (-5, 5). The
    advantage $D = Q(\cdot,1) - Q(\cdot,0)$ of action 1 solves
    $$D(s) = 5 - s + \gamma\,\{E\,W(s + U) - W(0)\}, \qquad
    W = \alpha\log(1 + e^{D/\alpha}).$$

    References
    ----------
    [geng2023samq], the bus engine experiment.
    """

    discount: float = 0.9
    temperature: float = 1.0

    anchor: ClassVar[int] = RESET
    anchor_reward: ClassVar[float] = 0.0

    def __post_init__(self):
        check_preferences(self.discount, self.temperature)
        if self.temperature < MIN_TEMPERATURE:
            raise DataError(
                f"`temperature` must be at least {MIN_TEMPERATURE} for the solution to be "
                f"exact, but it is {self.temperature}."
            )

    @property
    def actions(self) -> tuple[int, ...]:
        return (RESET, RUN)

    @property
    def state_names(self) -> list[str]:
        return ["s1", "s2", "s3"]

    def reward(self, states) -> PerAction:
        mileage = self._mileage(states)
        return np.stack([np.zeros(len(mileage)), INCOME - mileage], axis=1)

    def q(self, states) -> PerAction:
        advantage = self._advantage_at(self._mileage(states))
        return self.reset_q + np.stack([np.zeros(len(advantage)), advantage], axis=1)

    def value(self, states) -> PerRow:
        return self.reset_q + self._excess(self._advantage_at(self._mileage(states)))

    def log_policy(self, states) -> PerAction:
        return log_softmax(self.q(states) / self.temperature, axis=1)

    @cached_property
    def reset_q(self) -> float:
        """Q(s, 0), the same in every state: discount * V(0)."""
        start = self._excess(self._advantage[0])
        return float(self.discount * start / (1 - self.discount))

    def simulate(self, steps: int = 5_000, units: int = 1, seed: int = 1) -> Panel:
        """Decisions of the exactly optimal policy, every unit starting at s1 = 0.

        `steps` is the total, split evenly over the units.
        """
        return simulate(self, steps=steps, units=units, seed=seed)

    def initial_states(self, number: int, rng: np.random.Generator) -> np.ndarray:
        return self._with_irrelevant(np.zeros(number), rng)

    def next_states(self, state, action, rng: np.random.Generator) -> np.ndarray:
        run = state[:, 0] + rng.uniform(1, 2, size=len(state))
        return self._with_irrelevant(np.where(action == RESET, 0.0, run), rng)

    def _with_irrelevant(self, mileage, rng: np.random.Generator) -> np.ndarray:
        return np.column_stack([mileage, rng.uniform(-5, 5, size=(len(mileage), 2))])

    @property
    def _edge(self) -> float:
        """Beyond this mileage D < -40 temperatures and W < e^-40, which is set to zero."""
        return INCOME + 40 * self.temperature

    @cached_property
    def _nodes(self) -> Float[np.ndarray, " node"]:
        # W = log(1 + e^D) has its nearest complex singularity at a distance of pi
        # temperatures. Chebyshev interpolation converges geometrically once the spacing
        # resolves that; eight nodes per temperature reach rounding error.
        number = int(np.ceil(8 * self._edge / self.temperature))
        return self._edge * (1 - np.cos(np.linspace(0, np.pi, number))) / 2

    @cached_property
    def _advantage(self) -> Float[np.ndarray, " node"]:
        """D at the nodes, by Newton's method in W; its residual falls to rounding."""
        continuation = self.discount * self._mean_ahead()
        # W(0) is W at the first node, so its coefficient is a column of the matrix.
        continuation[:, 0] -= self.discount
        excess, best = np.zeros(len(self._nodes)), np.inf
        for step in range(100):
            advantage = INCOME - self._nodes + continuation @ excess
            updated = self._excess(advantage)
            residual = np.abs(updated - excess).max()
            if residual < 1e-14 or (step > 5 and residual >= best):
                break
            best = residual
            slope = expit(advantage / self.temperature)[:, None] * continuation
            excess = excess + np.linalg.solve(np.eye(len(slope)) - slope, updated - excess)
        return advantage

    def _mean_ahead(self) -> Float[np.ndarray, "node node"]:
        """The matrix that takes W at the nodes to E[W(s + U)] there, U uniform (1, 2)."""
        # Gauss-Legendre on an interval of length one: more points where W is steeper.
        number = int(np.ceil(12 + 8 / self.temperature))
        points, weights = np.polynomial.legendre.leggauss(number)
        mean = np.zeros((len(self._nodes), len(self._nodes)))
        for point, weight in zip(points, weights, strict=True):
            ahead = self._nodes + 1.5 + point / 2
            inside = ahead <= self._edge
            mean[inside] += weight / 2 * interpolation(self._nodes, ahead[inside])
        return mean

    def _advantage_at(self, mileage: np.ndarray) -> np.ndarray:
        # Beyond the edge W vanishes and the equation is explicit; inside, interpolate.
        advantage = INCOME - mileage - self.discount * self._excess(self._advantage[0])
        inside = np.flatnonzero(mileage <= self._edge)
        for first in range(0, len(inside), POINTS_AT_ONCE):
            rows = inside[first : first + POINTS_AT_ONCE]
            weights = interpolation(self._nodes, mileage[rows])
            advantage[rows] = weights @ self._advantage
        return advantage

    def _excess(self, advantage):
        return self.temperature * np.logaddexp(0, advantage / self.temperature)

    def _mileage(self, states) -> np.ndarray:
        mileage = check_columns(states, self.state_names)[:, 0]
        wrong = ~((mileage >= 0) & np.isfinite(mileage))
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raise DataError(
                f"Column s1 of `states` must hold finite numbers of at least 0, but row "
                f"{row} has {mileage[row]} ({int(wrong.sum())} rows in all)."
            )
        return mileage


def interpolation(
    nodes: Float[np.ndarray, " node"], points: Float[np.ndarray, " point"]
) -> Float[np.ndarray, "point node"]:
    """Weights of the polynomial through Chebyshev nodes (both ends included)."""
    sign = np.where(np.arange(len(nodes)) % 2, -1.0, 1.0)
    sign[[0, -1]] /= 2
    gap = points[:, None] - nodes
    # Where a point is a node the weight is one there; dividing by the gap would overflow.
    hit = np.abs(gap) < np.finfo(np.float64).tiny
    weights = sign / np.where(hit, 1.0, gap)
    weights = np.where(hit.any(axis=1, keepdims=True), hit, weights)
    return weights / weights.sum(axis=1, keepdims=True)
