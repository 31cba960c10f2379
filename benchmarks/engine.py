"""Times, memory and errors of the default fit on panels of several kinds, beside the goals.

    python benchmarks/engine.py                    # all, in about eight minutes
    python benchmarks/engine.py firms many         # those whose names hold a word
    python benchmarks/engine.py --out docs/tables/engine.csv

Every panel is fitted in a process of its own; compilation and the choice of the law are
included, imports and the simulation are not. `before` is what the former default took on
the same kind of panel, where that is known; CPU seconds are of all threads. Errors are
mean squared errors of the rewards of all actions but the anchor, over the mean square of
the rewards less the anchor's; `covered` is the share of states and actions whose true
reward is in its 95 % interval. `load` is what else the machine had to do at the start:
with as many processes as cores or more, CPU seconds mean something and seconds do not.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import polars as pl

import deeppqr
from deeppqr.worlds import FirmWorld, PaperWorld, SmoothWorld


def paper(
    p: int, scale: float, steps: int = 50_000, seed: int = 3001, discount: float = 0.9
):
    world = PaperWorld(p=p, reward_scale=scale, seed=seed, discount=discount)
    panel = world.simulate(steps=steps, units=50, seed=100_000 + seed)
    scored = world.simulate(steps=20_000, units=50, seed=200_000 + seed).state[::10]
    model = deeppqr.PQR(discount=discount, anchor=0)
    return model, panel, scored, world.reward(scored), 0.0


def smooth(dim: int, actions: int, steps: int, seed: int = 3001):
    world = SmoothWorld(dim=dim, num_actions=actions, seed=seed, labels=True)
    panel = world.simulate(steps=steps, units=steps // 20, seed=100_000 + seed)
    scored = world.simulate(steps=2_000, units=100, seed=200_000 + seed).state
    known = world.anchor_reward
    model = deeppqr.PQR(discount=world.discount, anchor=world.anchor, anchor_reward=known)
    return model, panel, scored, world.reward(scored), known(scored)[:, None]


def firms(seed: int = 3001):
    world = FirmWorld(seed=0)
    panel = world.simulate(units=400, periods=20, seed=seed)
    model = deeppqr.PQR(
        discount=world.discount, anchor=world.anchor, anchor_reward=world.anchor_reward
    )
    states = panel.encoding.decode(panel.state)
    return model, panel, states, world.reward(panel.state), 0.0


def many(seed: int = 3001):
    """25 actions, 17 numbers and three categories of six levels; no truth is known."""
    rng = np.random.default_rng(seed)
    rows, units = 12_000, 400
    numbers = rng.normal(size=(rows, 17))
    levels = rng.integers(6, size=(rows, 3))
    score = numbers[:, :4] @ rng.normal(size=(4, 25)) / 2
    score += rng.normal(size=(6, 25))[levels[:, 0]] / 2
    action = (score + rng.gumbel(size=score.shape)).argmax(axis=1)
    state = np.empty((rows, 20), dtype=object)
    state[:, :17], state[:, 17:] = numbers, np.array(list("abcdef"), dtype=object)[levels]
    after = np.roll(state, -1, axis=0)
    unit = np.arange(rows) // (rows // units)
    panel = deeppqr.Panel.from_arrays(state, action, after, unit=unit)
    return deeppqr.PQR(discount=0.9, anchor=0), panel, state[:500], None, 0.0


def buses():
    """Rust's group 4; the truth is not known."""
    panel = deeppqr.datasets.bus((4,))
    model = deeppqr.PQR(discount=0.9999, anchor="replace")
    return model, panel, panel.state[:500], None, 0.0


class Panel(NamedTuple):
    """What is fitted, what it may take, and what the former default took."""

    build: Callable
    seconds: float | None = None
    megabytes: float | None = None
    before: float | None = None
    """Seconds of the former default: on one thread for the paper's world, otherwise on two
    cores that others used too."""


PANELS = {
    "paper p=5 scale 1": Panel(lambda: paper(5, 1.0), 10, before=109),
    "paper p=5 scale 10": Panel(lambda: paper(5, 10.0), 10, before=117),
    "paper p=40 scale 1": Panel(lambda: paper(40, 1.0), 40, before=181),
    "paper p=40 scale 10": Panel(lambda: paper(40, 10.0), 40, before=228),
    # Estimated from 10^5 rows.
    "paper 10^6 rows": Panel(lambda: paper(5, 1.0, 1_000_000), 180, 4_096, before=5_400),
    "buses of group 4": Panel(buses, 1.5, before=19),
    "firms": Panel(firms, before=207),
    # It had not finished after 420 seconds.
    "many actions": Panel(many, 15, 1_024),
    "smooth 4 x 6": Panel(lambda: smooth(4, 6, 20_000)),
    "smooth 6 x 25": Panel(lambda: smooth(6, 25, 12_000)),
}


def measure(name: str) -> dict[str, object]:
    """One panel's row; the peak is of the whole process."""
    panel = PANELS[name]
    load = os.getloadavg()[0]
    model, data, states, truth, known = panel.build()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", deeppqr.WeakOverlapWarning)
        start, worked = time.perf_counter(), time.process_time()
        fit = model.fit(data)
        spent, worked = time.perf_counter() - start, time.process_time() - worked
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    error, covered = None, None
    if truth is not None:
        others = np.arange(len(fit.actions)) != fit.actions.index(fit.anchor)
        low, high = fit.interval(states)
        gap = (fit.reward(states) - truth)[:, others]
        error = float((gap**2).mean() / ((truth - known)[:, others] ** 2).mean())
        covered = float(((low <= truth) & (truth <= high))[:, others].mean())
    return {
        "panel": name,
        "rows": len(data),
        "seconds": spent,
        "goal s": panel.seconds,
        "before s": panel.before,
        "CPU s": worked,
        "MB": peak,
        "goal MB": panel.megabytes,
        "error": error,
        "covered": covered,
        "load": load,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Times beside goals")
    parser.add_argument("asked", nargs="*", metavar="WORD", help="part of a panel's name")
    parser.add_argument("--out", help="CSV file with a row per panel")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measure(arguments.one)))
        return
    rows = []
    for name in PANELS:
        if arguments.asked and not any(word in name for word in arguments.asked):
            continue
        command = [sys.executable, __file__, "--one", name]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        rows.append(json.loads(done.stdout.splitlines()[-1]))
        print(rows[-1], flush=True)
    frame = pl.DataFrame(rows, infer_schema_length=None).with_columns(
        pl.col("seconds", "CPU s", "load").round(1),
        pl.col("MB").round(0),
        pl.lit(os.cpu_count()).alias("cores"),
    )
    if arguments.out:
        frame.write_csv(arguments.out, float_precision=4)
    with pl.Config(tbl_rows=-1, tbl_cols=-1, tbl_width_chars=140, float_precision=3):
        print(frame)


if __name__ == "__main__":
    main()
