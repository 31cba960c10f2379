r"""A reward over amounts with the value that follows from it, as functions of the state.

$$r(s,a) = g(s) + \alpha\,\psi(s,a)'\theta, \qquad
Q(s,a) = r(s,a) + \gamma E[V(s')|s,a], \qquad
V(s) = \alpha\log\int \exp\{Q(s,a)/\alpha\}\,d\mu(a).$$
Each is a sum of the shapes of `_shapes.py`, so that it can be read at any action.
"""

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp

from .._shapes import PerAction, PerRow, States
from .._stored import stored
from ..actions._nodes import Nodes
from ..actions._space import Amounts
from ..anchor._anchor_reward import AnchorReward
from ..anchor._problem import AbstractStateFunction
from ..anchor._value import AnchoredValue
from ..law._transition import AbstractAhead, AbstractTransition
from ..learners._smooth_basis import SmoothBasis
from ..policy._policy import AbstractPolicy
from ..reward._reward import AbstractReward
from ._shapes import ActionShapes

PerShape = Float[np.ndarray, "row shape"]
Every = Float[np.ndarray, "action action_dimension"]


class AbstractAmountReward(AbstractReward):
    """A reward over amounts: at a grid, and of any action."""

    shapes: ActionShapes
    grid: Float[np.ndarray, "action action_dimension"]
    """The actions of tables, in the order of the fit's `actions`."""

    def __call__(self, state, value):
        bare, known = self.parts(state, value)
        return value.temperature * bare + known

    @abstractmethod
    def parts(self, state: States, value) -> tuple[PerAction, PerAction]:
        """What the temperature scales and what it leaves, at the grid."""

    @abstractmethod
    def parts_at(self, state: States, actions: Amounts) -> tuple[PerRow, PerRow]:
        """The same of an action in each state."""

    @abstractmethod
    def log_density(self, state: States, actions: Amounts) -> PerRow:
        """log pi of an action in each state, with respect to the space's measure."""

    def rewards_of(
        self, state: States, actions: Every, temperature: float
    ) -> Float[np.ndarray, "row action"]:
        """r of each of some actions in each state."""
        every = (np.repeat(action[None], len(state), axis=0) for action in actions)
        return np.stack([self.reward_at(state, at, temperature) for at in every], axis=1)

    def log_densities_of(
        self, state: States, actions: Every
    ) -> Float[np.ndarray, "row action"]:
        """log pi of each of some actions in each state."""
        every = (np.repeat(action[None], len(state), axis=0) for action in actions)
        return np.stack([self.log_density(state, at) for at in every], axis=1)

    @abstractmethod
    def errors_at(self, state: States, actions: Amounts, temperature: float) -> PerRow:
        """Standard errors of `reward_at`."""

    def reward_at(self, state: States, actions: Amounts, temperature: float) -> PerRow:
        """r of an action in each state."""
        bare, known = self.parts_at(state, actions)
        return temperature * bare + known


@stored
@dataclass(frozen=True, eq=False)
class AmountReward(AbstractAmountReward):
    """A reward over amounts, its continuation, and the covariance of its coefficients."""

    basis: SmoothBasis
    theta: Float[np.ndarray, " coefficient"]
    covariance: Float[np.ndarray, "coefficient coefficient"]
    ahead: AbstractAhead
    """E[V(s')|s,.] in units of the temperature, by shapes; E[G(s')|s,.] beside it unless g
    is zero."""
    shapes: ActionShapes
    grid: Float[np.ndarray, "action action_dimension"]
    """The actions of tables, in the order of the fit's `actions`."""
    anchor_reward: AnchorReward
    discount: float
    temperature: float
    """The one it was estimated at."""
    law: AbstractTransition | None = None
    """Where actions lead, for problems solved again."""

    def parts(self, state: States, value) -> tuple[PerAction, PerAction]:
        """What the temperature scales and what it leaves, at the grid.

        r = alpha r_pi + r_g, where r_g = G(s) - discount E[G(s')|s,a] and G is what the
        anchor earns if it is taken for ever; the policy does not change with alpha.
        """
        del value
        bare, known = self.parts_by_shape(state)
        at = self.at_grid.T
        return bare @ at, known @ at

    def parts_by_shape(self, state: States) -> tuple[PerShape, PerShape]:
        reward, ahead = self.by_shape(state)
        if self.anchor_reward.is_zero:
            return reward, np.zeros_like(reward)
        after = self._wide(ahead[:, :, 1])
        anchor = self.shapes(self.shapes.anchor_action[None])[0]
        forever = self.anchor_reward(state) + self.discount * (after @ anchor)
        known = forever[:, None] * self.shapes.constant - self.discount * after
        return reward - known / self.temperature, known

    @cached_property
    def at_grid(self) -> Float[np.ndarray, "action shape"]:
        return self.shapes(self.grid)

    @cached_property
    def nodes(self) -> tuple[Nodes, Float[np.ndarray, "node shape"]]:
        nodes = self.shapes.space.nodes()
        return nodes, self.shapes(nodes.action)

    def by_shape(self, state: States) -> tuple[PerShape, np.ndarray]:
        """The reward in units of the temperature by shapes, and its continuations."""
        ahead = self.look_ahead(state)
        known = self.anchor_reward(state) / self.temperature
        reward = known[:, None] * self.shapes.constant + self.basis(state, self.theta)
        return reward, ahead

    def look_ahead(self, state: States) -> np.ndarray:
        """The continuations; those of the last call are kept, since Q, V, the policy and
        the reward at one array of states ask for the same."""
        kept = self.__dict__.get("_last")
        # The array itself is kept too, so its identity cannot pass to another one.
        if kept is None or kept[0] is not state:
            kept = self.keep(state, self.ahead(state))
        return kept[1]

    def keep(self, state: States, ahead: np.ndarray) -> tuple[States, np.ndarray]:
        """Keep the continuations of these states until others are asked for."""
        object.__setattr__(self, "_last", (state, ahead))
        return state, ahead

    def q_by_shape(self, state: States) -> PerShape:
        """Q in units of the temperature, by shapes."""
        reward, ahead = self.by_shape(state)
        return reward + self.discount * self._wide(ahead[:, :, 0])

    def log_density(self, state: States, actions: Amounts) -> PerRow:
        """log pi of an action in each state, with respect to the space's measure."""
        q = self.q_by_shape(state)
        return np.einsum("rt,rt->r", q, self.shapes(actions)) - self._log_total(q)

    def log_densities(self, state: States) -> PerAction:
        """log pi at the grid."""
        return self.log_densities_of(state, self.grid)

    def rewards_of(self, state, actions, temperature):
        bare, known = self.parts_by_shape(state)
        return (temperature * bare + known) @ self.shapes(actions).T

    def log_densities_of(self, state, actions):
        q = self.q_by_shape(state)
        return q @ self.shapes(actions).T - self._log_total(q)[:, None]

    def parts_at(self, state, actions):
        at = self.shapes(actions)
        bare, known = self.parts_by_shape(state)
        return (bare * at).sum(axis=1), (known * at).sum(axis=1)

    def errors_at(self, state: States, actions: Amounts, temperature: float) -> PerRow:
        """Standard errors of `reward_at`; zero at the anchor."""
        slopes = self.basis.average(self.basis.columns(state), self.shapes(actions))
        variance = ((slopes @ self.covariance) * slopes).sum(axis=1)
        return temperature * np.sqrt(np.maximum(variance, 0.0))

    def _log_total(self, q: PerShape) -> PerRow:
        nodes, at = self.nodes
        return logsumexp(q @ at.T + np.log(nodes.weight), axis=1)

    def _wide(self, after: np.ndarray) -> PerShape:
        """By all shapes: those beyond the law's are zero."""
        missing = len(self.shapes) - after.shape[1]
        return np.pad(after, ((0, 0), (0, missing)))


@stored
@dataclass(frozen=True, eq=False)
class AmountPolicy(AbstractPolicy):
    """Log densities, at a grid of actions, of the choices that a reward explains."""

    reward: AmountReward

    def log_prob(self, state):
        return self.reward.log_densities(state)


@stored
@dataclass(frozen=True, eq=False)
class AmountContinuation(AbstractStateFunction):
    """The anchor's continuation: what g adds to it, or the rest per temperature."""

    reward: AmountReward
    known: bool

    def __call__(self, state, log_prob):
        del log_prob
        reward = self.reward
        shapes = reward.shapes(reward.shapes.anchor_action[None])[
            0, : reward.shapes.num_law
        ]
        ahead = np.einsum("rkc,k->rc", reward.look_ahead(state), shapes)
        if self.known:
            return ahead[:, 1]
        if reward.anchor_reward.is_zero:
            return ahead[:, 0]
        return ahead[:, 0] - ahead[:, 1] / reward.temperature


def implied_value(reward: AmountReward, anchor: int) -> AnchoredValue:
    """The policy and values that follow; `anchor` is its place in the grid."""
    zero = reward.anchor_reward.is_zero
    return AnchoredValue(
        AmountPolicy(reward),
        AmountContinuation(reward, known=False),
        None if zero else AmountContinuation(reward, known=True),
        reward.anchor_reward,
        anchor,
        discount=reward.discount,
        temperature=reward.temperature,
    )
