"""How far a reward over amounts may be off, for what asks by columns of a table."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float

from .._shapes import States
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

    def pulled_by_shape(
        self, state: States, pull: Iterable[Float[np.ndarray, "row shape"]], temperature
    ) -> Float[np.ndarray, "out direction"]:
        """A root of the covariance of sums of rewards, weighted by shapes of the action."""
        columns = self.reward.basis.columns(state)
        found = [self.reward.basis.average(columns, each).sum(axis=0) for each in pull]
        return temperature * np.stack(found) @ self._root.T
