"""The bus of the SAmQ paper: slopes of the reward, with standard errors, seed by seed."""

from __future__ import annotations

import time
from typing import Any, ClassVar

import deeppqr

from .._problem import known_anchor, make_problem, preferences
from .._study import Option, Study, Task
from .._tables import MISSING, Table, means, write_markdown
from ..published import PUBLISHED_SLOPES

TERMS = ("1", "s1", "s2", "s3")
TRUTH = (5.0, -1.0, 0.0, 0.0)
"""Of r(., 1) = 5 - s1, by term."""


class SamqBusSlopes(Study):
    """A logit policy, the renewal's formula and a projection: no regression of Q."""

    name = "samq-bus"
    title = "the buses of the SAmQ paper: slopes of the reward with standard errors"
    options: ClassVar = {
        "seeds": Option(int, "+", list(range(1001, 1011)), "one data set each"),
        "steps": Option(int, "+", [5_000], "decisions of the one bus", 1),
        "degree": Option(int, None, 3, "of the logit policy's polynomial"),
    }

    def tasks(self, settings):
        return [
            Task(
                f"steps={steps}_degree={settings['degree']}_seed={seed}",
                {"steps": steps, "degree": settings["degree"], "seed": seed},
            )
            for steps in settings["steps"]
            for seed in settings["seeds"]
        ]

    def run(self, task):
        return [slopes(**task.parameters)]

    def report(self, frame, folder):
        tables = []
        for (steps,), part in sorted(frame.group_by("steps")):
            tables += [_by_seed(steps, part), _beside_published(steps, part)]
        write_markdown("The buses of the SAmQ paper", tables, folder)
        return "\n\n".join(table.text() for table in tables)


def slopes(steps: int, degree: int, seed: int) -> dict[str, Any]:
    """The row of a seed: each coefficient of r(., 1), its error, and the test."""
    problem = make_problem({"world": "samq-bus", "steps": steps}, seed)
    start = time.perf_counter()
    model = deeppqr.PQR(
        **preferences(problem.world),
        **known_anchor(problem.world),
        policy=deeppqr.policy.Logit(degree=degree),
        anchor_value="renewal",
        reward="linear",
    )
    fit = model.fit(problem.panel)
    found = fit.project(list(TERMS), problem.panel, weight="optimal")
    seconds = round(time.perf_counter() - start, 3)
    visits = fit.project(list(TERMS), problem.panel, weight="visits")
    row: dict[str, Any] = {"steps": steps, "seed": seed}
    for name, value, error in zip(TERMS, found.theta, found.standard_errors, strict=True):
        row |= {f"theta {name}": float(value), f"error {name}": float(error)}
    return {
        **row,
        "slope_mse": _slope_error(found.theta),
        "slope_mse_visits": _slope_error(visits.theta),
        "p": found.test and found.test.p,
        "seconds": seconds,
    }


def _slope_error(theta) -> float:
    slopes = zip(theta[1:], TRUTH[1:], strict=True)
    return sum(float(found - truth) ** 2 for found, truth in slopes) / (len(TRUTH) - 1)


def _by_seed(steps: int, frame) -> Any:
    rows = []
    for row in frame.sort("seed").iter_rows(named=True):
        cells = [f"{row[f'theta {n}']:.3f} ({row[f'error {n}']:.3f})" for n in TERMS]
        p = MISSING if row["p"] is None else f"{row['p']:.2f}"
        rows.append([str(row["seed"]), *cells, f"{row['slope_mse']:.2g}", p])
    covered, means = [], []
    for name, truth in zip(TERMS, TRUTH, strict=True):
        gap, error = frame[f"theta {name}"] - truth, frame[f"error {name}"]
        covered.append(f"{int((gap.abs() <= 1.96 * error).sum())} of {len(gap)}")
        means.append(f"{frame[f'theta {name}'].mean():.3f}")
    rows.append(["mean", *means, f"{frame['slope_mse'].mean():.2g}", MISSING])
    rows.append(["95 % interval holds", *covered, MISSING, MISSING])
    columns = ["seed", *TERMS, "slope MSE", "test's p"]
    truth = ", ".join(f"{value:g}" for value in TRUTH)
    title = (
        f"r(., 1) on the state, {steps:g} steps, optimally weighted: estimate (s.e.); "
        f"truth {truth}"
    )
    return Table(title, columns, rows)


def _beside_published(steps: int, frame) -> Any:
    own = lambda score: str(means(frame, ["steps"], score)[(steps,)])
    rows = [
        ["PQR, optimally weighted", own("slope_mse")],
        ["PQR, weighted by visits", own("slope_mse_visits")],
    ]
    for name, values in PUBLISHED_SLOPES.items():
        if steps in values:
            rows.append([f"{name}, published", f"{values[steps]:.3g}"])
    title = f"Mean squared error of the three slopes, {steps:g} steps; seeds: {len(frame)}"
    return Table(title, ["method", "slope MSE"], rows)
