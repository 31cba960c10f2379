"""`deeppqr compare`: what moved between two saved fits, beyond its error."""

import argparse
from pathlib import Path

import deeppqr

from ._common import DONE, NOT_OK, add_job, add_quiet, check_table_name, say, write_table

EXAMPLES = """\
  deeppqr compare runs/2026-11-19 runs/2026-11-12
  deeppqr compare run/ last-week/ --out moved.csv --strict     # status 1 if any moved
"""


def register(jobs) -> None:
    about = "what moved between two fits beyond its error"
    parser = add_job(jobs, "compare", about, EXAMPLES)
    parser.add_argument("fit", type=Path, help="folder written by `deeppqr fit`")
    parser.add_argument("earlier", type=Path, help="the fit to compare it with")
    parser.add_argument(
        "--level",
        type=float,
        default=0.95,
        help="probability of no false alarm, over all actions (default 0.95)",
    )
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="CSV or Parquet to write the table to"
    )
    parser.add_argument(
        "--strict", action="store_true", help="exit with status 1 if an average moved"
    )
    add_quiet(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the comparison; the exit status."""
    import polars as pl

    if arguments.out is not None:
        check_table_name(arguments.out)
    fit, earlier = deeppqr.load(arguments.fit), deeppqr.load(arguments.earlier)
    found = deeppqr.report.compare(fit, earlier, level=arguments.level)
    say(arguments, str(found))
    if arguments.out is not None:
        # Labels as text: those of two fits need not be of one type.
        rows = [{**row, "action": str(row["action"])} for row in found.rows()]
        write_table(pl.DataFrame(rows), arguments.out)
        say(arguments, f"Table written to {arguments.out}")
    return NOT_OK if arguments.strict and found.moved else DONE
