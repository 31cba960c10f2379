"""Where replicates run: here, on all cores, or on a Ray cluster, with the same results."""

from ._cores import Cores as Cores
from ._executor import Executor as Executor
from ._executor import Failed as Failed
from ._executor import Here as Here
from ._ray import RayCluster as RayCluster
from ._resolve import resolve as resolve
from ._thread import single_thread as single_thread
