"""Expectations one step ahead by ridge regression on features of the state."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float
from scipy.spatial import cKDTree

from .._shapes import Codes, PerRow, States
from .._stored import stored
from ..learners._basis import penalty
from ..learners._chunks import in_chunks
from ..learners._ridges import Ridges
from ..learners._scaling import Scaling
from ..mdp._simulate import draw
from ._transition import AbstractAhead, AbstractSampledTransition, StateFunction, Steps

# In pseudo-rows: as much as a hundred rows at zero. At 200 the paper world (p = 2, 2,000
# decisions) chooses "moves and regression" over "moves", and rewards move by 0.28 of their
# standard deviation (another seed moves them by 0.32); the firms' move by 3e-4.
RIDGE = 100.0
NUM_RIDGES = 150
# Rows near a state that lend their residual to a draw there. A variance from 25 rows is
# known to within 28 % (one standard error); more would reach farther.
DONORS = 25


@stored
@dataclass(frozen=True, eq=False)
class Regression(AbstractSampledTransition):
    """One ridge regression per action of f(s'), or of another law's residuals."""

    steps: Steps
    features: Ridges
    base: AbstractSampledTransition | None = None
    """A law whose errors are regressed; without one, f(s') itself."""

    @classmethod
    def learn(cls, steps: Steps, *, base=None) -> "Regression":
        # One ridge function for every five rows at most.
        number = min(NUM_RIDGES, len(steps.state) // 5)
        return cls(steps, Ridges.of(steps.state, number), base)

    def kept(self) -> "Regression":
        return Regression(self.steps.thinned(), self.features, self.base)

    def survival(self, state, action):
        return np.clip(self._mean.of_taken(state, action)[:, -1], 0.0, 1.0)

    def land(self, state, action, rng):
        """The mean with the residual of a row nearby, or of the law whose errors are
        regressed: errors then vary with the state, and are as skewed as they are."""
        found = self._mean_of_next(self._mean, state, action)
        if self.base is not None:
            base_mean = self._base_mean
            assert base_mean is not None
            found += self.base.land(state, action, rng)
            return found - self._mean_of_next(base_mean, state, action)
        for one in np.unique(action):
            rows, donors = np.flatnonzero(action == one), self._donors(int(one))
            if donors is not None:
                found[rows] += donors.draw(state[rows], rng)
        return found

    @staticmethod
    def _mean_of_next(mean: AbstractAhead, state: States, action: Codes) -> States:
        """The mean of the next state, given that there is one."""
        expected = mean.of_taken(state, action)
        # A regressed chance may be anything; below a tenth the quotient is mostly noise.
        return expected[:, :-1] / np.clip(expected[:, -1:], 0.1, None)

    @cached_property
    def _mean(self) -> AbstractAhead:
        return self.ahead(_state_and_one)

    @cached_property
    def _base_mean(self) -> AbstractAhead | None:
        return None if self.base is None else self.base.ahead(_state_and_one)

    @cached_property
    def _kept_donors(self) -> dict[int, "_Donors"]:
        return {}

    def _donors(self, action: int) -> "_Donors | None":
        """The action's rows whose residuals are lent; kept for the next draw."""
        kept = self._kept_donors
        if action not in kept:
            steps = self.steps
            rows = (steps.action == action) & ~steps.ends & (steps.weight > 0)
            if not rows.any():
                return None
            here = steps.state[rows]
            mean = self._mean_of_next(self._mean, here, steps.action[rows])
            residual = steps.next_state[rows] - mean
            # Of indicators the mean is a probability, and the draw is the caller's.
            seen = steps.next_state[~steps.ends]
            residual[:, ((seen == 0) | (seen == 1)).all(axis=0)] = 0.0
            kept[action] = _Donors(here, residual, steps.weight[rows])
        return kept[action]

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


def _state_and_one(state: np.ndarray) -> np.ndarray:
    return np.column_stack([state, np.ones(len(state))])


@dataclass(frozen=True, eq=False)
class _Donors:
    """Residuals of an action's rows, drawn from those near a state."""

    state: States
    residual: Float[np.ndarray, "row state_feature"]
    weight: PerRow

    @cached_property
    def _near(self) -> tuple[Scaling, cKDTree]:
        scaling = Scaling.of(self.state)
        return scaling, cKDTree(scaling(self.state))

    def draw(self, state: States, rng: np.random.Generator) -> np.ndarray:
        """A residual for each state, of mean zero over the rows it is drawn from."""
        scaling, tree = self._near
        number = min(DONORS, len(self.state))
        index = tree.query(scaling(state), k=number)[1].reshape(len(state), number)
        near, weight = self.residual[index], self.weight[index]
        mean = np.einsum("rnd,rn->rd", near, weight) / weight.sum(axis=1)[:, None]
        picked = draw(weight, rng)
        # Less their own mean, so that the law's is met; n / (n - 1) for the one it costs.
        spread = np.sqrt(number / max(number - 1, 1))
        return (near[np.arange(len(state)), picked] - mean) * spread


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
