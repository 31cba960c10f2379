"""Alpha selection: the temperature from the average reward of the decisions taken."""

from typing import Any, ClassVar

from ._cells import PAPER_OPTIONS, cell_tasks_of, paper_cells
from ._kinds import PQR_KINDS, kinds
from ._study import Option, Study, choose

DEFAULT_METHODS = ["default", "paper", "paper-epochs", "regression"]
GOAL = 0.1
NONE_FOUND = 1.0
"""The error of a fit without a temperature, that of finding zero: the fit was refused, or
only a negative temperature gives the average."""
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
        methods = choose("methods", settings["methods"], PQR_KINDS)
        cells = [
            {**cell, "temperature": true, "assumed": {"temperature": 1.0}}
            for cell in paper_cells(settings)
            for true in settings["temperatures"]
        ]
        return cell_tasks_of(cells, settings["seeds"], "method", methods)

    def run(self, task):
        from ._paper_rows import selection_row

        return [selection_row(**task.parameters)]

    def report(self, frame, folder):
        from ._figures import draw_charts
        from ._paper_report import conclude, score_tables

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
        return conclude("Alpha selection", ABOUT, parts, frame, folder)


def _chart(frame, where: str) -> Any:
    from ._figures import chart_of
    from ._tables import means

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
    import polars as pl

    from ._claims import Claims, claim_at_every, scores_over

    frame = frame.with_columns(pl.col("error").cast(pl.Float64))
    filled = frame.with_columns(pl.col("error").fill_null(NONE_FOUND))
    found = []
    for method in kinds(frame):
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
