"""Options and output that the subcommands share."""

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .._errors import DataError, StorageError
from .._files import check_output, new_file, written_somewhere


def add_common(parser: argparse.ArgumentParser, *, seed: int = 0) -> None:
    """`--seed` and `--quiet`, the same everywhere."""
    about = f"seed of all random numbers (default {seed})"
    parser.add_argument("--seed", type=int, default=seed, help=about)
    add_quiet(parser)


def add_quiet(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quiet", action="store_true", help="print nothing")


def named(arguments: argparse.Namespace, names: Iterable[str]) -> dict[str, Any]:
    """Some of the options, to be handed on under their own names."""
    return {name: getattr(arguments, name) for name in names}


def say(arguments: argparse.Namespace, text: str) -> None:
    """Print unless told to be quiet."""
    if not arguments.quiet:
        print(text)


def write_table(frame, path: Path) -> None:
    """Write a polars DataFrame as CSV or Parquet, by the file's ending."""
    written_somewhere(lambda where: _write(frame, where), path)


def _write(frame, path: Path) -> None:
    from polars.exceptions import PolarsError

    # Written under a temporary name first, so that an interrupt leaves no partial file.
    with new_file(path) as partial:
        try:
            if path.suffix.lower() == ".csv":
                frame.write_csv(partial)
            else:
                frame.write_parquet(partial)
        except PolarsError as problem:
            raise StorageError(
                f"{path} cannot be written: {str(problem).splitlines()[0]}."
            ) from problem


def check_table_name(path: Path) -> None:
    """Raise, before any work is done, if the output cannot be written."""
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise DataError(f"--out must end in .csv or .parquet, but it is {path}.")
    check_output(path, "--out")
