r"""A reward with the value that follows from it, as functions of the state.

$r = r_0 + \alpha\,\psi'\theta$, where $r_0$ is what estimates are shrunk towards: the
anchor's reward g(s), or, where the anchor ends the process,
$g(s) - \gamma E[g(s')|s,a]$, the reward that makes going on for ever worth as much;
zero where the user gave the features.
"""

from dataclasses import dataclass
from threading import get_ident

import numpy as np
from jaxtyping import Float
from scipy.special import log_softmax

from .._shapes import Codes, PerAction, States
from .._stored import stored
from ..anchor._anchor_reward import AnchorReward
from ..anchor._problem import AbstractStateFunction
from ..anchor._value import AnchoredValue
from ..law._transition import AbstractAhead, AbstractTransition
from ..learners._smooth_basis import SmoothBasis
from ..policy._policy import AbstractPolicy
from ._given_basis import GivenBasis
from ._reward import AbstractReward


@stored
@dataclass(frozen=True, eq=False)
class JointReward(AbstractReward):
    """A reward, its continuation, and the covariance of its coefficients."""

    basis: SmoothBasis | GivenBasis
    theta: Float[np.ndarray, " coefficient"]
    covariance: Float[np.ndarray, "coefficient coefficient"]
    ahead: AbstractAhead
    """E[V(s')|s,a] in units of the temperature; E[G(s')|s,a] beside it unless g is zero."""
    anchor_reward: AnchorReward
    anchor: int
    anchor_ends: bool
    discount: float
    temperature: float
    """The one it was estimated at."""
    law: AbstractTransition | None = None
    """Where actions lead, for problems solved again."""
    posterior: Float[np.ndarray, "coefficient coefficient"] | None = None
    """The part of the covariance that is the choices'; the rest is the law's."""

    def __call__(self, state, value):
        if value.temperature == self.temperature:
            return self.reward_at(state)
        bare, known = self.parts(state, value)
        return value.temperature * bare + known

    def at_fitted(self, state: States) -> tuple[PerAction, np.ndarray]:
        """The reward at the temperature of the fit, and its continuations."""
        return self.reward_at(state), self.look_ahead(state)

    def reward_at(self, state: States) -> PerAction:
        """The reward at the temperature of the fit."""
        known = self.anchor_reward(state)
        default = np.repeat(known[:, None], self.basis.num_actions, axis=1)
        if isinstance(self.basis, GivenBasis):  # a user's features are all there is
            default = np.zeros_like(default)
        elif self.anchor_ends and not self.anchor_reward.is_zero:
            # Only here: continuations take a hundred times as long as the rest.
            default = default - self.discount * self.look_ahead(state)[:, :, 1]
        default[:, self.anchor] = known
        return default + self.temperature * self.basis(state, self.theta)

    def look_ahead(self, state: States) -> np.ndarray:
        """The continuations; those of the last call are kept, since Q, V, the policy and
        the reward at one array of states ask for the same."""
        kept = self.__dict__.get("_last", {}).get(get_ident())
        # The array itself is kept too, so its identity cannot pass to another one.
        if kept is None or kept[0] is not state:
            kept = self.keep(state, self.ahead(state))
        return kept[1]

    def keep(self, state: States, ahead: np.ndarray) -> tuple[States, np.ndarray]:
        """Keep the continuations of these states until others are asked for."""
        # For each thread: blocks of rows are worked on side by side.
        kept = self.__dict__.get("_last", {}) | {get_ident(): (state, ahead)}
        object.__setattr__(self, "_last", kept)
        return state, ahead

    def parts(self, state: States, value) -> tuple[PerAction, PerAction]:
        """What the temperature scales and what it leaves: r = alpha r_pi + r_g.

        r_g = G(s) - discount E[G(s')|s,a], with G what the anchor earns if it is taken for
        ever; the policy does not change with the temperature.
        """
        del value
        reward = self.reward_at(state)
        if self.anchor_reward.is_zero:
            return reward / self.temperature, np.zeros_like(reward)
        after = self.look_ahead(state)[:, :, 1]
        forever = self.anchor_reward(state) + self.discount * after[:, self.anchor]
        known = forever[:, None] - self.discount * after
        return (reward - known) / self.temperature, known

    def slopes(self, state: States, action: Codes) -> Float[np.ndarray, "row coefficient"]:
        """How the reward of each row's action changes with the coefficients, at
        temperature one."""
        columns = self.basis.columns(state)
        found = np.zeros((len(state), len(self.theta)))
        for one in np.unique(action):
            rows = np.flatnonzero(action == one)
            values, used = self.basis.slopes(columns[rows], int(one))
            found[np.ix_(rows, used)] = values
        return found


@stored
@dataclass(frozen=True, eq=False)
class JointPolicy(AbstractPolicy):
    """The choices that a reward and what follows explain: softmax(r/alpha + discount h)."""

    reward: JointReward

    def log_prob(self, state):
        reward, ahead = self.reward.at_fitted(state)
        explained = reward / self.reward.temperature + self.reward.discount * ahead[:, :, 0]
        return log_softmax(explained, axis=1)


@stored
@dataclass(frozen=True, eq=False)
class AnchorContinuation(AbstractStateFunction):
    """The anchor's continuation: what g adds to it, or the rest per temperature."""

    reward: JointReward
    known: bool

    def __call__(self, state, log_prob):
        del log_prob
        ahead = self.reward.look_ahead(state)[:, self.reward.anchor]
        if self.known:
            return ahead[:, 1]
        if self.reward.anchor_reward.is_zero:
            return ahead[:, 0]
        return ahead[:, 0] - ahead[:, 1] / self.reward.temperature


def implied_value(reward: JointReward) -> AnchoredValue:
    """The policy and values that follow from a reward."""
    zero = reward.anchor_reward.is_zero
    return AnchoredValue(
        JointPolicy(reward),
        AnchorContinuation(reward, known=False),
        None if zero else AnchorContinuation(reward, known=True),
        reward.anchor_reward,
        reward.anchor,
        discount=reward.discount,
        temperature=reward.temperature,
    )
