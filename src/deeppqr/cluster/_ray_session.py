"""A connection to a Ray cluster, for as long as it is needed."""

import logging
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from .._errors import DeepPQRError
from ._cores import num_cores
from ._thread import environment

QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # or Ray warns of what it may do later
}
TEMPORARY = "deeppqr-ray-"
KNOCK = 10.0
"""Seconds that the head of a cluster has to answer."""


@dataclass(frozen=True)
class Session:
    """What workers of this cluster need in their environment."""

    variables: dict[str, str] = field(default_factory=dict)


@contextmanager
def connected(address: str | None, workers: int | None) -> Iterator[Session]:
    """Be connected to a cluster in this block; only what was begun here is ended."""
    with environment(QUIET):
        import ray

    if ray.is_initialized():
        _refuse_other(address)
        yield Session()
    elif address is None:
        with _started(workers) as session:
            yield session
    else:
        try:
            _knock(address)
            with environment(QUIET), _handler_kept():
                ray.init(address, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, OSError, RuntimeError, ValueError) as problem:
            raise DeepPQRError(
                f"No Ray cluster can be reached at {address}: {_first_line(problem)}. "
                "Start one with `ray start --head`, and give the address that it prints."
            ) from problem
        try:
            yield Session()
        finally:
            ray.shutdown()  # ends our tasks and leaves the cluster


@contextmanager
def _started(workers: int | None) -> Iterator[Session]:
    """A cluster on this machine alone, which leaves no files behind."""
    import ray

    # Ray's sockets lie in this folder, and their paths must be short.
    root = "/tmp" if os.path.isdir("/tmp") else None
    folder = tempfile.mkdtemp(prefix=TEMPORARY, dir=root)
    try:
        with environment(QUIET), _handler_kept(), warnings.catch_warnings():
            # JAX minds any fork; each of Ray's becomes another program at once.
            warnings.filterwarnings("ignore", r"os\.fork\(\) was called", RuntimeWarning)
            ray.init(
                "local",
                num_cpus=workers or num_cores(),
                include_dashboard=False,
                log_to_driver=False,
                logging_level=logging.ERROR,
                _temp_dir=folder,
            )
        yield Session({"PYTHONPATH": _search_path()})
    finally:
        ray.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


def _knock(address: str) -> None:
    """Raise an OSError where nobody answers: Ray would try for many minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), KNOCK).close()


def _search_path() -> str:
    """Of workers on this machine: what can be imported here, this deeppqr first."""
    home = str(Path(__file__).resolve().parents[2])
    known = [os.path.abspath(folder) for folder in sys.path]
    return os.pathsep.join(dict.fromkeys([home, *known]))


def _refuse_other(address: str | None) -> None:
    import ray

    there = ray.get_runtime_context().gcs_address
    if address not in (None, "auto", there):
        raise DeepPQRError(
            f"This process is connected to the Ray cluster at {there}, but {address} was "
            "asked for. Call ray.shutdown() first, or leave the address out."
        )


@contextmanager
def _handler_kept() -> Iterator[None]:
    """Ray takes SIGTERM for itself, and would end without our saying how to go on."""
    main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if main and before is not None:
            signal.signal(signal.SIGTERM, before)


def _first_line(problem: Exception) -> str:
    return (str(problem).strip().splitlines() or [type(problem).__name__])[0].rstrip(".")
