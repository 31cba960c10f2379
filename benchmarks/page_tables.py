"""Write the tables of the documentation's pages anew from the files in docs/tables.

    python benchmarks/page_tables.py            # after benchmarks/refresh_tables.py
    python benchmarks/page_tables.py --check    # exit status 1 where a page differs

A comment above a table says where its numbers are from:

    <!-- table reward-recovery-summary
    title: The paper's world at scale 1: mean NMSE
    rows: default; given Q(0, 0) <- maxent
    columns: 5 <- p = 5; p = 10
    -->

`title` is how a table of means begins; files without means have `where: model = default`
to choose lines, if not all are shown. `label <- name` shows another label. Without `rows`
or `columns` all are shown; `head` names the first column.
"""

import argparse
import re
import sys
from pathlib import Path

import polars as pl

DOCS = Path(__file__).parent.parent / "docs"
TABLE = re.compile(
    r"<!-- table (?P<file>[\w-]+)\n(?P<options>(?:\w+: .*\n)*)-->\n\n(?P<shown>(?:\|.*\n)*)"
)
MISSING = "-"

Cells = dict[tuple[str, str], str]


def rewritten(text: str) -> str:
    """A page with its tables as the files have them."""
    return TABLE.sub(_table, text)


def _table(found: re.Match[str]) -> str:
    options = dict(line.split(": ", 1) for line in found["options"].splitlines())
    frame = pl.read_csv(DOCS / "tables" / f"{found['file']}.csv", infer_schema=False)
    if "title" in options:
        first, cells = "method", _means(frame, options["title"])
    else:
        first, cells = _lines(frame, options.get("where"))
    rows = _named(options.get("rows"), [row for row, _ in cells])
    columns = _named(options.get("columns"), [column for _, column in cells])
    unknown = {row for _, row in rows} - {row for row, _ in cells}
    unknown |= {column for _, column in columns} - {column for _, column in cells}
    if unknown:
        raise ValueError(f"{found['file']}.csv has no {sorted(unknown)} under {options}.")
    lines = [
        [options.get("head", first), *(label for label, _ in columns)],
        ["---", *["---:"] * len(columns)],
        *(
            [label, *(cells.get((row, column)) or MISSING for _, column in columns)]
            for label, row in rows
        ),
    ]
    drawn = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    # The rule without spaces, as the pages have it.
    drawn = drawn.replace(f"| {' | '.join(lines[1])} |", f"|{'|'.join(lines[1])}|")
    start = found[0][: len(found[0]) - len(found["shown"])]
    return start + drawn


def _means(frame: pl.DataFrame, title: str) -> Cells:
    """Means with standard errors, and how many seeds there are where these are fewer."""
    titles = [t for t in frame["table"].unique(maintain_order=True) if t.startswith(title)]
    if len(titles) != 1:
        raise ValueError(f"{len(titles)} tables begin with {title!r}: {titles}.")
    cells = {}
    for row in frame.filter(table=titles[0]).iter_rows(named=True):
        error = f" ({row['standard_error']})" if row["standard_error"] else ""
        few = f" [{row['seeds_if_fewer']}]" if row["seeds_if_fewer"] else ""
        cells[row["row"], row["column"]] = f"{row['value']}{error}{few}"
    return cells


def _lines(frame: pl.DataFrame, where: str | None) -> tuple[str, Cells]:
    """The name of the first column, and cells by it and the others."""
    for one in where.split("; ") if where else []:
        column, value = one.split(" = ")
        frame = frame.filter(pl.col(column) == value).drop(column)
    first, *columns = frame.columns
    rows = frame.iter_rows(named=True)
    return first, {(row[first], name): row[name] for row in rows for name in columns}


def _named(asked: str | None, every: list[str]) -> list[tuple[str, str]]:
    """Labels with what they stand for."""
    if asked is None:
        return [(name, name) for name in dict.fromkeys(every)]
    pairs = [one.split(" <- ") for one in asked.split("; ")]
    return [(pair[0], pair[-1]) for pair in pairs]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    check, differ = parser.parse_args().check, []
    for page in sorted(DOCS.rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        if (new := rewritten(text)) != text:
            differ.append(page.relative_to(DOCS).as_posix())
            if not check:
                page.write_text(new, encoding="utf-8")
    print(
        "\n".join(f"{page}: tables {'differ' if check else 'written'}" for page in differ)
    )
    sys.exit(bool(check and differ))


if __name__ == "__main__":
    main()
