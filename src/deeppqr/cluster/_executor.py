"""The interface of executors, which run a call on many items, and the sequential one.

A call gives the same result for an item under every executor: each runs on one thread, and
an item holds everything its result depends on, its random key included.
"""

import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any

from .._errors import DataError
from ._thread import environment, limited, one_thread

Call = Callable[[Any], Any]
Results = Generator[tuple[int, Any], None, None]


class CannotSend(DataError):
    """The call or an item cannot be pickled."""


@dataclass(frozen=True)
class Failed:
    """Returned instead of a result: why there is none."""

    message: str
    traceback: str = ""
    """Where the call raised an exception; empty where its process was lost."""


class Executor(ABC):
    """Runs a call on each of many items."""

    @abstractmethod
    def run(self, call: Call, items: Sequence[Any]) -> Results:
        """The position of each item with its result, in order of completion.

        If the call raises, its item's result is `Failed`, and the others go on. The same
        holds if the process dies and the item's retries are used up. Closing the iterator
        stops what still runs.
        """


@dataclass(frozen=True)
class Here(Executor):
    """Runs one item after the other in this process.

    JAX fixes its number of threads when it first computes. If it has already done so with
    more than one, networks may differ from other executors' in the last digits; set
    NPROC=1 before Python starts to avoid that.
    """

    def run(self, call: Call, items: Sequence[Any]) -> Results:
        for position, item in enumerate(items):
            # The same limits as in a worker process, for the same digits.
            with environment(one_thread()), limited():
                result = attempt(call, item)
            yield position, result


def attempt(call: Call, item: Any) -> Any:
    """The result of a call, or `Failed` with the exception it ended in."""
    try:
        return call(item)
    # As text: an exception may hold what cannot be pickled. KeyboardInterrupt is not an
    # Exception, and stops the run.
    except Exception as problem:
        return Failed(f"{type(problem).__name__}: {problem}", traceback.format_exc())


def check_counts(workers: Any, retries: Any) -> None:
    """Raise unless both are integers, 1 or 0 and more, or None (the default)."""
    for name, value, least in (("workers", workers, 1), ("retries", retries, 0)):
        whole = isinstance(value, int) and not isinstance(value, bool)
        if value is not None and (not whole or value < least):
            raise DataError(
                f"`{name}` must be a whole number, {least} or more, but it is {value!r}."
            )


def why_lost(times: int, how: str) -> str:
    """The message for an item whose process died once more than it may be retried."""
    again = f"{times} times" if times > 1 else "once"
    return (
        f"the process it ran in died {again}, the last time {how}. If memory ran out, "
        "run fewer at a time: cores:N, or RayCluster(workers=N)"
    )
