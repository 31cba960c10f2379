"""A Ray cluster of two machines, as far as Ray can tell, for all tests of this folder."""

import shutil
import tempfile
from pathlib import Path

import counted
import pytest

from deeppqr.cluster._ray import QUIET
from deeppqr.cluster._thread import environment

NODE = {"num_cpus": 1, "include_dashboard": False}


@pytest.fixture(scope="module")
def ray_address():
    """Of a cluster of two nodes with a CPU each."""
    folder = tempfile.mkdtemp(prefix="ray", dir="/tmp")  # sockets need a short path
    (Path(folder) / "ray").mkdir()
    with environment({**QUIET, "RAY_TMPDIR": folder}):
        from ray import cloudpickle
        from ray.cluster_utils import Cluster

        cloudpickle.register_pickle_by_value(counted)  # the nodes have no tests
        cluster = Cluster(initialize_head=True, head_node_args=NODE)
        try:
            cluster.add_node(**NODE)
            yield cluster.address
        finally:
            cluster.shutdown()
            shutil.rmtree(folder, ignore_errors=True)
