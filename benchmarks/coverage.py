"""Errors of the default fit and coverage of its intervals, over replicates of worlds.

    python benchmarks/coverage.py firms:20 smooth-3-4:24 paper-5-1:24 --out rows.csv

Replicate i has a world and a panel of its own seeds, except that the firms' world is one.
`paper-P-S` is the paper's world with P variables at scale S and 10,000 decisions, or as
many as in `paper-P-S-N`; `smooth-D-A` has D variables, A actions and 10,000 decisions.
NMSE is that of benchmarks/engine.py. Coverage is that of 95 % intervals: at the states
scored, of each action's mean reward over the rows in which it was taken, and of its average
slope in each number at the states scored; z is the error of such a mean over its standard
error, and "signs" the share of average slopes whose sign is right. Replicates run in as
many processes as there are cores, each on one thread. Rows already in the file are not run
again: a study that was stopped goes on.
"""

import argparse
import multiprocessing
import os
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import engine
import numpy as np
import polars as pl

from deeppqr import PQR, Panel
from deeppqr.worlds import FirmWorld, PaperWorld, SmoothWorld


@dataclass(frozen=True)
class Case:
    """A panel whose truth is known, with the states at which its fit is judged."""

    model: PQR
    panel: Panel
    states: Any
    truth: np.ndarray
    known: Any
    """The anchor's reward at the states."""
    reward: Callable[[np.ndarray], np.ndarray]
    slope: Callable[[str], np.ndarray]
    """The average slopes of all actions' rewards in a column at the states."""


def build(kind: str, replicate: int) -> Case:
    name, *sizes = kind.split("-")
    seed = 3001 + replicate
    if name == "firms":
        model, panel, states, truth, known = engine.firms(seed=seed)
        world = FirmWorld(seed=0)
        slope = lambda column: np.array([world.slopes[a][column] for a in world.actions])
        return Case(model, panel, states, truth, known, world.reward, slope)
    if name == "paper":
        p, scale, steps = int(sizes[0]), float(sizes[1]), int([*sizes, 10_000][2])
        model, panel, states, truth, known = engine.paper(p, scale, steps, seed)
        world = PaperWorld(p=p, reward_scale=scale, seed=seed)
        inside = np.abs(states).max(axis=1) < p - 0.01  # slopes are taken on both sides
        states, truth = states[inside], truth[inside]
    else:
        dim, actions = map(int, sizes)
        model, panel, states, truth, known = engine.smooth(dim, actions, 10_000, seed)
        world = SmoothWorld(dim=dim, num_actions=actions, seed=seed, labels=True)

    def slope(column: str) -> np.ndarray:
        step, place = np.zeros(states.shape[1]), panel.encoding.names.index(column)
        step[place] = 1e-3 * states[:, place].std()
        change = world.reward(states + step) - world.reward(states - step)
        return change.mean(axis=0) / (2 * step[place])

    return Case(model, panel, states, truth, known, world.reward, slope)


def score(task: tuple[str, int]) -> dict[str, object]:
    """One replicate's figures."""
    kind, replicate = task
    warnings.simplefilter("ignore")
    case = build(kind, replicate)
    start = time.perf_counter()
    fit = case.model.fit(case.panel)
    fitted = time.perf_counter()
    low, high = fit.interval(case.states)
    spent = time.perf_counter()
    others = np.arange(len(fit.actions)) != fit.actions.index(fit.anchor)
    gap = (fit.reward(case.states) - case.truth)[:, others]
    z = z_of_means(fit, case)
    slope_z, signs = slopes(fit, case, others)
    return {
        "kind": kind,
        "replicate": replicate,
        "seconds": fitted - start,
        "interval seconds": spent - fitted,
        "nmse": float((gap**2).mean() / ((case.truth - case.known)[:, others] ** 2).mean()),
        "covered": float(((low <= case.truth) & (case.truth <= high))[:, others].mean()),
        "means covered": float((np.abs(z) < 1.96).mean()),
        "mean z": float(np.mean(z)),
        "rms z": float(np.sqrt(np.mean(np.square(z)))),
        "slopes covered": float((np.abs(slope_z) < 1.96).mean()),
        "signs": float(signs.mean()),
    }


def z_of_means(fit, case: Case) -> np.ndarray:
    """The errors of mean rewards where an action was taken, over their standard errors."""
    found = fit.average(case.panel, taken=True).frame()
    truth, z = case.reward(case.panel.state), []
    for action, estimate, error in found["action", "estimate", "standard_error"].rows():
        place = [str(label) for label in fit.actions].index(str(action))
        rows = case.panel.action == place
        if error > 0:
            z.append((estimate - truth[rows, place].mean()) / error)
    return np.array(z)


def slopes(fit, case: Case, others: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Errors of average slopes over their standard errors, and whether signs are right."""
    z, signs = [], []
    for column in fit.encoding.columns:
        if column.kind == "categorical":
            continue
        truth = case.slope(column.name)[others]
        found = fit.slopes(column.name, case.states)
        errors = found.frame()["standard_error"].to_numpy()
        z.extend((found.values - truth) / errors)
        signs.extend(np.sign(found.values) == np.sign(truth))
    return np.array(z), np.array(signs)


def tasks(asked: list[str], done: set[tuple[str, int]]) -> Iterator[tuple[str, int]]:
    for part in asked:
        kind, _, replicates = part.partition(":")
        for number in range(int(replicates or 1)):
            if (kind, number) not in done:
                yield kind, number


def run(asked: list[str], out: Path | None, minutes: float) -> pl.DataFrame:
    """The rows, those of the file first; written after each replicate."""
    rows = pl.read_csv(out).to_dicts() if out is not None and out.exists() else []
    done = {(str(row["kind"]), int(row["replicate"])) for row in rows}
    end = time.monotonic() + 60 * minutes
    workers = len(os.sched_getaffinity(0))
    with ProcessPoolExecutor(
        workers, mp_context=multiprocessing.get_context("spawn")
    ) as pool:
        left = tasks(asked, done)
        running = {pool.submit(score, task) for task in islice(left, workers)}
        while running:
            finished = next(as_completed(running))
            running.remove(finished)
            rows.append(finished.result())
            if out is not None:
                write(rows, out)
            task = next(left, None)
            if task is not None and time.monotonic() < end:
                running.add(pool.submit(score, task))
    return pl.DataFrame(rows)


def write(rows: list[dict], out: Path) -> None:
    part = out.with_suffix(".part")
    pl.DataFrame(rows).sort("kind", "replicate").write_csv(part, float_precision=4)
    part.replace(out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("asked", nargs="+", metavar="KIND:REPLICATES")
    parser.add_argument("--out", type=Path, help="CSV file with a row per replicate")
    parser.add_argument("--minutes", type=float, default=600.0, help="stop after so many")
    arguments = parser.parse_args()
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", JAX_PLATFORMS="cpu")
    rows = run(arguments.asked, arguments.out, arguments.minutes)
    mean = rows.group_by("kind", maintain_order=True).agg(
        pl.len().alias("replicates"),
        pl.col("seconds", "nmse", "covered", "means covered", "slopes covered").mean(),
        pl.col("signs", "mean z").mean(),
        pl.col("covered").min().alias("least covered"),
        pl.col("rms z").pow(2).mean().sqrt(),
    )
    with pl.Config(tbl_rows=-1, tbl_cols=-1, tbl_width_chars=140, float_precision=4):
        print(mean)


if __name__ == "__main__":
    main()
