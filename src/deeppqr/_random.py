"""Seeds for NumPy and scikit-learn from JAX keys, and checks of seeds."""

from typing import Any

import jax.random as jr
import numpy as np
from jaxtyping import PRNGKeyArray

from ._errors import DataError

# JAX keeps the last 32 bits of a seed: larger ones would repeat smaller ones.
LARGEST_SEED = 2**32 - 1


def check_seed(seed: Any) -> None:
    """Raise unless the seed is an integer from zero to the largest that JAX tells apart."""
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise DataError(f"`seed` must be a whole number, 0 or more, but it is {seed!r}.")
    if seed > LARGEST_SEED:
        raise DataError(
            f"`seed` must be at most {LARGEST_SEED:,} (32 bits), but it is {seed}. Use "
            f"its last digits: {int(seed) % 10**9}."
        )


def numpy_rng(key: PRNGKeyArray) -> np.random.Generator:
    """A NumPy generator seeded by a key."""
    # The key's words and not an integer drawn from it: no key is lost to collisions.
    return np.random.default_rng(np.asarray(jr.key_data(key)))


def integer_seed(key: PRNGKeyArray) -> int:
    """A seed for a `random_state`."""
    # scikit-learn takes 32-bit seeds.
    return int(jr.randint(key, (), 0, np.iinfo(np.int32).max))
