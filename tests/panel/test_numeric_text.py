"""Numbers that arrive as text are refused; categories that look like numbers are not."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deeppqr import DataError, Panel
from deeppqr.panel._numeric_text import is_number, mostly_numbers

NUMBERS = st.floats(-1e6, 1e6, allow_nan=False)
WORDS = st.text(alphabet="bcdghjklmpqrstuvwxyz", min_size=1)


def panel(column, **frame):
    """A panel whose one state is this column."""
    table = {"k": column, "a": [0, 1] * (len(column) // 2), **frame}
    return Panel.from_frame(pd.DataFrame(table), state=["k"], action="a")


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ([1.5, 2.5, "n/a", 4.5], "its 4 distinct values, but 3 of these look like numbers. The "
         "first that does not is 'n/a' in row 2, 1 row in all. Convert"),
        (["1.5", "-", "2.5", "3.5"], "does not is '-' in row 1, 1 row in all"),
        (["1.5", "nan", "2.5", "3.5"], "does not is 'nan' in row 1"),
        (["4,3", "5,1", "4,4", "4,3"], "each of its 3 distinct values, but it holds "
         "text that looks like numbers with commas, such as '4,3' in row 0"),
        (["1,234.5", "2,000", "1.234,5", "2"], "numbers with commas"),
        (["1", "2", "3", "1"], "it holds text that looks like numbers, such as '1'"),
        ([f"{i}.5" for i in range(1_499)] + ["n/a"], "'n/a' in row 1499"),
    ],
)  # fmt: skip
def test_numbers_as_text_are_refused(column, message):
    with pytest.raises(DataError, match=message):
        panel(pd.Series(column, dtype=object))


@pytest.mark.parametrize(
    "declare",
    [
        lambda frame: frame.assign(k=frame.k.astype("category")),
        lambda frame: pl.from_pandas(frame).cast({"k": pl.Categorical}),
        lambda frame: pl.from_pandas(frame).cast({"k": pl.Enum(["1", "2", "3"])}),
        lambda frame: pl.from_pandas(frame).cast({"k": pl.Categorical}).to_arrow(),
    ],
)
def test_a_categorical_type_declares_codes(declare):
    frame = declare(pd.DataFrame({"k": ["1", "2", "3", "1"], "a": [0, 1, 0, 1]}))
    coded = Panel.from_frame(frame, state=["k"], action="a")
    assert coded.encoding.feature_names == ["k=2", "k=3"]
    again = Panel.from_frame(
        coded.to_frame(), state=["k"], action="action", unit="unit", time="time"
    )
    np.testing.assert_array_equal(again.state, coded.state)


def test_objects_that_are_all_numbers_are_numbers():
    coded = panel(pd.Series([1, 2.5, 3, 4], dtype=object))
    np.testing.assert_array_equal(coded.state[:, 0], [1, 2.5, 3, 4])


def test_missing_flags_are_not_false():
    with pytest.raises(DataError, match="'k' must not be missing, but row 1"):
        panel(pd.Series([True, None, False, True], dtype=object))


@given(NUMBERS)
def test_numbers_are_read_however_they_are_written(number):
    for text in (
        repr(number),
        repr(number).replace(".", ","),
        f"{number:,.2f}",
        f" {number} ",
    ):
        assert is_number(text)
    assert is_number(number)


@settings(max_examples=50)
@given(st.sets(NUMBERS), st.sets(WORDS))
def test_the_majority_of_different_values_decides(numbers, words):
    """Words are never numbers, so the sizes of the two sets tell."""
    assert mostly_numbers({str(number) for number in numbers} | words) == (
        len(numbers) > len(words)
    )


@pytest.mark.parametrize("value", ["1_000", "1.2.3", "1,2,3", "inf", "", "12a", True, None])
def test_what_is_no_number(value):
    assert not is_number(value)
