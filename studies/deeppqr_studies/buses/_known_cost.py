"""Buses with a known replacement cost: accuracy, coverage, and the size of the test."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import polars as pl
from scipy.stats import norm

import deeppqr

from .._figures import chart_of, draw_charts
from .._methods import Estimate, one_parameter
from .._oracle import fit_bus
from .._problem import PERIODS, known_anchor, make_problem, preferences
from .._scores import mape
from .._study import Option, Study, Task, check_choices
from .._tables import Table, means, method_table, write_markdown
from ..published import PUBLISHED_MAPE

REPLICATES_PER_TASK = 20  # what a stopped run computes again, at most
LEVEL = 0.95
SEED_COVERED = 300_000
"""Replication i of the coverage part has its data drawn with this plus i."""
MIN_ROWS = 20
"""A cell counts where each action was taken in so many rows or more, as in the default of
`Fit.project`: with fewer, the normal approximation of a share is poor."""


def tabular_pqr(world: Any) -> deeppqr.PQR:
    """PQR by counting: every stage has a closed form."""
    return deeppqr.PQR(
        **preferences(world),
        **known_anchor(world),
        policy="frequency",
        anchor_value="renewal",
        reward="table",
    )


def _projection(terms: list[str]) -> Callable[..., tuple[Estimate, float]]:
    """PQR by frequencies with the reward of keeping projected on terms of mileage."""

    def estimate(
        world: deeppqr.worlds.KnownCostBus, panel: deeppqr.Panel, seed: int
    ) -> tuple[Estimate, float]:
        del seed
        theta = tabular_pqr(world).fit(panel).project(terms, panel).theta

        def reward(states: np.ndarray) -> np.ndarray:
            mileage = np.asarray(states)[:, 0]
            columns = [np.ones_like(mileage) if t == "1" else mileage for t in terms]
            found = world.reward(states).copy()  # the anchor's is known
            found[:, world.actions.index("keep")] = np.stack(columns, axis=1) @ theta
            return found

        found = Estimate(reward, given="the form of the reward")
        return found, float(theta[terms.index("mileage")])

    return estimate


def _one_parameter(
    world: deeppqr.worlds.KnownCostBus, panel: deeppqr.Panel, seed: int
) -> tuple[Estimate, float]:
    found = one_parameter(world, panel, seed)
    at_one = found.reward(np.ones((1, 1)))
    return found, float(at_one[0, world.actions.index("keep")])


def _nfxp(
    world: deeppqr.worlds.KnownCostBus, panel: deeppqr.Panel, seed: int
) -> tuple[Estimate, float]:
    del seed
    found = fit_bus(world, panel)
    given = "the form of the reward and the law of the mileage"
    return Estimate(found.reward, given=given), -found.theta


ESTIMATORS: dict[str, Callable[..., tuple[Estimate, float]]] = {
    "projection": _projection(["mileage"]),
    "projection-2": _projection(["1", "mileage"]),
    "one-parameter": _one_parameter,
    "nfxp": _nfxp,
}
"""PQR by frequencies, projected on mileage, or on a constant and mileage; joint estimation
that knows r(keep) = -theta x; NFXP that knows the replacement cost. Each returns its
estimate and theta."""


class BusKnownCost(Study):
    """Errors of r by number of buses, and whether 95 % intervals are what they say."""

    name = "bus-known-cost"
    title = "buses with a known replacement cost: errors, coverage, specification test"
    options: ClassVar = {
        "trajectories": Option(
            int, "*", [50, 250, 500, 1000, 2500, 5000], "buses, 80 % of them to fit"
        ),
        "methods": Option(str, "+", list(ESTIMATORS), f"among {', '.join(ESTIMATORS)}"),
        "covered_trajectories": Option(
            int, "*", [250, 1000], "buses, all to fit, where coverage is counted"
        ),
        "replications": Option(
            int, None, 200, "data sets that coverage is counted over", 1
        ),
        "first_replication": Option(int, None, 0, "the number of the first of them"),
    }

    def tasks(self, settings):
        tasks = []
        for number in settings["trajectories"]:
            for seed in settings["seeds"]:
                for name in check_choices("methods", settings["methods"], ESTIMATORS):
                    label = f"errors_trajectories={number}_{name}_seed={seed}"
                    about = {"trajectories": number, "method": name, "seed": seed}
                    tasks.append(Task(label, about))
        first = settings["first_replication"]
        last = first + settings["replications"]
        for number in settings["covered_trajectories"]:
            for start in range(first, last, REPLICATES_PER_TASK):
                end = min(start + REPLICATES_PER_TASK, last)
                label = f"coverage_trajectories={number}_replications={start}-{end - 1}"
                tasks.append(
                    Task(label, {"trajectories": number, "replications": [start, end]})
                )
        return tasks

    def run(self, task):
        about = task.parameters
        if "method" in about:
            return [errors(**about)]
        rows = []
        for replication in range(*about["replications"]):
            rows += coverage(about["trajectories"], replication, level=LEVEL)
        return rows

    def report(self, frame, folder):
        tables = []
        scored = frame.filter(pl.col("part") == "errors")
        if not scored.is_empty():
            tables.append(_report_errors(scored, folder))
        counted = frame.filter(pl.col("part") != "errors")
        for (number,), part in sorted(counted.group_by("trajectories")):
            tables.append(_report_coverage(number, part))
        write_markdown("Buses with a known replacement cost", tables, folder)
        return "\n\n".join(table.text() for table in tables)


def errors(trajectories: int, method: str, seed: int) -> dict[str, Any]:
    """The row of a method: MAPE of r at held-out decisions, theta and its time."""
    cell = {"world": "known-cost-bus", "trajectories": trajectories, "irrelevant": 0}
    problem = make_problem(cell, seed)
    start = time.perf_counter()
    estimate, theta = ESTIMATORS[method](problem.world, problem.panel, seed)
    return {
        "part": "errors",
        "trajectories": trajectories,
        "method": method,
        "given": estimate.given,
        "seed": seed,
        "mape": mape(problem, estimate),
        "estimate": theta,
        "seconds": round(time.perf_counter() - start, 3),
    }


def coverage(trajectories: int, replication: int, *, level: float) -> list[dict[str, Any]]:
    """Rows of a data set: theta, rewards cell by cell, the band over them, the test."""
    world = deeppqr.worlds.KnownCostBus()
    panel = world.simulate(
        steps=PERIODS * trajectories, units=trajectories, seed=SEED_COVERED + replication
    )
    fit = tabular_pqr(world).fit(panel)
    found = fit.project(["mileage"], panel)
    assert found.test is not None
    about = {"trajectories": trajectories, "replication": replication}
    theta, error = float(found.theta[0]), float(found.standard_errors[0])
    rows = [
        {
            **about,
            "part": "theta",
            **_interval_row(theta, error, -1.0, level),
            "p": found.test.p,
        },
        {**about, "part": "nfxp", "estimate": -fit_bus(world, panel).theta, "truth": -1.0},
    ]
    rewards = deeppqr.inference.reward_influence(fit, panel)
    keep, replace = (world.actions.index(name) for name in ("keep", "replace"))
    cell = rewards.cells.locate(panel.state)
    taken = np.bincount(cell[panel.action == replace], minlength=len(rewards.cells))
    enough = (rewards.rows[:, keep] >= MIN_ROWS) & (taken >= MIN_ROWS)
    truth = world.reward(rewards.states)[:, keep]
    errors = rewards.standard_errors[:, keep]
    for at in np.flatnonzero(enough):
        found_here = float(rewards.reward[at, keep]), float(errors[at])
        covered = _interval_row(*found_here, truth[at], level)
        mileage = float(rewards.states[at, 0])
        rows.append({**about, "part": "cell", "mileage": mileage, **covered})
    curve = rewards.bands("keep", level, where=enough)
    holds = (curve.low <= truth[enough]) & (truth[enough] <= curve.high)
    rows.append({**about, "part": "band", "covered": float(holds.all())})
    return rows


def _interval_row(
    estimate: float, error: float, truth: float, level: float
) -> dict[str, float]:
    covered = abs(estimate - truth) <= norm.isf((1 - level) / 2) * error
    return {
        "estimate": estimate,
        "error": error,
        "truth": float(truth),
        "covered": float(covered),
    }


def _report_errors(frame, folder) -> Any:
    """Mean MAPE by number of buses, beside the published."""
    published = {name: PUBLISHED_MAPE[name] for name in ("NFXP", "GLADIUS", "SAmQ")}
    words = {"x_label": "buses", "y_label": "MAPE % of r", "published": published}
    chart = chart_of(
        means(frame, ["method", "trajectories"], "mape"),
        title="known replacement cost",
        **words,
    )
    draw_charts([chart], folder, "errors")
    title = "Mean MAPE % of r at held-out decisions (standard error)"
    return method_table(
        frame, title, over="trajectories", score="mape", published=published
    )


def _report_coverage(number: int, frame) -> Any:
    """Counted coverage, with its Monte-Carlo error, and what lies behind it."""

    def share(values) -> str:
        mean = float(values.mean())
        return f"{100 * mean:.1f} ({100 * (mean * (1 - mean) / len(values)) ** 0.5:.1f})"

    def line(title: str, part) -> list[str]:
        gap = (part["estimate"] - part["truth"]).to_numpy()
        scale = gap.std(ddof=1) if len(gap) > 1 else float("nan")
        ratio = f"{part['error'].mean() / scale:.2f}"
        bias = f"{gap.mean() / scale:+.2f}"
        return [title, str(len(gap)), share(part["covered"]), bias, ratio, f"{scale:.4f}"]

    theta = frame.filter(pl.col("part") == "theta")
    cells = frame.filter(pl.col("part") == "cell")
    rows = [line("theta", theta)]
    for (mileage,), part in sorted(cells.group_by("mileage")):
        if len(part) >= len(theta) / 2:
            rows.append(line(f"r({mileage:g}, keep)", part))
    rows.append(["all cells", str(len(cells)), share(cells["covered"]), "-", "-", "-"])
    band = frame.filter(pl.col("part") == "band")
    rows.append(["band over cells", str(len(band)), share(band["covered"]), *["-"] * 3])
    size = share((theta["p"] < 1 - LEVEL).cast(pl.Float64))
    rows.append(["test rejects at 5 %", str(len(theta)), size, "-", "-", "-"])
    nfxp = frame.filter(pl.col("part") == "nfxp")
    gap = (nfxp["estimate"] - nfxp["truth"]).to_numpy()
    scale = gap.std(ddof=1) if len(gap) > 1 else float("nan")
    bias = f"{gap.mean() / scale:+.2f}"
    rows.append(["NFXP's theta", str(len(gap)), "-", bias, "-", f"{scale:.4f}"])
    columns = ["", "number", "share %", "bias / sd", "mean s.e. / sd", "sd"]
    title = (
        f"Coverage of 95 % intervals, {number:g} buses; cells where both actions were "
        "taken in 20 rows or more (Monte-Carlo error)"
    )
    return Table(title, columns, rows)
