"""The anchor's one-action Bellman equation, and the interface of its solvers.

With g known at every state, only the anchor's continuation h(s) = E[V(s') | s, anchor]
is left to find, and Q^A = g + discount h. It solves

    h(s) = E[ bonus(s') + discount h(s') | s, anchor ],

with bonus = g - temperature log pi(anchor | .). h is regressed rather than V, because g and
log pi then enter V without approximation, and because h is an expectation and hence
smoother than V. The equation is linear in the bonus: it is solved once for
-log pi(anchor | .) and, where g is not zero, once for g.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float, PRNGKeyArray

from .._shapes import Mask, PerAction, PerRow, States
from .._stored import stored
from ..policy._policy import AbstractPolicy


@stored
@dataclass(frozen=True, eq=False)
class LogProbBonus:
    """-log pi(anchor | s): what the anchor adds to V at temperature one, beside h."""

    policy: AbstractPolicy
    anchor: int

    def __call__(self, state: States) -> PerRow:
        return -self.policy.log_prob(state)[:, self.anchor]


@dataclass(frozen=True, eq=False)
class AnchorProblem:
    """The rows in which the anchor was taken, with their next states, and the bonus."""

    state: States
    next_state: States
    ends: Mask
    """The process ended with the decision: no next state, nothing follows."""
    weight: PerRow
    log_prob: Callable[[np.ndarray], np.ndarray]
    """The estimated policy."""
    bonus: Callable[[np.ndarray], np.ndarray]
    """What the anchor adds to V beside h: -log pi(anchor | s), or g(s)."""
    query_states: Float[np.ndarray, "any_row state_feature"]
    """Every state at which the answer will be needed."""
    discount: float
    anchor_label: Any

    def next_bonus(self) -> PerRow:
        """The bonus at the next state; zero where the process ended."""
        # Zero after the end by definition: V is zero there, whatever the policy says.
        bonus = np.zeros(len(self.state))
        bonus[~self.ends] = self.bonus(self.next_state[~self.ends])
        return bonus


class AbstractStateFunction(ABC):
    """A fitted function of the state; it may use the policy's log-probabilities there."""

    @abstractmethod
    def __call__(self, state: States, log_prob: PerAction) -> PerRow: ...


@dataclass(frozen=True, eq=False)
class AnchorSolution:
    """The anchor's continuation and how well its equation was solved."""

    continuation: AbstractStateFunction
    residual: float
    """Largest violation of the solver's own equation over the rows."""
    note: str
    condition: float | None = None
    """Condition number of the linear system; None where none was solved."""
    num_steps: int | None = None
    missing: float = 0.0
    """Bound on how far an iteration stopped from its fixed point."""
    evidence: tuple[tuple[str, str], ...] = ()
    """Solvers that were considered and why they were or were not used."""

    def combined(self, known: "AnchorSolution | None", temperature: float):
        """This solution for the policy's part with that for g's part, for reporting."""
        # An upper bound: the two parts' residuals may cancel.
        residual, missing = temperature * self.residual, temperature * self.missing
        if known is not None:
            residual, missing = residual + known.residual, missing + known.missing
        return replace(self, residual=residual, missing=missing)


class AbstractAnchorSolver(ABC):
    """A way to solve the anchor's equation on data."""

    @abstractmethod
    def solve(self, problem: AnchorProblem, *, key: PRNGKeyArray) -> AnchorSolution: ...
