"""Q: the anchor's one-action Bellman equation as a problem, and what a solver returns.

With g known at every state, only the anchor's continuation h(s) = E[V(s') | s, anchor]
is left to find, and Q^A = g + discount h. It solves

    h(s) = E[ bonus(s') + discount h(s') | s, anchor ],

with bonus = g - temperature log pi(anchor | .). Regressing h rather than V keeps what is
known exactly exact, and h is an expectation, hence smoother than V. The equation is
linear in the bonus: it is solved once for -log pi(anchor | .) and, where g is not zero,
once for g.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, PRNGKeyArray

from .._stored import stored
from ..policy._policy import AbstractPolicy


@stored
@dataclass(frozen=True, eq=False)
class LogProbBonus:
    """-log pi(anchor | s): what the anchor adds to V at temperature one, beside h."""

    policy: AbstractPolicy
    anchor: int

    def __call__(
        self, state: Float[np.ndarray, "row state_feature"]
    ) -> Float[np.ndarray, " row"]:
        return -self.policy.log_prob(state)[:, self.anchor]


@dataclass(frozen=True, eq=False)
class AnchorProblem:
    """The rows in which the anchor was taken and what is known about their sequel."""

    state: Float[np.ndarray, "row state_feature"]
    next_state: Float[np.ndarray, "row state_feature"]
    ends: Bool[np.ndarray, " row"]
    """The process ended with the decision: no next state, nothing follows."""
    weight: Float[np.ndarray, " row"]
    log_prob: Callable[[np.ndarray], np.ndarray]
    """The estimated policy."""
    bonus: Callable[[np.ndarray], np.ndarray]
    """What the anchor adds to V beside h: -log pi(anchor | s), or g(s)."""
    query_states: Float[np.ndarray, "any_row state_feature"]
    """Every state at which the answer will be needed."""
    discount: float
    anchor_label: Any

    def next_bonus(self) -> Float[np.ndarray, " row"]:
        """The bonus at the next state; zero where the process ended."""
        bonus = np.zeros(len(self.state))
        bonus[~self.ends] = self.bonus(self.next_state[~self.ends])
        return bonus


class AbstractStateFunction(ABC):
    """A fitted function of the state; it may use the policy's log-probabilities there."""

    @abstractmethod
    def __call__(
        self,
        state: Float[np.ndarray, "row state_feature"],
        log_prob: Float[np.ndarray, "row action"],
    ) -> Float[np.ndarray, " row"]: ...


@dataclass(frozen=True, eq=False)
class AnchorSolution:
    """The anchor's continuation and how well its equation was solved."""

    continuation: AbstractStateFunction
    residual: float
    """Largest violation of the solver's own equation over the rows."""
    condition: float | None
    """Condition number of the linear system; None where none was solved."""
    note: str
    num_steps: int | None = None
    missing: float = 0.0
    """Bound on how far an iteration stopped from its fixed point."""
    evidence: tuple[tuple[str, str], ...] = ()
    """Solvers that were considered and why they were or were not used."""

    def combined(
        self, known: "AnchorSolution | None", temperature: float
    ) -> "AnchorSolution":
        """This solution for the policy's part with that for g's part, for reporting."""
        extra = (known.residual, known.missing) if known else (0.0, 0.0)
        return replace(
            self,
            residual=temperature * self.residual + extra[0],
            missing=temperature * self.missing + extra[1],
        )


class AbstractAnchorSolver(ABC):
    """A way to solve the anchor's equation on data."""

    @abstractmethod
    def solve(self, problem: AnchorProblem, *, key: PRNGKeyArray) -> AnchorSolution: ...
