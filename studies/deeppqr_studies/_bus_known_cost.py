"""Buses with a known replacement cost: accuracy, coverage, and the size of the test."""

from typing import Any, ClassVar

from ._study import Option, Study, Task, choose

REPLICATES_PER_TASK = 20
LEVEL = 0.95

METHODS = {
    "projection": "PQR by frequencies, projected on mileage",
    "projection-2": "the same, projected on a constant and mileage",
    "one-parameter": "joint estimation told that r(keep) = -theta x",
    "nfxp": "NFXP told the replacement cost: the fair oracle",
}


class BusKnownCost(Study):
    """Errors of r by number of buses, and whether 95 % intervals are what they say."""

    name = "bus-known-cost"
    title = "buses with a known replacement cost: errors, coverage, specification test"
    options: ClassVar = {
        "trajectories": Option(
            int, "*", [50, 250, 500, 1000, 2500, 5000], "buses, 80 % of them to fit"
        ),
        "methods": Option(str, "+", list(METHODS), f"among {', '.join(METHODS)}"),
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
                for name in choose("methods", settings["methods"], METHODS):
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
        from ._known_cost import coverage, errors

        about = task.parameters
        if "method" in about:
            return [errors(**about)]
        rows = []
        for replication in range(*about["replications"]):
            rows += coverage(about["trajectories"], replication, level=LEVEL)
        return rows

    def report(self, frame, folder):
        import polars as pl

        from ._tables import write_markdown

        tables = []
        scored = frame.filter(pl.col("part") == "errors")
        if not scored.is_empty():
            tables.append(_report_errors(scored, folder))
        counted = frame.filter(pl.col("part") != "errors")
        for (number,), part in sorted(counted.group_by("trajectories")):
            tables.append(_report_coverage(number, part))
        write_markdown("Buses with a known replacement cost", tables, folder)
        return "\n\n".join(table.text() for table in tables)


def _report_errors(frame, folder) -> Any:
    """Mean MAPE by number of buses, beside the published."""
    from ._figures import chart_of, draw_charts
    from ._reward_recovery import PUBLISHED_MAPE
    from ._tables import means, method_table

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
    import polars as pl

    from ._tables import Table

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
