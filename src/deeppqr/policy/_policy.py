"""The interfaces of policies and their estimators, cross-validation, and clipping."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, PRNGKeyArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from .._random import numpy_rng
from .._shapes import Mask, PerAction, PerRow, States
from .._stored import stored
from ..panel._clusters import unit_folds
from ..panel._panel import Panel

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


def draw_folds(panel: Panel, *, key: PRNGKeyArray, members: int = FOLDS) -> np.ndarray:
    """Folds of whole units, the same for every estimator that gets the same key.

    There is one for each member of an ensemble, and five at least: a single member still
    holds a fifth of the units out, to stop early on.

    Candidates are thereby compared on the same rows. An estimator that needs other random
    numbers derives another key with `jr.fold_in`.
    """
    return unit_folds(panel, max(members, FOLDS), rng=numpy_rng(key))


def cross_validated(
    fit: Callable[[Panel], AbstractPolicy], panel: Panel, note: str, *, key: PRNGKeyArray
) -> PolicyFit:
    """The policy that `fit` makes of a panel, each row judged by one without its fold."""
    fold, held_out = draw_folds(panel, key=key), np.empty(len(panel))
    for number in np.unique(fold):
        held_out[fold == number] = score_without(fit, panel, fold == number)
    return PolicyFit(fit(panel), held_out, note)


def score_without(
    fit: Callable[[Panel], AbstractPolicy], panel: Panel, out: Mask
) -> np.ndarray:
    """Log-probabilities of some rows' actions under a policy fitted on the others.

    If leaving them out leaves an action without rows, no model of all actions can be
    fitted: they are scored by the smoothed action shares of the others.
    """
    rest, action = panel.select(~out), panel.action[out]
    # scikit-learn would number the remaining classes anew and shift the columns.
    if len(np.unique(rest.action)) < panel.num_actions:
        return log_shares(rest)[action]
    return fit(rest).log_prob(panel.state[out])[np.arange(len(action)), action]


def score_held_out(
    scores: np.ndarray, panel: Panel, judged: Mask, *, calibrate: bool
) -> tuple[PerRow, float]:
    """Log-probabilities of the judged rows' actions, NaN elsewhere, by held-out scores.

    One factor on the scores corrects over- and underconfidence: the one that maximises
    the likelihood, or 1 without `calibrate`.
    """
    action, weight = panel.action[judged], panel.weight[judged]

    def chosen(factor) -> np.ndarray:
        return log_softmax(factor * scores, axis=1)[np.arange(len(action)), action]

    factor = 1.0
    if calibrate:
        loss = lambda power: -float(np.average(chosen(np.exp(power)), weights=weight))
        # Factors from 1/20 to 7.4. Estimates at a bound mean that the scores predict
        # nothing (all shrunk), or that they separate the held-out rows.
        best = minimize_scalar(loss, bounds=(-3.0, 2.0), method="bounded")
        factor = float(np.exp(best.x))
    held_out = np.full(len(panel), np.nan)
    held_out[judged] = chosen(factor)
    return held_out, factor


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
