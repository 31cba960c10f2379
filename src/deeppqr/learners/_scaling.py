"""Standardising columns, the same way everywhere."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from .._stored import stored

# A column whose standard deviation is below this share of its size is constant, its
# deviations rounding: float64 keeps sixteen digits, a mean over 10^6 rows about twelve.
ROUNDING = 1e-10


@stored
@dataclass(frozen=True, eq=False)
class Scaling:
    """The centre and scale of each column; calling it standardises columns."""

    center: Float[np.ndarray, " column"]
    scale: Float[np.ndarray, " column"]

    @classmethod
    def of(cls, columns: Float[np.ndarray, "row column"]) -> "Scaling":
        """Means and standard deviations over these rows."""
        return cls(columns.mean(axis=0), spread(columns))

    def __call__(
        self, columns: Float[np.ndarray, "row column"]
    ) -> Float[np.ndarray, "row column"]:
        return (columns - self.center) / self.scale


def spread(columns: Float[np.ndarray, "row column"]) -> Float[np.ndarray, " column"]:
    """Standard deviations, with one in place of those lost in rounding error."""
    deviation = columns.std(axis=0)
    varies = deviation > ROUNDING * np.abs(columns).max(axis=0, initial=0.0)
    return np.where(varies, deviation, 1.0)
