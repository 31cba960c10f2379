"""`deeppqr predict`: rewards with errors, Q, V and choice probabilities at new states."""

import argparse
from pathlib import Path

import deeppqr

from .._messages import counted
from ._common import add_job, add_quiet, check_table_name, say

EXAMPLES = """\
  deeppqr predict run/ states.csv --out rewards.csv
  deeppqr predict run/ states.parquet --out rewards.parquet --bad-rows empty
  deeppqr predict run/ states.parquet --out rewards.parquet --level 0.9
  deeppqr predict run/ states.parquet --out rewards.parquet --only reward
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
        "--only",
        nargs="+",
        metavar="TABLE",
        help="some of reward, errors, q, prob, value, inside_data (default all); rewards "
        "alone take a small part of the time",
    )
    parser.add_argument(
        "--level",
        type=float,
        default=0.95,
        help="of the rewards' intervals, the columns low_... and high_... (default 0.95)",
    )
    parser.add_argument(
        "--no-errors",
        action="store_true",
        help="leave out the rewards' standard errors and intervals, the columns se_..., "
        "low_... and high_...",
    )
    add_quiet(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    from ..prediction._file import INSIDE, predict_file
    from ..prediction._table import Wanted

    check_table_name(arguments.out)
    fit = deeppqr.load(arguments.fit)
    errors = False if arguments.no_errors else None
    wanted = Wanted.of(fit, arguments.only, errors, arguments.level)
    options = {"bad_rows": arguments.bad_rows, "wanted": wanted}
    found = predict_file(fit, arguments.states, arguments.out, **options)
    say(arguments, f"{counted(found.rows, 'state')} predicted, written to {arguments.out}")
    if found.missing:
        say(arguments, f"no errors of the rewards: {found.missing}")
    if found.empty:
        rows = counted(found.empty, "row")
        say(arguments, f"{rows} could not be predicted and left empty")
    if found.outside:
        rows = counted(found.outside, "state")
        say(
            arguments,
            f"{rows} outside the data ({INSIDE} is false there): figures are extrapolated",
        )
