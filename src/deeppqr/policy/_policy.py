"""The interfaces of policies and their estimators, cross-validation, and clipping."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, PRNGKeyArray

from .._random import numpy_rng
from .._shapes import PerAction, PerRow, States
from .._stored import stored
from ..panel._panel import Panel
from ..panel._split import unit_folds

# Folds of units for held-out scores. With ten the default policy of the paper world (p = 2,
# 2,000 decisions) is the quadratic logit and not the networks, whose scores are close, and
# rewards move by 0.14 of their standard deviation; the firms' move by 0.007.
FOLDS = 5
# Used only where an estimated probability is exactly zero, as some classifiers give; none
# of the estimators of this room does, so doubling it changes no fit of theirs.
DEFAULT_FLOOR = 1e-6


class AbstractPolicy(ABC):
    """An estimated policy: log pi(a|s) at any state."""

    @abstractmethod
    def log_prob(self, state: States) -> PerAction:
        """Log-probabilities of all actions; each row's probabilities sum to one."""


@dataclass(frozen=True, eq=False)
class PolicyFit:
    """An estimated policy and how well it predicts decisions it was not fitted on."""

    policy: AbstractPolicy
    held_out: PerRow
    """Log-probability of each row's action under a version fitted without the row's unit;
    NaN where there is none."""
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

    Candidates are thereby compared on the same rows. An estimator that needs other random
    numbers derives another key with `jr.fold_in`.
    """
    return unit_folds(panel, num_folds, rng=numpy_rng(key))


def cross_validate(
    fit: Callable[[Panel], AbstractPolicy], panel: Panel, fold: np.ndarray
) -> PerRow:
    """Each row's log-probability under a policy fitted on the other folds.

    If leaving a fold out leaves an action without rows, no model of all actions can be
    fitted: the fold's rows are scored by the smoothed action shares of the others.
    """
    held_out = np.empty(len(panel))
    for number in np.unique(fold):
        out = fold == number
        rest = panel.select(~out)
        # scikit-learn would number the remaining classes anew and shift the columns.
        if len(np.unique(rest.action)) == panel.num_actions:
            log_prob = fit(rest).log_prob(panel.state[out])
        else:
            log_prob = np.broadcast_to(log_shares(rest), (out.sum(), panel.num_actions))
        held_out[out] = log_prob[np.arange(out.sum()), panel.action[out]]
    return held_out


def log_shares(panel: Panel) -> Float[np.ndarray, " action"]:
    """Log of each action's share of the rows, with one pseudo-row per action."""
    count = np.bincount(panel.action, panel.weight, panel.num_actions) + 1.0
    return np.log(count / count.sum())


@stored
@dataclass(frozen=True)
class Clipped(AbstractPolicy):
    """A policy whose probabilities are kept above a floor and renormalised.

    Q and the reward are linear in log-probabilities: a probability of zero would make
    them infinite.
    """

    policy: AbstractPolicy
    floor: float

    def log_prob(self, state):
        log_prob = np.maximum(self.policy.log_prob(state), np.log(self.floor))
        return log_prob - np.log(np.exp(log_prob).sum(axis=1, keepdims=True))

    def clipped_share(self, state: States) -> float:
        """The share of (state, action) pairs whose probability was raised."""
        return float(np.mean(self.policy.log_prob(state) < np.log(self.floor)))


def clip(
    policy: AbstractPolicy, panel: Panel, *, floor: float | None = None
) -> AbstractPolicy:
    """The policy clipped at `floor`; without one, only if a probability is zero."""
    if floor is not None:
        return Clipped(policy, floor)
    # Next states too: their log-probabilities enter the anchor's equation.
    states = np.concatenate([panel.state, panel.next_state[panel.has_next]])
    if np.isfinite(policy.log_prob(states)).all():
        return policy
    return Clipped(policy, DEFAULT_FLOOR)
