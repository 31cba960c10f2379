r"""A world built backwards: action values are chosen, and the reward follows from them.

Solving for Q is what makes other worlds need a lattice, few states or one dimension. Here
Q and the law of the next state are smooth formulas, and the reward that makes Q optimal is
an expectation over one bounded noise, which a quadrature rule gives to rounding error in
any dimension and for any number of actions.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import log_softmax, logsumexp

from .._errors import DataError
from .._shapes import PerAction, PerRow, States
from ..mdp._law import Law
from ..mdp._simulate import generator, simulate
from ..mdp._tabular import check_preferences
from ..panel._panel import Panel
from ._tabular import check_columns

# With uniform noise of standard deviation 0.7 per coordinate and a pull of 0.7 towards
# zero, states have a standard deviation of about one in every coordinate.
PULL = 0.7
NOISE = 0.7
# Drifts are up to 0.4 in each coordinate: actions differ in where they lead by about half
# the noise. At 0 the choice would not matter for the future.
DRIFT = 0.4
# Gauss-Legendre nodes for the noise, against 150 of them: E[V] is right to 1e-14 at the
# default spread and to 1e-8 at spread 3; 32 nodes give 2e-10 and 3e-6.
NODES = 48
# Bound on next states valued at once: 25 actions of eight bytes each, 50 MB.
POINTS_AT_ONCE = 250_000


class _Formulas(NamedTuple):
    """The drawn numbers of the formulas; see `SmoothWorld`."""

    constant: Float[np.ndarray, " action"]
    slope: Float[np.ndarray, "state_feature action"]
    bend: Float[np.ndarray, "direction state_feature action"]
    bend_size: Float[np.ndarray, "direction action"]
    cross_size: Float[np.ndarray, " action"]
    common: Float[np.ndarray, "two state_feature"]
    drift: Float[np.ndarray, "action state_feature state_feature"]
    offset: Float[np.ndarray, "action state_feature"]
    plane: Float[np.ndarray, "action two state_feature"]
    turn: Float[np.ndarray, "action state_feature"]


@dataclass(frozen=True, eq=False)
class SmoothWorld:
    r"""Continuous states with no lattice and no walls; the anchor is the first action.

    $$r(s,a) = Q(s,a) - \gamma E[V(s')|s,a], \qquad
    s' = 0.7\, s + 0.4 \tanh(W_a s + c_a) + \sigma z\, u_a(s),$$
    with z uniform, of mean zero and variance one. For each action Q is a constant, a linear
    part, two bends (tanh) along directions of its own and their product, plus a bent
    function of the state that all actions share. The noise has one direction, the unit
    vector $u_a(s)$, which turns with the state in a plane of the action's own, so that
    states spread over all dimensions.

    The anchor's reward is r(s, anchor), a function that varies with the state:
    `PQR(..., anchor=world.anchor, anchor_reward=world.anchor_reward)`.

    Parameters
    ----------
    dim, num_actions
        Number of state variables and of actions, at least 2 each.
    seed
        Draws the formulas. Actions are drawn independently: neighbours have nothing in
        common.
    spread
        Root mean square of Q(s,a) - Q(s,b) over pairs of actions, in temperatures.
    labels
        Whether actions are called "a0", "a1", ... rather than 0, 1, ..., so that their
        order cannot be taken for a number.
    """

    dim: int = 4
    num_actions: int = 6
    discount: float = 0.9
    temperature: float = 1.0
    seed: int = 0
    spread: float = 1.2
    labels: bool = False

    def __post_init__(self):
        for name in ("dim", "num_actions"):
            if getattr(self, name) < 2:
                raise DataError(
                    f"`{name}` must be at least 2, but it is {getattr(self, name)}."
                )
        if not (self.spread > 0 and np.isfinite(self.spread)):
            raise DataError(f"`spread` must be positive, but it is {self.spread}.")
        check_preferences(self.discount, self.temperature)

    @property
    def actions(self) -> tuple[int, ...] | tuple[str, ...]:
        if self.labels:
            return tuple(f"a{action}" for action in range(self.num_actions))
        return tuple(range(self.num_actions))

    @property
    def anchor(self) -> int | str:
        return self.actions[0]

    @property
    def state_names(self) -> list[str]:
        return [f"x{i + 1}" for i in range(self.dim)]

    def q(self, states) -> PerAction:
        states, drawn = self._check(states), self._formulas
        level = np.tanh(states @ drawn.common[0]) + 0.3 * states @ drawn.common[1]
        contrast = _contrast(states, drawn) + drawn.constant
        return self.temperature * (level[:, None] + contrast)

    def value(self, states) -> PerRow:
        return self.temperature * logsumexp(self.q(states) / self.temperature, axis=1)

    def log_policy(self, states) -> PerAction:
        return log_softmax(self.q(states) / self.temperature, axis=1)

    def reward(self, states) -> PerAction:
        states = self._check(states)
        ahead = [self.continuation(states, action) for action in range(self.num_actions)]
        return self.q(states) - self.discount * np.stack(ahead, axis=1)

    def anchor_reward(self, states) -> PerRow:
        """The reward of the anchor, what PQR has to be told."""
        states = self._check(states)
        return self.q(states)[:, 0] - self.discount * self.continuation(states, 0)

    def continuation(self, states, action: int, nodes: int = NODES) -> PerRow:
        """E[V(s') | s, a] by Gauss-Legendre quadrature; `action` is a column of Q."""
        states = self._check(states)
        found = np.empty(len(states))
        points, weights = uniform_rule(nodes)
        for rows in blocks(len(states), POINTS_AT_ONCE // nodes):
            ahead = self._moved(states[rows], action, points)
            value = self.value(ahead.reshape(-1, self.dim))
            found[rows] = value.reshape(-1, nodes) @ weights
        return found

    @property
    def transition(self) -> Law:
        """The law of the next state, its noise at the nodes of the quadrature."""
        points, weights = uniform_rule(NODES)

        def step(states: np.ndarray, action) -> tuple[np.ndarray, np.ndarray]:
            ahead = self._moved(states, self.actions.index(action), points)
            return ahead, np.tile(weights, (len(states), 1))

        return Law(step)

    def simulate(self, steps: int = 10_000, units: int = 500, seed: int = 1) -> Panel:
        """Decisions of the exactly optimal policy, from normally distributed starts.

        `steps` is the total, split evenly over the units.
        """
        return simulate(self, steps=steps, units=units, seed=seed)

    def initial_states(self, number: int, rng: np.random.Generator) -> np.ndarray:
        return rng.normal(size=(number, self.dim))

    def next_states(self, state, action, rng: np.random.Generator) -> np.ndarray:
        noise = rng.uniform(-np.sqrt(3), np.sqrt(3), size=len(state))
        found = np.empty_like(state)
        for one in range(self.num_actions):
            rows = action == one
            still, direction = self._moves(state[rows], one)
            found[rows] = still + noise[rows, None] * direction
        return found

    def _moved(self, states: States, action: int, noise: np.ndarray) -> np.ndarray:
        """Next states (row, noise, state_feature) for each value of the noise."""
        still, direction = self._moves(states, action)
        return still[:, None] + noise[:, None] * direction[:, None]

    def _moves(self, states: States, action: int) -> tuple[States, States]:
        """The next state without noise, and what one unit of noise adds to it."""
        drawn = self._formulas
        drift = np.tanh(states @ drawn.drift[action] + drawn.offset[action])
        # Angles of about one radian: the direction turns by that much from state to state.
        angle = (states @ drawn.turn[action])[:, None]
        first, second = drawn.plane[action]
        direction = np.cos(angle) * first + np.sin(angle) * second
        # The noise has one direction of `dim`, hence the root: variances add up over time.
        scale = NOISE * np.sqrt(self.dim)
        return PULL * states + DRIFT * drift, scale * direction

    @cached_property
    def _formulas(self) -> _Formulas:
        rng = generator(self.seed)
        dim, actions = self.dim, self.num_actions
        # Divided by the root of `dim`, an index s'w has a standard deviation of about one.
        direction = lambda *shape: rng.normal(size=shape) / np.sqrt(dim)
        # Of one length: a bend that happened to be sharp would ask for more nodes.
        bend = direction(2, dim, actions)
        drawn = _Formulas(
            constant=np.zeros(actions),
            slope=direction(dim, actions),
            bend=1.25 * bend / np.linalg.norm(bend, axis=1, keepdims=True),
            bend_size=rng.normal(size=(2, actions)),
            cross_size=1.5 * rng.normal(size=actions),
            common=direction(2, dim),
            drift=direction(actions, dim, dim),
            offset=0.5 * rng.normal(size=(actions, dim)),
            plane=np.stack([plane(rng, dim) for _ in range(actions)]),
            turn=direction(actions, dim),
        )
        # Constants differ little, so that no action is rare with 25 of them. Scaled over
        # standard normal states, which the stationary law resembles.
        states = rng.normal(size=(4_096, dim))
        contrast = _contrast(states, drawn)
        constant = 0.4 * rng.normal(size=actions) - contrast.mean(axis=0)
        contrast = contrast + constant
        # Pairs of distinct actions: twice the unbiased variance across actions.
        root_mean_square = np.sqrt(2 * contrast.var(axis=1, ddof=1).mean())
        scale = self.spread / root_mean_square
        return drawn._replace(
            constant=scale * constant,
            slope=scale * drawn.slope,
            bend_size=scale * drawn.bend_size,
            cross_size=scale * drawn.cross_size,
        )

    def _check(self, states) -> States:
        states = check_columns(states, self.state_names)
        wrong = ~np.isfinite(states).all(axis=1)
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raise DataError(
                f"`states` must hold finite numbers, but row {row} does not "
                f"({int(wrong.sum())} rows in all)."
            )
        return states


def _contrast(states: States, drawn: _Formulas) -> PerAction:
    """What distinguishes the actions: linear part, bends and their product."""
    one, two = (np.tanh(states @ bend) for bend in drawn.bend)
    bends = drawn.bend_size[0] * one + drawn.bend_size[1] * two
    return states @ drawn.slope + bends + drawn.cross_size * one * two


def plane(rng: np.random.Generator, dim: int) -> Float[np.ndarray, "two state_feature"]:
    """Two orthonormal vectors: a plane of random orientation."""
    return np.linalg.qr(rng.normal(size=(dim, 2)))[0].T


def uniform_rule(nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Legendre nodes and weights for a uniform draw of variance one."""
    points, weights = np.polynomial.legendre.leggauss(nodes)
    return np.sqrt(3) * points, weights / 2


def blocks(rows: int, at_once: int) -> Iterator[slice]:
    at_once = max(1, at_once)
    return (slice(first, first + at_once) for first in range(0, rows, at_once))
