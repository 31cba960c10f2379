"""Checks that every constructor of a panel applies; messages name the first bad row."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from .._errors import DataError
from .._messages import counted, did_you_mean, plain
from ._amounts import check_amounts, grid_of, is_space, nearest_of_grid
from ._calendar import calendar_advice
from ._doubts import Checked, warn_of_doubts
from ._encoding import (
    Column,
    Encoding,
    missing_entries,
    refuse_alike,
    refuse_rows,
    sort_labels,
)
from ._next_states import compare_next_states

# Labels from which it is asked whether actions are quantities: no study that we know of has
# as many choices with three rows each.
MANY_ACTIONS = 20

# A row later than 1.5 usual steps is not the next period: months have 28 to 31 days.
LATE = 1.5


@dataclass(frozen=True)
class RawDecisions:
    """Decisions as the user gave them: columns with one entry per row, not yet checked."""

    state: dict[str, Column]
    action: np.ndarray
    """Labels; or amounts, with a column for each of `action_names`."""
    next_state: dict[str, Column] | None = None
    """Named like `state`. Without it, a unit's next row is its next state."""
    unit: np.ndarray | None = None
    time: np.ndarray | None = None
    terminal: np.ndarray | None = None
    truncated: np.ndarray | None = None
    weight: np.ndarray | None = None
    categorical: frozenset[str] = frozenset()
    """State columns that are categories by their type or because the user says so."""
    action_names: tuple[str, ...] = ("`action`",)
    """How messages speak of the columns of the action."""

    def describe_row(self, row: int) -> str:
        """The row with its unit and time, as far as it has them."""
        where = []
        for role, values in (("unit", self.unit), ("time", self.time)):
            if values is not None and not missing_entries(values[row : row + 1])[0]:
                where.append(f"{role} {values[row]}")
        return f"row {row}" + (f" ({', '.join(where)})" if where else "")


def validate(
    raw: RawDecisions,
    *,
    actions: Any = None,
    gaps: str = "error",
    encoding: Encoding | None = None,
    part: bool = False,
) -> dict[str, Any]:
    """The fields of a `Panel`, checked, sorted by unit and time, and encoded.

    A `part` of larger data may lack what the whole must have, and warns of nothing.
    """
    if gaps not in ("error", "split"):
        raise DataError(f'`gaps` must be "error" or "split", but {gaps!r} arrived.')
    if not raw.state:
        raise DataError("`state` must name at least one column, but it is empty.")
    if len(raw.action) == 0:
        raise DataError(
            "The data have no rows. A panel needs at least one decision and the state "
            "that followed it."
        )
    # Roles before states: a mistake in an identifier explains more than one in a value.
    amount = None
    if is_space(actions):
        amount = check_amounts(raw.action, raw.action_names, actions, raw.describe_row)
        labels, action = grid_of(actions), nearest_of_grid(actions, amount)
    else:
        labels, action = _encode_actions(raw, actions)
    unit_labels, unit = _encode_units(raw)
    order = _order(raw, unit)
    encoding = encoding or Encoding.learn(
        raw.state,
        categorical=raw.categorical,
        following=raw.next_state,
        describe_row=raw.describe_row,
    )
    state = encoding.encode(raw.state, describe_row=raw.describe_row)
    terminal = _flags(raw, raw.terminal, "terminal")
    truncated = _flags(raw, raw.truncated, "truncated")
    weight = _weights(raw)
    if raw.next_state is None:
        follows = _follows(raw, unit, order, (terminal | truncated)[order], gaps)
        next_state = np.full_like(state, np.nan)
        sources = np.flatnonzero(follows)
        # Taken from encoded states, so that both ends of a transition are encoded alike.
        next_state[order[sources]] = state[order[sources + 1]]
    else:
        next_state = _named_next_state(raw, encoding, terminal)
    known = terminal | ~np.isnan(next_state[:, 0])
    if not (known.any() or part):
        raise DataError(
            f"No row has a next state: {counted(len(unit_labels), 'unit')}, "
            f"{counted(len(action), 'row')}, and a unit's last row has none. PQR "
            "needs transitions: give at least one unit two consecutive rows, name the next "
            "state's columns with `next_state`, or mark the rows that end the process "
            "with `terminal`."
        )
    whole = {"actions": labels, "encoding": encoding, "unit_labels": unit_labels}
    by_row = {"state": state, "action": action, "next_state": next_state}
    by_row |= {"unit": unit, "terminal": terminal, "weight": weight}
    fields = whole | {name: values[order] for name, values in by_row.items()}
    if not part:
        _warn(raw, order, fields, truncated[order])
    if amount is not None:
        fields |= {"space": actions, "amount": amount[order]}
    return fields


def _warn(
    raw: RawDecisions, order: np.ndarray, fields: dict[str, Any], truncated: np.ndarray
) -> None:
    """Warn of what is valid and rarely meant."""
    time = None if raw.time is None else _whole_numbers(raw.time[order])
    kept = {name: value for name, value in fields.items() if name != "weight"}
    checked = Checked(raw=raw, order=order, time=time, **kept)
    found = []
    # Rows that belong to nobody in particular need not be in order.
    if raw.next_state is not None and (raw.unit is not None or raw.time is not None):
        found = compare_next_states(
            checked.state,
            checked.next_state,
            checked.unit,
            _consecutive(raw, order, checked) & ~(checked.terminal | truncated),
            timed=raw.time is not None,
            describe_row=checked.place,
        )
    warn_of_doubts(checked, found)


def _consecutive(raw: RawDecisions, order: np.ndarray, checked: Checked) -> np.ndarray:
    """Whether, in sorted order, the next row is the unit's and not far in time."""
    follows = np.append(np.diff(checked.unit) == 0, False)
    if raw.time is None or not follows.any():
        return follows
    if checked.time is not None:
        step = np.diff(checked.time, append=checked.time[-1:])
        return follows & (step == step[follows].min())
    if raw.time.dtype == object:  # dates of other libraries: the next one will do
        return follows
    kind = np.float64 if raw.time.dtype.kind == "f" else np.int64
    time = raw.time[order].astype(kind).astype(np.float64)
    step = np.diff(time, append=time[-1:])
    return follows & (step <= LATE * np.median(step[follows]))


def encode_labels(values: np.ndarray) -> tuple[list[Any], np.ndarray]:
    """Distinct labels in natural order, as Python values, and each entry's index."""
    # Numbers and dates sort in NumPy; labels of mixed types need Python's comparison.
    if values.dtype != object:
        levels, codes = np.unique(values, return_inverse=True)
        return levels.tolist(), codes.astype(np.int64)
    entries = values.tolist()
    levels = sort_labels(set(entries))
    code_of = {level: code for code, level in enumerate(levels)}
    return levels, np.array([code_of[entry] for entry in entries], dtype=np.int64)


def _refuse_missing(raw: RawDecisions, values: np.ndarray, role: str, advice: str) -> None:
    expected = f"`{role}` must not be missing"
    refuse_rows(missing_entries(values), expected, "none", raw.describe_row, advice)


def _refuse_endless(raw: RawDecisions, values: np.ndarray, role: str) -> None:
    """Raise where a label is infinite, which is what a division by zero leaves."""
    endless = np.zeros(len(values), dtype=bool)
    if values.dtype.kind == "f":
        endless = np.isinf(values)
    elif values.dtype == object:
        endless[:] = [isinstance(v, float) and np.isinf(v) for v in values.tolist()]
    advice = "Drop these rows, or give them a label."
    expected = f"`{role}` must be a label and not infinite"
    refuse_rows(endless, expected, values, raw.describe_row, advice)


def _encode_actions(raw: RawDecisions, actions: Any):
    advice = "Drop these rows, or give doing nothing a label of its own."
    _refuse_missing(raw, raw.action, "action", advice)
    refuse_alike(raw.action, "`action`")
    _refuse_endless(raw, raw.action, "action")
    observed, codes = encode_labels(raw.action)
    _refuse_continuous(raw, observed)
    labels = tuple(observed) if actions is None else _listed_actions(actions)
    position = {label: index for index, label in enumerate(labels)}
    unknown = [label for label in observed if label not in position]
    if unknown:
        unused = [label for label in labels if label not in observed]
        hint = did_you_mean(unused[0], unknown) if unused else ""
        row = int(np.flatnonzero(codes == observed.index(unknown[0]))[0])
        raise DataError(
            f"`actions` lists {list(labels)}, but {raw.describe_row(row)} took "
            f"{unknown[0]!r} ({counted(len(unknown), 'label')} missing from the list)."
            f"{hint} Add what is missing to `actions`, or "
            "leave `actions` out to take every label that occurs."
        )
    if len(labels) < 2 and len(codes) > 1:
        raise DataError(
            f"Every row takes the same action, {observed[0]!r}. Rewards are "
            "inferred from choices, so at least two different actions must occur."
        )
    return labels, np.array([position[label] for label in observed])[codes]


def _listed_actions(actions: Any) -> tuple[Any, ...]:
    """The labels that the user listed, checked."""
    try:
        labels = None if isinstance(actions, str) else tuple(actions)
        distinct = labels is not None and len(set(labels))
    except TypeError:
        labels, distinct = None, 0
    if not labels or any(label is None or label != label for label in labels):
        raise DataError(
            f"`actions` must be a list of labels, but {actions!r} arrived. Write "
            'actions=["wait", "order"], or leave it out to take every label that occurs.'
        )
    if distinct != len(labels):
        raise DataError(f"`actions` must be distinct, but {list(labels)} repeats a label.")
    return labels


def _refuse_continuous(raw: RawDecisions, observed: list[Any]) -> None:
    """Raise where actions are quantities: nearly as many labels as rows."""
    # Every action needs rows of its own; three are fewer than any reward can rest on.
    if len(observed) > MANY_ACTIONS and 3 * len(observed) > len(raw.action):
        raise DataError(
            f"`action` must name one of a few choices, but there are "
            f"{counted(len(observed), 'different label')} in {len(raw.action):,} rows; "
            f"row 0 has {plain(raw.action[0])}. {_continuous_advice(observed)}"
        )


def _continuous_advice(observed: list[Any]) -> str:
    if not all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in observed):
        return "Group them first, such as quantities by ranges."
    return (
        "If they are amounts, say between which bounds: "
        f"actions=deeppqr.Box({float(observed[0])!r}, {float(observed[-1])!r})."
    )


def _encode_units(raw: RawDecisions) -> tuple[list[Any], np.ndarray]:
    if raw.unit is None:
        return [0], np.zeros(len(raw.action), dtype=np.int64)
    _refuse_missing(raw, raw.unit, "unit", "Every decision must say who took it.")
    refuse_alike(raw.unit, "`unit`")
    _refuse_endless(raw, raw.unit, "unit")
    return encode_labels(raw.unit)


def _order(raw: RawDecisions, unit: np.ndarray) -> np.ndarray:
    """The order that sorts the rows by unit and time."""
    if raw.time is None:
        return np.argsort(unit, kind="stable")
    _refuse_missing(raw, raw.time, "time", "Every decision must say when it was taken.")
    if raw.time.dtype.kind in "OUSc":
        kinds = (str, bytes, complex)
        text = [row for row, value in enumerate(raw.time) if isinstance(value, kinds)]
        if text:
            raise DataError(
                f"`time` must be a number or a date, but {raw.describe_row(text[0])} has "
                f"{plain(raw.time[text[0]])} ({counted(len(text), 'row')} in all). Text "
                "sorts by characters ('10' before '9'): convert the column to integers, or "
                "to dates with pandas.to_datetime(column) or polars' column.str.to_date()."
            )
        _refuse_times_that_do_not_compare(raw.time)
    if raw.time.dtype.kind == "f":
        endless = np.isinf(raw.time)
        refuse_rows(endless, "`time` must be finite", raw.time, raw.describe_row)
    # Ranks sort integers, dates and timestamps alike.
    _, rank = encode_labels(raw.time)
    order = np.lexsort((rank, unit))
    same = (np.diff(unit[order]) == 0) & (np.diff(rank[order]) == 0)
    if same.any():
        first = int(np.flatnonzero(same)[0])
        rows = sorted((int(order[first]), int(order[first + 1])))
        how = "Drop duplicates, or use a finer `time`."
        if raw.unit is None:
            how = "If several decide, name the column that tells who: `unit`. " + how
        raise DataError(
            f"Each unit may decide once per time, but rows {rows[0]} and {rows[1]} are "
            f"both {raw.describe_row(rows[0]).partition(' (')[2].rstrip(')')} "
            f"({counted(int(same.sum()), 'such pair')}). {how}"
        )
    return order


def _refuse_times_that_do_not_compare(time: np.ndarray) -> None:
    try:
        sorted(set(time.tolist()))
    except TypeError:
        kinds = sorted({type(value).__name__ for value in time.tolist()})
        held = " and ".join(kinds)
        # Python compares all dates of one type but for these.
        held += " with and without a time zone" if len(kinds) == 1 else ""
        raise DataError(
            f"`time` must be of one type, but holds {held}, which do not compare. Convert "
            "the column to integers or dates, such as with pandas.to_datetime(..., "
            "utc=True)."
        ) from None


def _follows(raw, unit, order, ended, gaps: str) -> np.ndarray:
    """Whether, in sorted order, the row after this one is the unit's next period."""
    # Rows are sorted by unit and time here, so the next row of the unit comes next.
    follows = np.append(np.diff(unit[order]) == 0, False) & ~ended
    if raw.time is None:
        return follows
    time = _whole_numbers(raw.time[order])
    if time is None:
        if gaps == "split":
            raise DataError(
                'gaps="split" needs a `time` of whole numbers, to tell which periods are '
                f"missing, but row 0 has {plain(raw.time[0])}. Number the periods "
                "first, such as the months since a starting date."
            )
        return follows
    # The shortest step is the period: years of a biennial survey are no gaps.
    step = np.append(np.diff(time), 0)  # the last row follows nothing
    period = step[follows].min() if follows.any() else 1
    gap = follows & (step != period)
    if gap.any() and gaps == "error":
        at = int(np.flatnonzero(gap)[0])
        raise DataError(
            f"Unit {raw.unit[order[at]] if raw.unit is not None else 0} jumps from time "
            f"{raw.time[order[at]]} (row {order[at]}) to {raw.time[order[at + 1]]} "
            f"(row {order[at + 1]}), where steps of {period:g} are the rule "
            f"({counted(int(gap.sum()), 'gap')} in all). The state in between was "
            "not seen, so there is no next state there. "
            f"{calendar_advice(raw.time)}Fill the rows in, or pass "
            'gaps="split" to end the sequence at each gap.'
        )
    return follows & ~gap


def _whole_numbers(time: np.ndarray) -> np.ndarray | None:
    """Times as whole numbers since the first, or None where they are dates or fractions."""
    if time.dtype == object:
        if not all(_is_whole(value) for value in time.tolist()):
            return None
        time = np.array([int(value) for value in time.tolist()], dtype=object)
    elif time.dtype.kind == "f":
        if not np.all(time == np.round(time)):
            return None
    elif time.dtype.kind not in "iu":
        return None
    # As integers since the first: float64 would lose the steps of nanoseconds.
    since = time.astype(object) - int(time.min())
    return since if since.max() >= 2**63 else since.astype(np.int64)


def _is_whole(value: Any) -> bool:
    return isinstance(value, (int, np.integer, Decimal)) and bool(value == int(value))


def _named_next_state(raw: RawDecisions, encoding: Encoding, ended: np.ndarray):
    assert raw.next_state is not None
    absent = np.stack([missing_entries(column) for column in raw.next_state.values()])
    partly = absent.any(axis=0) & ~absent.all(axis=0) & ~ended
    if partly.any():
        row = int(np.flatnonzero(partly)[0])
        name = list(raw.next_state)[int(np.flatnonzero(absent[:, row])[0])]
        raise DataError(
            f"The next state must be given whole or not at all, but "
            f"{raw.describe_row(row)} misses {name!r} and has the rest "
            f"({counted(int(partly.sum()), 'row')} in all). Fill it in, or empty the "
            "whole next state of these rows."
        )
    # After the end a recorded state, such as a reset's, is not the next state: whatever
    # stands there is not looked at.
    columns = {name: _emptied(values, ended) for name, values in raw.next_state.items()}
    next_state = encoding.encode(
        columns, describe_row=raw.describe_row, missing_allowed=absent.all(axis=0) | ended
    )
    next_state[ended | np.isnan(next_state).any(axis=1)] = np.nan
    return next_state


def _emptied(values: Column, rows: np.ndarray) -> Column:
    if values.dtype == np.bool_:
        return values
    values = values.copy()
    values[rows] = None if values.dtype == object else np.nan
    return values


def _flags(raw: RawDecisions, values: np.ndarray | None, role: str) -> np.ndarray:
    if values is None:
        return np.zeros(len(raw.action), dtype=bool)
    # True == 1 in Python, so this accepts booleans and 0/1 of any type, and no missing.
    wrong = np.array([value not in (0, 1) for value in values.tolist()], dtype=bool)
    expected = f"`{role}` must be true or false (or 1 or 0)"
    refuse_rows(wrong, expected, values, raw.describe_row)
    return values.astype(bool)


def _weights(raw: RawDecisions) -> np.ndarray:
    if raw.weight is None:
        return np.ones(len(raw.action))
    wrong = np.array([not _is_weight(value) for value in raw.weight.tolist()], dtype=bool)
    if raw.weight.dtype.kind in "mM":  # would become nanoseconds
        wrong[:] = True
    refuse_rows(wrong, "`weight` must hold numbers", raw.weight, raw.describe_row)
    weight = raw.weight.astype(np.float64)
    wrong = ~(np.isfinite(weight) & (weight >= 0))
    expected = "`weight` must be finite and not negative"
    refuse_rows(wrong, expected, weight, raw.describe_row)
    if not (weight > 0).any():
        raise DataError("`weight` is zero in every row; at least one must be positive.")
    # Scaled to mean one, so that ridge penalties and pseudo-rows count in rows whatever
    # the unit of the weights. First by the largest: a sum of huge ones would overflow.
    weight = weight / weight.max()
    return weight / weight.mean()


def _is_weight(value: Any) -> bool:
    """Whether a value can be a weight; a missing one is reported as not finite."""
    if value is None:
        return True
    try:
        float(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return isinstance(value, (int, float, Decimal, np.number, np.bool_, str))
