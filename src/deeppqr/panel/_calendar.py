"""Calendar times: dates written as whole numbers, and dates that skip a period."""

from datetime import date

import numpy as np

from .._shapes import Mask

# Steps from which a rhythm is judged, and the share of them that must keep it: with
# weekends four steps in five do, and then a longer step is no gap.
FEWEST = 20
REGULAR = 0.85
# Months have 28 to 31 days; a step of 1.5 usual ones is no month.
NEAR, LATE = 0.12, 1.5

MONTH = (
    "Months written as numbers, such as 202012, jump by 89 at the turn of the year: pass "
    "12 * (time // 100) + time % 100 as `time`. Else: "
)
QUARTER = (
    "Quarters written as numbers, such as 20204, jump by 7 at the turn of the year: pass "
    "4 * (time // 10) + time % 10 as `time`. Else: "
)
DAY = (
    "Days written as numbers, such as 20201231, jump at the turn of each month: convert "
    "the column to dates, as with pandas.to_datetime(time.astype(str)). Else: "
)


def calendar_advice(time: np.ndarray) -> str:
    """A sentence for dates written as whole numbers; empty if they cannot be that."""
    number = np.array([int(value) for value in time.tolist()], dtype=object)
    month, day = number // 100 % 100, number % 100
    for text, year, part, most in (
        (MONTH, number // 100, day, 12),
        (QUARTER, number // 10, number % 10, 4),
        (DAY, number // 10_000, day, 31),
    ):
        plausible = (year >= 1900) & (year < 2100) & (part >= 1) & (part <= most)
        if text is DAY:
            plausible &= (month >= 1) & (month <= 12)
        # Within one of them nothing jumps.
        jumps = number // 100 if text is DAY else year
        if plausible.all() and len(set(jumps.tolist())) > 1:
            return text
    return ""


def skipped_dates(time: np.ndarray, follows: Mask) -> np.ndarray:
    """Sorted rows after which dates that otherwise keep a rhythm skip a period or more.

    `follows` marks the rows whose next row is their unit's next decision.
    """
    elapsed = _elapsed(time)
    none = np.zeros(0, dtype=np.int64)
    if elapsed is None:
        return none
    rows = np.flatnonzero(follows)
    step = np.diff(elapsed, append=elapsed[-1:])[rows]
    if len(step) < FEWEST:
        return none
    usual = float(np.median(step))
    regular = np.abs(step - usual) <= NEAR * usual
    if usual <= 0 or regular.mean() < REGULAR:
        return none
    return rows[step > LATE * usual]


def _elapsed(time: np.ndarray) -> np.ndarray | None:
    """Dates or fractions as float64; None where they are neither."""
    if time.dtype.kind == "f":
        return time
    if time.dtype.kind in "mM":
        return time.astype(np.int64).astype(np.float64)
    entries = time.tolist()
    if entries and all(isinstance(entry, date) for entry in entries):
        # Days suffice: hours are of no matter where a rhythm of days is kept, and dates
        # with a time of day arrive as NumPy's unless their zones differ.
        return np.array([entry.toordinal() for entry in entries], dtype=np.float64)
    return None
