"""Time, memory and error of the default fit as rows grow, read from Parquet in shards.

    python benchmarks/scale.py 1e5 1e6            # scanned, one process each
    python benchmarks/scale.py 1e6 --in-memory    # the same data in memory, for comparison

The paper's world with p = 10 at scale 10, files of up to 500,000 rows and units of 1,000.
CPU seconds are those of all threads. The difference to the fit in memory is printed where
both were made: in units of the standard deviation of the rewards.
"""

import argparse
import multiprocessing
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

import deeppqr
from deeppqr.worlds import PaperWorld

P, SEED, FILE_ROWS, PATH = 10, 3001, 500_000, 1_000
COLUMNS = {
    "state": [f"x{i + 1}" for i in range(P)],
    "action": "a",
    "unit": "id",
    "time": "t",
}


def world() -> PaperWorld:
    return PaperWorld(p=P, reward_scale=10.0, seed=SEED)


def write(rows: int, folder: Path) -> None:
    """Files of decisions; no unit spans two of them."""
    each = min(rows, FILE_ROWS)
    for number in range(rows // each):
        panel = world().simulate(steps=each, units=each // PATH, seed=5 + number)
        states = {name: panel.state[:, i] for i, name in enumerate(COLUMNS["state"])}
        own = {"id": panel.unit + number * panel.num_units, "a": panel.action}
        clock = np.arange(each) % PATH
        frame = pl.DataFrame({**states, **own, "t": clock})
        frame.write_parquet(folder / f"part{number:04d}.parquet")


def measure(folder: Path, in_memory: bool) -> None:
    """One line of the table, and the rewards beside the data."""
    start, cpu = time.perf_counter(), time.process_time()
    if in_memory:
        panel = deeppqr.Panel.from_frame(pl.read_parquet(folder / "*.parquet"), **COLUMNS)
    else:
        panel = deeppqr.Panel.scan(folder, **COLUMNS)
    read = time.perf_counter() - start
    fit = deeppqr.PQR(discount=0.9, anchor=0).fit(panel)
    spent = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    states = world().simulate(steps=20_000, units=50, seed=200_000 + SEED).state[::10]
    truth, found = world().reward(states)[:, 1:], fit.reward(states)[:, 1:]
    error = float(((found - truth) ** 2).mean() / (truth**2).mean())
    figures = f"{read:>8.1f}{spent:>9.1f}{time.process_time() - cpu:>9.1f}{peak:>7.0f}"
    how, gap = "memory" if in_memory else "scanned", ""
    other = folder / f"{'scanned' if in_memory else 'memory'}.npy"
    np.save(folder / f"{how}.npy", found)
    if other.exists():
        gap = f"{np.abs(np.load(other) - found).max() / found.std():>10.1e}"
    print(f"{how:<9}{len(panel):>11,}{figures}{error:>9.4f}{gap}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="+", type=float)
    parser.add_argument("--in-memory", action="store_true", help="in memory as well")
    asked = parser.parse_args()
    print(
        f"{'data':<9}{'rows':>11}{'read':>8}{'seconds':>9}{'CPU':>9}{'MB':>7}{'error':>9}"
    )
    # A process each: peak memory is that of one fit.
    context = multiprocessing.get_context("spawn")
    for rows in map(int, asked.rows):
        with tempfile.TemporaryDirectory() as folder:
            write(rows, Path(folder))
            for in_memory in (False, True) if asked.in_memory else (False,):
                process = context.Process(target=measure, args=(Path(folder), in_memory))
                process.start()
                process.join()


if __name__ == "__main__":
    main()
