"""Options and output that the subcommands share."""

import argparse
import os
import secrets
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from pathlib import Path
from typing import Any

from .._errors import DataError, StorageError
from .._files import check_output, new_file, replacement, written_somewhere

# Exit statuses, for schedulers; docs/weekly.md explains them.
DONE, NOT_OK, BAD_INPUT, FAULT, INTERRUPTED = 0, 1, 2, 3, 130


def add_job(jobs: Any, name: str, about: str, examples: str) -> argparse.ArgumentParser:
    """A subcommand whose page of help shows examples before its options."""
    first = f"{about[0].upper()}{about[1:]}."
    return jobs.add_parser(
        name,
        help=about,
        description=f"{first}\n\nexamples:\n{examples.rstrip()}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def dated(path: Path) -> Path:
    """The path with `{date}` and `{time}` filled in: 2026-11-19 and 154500, local time."""
    now = datetime.now()
    text = str(path).replace("{date}", now.strftime("%Y-%m-%d"))
    return Path(text.replace("{time}", now.strftime("%H%M%S")))


def check_fit_folder(path: Path, overwrite: bool) -> None:
    """Raise, before any work is done, unless a fit can be written here."""
    if not (overwrite and os.path.lexists(path)):
        check_output(path, "--out")
        return
    from .._storage import is_fit

    if path.is_symlink() or not is_fit(path):
        raise StorageError(
            f"--overwrite replaces a fit, a folder with its model.json, and {path} is "
            "something else. Choose another name, or remove it first."
        )
    # Beside it, as a name that is taken is refused.
    check_output(path.absolute().with_name(f"deeppqr-{secrets.token_hex(4)}"), "--out")


def fit_folder(path: Path, overwrite: bool) -> AbstractContextManager[Path]:
    """Where to write a fit that is to be at `path`, when the block ends."""
    if overwrite and os.path.lexists(path):
        return replacement(path)
    return nullcontext(path)


def add_common(parser: Any, *, seed: int = 0) -> None:
    """`--seed` and `--quiet`, for a parser or a group of its options."""
    about = f"seed of all random numbers (default {seed})"
    parser.add_argument("--seed", type=int, default=seed, help=about)
    add_quiet(parser)


def add_no_report(parser: Any) -> None:
    parser.add_argument(
        "--no-report", action="store_true", help="write no HTML report beside the fit"
    )


def add_quiet(parser: Any) -> None:
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
