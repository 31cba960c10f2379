"""Ordinary mistakes and odd data: each is taken with its meaning, warned of, or refused."""

import datetime as dt
import inspect
import warnings
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from deeppqr import DataError, DataWarning, Panel

ROWS, UNITS = 100, 10
NAMES = {"state": "x", "action": "a", "unit": "u", "time": "t"}
FROM_FRAME = inspect.unwrap(Panel.from_frame.__func__)  # annotations are not checked here


def table(**changes):
    columns = {
        "u": np.repeat(np.arange(UNITS), 10),
        "t": np.tile(np.arange(10), UNITS),
        "x": np.cos(np.arange(ROWS)),
        "a": np.array([0, 1, 1, 0, 1] * 20),
    }
    return pd.DataFrame({**columns, **changes})


def panel(roles=None, **changes):
    return FROM_FRAME(Panel, table(**changes), **{**NAMES, **(roles or {})})


def with_entry(column, value, dtype: Any = object):
    """A column of the table with one entry replaced."""
    values = table()[column].astype(dtype)
    values[7] = value
    return {column: values}


def in_each(values):
    """The same ten values for each unit."""
    return {"t": list(values) * UNITS}


def days(*elapsed, **zone):
    return [pd.Timestamp("2020-01-01", **zone) + pd.Timedelta(days=d) for d in elapsed]


NOON = [dt.date(2020, 1, 1) + dt.timedelta(days=d) for d in (*range(8), 10, 11)]
MONTHS = [202008, 202009, 202010, 202011, 202012, 202101, 202102, 202103, 202104, 202105]
QUARTERS = [20201, 20202, 20203, 20204, 20211, 20212, 20213, 20214, 20221, 20222]
DATES = [20200127 + d for d in range(5)] + [20200201 + d for d in range(5)]
SHOWN = r"Panel\(100 decisions by 10 units; .* 90 next states seen, 0 terminal rows"

REFUSED = {
    "a name twice": (lambda: FROM_FRAME(Panel, pd.concat([table(), table()[["x"]]], axis=1), **NAMES), r"name each column once, but 'x' stands 2 times \(1 such name: x\)"),
    "a name twice in Arrow": (lambda: FROM_FRAME(Panel, pa.table([[1, 2], [1, 2]], names=["x", "x"]), **NAMES), "'x' stands 2 times"),
    "names of two levels": (lambda: FROM_FRAME(Panel, pd.concat({"g": table()}, axis=1), **NAMES), r"2 levels of names, such as \('g', 'u'\). Join them: frame.columns = "),
    "names that are numbers": (lambda: FROM_FRAME(Panel, table().set_axis(range(4), axis=1), state=2, action=3), r"`state` must name columns, one or a list of them, but 2 arrived"),
    "columns in the index": (lambda: FROM_FRAME(Panel, table().set_index(["u", "t"]), **NAMES), r"no such column .* It is part of the index: pass frame.reset_index\(\)"),
    "a name in capitals": (lambda: panel({"unit": "U"}), "no such column .* Did you mean 'u'"),
    "two names in one text": (lambda: panel({"state": "x,a"}), "`state` names the column 'x,a', but the data have no such column"),
    "a state named twice": (lambda: panel({"state": ["x", "x"]}), "'x' stands twice"),
    "a dict": (lambda: FROM_FRAME(Panel, dict(table()), **NAMES), "`frame` must be a DataFrame .* but a dict arrived"),
    "a list of dicts": (lambda: FROM_FRAME(Panel, table().to_dict("records"), **NAMES), "but a list arrived"),
    "a series": (lambda: FROM_FRAME(Panel, table()["x"], **NAMES), "but a Series arrived"),
    "a path": (lambda: FROM_FRAME(Panel, "d.csv", **NAMES), "but a str arrived"),
    "no rows": (lambda: FROM_FRAME(Panel, table().iloc[:0], **NAMES), "The data have no rows"),
    "one row": (lambda: FROM_FRAME(Panel, table().iloc[:1], **NAMES), "No row has a next state: 1 unit, 1 row,"),
    "units of one row": (lambda: panel(u=np.arange(ROWS)), "No row has a next state: 100 units, 100 rows"),
    "unit and action the same": (lambda: panel({"unit": "a"}), "`action` and `unit` must name different columns, but both name 'a'"),
    "unit and time the same": (lambda: panel({"time": "u"}), "`unit` and `time` must name different columns, but both name 'u'"),
    "ends and breaks the same": (lambda: panel({"terminal": "e", "truncated": "e"}, e=False), "`terminal` and `truncated` must name different"),
    "weights that are actions": (lambda: panel({"weight": "a"}), "`action` and `weight` must name different"),
    "missing unit": (lambda: panel(**with_entry("u", None)), r"`unit` must not be missing, but row 7 \(time 7\) has none \(1 row in all\)"),
    "missing time": (lambda: panel(**with_entry("t", np.nan)), r"`time` must not be missing, but row 7 \(unit 0\) has none"),
    "missing action": (lambda: panel(**with_entry("a", pd.NA, "Int64")), "`action` must not be missing, but row 7"),
    "missing state": (lambda: panel(**with_entry("x", pd.NA, "Float64")), "'x' must not be missing, but row 7"),
    "missing end": (lambda: panel({"terminal": "e"}, e=[None] + [False] * 99), r"`terminal` must be true or false .* row 0 .* has None"),
    "missing weight": (lambda: panel({"weight": "w"}, w=[np.nan] + [1.0] * 99), "`weight` must be finite and not negative, but row 0"),
    "no state anywhere": (lambda: panel(x=[None] * ROWS), r"'x' must not be missing, but row 0 .* no value \(100 rows in all\). Leave the column out"),
    "no unit anywhere": (lambda: panel(u=[None] * ROWS), r"`unit` must not be missing, .* \(100 rows in all\)"),
    "no time anywhere": (lambda: panel(t=[None] * ROWS), "`time` must not be missing"),
    "no action anywhere": (lambda: panel(a=[None] * ROWS), "`action` must not be missing"),
    "infinite unit": (lambda: panel(**with_entry("u", np.inf, float)), r"`unit` must be a label and not infinite, but row 7 .* has inf \(1 row"),
    "infinite action": (lambda: panel(**with_entry("a", -np.inf, float)), "`action` must be a label and not infinite, but row 7 .* has -inf"),
    "infinite time": (lambda: panel(**with_entry("t", np.inf, float)), "`time` must be finite, but row 7"),
    "infinite state": (lambda: panel(**with_entry("x", np.inf, float)), "'x' must be finite, but row 7"),
    "negative weight": (lambda: panel({"weight": "w"}, w=[-1.0] + [1.0] * 99), "`weight` must be finite and not negative, but row 0"),
    "weights of zero": (lambda: panel({"weight": "w"}, w=0.0), "`weight` is zero in every row"),
    "ends of three kinds": (lambda: panel({"terminal": "e"}, e=[2] + [0] * 99), "`terminal` must be true or false .* has 2"),
    "ends in part": (lambda: panel({"terminal": "e"}, e=[0.5] + [0.0] * 99), "`terminal` must be true or false .* has 0.5"),
    "zones and none": (lambda: panel(**in_each(days(*range(5)) + days(*range(5, 10), tz="UTC"))), "one type, but holds Timestamp with and without a time zone, .* utc=True"),
    "two zones that overlap": (lambda: panel(**in_each(days(*range(5), tz="UTC") + days(*range(4, 9), tz="UTC"))), "Each unit may decide once per time, but rows 4 and 5 are both unit 0"),
    "one time for all": (lambda: panel(t=0), r"rows 0 and 1 are both unit 0, time 0 \(90 such pairs\)"),
    "one time for several and no unit": (lambda: panel({"unit": None}), r"are both time 0 .* If several decide, name the column that tells who: `unit`\. Drop"),
    "a gap": (lambda: panel(**in_each([*range(8), 9, 10])), r"Unit 0 jumps from time 7 \(row 7\) to 9 \(row 8\).*\(10 gaps in all\).*Fill the rows in, or pass gaps=\"split\""),
    "bytes that wrap": (lambda: panel(**in_each(np.arange(250, 260).astype(np.uint8))), "Unit 0 jumps from time 3"),
    "months as numbers": (lambda: panel(**in_each(MONTHS)), r"from time 202012 .* to 202101 .* pass 12 \* \(time // 100\) \+ time % 100 as `time`. Else: Fill"),
    "quarters as numbers": (lambda: panel(**in_each(QUARTERS)), r"from time 20204 .* pass 4 \* \(time // 10\) \+ time % 10"),
    "days as numbers": (lambda: panel(**in_each(DATES)), r"from time 20200131 .* Days written as numbers, .* pandas.to_datetime\(time.astype\(str\)\)"),
    "durations as states": (lambda: panel(x=pd.to_timedelta(np.arange(ROWS), unit="s")), "'x' holds dates or times"),
    "states of 64 bits": (lambda: panel(x=np.array([2**64 - 1, 1] * 50, np.uint64)), r"must not go beyond 2\^53 .* row 0 has 18446744073709551615"),
    "a category of one level": (lambda: panel(x="k"), "categorical with 1 level. A column with a single level is a constant"),
    "actions listed as text": (lambda: panel({"actions": ["0", "1"]}), r"`actions` lists \['0', '1'\], but row 0 .* took 0 \(2 labels missing"),
    "one action": (lambda: panel(a=1), "Every row takes the same action, 1"),
    "an anchor of the other type": (lambda: panel().action_index("0"), r"`anchor` must be one of the actions \[0, 1\], but it is '0'. Did you mean 0"),
    "an anchor's place": (lambda: panel(a=["no", "yes"] * 50).action_index(0), r"`anchor` must be one of the actions \['no', 'yes'\], but it is 0"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    build, message = REFUSED[case]
    with pytest.raises(DataError, match=message) as refused:
        build()
    assert len(str(refused.value)) < 600


WARNED = {
    "accents in two forms": (lambda: panel(a=["caf\u00e9", "cafe\u0301"] * 50), r"labels that may mean the same, 'cafe\\u0301' and 'caf\\xe9' first"),
    "a blank of no width": (lambda: panel(a=["go", "go\u200b"] * 50), r"'go' and 'go\\u200b' first"),
    "labels by rounding": (lambda: panel(a=[0.3, 0.1 + 0.2] * 50), "0.3 and 0.30000000000000004 first"),
    "a constant": (lambda: panel({"state": ["x", "k"]}, k=2.5), "'k' is 2.5 in every row, .* leave it out"),
    "a constant flag": (lambda: panel({"state": ["x", "k"]}, k=True), "'k' is 1 in every row"),
    "ends the wrong way round": (lambda: panel({"terminal": "e"}, e=table()["t"] < 9), r"`terminal` is true in 90 rows, first in row 0 .* the wrong way round\? .* pass its negation"),
    "ends a row late": (lambda: panel({"terminal": "e"}, e=table()["t"] == 0), "true in 10 rows, .* the first of a unit that goes on. .* shift it by one row"),
    "days that are missing": (lambda: panel(**in_each(days(*range(8), 10, 11))), r"`time` goes on from row 7 \(unit 0, time 2020-01-08.*\) to 2020-01-11.*\(10 such steps\).*gaps=\"split\", or mark"),
    "dates as objects that are missing": (lambda: panel(**in_each(NOON)), "goes on from row 7 .* to 2020-01-11"),
    "months that are missing": (lambda: panel(**in_each(pd.date_range("2020-01-01", periods=12, freq="MS").delete([8, 9]))), "to 2020-11-01"),
    "hours in a zone that are missing": (lambda: panel(**in_each(pd.date_range("2020-01-01", periods=12, freq="h", tz="Asia/Tokyo").delete([8, 9]))), "where shorter steps are the rule"),
    "fractions that are missing": (lambda: panel(**in_each([0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.9, 1.0])), r"goes on from row 7 .* to 0.9"),
}  # fmt: skip


@pytest.mark.parametrize("case", WARNED)
def test_warned_of_once(case):
    build, message = WARNED[case]
    with pytest.warns(DataWarning, match=message) as found:
        build()
    assert len(found) == 1


ANSWERED = {
    "flags as actions": (lambda: panel(a=table()["a"] == 1), r"actions \[False, True\]"),
    "dates as actions": (lambda: panel(a=days(0, 1) * 50), "datetime.datetime"),
    "an empty text": (lambda: panel(a=["", "go"] * 50), r"actions \['', 'go'\]"),
    "the text nan": (lambda: panel(a=["nan", "go"] * 50), r"actions \['go', 'nan'\]"),
    "minus zero": (lambda: panel(a=[0.0, -0.0, 1.0, 1.0] * 25), r"actions \[0.0, 1.0\]"),
    "levels that do not occur": (lambda: panel(a=pd.Categorical(["u", "v"] * 50, categories=["u", "v", "w"])), r"actions \['u', 'v'\]"),
    "actions in another order": (lambda: panel({"actions": [1, 0]}), r"actions \[1, 0\]"),
    "bytes": (lambda: panel(x=np.arange(ROWS).astype(np.int8) % 7), SHOWN),
    "bytes that fall": (lambda: panel(**in_each(np.arange(10, dtype=np.uint8)[::-1])), SHOWN),
    "sparse columns": (lambda: panel(x=pd.arrays.SparseArray([0.0, 1.0] * 50)), SHOWN),
    "intervals": (lambda: panel(x=pd.cut(np.arange(ROWS) % 7, 3)), r"states \['x \(3 levels\)'\]"),
    "a constant alone": (lambda: panel(x=1.0), SHOWN),
    "a lazy frame": (lambda: Panel.from_frame(pl.LazyFrame(dict(table())), **NAMES), SHOWN),
    "one unit": (lambda: Panel.from_frame(table(), state="x", action="a"), "by 1 unit; .* 99 next states"),
    "all rows end": (lambda: panel({"terminal": "e"}, e=True), "0 next states seen, 100 terminal"),
    "last rows end": (lambda: panel({"terminal": "e"}, e=table()["t"] == 9), "90 next states seen, 10 terminal"),
    "an end and a break at once": (lambda: panel({"terminal": "e", "truncated": "b"}, e=table()["t"] == 9, b=table()["t"] == 9), "90 next states seen, 10 terminal"),
    "the unit as a category": (lambda: panel({"state": ["x", "v"]}, v=table()["u"].astype(str).map("n{}".format)), r"'v \(10 levels\)'"),
    "one weight": (lambda: panel({"weight": "w"}, w=[1.0] + [0.0] * 99), SHOWN),
    "hours across a change of the clock": (lambda: panel(**in_each(pd.date_range("2020-03-28 20:00", periods=10, freq="h", tz="Europe/Berlin"))), SHOWN),
    "durations as times": (lambda: panel(**in_each(pd.to_timedelta(np.arange(10), unit="h"))), SHOWN),
    "months of unequal length": (lambda: panel(**in_each(pd.date_range("2020-01-01", periods=10, freq="MS"))), SHOWN),
    "days of work": (lambda: panel(**in_each(pd.bdate_range("2020-01-01", periods=10))), SHOWN),
    "times at random": (lambda: panel(t=np.sort(np.random.default_rng(0).random(ROWS))), SHOWN),
    "fractions in steps": (lambda: panel(**in_each(np.arange(10) * 0.1)), SHOWN),
    "every other year": (lambda: panel(**in_each(range(2000, 2020, 2))), SHOWN),
    "a gap that is split": (lambda: panel({"gaps": "split"}, **in_each([*range(8), 9, 10])), "80 next states"),
    "units by empty text": (lambda: panel(u=np.repeat(["", *"abcdefghi"], 10)), SHOWN),
    "labels far apart": (lambda: panel(a=[0.3, 0.3000001] * 50), SHOWN),
}  # fmt: skip


@pytest.mark.parametrize("case", ANSWERED)
def test_taken_with_its_meaning(case):
    build, shown = ANSWERED[case]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = repr(build())
    assert pd.Series(found).str.contains(shown).all(), found
