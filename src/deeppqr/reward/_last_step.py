"""The last Newton step of joint estimation: a sum over rows, wherever they are."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._shapes import Codes, PerAction, PerRow, States
from ..anchor._anchor_reward import AnchorReward
from ..law._transition import AbstractTransition
from ._rounds import Fitted
from ._value_function import NearestStates, ValueFeatures
from ._value_problem import ValueProblem, pose_value_problem

# Numbers in E[phi(s')|s,a] of the rows that a thread takes at once: 60 MB in float32.
# Half or twice as many take as long.
STEP_NUMBERS = 15_000_000
MAX_ROWS = 20_000


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
    """The likelihood's gradient and information at an estimate, of some rows.

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
