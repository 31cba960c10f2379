"""Runs items on all cores: one supervised process per worker, one item at a time each.

Not `concurrent.futures.ProcessPoolExecutor`: there, one process killed for want of memory
breaks the pool and every item that was queued; here its item is tried again elsewhere.
"""

import multiprocessing
import os
import pickle
import signal
import threading
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
    attempt,
    check_counts,
    why_lost,
)
from ._thread import environment, worker_environment

# Seconds. An idle worker exits as soon as its pipe closes; only a hung one is killed.
EXIT_TIMEOUT = 5.0
# Messages of a worker other than pickled results, which never begin like this.
READY = b"ready"
UNUSABLE = b"unusable "


@dataclass(frozen=True)
class Cores(Executor):
    """Processes on this machine, `workers` of them, by default one per core.

    Processes are spawned, not forked: forking a process that runs JAX may deadlock. A
    script must therefore start them below `if __name__ == "__main__":`.
    """

    workers: int | None = None
    retries: int = 2
    """How often an item is tried again after its process was killed or crashed."""

    def __post_init__(self):
        check_counts(self.workers, self.retries)

    def run(self, call: Call, items: Sequence[Any]) -> Results:
        pool = _WorkerPool(pickled(call), items, self.retries)
        try:
            for _ in range(min(self.workers or num_cores(), len(items))):
                pool.start_worker()
            while pool.busy:
                yield from pool.receive()
        finally:
            pool.stop()


@dataclass(eq=False)
class _Worker:
    process: Any
    connection: Connection
    position: int | None = None
    """The item it works on."""
    ready: bool = False


@dataclass(eq=False)
class _WorkerPool:
    """The workers, the items not yet handed out, and how often each item's process died."""

    call: bytes
    items: Sequence[Any]
    retries: int
    workers: list[_Worker] = field(default_factory=list)
    lost: dict[int, int] = field(default_factory=dict)
    failed_starts: int = 0

    def __post_init__(self):
        self.pending = deque(range(len(self.items)))

    @property
    def busy(self) -> bool:
        return bool(self.pending) or any(w.position is not None for w in self.workers)

    def start_worker(self) -> None:
        """Start one more process; it sends `READY` once it has imported what it needs."""
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=serve, args=(theirs,), daemon=True)
        worker = _Worker(process, ours)
        # A spawned process reads its environment before it imports anything.
        with environment(worker_environment()), _signals_blocked():
            process.start()
            self.workers.append(worker)
        theirs.close()  # so that our end closes when the worker's does

    def receive(self) -> Iterator[tuple[int, Any]]:
        """Wait for messages and yield the results among them; replace dead workers."""
        of_connection = {worker.connection: worker for worker in self.workers}
        for connection in wait(list(of_connection)):
            worker = of_connection[connection]  # pyright: ignore
            try:
                message = worker.connection.recv_bytes()
            except (EOFError, OSError):
                yield from self.replace(worker)
            else:
                yield from self.handle(worker, message)

    def handle(self, worker: _Worker, message: bytes) -> Iterator[tuple[int, Any]]:
        """Yield the message's result, if it is one, and send the worker its next item."""
        if message.startswith(UNUSABLE):
            raise CannotSend(cannot_send(message.removeprefix(UNUSABLE).decode()))
        if message == READY:
            worker.ready, self.failed_starts = True, 0
            send(worker, self.call)
        else:
            position, worker.position = worker.position, None
            assert position is not None
            yield position, unpickled(message)
        if self.pending:
            worker.position = self.pending.popleft()
            send(worker, pickled(self.items[worker.position]))

    def replace(self, worker: _Worker) -> Iterator[tuple[int, Any]]:
        """Start another worker for a dead one's item, or give the item up as failed."""
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
                # First in the queue: an item that kills its process is then given up
                # after its retries, not after everything else has run.
                self.pending.appendleft(position)
        elif not worker.ready:
            self.failed_starts += 1
            # A new one would die too. Usually it is a script without
            # `if __name__ == "__main__":`, which spawns itself again.
            if self.failed_starts > self.retries:
                raise DeepPQRError(
                    f"A worker process ended before it was ready ({how}), "
                    f"{self.failed_starts} times in a row; what it printed is above. In a "
                    'script, run executors below `if __name__ == "__main__":`, or use the '
                    'executor "here".'
                )
        if self.pending:
            self.start_worker()

    def stop(self) -> None:
        """End every worker: idle ones exit as their pipe closes, busy ones are killed."""
        for worker in self.workers:
            worker.connection.close()
            if worker.position is not None or not worker.ready:
                worker.process.kill()
        for worker in self.workers:
            worker.process.join(EXIT_TIMEOUT)
            worker.process.kill()
            worker.process.join()
            worker.process.close()
        self.workers.clear()


def num_cores() -> int:
    """Cores that this process may use."""
    # In a container or under a batch system these may be fewer than the machine has.
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def send(worker: _Worker, message: bytes) -> None:
    """Send a message. A dead worker is no error here: `receive` finds its pipe closed."""
    try:
        worker.connection.send_bytes(message)
    except OSError:
        pass


def pickled(value: Any) -> bytes:
    try:
        return pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    except Exception as problem:
        raise CannotSend(cannot_send(str(problem))) from problem


def unpickled(message: bytes) -> Any:
    try:
        return pickle.loads(message)
    except Exception as problem:
        return Failed(
            f"its result could not be unpickled: {type(problem).__name__}: {problem}"
        )


def cannot_send(problem: str) -> str:
    return (
        f"Work for other processes must be picklable, but {problem}. Use functions "
        'defined at the top level of a file, or the executor "here".'
    )


def serve(connection: Connection) -> None:
    """A worker: receive a call once, then items, until the other end is closed.

    Pickle is used only on the pipe between a worker and the process that started it.
    Nothing read from a file or a network is unpickled.
    """
    if hasattr(signal, "pthread_sigmask"):  # SIGINT stays blocked: the parent ends us
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    try:
        connection.send_bytes(READY)
        message = connection.recv_bytes()
        try:
            call = pickle.loads(message)
        except Exception as problem:
            text = f"{type(problem).__name__}: {problem}"
            connection.send_bytes(UNUSABLE + text.encode())
            os._exit(0)
        while True:
            result = attempt(call, pickle.loads(connection.recv_bytes()))
            connection.send_bytes(_result_bytes(result))
    except (EOFError, OSError):
        os._exit(0)  # without Python's shutdown, in which unloading JAX takes time


def _result_bytes(result) -> bytes:
    try:
        return pickle.dumps(result, protocol=pickle.HIGHEST_PROTOCOL)
    except Exception as problem:
        text = f"{type(problem).__name__}: {problem}"
        return pickle.dumps(Failed(f"its result could not be pickled: {text}"))


def _exit_with_parent() -> None:
    """Exit when the parent does, even if it was killed and closed nothing."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


@contextmanager
def _signals_blocked() -> Iterator[None]:
    """Block SIGINT and SIGTERM in this block, and in the processes started in it.

    Ctrl-C reaches every process of the terminal's group. Workers ignore it, so that the
    parent alone decides what to keep, prints one message, and ends them.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    # Starting the resource tracker unblocks the signals again, so it must run already.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGTERM])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
