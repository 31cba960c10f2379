"""Runs items on a Ray cluster, each as a task that takes one CPU of any machine."""

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from .._errors import DataError, DeepPQRError
from ..provenance import code_digest, versions
from ._executor import (
    Call,
    CannotSend,
    Executor,
    Failed,
    Results,
    attempt,
    check_count,
    why_lost,
)
from ._thread import worker_environment


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
        check_count("workers", self.workers, 1)
        check_count("retries", self.retries, 0)
        if importlib.util.find_spec("ray") is None:
            raise DataError(
                "The executor ray needs the library Ray, which is not installed: "
                "pip install 'deeppqr[cluster]'."
            )

    def run(self, call: Call, items: Sequence[Any]) -> Results:
        from ._ray_session import connected

        with connected(self.address, self.workers) as session:
            import ray

            task = ray.remote(
                num_cpus=1,
                max_retries=self.retries,
                # An exception in the call would be raised again: it depends on the item.
                retry_exceptions=False,
                runtime_env={"env_vars": {**worker_environment(), **session.variables}},
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
    import socket

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
        why = _last_line(str(getattr(problem, "cause", problem)))
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


def _last_line(text: str) -> str:
    return text.strip().splitlines()[-1].strip() if text.strip() else "it did not say why"
