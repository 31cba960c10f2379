"""Bring docs/tables/bench.csv into docs/images/bench.png and the page on performance.

    python benchmarks/bench_figure.py

Left: error and time of every method on the same decisions; right: the default fit's time as
rows and columns grow. Processor seconds: other work on a machine moves them less than the
seconds that pass. Tables of the page stand between comments that name their section.
"""

import re
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import polars as pl
from bench import DESIGN_TITLE, PEERS_TITLE
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

DOCS = Path(__file__).parent.parent / "docs"
TABLE, IMAGE = DOCS / "tables/bench.csv", DOCS / "images/bench.png"
PAGE = DOCS / "performance.md"
SECTIONS = {"peers": PEERS_TITLE, "genpqr": DESIGN_TITLE}
WORLDS = {"paper": "the paper's world", "genpqr": "genpqr's design"}
OURS, THEIRS, INK = "#0b6e6e", "#b5562b", "#444444"


def means(frame: pl.DataFrame, *by: str) -> pl.DataFrame:
    """Over runs that ended, in the file's order."""
    ended = frame.filter(pl.col("cpu").is_not_nan())
    spread = (pl.col("cpu").min().alias("low"), pl.col("cpu").max().alias("high"))
    columns = (pl.col("cpu").mean(), pl.col("error").mean(), *spread)
    return ended.group_by(*by, maintain_order=True).agg(*columns)


def peers(axes, frame: pl.DataFrame) -> None:
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
            xytext=(-7 if right else 8, 7),
            textcoords="offset points",
            ha="right" if right else "left",
            color=colour,
            weight="bold" if ours else "normal",
            fontsize=9,
        )
    axes.axhline(1.0, color=INK, lw=0.8, ls=":")
    place = {"transform": axes.get_yaxis_transform(), "ha": "right", "va": "top"}
    axes.text(0.99, 0.93, "every action pays what the anchor does", fontsize=8, **place)
    axes.set(xscale="log", yscale="log", xlabel="processor seconds of one fit")
    axes.set_ylabel("error of the rewards (1: nothing learned)")
    rows, p = frame["cell"][0].split(", p ")
    axes.set_title(f"The same {rows.removeprefix('rows ')} decisions, p = {p}", loc="left")


def sizes(axes, frame: pl.DataFrame) -> None:
    """Five state variables and five actions in both worlds; a dot for each run."""
    number = pl.col("cell").str.extract(r"rows ([\d,]+)").str.replace_all(",", "")
    plain = pl.col("cell").str.contains(r"^rows [\d,]+, (p 5$|shift)")
    frame = frame.filter(plain & pl.col("cpu").is_not_nan()).with_columns(
        rows=number.cast(float)
    )
    for (world, name), style in zip(WORLDS.items(), ("o-", "s--"), strict=True):
        some = frame.filter(pl.col("world") == world)
        mean = some.group_by("rows").agg(pl.col("cpu").mean()).sort("rows")
        axes.plot(some["rows"], some["cpu"], style[0], color=OURS, ms=5, alpha=0.5)
        axes.plot(mean["rows"], mean["cpu"], style, color=OURS, ms=7, label=name)
    axes.set(xscale="log", yscale="log", xlabel="decisions", ylabel="processor seconds")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.set_title("The default fit as data grow", loc="left")
    axes.legend(frameon=False, loc="upper left")


def page_table(frame: pl.DataFrame, *, times: bool) -> str:
    """Markdown: means over the runs that ended, ranges of seconds, what was said."""
    head = ["method", "cell", "runs", "seconds", "processor s", "warm s", "peak MB"]
    head += ["error", *["times ours"] * times, "note"]
    ours = dict(frame.filter(pl.col("method") == "deeppqr").select("run", "cpu").rows())
    lines = [head, ["---", "---", *["---:"] * (len(head) - 3), "---"]]
    for (method, cell), rows in frame.group_by("method", "cell", maintain_order=True):
        done = rows.filter(pl.col("error").is_not_nan() & pl.col("error").is_not_null())
        line = [str(method), str(cell), f"{len(done)} of {len(rows)}"]
        line += [between(done["cold"].to_list()), between(done["cpu"].to_list())]
        line += [shown(done["warm"].mean(), 1), shown(done["peak"].mean(), 0)]
        line += [shown(done["error"].mean(), 4)]
        # On the same draw: draws differ in how many rounds a fit takes.
        pairs = zip(done["run"], done["cpu"], strict=True)
        line += [between([cpu / ours[run] for run, cpu in pairs if run in ours])] * times
        lines.append([*line, "; ".join(sorted(set(rows["note"].drop_nulls())))])
    filled = [any(line[at] for line in lines[2:]) for at in range(len(head))]
    lines = [
        [cell for cell, keep in zip(line, filled, strict=True) if keep] for line in lines
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def between(values: list) -> str:
    """The range of some numbers, or the one that there is."""
    known = [value for value in values if value is not None and value == value]
    ends = sorted({shown(value, 1) for value in (min(known), max(known))} if known else "")
    return " to ".join(sorted(ends, key=lambda text: float(text.replace(",", ""))))


def shown(value, digits: int) -> str:
    return "" if value is None or value != value else f"{value:,.{digits}f}"


def refill(page: str, name: str, table: str) -> str:
    """The page with a section's table between `<!-- name -->` and `<!-- end -->`."""
    between = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.S)
    found, number = between.subn(lambda part: f"{part[1]}\n{table}\n\n{part[2]}", page)
    assert number == 1, f"{PAGE} has no place for {name}"
    return found


def main() -> None:
    table = pl.read_csv(TABLE, infer_schema_length=None)
    figure, (left, right) = plt.subplots(1, 2, figsize=(11.5, 4.6), width_ratios=[3, 2])
    peers(left, table.filter(pl.col("section") == PEERS_TITLE))
    sizes(right, table.filter(pl.col("method").str.starts_with("deeppqr")))
    for axes in (left, right):
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_minor_formatter(NullFormatter())
            axis.set_major_formatter(StrMethodFormatter("{x:,g}"))
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25, which="major")
    figure.tight_layout()
    figure.savefig(IMAGE, dpi=110)
    page = PAGE.read_text(encoding="utf-8")
    for name, title in SECTIONS.items():
        rows = table.filter(pl.col("section") == title)
        page = refill(page, name, page_table(rows, times=title == PEERS_TITLE))
    PAGE.write_text(page, encoding="utf-8")
    print(IMAGE, PAGE)


if __name__ == "__main__":
    main()
