"""Counts units and rows that are copies of others, where chance does not explain them.

Short histories of few states coincide by chance. Then some occur twice, some three times,
and so on, and for draws from any distribution the numbers m_k of those that occur k times
satisfy m_1 m_3 >= (2/3) m_2^2 (for mixed Poisson counts, k! m_k is log-convex). Copies
break this: what occurs, occurs twice.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import UInt64

from .._shapes import Codes, Mask, States

Hashes = UInt64[np.ndarray, " row"]

# Histories that all occur equally often: by chance with five of them about once in 100
# panels (at best 1/2 for each), and such panels are tiny.
FEWEST = 5
# With fewer units, rows of states that all units share (a price, a season) occur as often
# as there are units, which is no copy.
UNITS_FOR_ROWS = 10


class Copies(NamedTuple):
    """How many units or rows are copies of others, of how many, and a first pair."""

    number: int
    total: int
    first: tuple[int, int]


def row_hashes(columns: np.ndarray) -> np.ndarray:
    """A number for each row, the same for equal rows (NaN equals NaN here)."""
    rng = np.random.default_rng(0)  # fixed: the same rows in every run
    bits = (np.where(np.isnan(columns), 0.5, columns) + 0.0).view(np.uint64)
    bits = bits.reshape(columns.shape)
    total = np.zeros(len(columns), dtype=np.uint64)
    for column in bits.T:
        total = _mixed(total * np.uint64(31) + _mixed(column ^ _odd(rng)))
    return total


def history(state: States, action: Codes, next_state: States, terminal: Mask) -> Hashes:
    """The hashes of decisions: what was seen, done, and came of it."""
    flags = np.column_stack([action, terminal]).astype(np.float64)
    return row_hashes(np.ascontiguousarray(np.hstack([state, flags, next_state])))


def mixed_with(hashes: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """A number for each pair of a hash and a code."""
    return _mixed(hashes + _mixed(codes.astype(np.uint64)))


def copied_units(row: Hashes, unit: Codes) -> Copies | None:
    """Units whose rows are all those of another, in order; rows are sorted by unit."""
    start = np.flatnonzero(np.append(True, np.diff(unit) != 0))
    length = np.diff(np.append(start, len(unit)))
    place = np.arange(len(unit)) - np.repeat(start, length)
    whole = np.add.reduceat(_mixed(row ^ _mixed(place.astype(np.uint64))), start)
    whole = _mixed(whole + length.astype(np.uint64))
    return _copies(whole, equally_often=True)


def copied_rows(row: Hashes, unit: Codes) -> Copies | None:
    """Rows that occur in several units; with one unit, at several places of its path."""
    last = np.append(np.diff(row.view(np.int64)) != 0, True)
    if unit[-1] == 0:
        # Of a stay in the same state, the last row alone: it may last for two periods.
        return _renumbered(_copies(row[last], equally_often=True), np.flatnonzero(last))
    if unit[-1] + 1 < UNITS_FOR_ROWS:
        return None
    # Once for each unit: what a unit repeats itself, it may have stayed in.
    _, kept = np.unique(mixed_with(row, unit), return_index=True)
    return _renumbered(_copies(row[kept], equally_often=False), kept)


def _renumbered(copies: Copies | None, rows: np.ndarray) -> Copies | None:
    if copies is None:
        return None
    one, other = (int(rows[at]) for at in copies.first)
    return copies._replace(first=(one, other))


def _copies(hashes: np.ndarray, *, equally_often: bool) -> Copies | None:
    """Copies among these, unless so many coincide by chance."""
    _, first, inverse, times = np.unique(
        hashes, return_index=True, return_inverse=True, return_counts=True
    )
    if len(times) == len(hashes):
        return None
    often = equally_often and len(times) >= FEWEST and len(set(times.tolist())) == 1
    if not (often or _twice_too_often(np.bincount(times, minlength=4))):
        return None
    number = np.flatnonzero(times > 1)
    earliest = number[np.argmin(first[number])]
    pair = np.flatnonzero(inverse == earliest)[:2]
    return Copies(len(hashes) - len(times), len(hashes), (int(pair[0]), int(pair[1])))


def _twice_too_often(number: np.ndarray) -> bool:
    """Whether more occur twice than those that occur once and three times allow."""
    once, twice, thrice = map(float, number[1:4])
    # Three standard deviations of a count, and one more of those that occur three times.
    return bool(twice - 3 * np.sqrt(twice) > np.sqrt(1.5 * once * (thrice + 1)))


def _mixed(values: np.ndarray) -> np.ndarray:
    """The finaliser of SplitMix64: every bit of the input moves every bit of the output."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def _odd(rng: np.random.Generator) -> np.uint64:
    return np.uint64(rng.integers(0, 2**63, dtype=np.uint64) | np.uint64(1))
