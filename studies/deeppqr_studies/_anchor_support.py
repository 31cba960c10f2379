"""Anchor support: what becomes of the estimates as the anchor becomes rare."""

from typing import Any, ClassVar

from ._cells import PAPER_OPTIONS, cell_tasks_of, paper_cells
from ._kinds import all_but, kinds
from ._study import Option, Study, choose
from ._tables import REFUSED

METHODS = all_but("one-parameter")
"""That one is for buses."""
DEFAULT_METHODS = ["default", "paper", "paper-epochs", "regression", "oracle"]
FAILS = 1.0
"""The NMSE of who knows the premium and nothing else."""
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
        "methods": Option(str, "+", DEFAULT_METHODS, f"among {', '.join(METHODS)}"),
    }

    def tasks(self, settings):
        methods = choose("methods", settings["methods"], METHODS)
        cells = [
            {**cell, "premium": premium}
            for cell in paper_cells(settings)
            for premium in settings["premium"]
        ]
        return cell_tasks_of(cells, settings["seeds"], "method", methods)

    def run(self, task):
        from ._paper_rows import support_row

        return [support_row(**task.parameters)]

    def report(self, frame, folder):
        from ._figures import draw_charts
        from ._paper_report import conclude, score_tables

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
        return conclude("Anchor support", ABOUT, parts, frame, folder)


def _verdicts(frame, where: str) -> list[Any]:
    """By premium: the anchor's share, and in how many fits each verdict was given."""
    import polars as pl

    from ._tables import Table

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
    from ._claims import Claims, claim_below, scores_by

    first, last = frame["premium"].min(), frame["premium"].max()
    found = []
    for method in kinds(frame):
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
    from ._claims import AGREES, DISAGREES, UNDECIDED, Claim

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
    from ._figures import chart_of
    from ._tables import means

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
