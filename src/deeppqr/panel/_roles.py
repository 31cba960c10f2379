"""Reads a DataFrame's columns by their roles; refuses columns that have two.

The state is what a unit saw before it decided. With the action among its columns every
choice is predicted perfectly, and the fit looks excellent and means nothing. The columns
of `unit` and `time` may be state columns: fixed effects and trends are legitimate.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from .._errors import DataError
from .._messages import plain
from ._amounts import action_columns, action_fields
from ._columns import (
    categorical_columns,
    column_names,
    open_frame,
    read_columns,
    read_labels,
    refuse_repeated,
    require_among,
    require_columns,
)
from ._validation import RawDecisions

WHY = {
    "action": (
        "A state holds what the unit saw before it decided. Leave the column out; for "
        "the decision before, add a column of its own, shifted by one row within each unit."
    ),
    "terminal": "It tells what came of the decision. Leave the column out of the state.",
    "truncated": "It tells where the record breaks off. Leave it out of the state.",
    "weight": (
        "It tells how often a row counts. Leave it out of the state, or, if units see it "
        "too, add a copy under another name."
    ),
}


def raw_of_frame(
    frame: Any,
    *,
    state: Any,
    action: Any,
    unit: Any = None,
    time: Any = None,
    next_state: Any = None,
    terminal: Any = None,
    truncated: Any = None,
    weight: Any = None,
    actions: Any = None,
    categorical: Any = (),
) -> RawDecisions:
    """The columns, not yet checked; arguments are those of `Panel.from_frame`, as they
    came: what is wrong in them is said below."""
    opened = open_frame(frame)
    names = column_names(state, role="state")
    refuse_repeated(names)
    next_names = None
    if next_state is not None:
        next_names = column_names(next_state, role="next_state")
    refuse_repeated(next_names or [])
    acts = action_columns(action, actions)
    roles = {"unit": unit, "time": time}
    roles |= {"terminal": terminal, "truncated": truncated, "weight": weight}
    for act in acts:
        told = {"action": act} | roles
        refuse_other_roles(told, state=names, next_state=next_names)
    if next_names is not None and len(next_names) != len(names):
        raise DataError(
            f"`next_state` must name one column for each of the {len(names)} state "
            f"columns {names}, but it names {len(next_names)}: {list(next_names)}."
        )
    coded = require_among(categorical, names)
    columns: dict[str, Any] = {
        "state": read_columns(opened, names, role="state", categorical=coded)
    }
    if next_names is not None:
        pairs = zip(names, next_names, strict=True)
        later = [after for name, after in pairs if name in coded]
        columns["next_state"] = read_columns(
            opened, next_names, role="next_state", categorical=later
        )
    require_columns(opened, acts, role="action")
    found = [read_labels(opened, name, role="action") for name in acts]
    columns |= action_fields(found, actions, acts)
    for role, name in roles.items():
        columns[role] = None if name is None else read_labels(opened, name, role=role)
    coded |= categorical_columns(opened, names)
    raw = RawDecisions(**columns, categorical=coded)
    # Only here: an array has no column names that could stand for two things.
    refuse_own_next_states(raw)
    return raw


def refuse_other_roles(roles: Mapping[str, Any], **columns: Sequence[str] | None) -> None:
    """Raise if a column of the state, or of the next state, has another role too.

    Nor may one column be two of action, unit, time, terminal, truncated and weight.
    """
    of_column: dict[Any, str] = {}
    for role, name in roles.items():
        # What is no text is refused with the columns.
        first = of_column.setdefault(name, role) if isinstance(name, str) else role
        if first != role:
            raise DataError(
                f"`{first}` and `{role}` must name different columns, but both name "
                f"{name!r}. Name a column of its own for each, or leave `{role}` out."
            )
    for part, names in columns.items():
        for role, why in WHY.items():
            if roles[role] is not None and roles[role] in (names or ()):
                raise DataError(
                    f"`{part}` must not name the column of `{role}`, but {roles[role]!r} "
                    f"is both. {why}"
                )


def refuse_own_next_states(raw: RawDecisions) -> None:
    """Raise if a state column is also named as a next state and changes within a unit.

    A column that never changes, such as a unit's town, may be its own next value.
    """
    names, following = list(raw.state), list(raw.next_state or ())
    shared = [name for name in following if name in names]
    for name in shared:
        place = names[following.index(name)]
        if place != name:
            found = f"{name!r} stands for the next {place!r} and is a state itself"
        elif len(shared) == len(names):
            found = f"each of {shared} is its own next state, so that nothing ever moves"
        elif row := _first_change(raw, name):
            found = (
                f"{name!r} is its own next state although it changes within a unit: "
                f"{raw.describe_row(row)} has {plain(raw.state[name][row])} after "
                "another value"
            )
        else:
            continue
        raise DataError(
            "`next_state` must name columns of what was seen one period later, but "
            f"{found}. Name the columns of the next state, or leave `next_state` out: "
            "a unit's next row is then its next state."
        )


def _first_change(raw: RawDecisions, name: str) -> int | None:
    """The first row whose value is not its unit's first; None where units are unknown."""
    # Without units nothing says which rows could be compared.
    if raw.unit is None:
        return None
    first = {}
    pairs = zip(raw.unit.tolist(), raw.state[name].tolist(), strict=True)
    for row, (unit, value) in enumerate(pairs):
        if first.setdefault(unit, value) != value:
            return row
    return None
