"""The benchmarks' own half: what runs without the packages they compare with."""

import importlib.util
import os
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy.special import log_softmax, logsumexp

PEERS = Path(__file__).parents[1] / "benchmarks/bus_peers.py"
DOCS = PEERS.parents[1] / "docs"

pytestmark = pytest.mark.skipif(
    not PEERS.exists(), reason="benchmarks/ is in the repository, not in the sdist"
)


def load(name: str):
    spec = importlib.util.spec_from_file_location(name, PEERS.parent / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def peers():
    return load("bus_peers")


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


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: page.stem)
def test_tables_of_the_pages_are_those_of_the_files(page):
    """`python benchmarks/page_tables.py` writes them."""
    text = page.read_text(encoding="utf-8")
    assert load("page_tables").rewritten(text) == text


def test_units_are_rusts(peers):
    found = peers.in_rusts_units([0.002, 10.0], [0.0005, 1.5], -160.0, True)
    assert (found.theta, found.errors) == ([10.0, 2.0], [1.5, 0.5])


def test_a_fit_that_takes_too_long_is_named(peers):
    found = peers.measure_apart(("4", "econirl", "CCP"), limit=0.001)
    assert found == "stopped after 0.001 s"


def test_the_pendulum_is_gymnasiums(rng):
    """Moves and rewards of the benchmark against the environment's, from 50 states."""
    pytest.importorskip("gymnasium")
    from gymnasium.envs.classic_control.pendulum import PendulumEnv

    pendulum, env = load("pendulum"), PendulumEnv()
    env.reset(seed=0)
    for angle, speed, torque in rng.uniform([-3, -8, -2], [3, 8, 2], size=(50, 3)):
        env.state = np.array([angle, speed])
        seen, paid, *_ = env.step(np.array([torque]))
        ahead = pendulum.step(angle, speed, torque)
        np.testing.assert_allclose(pendulum.observed(*ahead)[0], seen, atol=1e-6)
        assert pendulum.reward(angle, speed, torque) == pytest.approx(paid)


def test_amounts_are_scored_once(tmp_path, monkeypatch):
    """A run that is started again computes what is not in the file, and nothing else."""
    continuous, table = load("continuous"), tmp_path / "rows.csv"
    asked = []

    def scored(*task):
        asked.append(task)
        return {"nmse": 0.5}

    monkeypatch.setattr(continuous, "errors", scored)
    worlds = list(continuous.WORLDS)
    continuous.run("errors", table, 1, worlds, ["amounts"])
    first = len(asked)
    assert first == len(continuous.WORLDS) * len(continuous.SIZES)
    continuous.run("errors", table, 2, worlds, ["amounts"])
    assert len(asked) == 2 * first
    assert len(set(asked)) == len(asked)


@pytest.fixture(scope="module")
def bench():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(PEERS.parent)  # it loads its neighbours, as a script does
        yield load("bench")


def test_the_error_is_one_where_all_earn_what_the_anchor_does(rng):
    truth, known = rng.normal(size=(9, 3)), rng.normal(size=(9, 1))
    cells = load("bench_cells")
    score = lambda found: cells.relative_error(found, truth, known, 1)
    assert score(np.repeat(known, 3, axis=1)) == pytest.approx(1.0)
    off = truth.copy()
    off[:, 1] = np.nan  # the anchor's own does not count
    assert score(off) == 0.0


def test_rows_of_cells_that_ran_again_replace_the_former(bench, tmp_path):
    path = tmp_path / "bench.csv"
    row = {"section": "s", "method": "ours", "cell": "p 5", "run": 0, "note": ""}
    bench.keep(path, [row | {"cold": 3.0}, row | {"method": "theirs", "cold": 60.0}])
    bench.keep(path, [row | {"cold": 2.0, "note": "stopped"}])
    kept = pl.read_csv(path)
    assert kept["method"].to_list() == ["theirs", "ours"]
    assert kept["cold"].to_list() == [60.0, 2.0]


def test_the_design_of_genpqr_satisfies_the_soft_bellman_equation(bench, rng):
    """Built backwards from the policy: Q = r + discount V(s'), V the log-sum of Q."""
    design = load("genpqr_design")
    world = design.Design(seed=1, shift=-1.0)
    states = rng.normal(size=(40, design.DIM)) * 2
    reward, value = world.reward(states), world.value(states)
    ahead = [world.value(world.ahead(states, action)) for action in range(5)]
    q = reward + design.DISCOUNT * np.stack(ahead, axis=1)
    # V is up to 40; sums of that size are right to 1e-14 of it.
    np.testing.assert_allclose(logsumexp(q, axis=1), value, atol=1e-11)
    np.testing.assert_allclose(log_softmax(q, axis=1), world.log_policy(states), atol=1e-11)
    np.testing.assert_allclose(reward[:, 0], 0, atol=1e-11)  # the anchor


def test_a_peer_that_is_not_installed_is_named(bench, monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(bench.PEERS, "imitation", tmp_path / ".venv-adapters")
    cell = bench.Cell("imitation AIRL", "paper", {"rows": 10, "p": 2, "steps": 10})
    assert bench.table("peers", [cell], None) == []
    said = "skipped: there is no .venv-adapters; make .venv-adapters/.ready"
    assert said in capsys.readouterr().out


def test_a_cell_that_fails_or_takes_too_long_says_so(bench):
    cell = bench.Cell("no such method", "paper", {})
    python = Path(sys.executable)
    found = bench.measure_apart(cell, 1, python, 60.0)
    assert found == "failed: KeyError: 'no such method'"
    assert bench.measure_apart(cell, 1, python, 0.001) == "stopped after 0.001 s"
