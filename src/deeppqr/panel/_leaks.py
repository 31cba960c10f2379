"""State columns that hold what no unit saw, or that count rows, units or time."""

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from .._shapes import Codes, PerRow, States

# Rows that a claim about a column rests on, and the share of them for which it must hold:
# a few may be filled in by hand.
FEWEST = 20
NEARLY_ALL = 0.99
# Distinct values from which a column can be another's value of the period before by more
# than chance: the indicators of seasons follow one another, too.
MANY_VALUES = 10

PAST = re.compile(r"lag|prev|past|last|before|former|yesterday|(^|[^a-z])l\d|t_?minus|t-\d")
# Words of identifiers, whole: `paid` and `decode` have other ones.
IDENTIFIERS = {"id", "ids", "uid", "uuid", "code", "codes", "zip", "zipcode", "postcode"}
IDENTIFIERS |= {"sku", "isin", "iban", "ssn", "vin", "barcode"}


def future_columns(
    numbers: dict[str, int], state: States, next_state: States
) -> Iterator[tuple[str, str]]:
    """Pairs of columns of which the first is the second one's next value.

    `numbers` are the numeric columns and their places in the arrays, rows with a next
    state. The second may as well be the first one's value of the period before; a name
    that says so is believed.
    """
    for past, place in numbers.items():
        if PAST.search(str(past).lower()):
            continue
        moved = np.flatnonzero(next_state[:, place] != state[:, place])
        if len(moved) < FEWEST or len(np.unique(state[:, place])) < MANY_VALUES:
            continue
        for name, other in numbers.items():
            if other == place:
                continue
            # A few rows refuse most pairs at once.
            for rows in (moved[:FEWEST], moved):
                equal = state[rows, other] == next_state[rows, place]
                if equal.mean() < NEARLY_ALL:
                    break
            else:
                yield name, past


def tells_action(column: np.ndarray, action: Codes) -> bool:
    """Whether a column has a value or more for each action, and each means that action."""
    used = np.unique(action)
    # Most columns have more values among their first rows, and sorting all takes a while.
    if len(set(column[:1_000].tolist())) > 2 * len(used):
        return False
    levels, code = np.unique(column.astype(str), return_inverse=True)
    if len(used) < 2 or len(levels) > 2 * len(used):
        return False
    if np.bincount(action, minlength=len(used))[used].min() < FEWEST:
        return False
    return len(np.unique(code * (action.max() + 1) + action)) == len(levels)


def counts_rows(column: PerRow) -> bool:
    """Whether a column goes up or down by the same step from row to row of the data."""
    step = np.diff(column)
    return len(column) > FEWEST and bool(step[0] != 0 and (step == step[0]).all())


def is_time(column: PerRow, time: Any) -> bool:
    """Whether a column is the time itself, on any scale."""
    if time is None or len(column) < FEWEST or len(np.unique(column)) < 3:
        return False
    low, high = int(np.argmin(time)), int(np.argmax(time))
    # As in an equation of two points, without division: times are integers.
    left = (column - column[low]) * float(time[high] - time[low])
    right = (time - time[low]).astype(np.float64) * (column[high] - column[low])
    return bool(np.allclose(left, right, rtol=1e-9, atol=0.0))


def numbers_units(column: PerRow, unit: Codes, labels: list[Any]) -> bool:
    """Whether a column is the unit's own number: its label, or a count of units."""
    first = np.flatnonzero(np.append(True, np.diff(unit) != 0))
    value = column[first]
    if len(first) < MANY_VALUES or len(column) < 2 * len(first):
        return False
    if not (column == value[unit]).all():
        return False
    if len(np.unique(value)) < len(value) or not (value == np.round(value)).all():
        return False
    same = all(isinstance(label, int) for label in labels) and value.tolist() == labels
    return same or float(np.ptp(value)) == len(value) - 1


def named_like_identifier(name: str, column: PerRow) -> bool:
    """Whether a column of many whole numbers has a name such as `store_id` or `zip`."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", str(name))
    words = set(re.split(r"[^a-z]+", spaced.lower()))
    if not words & IDENTIFIERS or not (column == np.round(column)).all():
        return False
    return len(np.unique(column)) >= MANY_VALUES


def shuffled_in_time(
    column: PerRow, as_given: PerRow, within: np.ndarray, given_within: np.ndarray
) -> bool:
    """Whether a column wanders from row to row as given, and jumps in order of time."""
    spread = float(np.var(column))
    if spread == 0 or min(within.sum(), given_within.sum()) < 5 * FEWEST:
        return False
    # Von Neumann's ratio: 1 for values in random order, near 0 for a path.
    jumps = float(np.mean(np.diff(column)[within] ** 2)) / (2 * spread)
    wander = np.diff(as_given)[given_within]
    sorted_by = (wander >= 0).mean() in (0.0, 1.0)
    return jumps > 0.5 and float(np.mean(wander**2)) / (2 * spread) < 0.3 and not sorted_by
