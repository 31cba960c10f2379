"""The benchmarks' own half: what runs without the packages they compare with."""

import importlib.util
import os
from pathlib import Path

import pytest

PEERS = Path(__file__).parents[1] / "benchmarks/bus_peers.py"

pytestmark = pytest.mark.skipif(
    not PEERS.exists(), reason="benchmarks/ is in the repository, not in the sdist"
)


@pytest.fixture(scope="module")
def peers():
    spec = importlib.util.spec_from_file_location("bus_peers", PEERS)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.skipif(
    not os.environ.get("DEEPPQR_DATA"),
    reason="set DEEPPQR_DATA to the folder that holds bus/*.asc",
)
def test_our_half_prints_table_ix(peers, monkeypatch):
    monkeypatch.setattr(peers, "WARM_FITS", 1)
    cell = ("deeppqr", "NFXP, full", "4")
    row = peers.measure(cell[2], *cell[:2])
    assert row["rows"] == 4292
    assert row["converged"]
    assert row["theta"] == pytest.approx([10.0750, 2.2930], abs=2e-4)
    assert "10.0750 (1.5816)   2.2930 (0.6384)" in peers.line(*cell, row, None)
    rises = peers.increments((4,))
    assert [int((rises == rise).sum()) for rise in range(3)] == [1682, 2555, 55]


def test_units_are_rusts(peers):
    found = peers.in_rusts_units([0.002, 10.0], [0.0005, 1.5], -160.0, True)
    assert (found.theta, found.errors) == ([10.0, 2.0], [1.5, 0.5])


def test_a_fit_that_takes_too_long_is_named(peers):
    found = peers.measure_apart(("4", "econirl", "CCP"), limit=0.001)
    assert found == "stopped after 0.001 s"
