"""Bring new runs of studies into the documentation's tables, verdicts and figures.

    deeppqr study reward-recovery --methods default --out runs/rr
    python benchmarks/refresh_tables.py reward-recovery runs/rr

Rows of the methods that were run replace those methods' rows in the same worlds; the other
methods keep theirs. Means, verdicts and figures are then made anew from all rows.
"""

import argparse
import re
import shutil
import tempfile
from pathlib import Path

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
MISSING = "-"  # a cell that was not run
CELL = re.compile(r"^(?P<value>[-\d.e+]+)(?: \((?P<error>[^)]+)\))?(?: \[(?P<few>\d+)\])?$")
CLAIM = re.compile(r"^- \*(?P<verdict>[^*]+)\*: (?P<claim>.*) \((?P<evidence>.*)\)$")


def merged(name: str, folders: list[Path]) -> pl.DataFrame:
    """The documentation's rows of a study; new runs replace their methods' rows."""
    old = pl.read_csv(TABLES / f"{name}.csv", infer_schema_length=None)
    for folder in folders:
        new = pl.read_csv(folder / "table.csv", infer_schema_length=None)
        times = folder / "times.csv"
        if times.exists() and "seconds" not in new.columns:
            spent = pl.read_csv(times, infer_schema_length=None).select("task", "seconds")
            new = new.join(spent, on="task", how="left", maintain_order="left")
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


def write(name: str, frame: pl.DataFrame) -> None:
    """A study's rows, means, verdicts and figures."""
    rows = frame if "seconds" in frame.columns else frame.with_columns(seconds=None)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        STUDIES[name].report(rows, folder)
        means, verdicts = read_summary(folder / "summary.md")
        for figure, image in FIGURES[name].items():
            shutil.copy(folder / f"{figure}.png", IMAGES / f"{image}.png")
    frame.write_csv(TABLES / f"{name}.csv")
    means.write_csv(TABLES / f"{name}-summary.csv")
    every = pl.read_csv(TABLES / "verdicts.csv")
    verdicts = verdicts.select(pl.lit(name).alias("study"), pl.all())
    kept = every.filter(pl.col("study") != name)
    place = {study: index for index, study in enumerate(FIGURES)}
    order = pl.col("study").replace_strict(place, default=99, return_dtype=pl.Int64)
    every = pl.concat([kept, verdicts]).sort(order, maintain_order=True)
    every.write_csv(TABLES / "verdicts.csv")


def read_summary(page: Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Cells and verdicts of a study's `summary.md`."""
    cells, verdicts, title, head = [], [], "", None
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("**"):
            title, head = line.strip("*"), None
        elif line.startswith("|"):
            row = [cell.strip() for cell in line.strip("|").split(" | ")]
            if head is None:
                head = row
            elif not set(line) <= set("|-: "):
                pairs = zip(head[1:], row[1:], strict=True)
                filled = ((column, text) for column, text in pairs if text != MISSING)
                cells += [_cell(title, row[0], *pair) for pair in filled]
        elif found := CLAIM.match(line):
            verdicts.append({"group": title, **found.groupdict()})
    schema = dict.fromkeys(["group", "verdict", "claim", "evidence"], pl.String)
    return pl.DataFrame(cells), pl.DataFrame(verdicts, schema=schema)


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("study", choices=FIGURES)
    parser.add_argument("folders", nargs="*", type=Path)
    asked = parser.parse_args()
    write(asked.study, merged(asked.study, asked.folders))


if __name__ == "__main__":
    main()
