"""However a study ends, its folder is whole, the next run goes on, and nobody is left."""

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest
from counted import marks

DRIVER = """
import sys, counted
from deeppqr.cli import main
import deeppqr_studies
deeppqr_studies.STUDIES["counted"] = counted.Counted()
sys.exit(main())
"""
SEEDS = [str(seed) for seed in range(6)]
PATIENCE = 120.0
"""Seconds, on a machine with other work to do."""


def command(tmp_path, executor, out="run"):
    (tmp_path / "marks").mkdir(exist_ok=True)
    words = ["study", "counted", "--out", str(tmp_path / out), "--seeds", *SEEDS]
    words += ["--folder", str(tmp_path / "marks"), "--pause", "0.3"]
    return [*words, "--executor", executor]


def start(words):
    """A driver in a process group of its own, as a terminal starts it."""
    path = [str(Path(__file__).parent), *filter(None, sys.path)]
    return subprocess.Popen(
        [sys.executable, "-c", DRIVER, *words],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def finished(tmp_path):
    """What is written of each finished task, and when."""
    files = sorted((tmp_path / "run" / "tasks").glob("[!.]*.json"))
    return {file.name: (file.read_bytes(), file.stat().st_mtime_ns) for file in files}


def wait_until(true, what):
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def descendants(pid):
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in map(int, (task / "children").read_text().split()):
            found += [child, *descendants(child)]
    return found


def is_agent(pid):
    return b"Agent" in Path(f"/proc/{pid}/cmdline").read_bytes()


def alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


def stop_midway(tmp_path, executor, stop):
    """The status and last words of a driver stopped with two tasks finished or more."""
    driver = start(command(tmp_path, executor))
    try:
        wait_until(lambda: len(finished(tmp_path)) >= 2, "no task was finished")
        # Two agents of Ray leave a minute after a killed driver, by themselves.
        helpers = [pid for pid in descendants(driver.pid) if not is_agent(pid)]
        stop(driver)
        _, said = driver.communicate(timeout=PATIENCE)
    finally:
        driver.kill()
    assert helpers or executor == "here"
    wait_until(lambda: not any(map(alive, helpers)), f"{helpers}: one was left behind")
    return driver.returncode, said


def check_resumed(tmp_path, words):
    """Go on, and compare with a run that nothing stopped."""
    before = finished(tmp_path)
    assert 2 <= len(before) < len(SEEDS)
    driver = start(words)
    _, said = driver.communicate(timeout=PATIENCE)
    assert driver.returncode == 0, said
    after = finished(tmp_path)
    assert len(after) == len(SEEDS)
    assert {name: after[name] for name in before} == before
    times = {
        f"seed={seed}.json": len(ran) for seed, ran in marks(tmp_path / "marks").items()
    }
    assert all(times[name] == 1 for name in before)
    table = pl.read_csv(tmp_path / "run" / "table.csv")
    assert table["seed"].to_list() == list(range(6))


@pytest.mark.parametrize(
    ("executor", "number"),
    [
        ("cores:2", signal.SIGINT),
        pytest.param("here", signal.SIGTERM, marks=pytest.mark.slow),
    ],
    ids=["cores-SIGINT", "here-SIGTERM"],
)
def test_an_interrupt_says_how_to_go_on(tmp_path, executor, number):
    status, said = stop_midway(
        tmp_path, executor, lambda driver: os.killpg(driver.pid, number)
    )
    assert status == 130
    assert "finished tasks are kept. Go on with:" in said
    assert "Traceback" not in said
    program, *words = shlex.split(said.splitlines()[-1])
    assert program == "deeppqr"
    assert ("--executor" in words) == (executor != "here")
    check_resumed(tmp_path, words)


@pytest.mark.slow
def test_a_killed_driver_loses_nothing(tmp_path):
    status, _ = stop_midway(tmp_path, "cores:2", lambda driver: driver.kill())
    assert status == -signal.SIGKILL
    check_resumed(tmp_path, command(tmp_path, "here"))


@pytest.mark.slow
def test_termination_ends_the_workers_too(tmp_path):
    status, said = stop_midway(tmp_path, "cores:2", lambda driver: driver.terminate())
    assert status == 130, said
    check_resumed(tmp_path, command(tmp_path, "cores:2"))


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_driver_of_ray_loses_nothing(tmp_path, number):
    pytest.importorskip("ray")
    status, said = stop_midway(tmp_path, "ray", lambda driver: os.kill(driver.pid, number))
    assert status == (-number if number == signal.SIGKILL else 130), said
    check_resumed(tmp_path, command(tmp_path, "cores:2"))
