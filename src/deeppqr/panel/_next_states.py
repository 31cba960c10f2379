"""Compares next states that were given with the rows that follow, where both are known."""

from collections.abc import Callable

import numpy as np

from .._errors import DataError
from .._messages import counted
from .._shapes import Codes, Mask, States
from ._repeats import mixed_with, row_hashes

# Rounding of files: seven digits of float32.
TOLERANCE = 1e-6
# Above this share the given states are those of other rows. Below it, some were corrected
# by hand, or breaks inside units are not marked.
MOST = 0.5
# The share from which one explanation, such as a shift by a row, is taken for the mistake.
NEARLY_ALL = 0.9
OWN = "the row's own state"
SOME = 0.1  # without a time: below it the rows are plainly in order
FEWEST = 20  # rows to compare: of fewer a share says little


def compare_next_states(
    state: States,
    next_state: States,
    unit: Codes,
    comparable: Mask,
    *,
    timed: bool,
    describe_row: Callable[[int], str],
) -> list[str]:
    """What to warn of where given next states disagree with the unit's next rows.

    Rows are sorted by unit and time, and `comparable` are those whose next row is the
    unit's next period. Raises where the given states are plainly those of other rows.
    Without a time the rows need not be in order, so that disagreement alone says nothing.
    """
    seen = ~np.isnan(next_state[:, 0])
    rows = np.flatnonzero(comparable & np.append(seen[:-1], False))
    if len(rows) < FEWEST:
        return []
    differs = ~_equal(next_state[rows], state[rows + 1], state)
    share = float(differs.mean())
    if share == 0:
        return []
    first = describe_row(int(rows[differs.argmax()]))
    found = (
        f"The next states given differ from the unit's next row in {_percent(share)} of "
        f"the {counted(len(rows), 'row')} where both are known, first in {first}"
    )
    reason = _reason(state, next_state, unit, seen) if share > MOST else ""
    # Without a time it may be the habit of those whose decisions have no consequences.
    if not timed and reason == OWN:
        return []
    if reason or (timed and share > MOST):
        raise DataError(
            f"{found}{reason and f'; nearly all are {reason}'}. Correct the columns of "
            "`next_state`, or leave `next_state` out: the unit's next row is then its next "
            "state."
        )
    if not timed and share > SOME:  # the rows are not in order
        return []
    return [
        f"{found}. The given ones are used. If sequences break there, mark those rows with "
        "`truncated`; else correct them, or leave `next_state` out."
    ]


def _reason(state: States, next_state: States, unit: Codes, seen: Mask) -> str:
    """Which other row the given next states are, if it is one and the same."""
    moved = _share(~_equal(state[1:], state[:-1], state), unit[1:] == unit[:-1])
    rows = np.flatnonzero(seen)
    for shift, what in (
        (0, OWN),
        (2, "the state two rows later"),
        (-1, "the state of the row before"),
    ):
        there = rows[(rows + shift >= 0) & (rows + shift < len(unit))]
        same_unit = unit[there] == unit[(there + shift)]
        equal = _equal(next_state[there], state[there + shift], state)
        share = _share(equal, same_unit)
        # A state that hardly moves equals its neighbours anyway.
        if share > max(NEARLY_ALL, 1 - moved / 2):
            return what
    own, others = _owners(state, next_state, unit, rows)
    # Only where states are their own: few different ones are met everywhere.
    rare = len(np.unique(row_hashes(state))) > len(state) / 2
    if rare and others > NEARLY_ALL and own < MOST:
        return "states of other units"
    return ""


def _owners(state, next_state, unit, rows) -> tuple[float, float]:
    """The shares of next states that are a state of their own unit, and of any."""
    here, after = row_hashes(state), row_hashes(next_state[rows])
    own = np.isin(mixed_with(after, unit[rows]), mixed_with(here, unit))
    return float(own.mean()), float(np.isin(after, here).mean())


def _equal(one: np.ndarray, other: np.ndarray, states: np.ndarray) -> np.ndarray:
    allowed = TOLERANCE * np.abs(states).max(axis=0, initial=1.0)
    return (np.abs(one - other) <= allowed).all(axis=1)


def _share(values: np.ndarray, among: np.ndarray) -> float:
    return float(values[among].mean()) if among.any() else 0.0


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share > 0.01 else f"{100 * share:.2g} %"
