r"""Correction of a simple reward: PQR applied to the policy's departure from it.

PQR is linear in log pi. Let $r_J$ be a reward, $Q_J = r_J + \gamma E[V_1(s')|s,a]$ with
$V_1$ about the value of following $\pi$, $\pi_J \propto e^{Q_J}$ and $V_J$ its value. The
reward behind $\pi$ is $r_J + c$, where $c$ is what PQR makes of the departure
$\delta = \log\pi - \log\pi_J$: with $U = W + V_J - V_1$,
$$W(s) = -\delta(a^A|s) + \gamma E[U(s')|s,a^A], \qquad
c(s,a) = \delta(a|s) + W(s) - \gamma E[U(s')|s,a],$$
at temperature one, and $V = V_J + W$. This holds for any $r_J$. The better $r_J$ is, the
smaller is $U$, and the less noise the regressions of $U$ add.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import jax.random as jr
import numpy as np
from jaxtyping import PRNGKeyArray

from .._shapes import PerRow, States
from .._stored import stored
from ..anchor._auto import Auto as AnchorAuto
from ..anchor._problem import AbstractStateFunction, LogProbBonus
from ..anchor._value import AbstractValue, AnchoredValue, Evaluated, anchor_problem
from ..panel._panel import Panel
from ..policy._policy import AbstractPolicy
from ._refined import FixedFunction
from ._regression import RE
from ._reward import AbstractReward, RewardFit


@stored
@dataclass(frozen=True, eq=False)
class Departure(AbstractPolicy):
    """log pi - log pi_J. It is not a policy, but PQR is linear in log pi and applies."""

    policy: AbstractPolicy
    simple: AbstractPolicy

    def log_prob(self, state):
        return self.policy.log_prob(state) - self.simple.log_prob(state)


@stored
@dataclass(frozen=True, eq=False)
class ValueGap:
    """V_J - V_1: how far the value of the simple reward's policy is from the value that
    its continuation was found with."""

    value: AnchoredValue
    one_step: Callable[[np.ndarray], np.ndarray]

    def __call__(self, state: States) -> PerRow:
        return self.value(state).value - self.one_step(state)[:, 0]


@stored
@dataclass(frozen=True, eq=False)
class DepartureBonus:
    """The bonus in the anchor's equation of a departure: -delta(anchor) plus the gap."""

    surprise: LogProbBonus
    gap: ValueGap

    def __call__(self, state):
        return self.surprise(state) + self.gap(state)


@stored
@dataclass(frozen=True, eq=False)
class DepartureValue(AbstractValue):
    """The departure's Q and W, and the U whose expectation enters them."""

    policy: Departure
    continuation: AbstractStateFunction
    gap: ValueGap
    anchor: int
    discount: float

    def __call__(self, state: States) -> Evaluated:
        departure = self.policy.log_prob(state)
        ahead = self.discount * self.continuation(state, departure)
        # As in `AnchoredValue`, at temperature one with g = 0 and delta in place of log pi.
        added = ahead - departure[:, self.anchor]
        zero = np.zeros(len(state))
        return Evaluated(
            departure, departure + added[:, None], added + self.gap(state), zero
        )


@stored
@dataclass(frozen=True, eq=False)
class CorrectedReward(AbstractReward):
    """A simple reward and what the departure from its policy adds."""

    simple: AbstractReward
    correction: AbstractReward
    departure: DepartureValue

    def __call__(self, state, value):
        # RE asks for Q and V only, which a departure has.
        added = self.correction(state, self.departure)  # pyright: ignore
        return self.simple(state, value) + value.temperature * added


@stored
@dataclass(frozen=True, eq=False)
class Sum(AbstractStateFunction):
    """Two functions of the state, added."""

    first: AbstractStateFunction
    second: AbstractStateFunction

    def __call__(self, state, log_prob):
        return self.first(state, log_prob) + self.second(state, log_prob)


def correct(
    panel: Panel, value: AnchoredValue, simple: RewardFit, *, key: PRNGKeyArray
) -> RewardFit:
    """The reward that explains the policy, starting from one that nearly does.

    `value` is that of the first two stages at temperature one with g = 0; `simple` was
    fitted with it.
    """
    assert simple.value is not None
    assert simple.one_step is not None
    key_anchor, key_reward = jr.split(key)
    departure = Departure(value.policy, simple.value.policy)
    gap = ValueGap(simple.value, simple.one_step)
    problem = anchor_problem(
        panel,
        departure,
        DepartureBonus(LogProbBonus(departure, value.anchor), gap),
        value.anchor,
        discount=value.discount,
    )
    # The data choose the solver again: the departure may need another than log pi does.
    added = AnchorAuto().solve(problem, key=key_anchor).continuation
    left = DepartureValue(departure, added, gap, value.anchor, value.discount)
    extra = RE().fit(panel, left, key=key_reward)  # pyright: ignore
    whole = replace(
        value,
        policy_continuation=Sum(
            simple.value.policy_continuation, FixedFunction(added, departure)
        ),
    )
    return RewardFit(CorrectedReward(simple.reward, extra.reward, left), extra.note, whole)
