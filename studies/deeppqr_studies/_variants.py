"""The estimator with one part replaced by the truth, by name.

A variant is a method (see `_methods`) whose estimate has a policy and a Q. From these the
budget reads V and the continuation, so that all variants are judged alike.
"""

from dataclasses import dataclass, replace
from typing import Any

import jax.random as jr
import numpy as np
from jaxtyping import Float
from scipy.special import log_softmax

from deeppqr.anchor import (
    AbstractAnchorSolver,
    AbstractStateFunction,
    AnchorProblem,
    AnchorSolution,
    Surprise,
)
from deeppqr.panel import Panel, unit_folds
from deeppqr.policy import Given
from deeppqr.reward import FOLDS, fit_offset_logit
from ._methods import Estimate, Method, default, estimate_pqr, oracle
from ._problem import anchoring


def true_policy(world: Any, panel: Panel, seed: int) -> Estimate:
    """The policy is the true one; value and continuation are estimated with it."""
    found = estimate_pqr(world, panel, seed, policy=Given(world.log_policy))
    return replace(found, given="the true policy")


def true_value(world: Any, panel: Panel, seed: int) -> Estimate:
    """V is the true one; law and reward are estimated, the latter by likelihood."""
    policy, value = Given(world.log_policy), TrueAnchorValue(world, panel)
    found = estimate_pqr(
        world, panel, seed, policy=policy, anchor_value=value, reward="likelihood"
    )
    return replace(found, given="the true policy and V")


def true_continuation(world: Any, panel: Panel, seed: int) -> Estimate:
    """What follows each action is the true one; the reward is estimated by likelihood."""
    known, encoding = anchoring(world), panel.encoding
    anchor = panel.action_index(known["anchor"])

    def ahead(states: np.ndarray) -> np.ndarray:
        return world.q(states) - world.reward(states)

    def offset(state: np.ndarray) -> np.ndarray:
        scores = ahead(encoding.decode(state))
        scores[:, anchor] += known["anchor_reward"]
        return (scores - scores[:, [anchor]]) / world.temperature

    fold = unit_folds(panel, FOLDS, rng=np.random.default_rng(seed))
    found, _, note = fit_offset_logit(panel, offset, fold, anchor, key=jr.key(seed))

    def reward(states: np.ndarray) -> np.ndarray:
        features = found.basis(encoding.encode_any(states))
        rewards = world.temperature * (features @ found.theta)
        rewards[:, anchor] = known["anchor_reward"]
        return rewards

    def q(states: np.ndarray) -> np.ndarray:
        return reward(states) + ahead(states)

    def log_policy(states: np.ndarray) -> np.ndarray:
        return log_softmax(q(states) / world.temperature, axis=1)

    return Estimate(reward, q, log_policy, given="the true continuation", note=note)


VARIANTS: dict[str, Method] = {
    "estimated": default,
    "true policy": true_policy,
    "true value": true_value,
    "true continuation": true_continuation,
    "true reward class": oracle,
}
"""In the order of the report."""


@dataclass(frozen=True, eq=False)
class TrueAnchorValue(AbstractAnchorSolver):
    r"""The anchor's continuation, exact.

    $$h(s) = E[V(s')|s,a^A] = \{Q(s,a^A) - g\} / \gamma.$$

    A constant $g$ contributes $g/(1-\gamma)$ to it, the policy the rest.
    """

    world: Any
    panel: Panel

    def solve(self, problem: AnchorProblem, *, key) -> AnchorSolution:
        del key
        constant = anchoring(self.world)["anchor_reward"] / (1 - problem.discount)
        ahead: AbstractStateFunction = ConstantAhead(constant)
        if isinstance(problem.bonus, Surprise):
            ahead = TrueAhead(self.world, self.panel, constant)
        return AnchorSolution(ahead, residual=0.0, condition=None, note="the true value")


@dataclass(frozen=True, eq=False)
class TrueAhead(AbstractStateFunction):
    """The policy's part of what follows the anchor, at temperature one."""

    world: Any
    panel: Panel
    constant: float

    def __call__(self, state, log_prob) -> Float[np.ndarray, " row"]:
        del log_prob
        known = anchoring(self.world)
        anchor = self.panel.action_index(known["anchor"])
        q = self.world.q(self.panel.encoding.decode(state))[:, anchor]
        ahead = (q - known["anchor_reward"]) / self.world.discount
        return (ahead - self.constant) / self.world.temperature


@dataclass(frozen=True)
class ConstantAhead(AbstractStateFunction):
    """The same in every state."""

    value: float

    def __call__(self, state, log_prob) -> Float[np.ndarray, " row"]:
        del log_prob
        return np.full(len(state), self.value)
