"""Rust's Table IX: every method and cost function on his buses, beside what he printed."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl

import deeppqr

from .._figures import open_figure
from .._study import Option, Study, Task, check_choices
from .._tables import MISSING, Table, write_markdown
from ..published import SAMPLES, SOURCE, TABLE_IX

FORMS = ["linear", "square root", "quadratic", "cubic", "hyperbolic"]
ESTIMATORS: dict[str, Callable[..., Any]] = {
    "nfxp-full": lambda *problem: deeppqr.baselines.NFXP(*problem, full=True),
    "nfxp": lambda *problem: deeppqr.baselines.NFXP(*problem),
    "npl": lambda *problem: deeppqr.baselines.NPL(*problem),
    "ccp": lambda *problem: deeppqr.baselines.HotzMiller(*problem),
    "tdccp": lambda discount, form, law: deeppqr.baselines.TDCCP(discount, form),
}
"""Estimators of a discount, a reward and a law; the first is Rust's own."""
METHOD_NAMES = {
    "nfxp-full": "NFXP, full",
    "nfxp": "NFXP, two steps",
    "npl": "NPL",
    "ccp": "CCP",
    "tdccp": "TD-CCP",
}
LIKELIHOOD = "log-likelihood"


class RustTableIX(Study):
    """Estimates on Rust's buses: one task per sample, discount, cost function, method."""

    name = "rust-table-ix"
    title = "Rust's bus engines: structural estimates beside those of his Table IX"
    seeded = False  # nothing is drawn at random
    options: ClassVar = {
        "samples": Option(str, "+", list(SAMPLES), "groups of buses"),
        "discounts": Option(float, "+", [0.9999, 0.0], "the agent's"),
        "forms": Option(str, "+", FORMS, "cost functions"),
        "methods": Option(str, "+", list(ESTIMATORS), "how theta is estimated"),
    }

    def tasks(self, settings):
        samples = check_choices("samples", settings["samples"], SAMPLES)
        forms = check_choices("forms", settings["forms"], dict.fromkeys(FORMS))
        methods = check_choices("methods", settings["methods"], ESTIMATORS)
        return [
            Task(
                f"{sample}_beta={discount}_{form.replace(' ', '-')}_{method}",
                {"sample": sample, "discount": discount, "form": form, "method": method},
            )
            for sample in samples
            for discount in settings["discounts"]
            for form in forms
            for method in methods
        ]

    def run(self, task):
        return measure(**task.parameters)

    def report(self, frame, folder):
        tables = [*published_tables(frame), *method_tables(frame), form_table(frame)]
        write_markdown("Rust's Table IX", tables, folder)
        latex = "\n\n".join(table.latex() for table in tables)
        (folder / "tables.tex").write_text(latex + "\n", encoding="utf-8")
        draw_costs(frame, folder)
        text = "\n\n".join(table.text() for table in tables)
        return f"{text}\n\nPublished: {SOURCE}."


def measure(sample: str, discount: float, form: str, method: str) -> list[dict[str, Any]]:
    """A row per parameter, and one for the log-likelihood."""
    groups = SAMPLES[sample]
    panel = deeppqr.datasets.bus(groups)
    law = deeppqr.baselines.MileageIncrements(
        counts=deeppqr.datasets.bus_increments(groups)
    )
    estimator = ESTIMATORS[method](discount, deeppqr.baselines.bus_costs(form), law)
    estimator.fit(panel)  # the first call loads libraries, which is not to be timed
    start = time.perf_counter()
    fit = estimator.fit(panel)
    seconds = time.perf_counter() - start
    common = {
        "sample": sample,
        "discount": discount,
        "form": form,
        "method": method,
        "given": fit.given,
        "seconds": seconds,
    }
    robust = fit.estimates(clustered=True).standard_errors
    rows = [
        {
            **common,
            "parameter": row.name,
            "estimate": row.estimate,
            "standard_error": row.standard_error,
            "clustered_error": float(error),
        }
        for row, error in zip(fit.estimates().table(), robust, strict=True)
    ]
    totals = {"decisions": fit.log_likelihood}
    if fit.transition_log_likelihood is not None:
        totals[LIKELIHOOD] = fit.full_log_likelihood
    rows += [{**common, "parameter": k, "estimate": v} for k, v in totals.items()]
    printed = TABLE_IX.get((sample, discount), {}) if form == "linear" else {}
    return [_with_published(row, printed) for row in rows]


def _with_published(row: dict[str, Any], printed: Any) -> dict[str, Any]:
    found = printed.get(row["parameter"])
    if found is None:
        return row
    difference = row["estimate"] - found.value
    return {
        **row,
        "published": found.value,
        "published_error": found.error,
        "difference": difference,
    }


def published_tables(frame: pl.DataFrame) -> list[Table]:
    """Rust's own estimator, NFXP with the full likelihood, beside his figures."""
    if "published" not in frame.columns:
        return []
    part = frame.filter(
        pl.col("method") == next(iter(ESTIMATORS)), pl.col("published").is_not_null()
    )
    columns = ["", "published", "(s.e.)", "ours", "(s.e.)", "difference"]
    tables = []
    for (sample, discount), rows in part.group_by(
        ["sample", "discount"], maintain_order=True
    ):
        cells = [
            [
                row["parameter"],
                _figure(row["published"], row["parameter"]),
                _error(row["published_error"]),
                _figure(row["estimate"], row["parameter"]),
                _error(row["standard_error"]),
                f"{row['difference']:+.1e}",
            ]
            for row in rows.rows(named=True)
        ]
        title = f"Table IX, groups {sample}, discount {discount:g}: NFXP, full likelihood"
        tables.append(Table(title, columns, cells))
    return tables


def method_tables(frame: pl.DataFrame) -> list[Table]:
    """Linear costs by every method, with standard errors and seconds."""
    part = frame.filter(pl.col("form") == "linear")
    tables = []
    for (sample, discount), rows in part.group_by(
        ["sample", "discount"], maintain_order=True
    ):
        lines = []
        for (method,), found in rows.group_by(["method"], maintain_order=True):
            by_name = {row["parameter"]: row for row in found.rows(named=True)}
            theta = [by_name[name] for name in ("RC", "theta11")]
            cells = [
                f"{row['estimate']:.4f} ({row['standard_error']:.3f}) "
                f"[{row['clustered_error']:.3f}]"
                for row in theta
            ]
            totals = [by_name.get(name) for name in ("decisions", LIKELIHOOD)]
            cells += [f"{row['estimate']:.3f}" if row else MISSING for row in totals]
            lines.append([METHOD_NAMES[method], *cells, f"{found['seconds'][0]:.2f}"])
        columns = ["method", "RC", "theta11", "LL decisions", "LL with moves", "seconds"]
        title = f"Linear costs, groups {sample}, discount {discount:g}: estimate (s.e.) "
        tables.append(Table(title + "[clustered by bus]", columns, lines))
    return tables


def form_table(frame: pl.DataFrame) -> Table:
    """The decisions' log-likelihood by cost function, two-step NFXP if it was run."""
    ran = set(frame["method"])
    method = next(name for name in ("nfxp", *ESTIMATORS) if name in ran)
    part = frame.filter(pl.col("method") == method, pl.col("parameter") == "decisions")
    found = {
        (row["form"], row["sample"], row["discount"]): row["estimate"]
        for row in part.rows(named=True)
    }
    cells = list(dict.fromkeys(key[1:] for key in found))
    lines = [
        [
            form,
            *(f"{found[form, *c]:.3f}" if (form, *c) in found else MISSING for c in cells),
        ]
        for form in dict.fromkeys(key[0] for key in found)
    ]
    columns = ["costs", *(f"{sample}, beta {discount:g}" for sample, discount in cells)]
    return Table(f"Log-likelihood of decisions, {METHOD_NAMES[method]}", columns, lines)


def draw_costs(frame: pl.DataFrame, folder: Path) -> None:
    """The estimated cost of running a bus against its mileage, a panel per sample."""
    ran = set(frame["method"])
    method = next(name for name in ("nfxp", *ESTIMATORS) if name in ran)
    discount = frame["discount"].max()
    part = frame.filter(pl.col("method") == method, pl.col("discount") == discount)
    samples = list(part["sample"].unique(maintain_order=True))
    bins = np.arange(78.0)[:, None]
    with open_figure(folder, "cost-curves", len(samples), sharey=True) as axes:
        for axis, sample in zip(axes, samples, strict=True):
            chosen = part.filter(pl.col("sample") == sample)
            for (form,), rows in chosen.group_by(["form"], maintain_order=True):
                reward = deeppqr.baselines.bus_costs(form)
                by_name = dict(zip(rows["parameter"], rows["estimate"], strict=True))
                theta = np.array([by_name[name] for name in reward.names])
                theta[0] = 0.0
                cost = -(reward.features(bins) @ theta)
                axis.plot(bins[:, 0] * 5, cost[:, 0] - cost[0, 0], label=form)
            axis.set_title(f"groups {sample}, discount {discount:g}")
            axis.set_xlabel("thousand miles since replacement")
        axes[0].set_ylabel("monthly cost above a new engine's")
        axes[-1].legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _figure(value: float, name: str) -> str:
    return f"{value:.3f}" if name == LIKELIHOOD else f"{value:.4f}"


def _error(value: float | None) -> str:
    return "" if value is None else f"({value:.4f})"
