"""What a fit keeps of its data, so that plots and reports need no panel."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int

from .._stored import stored
from ..continuous._cells import CellShares, cells_of
from ..panel._amounts import as_label
from ..panel._clusters import Clusters
from ..panel._panel import Panel
from ..policy._policy import AbstractPolicy
from ._support import MAX_ROWS

# Rows whose choices the calibration is counted from. Standard errors of shares of a tenth
# of them are 0.005 at most; all rows of a panel of a million would take seconds.
CALIBRATION_ROWS = 100_000
BINS = 10
QUANTILES = np.linspace(0.0, 1.0, 101)


@stored
@dataclass(frozen=True, eq=False)
class DataSummary:
    """Shares, quantiles and the policy's calibration; a few hundred kilobytes at most.

    `action` and `weight` belong to the rows of `Fit.seen`.
    """

    action: Int[np.ndarray, " seen"]
    weight: Float[np.ndarray, " seen"]
    rows: Int[np.ndarray, " action"]
    """How often each action was taken."""
    share: Float[np.ndarray, " action"]
    """The same as a share, weighted."""
    mean: Float[np.ndarray, " state_feature"]
    """Of a category's indicators these are the shares of its levels."""
    quantiles: Float[np.ndarray, "quantile state_feature"]
    """Percentiles 0 to 100."""
    expected: Float[np.ndarray, "bin action"]
    """The policy's mean probability in each tenth of the states, by that probability; NaN
    where fewer tenths can be told apart."""
    observed: Float[np.ndarray, "bin action"]
    """How often the action was taken there."""
    error: Float[np.ndarray, "bin action"]
    """Standard error of observed minus expected, clustered by unit."""
    amount: Float[np.ndarray, "seen action_dimension"] | None = None
    """The amounts of the seen rows, whose `action` is then the nearest of the grid."""

    @classmethod
    def of_amounts(cls, panel: Panel, shares: CellShares) -> "DataSummary":
        """The summary of a panel of amounts by the cells of the reward's grid."""
        assert panel.amount is not None
        reward, step = shares.reward, max(1, len(panel) // MAX_ROWS)
        cell = cells_of(reward.shapes.space, reward.grid, panel.amount)
        labels = tuple(map(as_label, reward.grid))
        told = {"action": cell, "actions": labels, "space": None, "amount": None}
        found = cls.of(replace(panel, **told), shares)
        return replace(found, amount=panel.amount[::step].astype(np.float64))

    @classmethod
    def of(cls, panel: Panel, policy: AbstractPolicy) -> "DataSummary":
        """The summary of a panel and of how the policy describes its choices."""
        step = max(1, len(panel) // MAX_ROWS)
        rows = np.bincount(panel.action, minlength=panel.num_actions)
        mass = np.bincount(panel.action, panel.weight, panel.num_actions)
        state, weight = panel.state[::step], panel.weight[::step]
        return cls(
            panel.action[::step].astype(np.int64),
            weight.astype(np.float64),
            rows.astype(np.int64),
            mass / mass.sum(),
            np.average(panel.state, axis=0, weights=panel.weight),
            _quantiles(state, weight),
            *_calibration(panel, policy),
        )


def _quantiles(state: np.ndarray, weight: np.ndarray) -> np.ndarray:
    counted = weight > 0
    return np.quantile(
        state[counted],
        QUANTILES,
        axis=0,
        weights=weight[counted],
        method="inverted_cdf",  # the only one with weights
    )


def _calibration(panel: Panel, policy: AbstractPolicy) -> tuple[np.ndarray, ...]:
    """Expected and observed shares with their standard errors, (bin, action) each."""
    step = -(-len(panel) // CALIBRATION_ROWS)
    # The array itself where all rows count: a policy may have kept its answer for it.
    state = panel.state if step == 1 else panel.state[::step]
    at = np.arange(0, len(panel), step)
    prob = np.exp(policy.log_prob(state))
    weight, action, clusters = panel.weight[at], panel.action[at], Clusters.of(panel)
    found = np.full((3, BINS, panel.num_actions), np.nan)
    for index in range(panel.num_actions):
        edges = np.quantile(prob[:, index], np.linspace(0, 1, BINS + 1)[1:-1])
        # Probabilities that many states share make some of the edges equal.
        code = np.searchsorted(np.unique(edges), prob[:, index], side="left")
        mass = np.bincount(code, weight, BINS)
        inside = np.zeros((len(at), BINS))
        inside[np.arange(len(at)), code] = weight / np.maximum(mass[code], 1e-300)
        taken = (action == index).astype(float)
        expected, observed = inside.T @ prob[:, index], inside.T @ taken
        gap = inside * (taken - prob[:, index])[:, None]
        gap -= inside * (observed - expected)
        sums = clusters.sum(gap, at=at)
        factor = len(sums) / max(len(sums) - 1, 1)
        error = np.sqrt(factor * np.square(sums).sum(axis=0))
        for part, values in zip(found, (expected, observed, error), strict=True):
            part[:, index] = np.where(mass > 0, values, np.nan)
    return tuple(found)
