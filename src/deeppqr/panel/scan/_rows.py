"""All rows of a panel, for sums over them: in memory, or in parts on disk."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._errors import DeepPQRError
from ..._shapes import Codes, PerRow, States

Sums = tuple[np.ndarray, ...]
RowSum = Callable[[States, Codes, PerRow], Sums]
"""Sums over some rows of what their states, actions and weights give."""
Run = Callable[[Callable[[Any], Any], list], Iterable[tuple[int, Any]]]
"""Calls a function with each of several items, somewhere: `Executor.run`."""
OverBlocks = Callable[[Callable[[slice], Sums], Iterable[slice]], Iterator[Sums]]
"""Calls a function with blocks of rows: `learners.over_blocks` spreads them over cores."""


class AllRows(ABC):
    """Every decision there is, of which estimation has a part in memory."""

    rows: int
    weight: float
    """The sum of all weights."""

    @abstractmethod
    def sum(self, work: RowSum, size: int, over: OverBlocks) -> Sums:
        """Sums of `work` over all rows, `size` of them at a time."""


@dataclass(frozen=True, eq=False)
class InMemory(AllRows):
    """Arrays of all rows."""

    state: States
    action: Codes
    mass: PerRow

    @property
    def rows(self) -> int:
        return len(self.action)

    @property
    def weight(self) -> float:
        return float(self.mass.sum())

    def sum(self, work, size, over):
        def block(rows: slice) -> Sums:
            return work(self.state[rows], self.action[rows], self.mass[rows])

        starts = range(0, self.rows, size)
        return added(over(block, (slice(first, first + size) for first in starts)))


@dataclass(frozen=True, eq=False)
class OnDisk(AllRows):
    """Shards, each read where its sum is taken; `run` says where that is."""

    shards: list
    rows: int
    weight: float
    run: Run | None = None

    def sum(self, work, size, over):
        if self.run is None:
            parts = (shard.rows().sum(work, size, over) for shard in self.shards)
            return added(parts)
        found: dict[int, Sums] = {}
        for place, result in self.run(_ShardSum(work, size), self.shards):
            if not isinstance(result, tuple):
                raise DeepPQRError(
                    f"The sum over shard {place + 1} of {len(self.shards)} failed: "
                    f"{result.message}. The other shards are as they were: fit again."
                )
            found[place] = result
        # In the shards' order, whichever came first: rounding is the same everywhere.
        return added(found[place] for place in range(len(self.shards)))


@dataclass(frozen=True, eq=False)
class _ShardSum:
    """The sum over one shard, in another process."""

    work: RowSum
    size: int

    def __call__(self, shard: Any) -> Sums:
        return shard.rows().sum(self.work, self.size, map)


def added(parts: Iterable[Sums]) -> Sums:
    """The sums of several parts, in float64."""
    total: list[np.ndarray] = []
    for part in parts:
        if not total:
            total = [np.array(array, dtype=np.float64) for array in part]
            continue
        for so_far, array in zip(total, part, strict=True):
            so_far += array
    return tuple(total)
