"""The exact reward of a density over actions with a known law (Theorem 1)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from ._errors import DataError
from ._shapes import PerRow, States
from .learners._scaling import Scaling
from .mdp._tabular import as_floats, check_preferences
from .policy._logit import monomials

LogDensity = Callable[[np.ndarray, np.ndarray], Any]
"""log pi of an action in each state: `function(states, actions)`, an array of rows."""
Outcomes = Callable[[np.ndarray, np.ndarray], tuple[Any, Any]]
"""Next states (row, outcome, state_feature) and their probabilities (row, outcome)."""


def exact_density(
    log_policy: LogDensity,
    law: Outcomes,
    states: Any,
    *,
    discount: float,
    anchor: Any,
    anchor_reward: Any = 0.0,
    temperature: float = 1.0,
    degree: int = 2,
    features: Callable[[np.ndarray], np.ndarray] | None = None,
) -> "DensitySolution":
    r"""The reward behind a policy over continuous actions, given the law and an anchor.

    $$r(s,a) = \alpha\log\pi(a|s) + V(s) - \gamma\,E[V(s')|s,a], \qquad
    V = g - \alpha\log\pi(a^A|\cdot) + \gamma\,h, \qquad
    h = E[V(s')|s,a^A].$$

    The anchor's continuation $h$ is linear in features of the state, chosen to satisfy its
    equation at `states` in least squares: exact where $h$ is such a function, as in
    linear-quadratic control. Elsewhere a small `residual` is needed and not enough: next
    states beyond `states` count too, and polynomials of high degree go wrong there.

    Parameters
    ----------
    log_policy
        $\log\pi(a|s)$, called with states and actions of as many rows: log densities, log
        probabilities at atoms. Multiplying all densities by a constant changes nothing
        where the anchor is a point of the continuum and the process never ends.
    law
        Called likewise; returns the next states, (row, outcome, state), and their
        probabilities (row, outcome), such as the nodes and weights of a quadrature rule.
        Where they sum to less than one the process ends with the rest, worth zero.
    states
        Where the equation has to hold: more rows than features, spread over the states
        that matter.
    discount, temperature
        $\gamma$ and $\alpha$ of the agent.
    anchor
        The action whose reward is known: a number, or one for each dimension.
    anchor_reward
        That reward, $g(s)$: a number, or a function of the states.
    degree
        Of the polynomials in the states that make up $h$.
    features
        A function of the states, (row, feature), in place of polynomials.

    References
    ----------
    [geng2020pqr], R-Estimator and Theorem 1.
    """
    check_preferences(discount, temperature)
    states = as_floats("states", states)
    if states.ndim != 2 or not np.isfinite(states).all():
        raise DataError(
            "`states` must be finite numbers with a row for each state, but their shape "
            f"is {states.shape}, {int((~np.isfinite(states)).sum())} of them not finite."
        )
    point = np.atleast_1d(as_floats("anchor", anchor))
    problem = _Problem(log_policy, law, point, anchor_reward, discount, temperature)
    if features is None:
        scaling = Scaling.of(states)
        features = lambda at: _polynomials(scaling(at), degree)
    here = as_floats("features", features(states))
    if len(states) < here.shape[1]:
        raise DataError(
            f"`states` must have at least {here.shape[1]} rows, one for each feature, but "
            f"there are {len(states)}. Add states, or lower `degree`."
        )
    anchor_here = np.tile(point, (len(states), 1))
    ahead = problem.expected(features, states, anchor_here)
    bonus = problem.expected(problem.bonus, states, anchor_here)
    system = here - discount * ahead
    # Scaled columns: high powers would otherwise fall under the solver's tolerance.
    size = np.maximum(np.linalg.norm(system, axis=0), 1e-300)
    theta = np.linalg.lstsq(system / size, bonus, rcond=1e-14)[0] / size
    residual = float(np.abs(system @ theta - bonus).max())
    return DensitySolution(problem, features, theta, residual)


@dataclass(frozen=True, eq=False)
class _Problem:
    """What is known: the policy, the law and the anchor."""

    log_policy: LogDensity
    law: Outcomes
    anchor: Float[np.ndarray, " action_dimension"]
    anchor_reward: Any
    discount: float
    temperature: float

    def bonus(self, states: np.ndarray) -> np.ndarray:
        """g - temperature log pi(anchor | s): what the anchor adds to V beside h."""
        known = self.anchor_reward
        known = as_floats("anchor_reward", known(states) if callable(known) else known)
        actions = np.tile(self.anchor, (len(states), 1))
        return known - self.temperature * self.log_density(states, actions)

    def log_density(self, states: np.ndarray, actions: np.ndarray) -> np.ndarray:
        found = as_floats("log_policy", self.log_policy(states, actions))
        if found.shape != (len(states),) or not np.isfinite(found).all():
            raise DataError(
                f"`log_policy` must return {len(states)} finite numbers, one for each row, "
                f"but it returned the shape {found.shape}, "
                f"{int((~np.isfinite(found)).sum())} of it not finite."
            )
        return found

    def expected(self, function: Callable, states, actions) -> np.ndarray:
        """E[function(s') | s, a] for functions with one or several columns."""
        found, probability = (as_floats("law", part) for part in self.law(states, actions))
        rows, width = states.shape
        fits = found.ndim == 3 and found.shape[::2] == (rows, width)
        if not fits or probability.shape != found.shape[:2]:
            raise DataError(
                "`law` must return next states of shape (row, outcome, state) and "
                f"probabilities (row, outcome) for {rows} rows of {width} state variables, "
                f"but their shapes are {found.shape} and {probability.shape}."
            )
        values = function(found.reshape(-1, width))
        values = values.reshape(*probability.shape, *values.shape[1:])
        return np.einsum("ro,ro...->r...", probability, values)


@dataclass(frozen=True, eq=False)
class DensitySolution:
    """The identified reward, action values and values, functions of states and actions."""

    problem: _Problem
    features: Callable[[np.ndarray], np.ndarray]
    theta: Float[np.ndarray, " feature"]
    residual: float
    """The largest violation of the anchor's equation at the states it was solved at."""

    def reward(self, states: Any, actions: Any) -> PerRow:
        """r(s, a) of one action a state."""
        states, actions = _aligned(states, actions)
        ahead = self.problem.expected(self.value, states, actions)
        return self.q(states, actions) - self.problem.discount * ahead

    def q(self, states: Any, actions: Any) -> PerRow:
        """Q(s, a) of one action a state."""
        states, actions = _aligned(states, actions)
        log_density = self.problem.log_density(states, actions)
        return self.problem.temperature * log_density + self.value(states)

    def value(self, states: Any) -> PerRow:
        """V(s); its constant rests on how actions are counted."""
        states = as_floats("states", states)
        ahead = self.features(states) @ self.theta
        return self.problem.bonus(states) + self.problem.discount * ahead


def _aligned(states: Any, actions: Any) -> tuple[States, np.ndarray]:
    states, actions = as_floats("states", states), as_floats("actions", actions)
    actions = actions[:, None] if actions.ndim == 1 else actions
    if len(actions) != len(states):
        raise DataError(
            f"`actions` must have a row for each of the {len(states)} states, but there "
            f"are {len(actions)}."
        )
    return states, actions


def _polynomials(scaled: np.ndarray, degree: int) -> np.ndarray:
    """A constant and all monomials up to `degree`."""
    return np.column_stack([np.ones(len(scaled)), monomials(scaled, degree)])
