r"""A world built backwards with continuous actions, with and without an atom.

As in `SmoothWorld` Q and the law are chosen and the reward follows. Here Q and the law
are smooth in the action too, and V is an integral over actions, by a quadrature rule.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp

from .._errors import DataError
from .._shapes import PerRow, States
from ..actions._nodes import Nodes
from ..actions._space import ActionSpace, Amounts, Box, Mixed
from ..mdp._simulate import check_count, generator
from ..mdp._tabular import check_preferences
from ..panel._panel import Panel
from ._amounts import check_actions, simulate_amounts
from ._smooth import DRIFT, NODES, NOISE, POINTS_AT_ONCE, PULL, blocks, plane, uniform_rule
from ._tabular import check_columns

# Gauss-Legendre nodes per dimension of the action: with 40 of them V moves by 1e-13 at the
# default spread and by 1e-10 at spread 3.
ACTION_NODES = 20
# Cells per dimension under the envelope that draws are accepted from: with twice as many
# fewer draws are refused, and more cells valued.
CELLS = {1: 32, 2: 16}


class _Formulas(NamedTuple):
    """The drawn numbers of the formulas; see `AmountWorld`."""

    common: Float[np.ndarray, "two state_feature"]
    slope: Float[np.ndarray, "state_feature action_dimension"]
    tilt: Float[np.ndarray, " action_dimension"]
    curve: Float[np.ndarray, " action_dimension"]
    bend: Float[np.ndarray, "state_feature bend"]
    bend_action: Float[np.ndarray, "action_dimension bend"]
    bend_size: Float[np.ndarray, " bend"]
    atom: Float[np.ndarray, "two state_feature"]
    atom_constant: Float[np.ndarray, ""]
    drift: Float[np.ndarray, "state_feature state_feature"]
    offset: Float[np.ndarray, "two state_feature"]
    push: Float[np.ndarray, "action_dimension state_feature"]
    plane: Float[np.ndarray, "two state_feature"]
    turn: Float[np.ndarray, " state_feature"]


@dataclass(frozen=True, eq=False)
class AmountWorld:
    r"""How much to do, or nothing: actions are amounts, with the option of an atom.

    $$r(s,a) = Q(s,a) - \gamma E[V(s')|s,a], \qquad
    V = \alpha \log \int e^{Q(\cdot,a)/\alpha}\,d\mu(a),$$
    $$s' = 0.7\, s + 0.4 \tanh(W s + D a + c) + \sigma z\, u(s),$$
    with z uniform, of mean zero and variance one. Q is a parabola in the amounts whose
    slope depends on the state, two bends (tanh) across states and amounts together, and a
    bent function of the state alone. With an atom, doing nothing has a Q and an offset $c$
    of its own: neither is the limit of small amounts.

    The anchor's reward varies with the state:
    `PQR(..., anchor=world.anchor, anchor_reward=world.anchor_reward)`.

    Parameters
    ----------
    dim, action_dim
        Number of state variables, at least 2, and of amounts, 1 or 2.
    atom
        Whether "nothing" is an atom, and the anchor, beside amounts from 0 to 10. If not,
        amounts go from -2 to 2 and the anchor is their middle, a point of the continuum.
    spread
        Root mean square of Q(s,a) - Q(s,b) over pairs of amounts, in temperatures.
    seed
        Draws the formulas.
    """

    dim: int = 3
    action_dim: int = 1
    atom: bool = True
    discount: float = 0.9
    temperature: float = 1.0
    seed: int = 0
    spread: float = 1.5

    def __post_init__(self):
        check_count("dim", self.dim, least=2)
        check_count("action_dim", self.action_dim, most=2)
        if not (self.spread > 0 and np.isfinite(self.spread)):
            raise DataError(f"`spread` must be positive, but it is {self.spread}.")
        check_preferences(self.discount, self.temperature)

    @cached_property
    def actions(self) -> ActionSpace:
        """The actions that a panel of this world has."""
        count = self.action_dim
        if not self.atom:
            return Box([-2.0] * count, [2.0] * count)
        nothing = [0.0] if count == 1 else [[0.0] * count]
        return Mixed(atoms=nothing, box=Box([0.0] * count, [10.0] * count))

    @property
    def anchor(self) -> Any:
        return 0.0 if self.action_dim == 1 else (0.0,) * self.action_dim

    @property
    def state_names(self) -> list[str]:
        return [f"x{i + 1}" for i in range(self.dim)]

    def q(self, states, actions) -> PerRow:
        states, actions = self._check(states, actions)
        amount = self.actions.centred(actions)
        size = _contrast(self._formulas, states, amount)
        nothing = self._atoms(actions)
        size = np.where(nothing, self._atom_contrast(states), size)
        return self.temperature * (self._level(states) + size)

    def value(self, states) -> PerRow:
        states = check_columns(states, self.state_names)
        nodes, found = self._nodes, np.empty(len(states))
        amount = self.actions.centred(nodes.action)[None]
        weight = nodes.weight
        for rows in blocks(len(states), POINTS_AT_ONCE // len(nodes)):
            size = _contrast(self._formulas, states[rows, None], amount)
            if self.atom:
                size = np.where(
                    nodes.atom >= 0, self._atom_contrast(states[rows])[:, None], size
                )
            found[rows] = logsumexp(size, b=weight, axis=1)
        return self.temperature * (self._level(states) + found)

    def log_policy(self, states, actions) -> PerRow:
        """The log probability of the atom, or the log density of an amount with respect
        to the box, whose mass is one."""
        return (self.q(states, actions) - self.value(states)) / self.temperature

    def reward(self, states, actions) -> PerRow:
        return self.q(states, actions) - self.discount * self.continuation(states, actions)

    def anchor_reward(self, states) -> PerRow:
        """The reward of the anchor, what PQR has to be told."""
        states = check_columns(states, self.state_names)
        return self.reward(states, np.tile(self.anchor, (len(states), 1)))

    def continuation(self, states, actions) -> PerRow:
        """E[V(s') | s, a] by Gauss-Legendre quadrature over the noise."""
        states, actions = self._check(states, actions)
        found = np.empty(len(states))
        for rows in blocks(len(states), POINTS_AT_ONCE // NODES):
            ahead, weight = self.outcomes(states[rows], actions[rows])
            value = self.value(ahead.reshape(-1, self.dim)).reshape(weight.shape)
            found[rows] = (value * weight).sum(axis=1)
        return found

    def outcomes(self, states, actions) -> tuple[np.ndarray, np.ndarray]:
        """Next states (row, outcome, state_feature) and their probabilities: the nodes of
        a quadrature over the noise, and its weights."""
        states, actions = self._check(states, actions)
        points, weights = uniform_rule(NODES)
        still, direction = self._moves(states, actions)
        ahead = still[:, None] + points[:, None] * direction[:, None]
        return ahead, np.tile(weights, (len(states), 1))

    def simulate(self, steps: int = 10_000, units: int = 500, seed: int = 1) -> Panel:
        """Decisions of the optimal policy; `steps` is the total.

        Every unit takes as many; starts are normally distributed.
        """
        return simulate_amounts(self, self.actions, steps=steps, units=units, seed=seed)

    def initial_states(self, number: int, rng: np.random.Generator) -> States:
        return rng.normal(size=(number, self.dim))

    def next_states(self, states, actions, rng: np.random.Generator) -> States:
        states, actions = self._check(states, actions)
        still, direction = self._moves(states, actions)
        noise = rng.uniform(-np.sqrt(3), np.sqrt(3), size=(len(states), 1))
        return still + noise * direction

    def draw(self, states, rng: np.random.Generator) -> Amounts:
        """An action of the policy for each state, without approximation.

        Amounts are drawn evenly and accepted by the ratio of their density to a bound,
        which the largest value at the middles of cells and the slopes of Q give.
        """
        states, drawn = check_columns(states, self.state_names), self._formulas
        cells = CELLS[self.action_dim]
        middles = (np.arange(cells) + 0.5) * 2 / cells - 1
        grid = np.meshgrid(*[middles] * self.action_dim, indexing="ij")
        centre = np.stack([axis.ravel() for axis in grid], axis=1)
        slope = np.abs(states @ drawn.slope + drawn.tilt) + 2 * np.abs(drawn.curve)
        slope = slope + np.abs(drawn.bend_action) @ np.abs(drawn.bend_size)
        bound = _contrast(self._formulas, states[:, None], centre[None]).max(axis=1)
        bound = bound + slope.sum(axis=1) / cells
        left, amount = np.arange(len(states)), np.empty((len(states), self.action_dim))
        while len(left):
            tried = rng.uniform(-1, 1, size=(len(left), self.action_dim))
            chance = np.exp(_contrast(self._formulas, states[left], tried) - bound[left])
            accepted = rng.random(len(left)) < chance
            amount[left[accepted]] = tried[accepted]
            left = left[~accepted]
        box = self.actions.box
        actions = box.lower + (amount + 1) / 2 * (box.upper - box.lower)
        if self.atom:
            nothing = np.tile(self.anchor, (len(states), 1))
            chance = np.exp(self.log_policy(states, nothing))
            actions[rng.random(len(states)) < chance] = self.anchor
        return actions

    @cached_property
    def _nodes(self) -> Nodes:
        return self.actions.nodes(ACTION_NODES)

    def _atoms(self, actions: Amounts) -> np.ndarray:
        return self.actions.atom_of(actions) >= 0

    def _level(self, states: np.ndarray) -> np.ndarray:
        common = self._formulas.common
        return np.tanh(states @ common[0]) + 0.3 * states @ common[1]

    def _atom_contrast(self, states: States) -> PerRow:
        (bend, slope), constant = self._formulas.atom, self._formulas.atom_constant
        return constant + np.tanh(states @ bend) + states @ slope

    def _moves(self, states: States, actions: Amounts) -> tuple[States, States]:
        """The next state without noise, and what one unit of noise adds to it."""
        drawn = self._formulas
        nothing = self._atoms(actions)[:, None]
        push = self.actions.centred(actions) @ drawn.push
        offset = np.where(nothing, drawn.offset[1], drawn.offset[0] + push)
        drift = np.tanh(states @ drawn.drift + offset)
        # Angles of about one radian: the direction turns by that much from state to state.
        angle = (states @ drawn.turn)[:, None]
        first, second = drawn.plane
        direction = np.cos(angle) * first + np.sin(angle) * second
        # The noise has one direction of `dim`, hence the root: variances add up over time.
        scale = NOISE * np.sqrt(self.dim)
        return PULL * states + DRIFT * drift, scale * direction

    @cached_property
    def _formulas(self) -> _Formulas:
        rng = generator(self.seed)
        dim, amounts = self.dim, self.action_dim
        # Divided by the root of `dim`, an index s'w has a standard deviation of about one.
        direction = lambda *shape: rng.normal(size=shape) / np.sqrt(dim)
        # Of one length: a bend that happened to be sharp would ask for more nodes.
        bend = direction(dim, 2)
        bend_action = rng.normal(size=(amounts, 2))
        drawn = _Formulas(
            common=direction(2, dim),
            slope=direction(dim, amounts),
            tilt=0.3 * rng.normal(size=amounts),
            curve=rng.uniform(0.3, 1.2, size=amounts),
            bend=1.25 * bend / np.linalg.norm(bend, axis=0),
            bend_action=1.25 * bend_action / np.linalg.norm(bend_action, axis=0),
            bend_size=rng.normal(size=2),
            atom=direction(2, dim),
            atom_constant=np.zeros(()),
            drift=direction(dim, dim),
            offset=0.5 * rng.normal(size=(2, dim)),
            push=rng.normal(size=(amounts, dim)),
            plane=plane(rng, dim),
            turn=direction(dim),
        )
        # Scaled over standard normal states, which the stationary law resembles.
        states = rng.normal(size=(4_096, dim))
        tried = rng.uniform(-1, 1, size=(2, 4_096, amounts))
        gap = np.diff([_contrast(drawn, states, amount) for amount in tried], axis=0)
        scale = self.spread / np.sqrt((gap**2).mean())
        drawn = drawn._replace(
            slope=scale * drawn.slope,
            tilt=scale * drawn.tilt,
            curve=scale * drawn.curve,
            bend_size=scale * drawn.bend_size,
        )
        # So that nothing is done in a share of exp(-0.8) / (1 + exp(-0.8)), or 31 %, of
        # states like the average one: an anchor that is neither rare nor the rule.
        nodes = self.actions.box.nodes(ACTION_NODES)
        amount = self.actions.centred(nodes.action)
        size = _contrast(drawn, states[:512, None], amount[None])
        level = logsumexp(size, b=nodes.weight, axis=1).mean()
        return drawn._replace(atom_constant=np.array(level - 0.8))

    def _check(self, states, actions) -> tuple[States, Amounts]:
        states = check_columns(states, self.state_names)
        actions = check_actions(actions, len(states), self.action_dim)
        outside = ~self.actions.contains(actions)
        if outside.any():
            row = int(np.flatnonzero(outside)[0])
            raise DataError(
                f"`actions` must lie in {self.actions}, but row {row} has {actions[row]} "
                f"({int(outside.sum())} rows in all)."
            )
        return states, actions


def _contrast(drawn: _Formulas, states: np.ndarray, amount: np.ndarray) -> np.ndarray:
    """What distinguishes amounts, in temperatures; leading axes broadcast."""
    slope = ((states @ drawn.slope + drawn.tilt) * amount).sum(axis=-1)
    bends = np.tanh(states @ drawn.bend + amount @ drawn.bend_action)
    return slope - amount**2 @ drawn.curve + bends @ drawn.bend_size
