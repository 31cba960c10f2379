"""What a panel warns of: data that are valid and rarely meant.

Each finding says what was found, where first, and what to do. A panel brings a few at most,
so that they are read.
"""

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from .._messages import counted, plain, warn_user
from .._shapes import Codes, Mask, States
from ._calendar import skipped_dates
from ._encoding import Encoding
from ._leaks import (
    MANY_VALUES,
    counts_rows,
    future_columns,
    is_time,
    named_like_identifier,
    numbers_units,
    shuffled_in_time,
    tells_action,
)
from ._outliers import Outliers, find_outliers
from ._repeats import copied_rows, copied_units, history

MOST_WARNINGS = 6  # of three lines each: one screen
# Each level has a coefficient for each action. At ten rows a level, a coefficient of a
# choice between two has a standard error of 0.6 at best.
ROWS_PER_LEVEL = 10
MANY_LEVELS = 100
# Ends that a claim about all of them rests on: of five random rows in units of ten, all
# are first rows once in 100,000.
FEWEST_ENDS = 5
# Labels that differ by rounding do so in the sixteenth digit; those that are meant differ
# in the first few.
ROUNDING = 1e-9
# A column of which another one leaves less than a thousandth of its spread unexplained: an
# effect that is told from the other's by so little has a standard error a thousand times
# as large. Correlations rest on so many rows at most.
TWIN, TWIN_ROWS = 1e-6, 10_000


@dataclass(frozen=True)
class Checked:
    """A panel's fields, sorted, beside the columns they came from and the order."""

    raw: Any
    """A `RawDecisions`, in the order of the user's rows."""
    order: Codes
    """The user's row behind each sorted one."""
    encoding: Encoding
    state: States
    next_state: States
    action: Codes
    unit: Codes
    terminal: Mask
    unit_labels: Sequence[Any]
    actions: Sequence[Any]
    time: np.ndarray | None
    """Whole numbers, sorted; None where times are dates, fractions or absent."""

    def place(self, row: int) -> str:
        return self.raw.describe_row(int(self.order[row]))

    @property
    def numeric(self) -> dict[str, int]:
        """Numeric columns and their place in the encoded matrix."""
        names = {c.name for c in self.encoding.columns if c.kind == "numeric"}
        features = self.encoding.feature_names
        return {name: features.index(name) for name in self.encoding.names if name in names}


def warn_of_doubts(checked: Checked, found: Sequence[str]) -> None:
    """Warn of `found` and of what the checks here find, each on its own, a few in all."""
    checks = (
        *(_outlying, _repeated, _leaking, _ends_reversed, _skipping, _out_of_order),
        *(_misread, _constant, _twins, _crowded, _alike),
    )
    findings = [*found, *(text for check in checks for text in check(checked))]
    rest = len(findings) - MOST_WARNINGS
    for text in findings[:MOST_WARNINGS]:
        warn_user(text)
    if rest > 0:
        warn_user(
            f"{counted(rest, 'more finding')} about these data will be shown once those "
            "above are settled."
        )


def _outlying(checked: Checked) -> Iterator[str]:
    raw = checked.raw
    columns = {f"State column {name!r}": raw.state[name] for name in checked.numeric}
    for name, values in (raw.next_state or {}).items():
        if name not in raw.state and values.dtype == np.float64:
            columns[f"Next-state column {name!r}"] = values
    if raw.weight is not None:
        # In units of the typical one; first of the largest, since huge ones overflow.
        weight = raw.weight.astype(np.float64)
        weight = weight / weight.max()
        columns["`weight`"] = weight / np.median(weight[weight > 0])
    for name, values in columns.items():
        found = find_outliers(values)
        if found is not None:
            yield _about_outliers(name, values, found, raw)


def _about_outliers(name: str, values: np.ndarray, found: Outliers, raw) -> str:
    row = int(found.rows[0])
    what = f"{name} has {values[row]:.6g} in {raw.describe_row(row)}"
    number = counted(len(found.rows), "cell")
    if found.code:
        return (
            f"{what} and {number} in all, outside all other values: a code for missing? "
            "Drop these rows, or fill them in and add an indicator column."
        )
    far = "" if np.isinf(found.times) else f" at least {found.times:,.0f} times"
    return (
        f"{what},{far} as far from the median, {found.median:.4g}, as the rest "
        f"({number} in all). One such cell can flatten every reward: correct it or drop "
        "the row. If it is right, use its logarithm or its rank as the state."
    )


def _repeated(checked: Checked) -> Iterator[str]:
    row = history(checked.state, checked.action, checked.next_state, checked.terminal)
    units = copied_units(row, checked.unit)
    if units is not None:
        one, other = (checked.unit_labels[code] for code in units.first)
        yield (
            f"{units.number:,} of {counted(units.total, 'unit')} repeat another unit row "
            f"by row, first {plain(other)}, which repeats {plain(one)}: more often than "
            "chance explains. Copies make standard errors too small: drop all but "
            "one of each."
        )
        return
    rows = copied_rows(row, checked.unit)
    if rows is not None:
        one, other = map(checked.place, rows.first)
        yield (
            f"{rows.number:,} of {counted(rows.total, 'row')} repeat another row's state, "
            f"action and next state, first {other}, which repeats {one}: more often than "
            "chance explains. Copies make standard errors too small: drop them."
        )


def _leaking(checked: Checked) -> Iterator[str]:
    seen = ~np.isnan(checked.next_state[:, 0])
    pairs = future_columns(checked.numeric, checked.state[seen], checked.next_state[seen])
    for name, past in pairs:
        yield (
            f"State column {name!r} is the next value of {past!r}. If it was recorded "
            f"after the decision, leave it out: no unit saw it. If {past!r} is the value "
            f"of {name!r} one period before, say so in its name, such as {name + '_lag'!r}."
        )
    for name, values in checked.raw.state.items():
        if tells_action(values[checked.order], checked.action):
            yield (
                f"State column {name!r} tells the action in every row. A state holds what "
                "was seen before the decision: leave out what came of it."
            )
    for name, place in checked.numeric.items():
        yield from _about_counters(checked, name, checked.state[:, place])


def _about_counters(checked: Checked, name: str, column: np.ndarray) -> Iterator[str]:
    unit_given = checked.raw.unit is not None
    if unit_given and numbers_units(column, checked.unit, list(checked.unit_labels)):
        yield (
            f"State column {name!r} numbers the units, and is used as a quantity. Leave it "
            f'out, or, for a constant of each unit, pass categorical=["{name}"].'
        )
    elif is_time(column, checked.time):
        yield (
            f"State column {name!r} is the time itself. The value of the future then rests "
            "on dates that no row has: leave it out unless decisions depend on the date, "
            "and then prefer what changes with it, such as a season or a price."
        )
    elif checked.time is None and counts_rows(checked.raw.state[name]):
        yield (
            f"State column {name!r} counts the rows of the data, so that no state returns. "
            "Leave it out, or name it in `time` if it orders the decisions."
        )


def _ends_reversed(checked: Checked) -> Iterator[str]:
    """Ends marked where units go on, and nowhere else."""
    number = int(checked.terminal.sum())
    goes_on = np.append(np.diff(checked.unit) == 0, False)
    first = np.append(True, ~goes_on[:-1])
    if number < FEWEST_ENDS or checked.terminal[~goes_on].any():
        return
    row = checked.place(int(checked.terminal.argmax()))
    found = f"`terminal` is true in {counted(number, 'row')}, first in {row}, and all are "
    if checked.terminal[goes_on].all():
        yield (
            f"{found}followed by a row of the same unit, while no unit's last row is "
            "marked. Is the flag the wrong way round? It is true where the process ends: "
            "pass its negation."
        )
    elif first[checked.terminal].all():
        yield (
            f"{found}the first of a unit that goes on. Does the flag say that the row "
            "before ended? It belongs to the last decision: shift it by one row within "
            "each unit."
        )


def _skipping(checked: Checked) -> Iterator[str]:
    """Dates that keep a rhythm and skip periods; whole numbers are compared before."""
    if checked.raw.time is None or checked.time is not None:
        return
    if checked.raw.next_state is not None:
        return
    follows = ~np.isnan(checked.next_state[:, 0])
    time = checked.raw.time[checked.order]
    rows = skipped_dates(time, follows)
    if len(rows):
        at = int(rows[0])
        yield (
            f"`time` goes on from {checked.place(at)} to {time[at + 1]}, where "
            f"shorter steps are the rule ({counted(len(rows), 'such step')}). The row "
            "after is taken for the next period. If periods are missing, number them and "
            'pass gaps="split", or mark the rows before with `truncated`.'
        )


def _constant(checked: Checked) -> Iterator[str]:
    """Columns that never vary, beside others: alone, one may stand for no state at all."""
    names = [c.name for c in checked.encoding.columns if c.kind != "categorical"]
    if len(checked.encoding.columns) < 2 or len(checked.state) < 2:
        return
    features = checked.encoding.feature_names
    for name in names:
        column = checked.state[:, features.index(name)]
        if (column == column[0]).all():
            yield (
                f"State column {name!r} is {column[0]:.6g} in every row, so that nothing "
                "can be learned about it: leave it out."
            )


def _out_of_order(checked: Checked) -> Iterator[str]:
    if checked.raw.time is None or (np.diff(checked.order) > 0).all():
        return
    given = np.argsort(checked.order, kind="stable")
    within = np.diff(checked.unit) == 0
    given_within = np.diff(checked.unit[given]) == 0
    for name, place in checked.numeric.items():
        column = checked.state[:, place]
        if shuffled_in_time(column, column[given], within, given_within):
            yield (
                f"In order of `time` the state column {name!r} jumps at random, while from "
                "row to row of the data it moves in small steps. Is `time` the right "
                "column, and was it sorted on its own? Without `time` rows are taken in "
                "their order."
            )
            return


def _misread(checked: Checked) -> Iterator[str]:
    for name, place in checked.numeric.items():
        column = checked.state[:, place]
        if named_like_identifier(name, column):
            yield (
                f"State column {name!r} is named like an identifier and is used as a "
                f"quantity ({counted(len(np.unique(column)), 'different number')}). If its "
                f'order means nothing, pass categorical=["{name}"], or group its values.'
            )


def _twins(checked: Checked) -> Iterator[str]:
    """Numeric columns that are others again, on this scale or another."""
    places = list(checked.numeric.values())
    few = checked.state[:: max(1, len(checked.state) // TWIN_ROWS), places]
    many = [at for at, column in enumerate(few.T) if len(np.unique(column)) >= MANY_VALUES]
    if len(many) < 2:
        return
    names = [list(checked.numeric)[at] for at in many]
    unexplained = 1 - np.corrcoef(few[:, many], rowvar=False) ** 2
    for first, second in np.argwhere(np.triu(unexplained < TWIN, 1)):
        yield (
            f"State column {names[second]!r} is {names[first]!r} again, on this scale or "
            "another, to three digits at least. Their effects cannot be told apart: leave "
            "one of them out."
        )
        return


def _crowded(checked: Checked) -> Iterator[str]:
    for column in checked.encoding.columns:
        levels, rows = len(column.categories), len(checked.state)
        if (levels >= MANY_LEVELS and rows < MANY_LEVELS * levels) or (
            levels > MANY_LEVELS / ROWS_PER_LEVEL and rows < ROWS_PER_LEVEL * levels
        ):
            yield (
                f"State column {column.name!r} has {counted(levels, 'level')} in "
                f"{counted(rows, 'row')}, {rows / levels:.1f} for each, and every level "
                "has coefficients of its own. Group them, such as by region or kind, or "
                "use what distinguishes them as states."
            )


def _alike(checked: Checked) -> Iterator[str]:
    """Labels that differ in blanks, in case, or in how they write a number."""
    labels = {"`action`": checked.actions}
    if checked.raw.unit is not None:
        labels["`unit`"] = checked.unit_labels
    labels |= {
        f"State column {column.name!r}": column.categories
        for column in checked.encoding.columns
    }
    for what, values in labels.items():
        pairs = _look_alikes(values)
        if pairs:
            one, other = pairs[0]
            yield (
                f"{what} has labels that may mean the same, {_told_apart(one, other)} "
                f"first ({counted(len(pairs), 'such pair')}). They count as different: "
                "write them in one way if they are not."
            )


def _look_alikes(labels: Sequence[Any]) -> list[tuple[Any, Any]]:
    """Pairs of labels that may mean the same."""
    return [*_alike_in_text(labels), *_alike_as_numbers(labels)]


def _alike_in_text(values: Sequence[Any]) -> Iterator[tuple[str, str]]:
    first: dict[str, str] = {}
    for value in values:
        if isinstance(value, str):
            same = first.setdefault(_plain_form(value), value)
            if same != value:
                yield same, value


def _alike_as_numbers(values: Sequence[Any]) -> Iterator[tuple[float, float]]:
    """Fractions that differ by rounding, such as 0.3 and 0.1 + 0.2."""
    numbers = sorted(value for value in values if isinstance(value, float))
    for one, other in pairwise(numbers):
        if other - one <= ROUNDING * max(abs(one), abs(other)):
            yield one, other


def _told_apart(one: Any, other: Any) -> str:
    """Both labels, with characters that look alike written as codes."""
    visible = _visible(str(one)) != _visible(str(other))
    written = repr if visible else ascii
    return f"{written(one)} and {written(other)}"


def _visible(text: str) -> str:
    """What a reader sees: composed characters, none without width."""
    composed = unicodedata.normalize("NFKC", text)
    return "".join(c for c in composed if unicodedata.category(c) != "Cf")


def _plain_form(text: str) -> str:
    plain_text = " ".join(_visible(text).casefold().split())
    try:
        return repr(float(plain_text))
    except ValueError:
        return plain_text
