"""Coverage of intervals without refits, and size and power of the specification test.

    python benchmarks/functional_coverage.py --bootstrap 100 --out rows.csv

Two worlds whose truth is known, a panel of its own seed for each replication. `table` is a
random one of 7 states and 3 actions, 4,000 decisions by 40 units; `bus` is the bus of known
cost, 10,000 decisions by 100 units. Rows already in the file are not run again, so that a
study that was stopped goes on. Figures: whether 95 % intervals hold the truth for the
cells, for average rewards at the panel's states (`Fit.average`), for the population's
(`Fit.one_step` against the expected average over a unit's 100 periods, and its plug-in
with the same error), for the bus' cost per mile; and the p-values of the specification
test of the right form and of a wrong one (a square root in place of the line). Beside
them, in the first replications, the cells' intervals by 100 draws of the bootstrap.
"""

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
import polars as pl

import deeppqr
from deeppqr.worlds import KnownCostBus, TabularWorld, random_tabular

STATES = np.arange(7.0)[:, None]
# Both actions are taken 20 times and more at these.
MILEAGES = np.arange(1.0, 6.0)[:, None]
UNITS = 40
DRAWS = 100


def holds(interval, truth) -> float:
    """The share of the truths that an interval's ends hold."""
    low, high = interval
    return float(np.mean((low <= truth) & (truth <= high)))


def table(seed: int) -> tuple[TabularWorld, deeppqr.Panel, deeppqr.PQR]:
    world = random_tabular(seed=4)
    panel = world.simulate(steps=4_000, units=UNITS, seed=50_000 + seed)
    known = lambda states: world.mdp.reward[states[:, 0].astype(int), 0]
    model = deeppqr.PQR(
        discount=0.9,
        anchor=0,
        anchor_reward=known,
        policy="frequency",
        anchor_value="exact",
        reward="table",
    )
    return world, panel, model


def on_table(seed: int) -> dict[str, float]:
    """The random table: cells, averages, one-step."""
    world, panel, model = table(seed)
    fit, truth = model.fit(panel), world.reward(STATES)
    low, high = fit.interval(STATES)
    here = world.reward(panel.state).mean(axis=0)[1:]
    drawn = visited(world, periods=len(panel) // UNITS) @ truth[:, 1:]
    corrected = fit.one_step(panel, folds=5)
    ends = corrected.estimates().interval()
    return {
        "cells": holds((low[:, 1:], high[:, 1:]), truth[:, 1:]),
        "averages": holds(fit.average(panel, actions=[1, 2]).interval(), here),
        "one-step": holds(ends, drawn),
        # The same interval moved to the plug-in.
        "plug-in": holds(ends + corrected.plug_in - corrected.values, drawn),
    }


def visited(world: TabularWorld, periods: int) -> np.ndarray:
    """The expected share of a unit's decisions in each state, from its uniform start."""
    chain = np.einsum("sa,sat->st", np.exp(world.log_policy(STATES)), world.mdp.transition)
    share = np.full(len(chain), 1 / len(chain))
    total = np.zeros_like(share)
    for _ in range(periods):
        total, share = total + share, share @ chain
    return total / periods


def bus(seed: int) -> tuple[KnownCostBus, deeppqr.Panel, deeppqr.PQR]:
    world = KnownCostBus()
    panel = world.simulate(steps=10_000, units=100, seed=60_000 + seed)
    model = deeppqr.PQR(
        discount=0.95,
        anchor="replace",
        anchor_reward=-5.0,
        policy="frequency",
        anchor_value="renewal",
        reward="table",
    )
    return world, panel, model


def on_bus(seed: int) -> dict[str, float]:
    """The bus of known cost: cells often seen, theta, the specification test."""
    world, panel, model = bus(seed)
    fit, states = model.fit(panel), MILEAGES
    low, high = fit.interval(states)
    right = fit.project(["mileage"], panel)
    wrong = fit.project("0 + np.sqrt(mileage)", panel)
    share = np.bincount(panel.state[:, 0].astype(int))[1:6]
    averages = fit.average(states, weights=share, actions=["keep"])
    truth = world.reward(states)
    return {
        "cells": holds((low[:, 0], high[:, 0]), truth[:, 0]),
        "averages": holds(averages.interval(), np.average(truth[:, 0], weights=share)),
        "theta": holds(right.interval(), -1.0),
        "p right": np.nan if right.test is None else right.test.p,
        "p wrong": np.nan if wrong.test is None else wrong.test.p,
    }


def table_by_bootstrap(seed: int) -> dict[str, float]:
    """Intervals of the same cells by refits on resampled units."""
    world, panel, model = table(seed)
    cells = lambda fit: fit.reward(STATES)[:, 1:]
    found = deeppqr.bootstrap(model, panel, cells, replicates=DRAWS, seed=seed)
    return {"cells": holds(found.interval(kind="normal"), world.reward(STATES)[:, 1:])}


def bus_by_bootstrap(seed: int) -> dict[str, float]:
    world, panel, model = bus(seed)
    cells = lambda fit: fit.reward(MILEAGES)[:, 0]
    found = deeppqr.bootstrap(model, panel, cells, replicates=DRAWS, seed=seed)
    return {"cells": holds(found.interval(kind="normal"), world.reward(MILEAGES)[:, 0])}


def read(path: Path) -> pl.DataFrame:
    """Rows of a study, of which one world's lack the other's figures."""
    return pl.read_csv(path, infer_schema_length=None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--replications", type=int, default=500)
    parser.add_argument("--bootstrap", type=int, default=0, help="replications of it")
    parser.add_argument("--minutes", type=float, default=8.0, help="stop after so many")
    parser.add_argument("--out", type=Path, required=True, help="CSV, a row for each")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = read(arguments.out).to_dicts() if arguments.out.exists() else []
    done = {(row["world"], row["replication"]) for row in rows}
    end = time.monotonic() + 60 * arguments.minutes
    measures = {"table": on_table, "bus": on_bus}
    measures |= {"table, bootstrap": table_by_bootstrap, "bus, bootstrap": bus_by_bootstrap}
    for number in range(arguments.replications):
        for world, measure in measures.items():
            left_out = "bootstrap" in world and number >= arguments.bootstrap
            if left_out or (world, number) in done or time.monotonic() > end:
                continue
            rows.append({"world": world, "replication": number} | measure(number))
        pl.DataFrame(rows, infer_schema_length=None).write_csv(
            arguments.out, float_precision=4
        )
        if time.monotonic() > end:
            break
    found = read(arguments.out)
    mean = found.group_by("world", maintain_order=True).agg(
        pl.len().alias("replications"),
        pl.col("cells", "averages", "one-step", "plug-in", "theta").mean(),
        (pl.col("p right") < 0.05).mean().alias("size"),
        (pl.col("p wrong") < 0.05).mean().alias("power"),
    )
    with pl.Config(tbl_cols=-1, tbl_width_chars=120, float_precision=3):
        print(mean)


if __name__ == "__main__":
    main()
