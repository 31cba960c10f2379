"""Errors of the default fit and coverage of its intervals, over replicates of worlds.

    python benchmarks/coverage.py firms:20 smooth-3-4:24 paper-5-1:24 --out rows.csv

Replicate i has a world and a panel of its own seeds, except that the firms' world is one.
`paper-P-S` is the paper's world with P variables at scale S and 10,000 decisions, or as
many as in `paper-P-S-N`; `smooth-D-A` has D variables, A actions and 10,000 decisions.
NMSE is that of benchmarks/engine.py. Coverage is that of 95 % intervals: at the states
scored, and of each action's mean reward over the rows in which it was taken; z is the
error of that mean over its standard error. Replicates run in as many processes as there
are cores, each on one thread.
"""

import argparse
import multiprocessing
import os
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

import engine
import numpy as np
import polars as pl

from deeppqr.worlds import FirmWorld


def build(kind: str, replicate: int):
    """The model, the panel, states to score, true rewards there and in the panel's rows."""
    name, *sizes = kind.split("-")
    seed = 3001 + replicate
    if name == "firms":
        model, panel, states, truth, known = engine.firms(seed=seed)
        return model, panel, states, truth, known, FirmWorld(seed=0).reward(panel.state)
    if name == "paper":
        p, scale, steps = int(sizes[0]), float(sizes[1]), int([*sizes, 10_000][2])
        made = engine.paper(p, scale, steps, seed)
        world = engine.PaperWorld(p=p, reward_scale=scale, seed=seed)
    else:
        dim, actions = map(int, sizes)
        made = engine.smooth(dim, actions, 10_000, seed)
        world = engine.SmoothWorld(dim=dim, num_actions=actions, seed=seed, labels=True)
    return *made, world.reward(made[1].state)


def score(task: tuple[str, int]) -> dict[str, object]:
    """One replicate's figures."""
    kind, replicate = task
    warnings.simplefilter("ignore")
    model, panel, states, truth, known, in_rows = build(kind, replicate)
    start = time.perf_counter()
    fit = model.fit(panel)
    seconds = time.perf_counter() - start
    others = np.arange(len(fit.actions)) != fit.actions.index(fit.anchor)
    gap = (fit.reward(states) - truth)[:, others]
    low, high = fit.interval(states)
    z = [z_of_mean(fit, panel, in_rows, action) for action in np.flatnonzero(others)]
    return {
        "kind": kind,
        "replicate": replicate,
        "seconds": seconds,
        "nmse": float((gap**2).mean() / ((truth - known)[:, others] ** 2).mean()),
        "covered": float(((low <= truth) & (truth <= high))[:, others].mean()),
        "means covered": float((np.abs(z) < 1.96).mean()),
        "mean z": float(np.mean(z)),
        "rms z": float(np.sqrt(np.mean(np.square(z)))),
    }


def z_of_mean(fit, panel, truth: np.ndarray, action: int) -> float:
    """The error of an action's mean reward where it was taken, over its standard error."""
    rows = np.flatnonzero(panel.action == action)
    found = fit.reward(panel.encoding.decode(panel.state[rows]))[:, action]
    slopes = fit.reward_function.slopes(panel.state[rows], panel.action[rows]).mean(axis=0)
    error = np.sqrt(slopes @ fit.reward_function.covariance @ slopes)
    return float((found - truth[rows, action]).mean() / error)


def tasks(asked: list[str]) -> Iterator[tuple[str, int]]:
    for part in asked:
        kind, _, replicates = part.partition(":")
        yield from ((kind, number) for number in range(int(replicates or 1)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("asked", nargs="+", metavar="KIND:REPLICATES")
    parser.add_argument("--out", help="CSV file with a row per replicate")
    arguments = parser.parse_args()
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", JAX_PLATFORMS="cpu")
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(os.cpu_count(), mp_context=context) as pool:
        rows = pl.DataFrame(list(pool.map(score, tasks(arguments.asked))))
    if arguments.out:
        rows.write_csv(arguments.out, float_precision=4)
    mean = rows.group_by("kind", maintain_order=True).agg(
        pl.len().alias("replicates"),
        pl.col("seconds", "nmse", "covered", "means covered", "mean z").mean(),
        pl.col("covered").min().alias("least covered"),
        pl.col("rms z").pow(2).mean().sqrt(),
    )
    with pl.Config(tbl_rows=-1, tbl_cols=-1, tbl_width_chars=120, float_precision=4):
        print(mean)


if __name__ == "__main__":
    main()
