"""Shards of a scanned panel in other processes: the same sums, whoever dies."""

import numpy as np
import polars as pl
import pytest
from counted import DiesOnce

import deeppqr
from deeppqr.cluster import Cores, RayCluster
from deeppqr.panel.scan import _scan
from deeppqr.worlds import PaperWorld

ROWS = 3_000


@pytest.fixture
def scanned(tmp_path, monkeypatch):
    """Two files of 30 units each, in four shards, a third of the units in memory."""
    monkeypatch.setattr(_scan, "CORE_ROWS", ROWS // 3)
    monkeypatch.setattr(_scan, "SHARD_ROWS", ROWS // 4)
    world = PaperWorld(p=2, reward_scale=5.0, seed=1)
    frame = world.simulate(steps=ROWS, units=60, seed=2).to_frame()
    for half in (False, True):
        part = frame.filter((pl.col("unit") >= 30) == half)
        part.write_parquet(tmp_path / f"{half}.parquet")
    columns = {"state": ["x1", "x2"], "action": "action", "unit": "unit", "time": "time"}
    return deeppqr.Panel.scan(tmp_path, **columns)


def totals(scanned, work, run) -> np.ndarray:
    found = scanned.everyone(run).sum(work, 500, map)
    return np.concatenate(found)


@pytest.mark.slow
def test_a_killed_process_costs_its_shard_and_not_the_sum(scanned, tmp_path):
    expected = totals(scanned, _after_the_death(tmp_path / "here"), None)
    (tmp_path / "there").mkdir()
    died = DiesOnce(str(tmp_path / "there"))
    found = totals(scanned, died, Cores(2).run)
    np.testing.assert_array_equal(found, expected)
    assert (tmp_path / "there" / "died").exists()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # Ray's own sockets
@pytest.mark.filterwarnings(r"ignore:os\.fork\(\) was called:RuntimeWarning")
def test_two_ray_nodes_give_the_fit_of_one_process(scanned, tmp_path, ray_address):
    """Also where a worker is killed in the middle; sums are added in the shards' order."""
    model, cluster = deeppqr.PQR(discount=0.9, anchor=0), RayCluster(ray_address)
    (tmp_path / "there").mkdir()
    expected = totals(scanned, _after_the_death(tmp_path / "here"), None)
    found = totals(scanned, DiesOnce(str(tmp_path / "there")), cluster.run)
    np.testing.assert_array_equal(found, expected)
    states = scanned.core.state
    one = model.fit(scanned).reward(states)
    several = model.fit(scanned, executor=cluster).reward(states)
    np.testing.assert_allclose(several, one, atol=1e-6 * one.std(), rtol=0)


def _after_the_death(folder) -> DiesOnce:
    folder.mkdir()
    (folder / "died").touch()
    return DiesOnce(str(folder))
