"""Evaluates functions on many rows in chunks, to bound memory and compilations."""

from collections.abc import Callable, Iterator

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ._row_threads import over_blocks

# Rows evaluated at once on the host. A design of 5,000 rows, 5 actions and 500 columns
# takes 100 MB; twice the rows take twice that and no less time.
HOST_ROWS = 5_000
# Rows handed to a compiled function, rounded up to a power of two between these: nine
# sizes to compile for at most. Below 256 rows a call costs the same as for 256.
MIN_COMPILED, MAX_COMPILED = 256, 65_536


def row_slices(number: int, size: int) -> Iterator[slice]:
    """Slices of `size` rows, the last one shorter, that cover `number` rows."""
    for first in range(0, number, size):
        yield slice(first, first + size)


def in_chunks(
    function: Callable[[np.ndarray], np.ndarray], rows: np.ndarray, size: int = HOST_ROWS
) -> np.ndarray:
    """The function at many rows, at most `size` at a time."""
    if len(rows) <= size:
        return function(rows)
    # Parts of even size: a remainder of a few rows would cost a call of its own.
    parts = np.array_split(rows, -(-len(rows) // size))
    return np.concatenate(list(over_blocks(function, parts)))


def in_compiled_chunks(
    function: Callable[[Array], Array], rows: Float[np.ndarray, "row input"]
) -> Float[np.ndarray, "first row ..."]:
    """A compiled function at all rows, which are the second axis of what it returns."""
    found = []
    for first in range(0, max(len(rows), 1), MAX_COMPILED):
        part = rows[first : first + MAX_COMPILED]
        size = max(MIN_COMPILED, 1 << (len(part) - 1).bit_length())
        # Padded with zeros, whose outputs are cut off: XLA compiles for each new shape.
        padded = np.zeros((size, rows.shape[1]), rows.dtype)
        padded[: len(part)] = part
        values = np.asarray(function(jnp.asarray(padded)), dtype=np.float64)
        found.append(values[:, : len(part)])
    return np.concatenate(found, axis=1)
