"""Reads columns from the DataFrames of any library, and from arrays."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any

import narwhals as nw
import numpy as np

from .._errors import DataError
from .._messages import counted, did_you_mean, plain
from ._encoding import Column, refuse_rows

COMPLEX = (complex, np.complexfloating)
NUMBERS = (int, float, Decimal, np.number)  # polars returns Decimal for decimal columns
DATES = (date, time, timedelta, np.datetime64, np.timedelta64)
EXACT = 2**53  # the last of the whole numbers that float64 tells apart


def is_frame(data: Any) -> bool:
    """Whether `data` is a DataFrame of any kind that narwhals reads."""
    native = nw.from_native(data, pass_through=True)
    return isinstance(native, (nw.DataFrame, nw.LazyFrame))


def open_frame(frame: Any) -> nw.DataFrame:
    """The data as a narwhals DataFrame; a LazyFrame is collected."""
    try:
        native = nw.from_native(frame, pass_through=True)
    except nw.exceptions.DuplicateError as problem:
        # A pyarrow table's `columns` are its data.
        names = getattr(frame, "column_names", None) or frame.columns
        names = list(map(str, names))
        repeated = sorted({name for name in names if names.count(name) > 1})
        raise DataError(
            f"The data must name each column once, but {repeated[0]!r} stands "
            f"{names.count(repeated[0])} times ({counted(len(repeated), 'such name')}: "
            f"{', '.join(repeated[:5])}). Rename or drop all but one."
        ) from problem
    if isinstance(native, nw.LazyFrame):
        native = native.collect()
    if not isinstance(native, nw.DataFrame):
        raise DataError(
            "`frame` must be a DataFrame (pandas, polars, pyarrow or another that "
            f"narwhals reads), but a {type(frame).__name__} arrived. For plain arrays "
            "use `Panel.from_arrays(state, action, next_state)`."
        )
    levels = getattr(getattr(nw.to_native(native), "columns", None), "nlevels", 1)
    if levels > 1:
        raise DataError(
            f"The data must have columns with plain names, but they have {levels} levels "
            f"of names, such as {plain(frame.columns[0])}. Join them: "
            'frame.columns = ["_".join(map(str, name)) for name in frame.columns].'
        )
    return native


def column_names(names: Any, *, role: str) -> list[Any]:
    """A list of column names from one name or several."""
    if isinstance(names, str):
        return [names]
    if isinstance(names, Mapping) or not isinstance(names, Iterable):
        raise DataError(
            f"`{role}` must name columns, one or a list of them, but {names!r} arrived. "
            f'Write {role}="x", or {role}=["x1", "x2"].'
        )
    return list(names)


def require_columns(frame: nw.DataFrame, names: Sequence[Any], *, role: str) -> None:
    """Raise if a column is missing, and suggest the name that may have been meant."""
    odd = [name for name in names if not isinstance(name, str)]
    if odd:
        advice = (
            "Rename the columns: frame.columns = [str(name) for name in frame.columns]."
        )
        if odd[0] is None or isinstance(odd[0], (list, tuple)):
            advice = f'Name one column, such as {role}="a".'
        raise DataError(
            f"`{role}` must name columns by text, but {plain(odd[0])} is "
            f"{type(odd[0]).__name__}. {advice}"
        )
    missing = [name for name in names if name not in frame.columns]
    if missing:
        _refuse_one_wide_column(frame, missing[0], role)
        hint = did_you_mean(missing[0], frame.columns)
        if missing[0] in getattr(getattr(nw.to_native(frame), "index", None), "names", ()):
            hint = " It is part of the index: pass frame.reset_index()."
        listed = ", ".join(map(str, frame.columns[:20]))
        raise DataError(
            f"`{role}` names the column {missing[0]!r}, but the data have no such column "
            f"({len(missing)} missing in all: {missing}).{hint} Columns there: {listed}."
        )


def _refuse_one_wide_column(frame: nw.DataFrame, missing: str, role: str) -> None:
    """Raise where one column holds the whole header: the file's separator is no comma."""
    (only, *others) = frame.columns or [""]
    separator = next((mark for mark in ";\t|" if mark in str(only)), None)
    if separator is not None and not others:
        raise DataError(
            f"`{role}` names the column {missing!r}, but the data have one column, named "
            f"{only!r}. Is the separator of the file {separator!r}? Columns are separated "
            "by commas here: write the file with commas, or read it with "
            f"polars.read_csv(path, separator={separator!r}) and pass the frame."
        )


def categorical_columns(frame: nw.DataFrame, names: Sequence[str]) -> frozenset[str]:
    """Those of the named columns whose type is categorical or an enumeration."""
    return frozenset(
        name for name in names if frame[name].dtype in (nw.Categorical, nw.Enum)
    )


def read_columns(
    frame: Any, names: Sequence[Any], *, role: str, categorical: Collection[str] = ()
) -> dict[str, Column]:
    """The named columns as float64, bool or object arrays; missing is NaN or None.

    Those in `categorical` are objects, whatever their type.
    """
    opened = open_frame(frame)
    require_columns(opened, names, role=role)
    return {
        name: _read_series(opened[name], role, as_labels=name in categorical)
        for name in names
    }


def read_labels(frame: nw.DataFrame, name: str, *, role: str) -> np.ndarray:
    """A column of labels, times or flags: numbers and dates as they are, else objects."""
    require_columns(frame, [name], role=role)
    series = frame[name]
    null = series.is_null().to_numpy().astype(bool)
    simple = series.dtype.is_float() or series.dtype.is_temporal() or _is_plain_int(series)
    if simple and not null.any():
        return series.to_numpy()
    return label_array(_objects(series, null), role)


def label_array(values: Any, role: str) -> np.ndarray:
    """Labels, times or flags as an array; objects that are all small integers as int64."""
    array: np.ndarray = np.empty(()) if values is None else as_array(values)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise DataError(
            f"`{role}` must have one entry per row, but "
            + ("None arrived" if values is None else f"its shape is {array.shape}")
            + ". Pass a one-dimensional array or a list."
        )
    if array.dtype != object:
        return array
    refuse_containers(array, f"`{role}`")
    entries = array.tolist()
    if entries and all(type(entry) is int and abs(entry) < 2**63 for entry in entries):
        return array.astype(np.int64)
    return array


def refuse_containers(values: np.ndarray, what: str) -> None:
    """Raise where entries are lists or the like, which are no single value."""
    wrong = np.array([not _is_hashable(value) for value in values.tolist()], dtype=bool)
    advice = "Give each of its parts a column of its own."
    refuse_rows(wrong, f"{what} must hold single values", values, "row {}".format, advice)


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _is_plain_int(series: nw.Series) -> bool:
    """Whether NumPy has the column's type of integers: 128 bits it has not."""
    return series.dtype.is_integer() and series.dtype not in (nw.Int128, nw.UInt128)


def require_among(names: Any, columns: Sequence[str]) -> frozenset[str]:
    """The names in `categorical`, each of which must be a state column."""
    listed = column_names(names, role="categorical")
    unknown = [name for name in listed if name not in columns]
    if unknown:
        raise DataError(
            f"`categorical` must name state columns, but {plain(unknown[0])} is none of "
            f"{list(columns)}.{did_you_mean(unknown[0], columns)}"
        )
    return frozenset(listed)


def refuse_repeated(names: Sequence[str]) -> None:
    """Refuse state columns named twice."""
    repeated = sorted({str(name) for name in names if list(names).count(name) > 1})
    if repeated:
        raise DataError(
            f"State columns must have different names, but {repeated[0]!r} stands twice "
            f"in {list(names)}. Leave the repetition out, or rename it."
        )


def as_array(values: Any) -> np.ndarray:
    """An array; lists that mix text and numbers keep each entry's own type."""
    try:
        array = np.asarray(values)
    except ValueError:
        raise DataError(
            "An array must have rows of equal lengths, but these differ. Fill the short "
            "ones up, or leave them out."
        ) from None
    # NumPy makes ["a", 1] an array of text, in which 1 and "1" are the same.
    if array.dtype.kind in "US" and not isinstance(values, np.ndarray):
        return np.asarray(values, dtype=object)
    return array


def columns_of_array(
    states: Any, names: Sequence[str], *, categorical: Collection[str] = ()
) -> dict[str, Column]:
    """The columns of an array of states, one row per state, in the panel's order."""
    array = as_array(states)
    if array.ndim == 1 and len(names) == 1:
        array = array[:, None]
    if array.ndim != 2 or array.shape[1] != len(names):
        got = f"an array with shape {array.shape}"
        if array.ndim == 2:
            got = f"an array with {counted(array.shape[1], 'column')}"
        elif array.ndim == 0:
            got = f"{plain(states)} ({type(states).__name__})"
        raise DataError(
            f"`states` must have {counted(len(names), 'column')} "
            f"({', '.join(map(str, names))}), one row per state, but "
            f"{got} arrived. Pass the same state columns "
            "in the same order as in the panel, or a DataFrame with these names."
        )
    columns = dict(zip(names, array.T, strict=True))
    return {
        name: column.astype(object) if name in categorical else _tidy(column, name)
        for name, column in columns.items()
    }


def _read_series(series: nw.Series, role: str, *, as_labels: bool) -> Column:
    dtype = series.dtype
    null = series.is_null().to_numpy().astype(bool)
    if as_labels:
        values = _objects(series, null)
        refuse_containers(values, f"Column {series.name!r}")
        return values
    if dtype.is_float() or _is_plain_int(series):
        # Not `to_numpy` at once: pandas' nullable types would come back as objects.
        values = np.full(len(series), np.nan)
        given = series.filter(~series.is_null()).to_numpy()
        refuse_long_integers(given, series.name)
        values[~null] = given.astype(np.float64)
        return values
    if dtype == nw.Boolean and not null.any():
        return series.to_numpy().astype(bool)
    if dtype.is_temporal() and role in ("state", "next_state"):
        _refuse_dates(series.name, dtype)
    values = _objects(series, null)
    refuse_containers(values, f"Column {series.name!r}")
    return values if dtype in (nw.Categorical, nw.Enum) else _tidy(values, series.name)


def _refuse_dates(name: str, kind: Any) -> None:
    # Dates as categories would give each day a coefficient; as numbers, an arbitrary unit.
    raise DataError(
        f"State column {name!r} holds dates or times ({kind}). A state must be numeric, "
        "boolean or categorical: convert it to a number first, such as the months since a "
        "starting date."
    )


def refuse_long_integers(values: Any, name: str) -> None:
    """Raise where whole numbers are too long for float64, which would merge neighbours."""
    array = np.asarray(values)
    if array.dtype.kind not in "iuO" or not array.size:
        return
    # Compared one side at a time: the absolute value of the smallest int64 overflows.
    long = np.asarray((array > EXACT) | (array < -EXACT), dtype=bool)
    advice = (
        "Subtract a starting value before the numbers become states; if they are "
        "identifiers, make them text."
    )
    refuse_rows(
        long,
        f"State column {name!r} must not go beyond 2^53 = {EXACT:,}, from where on float64 "
        "takes neighbouring whole numbers for the same",
        array,
        "row {}".format,
        advice,
    )


def _objects(series: nw.Series, null: np.ndarray) -> np.ndarray:
    values = np.empty(len(series), dtype=object)
    # One by one: NumPy would turn a list of tuples into a two-dimensional array.
    for row, value in enumerate(series.to_list()):
        values[row] = None if null[row] else value
    return values


def _tidy(column: np.ndarray, name: str) -> Column:
    if column.dtype == np.bool_:
        return column
    if column.dtype.kind in "mM":
        _refuse_dates(name, column.dtype)
    if column.dtype.kind == "c":
        _refuse_complex(name)
    if column.dtype.kind in "iuf":
        refuse_long_integers(column, name)
        return column.astype(np.float64)
    values = column.astype(object)
    refuse_containers(values, f"Column {name!r}")
    # By the entries and not by the dtype: pandas keeps mixed columns as objects.
    kinds = {type(value) for value in values.tolist()}
    if kinds == {bool}:
        return values.astype(bool)
    kinds -= {type(None)}
    for kind in kinds:
        if issubclass(kind, DATES) or kind.__name__ == "Period":  # pandas' months
            _refuse_dates(name, kind.__name__)
    if any(issubclass(kind, COMPLEX) for kind in kinds):
        _refuse_complex(name)
    if kinds and all(issubclass(kind, NUMBERS) for kind in kinds):
        integers = [v if isinstance(v, (int, np.integer)) else 0 for v in values]
        refuse_long_integers(np.array(integers, dtype=object), name)
        return np.array([np.nan if v is None else v for v in values], dtype=np.float64)
    return values


def _refuse_complex(name: str) -> None:
    raise DataError(
        f"State column {name!r} holds complex numbers. A state must be numeric, boolean "
        "or categorical: give the real and the imaginary part a column each."
    )
