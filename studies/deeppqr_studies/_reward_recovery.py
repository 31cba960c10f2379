"""Reward recovery: every method on every world, scored against the exact truth."""

from typing import Any, ClassVar

from ._cells import IRRELEVANT_TRAJECTORIES, WORLD_OPTIONS, cell_tasks
from ._kinds import METHODS, kinds
from ._study import Option, Study, choose

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
"""What runs unless methods are named; `paper-epochs` takes minutes and must be."""

WITHOUT = {"oracle": ["samq-bus"], "one-parameter": ["paper", "samq-bus"]}

PUBLISHED_MAPE = {
    "NFXP": {50: 3.62, 250: 1.37, 500: 0.90, 1000: 0.71, 2500: 0.68, 5000: 0.40},
    "GLADIUS": {50: 3.44, 250: 0.84, 500: 0.55, 1000: 0.52, 2500: 0.13, 5000: 0.12},
    "SAmQ": {50: 4.92, 250: 3.65, 500: 3.13, 1000: 1.55},
    "IQ-Learn": {50: 114, 250: 113, 500: 113, 1000: 113, 2500: 112, 5000: 119},
    "log-odds": {50: 80.6, 250: 72.0, 500: 71.9, 1000: 72.2, 2500: 62.6, 5000: 46.5},
}
"""Mean MAPE % over 20 repetitions by number of trajectories [kang2025gladius]. NFXP
estimates two parameters; log-odds are those of behavioural cloning."""

PUBLISHED_IRRELEVANT = {"GLADIUS": {2: 1.24, 5: 2.51, 20: 6.07, 50: 9.76, 100: 11.35}}
"""Mean MAPE % with 1,000 trajectories by number of irrelevant variables
[kang2025gladius]."""

PUBLISHED_SLOPES = {
    "SAmQ": {5000: 0.001},
    "NFXP, aggregated states": {5000: 0.199},
    "PQR": {5000: 1.276},
}
"""Mean squared error of the three slopes by number of steps [geng2023samq]. PQR's figure
compares -theta with +theta: there a perfect fit scores 4/3."""


TRUNCATED = 9.0
"""Where the paper's figure cuts mean squared errors off."""

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
        methods = choose("methods", settings["methods"], METHODS)
        return cell_tasks(settings, "method", methods, without=WITHOUT)

    def run(self, task):
        from ._measure import measure

        return [measure(**task.parameters)]

    def report(self, frame, folder):
        from ._paper_report import conclude

        tables = []
        for world, part in frame.group_by("world", maintain_order=True):
            tables += REPORTS[world[0]](part, folder)
        return conclude("Reward recovery", None, tables, frame, folder)


def _report_paper(frame, folder) -> list[Any]:
    """Mean NMSE and MSE by p, tables and a panel per scale, and the paper's claims."""
    import polars as pl

    from ._tables import method_table

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
    from ._figures import chart_of, draw_charts
    from ._tables import means

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
    """What the paper says of its figure, judged at every p."""
    from ._claims import Claims, claim_at_every, claim_below, scores_over

    sizes, run = sorted(set(frame["p"])), set(frame["method"])
    rivals = {name: words for name, words in COMPETITORS.items() if name in run}

    def errors(method: str) -> dict[Any, Any]:
        return scores_over(frame, "p", "mse", method=method)

    def smaller(text: str, one: str, other: str) -> None:
        sides = errors(one), errors(other)
        claims.append(claim_at_every("p", text, *sides, relative=True))

    claims: list[Any] = []
    for pqr in kinds(frame):
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
    import polars as pl

    from ._tables import Table

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
    import polars as pl

    from ._figures import chart_of, draw_charts
    from ._tables import means, method_table

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
    from ._tables import method_table

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
