"""Features of the state for the linear solvers of the anchor's value and the reward."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace

import jax.random as jr
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from .._shapes import PerAction, States
from .._stored import stored
from ..panel._cells import Cells
from ._scaling import Scaling

LogProb = Callable[[np.ndarray], np.ndarray]


class AbstractBasis(ABC):
    """A recipe for features; `fit` draws and scales them on a sample of states."""

    @abstractmethod
    def fit(
        self, state: States, log_prob: LogProb, *, key: PRNGKeyArray
    ) -> "AbstractFeatures":
        """Features scaled on these states; the first column is the constant."""


class AbstractFeatures(ABC):
    """Fitted features: a function from states, and their log-probabilities, to columns."""

    @abstractmethod
    def __call__(
        self, state: States, log_prob: PerAction
    ) -> Float[np.ndarray, "row feature"]: ...


@dataclass(frozen=True)
class RandomFeatures(AbstractBasis):
    """The constant, the state, `count` random tanh ridges and the policy's log-odds.

    The log-odds log pi(a|s) are there because values are built from them: with a
    renewal or self-loop anchor the value is a linear function of log pi(anchor). Samples
    of fewer than 750 rows get fewer ridge functions, one for every five rows.
    """

    # Doubling the number of ridge functions moves rewards by joint estimation by 0.01 of
    # their standard deviation (paper world, p = 2), rewards by RE by up to 0.14; doubling
    # the steepness by 0.004 and up to 0.21.
    count: int = 150
    steepness: float = 1.0
    """Standard deviation of a ridge's argument over standardised states."""

    def fit(self, state, log_prob, *, key) -> "RidgeFeatures":
        key_weight, key_bias = jr.split(key)
        dim = state.shape[1]
        count = min(self.count, len(state) // 5)
        # Drawn in float32 by JAX and used in float64 by the host's linear algebra.
        weight = np.asarray(jr.normal(key_weight, (dim, count)), np.float64)
        bias = np.asarray(jr.normal(key_bias, (count,)), np.float64)
        bare = RidgeFeatures(
            Scaling.of(state),
            self.steepness * weight / np.sqrt(dim),
            bias,
            Scaling(np.zeros(0), np.ones(0)),
        )
        columns = bare.columns(state, log_prob(state))
        return replace(bare, scaling=Scaling.of(columns))


@stored
@dataclass(frozen=True, eq=False)
class RidgeFeatures(AbstractFeatures):
    """Drawn and scaled `RandomFeatures`."""

    state_scaling: Scaling
    weight: np.ndarray
    bias: np.ndarray
    scaling: Scaling
    """Of the features themselves."""

    def columns(self, state, log_prob) -> np.ndarray:
        scaled = self.state_scaling(state)
        ridges = np.tanh(scaled @ self.weight + self.bias)
        return np.concatenate([scaled, ridges, log_prob], axis=1)

    def __call__(self, state, log_prob):
        standard = self.scaling(self.columns(state, log_prob))
        return np.concatenate([np.ones((len(state), 1)), standard], axis=1)


@dataclass(frozen=True)
class Indicators(AbstractBasis):
    """One indicator per distinct state: a linear solve on it is the tabular one."""

    def fit(self, state, log_prob, *, key) -> "CellIndicators":
        del log_prob, key
        return CellIndicators(Cells.of(state))


@stored
@dataclass(frozen=True, eq=False)
class CellIndicators(AbstractFeatures):
    """The constant and an indicator for every cell but the first."""

    cells: Cells

    def __call__(self, state, log_prob):
        del log_prob
        cell = self.cells.require(state)
        columns = (cell[:, None] == np.arange(len(self.cells))).astype(np.float64)
        # In place of the first cell's indicator, which the constant makes redundant.
        columns[:, 0] = 1.0
        return columns


def penalty(num_features: int, ridge: float) -> Float[np.ndarray, "feature feature"]:
    """The ridge penalty: `ridge` pseudo-rows of zero, with the constant left free."""
    # The level of V is of order 1 / (1 - discount): shrinking it would bias everything.
    diagonal = np.full(num_features, ridge)
    diagonal[0] = 0.0
    return np.diag(diagonal)
