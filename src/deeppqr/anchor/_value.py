"""From the anchor's value to every action's: the paper's Q-Estimator."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from ..panel import Panel
from ..policy import AbstractPolicy
from ._anchor_reward import AnchorReward
from ._problem import AbstractStateFunction, AnchorProblem


class Evaluated(NamedTuple):
    """Everything the first two stages say about some states."""

    log_prob: Float[np.ndarray, "row action"]
    q: Float[np.ndarray, "row action"]
    value: Float[np.ndarray, " row"]
    anchor_reward: Float[np.ndarray, " row"]


@dataclass(frozen=True, eq=False)
class AnchoredValue:
    r"""Q and V, identified by the anchor.

    $$Q(s,a) = \alpha\log\pi(a|s) - \alpha\log\pi(a^A|s) + Q^A(s), \qquad
    V(s) = Q^A(s) - \alpha\log\pi(a^A|s),$$
    with $Q^A(s) = g(s) + \gamma\,h(s)$ and $h$ the anchor's continuation. No sum over
    actions is needed for V: $V = Q(\cdot,a) - \alpha\log\pi(a|\cdot)$ for *any* action.

    References
    ----------
    [geng2020pqr], Q-Estimator.
    """

    policy: AbstractPolicy
    continuation: AbstractStateFunction
    anchor_reward: AnchorReward
    anchor: int
    discount: float
    temperature: float

    def __call__(self, state: Float[np.ndarray, "row state_feature"]) -> Evaluated:
        log_prob = self.policy.log_prob(state)
        reward = self.anchor_reward(state)
        anchor_q = reward + self.discount * self.continuation(state, log_prob)
        value = anchor_q - self.temperature * log_prob[:, self.anchor]
        q = self.temperature * log_prob + value[:, None]
        return Evaluated(log_prob, q, value, reward)


def anchor_problem(
    panel: Panel,
    policy: AbstractPolicy,
    anchor_reward: AnchorReward,
    anchor: int,
    *,
    discount: float,
    temperature: float,
) -> AnchorProblem:
    """The anchor's equation on the rows of a panel in which it was taken."""
    rows = (panel.action == anchor) & panel.is_transition
    seen = panel.next_state[panel.has_next]
    return AnchorProblem(
        state=panel.state[rows],
        next_state=panel.next_state[rows],
        ends=panel.terminal[rows],
        weight=panel.weight[rows],
        log_prob=policy.log_prob,
        bonus=lambda state: (
            anchor_reward(state) - temperature * policy.log_prob(state)[:, anchor]
        ),
        reach=np.concatenate([panel.state, seen]),
        discount=discount,
        anchor_label=panel.actions[anchor],
    )
