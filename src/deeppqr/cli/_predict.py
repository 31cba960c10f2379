"""`deeppqr predict`: rewards, Q, V and choice probabilities at new states."""

import argparse
from pathlib import Path

import deeppqr

from .._errors import DataError
from ._common import add_quiet, check_table_name, say, write_table


def register(jobs) -> None:
    parser = jobs.add_parser("predict", help="rewards, values and choices at new states")
    parser.add_argument("fit", type=Path, help="folder written by `deeppqr fit`")
    parser.add_argument("states", type=Path, help="CSV or Parquet file with the states")
    parser.add_argument("--out", type=Path, required=True, help="CSV or Parquet to write")
    add_quiet(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    import numpy as np
    import polars as pl

    from ..panel._file import read_file

    check_table_name(arguments.out)
    fit = deeppqr.load(arguments.fit)
    states = read_file(arguments.states)
    tables = {
        "reward": fit.reward(states),
        "q": fit.q(states),
        "prob": np.exp(fit.log_policy(states)),
    }
    columns = {
        f"{name}_{label}": table[:, index]
        for name, table in tables.items()
        for index, label in enumerate(fit.actions)
    }
    columns["value"] = fit.value(states)
    # Predictions are added to the given columns; none of these may be overwritten.
    taken = [name for name in columns if name in states.columns]
    if taken:
        raise DataError(
            f"{arguments.states} has a column {taken[0]!r} already, which the predictions "
            f"would replace ({len(taken)} such columns: {taken}). Rename it first."
        )
    predicted = pl.DataFrame(columns)
    write_table(states.with_columns(predicted.get_columns()), arguments.out)
    say(arguments, f"{len(states):,} states predicted, written to {arguments.out}")
