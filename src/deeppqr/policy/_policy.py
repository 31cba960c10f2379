"""P: what a policy is, how it is estimated, and how well it predicts held-out units."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, PRNGKeyArray

from .._random import numpy_rng
from .._stored import stored
from ..panel._panel import Panel
from ..panel._split import unit_folds

FOLDS = 5
DEFAULT_FLOOR = 1e-6


class AbstractPolicy(ABC):
    """An estimated policy: log pi(a|s) at any state."""

    @abstractmethod
    def log_prob(
        self, state: Float[np.ndarray, "row state_feature"]
    ) -> Float[np.ndarray, "row action"]:
        """Log-probabilities of all actions; each row's probabilities sum to one."""


@dataclass(frozen=True, eq=False)
class PolicyFit:
    """A policy and the evidence for it."""

    policy: AbstractPolicy
    held_out: Float[np.ndarray, " row"]
    """Log-probability of each row's action, by a version that did not see its unit;
    NaN in rows that were not judged."""
    note: str
    """What was fitted, in a few words."""
    evidence: tuple[tuple[str, float], ...] = ()
    """Candidates that were compared, with their mean held-out log-likelihood."""


class AbstractPolicyEstimator(ABC):
    """A way to estimate a policy from a panel."""

    @abstractmethod
    def fit(self, panel: Panel, *, key: PRNGKeyArray) -> PolicyFit: ...


def draw_folds(panel: Panel, *, key: PRNGKeyArray, num_folds: int = FOLDS) -> np.ndarray:
    """Folds of whole units, the same for every estimator that gets the same key.

    So candidates are compared on the same rows; keys for anything else are folded in.
    """
    return unit_folds(panel, num_folds, rng=numpy_rng(key))


def cross_validate(
    fit: Callable[[Panel], AbstractPolicy], panel: Panel, fold: np.ndarray
) -> Float[np.ndarray, " row"]:
    """Each row's log-probability under a policy fitted on the other folds.

    A fold whose removal takes an action out of the data cannot be predicted; its rows
    are scored by the action shares of the rest, smoothed.
    """
    held_out = np.empty(len(panel))
    for number in np.unique(fold):
        out = fold == number
        rest = panel.select(~out)
        if len(np.unique(rest.action)) == panel.num_actions:
            log_prob = fit(rest).log_prob(panel.state[out])
        else:
            log_prob = np.broadcast_to(log_shares(rest), (out.sum(), panel.num_actions))
        held_out[out] = log_prob[np.arange(out.sum()), panel.action[out]]
    return held_out


def log_shares(panel: Panel) -> Float[np.ndarray, " action"]:
    """Log of how often each action is taken, as if each had been seen once more."""
    count = np.bincount(panel.action, panel.weight, panel.num_actions) + 1.0
    return np.log(count / count.sum())


@stored
@dataclass(frozen=True)
class Clipped(AbstractPolicy):
    """A policy whose probabilities are kept above a floor and renormalised.

    Log-probabilities enter Q and the reward at full size; a zero would make them
    infinite.
    """

    policy: AbstractPolicy
    floor: float

    def log_prob(self, state):
        log_prob = np.maximum(self.policy.log_prob(state), np.log(self.floor))
        return log_prob - np.log(np.exp(log_prob).sum(axis=1, keepdims=True))

    def clipped_share(self, state: Float[np.ndarray, "row state_feature"]) -> float:
        """The share of (state, action) pairs whose probability was raised."""
        return float(np.mean(self.policy.log_prob(state) < np.log(self.floor)))


def clip(
    policy: AbstractPolicy, panel: Panel, *, floor: float | None = None
) -> AbstractPolicy:
    """The policy clipped at `floor`; without one, only if a probability is zero."""
    if floor is not None:
        return Clipped(policy, floor)
    states = np.concatenate([panel.state, panel.next_state[panel.has_next]])
    if np.isfinite(policy.log_prob(states)).all():
        return policy
    return Clipped(policy, DEFAULT_FLOOR)
