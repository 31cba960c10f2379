"""Executors: what runs a list of independent items, and the simplest of them.

The same call on the same item gives the same result whatever the executor, since each
runs on one thread and an item carries everything that its result depends on.
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
    """Work for other processes cannot be sent there."""


@dataclass(frozen=True)
class Failed:
    """In place of a result: why there is none."""

    message: str
    traceback: str = ""
    """Where the call raised an exception; empty where its process was lost."""


class Executor(ABC):
    """Runs a call on each of many items."""

    @abstractmethod
    def run(self, call: Call, items: Sequence[Any]) -> Results:
        """The position of each item with its result, in order of completion.

        An exception in the call is the result of its item alone, as `Failed`. So is the
        loss of the process it ran in, once it has been tried again as often as allowed.
        Closing the iterator stops whatever still runs.
        """


@dataclass(frozen=True)
class Here(Executor):
    """One item after the other, in this process.

    JAX takes its number of threads when it first computes. Where it has done so before,
    with more than one, networks may differ from other executors' in the last digits;
    set NPROC=1 before Python starts to avoid that.
    """

    def run(self, call: Call, items: Sequence[Any]) -> Results:
        for position, item in enumerate(items):
            with environment(one_thread()), limited():
                result = attempt(call, item)
            yield position, result


def attempt(call: Call, item: Any) -> Any:
    """The result of a call, or `Failed` with the exception it ended in."""
    try:
        return call(item)
    except Exception as problem:
        return Failed(f"{type(problem).__name__}: {problem}", traceback.format_exc())


def check_count(name: str, value: int | None, least: int) -> None:
    """Refuse what is not a whole number of `least` or more; None is for the default."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    if value is not None and (not whole or value < least):
        raise DataError(
            f"`{name}` must be a whole number, {least} or more, but it is {value!r}."
        )


def why_lost(times: int, how: str) -> str:
    """What is said of an item whose process was lost too often."""
    again = f"{times} times" if times > 1 else "once"
    return (
        f"the process it ran in was lost {again}, the last time {how}. If memory ran out, "
        "run fewer at a time: cores:N, or RayCluster(workers=N)"
    )
