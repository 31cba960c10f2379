"""Least squares on tanh ridges of the state, with the penalty that predicts best."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.special import ndtri
from scipy.stats import qmc

from .._shapes import PerRow, States
from .._stored import stored
from ._scaling import Scaling

# Each coefficient counts 1.4 times in the generalised cross-validation, as in mgcv: the
# criterion itself is too lenient about one time in ten.
CAUTION = 1.4


@stored
@dataclass(frozen=True, eq=False)
class Ridges:
    """The constant, the standardised state and tanh ridges along fixed directions."""

    scaling: Scaling
    direction: Float[np.ndarray, "state_feature ridge"]
    bias: Float[np.ndarray, " ridge"]

    @classmethod
    def of(cls, state: States, number: int) -> "Ridges":
        dim = state.shape[1]
        drawn = quasi_normal(number, dim + 1)
        return cls(Scaling.of(state), drawn[:, :-1].T / np.sqrt(dim), drawn[:, -1])

    def __call__(self, state: States) -> Float[np.ndarray, "row column"]:
        standard = self.scaling(state)
        ridges = np.tanh(standard @ self.direction + self.bias)
        return np.concatenate([np.ones((len(state), 1)), standard, ridges], axis=1)

    @property
    def linear(self) -> int:
        """Columns that are the constant and the state."""
        return 1 + len(self.scaling.center)

    @property
    def width(self) -> int:
        return self.linear + len(self.bias)


def penalised_least_squares(
    columns: Float[np.ndarray, "row column"],
    target: Float[np.ndarray, "row output"],
    weight: PerRow,
    free: int,
) -> Float[np.ndarray, "column output"]:
    """Coefficients with a ridge on all but the first `free` columns.

    Each output has its own penalty, by generalised cross-validation; where none improves on
    the free columns alone the others' coefficients are zero.
    """
    weighted = columns * weight[:, None]
    gram, right = columns.T @ weighted, weighted.T @ target
    total = weight @ target**2
    # A weight of two is the row twice, in the criterion too.
    number, outputs = float(weight.sum()), target.shape[1]
    lines = gram[:free, :free] + 1e-10 * np.diag(np.diag(gram)[:free] + 1e-300)
    shared = np.linalg.lstsq(lines, gram[:free, free:], rcond=1e-12)[0]
    simple = np.linalg.lstsq(lines, right[:free], rcond=1e-12)[0]
    # The free columns are eliminated; what is left is a ridge in its eigenvectors.
    rest = gram[free:, free:] - gram[:free, free:].T @ shared
    values, vectors = np.linalg.eigh(rest)
    values = np.maximum(values, 0.0)
    along = vectors.T @ (right[free:] - gram[:free, free:].T @ simple)
    before = np.maximum(total - (right[:free] * simple).sum(axis=0), 1e-14 * total + 1e-300)

    def score(left, used) -> np.ndarray:
        room = max(1 - CAUTION * used / number, 1e-3)
        return np.log(left / number) - 2 * np.log(room)

    top = float(values.max(initial=0.0))
    if top <= 1e-12 * max(float(np.diag(gram).max()), 1e-300):
        return np.concatenate([simple, np.zeros((len(values), outputs))])
    best, chosen = score(before, free) - 1e-3, np.full(outputs, np.inf)
    for ridge in top * np.logspace(-8, 3, 45):
        kept = values / (values + ridge)
        explained = ((2 - kept) / (values + ridge)) @ along**2
        left = np.maximum(before - explained, 1e-14 * before)
        found = score(left, free + kept.sum())
        chosen = np.where(found < best, ridge, chosen)
        best = np.minimum(found, best)
    curved = vectors @ (along / (values[:, None] + chosen))
    return np.concatenate([simple - shared @ curved, curved])


def quasi_normal(number: int, dim: int) -> Float[np.ndarray, "point dim"]:
    """Deterministic normal draws: a Sobol sequence through the normal quantiles."""
    # A power of two points, as the sequence is balanced only then; the first is zero.
    power = max(int(np.ceil(np.log2(number + 1))), 1)
    points = qmc.Sobol(dim, scramble=False).random_base2(power)[1 : number + 1]
    return ndtri(np.clip(points, 1e-6, 1 - 1e-6))
