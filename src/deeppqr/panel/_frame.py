"""Reads the columns of a DataFrame by the roles they have in a panel."""

from collections.abc import Sequence
from typing import Any

from .._errors import DataError
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
from ._roles import refuse_other_roles, refuse_own_next_states
from ._validation import RawDecisions


def raw_of_frame(
    frame: Any,
    *,
    state: Sequence[str] | str,
    action: Sequence[str] | str,
    unit: str | None = None,
    time: str | None = None,
    next_state: Sequence[str] | str | None = None,
    terminal: str | None = None,
    truncated: str | None = None,
    weight: str | None = None,
    actions: Any = None,
    categorical: Sequence[str] | str = (),
) -> RawDecisions:
    """The columns, not yet checked; arguments are those of `Panel.from_frame`."""
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
        told = roles | {"action": act}
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
