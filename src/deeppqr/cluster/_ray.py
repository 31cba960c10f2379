"""Runs items on a Ray cluster, each as a task that takes one CPU of any machine."""

import importlib.util
import logging
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from .._errors import DataError, DeepPQRError
from ..provenance import code_digest, versions
from ._cores import num_cores
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

QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # silences a FutureWarning
}
FOLDER_PREFIX = "deeppqr-ray-"
# Seconds for a TCP connection to the head node. Within a network it takes milliseconds;
# without this check `ray.init` retries an address where nothing runs for minutes.
CONNECT_TIMEOUT = 10.0


@dataclass(frozen=True)
class RayCluster(Executor):
    """The cluster at `address`, or one that is started on this machine and ended again.

    Its machines must have the same deeppqr, Python, JAX, NumPy, SciPy and scikit-learn as
    this one, which is checked. CPUs of another vendor may differ in the last digits.
    """

    address: str | None = None
    """As `ray.init` takes it: HOST:PORT, "auto" for one on this machine, ray://HOST:PORT.
    Where this process is connected already, None stands for that cluster."""
    workers: int | None = None
    """How many items run at a time; by default as many as there are CPUs."""
    retries: int = 2
    """How often an item is tried again after its process or machine failed."""

    def __post_init__(self):
        check_counts(self.workers, self.retries)
        if importlib.util.find_spec("ray") is None:
            raise DataError(
                "The executor ray needs the library Ray, which is not installed: "
                "pip install 'deeppqr[cluster]'."
            )

    def run(self, call: Call, items: Sequence[Any]) -> Results:
        with connected(self.address, self.workers) as variables:
            import ray

            task = ray.remote(
                num_cpus=1,
                max_retries=self.retries,
                # An exception in the call would be raised again: it depends on the item.
                retry_exceptions=False,
                runtime_env={"env_vars": {**worker_environment(), **variables}},
            )(run_item)
            # The call holds the panel: stored once in the cluster, not sent with each item.
            shared, here = ray.put(_pickled(call)), _installed()
            running, left = {}, iter(enumerate(items))
            while True:
                # Submitted as workers become free, so that a large list of items does not
                # wait in the cluster's memory.
                room = None if self.workers is None else self.workers - len(running)
                for position, item in islice(left, room):
                    running[task.remote(shared, _pickled(item), here)] = position
                if not running:
                    return
                done, _ = ray.wait(list(running), num_returns=1)
                for reference in done:
                    position = running.pop(reference)
                    yield position, _result(reference, self.retries)


@dataclass(frozen=True)
class _Mismatch:
    """Returned instead of a result by a machine whose packages differ."""

    machine: str
    differences: list[str]


def _installed() -> dict[str, str]:
    return {**versions(), "deeppqr's files": code_digest()}


def run_item(call: bytes, item: bytes, expected: dict[str, str]) -> Any:
    """The task that Ray runs: check the packages, then apply the call to the item."""
    from ray import cloudpickle

    # Checked by the task itself: machines may join the cluster at any time.
    here = _installed()
    differences = [
        f"{name} {here.get(name)} where this one has {value}"
        for name, value in expected.items()
        if here.get(name) != value
    ]
    if differences:
        return _Mismatch(socket.gethostname(), differences)
    return attempt(cloudpickle.loads(call), cloudpickle.loads(item))


def _result(reference: Any, retries: int) -> Any:
    """A task's result, or `Failed`; raises where every other item would fail as well."""
    import ray
    from ray import exceptions

    lost = (
        exceptions.WorkerCrashedError,
        exceptions.NodeDiedError,
        exceptions.OutOfMemoryError,
        exceptions.ObjectLostError,
    )
    try:
        result = ray.get(reference)
    except lost as problem:
        return Failed(why_lost(retries + 1, f"with {type(problem).__name__}"))
    except exceptions.RayTaskError as problem:
        # `attempt` catches what the call raises, so this is from loading it or `run_item`.
        said = str(getattr(problem, "cause", problem)).strip().splitlines()
        why = said[-1].strip() if said else "it did not say why"
        raise DeepPQRError(
            f"A worker of the Ray cluster could not run this work: {why}. "
            "Its machines must be able to import the same deeppqr and the modules that "
            "the work is defined in: pip install them there."
        ) from problem
    if isinstance(result, _Mismatch):
        raise DeepPQRError(
            "The machines of a Ray cluster must have what this one has, but "
            f"{result.machine} has {'; '.join(result.differences)}. Install the same "
            "there, or here, and run again: what was finished is kept."
        )
    return result


def _pickled(value: Any) -> bytes:
    from ray import cloudpickle

    try:
        return cloudpickle.dumps(value)  # pyright: ignore[reportPrivateImportUsage]
    except Exception as problem:
        raise CannotSend(
            f"Work for a Ray cluster must be picklable by cloudpickle, but {problem}."
        ) from problem


@contextmanager
def connected(address: str | None, workers: int | None) -> Iterator[dict[str, str]]:
    """A block with a connection; it is closed only if it was opened here.

    It gives the environment variables that this cluster's workers need.
    """
    with environment(QUIET):
        import ray

    if ray.is_initialized():
        there = ray.get_runtime_context().gcs_address
        if address not in (None, "auto", there):
            raise DeepPQRError(
                f"This process is connected to the Ray cluster at {there}, but {address} "
                "was asked for. Call ray.shutdown() first, or leave the address out."
            )
        yield {}
    elif address is None:
        with _local_cluster(workers) as variables:
            yield variables
    else:
        try:
            _check_reachable(address)
            with environment(QUIET), _sigterm_handler_kept():
                ray.init(address, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, OSError, RuntimeError, ValueError) as problem:
            raise DeepPQRError(
                f"No Ray cluster can be reached at {address}: {_first_line(problem)}. "
                "Start one with `ray start --head`, and give the address that it prints."
            ) from problem
        try:
            yield {}
        finally:
            ray.shutdown()  # ends our tasks and leaves the cluster


@contextmanager
def _local_cluster(workers: int | None) -> Iterator[dict[str, str]]:
    """A cluster on this machine, shut down and its files deleted at the end."""
    import ray

    # Ray puts Unix sockets in this folder, and their paths may have 107 characters at
    # most: a long TMPDIR leaves too few.
    root = "/tmp" if os.path.isdir("/tmp") else None
    folder = tempfile.mkdtemp(prefix=FOLDER_PREFIX, dir=root)
    try:
        with environment(QUIET), _sigterm_handler_kept(), warnings.catch_warnings():
            # JAX warns of any fork. Ray's are followed by exec at once, which is safe.
            warnings.filterwarnings("ignore", r"os\.fork\(\) was called", RuntimeWarning)
            ray.init(
                "local",
                num_cpus=workers or num_cores(),
                include_dashboard=False,
                log_to_driver=False,
                logging_level=logging.ERROR,
                _temp_dir=folder,
            )
        yield {"PYTHONPATH": _search_path()}
    finally:
        ray.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


def _check_reachable(address: str) -> None:
    """Raise an OSError if nothing listens at the address."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_TIMEOUT).close()


def _search_path() -> str:
    """PYTHONPATH for workers on this machine: as `sys.path` here, this deeppqr first."""
    home = str(Path(__file__).resolve().parents[2])
    known = [os.path.abspath(folder) for folder in sys.path]
    return os.pathsep.join(dict.fromkeys([home, *known]))


@contextmanager
def _sigterm_handler_kept() -> Iterator[None]:
    """Restore the SIGTERM handler that `ray.init` replaces.

    Ray's handler exits at once; ours first says how to resume what was interrupted.
    """
    main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if main and before is not None:
            signal.signal(signal.SIGTERM, before)


def _first_line(problem: Exception) -> str:
    return (str(problem).strip().splitlines() or [type(problem).__name__])[0].rstrip(".")
