"""Errors, times and coverage where actions are amounts, beside fits on bins of them.

    python benchmarks/continuous.py errors docs/tables/continuous.csv --seeds 5
    python benchmarks/continuous.py errors docs/tables/continuous.csv --methods amounts
    python benchmarks/continuous.py coverage docs/tables/continuous-coverage.csv --seeds 100
    python benchmarks/continuous.py show docs/tables/continuous.csv

A row is written as soon as it is found, and rows that are in the file are not computed
again. Every seed has a world and a panel of its own: linear-quadratic control (`lq`) and
the world built backwards, with an atom (`atom`) and without (`box`), in one and two
dimensions of the action. NMSE is the mean squared error of the reward over the mean square
of the reward less the anchor's, at fresh decisions other than the anchor's.

Fits on bins take the amounts of the same panel in bins of equal length, which in a finite
fit count as one each and not as a share of the box; against an atom their rewards are put
right by temperature * log(bins). `nmse` reads the reward of an amount's bin, `joined` a
line between the middles of bins. In two dimensions a bin is a square. `stages` are the
paper's three, with the quick density: reward="regression".
"""

import argparse
import csv
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

import deeppqr
from deeppqr.worlds import AmountWorld, LinearQuadratic

WORLDS = ("lq-1", "box-1", "atom-1", "lq-2", "box-2", "atom-2")
# Decisions: falling errors are judged by a quarter of them and all.
SIZES = (5_000, 20_000)
BINS = {1: (5, 11, 25), 2: (3, 5)}
COVERAGE_ROWS = 4_000


def build(name: str, seed: int):
    """A world by its name and seed; states have two dimensions."""
    kind, action_dim = name.split("-")
    if kind == "lq":
        return LinearQuadratic.random(2, int(action_dim), seed=seed)
    return AmountWorld(dim=2, action_dim=int(action_dim), atom=kind == "atom", seed=seed)


def model(world, anchor=None) -> deeppqr.PQR:
    return deeppqr.PQR(
        discount=world.discount,
        anchor=world.anchor if anchor is None else anchor,
        anchor_reward=world.anchor_reward,
        temperature=world.temperature,
    )


def errors(name: str, seed: int, rows: int, method: str) -> dict:
    """One row of the table of errors."""
    world = build(name, seed)
    panel = world.simulate(steps=rows, units=rows // 50, seed=100_000 + seed)
    fresh = world.simulate(steps=2_000, units=100, seed=200_000 + seed)
    taken = panel.space.atom_of(fresh.amount) < 0
    states, amount = fresh.state[taken], fresh.amount[taken]
    truth, known = world.reward(states, amount), world.anchor_reward(states)
    start, cpu = time.perf_counter(), time.process_time()
    if not method.startswith("bins"):
        how = "auto" if method == "amounts" else "regression"
        fit = replace(model(world), reward=how).fit(panel)
        found = joined = fit.reward(states, amount)
    else:
        found, joined = by_bins(world, panel, int(method.split()[1]), states, amount)
    size = ((truth - known) ** 2).mean()
    return {
        "nmse": ((found - truth) ** 2).mean() / size,
        "joined": ((joined - truth) ** 2).mean() / size,
        "seconds": time.perf_counter() - start,
        "cpu seconds": time.process_time() - cpu,
    }


def by_bins(world, panel, number: int, states, amount):
    """Rewards of amounts by the default fit on bins: of the bin, and between middles."""
    space, dimensions = panel.space, panel.space.dimensions
    step = (space.box.upper - space.box.lower) / number
    middles = space.box.lower + (np.arange(number) + 0.5)[:, None] * step
    cell = lambda at: np.clip((at - space.box.lower) // step, 0, number - 1).astype(int)
    one = lambda at: at @ number ** np.arange(dimensions)
    atom = space.atom_of(panel.amount) >= 0
    label = np.where(atom, "none", one(cell(panel.amount)).astype(str))
    if dimensions == 1:
        # Numbers, so that the finite fit may join neighbouring bins by smooth curves.
        label = np.where(atom, -1.0, one(cell(panel.amount)))
        none = -1.0
    else:
        none = "none"
    anchored = one(cell(np.atleast_2d(world.anchor)))[0]
    continuous = anchored if dimensions == 1 else str(anchored)
    anchor = none if len(space.points) else continuous
    told = {"unit": panel.unit, "state_names": world.state_names}
    finite = deeppqr.Panel.from_arrays(panel.state, label, panel.next_state, **told)
    fit = model(world, anchor).fit(finite)
    rewards = fit.reward(states)
    if len(space.points):
        rewards = rewards + world.temperature * np.log(number**dimensions)
    bins = [at for at, label in enumerate(fit.actions) if label != none]
    codes = np.array([int(fit.actions[at]) for at in bins])
    # Bins in which nothing was done have no reward: theirs is the nearest one's.
    grid = np.stack([codes // number**d % number for d in range(dimensions)], axis=1)
    rewards, grid = rewards[:, bins], middles[grid, np.arange(dimensions)]
    nearest = ((amount[:, None] - grid) ** 2).sum(axis=2).argmin(axis=1)
    found = rewards[np.arange(len(states)), nearest]
    if dimensions > 1:
        return found, np.full(len(found), np.nan)
    lines = zip(amount[:, 0], rewards, strict=True)
    return found, np.array([np.interp(a, grid[:, 0], row) for a, row in lines])


def coverage(seed: int) -> dict:
    """E[r] over the amounts taken, and E[dr/da], by one fit, with their errors."""
    world = build("atom-1", 0)
    panel = world.simulate(
        steps=COVERAGE_ROWS, units=COVERAGE_ROWS // 20, seed=300_000 + seed
    )
    fit = model(world).fit(panel)
    reward = fit.reward_function
    rows = np.flatnonzero(panel.space.atom_of(panel.amount) < 0)
    state, amount = panel.state[rows], panel.amount[rows]
    columns = reward.basis.columns(state)
    # Differences over a hundredth of the box; inwards at its ends.
    low = np.maximum(amount - 0.05, panel.space.box.lower)
    high = np.minimum(amount + 0.05, panel.space.box.upper)
    length = high - low
    at = lambda where: reward.basis.average(columns, reward.shapes(where))
    slopes = (at(high) - at(low)) / length
    change = lambda f: ((f(state, high) - f(state, low)) / length[:, 0]).mean()
    found = {}
    for name, slope, estimate, truth in (
        (
            "mean",
            at(amount).mean(axis=0),
            fit.reward(state, amount).mean(),
            world.reward(state, amount).mean(),
        ),
        ("slope", slopes.mean(axis=0), change(fit.reward), change(world.reward)),
    ):
        error = np.sqrt(slope @ reward.covariance @ slope)
        found |= {f"{name} error": estimate - truth, f"{name} s.e.": error}
    low, high = fit.interval(state, amount)
    truth = world.reward(state, amount)
    return found | {"points covered": ((low <= truth) & (truth <= high)).mean()}


def tasks(job: str, seeds: int, worlds: list[str]):
    """What is to be done, the first seed of everything first."""
    for seed in range(seeds):
        if job == "coverage":
            yield {"seed": seed}
            continue
        for name in worlds or WORLDS:
            bins = BINS[int(name.split("-")[1])]
            for rows in reversed(SIZES):
                yield {"world": name, "seed": seed, "rows": rows, "method": "amounts"}
            yield {"world": name, "seed": seed, "rows": SIZES[-1], "method": "stages"}
            for number in bins:
                method = f"bins {number}"
                yield {"world": name, "seed": seed, "rows": SIZES[-1], "method": method}


def run(job: str, table: Path, seeds: int, worlds: list[str], methods: list[str]) -> None:
    done = []
    if table.exists():
        with table.open() as file:
            done = list(csv.DictReader(file))
    for task in tasks(job, seeds, worlds):
        if methods and task.get("method") not in methods:
            continue
        if any(all(row[name] == str(task[name]) for name in task) for row in done):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # rare bins, which are the point
            found = errors(*task.values()) if job == "errors" else coverage(task["seed"])
        row = task | {name: f"{value:.5g}" for name, value in found.items()}
        first = not table.exists()
        with table.open("a", newline="") as file:
            writer = csv.DictWriter(file, list(row))
            if first:
                writer.writeheader()
            writer.writerow(row)
        print(*row.values(), flush=True)


def show(table: Path) -> None:
    """Means over seeds; of coverage also the shares within 1.96 standard errors."""
    frame = pl.read_csv(table)
    with pl.Config(tbl_rows=-1, tbl_cols=-1, tbl_width_chars=120, float_precision=4):
        if "method" in frame.columns:
            groups = frame.group_by("world", "method", "rows", maintain_order=True)
            means = pl.col("nmse", "joined", "seconds", "cpu seconds").mean()
            print(
                groups.agg(pl.len().alias("seeds"), means).sort("world", "rows", "method")
            )
            return
        z = [pl.col(f"{name} error") / pl.col(f"{name} s.e.") for name in ("mean", "slope")]
        within = [
            (each.abs() < 1.96).mean().alias(f"covered {i}") for i, each in enumerate(z)
        ]
        spread = [each.std().alias(f"sd of z {i}") for i, each in enumerate(z)]
        centre = [each.mean().alias(f"mean z {i}") for i, each in enumerate(z)]
        print(
            frame.select(
                pl.len(), *within, *spread, *centre, pl.col("points covered").mean()
            )
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("job", choices=["errors", "coverage", "show"])
    parser.add_argument("table", type=Path, help="CSV file to extend or to read")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument(
        "--methods", nargs="*", default=[], help='such as amounts or "bins 5"; default all'
    )
    parser.add_argument("--worlds", nargs="*", default=[], choices=WORLDS)
    asked = parser.parse_args()
    if asked.job == "show":
        show(asked.table)
    else:
        run(asked.job, asked.table, asked.seeds, asked.worlds, asked.methods)


if __name__ == "__main__":
    main()
