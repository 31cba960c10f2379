"""From the anchor's value to every action's: the paper's Q-Estimator."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from .._shapes import PerAction, PerRow, States
from .._stored import stored
from ..panel._panel import Panel
from ..policy._policy import AbstractPolicy
from ._anchor_reward import AnchorReward
from ._problem import AbstractStateFunction, AnchorProblem


class Evaluated(NamedTuple):
    """Everything the first two stages say about some states."""

    log_prob: PerAction
    q: PerAction
    value: PerRow
    anchor_reward: PerRow


class AbstractValue(ABC):
    """Q and V at any state, as a reward's regressions need them."""

    policy: AbstractPolicy
    discount: float

    @abstractmethod
    def __call__(self, state: States) -> Evaluated: ...


@stored
@dataclass(frozen=True, eq=False)
class AnchoredValue(AbstractValue):
    r"""Q and V, identified by the anchor.

    $$Q(s,a) = \alpha\log\pi(a|s) - \alpha\log\pi(a^A|s) + Q^A(s), \qquad
    V(s) = Q^A(s) - \alpha\log\pi(a^A|s),$$
    with $Q^A(s) = g(s) + \gamma\,h(s)$ and $h$ the anchor's continuation. No sum over
    actions is needed for V: $V = Q(\cdot,a) - \alpha\log\pi(a|\cdot)$ for *any* action.

    The anchor's equation is linear in what it is fed, so $h = \alpha h_\pi + h_g$: what
    comes from $-\log\pi(a^A|\cdot)$ and what comes from $g$ are kept apart, and another
    temperature needs no other fit.

    References
    ----------
    [geng2020pqr], Q-Estimator.
    """

    policy: AbstractPolicy
    policy_continuation: AbstractStateFunction
    known_continuation: AbstractStateFunction | None
    """None where g is zero."""
    anchor_reward: AnchorReward
    anchor: int
    discount: float
    temperature: float

    def __call__(self, state: States) -> Evaluated:
        log_prob = self.policy.log_prob(state)
        reward = self.anchor_reward(state)
        ahead = self.temperature * self.policy_continuation(state, log_prob)
        if self.known_continuation is not None:
            ahead = ahead + self.known_continuation(state, log_prob)
        # g and log pi enter as they are; only the continuation was estimated.
        anchor_q = reward + self.discount * ahead
        value = anchor_q - self.temperature * log_prob[:, self.anchor]
        q = self.temperature * log_prob + value[:, None]
        return Evaluated(log_prob, q, value, reward)

    @property
    def policy_part(self) -> "AnchoredValue":
        """The value at temperature one with g = 0."""
        nothing = AnchorReward(constant=0.0)
        return replace(
            self, temperature=1.0, anchor_reward=nothing, known_continuation=None
        )

    @property
    def known_part(self) -> "AnchoredValue | None":
        """What g adds to the value, at any temperature; None where g is zero."""
        if self.known_continuation is None:
            return None
        # At temperature zero the policy's part vanishes and g's is left.
        return replace(self, temperature=0.0)


def anchor_problem(
    panel: Panel,
    policy: AbstractPolicy,
    bonus: Callable[[np.ndarray], np.ndarray],
    anchor: int,
    *,
    discount: float,
) -> AnchorProblem:
    """The anchor's equation, fed by `bonus`, on the rows in which it was taken."""
    # Terminal rows are transitions too: they lead to a value of zero.
    rows = (panel.action == anchor) & panel.is_transition
    seen = panel.next_state[panel.has_next]
    return AnchorProblem(
        state=panel.state[rows],
        next_state=panel.next_state[rows],
        ends=panel.terminal[rows],
        weight=panel.weight[rows],
        log_prob=policy.log_prob,
        bonus=bonus,
        query_states=np.concatenate([panel.state, seen]),
        discount=discount,
        anchor_label=panel.actions[anchor],
    )


def with_known(value: AnchoredValue, state: np.ndarray, reward: np.ndarray) -> np.ndarray:
    """The third stage's rewards with g in the anchor's column.

    g is known, not estimated; what the third stage makes of it is a diagnostic.
    """
    known = reward.copy()
    known[:, value.anchor] = value.anchor_reward(state)
    return known
