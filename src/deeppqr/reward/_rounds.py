r"""Rounds of joint estimation: a Newton step in the reward, then its value again.

Each round maximises the penalised likelihood
$$\sum_i \log\mathrm{softmax}\{Q_\theta(s_i,\cdot)\}_{a_i}
- \tfrac12\theta'\Lambda\theta, \qquad Q_\theta = r_\theta + \gamma E[V_\theta(s')|s,a],$$
with $V_\theta$ the value of the agent who maximises $r_\theta$. A step is taken only as far
as this rises: the rounds cannot diverge, and the last one is the best.
"""

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import log_softmax

from .._errors import NotConvergedWarning
from .._shapes import Codes, PerAction, PerRow, States
from ..anchor._anchor_reward import AnchorReward
from ..law._transition import AbstractTransition
from ..learners._penalty_error import penalty_error
from ..learners._ridge_logit import best_penalty, penalty_diagonal
from ._value_function import NearestStates, ValueFeatures
from ._value_problem import ValueProblem, pose_value_problem

# Expected gain of a step at which rounds end, in nats for each effective coefficient. They
# are then within 6 % of a standard error of the maximum, root mean square.
ENOUGH = 2e-3
# The same for the convex step at a policy, where rounds start.
ENOUGH_TO_START = 2e-2
# The expected gain of all for a user's own features, which are few.
ENOUGH_GIVEN = 1e-7
# Expected gain of one step, in nats, that is worth a warning: one standard error of one
# coefficient is half a nat.
WORTH_A_WARNING = 0.5
# Largest root mean squared change of log-odds in one step.
MAX_CHANGE = 1.5
MIN_LENGTH = 0.02
# Steps at a policy, and the part of one below which it is taken again under weak
# penalties, down to the shortest. Under a reward of zero an exit is worth nothing and all
# else the bonus of many choices: its probability may begin at 1e-7, where the information
# is as small and Newton's step 10,000 times too long.
START_STEPS, USUAL_STEP, SHORTEST = 40, 1 / 16, 1e-9
EVIDENCE_ROUNDS = 40
POLICY_ROUNDS = 2
# Numbers in E[phi(s')|s,a] of the rows that a thread takes at once: 60 MB in float32.
# Half or twice as many take as long.
STEP_NUMBERS = 15_000_000
MAX_ROWS = 20_000


@dataclass(eq=False)
class Fitted:
    """Coefficients, their penalties, and the likelihood's derivatives there."""

    basis: Any
    theta: np.ndarray
    penalty: np.ndarray
    effective: np.ndarray
    information: np.ndarray
    gradient: np.ndarray
    successor: np.ndarray
    rounds: int
    converged: bool

    @property
    def diagonal(self) -> np.ndarray:
        return penalty_diagonal(self.penalty, self.basis.group)

    @property
    def penalty_error(self) -> np.ndarray:
        """What it adds to the coefficients' covariance that penalties were estimated."""
        right = self.information @ self.theta + self.gradient
        return penalty_error(self.information, right, self.penalty, self.basis.group)

    def moved_to(self, theta: np.ndarray) -> "Fitted":
        """Other coefficients on the same quadratic form of the likelihood."""
        gradient = self.gradient + self.information @ (self.theta - theta)
        return replace(self, theta=theta, gradient=gradient)

    @property
    def left_to_gain(self) -> float:
        """Nats that one more step promises."""
        slope = self.gradient - self.diagonal * self.theta
        system = self.information + np.diag(self.diagonal)
        return 0.5 * float(slope @ np.linalg.lstsq(system, slope, rcond=1e-12)[0])


def warn_unless_converged(fit: Fitted, rows: int) -> None:
    """Warn of rounds that stopped where one more would move rewards beyond their errors."""
    if fit.converged or fit.left_to_gain < WORTH_A_WARNING:
        return
    warnings.warn(
        f"The reward's rounds stopped short of the likelihood's maximum: after "
        f"{fit.rounds} rounds on {rows:,} decisions one more promises "
        f"{fit.left_to_gain:.3g} nats. Rewards may still move by more than their errors. "
        "Usual reasons are actions that hardly occur, columns with a few extreme values, "
        "and a discount next to one: see `fit.diagnostics`, pool such actions, cut or "
        "transform such columns, and fit again.",
        NotConvergedWarning,
        stacklevel=5,
    )


def num_groups(basis: Any) -> int:
    return int(basis.group.max(initial=-1)) + 1


def start_from_policy(problem: ValueProblem, basis: Any, log_prob: PerAction) -> np.ndarray:
    """Coefficients by one convex step at a given policy; sets `q`.

    V is evaluated under the policy, not under the reward: the first round of nested
    pseudo-likelihood. It needs no reward to begin with.
    """
    columns = problem.columns(basis)
    problem.q = log_prob
    prob = np.exp(log_prob)
    problem.factor(prob)
    gain = (prob * (problem.default - log_prob)).sum(axis=1)
    weight = problem.solve(gain[problem.valued, None])[:, 0]
    successor = problem.successor_weights(basis, columns)
    rows, discount = np.arange(len(problem.action)), problem.discount

    def along(theta: np.ndarray) -> PerAction:
        after = problem.project(successor @ theta)
        return basis.combine(columns, theta) + discount * after

    def fit(q: PerAction) -> float:
        return float(problem.weight @ log_softmax(q, axis=1)[rows, problem.action])

    def moved(theta, q, gradient, information, penalty, shortest):
        """Coefficients and Q after a step and the gain hoped for; None if all are worse."""
        diagonal = penalty_diagonal(penalty, basis.group)
        right = information @ theta + gradient
        step = np.linalg.solve(information + np.diag(diagonal), right) - theta
        slope = float(step @ (gradient - diagonal * theta))
        change, now, length = along(step), fit(q) - 0.5 * diagonal @ theta**2, 1.0
        while length >= shortest:
            there, q_there = theta + length * step, q + length * change
            gained = fit(q_there) - 0.5 * diagonal @ there**2 - now
            if gained >= 1e-4 * length * slope:
                return there, q_there, slope
            length /= 2
        return None

    theta, weak = np.zeros(len(basis)), np.ones(num_groups(basis))
    q, penalty = problem.default + discount * problem.project(weight), weak
    for _ in range(START_STEPS):
        problem.q = q
        derivatives = problem.derivatives(basis, columns, successor)
        right = derivatives[1] @ theta + derivatives[0]
        penalty, effective = best_penalty(
            derivatives[1], right, basis.group, penalty, EVIDENCE_ROUNDS
        )
        found = moved(theta, q, *derivatives, penalty, USUAL_STEP)
        if found is None:
            # Far from the maximum the likelihood is no parabola, and neither the step's
            # length nor the evidence for penalties means anything.
            penalty, found = weak, moved(theta, q, *derivatives, weak, SHORTEST)
            if found is None:
                break
            theta, q, _ = found
            continue
        theta, q, slope = found
        if slope < max(0.5, ENOUGH_TO_START * effective.sum()):
            break
    problem.q = q
    return theta


def maximise(
    problem: Any,
    basis: Any,
    theta: np.ndarray,
    *,
    max_rounds: int,
    penalty: np.ndarray | None = None,
) -> Fitted:
    """Rounds from coefficients and from the policy in `problem.q`."""
    columns = problem.columns(basis)
    reward = lambda at: problem.default + basis.combine(columns, at)
    penalty = np.ones(num_groups(basis)) if penalty is None else penalty
    problem.evaluate(reward(theta), rounds=6)
    total, turn, converged = float(problem.weight.sum()), 0, False
    penalised = num_groups(basis) > 0
    while True:
        successor = problem.successor_weights(basis, columns)
        gradient, information = problem.derivatives(basis, columns, successor)
        right = information @ theta + gradient
        penalty, effective = best_penalty(
            information, right, basis.group, penalty, EVIDENCE_ROUNDS
        )
        diagonal = penalty_diagonal(penalty, basis.group)
        step = np.linalg.solve(information + np.diag(diagonal), right) - theta
        slope = float(step @ (gradient - diagonal * theta))
        enough = ENOUGH * max(1.0, effective.sum()) if penalised else ENOUGH_GIVEN
        converged = bool(slope < enough * max(1.0, total / 50_000))
        if converged or turn == max_rounds:
            break
        size = np.sqrt(max(step @ information @ step, 0.0) / total)
        length = min(1.0, MAX_CHANGE / max(size, 1e-12))
        explained = problem.log_likelihood()
        now = explained - 0.5 * diagonal @ theta**2
        # Penalties were just chosen anew. Where one has become large, obeying it gains more
        # than any likelihood could lose: that may fall by no more than a nat for each
        # coefficient, which is what those that are not needed had gained.
        least = explained - len(theta)
        before = problem.q, problem.left, problem.value_weight
        light = problem.discount * (successor @ step)
        change = basis.combine(columns, step) + problem.project(light)
        accepted, shortest = False, None
        while length > MIN_LENGTH and not accepted:
            moved = theta + length * step
            problem.q, problem.left, problem.value_weight = before
            # Where the step should lead: the value's error is then of second order.
            problem.q = problem.q + length * change
            problem.evaluate(reward(moved), rounds=POLICY_ROUNDS)
            explained = problem.log_likelihood()
            gained = explained - 0.5 * diagonal @ moved**2 - now
            if gained > 1e-4 * length * slope:
                shortest = moved, problem.q, problem.left, problem.value_weight
                accepted = explained > least
            length /= 2
        if not accepted and shortest is not None:
            # The penalties cannot be obeyed for so little: the shortest step towards them,
            # and the next round asks for their evidence again.
            moved, problem.q, problem.left, problem.value_weight = shortest
            accepted = True
        if not accepted:
            problem.q, problem.left, problem.value_weight = before
            # What is left to gain is below the accuracy of V.
            converged = bool(slope < 1.0 + 1e-4 * total)
            break
        theta, turn = moved, turn + 1
    return Fitted(
        basis, theta, penalty, effective, information, gradient, successor, turn, converged
    )


def started(problem: ValueProblem, basis: Any, log_prob: PerAction) -> Fitted:
    """Rounds from a policy."""
    theta = start_from_policy(problem, basis, log_prob)
    return maximise(problem, basis, theta, max_rounds=6)


def penalised_likelihood(problem: ValueProblem, fit: Fitted) -> float:
    """The penalised log-likelihood of the problem's policy."""
    return problem.log_likelihood() - 0.5 * float(fit.diagonal @ fit.theta**2)


@dataclass(frozen=True, eq=False)
class Agent:
    """What is known of the decision problem before its reward is."""

    law: AbstractTransition
    anchor_reward: AnchorReward
    anchor: int
    num_actions: int
    discount: float
    temperature: float
    given_features: bool
    anchor_ends: bool

    def default_reward(self, state: States) -> PerAction:
        """What estimates are shrunk towards, in units of the temperature."""
        known = self.anchor_reward(state) / self.temperature
        found = np.repeat(known[:, None], self.num_actions, axis=1)
        if self.given_features:  # a user's features are all there is
            found = np.zeros_like(found)
        elif self.anchor_ends and not self.anchor_reward.is_zero:
            # One payment at the end is worth a share of it in every period before.
            column = lambda at: self.anchor_reward(at)[:, None] / self.temperature
            found = found - self.discount * self.law.ahead(column)(state)[:, :, 0]
        found[:, self.anchor] = known
        return found

    def pose(
        self,
        state: States,
        action: Codes,
        weight: PerRow,
        features: ValueFeatures,
        neighbours: NearestStates | None = None,
    ) -> ValueProblem:
        """The value's problem at some decisions."""
        return pose_value_problem(
            state,
            action,
            weight,
            self.law,
            features,
            self.default_reward(state),
            self.discount,
            neighbours=neighbours,
        )


@dataclass(frozen=True, eq=False)
class LastStep:
    """The gradient and information of the last Newton step, a sum over any rows.

    It holds what this takes and not the estimate's own rows, so that it can be sent to
    where others are.
    """

    agent: Agent
    features: ValueFeatures
    neighbours: NearestStates | None
    value: tuple[np.ndarray, np.ndarray]
    """Weights of the features, and what they leave at the neighbours."""
    basis: Any
    theta: np.ndarray
    successor: np.ndarray

    @classmethod
    def at(cls, agent: Agent, problem: ValueProblem, fit: Fitted) -> "LastStep":
        return cls(
            agent,
            problem.features,
            problem.neighbours,
            (problem.value_weight, problem.left),
            fit.basis,
            fit.theta,
            fit.successor,
        )

    @property
    def rows_at_once(self) -> int:
        each = self.agent.num_actions * self.features.width
        return int(np.clip(STEP_NUMBERS // each, 256, MAX_ROWS))

    def __call__(self, state: States, action: Codes, weight: PerRow):
        given = state, action, weight, self.features, self.neighbours
        block, columns = self.agent.pose(*given), self.basis.columns(state)
        reward = block.default + self.basis.combine(columns, self.theta)
        block.q = reward + self.agent.discount * block.continuation(*self.value)
        return block.derivatives(self.basis, columns, self.successor)
