"""Calls a user's function of the states; errors say what it gets and must return."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._errors import DataError, DeepPQRError


def call_with_states(
    function: Callable[[np.ndarray], Any],
    states: np.ndarray,
    *,
    role: str,
    names: Sequence[str],
    shape: tuple[int, ...],
    returns: str,
) -> np.ndarray:
    """What a user's function returns for these states, as an array of the right shape.

    Parameters
    ----------
    states
        The state columns as the user gave them: float64, or objects where a column is
        categorical.
    role, names
        The argument the function came by, and the names of the columns.
    shape, returns
        What must come back, in numbers and in words.
    """
    kind = "objects, as some are categorical" if states.dtype == object else "numbers"
    given = (
        f"It is given a NumPy array of shape {states.shape}, no DataFrame, with the state "
        f"columns {list(names)} in this order ({kind}): {names[0]!r} is states[:, 0]."
    )
    try:
        returned = np.asarray(function(states))
    # Our own errors already say what to do, such as states that a table does not know.
    except DeepPQRError:
        raise
    except Exception as problem:
        raise DataError(
            f"The function passed as `{role}` failed with {type(problem).__name__}: "
            f"{str(problem).rstrip('.')}. {given} It must return {returns}, shape {shape}."
        ) from problem
    if returned.shape != shape:
        raise DataError(
            f"`{role}` must give {returns}, shape {shape}, but the function returned "
            f"shape {returned.shape}. {given}"
        )
    return returned
