"""How far states lie from those in the data."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from .._shapes import PerRow, States
from ..learners._scaling import spread
from ..panel._panel import Panel

# These decide what is printed beside a result, and no result. A state is outside the data
# if it is farther from every unit's states than 99 % of states are from another unit's.
# Scenarios with more than a tenth of such states are marked "watch", with more than half
# "outside". Rows within a quarter of a standard deviation of a new value count as having
# it; at half of one, about twice as many rows do.
USUAL = 0.99
WATCH, OUTSIDE = 0.1, 0.5
NEAR = 0.25
MAX_ROWS = 5_000  # states that distances are taken to; a k-d tree over more takes longer


@dataclass(frozen=True)
class Support:
    """How far some states lie from the data."""

    outside: float
    """The share of them farther from every unit's states than nearly all units are from
    each other."""
    near: int
    """Rows of the panel in which all that was changed has about its new values; the mean
    over the states."""

    @property
    def mark(self) -> str:
        """ "ok", "watch" or "outside"."""
        if self.outside > OUTSIDE or self.near == 0:
            return "outside"
        return "watch" if self.outside > WATCH else "ok"

    def __str__(self) -> str:
        return (
            f"{self.outside:.0%} of the states lie farther from any that was seen than "
            f"units usually lie from each other; about {self.near:,} rows have such values"
        )


def find_support(
    panel: Panel, start: States, scenarios: Iterable[States]
) -> Iterator[Support]:
    """The support of each scenario, in which some columns of `start` have changed."""
    from scipy.spatial import cKDTree

    scale = spread(panel.state)
    step = max(1, len(panel) // MAX_ROWS)
    seen, unit = panel.state[::step] / scale, panel.unit[::step]
    tree = cKDTree(seen)
    usual = np.quantile(_from_others(tree, seen, unit), USUAL)
    for states in scenarios:
        away = tree.query(states / scale)[0]
        # Unchanged states lie at exactly these distances; rounding must not count.
        outside = float(np.mean(away > usual * (1 + 1e-9)))
        yield Support(outside, _rows_near(panel, start, states, scale))


def _from_others(tree, seen: np.ndarray, unit: np.ndarray) -> PerRow:
    """How far each state is from the nearest of another unit, or row where there is one
    unit only."""
    if len(np.unique(unit)) == 1:
        unit = np.arange(len(unit))
    most = int(np.bincount(unit).max()) + 1
    distance, neighbour = tree.query(seen, k=min(most, len(seen)))
    if distance.ndim == 1:
        return distance
    other = unit[neighbour] != unit[:, None]
    # One more neighbour than the largest unit has rows: at least one is another unit's.
    return np.where(other, distance, np.inf).min(axis=1)


def _rows_near(panel: Panel, start, states, scale: np.ndarray) -> int:
    """Rows in which the variables that were changed have about their new values."""
    moved = np.flatnonzero((states != start).any(axis=0))
    if len(moved) == 0:
        return len(panel)
    new = np.unique(states[:, moved], axis=0)
    new = new[:: max(1, len(new) // 200)]  # a mean over 200 values is close enough
    close = [
        (np.abs(panel.state[:, moved] - values) <= NEAR * scale[moved]).all(axis=1).sum()
        for values in new
    ]
    return round(float(np.mean(close)))
