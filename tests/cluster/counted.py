"""A study that counts how often each task runs, and can lose the process it runs in."""

import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from deeppqr_studies import Option, Study, Task


class Counted(Study):
    """A linear system per seed; a mark in `folder` for each time that a task starts."""

    name = "counted"
    title = "linear systems, counted"
    options: ClassVar = {
        "folder": Option(str, None, "", "where marks go"),
        "fatal": Option(int, "*", [], "seeds that kill their process"),
        "times": Option(int, None, 1, "how often they do"),
        "pause": Option(float, None, 0.0, "seconds that a task waits"),
    }

    def tasks(self, settings):
        shared = {name: settings[name] for name in ("folder", "times", "pause")}
        return [
            Task(f"seed={s}", {"seed": s, "fatal": s in settings["fatal"], **shared})
            for s in settings["seeds"]
        ]

    def run(self, task):
        about = task.parameters
        mark = Path(about["folder"]) / str(about["seed"])
        with mark.open("a") as file:
            file.write(f"{_where()}\n")
        time.sleep(about["pause"])
        if about["fatal"] and len(mark.read_text().splitlines()) <= about["times"]:
            os.kill(os.getpid(), signal.SIGKILL)
        rng = np.random.default_rng(about["seed"])
        solution = np.linalg.solve(rng.normal(size=(60, 60)), rng.normal(size=60))
        start = time.perf_counter()
        row = {"seed": about["seed"], "norm": float(solution @ solution)}
        return [{**row, "seconds": time.perf_counter() - start}]

    def report(self, frame, folder):
        return f"{len(frame)} rows, {frame['seconds'].sum():.0f} s"


def _where() -> str:
    """The process, and the machine of the cluster if it is one."""
    ray = sys.modules.get("ray")
    if ray is None or not ray.is_initialized():
        return str(os.getpid())
    return ray.get_runtime_context().get_node_id()


def marks(folder: Path) -> dict[int, list[str]]:
    """Where each task ran, once for each time that it did."""
    return {int(file.name): file.read_text().split() for file in sorted(folder.iterdir())}


@dataclass(frozen=True)
class DiesOnce:
    """Sums over rows whose process is killed the first time that it sees any."""

    folder: str

    def __call__(self, state, action, weight):
        mark = Path(self.folder) / "died"
        if not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return weight.sum(keepdims=True), weight @ state, np.bincount(action, weight, 5)
