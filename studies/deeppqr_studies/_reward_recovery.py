"""Reward recovery: every method on every world, scored against the exact truth."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import polars as pl

from ._claims import Claims, claim_at_every, claim_below, scores_over
from ._figures import chart_of, draw_charts
from ._methods import METHODS, Estimate, pqr_kinds
from ._problem import (
    IRRELEVANT_TRAJECTORIES,
    WORLD_OPTIONS,
    Problem,
    cell_tasks,
    make_problem,
)
from ._scores import NOTE_LENGTH, mape, other_errors, reward_errors, timed
from ._study import Option, Study, check_choices
from ._tables import Table, means, method_table, write_summary
from .published import PUBLISHED_IRRELEVANT, PUBLISHED_MAPE, PUBLISHED_SLOPES

DEFAULT_METHODS = [
    "default",
    "regression",
    "likelihood",
    "one-parameter",
    "paper",
    "maxent",
    "dairl",
    "splgd",
    "splgd-truth",
    "cloning",
    "zero",
    "oracle",
]
"""`paper-epochs` takes minutes per fit and runs only if it is named."""

WITHOUT = {"oracle": ["samq-bus"], "one-parameter": ["paper", "samq-bus"]}
"""Worlds in which a method cannot run."""
SAMQ_SLOPES = np.array([-1.0, 0.0, 0.0])
"""The true slopes of r(., 1) on the state of the SAmQ bus."""

TRUNCATED = 9.0  # where the paper's figure cuts mean squared errors off

COMPETITORS = {
    "maxent": "MaxEnt-IRL",
    "dairl": "D-AIRL",
    "splgd": "SPL-GD without the truth",
    "splgd-truth": "SPL-GD given the true Q and V",
}
"""The methods of the paper's figure, which runs SPL-GD given the truth."""


class RewardRecovery(Study):
    """The reward-recovery benchmark: one task per world, size, method and seed."""

    name = "reward-recovery"
    title = "how well each method recovers the reward, on worlds whose reward is known"
    options: ClassVar = {
        **WORLD_OPTIONS,
        "methods": Option(str, "+", DEFAULT_METHODS, f"among {', '.join(METHODS)}"),
    }

    def tasks(self, settings):
        methods = check_choices("methods", settings["methods"], METHODS)
        return cell_tasks(settings, "method", methods, without=WITHOUT)

    def run(self, task):
        return [measure(**task.parameters)]

    def report(self, frame, folder):
        tables = []
        for world, part in frame.group_by("world", maintain_order=True):
            tables += REPORTS[world[0]](part, folder)
        return write_summary("Reward recovery", None, tables, frame, folder)


def measure(cell: dict[str, Any], method: str, seed: int) -> dict[str, Any]:
    """The row of a method: its errors, its time, what it was given."""
    problem = make_problem(cell, seed)
    estimate, seconds = timed(METHODS[method], problem, seed)
    return {
        **cell,
        "method": method,
        "given": estimate.given,
        "seed": seed,
        **reward_errors(problem, estimate),
        **other_errors(problem, estimate),
        "mape": mape(problem, estimate),
        "slope_mse": slope_error(problem, estimate)
        if cell["world"] == "samq-bus"
        else None,
        "verdict": estimate.diagnostics and estimate.diagnostics["held_out_gain"].verdict,
        "demonstrator_kl": problem.demonstrator_kl,
        "seconds": seconds,
        "note": estimate.note[:NOTE_LENGTH],
    }


def slope_error(problem: Problem, estimate: Estimate) -> float:
    """Mean squared error of the slopes of r(., 1) on the state, over the demonstrations."""
    states = problem.panel.state
    columns = np.column_stack([np.ones(len(states)), states])
    reward = estimate.reward(states)[:, problem.panel.action_index(1)]
    slopes = np.linalg.lstsq(columns, reward, rcond=None)[0][1:]
    return float(np.mean((slopes - SAMQ_SLOPES) ** 2))


def _report_paper(frame, folder) -> list[Any]:
    """Mean NMSE and MSE by p, tables and a panel per scale, and the paper's claims."""
    tables: list[Any] = []
    frame = frame.with_columns(truncated_mse=pl.col("mse").clip(upper_bound=TRUNCATED))
    for (scale,), part in sorted(frame.group_by("scale"), key=lambda found: found[0]):
        world = f"The paper's world at scale {scale:g}"
        title = f"{world}: mean NMSE of r (standard error)"
        table = method_table(part, title, over="p", score="nmse")
        tables.append(_with_verdicts(table, part))
        title = f"{world}: mean squared error of r (standard error)"
        tables.append(method_table(part, title, over="p", score="mse"))
        claims = _claims(part, f"{world}: the paper's claims, by squared error")
        tables += [claims] if claims.claims else []
    _draw_paper(frame, folder, "paper-world", "nmse", y_label="NMSE of r", level=1.0)
    _draw_paper(frame, folder, "paper-world-mse", "mse", y_label="MSE of r")
    words = f"MSE of r, truncated at {TRUNCATED:g}"
    name = "paper-world-mse-truncated"
    _draw_paper(frame, folder, name, "truncated_mse", y_label=words, level=TRUNCATED)
    return tables


def _draw_paper(frame, folder, name: str, score: str, **words: Any) -> None:
    """A panel per scale, a line per method over p."""
    charts = [
        chart_of(
            means(part, ["method", "p"], score),
            title=f"scale {scale:g}",
            x_label="state variables p",
            **words,
        )
        for (scale,), part in sorted(frame.group_by("scale"), key=lambda found: found[0])
    ]
    draw_charts(charts, folder, name)


def _claims(frame, title: str) -> Any:
    """The paper's claims about its figure, tested at every p."""
    sizes, run = sorted(set(frame["p"])), set(frame["method"])
    rivals = {name: words for name, words in COMPETITORS.items() if name in run}

    def errors(method: str) -> dict[Any, Any]:
        return scores_over(frame, "p", "mse", method=method)

    def smaller(text: str, one: str, other: str) -> None:
        sides = errors(one), errors(other)
        claims.append(claim_at_every("p", text, *sides, relative=True))

    claims: list[Any] = []
    for pqr in pqr_kinds(frame):
        for rival, words in rivals.items():
            smaller(f"PQR ({pqr}) is more accurate than {words} at every p", pqr, rival)
        if len(sizes) > 1:
            sides = (errors(pqr).get(p, {}) for p in (sizes[0], sizes[-1]))
            text = f"The error of PQR ({pqr}) grows from p = {sizes[0]} to {sizes[-1]}"
            claims.append(claim_below(text, *sides, relative=True))
    for rival, words in rivals.items():
        if rival != "maxent" and "maxent" in rivals:
            smaller(f"MaxEnt-IRL is worse than {words} at every p", rival, "maxent")
    return Claims(title, claims)


def _with_verdicts(table, frame) -> Any:
    """A last row: in how many seeds the default fit says that there is no signal."""

    judged = frame.filter(pl.col("method") == "default", pl.col("verdict").is_not_null())
    if judged.is_empty():
        return table
    counts = []
    for p in sorted(frame["p"].unique()):
        verdict = judged.filter(pl.col("p") == p)["verdict"]
        counts.append(f"{(verdict == 'no signal').sum()} of {len(verdict)}")
    row = ["default says: no signal", *counts, "-", "-"]
    return Table(table.title, table.columns, [*table.rows, row])


def _report_known_cost_bus(frame, folder) -> list[Any]:
    """Mean MAPE by trajectories and by irrelevant variables, beside the published."""
    tables, charts = [], []
    for part, over, what, published in (
        (
            frame.filter(pl.col("irrelevant") == 0),
            "trajectories",
            "by trajectories",
            PUBLISHED_MAPE,
        ),
        (
            frame.filter(pl.col("irrelevant") > 0),
            "irrelevant",
            f"by irrelevant variables, {IRRELEVANT_TRAJECTORIES:,} trajectories",
            PUBLISHED_IRRELEVANT,
        ),
    ):
        if part.is_empty():
            continue
        title = f"Buses with a known replacement cost: mean MAPE % of r {what}"
        tables.append(
            method_table(part, title, over=over, score="mape", published=published)
        )
        charts.append(
            chart_of(
                means(part, ["method", over], "mape"),
                title=what.split(",")[0],
                x_label=over,
                y_label="MAPE % of r",
                published=published,
            )
        )
    draw_charts(charts, folder, "known-cost-bus")
    return tables


def _report_samq_bus(frame, folder) -> list[Any]:
    """Mean squared error of the slopes, beside the published."""
    del folder
    title = "The buses of the SAmQ paper: mean squared error of three slopes of r"
    return [
        method_table(
            frame, title, over="steps", score="slope_mse", published=PUBLISHED_SLOPES
        )
    ]


REPORTS = {
    "paper": _report_paper,
    "known-cost-bus": _report_known_cost_bus,
    "samq-bus": _report_samq_bus,
}
