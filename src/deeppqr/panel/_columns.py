"""Reads columns from the DataFrames of any library, and from arrays."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import narwhals as nw
import numpy as np

from .._errors import DataError
from .._messages import counted, did_you_mean, plain
from ._encoding import Column

NUMBERS = (int, float, Decimal, np.number)  # polars returns Decimal for decimal columns


def is_frame(data: Any) -> bool:
    """Whether `data` is a DataFrame of any kind that narwhals reads."""
    native = nw.from_native(data, pass_through=True)
    return isinstance(native, (nw.DataFrame, nw.LazyFrame))


def open_frame(frame: Any) -> nw.DataFrame:
    """The data as a narwhals DataFrame; a LazyFrame is collected."""
    try:
        native = nw.from_native(frame, pass_through=True)
    except nw.exceptions.DuplicateError as problem:
        raise DataError(
            "The data have two columns of the same name; rename one. "
            f"({str(problem).splitlines()[0]})"
        ) from problem
    if isinstance(native, nw.LazyFrame):
        native = native.collect()
    if not isinstance(native, nw.DataFrame):
        raise DataError(
            "`frame` must be a DataFrame (pandas, polars, pyarrow or another that "
            f"narwhals reads), but a {type(frame).__name__} arrived. For plain arrays "
            "use `Panel.from_arrays(state, action, next_state)`."
        )
    return native


def require_columns(frame: nw.DataFrame, names: Sequence[Any], *, role: str) -> None:
    """Raise if a column is missing, and suggest the name that may have been meant."""
    odd = [name for name in names if not isinstance(name, str)]
    if odd:
        raise DataError(
            f"`{role}` must name columns by text, but {plain(odd[0])} is "
            f"{type(odd[0]).__name__}. Rename the columns: frame.columns = "
            "[str(name) for name in frame.columns]."
        )
    missing = [name for name in names if name not in frame.columns]
    if missing:
        _refuse_one_wide_column(frame, missing[0], role)
        hint = did_you_mean(missing[0], frame.columns)
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


def read_columns(frame: Any, names: Sequence[Any], *, role: str) -> dict[str, Column]:
    """The named columns as float64, bool or object arrays; missing is NaN or None."""
    opened = open_frame(frame)
    require_columns(opened, names, role=role)
    return {name: _read_series(opened[name], role) for name in names}


def read_labels(frame: nw.DataFrame, name: str, *, role: str) -> np.ndarray:
    """A column of labels, times or flags: numbers and dates as they are, else objects."""
    require_columns(frame, [name], role=role)
    series = frame[name]
    null = series.is_null().to_numpy().astype(bool)
    if not null.any() and (series.dtype.is_numeric() or series.dtype.is_temporal()):
        return series.to_numpy()
    return _objects(series, null)


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
    # NumPy makes ["a", 1] an array of text, in which 1 and "1" are the same.
    array = np.asarray(values)
    if array.dtype.kind in "US" and not isinstance(values, np.ndarray):
        return np.asarray(values, dtype=object)
    return array


def columns_of_array(states: Any, names: Sequence[str]) -> dict[str, Column]:
    """The columns of an array of states, one row per state, in the panel's order."""
    array = as_array(states)
    if array.ndim == 1 and len(names) == 1:
        array = array[:, None]
    if array.ndim != 2 or array.shape[1] != len(names):
        got = counted(array.shape[1], "column") if array.ndim == 2 else None
        raise DataError(
            f"`states` must have {counted(len(names), 'column')} "
            f"({', '.join(map(str, names))}), one row per state, but an array with "
            f"{got or f'shape {array.shape}'} arrived. Pass the same state columns "
            "in the same order as in the panel, or a DataFrame with these names."
        )
    return {name: _tidy(array[:, index]) for index, name in enumerate(names)}


def _read_series(series: nw.Series, role: str) -> Column:
    dtype = series.dtype
    null = series.is_null().to_numpy().astype(bool)
    if dtype.is_numeric():
        # Not `to_numpy` at once: pandas' nullable types would come back as objects.
        values = np.full(len(series), np.nan)
        values[~null] = series.filter(~series.is_null()).to_numpy().astype(np.float64)
        return values
    if dtype == nw.Boolean and not null.any():
        return series.to_numpy().astype(bool)
    # Dates as categories would give each day a coefficient; as numbers, an arbitrary unit.
    if dtype.is_temporal() and role in ("state", "next_state"):
        raise DataError(
            f"State column {series.name!r} holds dates or times ({dtype}). A state must "
            "be numeric, boolean or categorical: convert it to a number first, such as "
            "the months since a starting date."
        )
    values = _objects(series, null)
    return values if dtype in (nw.Categorical, nw.Enum) else _tidy(values)


def _objects(series: nw.Series, null: np.ndarray) -> np.ndarray:
    values = np.empty(len(series), dtype=object)
    # One by one: NumPy would turn a list of tuples into a two-dimensional array.
    for row, value in enumerate(series.to_list()):
        values[row] = None if null[row] else value
    return values


def _tidy(column: np.ndarray) -> Column:
    if column.dtype == np.bool_:
        return column
    if column.dtype.kind in "iuf":
        return column.astype(np.float64)
    values = column.astype(object)
    # By the entries and not by the dtype: pandas keeps mixed columns as objects.
    kinds = {type(value) for value in values.tolist()}
    if kinds == {bool}:
        return values.astype(bool)
    kinds -= {type(None)}
    if kinds and all(issubclass(kind, NUMBERS) for kind in kinds):
        return np.array([np.nan if v is None else v for v in values], dtype=np.float64)
    return values
