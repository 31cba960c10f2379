r"""Entropy-regularised linear-quadratic control: continuous actions, all in closed form.

Where states move linearly and costs are quadratic, the soft value is quadratic and the
policy Gaussian. A Riccati equation gives both to rounding error, in any dimension.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.linalg import cho_factor, cho_solve, solve_discrete_lyapunov
from scipy.special import ndtr

from .._errors import DataError
from .._shapes import PerRow, States
from ..actions._space import Box
from ..mdp._simulate import generator
from ..mdp._tabular import as_floats, check_preferences
from ..panel._panel import Panel
from ._amounts import check_actions, simulate_amounts
from ._tabular import check_columns

# Periods ahead after this many doublings: 10^9. At rates of 1 - 10^-6 a period the rest
# is below rounding.
DOUBLINGS = 30


class _Optimum(NamedTuple):
    """The soft optimum; see `LinearQuadratic`."""

    value_cost: Float[np.ndarray, "state_feature state_feature"]
    gain: Float[np.ndarray, "action_dimension state_feature"]
    precision: Float[np.ndarray, "action_dimension action_dimension"]
    """H of Q(s, a) = V(s) + ... - (a - K s)'H (a - K s)."""


@dataclass(frozen=True, eq=False)
class LinearQuadratic:
    r"""Linear moves, quadratic costs, actions of any dimension; the anchor is zero.

    $$s' = A s + B a + \varepsilon, \qquad r(s,a) = -s^\top C s - a^\top R a.$$
    With $P = C + \gamma A^\top P A - \gamma^2 A^\top P B H^{-1} B^\top P A$ and
    $H = R + \gamma B^\top P B$ the policy is normal with mean
    $-\gamma H^{-1} B^\top P A s$ and covariance $\alpha H^{-1}/2$, and V is $-s^\top P s$
    and a constant.

    The agent may choose any action, and a panel needs a box: `box` reaches `width`
    standard deviations of the actions taken in the long run, and the few actions beyond
    it are drawn again. `mass_outside` bounds how often; at a width of 5 it is 6e-7 on
    average. An agent who could choose inside the box only would value a state less by at
    most temperature / (1 - discount) times the largest -log(1 - mass) on its way.

    Parameters
    ----------
    drift, response
        $A$ and $B$: a number, or a matrix with a row for each state variable.
    state_cost, action_cost
        $C$ and $R$, symmetric; $C$ has no negative and $R$ only positive eigenvalues.
    noise
        Covariance of $\varepsilon$.
    width
        Half the box's sides, in standard deviations of the actions taken.

    References
    ----------
    [anderson1990]; [anderson1978] for the doubling.
    """

    drift: Any = 0.8
    response: Any = 0.5
    state_cost: Any = 0.3
    action_cost: Any = 0.4
    noise: Any = 0.25
    discount: float = 0.9
    temperature: float = 1.0
    width: float = 5.0

    def __post_init__(self):
        check_preferences(self.discount, self.temperature)
        for name in ("drift", "response", "state_cost", "action_cost", "noise"):
            matrix = as_floats(name, getattr(self, name))
            matrix = matrix.reshape(1, 1) if matrix.ndim == 0 else matrix
            object.__setattr__(self, name, matrix)
        _check_shapes(self)
        _check_definite("state_cost", self.state_cost, zero_allowed=True)
        _check_definite("action_cost", self.action_cost, zero_allowed=False)
        _check_definite("noise", self.noise, zero_allowed=True)
        if not (self.width > 0 and np.isfinite(self.width)):
            raise DataError(f"`width` must be positive, but it is {self.width}.")

    @classmethod
    def random(
        cls, dim: int, action_dim: int, *, seed: int = 0, **preferences: float
    ) -> "LinearQuadratic":
        """A world with drawn matrices; `preferences` are discount, temperature, width."""
        rng = generator(seed)
        drift = rng.normal(size=(dim, dim))
        # By the norm, which bounds the eigenvalues: states settle under the anchor too.
        drift *= 0.9 / np.linalg.norm(drift, 2)
        return cls(
            drift=drift,
            response=rng.normal(size=(dim, action_dim)) / np.sqrt(2 * action_dim),
            state_cost=0.4 * _wishart(rng, dim),
            action_cost=0.5 * _wishart(rng, action_dim) + 0.1 * np.eye(action_dim),
            noise=0.2 * _wishart(rng, dim) + 0.1 * np.eye(dim),
            **preferences,
        )

    @property
    def dim(self) -> int:
        return len(self.drift)

    @property
    def action_dim(self) -> int:
        return len(self.action_cost)

    @property
    def state_names(self) -> list[str]:
        return [f"x{i + 1}" for i in range(self.dim)]

    @property
    def anchor(self) -> Any:
        """Doing nothing: the action zero."""
        return 0.0 if self.action_dim == 1 else (0.0,) * self.action_dim

    @cached_property
    def box(self) -> Box:
        """The box of a panel's actions, centred at zero; log densities count by it."""
        side = self.width * np.sqrt(np.diag(self._action_covariance))
        return Box(-side, side)

    def reward(self, states, actions) -> PerRow:
        states, actions = self._check(states, actions)
        return -_form(states, self.state_cost) - _form(actions, self.action_cost)

    def anchor_reward(self, states) -> PerRow:
        """The reward of doing nothing, what PQR has to be told."""
        states = check_columns(states, self.state_names)
        return -_form(states, self.state_cost)

    def q(self, states, actions) -> PerRow:
        ahead = self.continuation(states, actions)
        return self.reward(states, actions) + self.discount * ahead

    def value(self, states) -> PerRow:
        states = check_columns(states, self.state_names)
        return self._value_constant - _form(states, self._optimum.value_cost)

    def log_policy(self, states, actions) -> PerRow:
        """The log density of an action with respect to the box, whose mass is one."""
        states, actions = self._check(states, actions)
        gap = actions - states @ self._optimum.gain.T
        distance = _form(gap, self._optimum.precision) / self.temperature
        return self.box.log_volume - self._log_integral - distance

    def continuation(self, states, actions) -> PerRow:
        """E[V(s') | s, a]."""
        states, actions = self._check(states, actions)
        mean = states @ self.drift.T + actions @ self.response.T
        spread = np.trace(self._optimum.value_cost @ self.noise)
        return self.value(mean) - spread

    def outcomes(self, states, actions) -> tuple[np.ndarray, np.ndarray]:
        """Next states (row, outcome, state_feature) and their probabilities.

        Two for each state variable, which have the mean and covariance of the normal
        law: expectations of functions of degree three or less are exact.
        """
        states, actions = self._check(states, actions)
        mean = states @ self.drift.T + actions @ self.response.T
        # By eigenvectors and not Cholesky's factor: the noise may be degenerate.
        size, direction = np.linalg.eigh(self.noise)
        steps = np.sqrt(self.dim * np.maximum(size, 0.0))[:, None] * direction.T
        steps = np.concatenate([steps, -steps])
        weight = np.full((len(states), len(steps)), 1 / len(steps))
        return mean[:, None] + steps, weight

    def mass_outside(self, states) -> PerRow:
        """At most this is the probability of an action outside the box."""
        states = check_columns(states, self.state_names)
        mean = states @ self._optimum.gain.T
        deviation = np.sqrt(np.diag(self._choice_covariance))
        below = ndtr((self.box.lower - mean) / deviation)
        above = ndtr((mean - self.box.upper) / deviation)
        # Dimensions are added up, which counts corners more than once.
        return np.minimum((below + above).sum(axis=1), 1.0)

    def simulate(self, steps: int = 10_000, units: int = 500, seed: int = 1) -> Panel:
        """Decisions of the optimal policy; `steps` is the total.

        Every unit takes as many; starts are states of the long run.
        """
        return simulate_amounts(self, self.box, steps=steps, units=units, seed=seed)

    def initial_states(self, number: int, rng: np.random.Generator) -> States:
        """States of the long run."""
        zero = np.zeros(self.dim)
        return rng.multivariate_normal(zero, self._state_covariance, size=number)

    def next_states(self, states, actions, rng: np.random.Generator) -> States:
        states, actions = self._check(states, actions)
        noise = rng.multivariate_normal(np.zeros(self.dim), self.noise, size=len(states))
        return states @ self.drift.T + actions @ self.response.T + noise

    def draw(self, states, rng: np.random.Generator) -> np.ndarray:
        """An action of the policy for each state, inside the box."""
        mean = states @ self._optimum.gain.T
        root = np.linalg.cholesky(self._choice_covariance)
        found = mean + rng.normal(size=mean.shape) @ root.T
        while not (inside := self.box.contains(found)).all():
            again = mean[~inside]
            found[~inside] = again + rng.normal(size=again.shape) @ root.T
        return found

    @cached_property
    def _optimum(self) -> _Optimum:
        drift, response, discount = self.drift, self.response, self.discount
        value_cost = _riccati(self)
        precision = self.action_cost + discount * response.T @ value_cost @ response
        cross = discount * response.T @ value_cost @ drift
        return _Optimum(value_cost, -cho_solve(cho_factor(precision), cross), precision)

    @property
    def _choice_covariance(self) -> np.ndarray:
        """Of an action, given the state."""
        return self.temperature / 2 * np.linalg.inv(self._optimum.precision)

    @cached_property
    def _state_covariance(self) -> np.ndarray:
        """Of the states in the long run."""
        closed = self.drift + self.response @ self._optimum.gain
        radius = np.abs(np.linalg.eigvals(closed)).max()
        if radius >= 1:
            raise DataError(
                "`drift` must let states settle under the optimal policy, but they grow by "
                f"{radius:.3g} a period. Use a smaller `drift`, or a larger `state_cost`."
            )
        spread = self.response @ self._choice_covariance @ self.response.T + self.noise
        return solve_discrete_lyapunov(closed, spread)

    @cached_property
    def _action_covariance(self) -> np.ndarray:
        """Of the actions taken in the long run."""
        gain = self._optimum.gain
        return gain @ self._state_covariance @ gain.T + self._choice_covariance

    @property
    def _log_integral(self) -> float:
        """Logarithm of the integral of exp(-(a - K s)'H (a - K s) / temperature) da."""
        size = np.linalg.slogdet(self._optimum.precision)[1]
        return self.action_dim / 2 * np.log(np.pi * self.temperature) - size / 2

    @cached_property
    def _value_constant(self) -> float:
        spread = np.trace(self._optimum.value_cost @ self.noise)
        entropy = self.temperature * (self._log_integral - self.box.log_volume)
        return (entropy - self.discount * spread) / (1 - self.discount)

    def _check(self, states, actions) -> tuple[States, np.ndarray]:
        states = check_columns(states, self.state_names)
        return states, check_actions(actions, len(states), self.action_dim)


def _riccati(world: LinearQuadratic) -> np.ndarray:
    """P of the soft value, by doubling: each pass looks twice as many periods ahead.

    Unlike eigenvalue methods it also works at a discount of zero and close to it.
    """
    # The discounted problem is the undiscounted one with moves times the root.
    moves = np.sqrt(world.discount) * world.drift
    response = np.sqrt(world.discount) * world.response
    control = response @ np.linalg.solve(world.action_cost, response.T)
    cost = world.state_cost
    for _ in range(DOUBLINGS):
        # I + G H of the periods so far, whose inverse both halves share.
        inner = np.eye(world.dim) + control @ cost
        ahead = np.linalg.solve(inner, moves)
        seen = moves.T @ cost @ ahead
        control = control + moves @ np.linalg.solve(inner, control) @ moves.T
        cost, moves = cost + (seen + seen.T) / 2, moves @ ahead
    return cost


def _form(points: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """The quadratic form x'Mx of each row."""
    return np.einsum("ij,jk,ik->i", points, matrix, points)


def _wishart(rng: np.random.Generator, dim: int) -> np.ndarray:
    """A random matrix with positive eigenvalues, the identity on average."""
    draws = rng.normal(size=(dim + 2, dim))
    return draws.T @ draws / len(draws)


def _check_shapes(world: LinearQuadratic) -> None:
    drift, response = world.drift, world.response
    expected = {
        "drift": (len(drift), len(drift)),
        "response": (len(drift), response.shape[-1]),
        "state_cost": drift.shape,
        "noise": drift.shape,
        "action_cost": (response.shape[-1],) * 2,
    }
    for name, shape in expected.items():
        found = getattr(world, name).shape
        if found != shape:
            raise DataError(
                f"`{name}` must have the shape {shape}, as `drift` has "
                f"{drift.shape} and `response` {response.shape}, but it has {found}."
            )


def _check_definite(name: str, matrix: np.ndarray, *, zero_allowed: bool) -> None:
    smallest = np.linalg.eigvalsh((matrix + matrix.T) / 2).min()
    lopsided = np.abs(matrix - matrix.T).max()
    size = np.abs(matrix).max()
    enough = smallest >= -1e-12 * size if zero_allowed else smallest > 0
    if lopsided > 1e-9 * size or not enough:
        what = "no negative" if zero_allowed else "only positive"
        raise DataError(
            f"`{name}` must be symmetric with {what} eigenvalues, but its smallest is "
            f"{smallest:.3g} and it differs from its transpose by {lopsided:.3g}."
        )
