"""Limits computations to one thread, so that results do not depend on the machine.

Sums split over threads are rounded in another order. BLAS and OpenMP can be limited at any
time, XLA only before JAX first computes: new processes get environment variables.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache

EIGEN = "--xla_cpu_multi_thread_eigen=false"
_BLAS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)


def one_thread() -> dict[str, str]:
    """Environment variables under which a new process computes on one thread."""
    flags = os.environ.get("XLA_FLAGS", "")
    return {
        **dict.fromkeys(_BLAS, "1"),
        # XLA takes the size of its thread pool from this, and results depend on that size;
        # the flag below is not enough.
        "NPROC": "1",
        "XLA_FLAGS": flags if EIGEN in flags else f"{flags} {EIGEN}".strip(),
    }


def worker_environment() -> dict[str, str]:
    """`one_thread`, and JAX on the CPU unless the user chose a platform.

    Each worker would otherwise reserve most of the same GPU's memory.
    """
    return {**one_thread(), "JAX_PLATFORMS": os.environ.get("JAX_PLATFORMS") or "cpu"}


@contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Environment variables that processes started inside this block inherit."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def single_thread() -> AbstractContextManager[None]:
    """A block in which new processes, and JAX if it has not started, use one thread."""
    return environment(one_thread())


def limited() -> AbstractContextManager:
    """A block in which BLAS and OpenMP use one thread in this process."""
    return _controller().limit(limits=1)


@lru_cache(maxsize=1)
def _controller():
    # threadpoolctl finds only libraries that are loaded; these two imports load NumPy's
    # and SciPy's BLAS and scikit-learn's OpenMP.
    import scipy.linalg
    import sklearn.utils
    from threadpoolctl import ThreadpoolController

    del scipy, sklearn
    return ThreadpoolController()
