"""Intervals from standard errors, and the check of their level."""

from functools import partial

import numpy as np
from jaxtyping import Float
from scipy.special import ndtri, stdtrit

from .._errors import DataError


def check_level(level: float) -> None:
    """Refuse what is not a probability of coverage."""
    number = isinstance(level, (int, float, np.number)) and not isinstance(level, bool)
    if not (number and 0 < level < 1):
        raise DataError(f"`level` must lie between 0 and 1, such as 0.95, not {level!r}.")


def normal_interval(
    estimate: np.ndarray, error: np.ndarray, level: float, *, df: float = np.inf
) -> Float[np.ndarray, "end *shape"]:
    """Low and high ends of the interval estimate +- z se, or t se with `df` finite."""
    check_level(level)
    quantile = ndtri if np.isinf(df) else partial(stdtrit, df)
    margin = quantile((1 + level) / 2) * error
    return np.stack([estimate - margin, estimate + margin])
