"""One column, one role: what was decided, or came of it, is no part of the state.

A state holds what a unit saw before it decided. With the action among its columns every
choice is foreseen and the fit looks excellent. Two roles do go together with it: the unit,
whose indicator is a fixed effect, and a time that counts.
"""

from collections.abc import Mapping, Sequence

from .._errors import DataError
from .._messages import plain
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


def refuse_other_roles(
    roles: Mapping[str, str | None], **columns: Sequence[str] | None
) -> None:
    """Refuse columns of the state, or of the next one, that have another role."""
    for part, names in columns.items():
        for role, column in roles.items():
            if column is not None and column in (names or ()):
                raise DataError(
                    f"`{part}` must not name the column of `{role}`, but {column!r} is "
                    f"both. {WHY[role]}"
                )


def refuse_own_next_states(raw: RawDecisions) -> None:
    """Refuse a state column given as a next state, unless it never changes.

    A unit's town may be its own next value. A column that moves may not: its next values
    are in the unit's next row.
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
    if raw.unit is None:
        return None
    first = {}
    pairs = zip(raw.unit.tolist(), raw.state[name].tolist(), strict=True)
    for row, (unit, value) in enumerate(pairs):
        if first.setdefault(unit, value) != value:
            return row
    return None
