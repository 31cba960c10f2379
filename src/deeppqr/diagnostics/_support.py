"""Which states lie inside the data: no farther from a state that was seen than usual."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int

from .._shapes import PerRow, States
from .._stored import stored
from ..learners._scaling import spread
from ..panel._panel import Panel

# A state is outside the data if it is farther from every state in them than 99 % of states
# are from another unit's. It decides what is printed beside a result, and no result.
USUAL = 0.99
MAX_ROWS = 5_000  # states that distances are taken to; a k-d tree over more takes longer
# Neighbours asked for at once. With more states of one unit than this side by side, the
# others' are searched without it; 64 takes twice the time on panels of a few units.
NEIGHBOURS = 16


@stored
@dataclass(frozen=True, eq=False)
class SeenStates:
    """Up to about `MAX_ROWS` of a panel's states, against which others are judged."""

    state: Float[np.ndarray, "seen state_feature"]
    unit: Int[np.ndarray, " seen"]
    scale: Float[np.ndarray, " state_feature"]
    """Standard deviations over the whole panel."""

    @classmethod
    def of(cls, panel: Panel) -> "SeenStates":
        """Evenly spaced rows of the panel."""
        step = max(1, len(panel) // MAX_ROWS)
        unit = np.unique(panel.unit[::step], return_inverse=True)[1]
        return cls(panel.state[::step].copy(), unit, spread(panel.state))

    def inside(self, states: States) -> Bool[np.ndarray, " row"]:
        """Whether each state is as near to one that was seen as units usually are."""
        # Unchanged states lie at exactly this distance; rounding must not count.
        reach = self._usual * (1 + 1e-9)
        with np.errstate(over="ignore"):
            place = states / self.scale
        # Cells of 1e308 may be infinite on the scale of the data, which the tree refuses.
        finite = np.isfinite(place).all(axis=1)
        inside = np.zeros(len(states), dtype=bool)
        # Nothing beyond the reach is searched, which is most of the work far outside. The
        # tree squares the bound: where states repeat the reach is zero.
        beyond = max(2 * reach, 1e-6)
        found = self._tree.query(place[finite], distance_upper_bound=beyond)[0]
        inside[finite] = found <= reach
        return inside

    @cached_property
    def _tree(self):
        from scipy.spatial import cKDTree

        return cKDTree(self.state / self.scale)

    @cached_property
    def _usual(self) -> float:
        # Where there is one unit only, each row counts as one.
        alone = self.unit.max() == 0
        unit = np.arange(len(self.unit)) if alone else self.unit
        return float(np.quantile(self._from_others(unit), USUAL))

    def _from_others(self, unit: np.ndarray) -> PerRow:
        """How far each state is from the nearest of another unit."""
        from scipy.spatial import cKDTree

        seen = self.state / self.scale
        if len(seen) == 1:
            return np.zeros(1)
        distance, neighbour = self._tree.query(seen, k=min(NEIGHBOURS, len(seen)))
        other = unit[neighbour] != unit[:, None]
        nearest = np.where(other, distance, np.inf).min(axis=1)
        # Units whose own rows were all that is near: few, as each has many rows.
        for each in np.unique(unit[np.isinf(nearest)]):
            rows = np.flatnonzero(np.isinf(nearest) & (unit == each))
            nearest[rows] = cKDTree(seen[unit != each]).query(seen[rows])[0]
        return nearest
