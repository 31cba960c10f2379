"""A Ray cluster of two machines, as far as Ray can tell: the same results as here."""

import importlib

import jax.numpy as jnp
import numpy as np
import pytest
from counted import Counted, marks

import deeppqr
from deeppqr import DeepPQRError
from deeppqr.cluster import Here, RayCluster
from deeppqr.cluster._ray import connected
from deeppqr.inference import RewardAt
from deeppqr.worlds import random_tabular
from deeppqr_studies import find_study, run_study

pytest.importorskip("ray")
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # Ray's own sockets
    pytest.mark.filterwarnings(r"ignore:os\.fork\(\) was called:RuntimeWarning"),
]

SEEDS = [3, 1, 4, 5]
STATES = np.arange(7.0)[:, None]
ZERO = np.zeros((7, 3))


@pytest.fixture
def address(ray_address):
    return ray_address


def run(executor, tmp_path, name, **settings):
    folder = tmp_path / f"{name}-marks"
    folder.mkdir()
    settings = {"seeds": SEEDS, "folder": str(folder), **settings}
    outcome = run_study(Counted(), tmp_path / name, settings, executor=executor)
    return outcome, (tmp_path / name / "table.csv").read_bytes(), marks(folder)


@pytest.mark.slow
def test_two_nodes_give_the_same_bytes_and_lose_nothing(address, tmp_path):
    """A task that kills its process is run again, and the others exactly once."""
    settings = {"fatal": [4], "pause": 1.0}
    outcome, table, where = run(RayCluster(address), tmp_path, "ray", **settings)
    assert outcome.failures == {}
    assert {seed: len(times) for seed, times in where.items()} == {
        seed: 2 if seed == 4 else 1 for seed in SEEDS
    }
    assert len({node for nodes in where.values() for node in nodes}) == 2
    assert table == run(Here(), tmp_path, "here")[1]


@pytest.mark.slow
def test_trouble_with_every_task_is_raised(address, monkeypatch):
    module = importlib.import_module("deeppqr.cluster._ray")
    other = {**module._installed(), "deeppqr": "0.0"}
    monkeypatch.setattr(module, "_installed", lambda: other)
    with pytest.raises(DeepPQRError, match=r"has deeppqr .* where this one has 0\.0"):
        list(RayCluster(address).run(abs, [1]))


@pytest.mark.slow
def test_modules_that_the_machines_lack_are_named(address, tmp_path, monkeypatch):
    (tmp_path / "elsewhere.py").write_text("def call(item):\n    return item\n")
    monkeypatch.syspath_prepend(tmp_path)
    call = importlib.import_module("elsewhere").call
    with pytest.raises(DeepPQRError, match=r"No module named 'elsewhere'.*pip install"):
        list(RayCluster(address).run(call, [1]))


@pytest.mark.slow
def test_only_one_cluster_at_a_time(address):
    with (
        connected(address, None),
        pytest.raises(DeepPQRError, match="is connected to the Ray cluster at"),
    ):
        list(RayCluster("127.0.0.1:1").run(abs, [1]))


@pytest.mark.slow
def test_a_task_that_always_loses_its_process_is_told(address, tmp_path):
    executor = RayCluster(address, workers=1, retries=0)
    outcome, _, where = run(executor, tmp_path, "ray", fatal=[4], seeds=[4, 5])
    assert list(outcome.failures) == ["seed=4"]
    assert "died once, the last time" in outcome.failures["seed=4"]
    assert {seed: len(times) for seed, times in where.items()} == {4: 1, 5: 1}


@pytest.mark.slow
def test_a_real_study_gives_the_same_bytes(address, tmp_path):
    study = find_study("bus-known-cost")
    settings = {"seeds": [1, 2], "trajectories": [50], "methods": ["projection", "nfxp"]}
    settings |= {"covered_trajectories": [50], "replications": 2}
    tables = []
    for executor in (Here(), RayCluster(address)):
        folder = tmp_path / type(executor).__name__
        assert run_study(study, folder, settings, executor=executor).failures == {}
        tables.append((folder / "table.csv").read_bytes())
    assert tables[0] == tables[1]


def test_no_cluster_at_an_address():
    with pytest.raises(DeepPQRError, match=r"No Ray cluster can be reached at 127.0.0.1:1"):
        list(RayCluster("127.0.0.1:1").run(abs, [1]))


@pytest.mark.slow
def test_a_bootstrap_gives_the_same():
    """On a cluster of its own, beside a JAX that runs already.

    The last of this file: a process that has left a cluster of its own does not get along
    with the one of two nodes any more.
    """
    panel = random_tabular(seed=4).simulate(steps=2_000, units=20, seed=5)
    model = deeppqr.PQR(
        discount=0.9, anchor=0, policy="logit", anchor_value="exact", reward="table"
    )
    jnp.ones(2).sum().block_until_ready()
    draws = [
        deeppqr.bootstrap(
            model, panel, RewardAt(STATES), replicates=3, estimate=ZERO, executor=executor
        ).draws
        for executor in ("here", RayCluster(workers=1))
    ]
    np.testing.assert_array_equal(draws[0], draws[1])
