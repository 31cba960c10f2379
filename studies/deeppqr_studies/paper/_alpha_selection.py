"""Alpha selection: the temperature from the average reward of the decisions taken."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import polars as pl

import deeppqr

from .._claims import Claims, claim_at_every, scores_over
from .._figures import chart_of, draw_charts
from .._methods import METHODS, PQR_KINDS, Estimate, pqr_kinds
from .._problem import PAPER_OPTIONS, cell_tasks_of, make_problem, paper_cells
from .._scores import NOTE_LENGTH, anchor_share, reward_errors, try_method
from .._study import Option, Study, check_choices
from .._tables import means, score_tables, write_summary

DEFAULT_METHODS = ["default", "paper", "paper-epochs", "regression"]
COLUMNS = ("nmse_as_told", "selected", "ratio", "error", "nmse")
GOAL = 0.1  # a relative error of the temperature that we would call small
# The error that counts where no temperature is found (the fit was refused, or only a
# negative one gives the average): that of a temperature of zero.
NONE_FOUND = 1.0
ABOUT = (
    "Agents have different temperatures; PQR is fitted at temperature 1 and told the true "
    "average reward of the demonstrated decisions. The anchor earns nothing, so the reward "
    "is proportional to the temperature, and the selected one is the known average over "
    "the average of the reward at temperature 1. A reward that is too small on average "
    "leads to a temperature that is too large by the same factor."
)


class AlphaSelection(Study):
    """The selected temperature beside the true one."""

    name = "alpha-selection"
    title = "the temperature selected from the average reward, beside the true one"
    options: ClassVar = {
        **PAPER_OPTIONS,
        "p": PAPER_OPTIONS["p"]._replace(default=[10]),
        "temperatures": Option(float, "+", [0.1, 0.5, 1.0, 2.0], "of the agents"),
        "methods": Option(str, "+", DEFAULT_METHODS, f"among {', '.join(PQR_KINDS)}"),
    }

    def tasks(self, settings):
        methods = check_choices("methods", settings["methods"], PQR_KINDS)
        cells = [
            {**cell, "temperature": true, "assumed": {"temperature": 1.0}}
            for cell in paper_cells(settings)
            for true in settings["temperatures"]
        ]
        return cell_tasks_of(cells, settings["seeds"], "method", methods)

    def run(self, task):
        return [selection_row(**task.parameters)]

    def report(self, frame, folder):
        parts, charts = [], []
        for (p, scale), part in frame.group_by(["p", "scale"], maintain_order=True):
            where = f"p = {p:g}, scale {scale:g}"
            for score, words in (
                ("ratio", "selected over true temperature"),
                ("nmse_as_told", "NMSE of r at temperature 1"),
                ("nmse", "NMSE of r at the selected temperature"),
            ):
                title = f"Mean {words} (standard error), {where}"
                parts += score_tables(part, title, over="temperature", score=score)
            parts.append(_claims(part, where))
            charts.append(_chart(part, where))
        draw_charts(charts, folder, "alpha-selection")
        return write_summary("Alpha selection", ABOUT, parts, frame, folder)


def selection_row(cell: dict[str, Any], method: str, seed: int) -> dict[str, Any]:
    """The temperature found from the average reward of the decisions, and its error."""
    problem = make_problem(cell, seed)
    estimate, row = try_method(cell, METHODS, method, problem, seed)
    panel = problem.panel
    taken = np.arange(len(panel)), panel.action
    average = float(problem.world.reward(panel.state)[taken].mean())
    row |= {"average_reward": average, "anchor_share": anchor_share(problem)}
    row |= dict.fromkeys(COLUMNS)
    if estimate is None:
        return row
    row["nmse_as_told"] = reward_errors(problem, estimate)["nmse"]
    if estimate.fit is None:
        raise deeppqr.DataError(f"The method {method!r} has no temperature to select.")
    try:
        found = estimate.fit.select_temperature(panel, average=average)
    except deeppqr.DataError as refusal:
        return {**row, "note": str(refusal)[:NOTE_LENGTH]}
    moved = Estimate(estimate.fit.at_temperature(found).reward)
    ratio = found / problem.world.temperature
    return {
        **row,
        "selected": found,
        "ratio": ratio,
        "error": abs(ratio - 1),
        "nmse": reward_errors(problem, moved)["nmse"],
    }


def _chart(frame, where: str) -> Any:
    return chart_of(
        means(frame, ["method", "temperature"], "ratio"),
        title=where,
        x_label="true temperature",
        y_label="selected / true temperature",
        level=1.0,
        ticks={value: f"{value:g}" for value in frame["temperature"].unique()},
    )


def _claims(frame, where: str) -> Any:
    """Whether the selected temperature is within the goal, at every true one."""
    frame = frame.with_columns(pl.col("error").cast(pl.Float64))
    filled = frame.with_columns(pl.col("error").fill_null(NONE_FOUND))
    found = []
    for method in pqr_kinds(frame):
        errors = scores_over(filled, "temperature", "error", method=method)
        goal = {size: dict.fromkeys(seeds, GOAL) for size, seeds in errors.items()}
        each = frame.filter(method=method)["error"]
        text = (
            f"{method} finds every temperature within {GOAL:.0%}: its mean relative error "
            f"is below that at each; {(each <= GOAL).sum()} of {len(each)} fits are, "
            f"{each.null_count()} found none, which counts as an error of {NONE_FOUND:.0%}"
        )
        found.append(claim_at_every("temperature", text, errors, goal))
    return Claims(f"The goal, {where}", found)
