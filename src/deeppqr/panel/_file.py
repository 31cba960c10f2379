"""Reads CSV and Parquet files; what a CSV file leaves open is refused by its line.

Polars guesses the types of a CSV file's columns. Where a guess would change what the file
says, such as labels `001` and `1` that become one number, the file is refused.
"""

import csv
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from .._errors import DataError
from .._messages import counted, did_you_mean, warn_user

ENDINGS = (".csv", ".parquet", ".pq")
# Bytes at the start of files that polars inflates as it reads them.
COMPRESSED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\x78\x01", b"\x78\x9c", b"\x78\xda")
BYTE_ORDER_MARKS = (b"\xff\xfe", b"\xfe\xff")


def read_file(path: Any, *, labels: Sequence[Any] = (), quantities: Sequence[Any] = ()):
    """A polars DataFrame from a CSV or Parquet file, told apart by its ending.

    Columns in `labels` hold names and no quantities: texts that are the same number, such
    as 1.1 and 1.10, are refused there. In `quantities` numbers with a leading zero bring a
    warning, as postcodes do.
    """
    import polars as pl

    path = _checked_path(path)
    is_csv = path.suffix.lower() == ".csv"
    try:
        if is_csv:
            _refuse_bad_header(path)
            frame = _without_blank_lines(_read_csv(path))
            _refuse_bad_lines(path, frame)
            _refuse_merged_labels(path, frame, labels)
            _warn_of_codes(path, frame, quantities)
            return frame
        return pl.read_parquet(path, glob=False)  # a name is no pattern
    # The first line alone: polars adds paragraphs on its own options.
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as problem:
        reason = str(problem).splitlines()[0] if str(problem) else type(problem).__name__
        if is_csv:
            _refuse_lines_of_other_lengths(path)
            reason = f"{reason}.{_advice(reason)}"
        raise DataError(f"{path} could not be read: {reason}") from problem


def _data_files(folder: Path) -> list[str]:
    """Names of files that could have been meant; none where the folder cannot be read."""
    try:
        return [file.name for file in folder.iterdir() if file.suffix.lower() in ENDINGS]
    except OSError:
        return []


def _checked_path(path: Any) -> Path:
    """The path of a regular file with an ending that is read."""
    try:
        path = Path(path)
    except TypeError:
        raise DataError(
            f"`path` must name a file, but {path!r} arrived. For a DataFrame use "
            "Panel.from_frame(frame, ...)."
        ) from None
    if path.suffix.lower() not in ENDINGS:
        raise DataError(
            f"{path} must be a .csv, .parquet or .pq file, but it ends in {path.suffix!r}."
        )
    try:
        there = path.exists()
    except (OSError, ValueError):  # names that are too long or hold a NUL
        there = False
    if not there:
        folder = path.parent.resolve()
        where, near = "", ""
        if folder.is_dir():
            near = did_you_mean(path.name, _data_files(folder))
        else:
            where = ", and no such folder"
        raise DataError(f"There is no file {path.name[:100]} in {folder}{where}.{near}")
    if path.is_dir():
        raise DataError(
            f"{path} must be a file, but it is a folder. Read its files and pass one "
            f'frame: polars.read_{"csv" if path.suffix.lower() == ".csv" else "parquet"}("'
            f'{path}/*").'
        )
    # A pipe can be read once, and the types of a CSV file take two passes.
    if not path.is_file():
        raise DataError(
            f"{path} must be a regular file, but it is a pipe or a device. Save it to a "
            "file first."
        )
    return path


def _read_csv(path: Path, **options: Any):
    import polars as pl

    # Types from the whole file: polars looks at 100 rows by default, and a column may hold
    # whole numbers there and fractions later.
    read = partial(
        pl.read_csv, path, infer_schema_length=None, try_parse_dates=True, glob=False
    )
    return read(**options)


def _refuse_bad_header(path: Path) -> None:
    with path.open("rb") as file:
        start = file.read(4_096)
    if start.startswith(BYTE_ORDER_MARKS) or (b"\x00" in start and not _is_packed(start)):
        raise DataError(
            f"{path} must be text in UTF-8, but it looks like UTF-16, as Excel's "
            '"Unicode text" is, or holds zero bytes. Save it as "CSV UTF-8", or read it '
            f'with pandas.read_csv("{path.name}", encoding="utf-16") and pass the frame.'
        )
    if not start.strip():
        raise DataError(f"{path} is empty. A CSV file begins with the columns' names.")
    header = _header(path)
    if header[0].startswith("#") and len(header) == 1:
        raise DataError(
            f"{path} must begin with the columns' names, but line 1 is the comment "
            f"{header[0][:60]!r}. Delete such lines, or pass the frame: "
            f'polars.read_csv("{path.name}", comment_prefix="#").'
        )
    names = [name for name in header if name]  # a comma at the end leaves one empty
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        places = [number + 1 for number, name in enumerate(header) if name == repeated]
        raise DataError(
            f"{path} must name each column once, but {repeated!r} heads the columns "
            f"{', '.join(map(str, places))}. Rename or delete all but one."
        )


def _header(path: Path) -> list[str]:
    for _, row in _lines(path):
        return row or [""]
    first = _read_csv(path, has_header=False, n_rows=1, infer_schema=False)
    return ["" if name is None else name for name in first.row(0)]


def _without_blank_lines(frame):
    """The frame without rows that are empty throughout, if it has several columns."""
    import polars as pl

    if frame.width < 2:  # a blank line is then a missing value
        return frame
    return frame.filter(~pl.all_horizontal(pl.all().is_null()))


def _refuse_bad_lines(path: Path, frame) -> None:
    """Raise where lines are too short, hold a comment, or zero bytes."""
    import polars as pl

    if frame.width == 0 or frame.is_empty():
        return
    # Polars fills a line that is too short with missing values at its end.
    if frame[frame.columns[-1]].null_count():
        _refuse_lines_of_other_lengths(path)
    text = [name for name, kind in frame.schema.items() if kind == pl.String]
    for name in text:
        zero = frame[name].str.contains("\x00", literal=True).fill_null(False)
        if zero.any():
            raise DataError(
                f"{path} must be text, but column {name!r} holds zero bytes in row "
                f"{zero.arg_max()} ({counted(int(zero.sum()), 'row')} in all). The file "
                "was cut off or overwritten: write it again."
            )


def _refuse_lines_of_other_lengths(path: Path) -> None:
    """Raise if lines have more or fewer fields than the header, with the first of them."""
    width, wrong = 0, []
    for line, row in _lines(path):
        width = width or len(row)
        if row and len(row) != width:
            wrong.append((line, row))
    if not wrong:
        return
    line, row = wrong[0]
    comment = row[0].startswith("#")
    raise DataError(
        f"{path} must have {counted(width, 'field')} in each line, as in its header, but "
        f"line {line} has {len(row)}"
        + (f", the comment {row[0][:40]!r}" if comment else "")
        + f" ({counted(len(wrong), 'line')} in all). "
        + (
            "Delete comment lines, or pass the frame: "
            f'polars.read_csv("{path.name}", comment_prefix="#").'
            if comment
            else "Are there decimal commas, or commas in texts without quotes? Write "
            "numbers with points, put such texts into quotes, and fill short lines up."
        )
    )


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The number and the fields of each line of a CSV file that is not compressed."""
    with path.open("rb") as file:
        if _is_packed(file.read(4)):
            return
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        reader = csv.reader(file)
        try:
            for row in reader:
                yield reader.line_num, row
        except csv.Error:  # such as a field beyond the module's limit
            return


def _is_packed(start: bytes) -> bool:
    return start.startswith(COMPRESSED)


def _refuse_merged_labels(path: Path, frame, labels: Sequence[Any]) -> None:
    """Raise where different texts of a label column have become the same number."""
    import polars as pl

    numeric = [
        name for name in labels if name in frame.columns and frame[name].dtype.is_numeric()
    ]
    for name in numeric:
        text = _without_blank_lines(_read_csv(path, columns=[name], infer_schema=False))
        pairs = pl.DataFrame({"text": text[name].str.strip_chars()}).unique()
        kind = frame[name].dtype
        if len(pairs) <= frame[name].n_unique():
            continue
        by_number = pairs.with_columns(number=pl.col("text").cast(kind, strict=False))
        alike = (
            by_number.group_by("number").agg(pl.col("text").sort()).sort("number")
        ).filter(pl.col("text").list.len() > 1)
        if alike.is_empty():
            continue
        texts = alike["text"][0].to_list()
        raise DataError(
            f"Column {name!r} of {path} holds labels, and {_listed(texts)} are the same "
            f"number ({counted(len(alike), 'such number')}). If they are the same label, "
            "write them in one way. If not, read them as text and pass the frame: "
            f'polars.read_csv("{path.name}", schema_overrides={{"{name}": polars.String}}).'
        )


def _warn_of_codes(path: Path, frame, quantities: Sequence[Any]) -> None:
    """Warn of whole numbers that are written with a leading zero."""

    whole = [
        name
        for name in quantities
        if name in frame.columns and frame[name].dtype.is_integer()
    ]
    if not whole:
        return
    texts = _read_csv(path, columns=whole, infer_schema=False)
    for name in whole:
        column = texts[name].str.strip_chars()
        codes = column.filter(column.str.contains(r"^0\d").fill_null(False))
        if len(codes):
            warn_user(
                f"State column {name!r} of {path} has numbers with a leading zero, such as "
                f"{codes[0]!r} ({counted(len(codes), 'row')} in all), and is used as a "
                f'quantity. If these are codes, pass categorical=["{name}"], or group them.'
            )


def _listed(texts: Iterable[str]) -> str:
    *others, last = [repr(text) for text in islice(texts, 3)]
    return f"{', '.join(others)} and {last}"


def _advice(reason: str) -> str:
    if "utf-8" in reason.lower():
        return (
            ' Save it as "CSV UTF-8", or read it with pandas.read_csv(path, '
            'encoding="latin-1") and pass the frame.'
        )
    return (
        " Open it in an editor, or read it with a reader of your choice and pass the frame."
    )
