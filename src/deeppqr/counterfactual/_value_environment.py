r"""The environment of states that do not repeat: expectations of the value's features.

The value is solved for as in joint estimation (`reward/_value_problem.py`): weights that
minimise the squared Bellman residual, and what the features leave by nearest neighbours.
Over time a function is followed through its projection on the features.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from jaxtyping import Float
from scipy.linalg import cho_factor, cho_solve

from .._shapes import PerAction, PerRow, States
from ..law._moves import Moves
from ..law._survival import Survival
from ..law._transition import AbstractTransition
from ..learners._chunks import in_chunks
from ..reward._value_function import value_features
from ..reward._value_problem import ValueProblem, pose_value_problem
from ._environment import AbstractEnvironment, Solved

# Rounds of policy iteration, and the change of log-odds at which they end.
ROUNDS, TOL = 60, 1e-7
# Numbers in E[phi(s')|s,a] up to which they are kept in float64: 160 MB.
PRECISE_NUMBERS = 20_000_000
# Relative ridge of the projection, whose features are nearly collinear. With 1e-7 answers
# on the paper's world and the firms are the same to a tenth of their errors, but
# distributions over the states swing between -25 and 50 times uniform after 20 periods, and
# the slowest function decays by 0.3 % a period in place of 1 %; with 1e-2 answers move.
RIDGE = 1e-3


class AbstractFeatureEnvironment(AbstractEnvironment):
    """Nodes at which functions of the state are sums of the value's features."""

    here: Float[np.ndarray, "row feature"]
    """The features at the nodes, in float64."""
    weight: PerRow
    """Of the nodes; zero for those that are only asked about."""

    @abstractmethod
    def repeated(self, action: int) -> Float[np.ndarray, "row feature"]:
        """The left side of the value's equation where one action is repeated."""

    def project(self, values):
        return cho_solve(self._gram, self._weighted.T @ values)

    def unproject(self, weight):
        return self._weighted @ cho_solve(self._gram, weight)

    def potential(self, action, earned):
        drop = self.repeated(action)
        weighted = (drop * self.weight[:, None]).T @ earned
        return self.here @ cho_solve(self._factor(drop), weighted)

    def potential_gradient(self, action, by_potential):
        drop = self.repeated(action)
        passed_on = cho_solve(self._factor(drop), self.here.T @ by_potential)
        return self.weight * (drop @ passed_on)

    def _factor(self, drop: np.ndarray):
        """The square system of an equation's least squares."""
        gram = drop.T @ (drop * self.weight[:, None])
        ridge = np.full(len(gram), (1 - self.discount) ** 2)
        ridge[0] = 1e-12
        return cho_factor(gram + np.diag(ridge + 1e-10 * np.diag(gram)), lower=True)

    @cached_property
    def _weighted(self) -> np.ndarray:
        return self.here * self.weight[:, None]

    @cached_property
    def _gram(self):
        gram = self.here.T @ self._weighted
        ridge = RIDGE * np.diag(gram) + 1e-12 * np.diag(gram).max()
        ridge[0] = 0.0  # the constant is followed exactly: probabilities sum to one
        return cho_factor(gram + np.diag(ridge), lower=True)


@dataclass(frozen=True, eq=False)
class ValueEnvironment(AbstractFeatureEnvironment):
    """Some states, with the expected features of where each action leads."""

    problem: ValueProblem
    _factored: list[PerAction] = field(default_factory=list, repr=False)
    """The policy whose equation the problem holds, if any."""

    @classmethod
    def of(
        cls,
        state: States,
        weight: PerRow,
        law: AbstractTransition,
        num_actions: int,
        discount: float,
        direction: np.ndarray | None,
    ) -> "ValueEnvironment":
        """Rows of weight zero are asked about, and solved for by the others."""
        survival = Survival(law, discount) if isinstance(law, Moves) else None
        told = {"direction": direction, "survival": survival}
        inside = state[weight > 0]
        features = value_features(inside, **told)
        if state.shape[0] * num_actions * features.width <= PRECISE_NUMBERS:
            features = value_features(inside, **told, precise=True)
        nothing = np.zeros((len(state), num_actions))
        action = np.zeros(len(state), dtype=np.int64)
        return cls(
            pose_value_problem(state, action, weight, law, features, nothing, discount)
        )

    def with_actions(self, sources: Sequence[int], discount: float) -> "ValueEnvironment":
        """The same law with some of the actions, or some of them twice."""
        at, old = list(sources), self.problem
        near = old.near and (old.near[0][:, at], old.near[1][:, at])
        problem = replace(
            old,
            default=old.default[:, at],
            ahead=old.ahead[at],
            near=near,
            reset=old.reset[:, at],
            discount=discount,
        )
        problem.q = np.zeros((len(old.state), len(at)))
        problem.left = np.zeros_like(old.left)
        return ValueEnvironment(problem)

    @property
    def state(self) -> States:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.problem.state

    @property
    def discount(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.problem.discount

    def solve(self, reward, start=None):
        problem = self.problem
        problem.q = reward if start is None else start
        problem.evaluate(reward, rounds=ROUNDS, tol=TOL)
        self._factored.clear()
        return Solved.of(problem.q)

    def follow(self, weight):
        return np.moveaxis(self.problem.ahead @ weight.astype(self._dtype), 0, 1)

    def collect(self, flow):
        pairs = zip(self.problem.ahead, flow.T.astype(self._dtype), strict=True)
        return np.sum([ahead.T @ column for ahead, column in pairs], axis=0)

    def reward_gradient(self, prob, by_q):
        problem = self.problem
        self._factor_policy(prob)
        later = problem.discount * self.collect(by_q)
        passed_on = cho_solve(problem._gram, later.astype(np.float64))
        found = by_q.copy()
        at = problem.valued
        by_value = problem.weight[at] * (problem._drop @ passed_on)
        found[at] += prob[at] * by_value[:, None]
        return found

    def repeated(self, action):
        return self.here - self.discount * self.problem.ahead[action].astype(np.float64)

    def response(self, prob, by):
        problem = self.problem
        self._factor_policy(prob)
        gain = (prob * by).sum(axis=1)
        value = problem.solve(gain[problem.valued, None])[:, 0]
        return by + self.discount * problem.project(value)

    def _factor_policy(self, prob) -> None:
        """The value's equation under a policy, unless it is the very one of before."""
        if not any(known is prob for known in self._factored):
            self.problem.factor(prob)
            self._factored[:] = [prob]

    def look_up(self, state):
        return in_chunks(self.problem.features, state).astype(np.float64)

    def value_at(self, solved, state):
        del solved
        return in_chunks(self.problem.value_function(None), state)[:, 0]

    @property
    def weight(self) -> PerRow:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.problem.weight

    @property
    def _dtype(self) -> type:
        return self.problem.dtype

    @cached_property
    def here(self) -> np.ndarray:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.problem.here.astype(np.float64)
