"""Scaling columns."""

import numpy as np
from jaxtyping import Float


def spread(columns: Float[np.ndarray, "row column"]) -> Float[np.ndarray, " column"]:
    """Standard deviations, with one in place of those lost in rounding error."""
    deviation = columns.std(axis=0)
    varies = deviation > 1e-10 * np.abs(columns).max(axis=0, initial=0.0)
    return np.where(varies, deviation, 1.0)
