"""Predictions from a file to a file, a part at a time: memory does not grow with rows."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
from polars.io.plugins import register_io_source

from .._errors import BadRows, DataError, StorageError
from .._files import as_path, new_file, written_somewhere
from ..panel._file import read_file
from ._table import INSIDE, Wanted, column_names, predict

if TYPE_CHECKING:
    from .._fit import Fit

# Rows read, predicted and written at once: 80 MB with 5 state columns and 5 actions.
PART_ROWS = 262_144


@dataclass
class Predicted:
    """How many rows were predicted, left empty, and found outside the data."""

    rows: int = 0
    empty: int = 0
    outside: int = 0
    missing: str = ""
    """Why errors of the rewards were left out."""

    def count(self, frame: pl.DataFrame, first: str) -> None:
        self.rows += len(frame)
        self.empty += frame[first].null_count()
        if INSIDE in frame.columns:
            self.outside += int((~frame[INSIDE]).sum())


def predict_any(
    fit: "Fit",
    states: Any,
    out: Any,
    *,
    only: Any,
    errors: bool | None,
    level: float,
    bad_rows: str,
) -> Any:
    """`Fit.predict`: a table, or the path of a file that it was written to."""
    wanted = Wanted.of(fit, only, errors, level)
    if errors:  # by default they come where there are any
        wanted.warn()
    if out is None:
        return predict(fit, states, bad_rows, wanted)
    predict_file(fit, states, out, bad_rows=bad_rows, wanted=wanted)
    return Path(out)


def predict_file(
    fit: "Fit",
    source: str | Path,
    out: str | Path,
    *,
    bad_rows: str = "error",
    wanted: Wanted | None = None,
) -> Predicted:
    """Add predictions to the columns of a CSV or Parquet file, in a new one.

    A Parquet file is read in parts, so that it may be larger than memory; the types of a
    CSV file's columns are known when all of it was read.
    """
    wanted = wanted or Wanted.of(fit, None, None, 0.95)
    parts = _Parts(source)
    names = column_names(fit, wanted)
    # Predictions are added to the given columns; none of these may be overwritten.
    taken = [name for name in names if name in parts.columns]
    if taken:
        raise DataError(
            f"{source} has a column {taken[0]!r} already, which the predictions "
            f"would replace ({len(taken)} such columns: {taken}). Rename it first."
        )
    problems: list[Exception] = []

    def predicted(before: int, part: pl.DataFrame) -> pl.DataFrame:
        found = _in_whole(before, part, fit, bad_rows, wanted)
        return part.with_columns(found.get_columns())

    # The first part before anything is written: most mistakes show there.
    first, done = predicted(0, next(iter(parts))), Predicted(missing=wanted.missing)

    def following() -> Iterator[pl.DataFrame]:
        try:
            for number, part in enumerate(parts):
                found = predicted(done.rows, part) if number else first
                done.count(found, names[0])
                yield found
        except Exception as problem:  # polars would put it into words of its own
            problems.append(problem)
            raise

    def write(where: Path) -> None:
        done.rows = done.empty = done.outside = 0
        with new_file(where) as partial:
            _write(following(), first.schema, partial, problems)

    written_somewhere(write, as_path(out, "out"))
    return done


class _Parts:
    """The rows of a file as frames, one after the other; to be gone through many times."""

    def __init__(self, source: Any):
        path = Path(source)
        self.whole: pl.DataFrame | None = None
        if path.suffix.lower() == ".csv" or not path.is_file():
            self.whole = read_file(source)  # says what is wrong, if it is no file
            self.columns = self.whole.columns
            return
        self.source = source
        try:
            self.lazy = pl.scan_parquet(path, glob=False)
            self.columns = self.lazy.collect_schema().names()
        except (pl.exceptions.PolarsError, OSError):
            self.whole = read_file(source)
            self.columns = self.whole.columns

    def __iter__(self) -> Iterator[pl.DataFrame]:
        first = 0
        while True:
            part = self._rows(first)
            if len(part) or first == 0:
                yield part
            if len(part) < PART_ROWS:
                return
            first += PART_ROWS

    def _rows(self, first: int) -> pl.DataFrame:
        if self.whole is not None:
            return self.whole.slice(first, PART_ROWS)
        try:
            return self.lazy.slice(first, PART_ROWS).collect()
        except (pl.exceptions.PolarsError, OSError) as problem:
            reason = str(problem).splitlines()[0]
            raise DataError(f"{self.source} could not be read: {reason}") from problem


def _in_whole(before: int, part, fit, bad_rows: str, wanted: Wanted) -> pl.DataFrame:
    """The predictions of a part; rows in errors count from the file's first."""
    try:
        return fit.predict(part, bad_rows=bad_rows, only=wanted.tables, level=wanted.level)
    except BadRows as problem:
        if before == 0 and len(part) < PART_ROWS:
            raise
        raise BadRows(
            f"In the part of the file that begins with row {before:,}, from which rows are "
            f"counted here: {problem}",
            problem.rows,
        ) from None


def _write(parts: Iterator[pl.DataFrame], schema, path: Path, problems: list) -> None:
    """One file from many frames, by the ending of its name."""

    def source(with_columns, predicate, n_rows, batch_size) -> Iterator[pl.DataFrame]:
        del with_columns, predicate, n_rows, batch_size
        for part in parts:
            yield part.cast(schema)

    lazy = register_io_source(source, schema=schema)
    try:
        if path.suffix.lower() == ".csv":
            lazy.sink_csv(path)
        else:
            lazy.sink_parquet(path)
    except pl.exceptions.PolarsError as problem:
        if problems:
            raise problems[0] from None
        raise StorageError(
            f"{path} cannot be written: {str(problem).splitlines()[0]}."
        ) from problem
