"""Cells of amounts: those nearest to each action of a grid, and how likely they are.

A density has no probability at a point. Where tables, calibration and figures speak of
shares, the share of an action of the grid is that of all amounts nearest to it.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float

from .._shapes import Codes, PerAction
from .._stored import stored
from ..actions._nodes import Nodes
from ..actions._space import ActionSpace, Amounts
from ..learners._chunks import in_chunks
from ..policy._policy import AbstractPolicy
from ._reward import AbstractAmountReward

# Nodes per dimension by which the masses of cells are found, by dimensions. A cell's edge
# falls between two nodes: with 11 cells in a line shares are off by 0.003 at most.
FINE = {1: 400, 2: 60}
# Rows whose masses at the nodes are held at once: 14 MB in a plane.
ROWS_AT_ONCE = 500


def cells_of(
    space: ActionSpace, grid: Float[np.ndarray, "cell action_dimension"], amounts: Amounts
) -> Codes:
    """The place in the grid of each action: its atom, or the nearest of the others."""
    found, atom = space.atom_of(amounts), space.atom_of(grid)
    found = np.where(found >= 0, found, 0)
    inside, rest = np.flatnonzero(atom < 0), np.flatnonzero(space.atom_of(amounts) < 0)
    centred = space.centred(grid[inside])
    for part in np.array_split(rest, -(-len(rest) // 50_000) or 1):
        far = space.centred(amounts[part])[:, None] - centred
        found[part] = inside[(far**2).sum(axis=2).argmin(axis=1)]
    return found


@stored
@dataclass(frozen=True, eq=False)
class CellShares(AbstractPolicy):
    """Log probabilities of the cells of a grid under the density of a reward."""

    reward: AbstractAmountReward

    def log_prob(self, state):
        return np.log(np.maximum(in_chunks(self._shares, state, ROWS_AT_ONCE), 1e-300))

    def _shares(self, state: np.ndarray) -> PerAction:
        nodes, cell = self._nodes
        mass = np.exp(self.reward.log_densities_of(state, nodes.action)) * nodes.weight
        found = np.zeros((len(state), len(self.reward.grid)))
        for place in range(found.shape[1]):
            found[:, place] = mass[:, cell == place].sum(axis=1)
        return found / found.sum(axis=1, keepdims=True)

    @cached_property
    def _nodes(self) -> tuple[Nodes, Codes]:
        space = self.reward.shapes.space
        nodes = space.nodes(FINE.get(space.dimensions))
        return nodes, cells_of(space, self.reward.grid, nodes.action)
