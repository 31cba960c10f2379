"""Expectations one step ahead by ridge regression on features of the state."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from .._stored import stored
from ..learners._basis import penalty
from ..learners._chunks import in_chunks
from ..learners._ridges import Ridges
from ._transition import AbstractAhead, AbstractTransition, StateFunction, Steps

# In pseudo-rows: as much as a hundred rows at zero. At 200 the paper world (p = 2, 2,000
# decisions) chooses "moves and regression" over "moves", and rewards move by 0.28 of their
# standard deviation (another seed moves them by 0.32); the firms' move by 3e-4.
RIDGE = 100.0
NUM_RIDGES = 150


@stored
@dataclass(frozen=True, eq=False)
class Regression(AbstractTransition):
    """One ridge regression per action of f(s'), or of another law's residuals."""

    steps: Steps
    features: Ridges
    base: AbstractTransition | None = None
    """A law whose errors are regressed; without one, f(s') itself."""

    @classmethod
    def learn(cls, steps: Steps, *, base=None) -> "Regression":
        # One ridge function for every five rows at most.
        number = min(NUM_RIDGES, len(steps.state) // 5)
        return cls(steps, Ridges.of(steps.state, number), base)

    def kept(self) -> "Regression":
        base = None if self.base is None else self.base.kept()
        return Regression(self.steps.thinned(), self.features, base)

    def ahead(self, function: StateFunction) -> "RegressedAhead":
        steps, base = self.steps, None
        target = steps.follow(function)
        if self.base is not None:
            base = self.base.ahead(function)
            target = target - base.of_taken(steps.state, steps.action)
        columns = self.features(steps.state)
        number = columns.shape[1]
        theta = np.zeros((steps.num_actions, number, target.shape[1]))
        for action in range(steps.num_actions):
            rows = steps.action == action
            weighted = (columns[rows] * steps.weight[rows, None]).T
            # Actions apart: their laws differ, and a rare action must not be drawn to
            # the others' by a shared slope.
            gram = weighted @ columns[rows] + penalty(number, RIDGE)
            theta[action] = np.linalg.lstsq(gram, weighted @ target[rows], rcond=1e-13)[0]
        return RegressedAhead(self.features, theta, base)


@stored
@dataclass(frozen=True, eq=False)
class RegressedAhead(AbstractAhead):
    """A linear function of features per action, on top of another expectation."""

    features: Ridges
    theta: Float[np.ndarray, "action feature column"]
    base: AbstractAhead | None

    def __call__(self, state):
        return in_chunks(self._expect, state)

    def of_taken(self, state, action):
        columns = self.features(state)
        found = np.empty((len(state), self.theta.shape[2]))
        for one in np.unique(action):
            found[action == one] = columns[action == one] @ self.theta[one]
        return found if self.base is None else found + self.base.of_taken(state, action)

    def _expect(self, state: np.ndarray) -> np.ndarray:
        columns = self.features(state)
        number, _, width = self.theta.shape
        flat = np.moveaxis(self.theta, 0, 1).reshape(-1, number * width)
        # One product for all actions instead of one for each.
        expected = (columns @ flat).reshape(len(state), number, width)
        return expected if self.base is None else expected + self.base(state)
