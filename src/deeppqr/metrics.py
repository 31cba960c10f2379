"""Errors of an estimate against a known truth, as the benchmark reports them."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float


class RewardScore(NamedTuple):
    """The error of an estimated reward over the actions other than the anchor."""

    mse: float
    """Mean squared error over states and actions."""
    nmse: float
    """MSE divided by that of predicting zero, so that 1 is no better than zero."""
    correlation: float
    """Of estimate and truth; 0 where the estimate does not vary."""


def score_reward(
    estimate: Float[np.ndarray, "row action"],
    truth: Float[np.ndarray, "row action"],
    *,
    anchor: int = 0,
) -> RewardScore:
    """Compare rewards at some states; the anchor's column is known and does not count.

    Parameters
    ----------
    estimate, truth
        Rewards of every action at the same states, such as `fit.reward(states)` and
        `world.reward(states)`.
    anchor
        The anchor's column.
    """
    estimate, truth = (np.delete(r, anchor, axis=1) for r in (estimate, truth))
    mse = float(np.mean((estimate - truth) ** 2))
    # np.corrcoef would warn and return NaN for a constant estimate.
    varies = estimate.std() > 0
    correlation = np.corrcoef(estimate.ravel(), truth.ravel())[0, 1] if varies else 0.0
    return RewardScore(mse, mse / float(np.mean(truth**2)), float(correlation))


def policy_kl(
    log_policy: Float[np.ndarray, "row action"], truth: Float[np.ndarray, "row action"]
) -> float:
    """The mean Kullback-Leibler divergence of a policy from the true one, in nats."""
    return float(np.mean(np.sum(np.exp(truth) * (truth - log_policy), axis=1)))
