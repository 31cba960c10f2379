"""Bring new runs of studies into the documentation's tables, verdicts and figures.

    deeppqr study reward-recovery --methods default --out runs/rr
    python benchmarks/refresh_tables.py reward-recovery runs/rr

Rows of the methods that were run replace those methods' rows in the same worlds; the other
methods keep theirs. Means, verdicts and figures are then made anew from all rows. Studies
whose rows are not kept (rust-pqr, airline) bring their tables as they are, and `benchmarks`
takes the means of runs of `reward-recovery` into the table of the benchmarks' page. Tables
in the pages follow by `page_tables.py`.
"""

import argparse
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from deeppqr_studies import STUDIES

DOCS = Path(__file__).parent.parent / "docs"
TABLES, IMAGES = DOCS / "tables", DOCS / "images"
# Studies whose rows are kept, and the figures of each that the pages show.
FIGURES = {
    "reward-recovery": {
        "paper-world": "reward-recovery",
        "paper-world-mse": "figures-paper-world-mse",
        "paper-world-mse-truncated": "figures-paper-world-mse-truncated",
    },
    "q-recovery": {"q-nmse-scale-1": "figures-q-nmse-scale-1"},
    "training-error": {"training-error-scale-1": "figures-training-error-scale-1"},
    "convergence": {
        "convergence-nmse": "figures-convergence-nmse",
        "convergence-bound": "figures-convergence-bound",
    },
    "robustness": {"robustness": "figures-robustness"},
    "sensitivity": {"sensitivity": "figures-sensitivity"},
    "alpha-selection": {"alpha-selection": "figures-alpha-selection"},
    "anchor-support": {"anchor-support": "figures-anchor-support"},
}
# Studies whose printed tables are kept: their files by how their titles begin.
PRINTED = {
    "rust-pqr": {
        "RC and theta11": "rust-pqr",
        "The bootstrap over buses": "rust-pqr-bootstrap",
        "Group": "rust-demand",
    },
    "error-budget": {"known-cost-bus": "error-budget"},
    "airline": {
        "The data, checked": "airline-data",
        "Mean log-likelihood of period 15 (": "airline-likelihood",
        "Mean log-likelihood of period 15, by": "airline-likelihood-by-presence",
        "The default's advantage": "airline-gain",
        "The five most rewarding markets": "airline-top-markets",
        "Standard errors of the rewards": "airline-errors",
        "Mean reward and chance of serving": "airline-competition",
    },
}
PRINTED_FIGURES = {
    "error-budget": {},
    "rust-pqr": {"costs": "rust-costs", "demand": "rust-demand"},
    "airline": {
        name: f"airline-{name}"
        for name in (
            *("top-markets-default", "map", "likelihood"),
            *("competition-reward", "competition-probability"),
        )
    },
}
# Names of first columns that have none in print, by how titles begin.
FIRST = {"RC and the": "sample and parameter", "The bootst": "sample"}
FIRST["known-cost"] = "part replaced by the truth"
DIAGNOSTICS = "What the diagnostics say"  # a table of counts, in a file of its own
APART = (DIAGNOSTICS, "What was run")  # these are no means
BENCHMARKS = "benchmarks-reward-recovery"
MISSING = "-"  # a cell that was not run
CELL = re.compile(r"^(?P<value>[-\d.e+]+)(?: \((?P<error>[^)]+)\))?(?: \[(?P<few>\d+)\])?$")
CLAIM = re.compile(r"^- \*(?P<verdict>[^*]+)\*: (?P<claim>.*\))$")
SEEDS = re.compile(r"; seeds: \d+$| \[\d+\]$")
DEMAND = re.compile(r"^(?P<sample>Groups? [\d-]+): replacements per bus and year$")


class Printed(NamedTuple):
    """A table of a study's `summary.md`."""

    title: str
    head: list[str]
    rows: list[list[str]]

    def frame(self) -> pl.DataFrame:
        names = [name or FIRST.get(self.title[:10], "what") for name in self.head]
        return pl.DataFrame(self.rows, schema=names, orient="row")


def merged(name: str, folders: list[Path]) -> pl.DataFrame:
    """The documentation's rows of a study; new runs replace their methods' rows."""
    old = pl.read_csv(TABLES / f"{name}.csv", infer_schema_length=None)
    for folder in folders:
        new = _rows(folder)
        place = ["method", *(["world"] if "world" in new.columns else [])]
        again = new.select(place).unique()
        kept = old.join(again, on=place, how="anti", maintain_order="left")
        # The default's lines come first in every table.
        first = "default" in new["method"]
        parts = [new, kept] if first else [kept, new]
        old = pl.concat(parts, how="diagonal_relaxed").select(
            *kept.columns, *(name for name in new.columns if name not in kept.columns)
        )
    return old


def _rows(folder: Path) -> pl.DataFrame:
    """The rows of a run, with seconds."""
    new = pl.read_csv(folder / "table.csv", infer_schema_length=None)
    times = folder / "times.csv"
    if times.exists() and "seconds" not in new.columns:
        spent = pl.read_csv(times, infer_schema_length=None).select("task", "seconds")
        new = new.join(spent, on="task", how="left", maintain_order="left")
    return new


def write(name: str, frame: pl.DataFrame) -> None:
    """A study's rows, means, verdicts and figures."""
    rows = frame if "seconds" in frame.columns else frame.with_columns(seconds=None)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        STUDIES[name].report(rows, folder)
        tables, verdicts = read_summary(folder / "summary.md")
        _copy_figures(FIGURES[name], folder)
    frame.write_csv(TABLES / f"{name}.csv")
    for table in tables:
        if table.title.startswith(DIAGNOSTICS):
            table.frame().write_csv(TABLES / f"{name}-diagnostics.csv")
    means = [table for table in tables if not table.title.startswith(APART)]
    _replace_means(f"{name}-summary", means)
    _replace_verdicts(name, verdicts)


def write_benchmarks(folders: list[Path]) -> None:
    """Means on the benchmarks' page; rows are kept of the buses only."""
    every = pl.concat([_rows(folder) for folder in folders], how="diagonal_relaxed")
    path = TABLES / "bus-recovery.csv"
    if path.exists():
        old = pl.read_csv(path, infer_schema_length=None)
        kept = old.join(every, on="task", how="anti", maintain_order="left")
        every = pl.concat([every, kept], how="diagonal_relaxed")
    with tempfile.TemporaryDirectory() as made:
        STUDIES["reward-recovery"].report(every, Path(made))
        tables, _ = read_summary(Path(made) / "summary.md")
    known = _plain(pl.read_csv(TABLES / f"{BENCHMARKS}.csv", infer_schema=False))["_table"]
    shown = [table for table in tables if SEEDS.sub("", table.title) in set(known)]
    _replace_means(BENCHMARKS, shown, rows=True)
    every.filter(pl.col("world") != "paper").write_csv(path)


def write_printed(name: str, folder: Path) -> None:
    """The tables of a study as it printed them; columns that did not run stay."""
    tables, verdicts = read_summary(folder / "summary.md")
    for start, file in PRINTED[name].items():
        found = [table for table in tables if table.title.startswith(start)]
        if file == "rust-demand":
            frame = pl.concat(
                [_of_sample(table) for table in found if DEMAND.match(table.title)]
            )
        elif file == "airline-top-markets":
            frame = pl.concat([_of_model(table) for table in found])
        elif found:
            frame = found[0].frame()
        else:
            continue
        path = TABLES / f"{file}.csv"
        if path.exists():
            old = pl.read_csv(path, infer_schema=False)
            more = [each for each in old.columns if each not in frame.columns]
            key = frame.columns[0]
            if file == "airline-likelihood" and more:
                frame = frame.join(old.select(key, *more), on=key, how="left")
        frame.write_csv(path)
    if verdicts:
        _replace_verdicts(name, verdicts)
    _copy_figures(PRINTED_FIGURES[name], folder)


def _of_sample(table: Printed) -> pl.DataFrame:
    """A table of demand with its sample as a column."""
    found = DEMAND.match(table.title)
    assert found is not None
    return table.frame().select(pl.lit(found["sample"]).alias("sample"), pl.all())


def _of_model(table: Printed) -> pl.DataFrame:
    """A table of best markets with its method, and the carrier in every row."""
    model = table.title.split(", ")[1].split(":")[0]
    carrier = pl.col("carrier").replace("", None).forward_fill()
    return table.frame().select(
        pl.lit(model).alias("model"), carrier, pl.all().exclude("carrier")
    )


def _copy_figures(figures: dict[str, str], folder: Path) -> None:
    for figure, image in figures.items():
        shutil.copy(folder / f"{figure}.png", IMAGES / f"{image}.png")


def read_summary(page: Path) -> tuple[list[Printed], list[dict[str, str]]]:
    """Tables and verdicts of a study's `summary.md`."""
    tables: list[Printed] = []
    verdicts, title, head = [], "", None
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("**"):
            title, head = line.strip("*"), None
        elif line.startswith("|"):
            row = line[1:].removesuffix("|").split(" | ")
            cells = [cell.strip().replace("\\|", "|") for cell in row]
            if head is None:
                head = _distinct(cells)
                tables.append(Printed(title, head, []))
            elif not set(line) <= set("|-: "):
                tables[-1].rows.append(cells)
        elif found := CLAIM.match(line):
            claim, evidence = _last_bracket(found["claim"])
            about = {"verdict": found["verdict"], "claim": claim, "evidence": evidence}
            verdicts.append({"group": title, **about})
    return tables, verdicts


def _last_bracket(text: str) -> tuple[str, str]:
    """What stands before the bracket that ends a text, and in it; it may hold others."""
    depth = 0
    for at in range(len(text) - 1, -1, -1):
        depth += (text[at] == ")") - (text[at] == "(")
        if depth == 0:
            return text[:at].rstrip(), text[at + 1 : -1]
    raise ValueError(f"A bracket of {text!r} is never opened.")


def _distinct(head: list[str]) -> list[str]:
    """Headings; one that comes again says which column it stands beside."""
    return [
        f"{name} [{head[at - 1]}]" if head.count(name) > 1 else name
        for at, name in enumerate(head)
    ]


def _cells(table: Printed) -> list[dict[str, Any]]:
    return [
        _cell(table.title, row[0], column, text)
        for row in table.rows
        for column, text in zip(table.head[1:], row[1:], strict=True)
        if text != MISSING
    ]


def _cell(table: str, row: str, column: str, text: str) -> dict[str, str | None]:
    found = CELL.match(text)
    value, error, few = text, None, None
    if found:
        value, error, few = found.group("value", "error", "few")
    return {
        "table": table,
        "row": row,
        "column": column,
        "value": value,
        "standard_error": error,
        "seeds_if_fewer": few,
    }


def _replace_means(file: str, tables: list[Printed], *, rows: bool = False) -> None:
    """New tables in place of those of the same title, the others as they were; with
    `rows` only the new tables' rows. Seconds stay where no new ones were measured."""
    path = TABLES / f"{file}.csv"
    old = _plain(pl.read_csv(path, infer_schema=False))
    cells = [cell for table in tables for cell in _cells(table)]
    new = _plain(pl.DataFrame(cells, schema=dict.fromkeys(old.columns[:-2], pl.String)))
    measured = (pl.col("column") == "seconds").alias("_seconds")
    by = ["_table", *(["_row"] if rows else [])]
    here, there = old.with_columns(measured), new.with_columns(measured)
    in_new = here.join(there.select(by).unique(), on=by, how="semi", maintain_order="left")
    timed = there.filter("_seconds").select("_table", "_row").unique()
    again = new.select("_table", "_row").unique()
    seconds = (
        in_new.filter("_seconds")
        .join(timed, on=["_table", "_row"], how="anti", maintain_order="left")
        .join(again, on=["_table", "_row"], how="semi", maintain_order="left")
    )
    kept = here.join(there.select(by).unique(), on=by, how="anti", maintain_order="left")
    every = pl.concat([there, seconds, kept]).sort(
        pl.col("column") == "given", maintain_order=True
    )
    # Tables in the order they had, new ones last, and rows in that of the new ones.
    for name in ("_row", "_table"):
        first = old[name] if name == "_table" or rows else new[name]
        both = [
            *first.unique(maintain_order=True),
            *every[name].unique(maintain_order=True),
        ]
        order = {value: at for at, value in enumerate(dict.fromkeys(both))}
        every = every.sort(pl.col(name).replace_strict(order), maintain_order=True)
    every.select(pl.exclude("_table", "_row", "_seconds")).write_csv(path)


def _plain(cells: pl.DataFrame) -> pl.DataFrame:
    """With titles and rows as they are whatever the number of seeds."""
    return cells.with_columns(
        pl.col(name).str.replace(SEEDS.pattern, "").alias(f"_{name}")
        for name in ("table", "row")
    )


def _replace_verdicts(name: str, verdicts: list[dict[str, str]]) -> None:
    """New verdicts of a study in place of its old ones on the same claims."""
    path = TABLES / "verdicts.csv"
    old = pl.read_csv(path, infer_schema=False)
    new = pl.DataFrame([{"study": name, **verdict} for verdict in verdicts], old.schema)
    # Of studies whose rows are kept all claims are judged again but those of other groups.
    key = ["study", "group"] if name in FIGURES else ["study", "claim"]
    kept = old.join(new.select(key).unique(), on=key, how="anti", maintain_order="left")
    order = list(dict.fromkeys(old["study"]))
    place = pl.col("study").replace_strict(
        {study: at for at, study in enumerate(order)}, default=len(order)
    )
    pl.concat([new, kept]).sort(place, maintain_order=True).write_csv(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("study", choices=[*FIGURES, *PRINTED, "benchmarks"])
    parser.add_argument("folders", nargs="*", type=Path)
    asked = parser.parse_args()
    if asked.study in FIGURES:
        write(asked.study, merged(asked.study, asked.folders))
    elif asked.study == "benchmarks":
        write_benchmarks(asked.folders)
    else:
        (folder,) = asked.folders
        write_printed(asked.study, folder)


if __name__ == "__main__":
    main()
