"""A table of what a fit says of new states; rows that cannot be predicted may be empty."""

import warnings
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from .._errors import BadRows, DataError, DataWarning, NoInfluenceFunction
from .._messages import did_you_mean, plain
from .._shapes import States
from .._uncertainty import AbstractUncertainty
from ..learners._chunks import row_slices
from ..learners._row_threads import over_blocks, row_threads
from ..panel._file import read_file
from ..report._interval import check_level, normal_interval

if TYPE_CHECKING:
    from .._fit import Fit

INSIDE = "inside_data"
ERRORS = "errors"
TABLES = ("reward", ERRORS, "q", "prob", "value", INSIDE)
# What the errors' columns begin with: standard error, ends of the interval.
ERROR_COLUMNS = ("se", "low", "high")
# Rows predicted at once by each thread: a block takes some milliseconds at least, and its
# columns a few MB.
BLOCK_ROWS = 16_384
LEAVE_EMPTY = (
    'To leave such rows empty instead: fit.predict(states, bad_rows="empty"), or '
    "`deeppqr predict ... --bad-rows empty`."
)


@dataclass(frozen=True)
class Wanted:
    """The tables to predict, in the order of `TABLES`, and the level of intervals."""

    tables: tuple[str, ...]
    level: float = 0.95
    missing: str = ""
    """Why errors that were asked for, or come by default, are not among them."""

    @classmethod
    def of(cls, fit: "Fit", only: Any, errors: bool | None, level: float) -> "Wanted":
        """From the options of `Fit.predict`; errors that a fit lacks are left out."""
        check_level(level)
        asked = checked_tables(only)
        if errors is None:
            errors = ERRORS in asked
        asked = tuple(
            name for name in TABLES if (errors if name == ERRORS else name in asked)
        )
        if not asked:
            raise DataError(
                f"`only` names {ERRORS!r} alone, which `errors=False` leaves out. Name "
                f"other tables, of {list(TABLES)}, or leave out one of the two."
            )
        if not errors:
            return cls(asked, level)
        try:
            fit._errors()
        except NoInfluenceFunction as problem:
            asked = tuple(name for name in asked if name != ERRORS)
            return cls(asked, level, str(problem))
        return cls(asked, level)

    def warn(self) -> None:
        """Say that errors are left out."""
        if self.missing:
            warnings.warn(f"Errors are left out. {self.missing}", DataWarning, stacklevel=4)


def predict(fit: "Fit", states: Any, bad_rows: str, wanted: Wanted) -> pl.DataFrame:
    """The table of `Fit.predict`."""
    if bad_rows not in ("error", "empty"):
        raise DataError(f'`bad_rows` must be "error" or "empty", but it is {bad_rows!r}.')
    if isinstance(states, (str, Path)):
        states = read_file(states)
    columns = fit.encoding.read(states)
    num_rows = len(next(iter(columns.values())))
    used = np.arange(num_rows)
    while True:
        try:
            kept = columns if len(used) == num_rows else _rows(columns, used)
            state = fit.encoding.encode(kept)
            frame = pl.DataFrame(_predicted(fit, state, wanted))
            break
        except BadRows as problem:
            # A mask of other rows, such as the next states', says nothing of these.
            if bad_rows == "error" or len(problem.rows) != len(used):
                raise BadRows(f"{problem} {LEAVE_EMPTY}", problem.rows) from None
            used = used[~problem.rows]
    if len(used) == num_rows:
        return frame
    place = np.full(num_rows, -1)
    place[used] = np.arange(len(used))
    rows = pl.Series(place).replace(-1, None)
    return frame.select(pl.all().gather(rows))


def checked_tables(only: Any) -> tuple[str, ...]:
    """The tables asked for, in the order of `TABLES`."""
    if only is None:
        return TABLES
    asked = [only] if isinstance(only, str) else list(only)
    unknown = [name for name in asked if name not in TABLES]
    if unknown or not asked:
        what = plain(unknown[0]) if unknown else "nothing"
        raise DataError(
            f"`only` must name some of {list(TABLES)}, but it names {what}."
            f"{did_you_mean(unknown[0], TABLES) if unknown else ''}"
        )
    return tuple(name for name in TABLES if name in asked)


def column_names(fit: "Fit", wanted: Wanted) -> list[str]:
    """The columns of a table of predictions, in their order."""
    found = []
    for name in wanted.tables:
        if name == ERRORS:
            found += [f"{kind}_{label}" for kind in ERROR_COLUMNS for label in fit.actions]
            continue
        # Of amounts there are densities, at those in the columns' names.
        shown = "density" if name == "prob" and fit.space is not None else name
        by_action = name not in ("value", INSIDE)
        found += [f"{shown}_{label}" for label in fit.actions] if by_action else [name]
    return found


def _rows(columns: dict[str, np.ndarray], used: np.ndarray) -> dict[str, np.ndarray]:
    return {name: column[used] for name, column in columns.items()}


def _predicted(fit: "Fit", state: States, wanted: Wanted) -> dict[str, np.ndarray]:
    """Columns by their names; blocks of rows are spread over the cores."""
    # Once for all blocks: it may have to factor the covariance.
    errors = fit._errors() if ERRORS in wanted.tables else None
    block = partial(_block, fit, wanted, errors)
    if len(state) <= BLOCK_ROWS:  # one block, whose errors count its rows
        parts = [block(state)]
    else:
        blocks = [state[rows] for rows in row_slices(len(state), BLOCK_ROWS)]
        try:
            with row_threads():
                parts = list(over_blocks(block, blocks))
        except BadRows:  # all rows at once say which ones, and how many
            parts = [block(state)]
    tables = [np.concatenate(found) for found in zip(*parts, strict=True)]
    columns = [column for table in tables for column in table.T]
    return dict(zip(column_names(fit, wanted), columns, strict=True))


def _block(
    fit: "Fit", wanted: Wanted, errors: AbstractUncertainty | None, state: States
) -> list[np.ndarray]:
    """Each table at some states, (row, column)."""
    found: dict[str, np.ndarray] = {}
    if {"q", "prob", "value"} & set(wanted.tables):
        known = fit.estimate(state)
        found = {
            "q": known.q,
            "prob": np.exp(known.log_prob),
            "value": known.value[:, None],
        }
    if "reward" in wanted.tables or errors is not None:
        found["reward"] = fit._reward_of(state)
    if errors is not None:
        error = errors.standard_errors(state, fit.estimate, len(fit.actions))
        ends = normal_interval(found["reward"], error, wanted.level)
        found[ERRORS] = np.concatenate([error, *ends], axis=1)
    if INSIDE in wanted.tables:
        found[INSIDE] = fit.seen.inside(state)[:, None]
    return [found[name] for name in wanted.tables]
