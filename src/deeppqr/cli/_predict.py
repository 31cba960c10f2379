"""`deeppqr predict`: rewards, Q, V and choice probabilities at new states."""

import argparse
from pathlib import Path

import deeppqr

from .._errors import DataError
from .._messages import counted
from ._common import add_job, add_quiet, check_table_name, say, write_table

EXAMPLES = """\
  deeppqr predict run/ states.csv --out rewards.csv
  deeppqr predict run/ states.parquet --out rewards.parquet --bad-rows empty
  deeppqr predict run/ states.csv --out rewards.csv --level 0.9
"""


def register(jobs) -> None:
    parser = add_job(jobs, "predict", "rewards, values and choices at new states", EXAMPLES)
    parser.add_argument("fit", type=Path, help="folder written by `deeppqr fit`")
    parser.add_argument("states", type=Path, help="CSV or Parquet file with the states")
    parser.add_argument("--out", type=Path, required=True, help="CSV or Parquet to write")
    parser.add_argument(
        "--bad-rows",
        choices=("error", "empty"),
        default="error",
        help="rows with an unseen category or a missing value: an error, or left empty",
    )
    parser.add_argument(
        "--level", type=float, default=0.95, help="of the rewards' intervals"
    )
    parser.add_argument(
        "--no-errors",
        action="store_true",
        help="rewards without their standard errors and intervals",
    )
    add_quiet(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    from ..panel._file import read_file
    from ..report._predictions import INSIDE

    check_table_name(arguments.out)
    fit = deeppqr.load(arguments.fit)
    states = read_file(arguments.states)
    predicted = fit.predict(
        states,
        bad_rows=arguments.bad_rows,
        level=arguments.level,
        errors=not arguments.no_errors,
    )
    # Predictions are added to the given columns; none of these may be overwritten.
    taken = [name for name in predicted.columns if name in states.columns]
    if taken:
        raise DataError(
            f"{arguments.states} has a column {taken[0]!r} already, which the predictions "
            f"would replace ({len(taken)} such columns: {taken}). Rename it first."
        )
    write_table(states.with_columns(predicted.get_columns()), arguments.out)
    say(arguments, f"{counted(len(states), 'state')} predicted, written to {arguments.out}")
    inside = predicted[INSIDE]
    if inside.null_count():
        rows = counted(inside.null_count(), "row")
        say(arguments, f"{rows} could not be predicted and left empty")
    if not inside.all():
        rows = counted(int((~inside).sum()), "state")
        say(
            arguments,
            f"{rows} outside the data ({INSIDE} is false there): figures are extrapolated",
        )
