"""Every type of pandas, polars and pyarrow in every role: the same panel, or refused by name."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from deeppqr import DataError, Panel

ROWS = 12
NUMBERS = {
    "state": [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8],
    "next_state": [1, 4, 1, 0, 9, 2, 6, 0, 3, 5, 8, 0],
    "action": [0, 1, 1, 0] * 3,
    "unit": [1] * 4 + [2] * 4 + [11] * 4,
    "time": [8, 9, 10, 11] * 3,
    "terminal": [0, 0, 0, 1] * 3,
    "weight": [1, 2, 3, 4] * 3,
}
DAY = dt.date(2020, 1, 1)
# The same values as another kind of thing, in the same order.
KINDS = {
    "number": lambda role, value: value,
    "flag": lambda role, value: bool(value % 2),
    "text": lambda role, value: f"{value:02d}k",
    "date": lambda role, value: DAY + dt.timedelta(days=value),
    "moment": lambda role, value: dt.datetime(2020, 1, 1) + dt.timedelta(hours=value),
    "span": lambda role, value: dt.timedelta(hours=value),
    "clock": lambda role, value: dt.time(value % 24),
    "bytes": lambda role, value: f"{value:02d}k".encode(),
    "list": lambda role, value: [value, value],
    "struct": lambda role, value: {"a": value},
    "nothing": lambda role, value: None,
    "complex": lambda role, value: complex(value),
}
LABELS = ("action", "unit")
ACCEPTED = {  # the roles in which a kind means something
    "number": set(NUMBERS),
    "flag": {"state", "action", "terminal", "weight"},
    "text": {"state", "next_state", *LABELS},
    "date": {"time", *LABELS},
    "moment": {"time", *LABELS},
    "span": {"time", *LABELS},
    "clock": {"time", *LABELS},
    "bytes": {"state", "next_state", *LABELS},
    "complex": set(LABELS),
}
NAMES = {
    "list": "must hold single values", "struct": "must hold single values",
    "nothing": "missing|must be|must hold|No row has|levels?", "date": "dates or times|must", "moment": "dates or times|must",
    "span": "dates or times|must", "clock": "dates or times|must", "complex": "complex|must|number",
    "text": "must be|must hold", "bytes": "must be|must hold", "flag": "must",
}  # fmt: skip


def pandas_type(dtype):
    return lambda values: pd.Series(values, dtype=dtype)


def polars_type(dtype):
    return lambda values: pl.Series(values, dtype=dtype, strict=False)


def arrow_type(dtype):
    return lambda values: pa.array(values, type=dtype)


def arrow_in_pandas(dtype):
    return lambda values: pd.Series(
        pa.array(values, type=dtype), dtype=pd.ArrowDtype(dtype)
    )


TYPES = {
    **{("pandas", f"number {t}"): pandas_type(t) for t in ("int8", "uint8", "int64", "uint64", "float32", "float64", "Int8", "UInt64", "Int64", "Float32", "Float64", "object", "category")},
    **{("pandas", f"number sparse {t}"): pandas_type(pd.SparseDtype(t)) for t in ("int64", "float64")},
    **{("pandas", f"flag {t}"): pandas_type(t) for t in ("bool", "boolean", "object")},
    **{("pandas", f"text {t}"): pandas_type(t) for t in ("object", "str", "string[python]", "string[pyarrow]", "category")},
    **{("pandas", f"moment datetime64[{u}]"): pandas_type(f"datetime64[{u}]") for u in ("s", "ms", "us", "ns")},
    ("pandas", "moment with zone"): lambda values: pd.Series(values, dtype="datetime64[ns]").dt.tz_localize("Asia/Tokyo"),
    ("pandas", "date period"): lambda values: pd.Series(pd.PeriodIndex(values, freq="D")),
    ("pandas", "date object"): pandas_type("object"),
    ("pandas", "span timedelta64[ns]"): pandas_type("timedelta64[ns]"),
    ("pandas", "complex complex128"): pandas_type("complex128"),
    ("pandas", "list object"): pandas_type("object"),
    ("pandas", "struct object"): pandas_type("object"),
    ("pandas", "nothing object"): pandas_type("object"),
    ("pandas", "bytes object"): pandas_type("object"),
    **{("pandas", f"number arrow {t}"): arrow_in_pandas(t) for t in (pa.int8(), pa.uint64(), pa.float32(), pa.float64())},
    ("pandas", "flag arrow"): arrow_in_pandas(pa.bool_()),
    ("pandas", "text arrow"): arrow_in_pandas(pa.large_string()),
    ("pandas", "date arrow"): arrow_in_pandas(pa.date32()),
    ("pandas", "list arrow"): arrow_in_pandas(pa.list_(pa.int64())),
    **{("polars", f"number {t}"): polars_type(t) for t in (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.Int128, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64, pl.Float32, pl.Float64)},
    ("polars", "number decimal"): lambda values: pl.Series([Decimal(value) for value in values], dtype=pl.Decimal(12, 2)),
    ("polars", "flag"): polars_type(pl.Boolean),
    ("polars", "text"): polars_type(pl.String),
    ("polars", "text categorical"): polars_type(pl.Categorical),
    ("polars", "text enum"): lambda values: pl.Series(values, dtype=pl.Enum(sorted(set(values)))),
    ("polars", "date"): polars_type(pl.Date),
    **{("polars", f"moment {u}"): polars_type(pl.Datetime(u)) for u in ("ms", "us", "ns")},
    ("polars", "moment with zone"): polars_type(pl.Datetime("us", "Asia/Tokyo")),
    ("polars", "span"): polars_type(pl.Duration("us")),
    ("polars", "clock"): polars_type(pl.Time),
    ("polars", "bytes"): polars_type(pl.Binary),
    ("polars", "list"): polars_type(pl.List(pl.Int64)),
    ("polars", "list array"): polars_type(pl.Array(pl.Int64, 2)),
    ("polars", "struct"): polars_type(pl.Struct({"a": pl.Int64})),
    ("polars", "nothing"): polars_type(pl.Null),
    **{("pyarrow", f"number {t}"): arrow_type(t) for t in (pa.int8(), pa.int64(), pa.uint64(), pa.float32(), pa.float64())},
    ("pyarrow", "number decimal"): arrow_type(pa.decimal128(12, 2)),
    ("pyarrow", "flag"): arrow_type(pa.bool_()),
    ("pyarrow", "text"): arrow_type(pa.string()),
    ("pyarrow", "text large"): arrow_type(pa.large_string()),
    ("pyarrow", "text dictionary"): lambda values: pa.array(values).dictionary_encode(),
    ("pyarrow", "date 32"): arrow_type(pa.date32()),
    ("pyarrow", "date 64"): arrow_type(pa.date64()),
    ("pyarrow", "moment"): arrow_type(pa.timestamp("ns")),
    ("pyarrow", "span"): arrow_type(pa.duration("us")),
    ("pyarrow", "clock"): arrow_type(pa.time64("us")),
    ("pyarrow", "bytes"): arrow_type(pa.binary()),
    ("pyarrow", "list"): arrow_type(pa.list_(pa.int64())),
    ("pyarrow", "struct"): arrow_type(pa.struct({"a": pa.int64()})),
    ("pyarrow", "nothing"): arrow_type(pa.null()),
}  # fmt: skip
FRAME = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}


def columns(role, kind, convert=None):
    """All columns as numbers but one; next states take the kind of the states."""
    changed = (
        {"state", "next_state"}
        if role in ("state", "next_state") and kind in ("text", "bytes", "flag")
        else {role}
    )
    found = {}
    for name, values in NUMBERS.items():
        if name not in changed:
            found[name] = values
            continue
        values = [KINDS[kind](role, value) for value in values]
        found[name] = values if convert is None else convert(values)
    return found


def panel(data, role):
    roles = {name: name for name in NUMBERS if name not in ("state", "next_state")}
    if role == "next_state":
        roles["next_state"] = "next_state"
    return Panel.from_frame(data, state=["state"], **roles)


def read_back(data, library, route, folder):
    """The panel's frame, or the file it was written to."""
    if route == "frame":
        return data
    path = folder / f"d.{route}"
    if library == "pandas":
        data.to_csv(path, index=False) if route == "csv" else data.to_parquet(path)
    elif library == "polars":
        data.write_csv(path) if route == "csv" else data.write_parquet(path)
    else:
        write = pa.csv.write_csv if route == "csv" else pa.parquet.write_table
        write(data, str(path))
    from deeppqr.panel._file import read_file

    return read_file(path, labels=["action", "unit"])


@pytest.fixture(scope="module")
def references():
    """Panels of plain Python values, by role and kind."""
    found = {}
    for kind, roles in ACCEPTED.items():
        for role in roles:
            data = pl.DataFrame(columns(role, kind), strict=False)
            found[role, kind] = panel(data, role)
    return found


# Polars reads the files of all three; what another library writes differently is slow to try.
ROUTES = [
    pytest.param(
        *(library, name, route),
        marks=[pytest.mark.slow] if route == "parquet" and library != "polars" else [],
    )
    for library, name in TYPES
    for route in ("frame", "csv", "parquet")
]
AS_TEXT = (
    "bytes",
    "list",
    "struct",
    "span",
    "clock",
    "complex",
    "nothing",
)  # in a CSV file
SPECIAL = {
    ("number category", "state"),  # codes: below
    ("nothing", "next_state"),  # terminal rows are enough
    ("date period", "parquet"),  # pandas writes their numbers
    ("complex", "terminal"),  # 1 + 0j is 1
}


def written(library, name, route, role, folder):
    """The data of a type in a role by a route; None where the library cannot write it."""
    data = FRAME[library](columns(role, name.split()[0], TYPES[library, name]))
    if route == "frame":
        return data
    cannot = (pa.ArrowException, pl.exceptions.PolarsError, TypeError, OverflowError)
    try:
        return read_back(data, library, route, folder)
    except cannot:
        return None


@pytest.mark.parametrize(("library", "name", "route"), ROUTES)
def test_each_type_in_each_role(library, name, route, references, tmp_path):
    kind = name.split()[0]
    for role in NUMBERS:
        if kind == "flag" and role in ("unit", "time", "next_state"):
            continue  # of two values there are no three units and no four periods
        data = written(library, name, route, role, tmp_path)
        if data is None or (kind, role) in SPECIAL or (name, role) in SPECIAL:
            continue
        if (route == "csv" and kind in AS_TEXT) or (name, route) in SPECIAL:
            panel_or_refusal(data, role)
        elif role in ACCEPTED.get(kind, ()):
            same_panel(panel(data, role), references[role, kind])
        else:
            with pytest.raises(DataError, match=NAMES[kind]) as refused:
                panel(data, role)
            # By the name of the role, or of the column, which is the same here.
            assert role in str(refused.value) or "No row" in str(refused.value)


def test_numbers_of_a_categorical_type_are_codes():
    data = pd.DataFrame(columns("state", "number", pandas_type("category")))
    assert [str(column) for column in panel(data, "state").encoding.columns] == [
        "state (8 levels)"
    ]


def panel_or_refusal(data, role):
    """No traceback, whatever the text."""
    try:
        panel(data, role)
    except DataError as problem:
        assert "`" in str(problem) or "column" in str(problem)  # noqa: PT017


def same_panel(found, expected):
    for name in ("state", "next_state", "action", "unit", "terminal", "weight"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), name)
    assert found.num_actions == expected.num_actions
