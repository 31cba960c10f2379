r"""Policy evaluation: V and the continuation of a reward, which are linear in it.

$$V(s) = \sum_a \pi(a|s)\{u(s,a) + \gamma\,E[V(s')|s,a]\}.$$

V is projected on features of the state by one linear solve (LSTD under a learned law of
the next state). Then the Bellman equation is applied to the projection twice. Each step
discounts and averages the projection's error, and uses u and the policy of the current
step without approximation. As V is linear in u, many rewards are evaluated at once, one
per column.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from .._shapes import States
from .._stored import stored
from ..law._transition import AbstractAhead, AbstractTransition
from ..learners._basis import AbstractFeatures, penalty
from ..learners._chunks import in_chunks
from ..policy._policy import AbstractPolicy

# In pseudo-rows. The equation is solved under a learned law, without the noise of single
# next states, so the penalty only keeps the system regular. At 2 rewards move by 0.006 of
# their standard deviation on the paper world, and by 0.0005 on Rust's group 4.
RIDGE = 1.0

Gains = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""States and log-probabilities to what a step earns under the policy, (row, column)."""


@stored
@dataclass(frozen=True, eq=False)
class Projected:
    """V as a linear function of features."""

    features: AbstractFeatures
    policy: AbstractPolicy
    weight: Float[np.ndarray, "feature column"]

    def __call__(self, state: States) -> Float[np.ndarray, "row column"]:
        return self.features(state, self.policy.log_prob(state)) @ self.weight


@stored
@dataclass(frozen=True, eq=False)
class OneStep:
    """V as what this step earns and the value of the next."""

    gains: Gains
    policy: AbstractPolicy
    ahead: AbstractAhead
    discount: float

    def __call__(self, state: States) -> Float[np.ndarray, "row column"]:
        log_prob = self.policy.log_prob(state)
        after = np.einsum("ra,rak->rk", np.exp(log_prob), self.ahead(state))
        return self.gains(state, log_prob) + self.discount * after


@dataclass(frozen=True, eq=False)
class PolicyEvaluation:
    """A policy, where its actions lead, and where its value is to hold."""

    policy: AbstractPolicy
    law: AbstractTransition
    state: States
    """States at which the projected equation is solved."""
    discount: float

    def project(self, gains: Gains, features: AbstractFeatures) -> Projected:
        """V of each column of gains, by the projected equation."""
        # The law's expectation of all features at once; then averaged over the policy.
        columns = lambda state: features(state, self.policy.log_prob(state))
        ahead = self.law.ahead(columns)

        def rows(state: np.ndarray) -> np.ndarray:
            log_prob = self.policy.log_prob(state)
            here = features(state, log_prob)
            after = np.einsum("ra,rak->rk", np.exp(log_prob), ahead(state))
            return np.concatenate([here, after, gains(state, log_prob)], axis=1)

        found = in_chunks(rows, self.state)
        width = columns(self.state[:1]).shape[1]
        here, after, earned = np.split(found, [width, 2 * width], axis=1)
        system = here.T @ (here - self.discount * after) + penalty(width, RIDGE)
        # lstsq and not solve: hidden units of networks may be collinear.
        weight = np.linalg.lstsq(system, here.T @ earned, rcond=1e-13)[0]
        return Projected(features, self.policy, weight)

    def step(self, gains: Gains, value: Projected) -> OneStep:
        """V by one step of the equation from a projected value."""
        return OneStep(gains, self.policy, self.law.ahead(value), self.discount)
