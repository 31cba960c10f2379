r"""Where actions lead, at some states: what a counterfactual solves and follows.

States are nodes, and a function of the state is kept by its weights on a basis of them:
indicators where states are few, the features of the fitted value elsewhere. Both offer the
same linear operations, so that a policy is solved, followed over time and differentiated by
one piece of code.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import sparse
from scipy.sparse.linalg import splu
from scipy.special import log_softmax, logsumexp

from .._shapes import PerAction, PerRow, States
from ..mdp._tabular import bellman_system
from ..panel._cells import Cells

if TYPE_CHECKING:
    from ._law_error import Sequels

NEWTON_STEPS = 100
# Relative to the size of Q, as in mdp._tabular.
NEWTON_TOL = 1e-14


class Solved(NamedTuple):
    """The agents' problem solved, in units of the temperature."""

    q: PerAction
    log_prob: PerAction
    value: PerRow

    @classmethod
    def of(cls, q: PerAction) -> "Solved":
        return cls(q, log_softmax(q, axis=1), logsumexp(q, axis=1))


class AbstractEnvironment(ABC):
    """Nodes, the actions available there, and expectations one period ahead."""

    state: States
    discount: float

    @abstractmethod
    def solve(self, reward: PerAction, start: PerAction | None = None) -> Solved:
        """The policy and value of agents with this reward; `start` is a guess of Q."""

    @abstractmethod
    def follow(self, weight: Float[np.ndarray, "basis column"]) -> np.ndarray:
        """E[f(s')|s,a] of functions given by weights, (row, action, column)."""

    def expect(self, prob: PerAction, weight: np.ndarray) -> np.ndarray:
        """E[f(s')|s] under a policy, (row, column)."""
        return np.einsum("ra,rac->rc", prob, self.follow(weight))

    @abstractmethod
    def collect(self, flow: PerAction) -> Float[np.ndarray, " basis"]:
        """The transpose of `follow`: sum over rows and actions of a flow."""

    @abstractmethod
    def project(self, values: Float[np.ndarray, "row column"]) -> np.ndarray:
        """The weights of functions known at the nodes, (basis, column)."""

    @abstractmethod
    def unproject(self, weight: Float[np.ndarray, " basis"]) -> PerRow:
        """The transpose of `project`."""

    @abstractmethod
    def reward_gradient(self, prob: PerAction, by_q: PerAction) -> PerAction:
        r"""From a gradient by Q to one by the reward, at the optimal policy.

        Q moves with the reward by $dQ = dr + \gamma E[dV]$ and, since the policy is
        optimal, $dV = \sum_a \pi_a dQ_a$: nothing is gained by changing it.
        """

    @abstractmethod
    def response(self, prob: PerAction, by: PerAction) -> PerAction:
        """How Q moves if the reward moves `by` so much: what `reward_gradient` turns
        around."""

    @abstractmethod
    def look_up(self, state: States) -> Any:
        """The basis at other states, (row, basis), dense or sparse."""

    @abstractmethod
    def value_at(self, solved: Solved, state: States) -> PerRow:
        """V at other states, of the problem solved last."""

    @abstractmethod
    def potential(self, action: int, earned: PerRow) -> PerRow:
        """What `earned` adds up to, discounted, if one action is taken for ever."""

    @abstractmethod
    def potential_gradient(self, action: int, by_potential: PerRow) -> PerRow:
        """The transpose of `potential`."""

    def ends(self) -> bool:
        """Whether the process may end anywhere."""
        one = self.project(np.ones((len(self.state), 1)))
        # 1e-3: a learned chance of an end is a share of rows, far above rounding.
        return bool((self.follow(one) < 1 - 1e-3).any())


@dataclass(frozen=True, eq=False)
class TabularEnvironment(AbstractEnvironment):
    """Few states, with a matrix of probabilities for each action."""

    state: States
    moves: tuple[sparse.csr_array, ...]
    """For each action (state, next_state); what a row lacks to one is the chance to end."""
    discount: float

    def solve(self, reward, start=None):
        """Newton's method: each step evaluates the current softmax policy exactly."""
        q = reward if start is None else start
        best = (np.inf, q)
        for step in range(NEWTON_STEPS):
            prob = np.exp(log_softmax(q, axis=1))
            gain = (prob * (reward - log_softmax(q, axis=1))).sum(axis=1)
            value = self._lu(prob).solve(gain)
            q = reward + self.discount * self.follow(value[:, None])[:, :, 0]
            residual = float(np.abs(logsumexp(q, axis=1) - value).max())
            if residual < best[0]:
                best = (residual, q)
            # Far from the solution the residual may rise; at rounding it stops falling.
            if residual <= NEWTON_TOL * (1 + np.abs(q).max()) or (
                step > 12 and residual > best[0]
            ):
                break
        return Solved.of(best[1])

    def follow(self, weight):
        return np.stack([moves @ weight for moves in self.moves], axis=1)

    def collect(self, flow):
        pairs = zip(self.moves, flow.T, strict=True)
        return np.sum([moves.T @ column for moves, column in pairs], axis=0)

    def project(self, values):
        return values

    def unproject(self, weight):
        return weight

    def reward_gradient(self, prob, by_q):
        later = self.discount * self.collect(by_q)
        return by_q + prob * self._lu(prob).solve(later, trans="T")[:, None]

    def response(self, prob, by):
        value = self._lu(prob).solve((prob * by).sum(axis=1))
        return by + self.discount * self.follow(value[:, None])[:, :, 0]

    def look_up(self, state):
        place = np.arange(len(state)), Cells(self.state).require(state)
        return sparse.csr_array((np.ones(len(state)), place), (len(state), len(self.state)))

    def value_at(self, solved, state):
        return solved.value[Cells(self.state).require(state)]

    def potential(self, action, earned):
        return self._repeated(action).solve(earned)

    def potential_gradient(self, action, by_potential):
        return self._repeated(action).solve(by_potential, trans="T")

    def _repeated(self, action: int):
        return splu(bellman_system(self.moves[action], discount=self.discount))

    def _lu(self, prob: PerAction):
        pairs = zip(self.moves, prob.T, strict=True)
        mixed = sum(sparse.diags_array(share) @ moves for moves, share in pairs)
        return splu(bellman_system(sparse.csr_array(mixed), discount=self.discount))


@dataclass(frozen=True, eq=False)
class Flow:
    """A policy followed over time in an environment."""

    environment: AbstractEnvironment
    prob: PerAction
    start: PerRow
    """Weights of the nodes in the first period; they sum to one."""

    def step(self, weight: np.ndarray) -> np.ndarray:
        """Weights of E[f(s')|s] under the policy, from those of f."""
        return self.environment.project(self.environment.expect(self.prob, weight))

    def pass_on(self, mass: PerRow) -> PerRow:
        """How a distribution over the nodes looks one period later."""
        collected = self.environment.collect(self.prob * mass[:, None])
        return self.environment.unproject(collected)

    @cached_property
    def matrix(self) -> Float[np.ndarray, "basis basis"]:
        """`step` as a matrix."""
        size = len(self.environment.project(np.zeros((len(self.prob), 1))))
        return self.step(np.eye(size))

    def over_periods(
        self,
        flow: Float[np.ndarray, "row column"],
        periods: int,
        sequels: "Sequels | None" = None,
    ):
        """Expected sums over the first periods and their gradient by the policy.

        Returns the sums (column), by how much each moves with the flow (row), with the
        probability of each action (row, action, column) and with the law, by its sequels
        (sequel, column).
        """
        mass, masses = self.start, [self.start]
        for _ in range(periods - 1):
            mass = self.pass_on(mass)
            masses.append(mass)
        total = np.sum(masses, axis=0)
        once = self.environment.project(flow)
        to_go = np.zeros_like(once)
        moved = np.zeros((*self.prob.shape, flow.shape[1]))
        by_law = _none(sequels, flow)
        # From the last period but one backwards: what follows an action is worth `to_go`.
        for mass in masses[-2::-1]:
            to_go = once + self.step(to_go)
            ahead = self.environment.follow(to_go)
            moved += mass[:, None, None] * ahead
            if sequels is not None:
                by_law += sequels.carried(mass[:, None] * self.prob, to_go, ahead)
        return total @ flow, total, moved, by_law

    def long_run(
        self, flow: Float[np.ndarray, "row column"], sequels: "Sequels | None" = None
    ):
        """Means in the long run and their gradients, as in `over_periods`."""
        environment = self.environment
        one = environment.project(np.ones((len(self.prob), 1)))[:, 0]
        first = environment.collect(self.prob * self.start[:, None])
        # Regular if and only if the long run does not depend on the start: the stationary
        # distribution solves nu (I - P) = 0 with nu 1 = 1 as one square system.
        system = np.eye(len(one)) - self.matrix + np.outer(one, first / (first @ one))
        mass = environment.unproject(np.linalg.solve(system.T, first / (first @ one)))
        mean = mass @ flow
        away = environment.project(flow) - one[:, None] * mean
        to_go = np.linalg.solve(system, away)
        ahead, by_law = environment.follow(to_go), _none(sequels, flow)
        if sequels is not None:
            by_law += sequels.carried(mass[:, None] * self.prob, to_go, ahead)
        return mean, mass, mass[:, None, None] * ahead, by_law


def _none(sequels: "Sequels | None", flow: np.ndarray) -> np.ndarray:
    return np.zeros((0 if sequels is None else len(sequels.node), flow.shape[1]))
