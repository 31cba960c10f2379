"""Executors by name, as the command line takes them."""

from .._errors import DataError
from ._cores import Cores
from ._executor import Executor, Here
from ._ray import RayCluster

NAMES = "here, cores, cores:N, ray or ray:ADDRESS"


def resolve(executor: str | Executor) -> Executor:
    """The executor with this name; an executor object is returned as it is."""
    if isinstance(executor, Executor):
        return executor
    # At the first colon: an address such as ray:HOST:PORT has more.
    name, colon, rest = str(executor).partition(":")
    if name == "here" and not colon:
        return Here()
    if name == "cores" and (not colon or (rest.isdecimal() and int(rest) > 0)):
        return Cores(int(rest) if colon else None)
    if name == "ray" and (not colon or rest):
        return RayCluster(rest or None)
    raise DataError(
        f"`executor` must be {NAMES}, with N a number of processes and ADDRESS that of a "
        f"Ray cluster, but it is {executor!r}."
    )
