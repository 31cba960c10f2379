"""Where the anchor leads, and whether the policy's odds are the data's.

Both are conditions of the anchor's equation: values along a chain of anchors rest on the
states it reaches, and the logarithm of the policy enters at full size.
"""

import numpy as np

from .._shapes import Codes, PerAction, PerRow
from ..panel._clusters import Clusters
from ..panel._panel import Panel
from ._support import SeenStates

# States that the anchor led to, evenly spaced, whose distance from the data is taken.
FOLLOWED = 1_000
# Newton steps for one number; three suffice where the odds are nearly right.
STEPS, LARGEST_STEP = 20, 0.5


def share_outside(panel: Panel, anchor: int) -> float:
    """The share of the states that the anchor leads to in which nobody decides nearby."""
    rows = np.flatnonzero(
        (panel.action == anchor) & panel.has_next & ~panel.terminal & (panel.weight > 0)
    )
    if len(rows) == 0:
        return 0.0
    rows = rows[:: max(1, len(rows) // FOLLOWED)]
    outside = ~SeenStates.of(panel).inside(panel.next_state[rows])
    return float(np.average(outside, weights=panel.weight[rows]))


def log_odds_slope(panel: Panel, log_prob: PerAction) -> tuple[float, float]:
    r"""The power of the policy that fits the decisions best, and its standard error.

    $\arg\max_\tau \sum_i \log\mathrm{softmax}\{\tau\log\pi(\cdot|s_i)\}_{a_i}$ is one for a
    policy with the right odds, below one where they are too extreme. Errors are clustered
    by unit; not a number where all actions are equally likely everywhere.
    """
    clusters, power = Clusters.of(panel), 1.0
    for _ in range(STEPS):
        score, information = _score(power, log_prob, panel.action)
        total = float(panel.weight @ information)
        if total <= 1e-12 * panel.weight.sum():
            return np.nan, np.nan
        step = float(panel.weight @ score) / total
        power += float(np.clip(step, -LARGEST_STEP, LARGEST_STEP))
        if abs(step) < 1e-8:
            break
    by_unit = clusters.sum((panel.weight * score)[:, None])
    return power, float(np.sqrt((by_unit**2).sum())) / total


def _score(power: float, log_prob: PerAction, action: Codes) -> tuple[PerRow, PerRow]:
    """The derivative of each row's log-likelihood by the power, and its variance."""
    from scipy.special import log_softmax

    finite = np.maximum(log_prob, -700.0)  # exp of less is zero, and 0 times inf no number
    prob = np.exp(log_softmax(power * finite, axis=1))
    mean = (prob * finite).sum(axis=1)
    variance = (prob * finite**2).sum(axis=1) - mean**2
    return finite[np.arange(len(action)), action] - mean, variance
