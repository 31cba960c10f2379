"""The policy and value that a fitted reward implies, replacing the first stages'."""

from dataclasses import dataclass, replace

from scipy.special import log_softmax

from .._stored import stored
from ..anchor._problem import AbstractStateFunction
from ..anchor._value import AnchoredValue
from ..law._transition import AbstractAhead
from ..policy._policy import AbstractPolicy
from ._reward import AbstractReward


@stored
@dataclass(frozen=True, eq=False)
class ChoicePolicy(AbstractPolicy):
    """The choices that a reward and what follows explain: softmax{(r + discount h)/alpha}.

    In units of the temperature, as is everything the value is made of.
    """

    reward: AbstractReward
    ahead: AbstractAhead
    value: AnchoredValue
    """The value that the reward was estimated with."""

    def log_prob(self, state):
        known = self.value
        reward = self.reward(state, known) / known.temperature
        return log_softmax(reward + known.discount * self.ahead(state)[:, :, 0], axis=1)


@stored
@dataclass(frozen=True, eq=False)
class AnchorAhead(AbstractStateFunction):
    """The anchor's continuation under a law of the next state."""

    ahead: AbstractAhead
    anchor: int

    def __call__(self, state, log_prob):
        del log_prob
        return self.ahead(state)[:, self.anchor, 0]


@stored
@dataclass(frozen=True, eq=False)
class FixedFunction(AbstractStateFunction):
    """A function of the state that keeps the policy it was found with."""

    function: AbstractStateFunction
    policy: AbstractPolicy

    def __call__(self, state, log_prob):
        del log_prob
        return self.function(state, self.policy.log_prob(state))


@stored
@dataclass(frozen=True, eq=False)
class FixedReward(AbstractReward):
    """A reward that keeps the value it was found with."""

    reward: AbstractReward
    value: AnchoredValue

    def __call__(self, state, value):
        del value
        return self.reward(state, self.value)


def refine(
    value: AnchoredValue, reward: AbstractReward, ahead: AbstractAhead
) -> AnchoredValue:
    """The value at which policy, Q and reward agree: Q = r + discount h."""
    # The first stage's policy is replaced: two policies in one fit would give a Q, V and r
    # that do not satisfy the Bellman equation together.
    return replace(
        value,
        policy=ChoicePolicy(reward, ahead, value),
        policy_continuation=AnchorAhead(ahead, value.anchor),
        known_continuation=None,
    )


def carry_over(value: AnchoredValue, refined: AnchoredValue) -> AnchoredValue:
    """The whole value with its policy's part refined and what g adds left as it was."""
    known = value.known_continuation
    return replace(
        value,
        policy=refined.policy,
        policy_continuation=refined.policy_continuation,
        known_continuation=known and FixedFunction(known, value.policy),
    )
