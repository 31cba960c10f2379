"""Oracles: maximum likelihood that knows the form of the reward, without a penalty.

They show how much the form tells. They are no lower bound on the error: with many state
variables their variance exceeds the bias of methods that shrink, which can be closer.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import minimize, minimize_scalar
from scipy.special import log_softmax

import deeppqr

# The optimiser is asked for a slope of 1e-8 per decision; where it ends above this one, it
# gave up, and a warning says so.
STEEP = 1e-5
MAX_THETA = 10.0  # the true cost per mile is 1


@dataclass(frozen=True, eq=False)
class PaperLikelihood:
    r"""The log-likelihood of omega in the paper's world, given the continuation.

    $$\ell(\omega) = \frac1n \sum_i \log\mathrm{softmax}_{a_i}
    \{(r_\omega(s_i,\cdot) + \gamma E[V(s')|s_i,\cdot])/\alpha\},$$
    with the true continuation: the agent's problem is not solved anew for each omega.
    """

    world: deeppqr.worlds.PaperWorld
    state: Float[np.ndarray, "row p"]
    action: Int[np.ndarray, " row"]
    continuation: Float[np.ndarray, "row action"]
    """The true one, discounted: Q - r."""

    def __call__(self, omega: Float[np.ndarray, " p_and_action"]):
        """Minus the log-likelihood per decision, and its gradient."""
        step = np.arange(5) / 4
        size = self.world.reward_scale * step / omega.sum()
        bend = np.tanh(self._index(self.state, omega)[:, None] + step * omega[-1])
        q = size * bend + self.world.extra + self.continuation
        log_policy = log_softmax(q / self.world.temperature, 1)
        taken = np.arange(len(self.action)), self.action
        # The derivative of the log-likelihood in `bend`, then, since that is
        # (1 - bend^2) times the index's, in the index; omega also enters `size`.
        by_bend = -np.exp(log_policy)
        by_bend[taken] += 1
        by_bend *= size / (len(self.action) * self.world.temperature)
        by_index = by_bend * (1 - bend**2)
        slope = np.append(
            by_index.sum(axis=1) @ self.state / self.world.p, (by_index @ step).sum()
        )
        slope -= (by_bend * bend).sum() / omega.sum()
        return -log_policy[taken].mean(), -slope

    def _index(self, state: np.ndarray, omega: np.ndarray) -> np.ndarray:
        return state @ omega[:-1] / self.world.p


@dataclass(frozen=True, eq=False)
class PaperOracle:
    """The paper's world with an estimated omega and the true continuation."""

    world: deeppqr.worlds.PaperWorld
    omega: Float[np.ndarray, " p_and_action"]
    num_steps: int

    def reward(self, states) -> Float[np.ndarray, "row action"]:
        step = np.arange(5) / 4
        index = np.asarray(states) @ self.omega[:-1] / self.world.p
        bend = np.tanh(index[:, None] + step * self.omega[-1])
        return self.world.reward_scale * step * bend / self.omega.sum() + self.world.extra

    def q(self, states) -> Float[np.ndarray, "row action"]:
        return self.reward(states) + self.world.q(states) - self.world.reward(states)

    def log_policy(self, states) -> Float[np.ndarray, "row action"]:
        return log_softmax(self.q(states) / self.world.temperature, axis=1)


def fit_paper(world: deeppqr.worlds.PaperWorld, panel: deeppqr.Panel) -> PaperOracle:
    """Omega by maximum likelihood, from 1/2 in every entry, without a penalty.

    A premium is part of the form and known.
    """
    if world.state_only:
        raise deeppqr.DataError("There is no oracle for a reward of the state alone.")
    continuation = world.q(panel.state) - world.reward(panel.state)
    loss = PaperLikelihood(world, panel.state, panel.action, continuation)
    start = np.full(world.p + 1, 0.5)
    options = {"maxiter": 5_000, "maxfun": 10_000, "ftol": 1e-15, "gtol": 1e-8}
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options=options)
    steepest = float(np.abs(found.jac).max())
    if steepest > STEEP:
        warnings.warn(
            f"The oracle's likelihood still has slope {steepest:.2g} after {found.nit} "
            f"steps ({found.message}).",
            deeppqr.NotConvergedWarning,
            stacklevel=2,
        )
    return PaperOracle(world, found.x, found.nit)


@dataclass(frozen=True, eq=False)
class BusOracle:
    """The bus whose cost per mile is estimated and whose replacement cost is known."""

    theta: float
    solution: Any
    """Of `deeppqr.mdp.solve_soft` at that cost."""
    costs: Float[np.ndarray, "mileage action"]

    def reward(self, states) -> Float[np.ndarray, "row action"]:
        return self.costs[_mileage(states)]

    def q(self, states) -> Float[np.ndarray, "row action"]:
        return self.solution.q[_mileage(states)]

    def log_policy(self, states) -> Float[np.ndarray, "row action"]:
        return self.solution.log_policy[_mileage(states)]


def fit_bus(world: deeppqr.worlds.KnownCostBus, panel: deeppqr.Panel) -> BusOracle:
    """NFXP with one parameter: r(x, keep) = -theta x, solved exactly at each theta."""
    keep = world.actions.index("keep")
    counts = np.zeros_like(world.mdp.reward)
    np.add.at(counts, (_mileage(panel.state), panel.action), 1)

    def at(theta: float) -> BusOracle:
        costs = world.mdp.reward.copy()
        costs[:, keep] = -theta * np.arange(1, len(costs) + 1)
        return BusOracle(
            theta, deeppqr.mdp.solve_soft(replace(world.mdp, reward=costs)), costs
        )

    loss = lambda theta: -float((counts * at(theta).solution.log_policy).sum())
    options = {"xatol": 1e-9}
    found = minimize_scalar(loss, bounds=(0, MAX_THETA), method="bounded", options=options)
    return at(float(found.x))


def _mileage(states) -> Int[np.ndarray, " row"]:
    """The cell of each mileage, the first column."""
    return np.asarray(states)[:, 0].astype(np.int64) - 1
