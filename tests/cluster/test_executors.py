"""Executors: the same results from all, and a lost process costs its own task alone."""

import json
import os
import pickle
import threading
import time

import polars as pl
import pytest
from counted import Counted, marks

import deeppqr
from deeppqr import DataError, DeepPQRError
from deeppqr.cluster import Cores, Here, RayCluster, resolve
from deeppqr.cluster._thread import EIGEN, environment, limited, one_thread
from deeppqr_studies import find_study, run_study
from deeppqr_studies._runner import _task_function

SEEDS = [3, 1, 4, 5, 9]
TINY = {
    "seeds": [1, 2],
    "trajectories": [50],
    "methods": ["projection", "nfxp"],
    "covered_trajectories": [50],
    "replications": 2,
}


@pytest.fixture
def count(tmp_path):
    """Run the counted study with an executor; its outcome, its folder and the marks."""

    def run(executor, name="run", **settings):
        folder = tmp_path / f"{name}-marks"
        folder.mkdir(exist_ok=True)
        settings = {"seeds": SEEDS, "folder": str(folder), **settings}
        outcome = run_study(Counted(), tmp_path / name, settings, executor=executor)
        return outcome, tmp_path / name, marks(folder)

    return run


def double(number):
    if number == 2:
        raise ArithmeticError("two")
    return lambda: 0 if number == 3 else None


def square(number):
    return number * number


def threads(number):
    from threadpoolctl import threadpool_info

    found = {pool["num_threads"] for pool in threadpool_info()}
    told = {name: os.environ.get(name) for name in ("NPROC", "OMP_NUM_THREADS")}
    return found, told, EIGEN in os.environ["XLA_FLAGS"]


def test_tables_are_the_same_bytes(count):
    _, here, _ = count(Here(), "here")
    outcome, cores, where = count(Cores(2), "cores")
    assert outcome.failures == {}
    assert all(len(times) == 1 for times in where.values())
    assert str(os.getpid()) not in {times[0] for times in where.values()}
    table = (here / "table.csv").read_bytes()
    assert (cores / "table.csv").read_bytes() == table
    assert pl.read_csv(table)["seed"].to_list() == SEEDS  # not in order of completion


@pytest.mark.slow
def test_a_real_study_gives_the_same_bytes(tmp_path):
    study = find_study("bus-known-cost")
    tables = []
    for executor in (Here(), Cores(2)):
        folder = tmp_path / type(executor).__name__
        assert run_study(study, folder, TINY, executor=executor).failures == {}
        tables.append((folder / "table.csv").read_bytes())
    assert tables[0] == tables[1]
    assert b"seconds" not in tables[0]


def test_times_stand_apart(count):
    _, folder, _ = count(Here())
    times = pl.read_csv(folder / "times.csv")
    assert times.columns == ["task", "seconds", "task_seconds"]
    assert times["task"].to_list() == [f"seed={seed}" for seed in SEEDS]
    assert (times["task_seconds"] >= 0).all()
    assert pl.read_csv(folder / "table.csv").columns == ["task", "seed", "norm"]


def test_a_lost_process_costs_its_own_task(count):
    outcome, folder, where = count(Cores(2), fatal=[4], pause=0.05)
    assert outcome.failures == {}
    assert {seed: len(times) for seed, times in where.items()} == {
        seed: 2 if seed == 4 else 1 for seed in SEEDS
    }
    _, other, _ = count(Here(), "here", pause=0.05)
    assert (folder / "table.csv").read_bytes() == (other / "table.csv").read_bytes()


def test_a_task_that_always_loses_its_process_is_told(count):
    outcome, folder, where = count(Cores(2, retries=1), fatal=[1], times=9)
    assert list(outcome.failures) == ["seed=1"]
    assert "died 2 times, the last time by SIGKILL" in outcome.failures["seed=1"]
    assert "run fewer at a time" in outcome.failures["seed=1"]
    assert len(where[1]) == 2
    assert all(len(where[seed]) == 1 for seed in SEEDS if seed != 1)
    kept = json.loads((folder / "tasks" / "seed=1.failed.json").read_text())
    assert kept["parameters"]["seed"] == 1


def test_finished_tasks_are_kept_while_others_run(count, tmp_path):
    """The driver writes each record when it arrives: seen while a later task waits."""
    seen = []

    def watch():
        for _ in range(600):
            seen.append(len(list((tmp_path / "run").glob("tasks/*.json"))))
            if seen[-1] == 3:
                return
            time.sleep(0.02)

    thread = threading.Thread(target=watch)
    thread.start()
    count(Cores(1), seeds=[1, 2, 3], pause=0.2)
    thread.join()
    assert {1, 2} <= set(seen)


def test_closing_ends_the_workers():
    results = Cores(2).run(square, [1, 2, 3])
    next(results)
    children = [p for p in _children() if "spawn_main" in p]
    assert len(children) == 2
    results.close()
    assert not [p for p in _children() if "spawn_main" in p]


def _children():
    """The command lines of this process's children."""
    found = []
    for task in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{task}/children") as file:
            for child in file.read().split():
                with open(f"/proc/{child}/cmdline") as command:
                    found.append(command.read())
    return found


@pytest.mark.parametrize("executor", [Here(), Cores(2)], ids=["here", "cores"])
def test_exceptions_are_results(executor):
    results = dict(executor.run(double, [1, 2, 3]))
    assert results[1].message == "ArithmeticError: two"
    assert "in double" in results[1].traceback
    if isinstance(executor, Cores):
        assert "its result could not be pickled" in results[2].message


def test_every_task_has_one_thread():
    ((_, (found, told, eigen)),) = Cores(1).run(threads, [0])
    assert found <= {1}
    assert set(told.values()) == {"1"}
    assert eigen
    before = os.environ.get("NPROC")
    ((_, (found, told, eigen)),) = Here().run(threads, [0])
    assert found == {1}
    assert set(told.values()) == {"1"}
    assert os.environ.get("NPROC") == before


def test_flags_of_the_user_are_kept():
    with environment({"XLA_FLAGS": "--xla_dump_to=x"}):
        assert one_thread()["XLA_FLAGS"] == f"--xla_dump_to=x {EIGEN}"
        with environment(one_thread()), limited():
            assert one_thread()["XLA_FLAGS"] == f"--xla_dump_to=x {EIGEN}"


def test_known_studies_travel_by_name():
    assert b"BusKnownCost" not in pickle.dumps(_task_function(find_study("bus-known-cost")))
    assert b"Counted" in pickle.dumps(_task_function(Counted()))


def test_nothing_to_do():
    assert list(Here().run(square, [])) == []
    assert list(Cores(2).run(square, [])) == []


def test_executors_are_found_by_name():
    assert resolve("here") == Here()
    assert resolve("cores") == Cores()
    assert resolve("cores:4") == Cores(4)
    assert resolve(Cores(3)) == Cores(3)
    pytest.importorskip("ray")
    assert resolve("ray") == RayCluster()
    assert resolve("ray:ray://head:10001") == RayCluster("ray://head:10001")


@pytest.mark.parametrize("name", ["", "core", "here:1", "cores:", "cores:two", "ray:"])
def test_other_names_are_refused(name):
    with pytest.raises(DataError, match="must be here, cores, cores:N, ray or ray:ADDRESS"):
        resolve(name)


def test_messages(monkeypatch):
    with pytest.raises(
        DataError, match="`executor` must be .* with N a number of processes"
    ):
        resolve("cores:0")
    with pytest.raises(DataError, match="`retries` must be a whole number, 0 or more"):
        Cores(retries=-1)
    with pytest.raises(
        match='must be picklable.* top level of a file, or the executor "here"'
    ):
        next(Cores(1).run(lambda number: number, [1]))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(DataError, match=r"pip install 'deeppqr\[cluster\]'"):
        resolve("ray")


def test_workers_that_cannot_start_are_told(monkeypatch):
    monkeypatch.setattr("deeppqr.cluster._cores.serve", os._exit)
    with pytest.raises(DeepPQRError, match=r'2 times in a row.*if __name__ == "__main__"'):
        next(Cores(1, retries=1).run(square, [1]))


def test_ray_is_not_imported_unasked():
    import subprocess
    import sys

    code = "import sys, deeppqr.cli, deeppqr.cluster; print('ray' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert found.stdout == "False\n"
    assert deeppqr.cluster.Here is Here
