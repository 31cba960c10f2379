"""Time, memory and error of the default fit as rows grow, read from Parquet in shards.

    python benchmarks/scale.py 1e5 1e6            # scanned, one process each
    python benchmarks/scale.py 1e6 --in-memory    # the same data in memory, for comparison
    python benchmarks/scale.py 5e5 --project 1e9 64   # sums and transfers, and what follows

The paper's world with p = 10 at scale 10, files of up to 500,000 rows and units of 1,000.
CPU seconds are those of all threads. The difference to the fit in memory is printed where
both were made: in units of the standard deviation of the rewards.
"""

import argparse
import multiprocessing
import pickle
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

import deeppqr
from deeppqr.cluster import Executor
from deeppqr.worlds import PaperWorld

P, SEED, FILE_ROWS, PATH = 10, 3001, 500_000, 1_000
NETWORK = 1.25e9  # bytes a second: ten gigabits
ADDITIONS = 5e8  # float64 a second, from memory
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


class Measured(Executor):
    """Sums shards here, and writes down seconds and bytes."""

    def __init__(self) -> None:
        self.seconds, self.sent, self.back, self.shards = 0.0, 0, 0, 0

    def run(self, call, items):
        self.sent = len(pickle.dumps(call))
        for place, item in enumerate(items):
            start = time.perf_counter()
            found = call(item)
            self.seconds += time.perf_counter() - start
            self.back = len(pickle.dumps(found))
            self.shards += 1
            yield place, found


def project(folder: Path, rows: int, workers: int) -> None:
    """What a fit of so many rows would take on so many workers of one core."""
    start = time.perf_counter()
    panel = deeppqr.Panel.scan(folder, **COLUMNS)
    checked = (time.perf_counter() - start) / len(panel)
    measured, start = Measured(), time.perf_counter()
    fit = deeppqr.PQR(discount=0.9, anchor=0).fit(panel, executor=measured)
    rounds = time.perf_counter() - start - measured.seconds
    each, shards = measured.seconds / len(panel), -(-rows // FILE_ROWS)
    out = workers * measured.sent / NETWORK
    back = shards * measured.back / NETWORK
    added = shards * measured.back / 8 / ADDITIONS
    shared = rows / workers * each
    print(f"measured on {len(panel):,} rows, {len(fit.reward_function.theta)} coefficients")
    lines = (
        ("a row's part of the last step, microseconds of one thread", 1e6 * each),
        ("checks at the door, microseconds a row", 1e6 * checked),
        ("rounds in memory, s", rounds),
        ("sent to a worker, MB", measured.sent / 1e6),
        ("back from a shard, MB", measured.back / 1e6),
        (f"{rows:,} rows: sums on {workers} workers, s", shared),
        (f"sending to {workers} workers at {NETWORK / 1e9:g} GB/s, s", out),
        (f"sums of {shards:,} shards back, s", back),
        ("adding these, s", added),
        ("last step in all, s", shared + out + back + added),
        ("share of it that is the workers' sums", shared / (shared + out + back + added)),
        ("rounds in memory, one process, s", rounds),
        ("checks at the door, one process, s", rows * checked),
    )
    for name, figure in lines:
        print(f"{name:<62}{figure:>12,.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="+", type=float)
    parser.add_argument("--in-memory", action="store_true", help="in memory as well")
    parser.add_argument("--project", nargs=2, type=float, metavar=("ROWS", "WORKERS"))
    asked = parser.parse_args()
    if asked.project:
        with tempfile.TemporaryDirectory() as folder:
            write(int(asked.rows[0]), Path(folder))
            project(Path(folder), *map(int, asked.project))
        return
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
