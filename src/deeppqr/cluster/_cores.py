"""All cores: one supervised process per worker, each with an item at a time."""

import multiprocessing
import os
import pickle
import signal
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any

from .._errors import DeepPQRError
from ._executor import (
    Call,
    CannotSend,
    Executor,
    Failed,
    Results,
    check_count,
    why_lost,
)
from ._thread import environment, of_worker
from ._worker import READY, UNUSABLE, serve

PATIENCE = 5.0
"""Seconds that an idle worker has to leave by itself."""


@dataclass(frozen=True)
class Cores(Executor):
    """Processes on this machine, `workers` of them, by default one per core.

    They are new ones, not forks: forking a process that runs JAX may hang. A script that
    uses them must call them below `if __name__ == "__main__":`.
    """

    workers: int | None = None
    retries: int = 2
    """How often an item is tried again whose process was lost."""

    def __post_init__(self):
        check_count("workers", self.workers, 1)
        check_count("retries", self.retries, 0)

    def run(self, call: Call, items: Sequence[Any]) -> Results:
        crew = _Crew(packed(call), items, self.retries)
        try:
            for _ in range(min(self.workers or num_cores(), len(items))):
                crew.hire()
            while crew.busy:
                yield from crew.listen()
        finally:
            crew.dismiss()


@dataclass(eq=False)
class _Worker:
    process: Any
    connection: Connection
    position: int | None = None
    """The item it works on."""
    ready: bool = False


@dataclass(eq=False)
class _Crew:
    """The workers, what is left to do, and how often each item has lost its process."""

    call: bytes
    items: Sequence[Any]
    retries: int
    workers: list[_Worker] = field(default_factory=list)
    lost: dict[int, int] = field(default_factory=dict)
    false_starts: int = 0

    def __post_init__(self):
        self.left = deque(range(len(self.items)))

    @property
    def busy(self) -> bool:
        return bool(self.left) or any(w.position is not None for w in self.workers)

    def hire(self) -> None:
        """Start one more worker; it says when it is ready."""
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=serve, args=(theirs,), daemon=True)
        worker = _Worker(process, ours)
        with environment(of_worker()), _interrupts_wait():
            process.start()
            self.workers.append(worker)
        theirs.close()  # so that our end closes when the worker's does

    def listen(self) -> Iterator[tuple[int, Any]]:
        """What the workers have to say now; those that fell silent are replaced."""
        doors = {worker.connection: worker for worker in self.workers}
        for door in wait(list(doors)):
            worker = doors[door]  # pyright: ignore
            try:
                message = worker.connection.recv_bytes()
            except (EOFError, OSError):
                yield from self.replace(worker)
            else:
                yield from self.hear(worker, message)

    def hear(self, worker: _Worker, message: bytes) -> Iterator[tuple[int, Any]]:
        """Pass on a result, if it is one, and give the worker its next item."""
        if message.startswith(UNUSABLE):
            raise CannotSend(cannot_send(message.removeprefix(UNUSABLE).decode()))
        if message == READY:
            worker.ready, self.false_starts = True, 0
            tell(worker, self.call)
        else:
            position, worker.position = worker.position, None
            assert position is not None
            yield position, unpacked(message)
        if self.left:
            worker.position = self.left.popleft()
            tell(worker, packed(self.items[worker.position]))

    def replace(self, worker: _Worker) -> Iterator[tuple[int, Any]]:
        """A lost worker's item goes to another, unless it was lost too often."""
        worker.process.join()
        self.workers.remove(worker)
        worker.connection.close()
        code = worker.process.exitcode
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        position = worker.position
        if position is not None:
            self.lost[position] = self.lost.get(position, 0) + 1
            if self.lost[position] > self.retries:
                yield position, Failed(why_lost(self.lost[position], how))
            else:
                self.left.appendleft(position)
        elif not worker.ready:
            self.refuse_false_starts(how)
        if self.left:
            self.hire()

    def refuse_false_starts(self, how: str) -> None:
        self.false_starts += 1
        if self.false_starts > self.retries:
            raise DeepPQRError(
                f"A worker process ended before it was ready ({how}), "
                f"{self.false_starts} times in a row; what it printed is above. In a "
                'script, run executors below `if __name__ == "__main__":`, or use the '
                'executor "here".'
            )

    def dismiss(self) -> None:
        """End every worker: idle ones leave by themselves, the others are made to."""
        for worker in self.workers:
            worker.connection.close()
            if worker.position is not None or not worker.ready:
                worker.process.kill()
        for worker in self.workers:
            worker.process.join(PATIENCE)
            worker.process.kill()
            worker.process.join()
            worker.process.close()
        self.workers.clear()


def num_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def tell(worker: _Worker, message: bytes) -> None:
    """Send a message; that a worker is gone is noticed when it is listened to."""
    try:
        worker.connection.send_bytes(message)
    except OSError:
        pass


def packed(value: Any) -> bytes:
    try:
        return pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    except Exception as problem:
        raise CannotSend(cannot_send(str(problem))) from problem


def unpacked(message: bytes) -> Any:
    try:
        return pickle.loads(message)
    except Exception as problem:
        return Failed(f"its result could not be read: {type(problem).__name__}: {problem}")


def cannot_send(problem: str) -> str:
    return (
        f"Work for other processes must be such that Python can send it, but {problem}. "
        'Use functions defined in a file rather than on the spot, or the executor "here".'
    )


@contextmanager
def _interrupts_wait() -> Iterator[None]:
    """Hold Ctrl-C back here, and for good in processes started here: we end those."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # it lets them through when it starts
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGTERM])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
