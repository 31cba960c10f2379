"""Connects to a Ray cluster, or starts one on this machine, and disconnects again."""

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
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # silences a FutureWarning
}
FOLDER_PREFIX = "deeppqr-ray-"
# Seconds for a TCP connection to the head node. Within a network it takes milliseconds;
# without this check `ray.init` retries an address where nothing runs for minutes.
CONNECT_TIMEOUT = 10.0


@dataclass(frozen=True)
class Session:
    """Environment variables that this cluster's workers need."""

    variables: dict[str, str] = field(default_factory=dict)


@contextmanager
def connected(address: str | None, workers: int | None) -> Iterator[Session]:
    """A block with a connection; it is closed only if it was opened here."""
    with environment(QUIET):
        import ray

    # The user's own connection is used as it is, and left open.
    if ray.is_initialized():
        _refuse_other_cluster(address)
        yield Session()
    elif address is None:
        with _local_cluster(workers) as session:
            yield session
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
            yield Session()
        finally:
            ray.shutdown()  # ends our tasks and leaves the cluster


@contextmanager
def _local_cluster(workers: int | None) -> Iterator[Session]:
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
        yield Session({"PYTHONPATH": _search_path()})
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


def _refuse_other_cluster(address: str | None) -> None:
    import ray

    there = ray.get_runtime_context().gcs_address
    if address not in (None, "auto", there):
        raise DeepPQRError(
            f"This process is connected to the Ray cluster at {there}, but {address} was "
            "asked for. Call ray.shutdown() first, or leave the address out."
        )


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
