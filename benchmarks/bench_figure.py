"""Draw docs/images/bench.png from docs/tables/bench.csv.

    python benchmarks/bench_figure.py

Left: error and time of every method on the same decisions; right: the default fit's time as
rows and columns grow. Processor seconds, since other work on a machine hardly moves them.
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import polars as pl
from bench import PEERS_TITLE, SIZES_TITLE

DOCS = Path(__file__).parent.parent / "docs"
TABLE, IMAGE = DOCS / "tables/bench.csv", DOCS / "images/bench.png"
OURS, THEIRS, INK = "#0b6e6e", "#b5562b", "#444444"
# Where a label goes from its point, in points, so that labels do not meet.
BESIDE = {"econirl AIRL neural": (0, -15), "econirl AIRL2": (0, 9)}


def means(frame: pl.DataFrame, *by: str) -> pl.DataFrame:
    """Over runs that ended, in the file's order."""
    ended = frame.filter(pl.col("cpu").is_not_nan())
    spread = (pl.col("cpu").min().alias("low"), pl.col("cpu").max().alias("high"))
    columns = (pl.col("cpu").mean(), pl.col("error").mean(), *spread)
    return ended.group_by(*by, maintain_order=True).agg(*columns)


def peers(axes: plt.Axes, frame: pl.DataFrame) -> None:
    for row in means(frame, "method", "cell").iter_rows(named=True):
        ours = row["method"] == "deeppqr"
        colour = OURS if ours else THEIRS
        wide = [[row["cpu"] - row["low"]], [row["high"] - row["cpu"]]]
        axes.errorbar(row["cpu"], row["error"], xerr=wide, fmt="o", color=colour, ms=7)
        name = row["method"] + (
            f", {int(steps.replace(',', '')) // 1_000:,}k steps"
            if (steps := row["cell"].partition("steps ")[2])
            else ""
        )
        right = row["cpu"] > 150
        axes.annotate(
            name,
            (row["cpu"], row["error"]),
            xytext=BESIDE.get(row["method"], (-7 if right else 8, 6)),
            textcoords="offset points",
            ha="right" if right else "left",
            color=colour,
            weight="bold" if ours else "normal",
            fontsize=9,
        )
    axes.axhline(1.0, color=INK, lw=0.8, ls=":")
    axes.text(0.01, 1.06, "every action pays what the anchor does", fontsize=8, color=INK,
              transform=axes.get_yaxis_transform())  # fmt: skip
    axes.set(xscale="log", yscale="log", xlabel="processor seconds of one fit")
    axes.set_ylabel("error of the rewards (1: nothing learned)")
    rows, p = frame["cell"][0].split(", p ")
    axes.set_title(f"The same {rows.removeprefix('rows ')} decisions, p = {p}", loc="left")


def sizes(axes: plt.Axes, frame: pl.DataFrame) -> None:
    paper = means(frame.filter(pl.col("world") == "paper"), "cell").with_columns(
        pl.col("cell").str.extract(r"rows ([\d,]+)").str.replace_all(",", "").cast(float)
        .alias("rows"),
        pl.col("cell").str.extract(r"p (\d+)").cast(int).alias("p"),
        pl.col("cell").str.contains("discount").alias("other"),
    )  # fmt: skip
    paper = paper.filter(~pl.col("other")).sort("rows")
    for p, style in zip(
        sorted(paper["p"].unique()), ("o-", "s--", "^:", "D-."), strict=False
    ):
        some = paper.filter(pl.col("p") == p)
        axes.plot(
            some["rows"], some["cpu"], style, color=OURS, label=f"{p} state variables"
        )
    axes.set(xscale="log", yscale="log", xlabel="decisions", ylabel="processor seconds")
    axes.set_title("The default fit as data grow", loc="left")
    axes.legend(frameon=False)


def main() -> None:
    table = pl.read_csv(TABLE, infer_schema_length=None)
    figure, (left, right) = plt.subplots(1, 2, figsize=(11.5, 4.6), width_ratios=[3, 2])
    peers(left, table.filter(pl.col("section") == PEERS_TITLE))
    sizes(right, table.filter(pl.col("section") == SIZES_TITLE))
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25, which="major")
    figure.tight_layout()
    figure.savefig(IMAGE, dpi=110)
    print(IMAGE)


if __name__ == "__main__":
    main()
