"""From JAX keys to the seeds that host libraries want."""

import jax.random as jr
import numpy as np
from jaxtyping import PRNGKeyArray


def numpy_rng(key: PRNGKeyArray) -> np.random.Generator:
    """A NumPy generator seeded by a key."""
    return np.random.default_rng(np.asarray(jr.key_data(key)))


def integer_seed(key: PRNGKeyArray) -> int:
    """A seed for a `random_state`."""
    return int(jr.randint(key, (), 0, np.iinfo(np.int32).max))
