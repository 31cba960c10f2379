"""Compiled functions of many rows, in pieces of few sizes: each size is compiled once."""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

MIN_PIECE, MAX_PIECE = 256, 65_536
"""Rows that are evaluated at once, powers of two."""


def in_even_pieces(
    function: Callable[[Array], Array], inputs: Float[np.ndarray, "row input"]
) -> Float[np.ndarray, "first row ..."]:
    """The function at all rows, which are the second axis of what it returns."""
    found = []
    for first in range(0, max(len(inputs), 1), MAX_PIECE):
        piece = inputs[first : first + MAX_PIECE]
        size = max(MIN_PIECE, 1 << (len(piece) - 1).bit_length())
        padded = np.zeros((size, inputs.shape[1]), inputs.dtype)
        padded[: len(piece)] = piece
        values = np.asarray(function(jnp.asarray(padded)), dtype=np.float64)
        found.append(values[:, : len(piece)])
    return np.concatenate(found, axis=1)
