"""Anchor support: the errors of the estimates as the anchor becomes rare."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import polars as pl

from .._claims import AGREES, DISAGREES, UNDECIDED, Claim, Claims, claim_below, scores_by
from .._figures import chart_of, draw_charts
from .._methods import METHODS, methods_without, pqr_kinds
from .._problem import PAPER_OPTIONS, cell_tasks_of, make_problem, paper_cells
from .._scores import anchor_share, try_method
from .._study import Option, Study, check_choices
from .._tables import REFUSED, Table, means, score_tables, write_summary

POSSIBLE_METHODS = methods_without("one-parameter")  # that one is for buses
DEFAULT_METHODS = ["default", "paper", "paper-epochs", "regression", "oracle"]
FAILS = 1.0  # the NMSE of an estimate that knows the premium and nothing else
OVERLAP = ("anchor_share", "anchor_share_rarest", "anchor_min_prob")
"""The diagnostics that say whether the anchor is taken often enough."""
VERDICTS = ("ok", "watch", "trouble")
COLUMNS = (
    *("mse", "nmse", "level_error"),
    *(f"{name}_verdict" for name in OVERLAP),
    "overlap",
)
WARNED = ("watch", "trouble", REFUSED)
ABOUT = (
    "A premium is added to the reward of every action but the anchor, so that the anchor "
    "is taken ever more rarely. The score can be compared across premiums: the mean "
    "squared error of r over the actions other than the anchor, relative to the mean "
    "square of r without its premium. Who knows the premium and nothing else scores 1; "
    "predicting zero scores far more. The oracle knows the premium, and leans on no "
    "anchor."
)


class AnchorSupport(Study):
    """Errors and the diagnostics' verdicts by the share of the anchor."""

    name = "anchor-support"
    title = "errors and warnings as the anchor becomes rare"
    options: ClassVar = {
        **PAPER_OPTIONS,
        "p": PAPER_OPTIONS["p"]._replace(default=[5]),
        "premium": Option(
            float, "+", [0.0, 1.5, 3.0, 4.5, 5.5], "reward added to all actions but one"
        ),
        "methods": Option(
            str, "+", DEFAULT_METHODS, f"among {', '.join(POSSIBLE_METHODS)}"
        ),
    }

    def tasks(self, settings):
        methods = check_choices("methods", settings["methods"], POSSIBLE_METHODS)
        cells = [
            {**cell, "premium": premium}
            for cell in paper_cells(settings)
            for premium in settings["premium"]
        ]
        return cell_tasks_of(cells, settings["seeds"], "method", methods)

    def run(self, task):
        return [support_row(**task.parameters)]

    def report(self, frame, folder):
        parts, charts = [], []
        for (p, scale), part in frame.group_by(["p", "scale"], maintain_order=True):
            where = f"p = {p:g}, scale {scale:g}"
            for score, words in (
                ("nmse", "NMSE of r beyond its premium"),
                ("level_error", "error of the level of r"),
            ):
                title = f"Mean {words} (standard error), {where}"
                parts += score_tables(part, title, over="premium", score=score)
            parts += [*_verdicts(part, where), _claims(part, where)]
            charts.append(_chart(part, where))
        draw_charts(charts, folder, "anchor-support")
        return write_summary("Anchor support", ABOUT, parts, frame, folder)


def support_row(cell: dict[str, Any], method: str, seed: int) -> dict[str, Any]:
    """Errors relative to the reward without its premium, and what the diagnostics say."""
    problem = make_problem(cell, seed)
    estimate, row = try_method(cell, METHODS, method, problem, seed)
    row["anchor_share"] = anchor_share(problem)
    row["expected_share"] = float(np.exp(problem.log_policy[:, problem.anchor]).mean())
    row |= dict.fromkeys(COLUMNS)
    if estimate is None:
        return {**row, "overlap": REFUSED}
    gap, truth = (
        np.delete(reward, problem.anchor, axis=1)
        for reward in (estimate.reward(problem.states) - problem.reward, problem.reward)
    )
    size = np.mean((truth - problem.world.premium) ** 2)
    row |= {
        "mse": float(np.mean(gap**2)),
        "nmse": float(np.mean(gap**2) / size),
        "level_error": float(gap.mean()),
    }
    if estimate.diagnostics is not None:
        verdicts = {name: estimate.diagnostics[name].verdict for name in OVERLAP}
        row |= {f"{name}_verdict": verdict for name, verdict in verdicts.items()}
        row["overlap"] = max(verdicts.values(), key=VERDICTS.index)
    return row


def _verdicts(frame, where: str) -> list[Any]:
    """By premium: the anchor's share, and in how many fits each verdict was given."""
    judged = frame.filter(pl.col("overlap").is_not_null())
    if judged.is_empty():
        return []
    rows = []
    for premium in sorted(frame["premium"].unique()):
        share = frame.filter(premium=premium)["anchor_share"].mean()
        for method in judged["method"].unique(maintain_order=True):
            given = judged.filter(premium=premium, method=method)["overlap"].to_list()
            counts = [str(given.count(verdict)) for verdict in ("ok", *WARNED)]
            rows.append([f"{premium:g}", f"{100 * share:.3g}", method, *counts])
    columns = ["premium", "anchor %", "method", "ok", *WARNED]
    title = f"What the diagnostics say of the anchor's support, fits, {where}"
    return [Table(title, columns, rows)]


def _claims(frame, where: str) -> Any:
    first, last = frame["premium"].min(), frame["premium"].max()
    found = []
    for method in pqr_kinds(frame):
        if first != last:
            scores = [
                scores_by(frame, "nmse", method=method, premium=premium)
                for premium in (first, last)
            ]
            text = f"the error of {method} grows as the anchor becomes rare"
            found.append(claim_below(text, *scores, relative=True))
        found.append(_warned(frame.filter(method=method), method))
    return Claims(f"What we expect, {where}", found)


def _warned(frame, method: str) -> Any:
    """Whether the diagnostics object to every fit that fails."""
    fits = list(zip(frame["nmse"], frame["overlap"], strict=True))
    failed = [overlap for nmse, overlap in fits if nmse is None or nmse > FAILS]
    missed = sum(overlap not in WARNED for overlap in failed)
    early = sum(
        overlap in WARNED for nmse, overlap in fits if nmse is not None and nmse <= FAILS
    )
    verdict = UNDECIDED if not failed else DISAGREES if missed else AGREES
    text = f"the library warns or refuses before {method} fails (NMSE above {FAILS:g})"
    numbers = (
        f"{len(failed)} of {len(fits)} fits failed, {missed} of them without a warning; "
        f"{early} of the others were warned of"
    )
    return Claim(text, verdict, numbers)


def _chart(frame, where: str) -> Any:
    shares = {
        premium: f"{100 * frame.filter(premium=premium)['anchor_share'].mean():.2g}"
        for premium in frame["premium"].unique()
    }
    return chart_of(
        means(frame, ["method", "premium"], "nmse"),
        title=where,
        x_label="share of the anchor, %",
        y_label="NMSE of r beyond its premium",
        level=FAILS,
        ticks=shares,
    )
