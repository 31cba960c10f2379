"""Refuses state columns of text that looks like numbers.

One "n/a" or decimal comma makes a whole column text. It would be encoded as a category for
each number: the fit would run, with one coefficient per number and their order lost. So
such a column is refused unless its type is categorical.
"""

import math
import re
from collections.abc import Callable, Collection
from decimal import Decimal
from typing import Any

import numpy as np

from .._errors import DataError
from .._messages import counted, plain

# Digits grouped by thousands, as in 1,234.5 or 1.234,5.
THOUSANDS = re.compile(r"[+-]?\d{1,3}(?:(?:,\d{3})+(?:\.\d*)?|(?:\.\d{3})+(?:,\d*)?)")

# Of a number nobody writes the first zero; of a postcode everybody does.
CODE = re.compile(r"0\d+")


def is_number(value: Any) -> bool:
    """Whether a value is a finite number, or text that a person would read as one."""
    if isinstance(value, str):
        grouped = THOUSANDS.fullmatch(value.strip()) is not None
        return grouped or _parses(value) or _parses(value.replace(",", "."))
    if isinstance(value, (bool, np.bool_)):
        return False
    return isinstance(value, (int, float, Decimal, np.number)) and math.isfinite(value)


def mostly_numbers(levels: Collection[Any]) -> bool:
    """Whether more than half of the distinct values are numbers."""
    # Distinct values, not rows: a code such as "none" may fill most rows of a column whose
    # other entries are all quantities. Half, since codes such as 'A1', '2' are rarely so.
    return 2 * sum(map(is_number, levels)) > len(levels)


def refuse_numeric_text(
    name: str,
    values: np.ndarray,
    levels: Collection[Any],
    describe_row: Callable[[int], str],
) -> None:
    """Raise if most of a column's distinct values, `levels`, are numbers."""
    if not mostly_numbers(levels):
        return
    stray = {level for level in levels if not is_number(level)}
    entries, known = values.tolist(), set(levels)
    wanted = stray or known
    rows = [row for row, value in enumerate(entries) if value in wanted]
    first = f"{plain(entries[rows[0]])} in {describe_row(rows[0])}"
    if stray:
        found = (
            f"{len(known) - len(stray):,} of these look like numbers. The first that does "
            f"not is {first}, {counted(len(rows), 'row')} in all"
        )
        convert = (
            "Convert the column to numbers, and fill these entries in or drop their rows"
        )
    elif any(isinstance(level, str) and not _parses(level) for level in levels):
        found = f"it holds text that looks like numbers with commas, such as {first}"
        convert = (
            "Convert the column to numbers with decimal points, such as "
            f'frame["{name}"].str.replace(",", ".").astype(float)'
        )
    else:
        found = f"it holds text that looks like numbers, such as {first}"
        convert = f'Convert the column: frame["{name}"].astype(float)'
    coded = f'categorical=["{name}"]'
    raise DataError(
        f"State column {name!r} would be encoded as a category for each of its "
        f"{counted(len(known), 'distinct value')}, but {found}. "
        + (
            f"They look like codes, such as {plain(code)}: pass {coded}, or group them; "
            "as numbers they would count as quantities."
            if (code := _first_code(levels)) is not None
            else f"{convert}. If its values are codes and not quantities, pass {coded} "
            "(or give the column a categorical type)."
        )
    )


def _first_code(levels: Collection[Any]) -> str | None:
    """The first text with a zero that no number begins with, such as 01234."""
    return next((v for v in sorted(map(str, levels)) if CODE.fullmatch(v.strip())), None)


def _parses(text: str) -> bool:
    try:
        return "_" not in text and math.isfinite(float(text))
    except ValueError:
        return False
