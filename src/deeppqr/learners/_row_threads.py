"""Spreads work on blocks of rows over threads, with results that do not depend on them.

NumPy releases the interpreter's lock while it computes, so that threads share the cores;
BLAS is held to one thread meanwhile, as its own would wait for one another. Results of
blocks are taken in the order of the rows: sums are rounded alike on any number of cores.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

Part = TypeVar("Part")
Result = TypeVar("Result")

_pool: ContextVar[tuple[ThreadPoolExecutor, int] | None] = ContextVar("pool", default=None)


@contextmanager
def row_threads() -> Iterator[None]:
    """A block in which blocks of rows are worked on by as many threads as BLAS may use.

    Where BLAS is held to one thread, because several processes share the cores, so are
    the blocks.
    """
    if _pool.get() is not None:
        yield
        return
    blas = _blas()
    allowed = max((library["num_threads"] for library in blas.info()), default=1)
    number = min(allowed, len(os.sched_getaffinity(0)) if _HAS_AFFINITY else allowed)
    with blas.limit(limits=1), ThreadPoolExecutor(number) as pool:
        token = _pool.set((pool, number))
        try:
            yield
        finally:
            _pool.reset(token)


@contextmanager
def blas_threads() -> Iterator[None]:
    """A block in which BLAS has the threads instead: for large matrices, between blocks."""
    found = _pool.get()
    if found is None or found[1] == 1:
        yield
        return
    with _blas().limit(limits=found[1]):
        yield


@cache
def _blas() -> ThreadpoolController:
    # Kept: looking for the libraries takes milliseconds.
    return ThreadpoolController().select(user_api="blas")


_HAS_AFFINITY = hasattr(os, "sched_getaffinity")


def over_blocks(work: Callable[[Part], Result], parts: Iterable[Part]) -> Iterator[Result]:
    """The results of `work` on each part, in their order."""
    # Inside a thread the variable is not set: blocks within blocks are not spread again.
    found = _pool.get()
    if found is None or found[1] == 1:
        yield from map(work, parts)
        return
    pool, number = found
    waiting = deque()
    # A few ahead and not all: results that wait to be summed take memory.
    for part in parts:
        waiting.append(pool.submit(work, part))
        if len(waiting) > number:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def sum_over_blocks(
    work: Callable[[Part], tuple[np.ndarray, ...]], parts: Iterable[Part]
) -> tuple[np.ndarray, ...]:
    """Sums, in float64, of the arrays that `work` returns for each part."""
    total: list[np.ndarray] = []
    for result in over_blocks(work, parts):
        if not total:
            total = [np.array(array, dtype=np.float64) for array in result]
            continue
        for sum_so_far, array in zip(total, result, strict=True):
            sum_so_far += array
    return tuple(total)
