"""How far a reward over amounts may be off, for what asks by columns of a table."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .._uncertainty import AbstractUncertainty
from ._reward import AmountReward


@dataclass(frozen=True, eq=False)
class AmountUncertainty(AbstractUncertainty):
    """The covariance of the coefficients; `action` is a place in the grid of the fit."""

    reward: AmountReward

    @cached_property
    def _root(self) -> np.ndarray:
        size, axes = np.linalg.eigh(self.reward.covariance)
        return (axes * np.sqrt(np.maximum(size, 0.0))).T

    def slopes(self, state, action, value):
        del value
        at = np.repeat(self.reward.at_grid[action][None], len(state), axis=0)
        return self.reward.basis.average(self.reward.basis.columns(state), at)

    def root(self, value):
        return value.temperature * self._root
