"""How far states lie from those in the data."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from .._shapes import States
from ..diagnostics._support import SeenStates
from ..panel._panel import Panel

# These decide what is printed beside a result, and no result. Scenarios with more than a
# tenth of their states outside the data are marked "watch", with more than half "outside".
# Rows within a quarter of a standard deviation of a new value count as having it; at half
# of one, about twice as many rows do.
WATCH, OUTSIDE = 0.1, 0.5
NEAR = 0.25


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
    seen = SeenStates.of(panel)
    for states in scenarios:
        outside = float(np.mean(~seen.inside(states)))
        yield Support(outside, _rows_near(panel, start, states, seen.scale))


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


def seen_support(seen: SeenStates, states: States) -> Support:
    """The support of states by themselves, none of which was changed."""
    outside = float(np.mean(~seen.inside(states)))
    return Support(outside, len(seen.state))
