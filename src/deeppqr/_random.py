"""Seeds for NumPy and scikit-learn from JAX keys, and checks of seeds."""

from typing import Any

import jax.random as jr
import numpy as np
from jaxtyping import PRNGKeyArray

from ._errors import DataError


def check_seed(seed: Any) -> None:
    """Raise unless the seed is an integer, zero or more."""
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise DataError(f"`seed` must be a whole number, 0 or more, but it is {seed!r}.")


def numpy_rng(key: PRNGKeyArray) -> np.random.Generator:
    """A NumPy generator seeded by a key."""
    # The key's words and not an integer drawn from it: no key is lost to collisions.
    return np.random.default_rng(np.asarray(jr.key_data(key)))


def integer_seed(key: PRNGKeyArray) -> int:
    """A seed for a `random_state`."""
    # scikit-learn takes 32-bit seeds.
    return int(jr.randint(key, (), 0, np.iinfo(np.int32).max))
