"""Actions that are amounts: read, checked against their space, and its grid.

A panel of amounts keeps them as they are. Beside them it has the nearest action of a small
grid, by which warnings, tables and figures speak of actions.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, TypeGuard

import numpy as np

from .._errors import DataError
from .._messages import counted, plain
from .._shapes import Codes
from ..actions._space import ActionSpace, Amounts, Box, Mixed
from ._encoding import missing_entries, refuse_rows

# Actions of the grid per dimension of the box, by dimensions; beyond two its middle and
# the middles of its faces.
GRID = {1: 11, 2: 5}
# A value in as large a share of the rows is no amount among others. Prices that end in .99
# or doses in steps of ten per cent reach it too, and are as little a continuum.
HIDDEN_SHARE = 0.05
# Fewer rows at an atom say nothing of its probability, whatever their share.
FEWEST_AT_ATOM = 10

DescribeRow = Callable[[int], str]


def is_space(actions: Any) -> TypeGuard[ActionSpace]:
    return isinstance(actions, (Box, Mixed))


def grid_of(space: ActionSpace) -> tuple[Any, ...]:
    """The atoms, and evenly spaced actions of the box, as the user would write them."""
    box, dimensions = space.box, space.dimensions
    if dimensions in GRID:
        sides = np.linspace(box.lower, box.upper, GRID[dimensions]).T
        inside = np.array(list(product(*sides)))
    else:
        inside = np.repeat((box.lower + box.upper)[None] / 2, 2 * dimensions + 1, axis=0)
        for place in range(dimensions):
            inside[1 + 2 * place, place] = box.lower[place]
            inside[2 + 2 * place, place] = box.upper[place]
    # An atom at the edge of the box, such as zero, stands there once.
    inside = inside[space.atom_of(inside) < 0]
    return tuple(map(as_label, np.concatenate([space.points, inside])))


def as_label(action: np.ndarray) -> Any:
    """An action as the user writes it: a number, or a tuple of several."""
    return float(action[0]) if len(action) == 1 else tuple(action.tolist())


def nearest_of_grid(space: ActionSpace, amounts: Amounts) -> Codes:
    """The place in the grid of each action: its atom, or the nearest of the box's."""
    grid = np.array(grid_of(space)).reshape(-1, space.dimensions)
    found = space.atom_of(amounts)
    first = len(space.points)
    rest = np.flatnonzero(found < 0)
    inside = space.centred(grid[first:])
    # In blocks: rows by grid by dimensions would be large for many rows.
    for part in np.array_split(rest, -(-len(rest) // 100_000) or 1):
        far = space.centred(amounts[part])[:, None] - inside
        found[part] = first + (far**2).sum(axis=2).argmin(axis=1)
    return found


def binned(panel: Any, number: int) -> Any:
    """The panel with its amounts grouped; see `Panel.binned`."""
    space, amount = panel.space, panel.amount
    if space is None or space.dimensions != 1:
        kind = "finitely many actions" if space is None else f"actions in {space!r}"
        raise DataError(
            f"Bins are made of amounts in one dimension, but the panel has {kind}. Build "
            "it with actions=deeppqr.Box(low, high)."
        )
    if not isinstance(number, (int, np.integer)) or number < 2:
        raise DataError(f"`number` of bins must be 2 or more, but it is {plain(number)}.")
    low, high = space.box.lower[0], space.box.upper[0]
    step = (high - low) / number
    inside = np.clip(((amount[:, 0] - low) / step).astype(np.int64), 0, number - 1)
    atom = space.atom_of(amount)
    code = np.where(atom >= 0, atom, len(space.points) + inside)
    middle = low + (np.arange(number) + 0.5) * step
    labels = np.concatenate([space.points[:, 0], middle]).tolist()
    used, action = np.unique(code, return_inverse=True)
    # A middle that equals an atom would be two actions of one label.
    names = [labels[place] for place in used]
    if len(set(names)) < len(names):
        raise DataError(
            f"With {number} bins the middle of one is an atom of {space!r}, and two "
            f"actions would have one label. Use {number + 1} bins."
        )
    return replace(panel, action=action, actions=tuple(names), space=None, amount=None)


def check_amounts(
    columns: np.ndarray, names: Sequence[str], space: ActionSpace, describe_row: DescribeRow
) -> Amounts:
    """The actions as numbers in their space; `columns` has one for each dimension."""
    found = np.empty(columns.shape)
    for place, (name, values) in enumerate(zip(names, columns.T, strict=True)):
        found[:, place] = _numbers(name, values, space, describe_row)
    outside = ~space.contains(found)
    refuse_rows(
        outside,
        f"`action` must lie in {space!r}",
        _shown(found[outside.argmax()]),
        describe_row,
        f"The actions go from {_shown(found.min(axis=0))} to {_shown(found.max(axis=0))}: "
        "widen the box, or drop these rows.",
    )
    _refuse_constant(found, names, space)
    _refuse_rare_atoms(found, space)
    _refuse_hidden_atoms(found, space)
    # Rounding that `contains` forgives would leave the box by a hair.
    at_atom = space.atom_of(found)
    inside = np.clip(found, space.box.lower, space.box.upper)
    if len(space.points):
        inside[at_atom >= 0] = space.points[at_atom[at_atom >= 0]]
    return inside


def _shown(values: np.ndarray) -> str:
    return plain(as_label(values))


def _numbers(name: str, values: np.ndarray, space: ActionSpace, describe_row: DescribeRow):
    missing = missing_entries(values)
    advice = "Drop these rows, or write down what doing nothing is, such as 0.0."
    refuse_rows(missing, f"{name} must not be missing", "none", describe_row, advice)
    entries = values.tolist()
    flags = values.dtype == np.bool_
    wrong = np.array(
        [flags or isinstance(v, bool) or not _is_number(v) for v in entries], dtype=bool
    )
    if wrong.any():
        kind = "a Box" if isinstance(space, Box) else "Mixed"
        refuse_rows(
            wrong,
            f"{name} must hold numbers, as `actions` is {kind}",
            values,
            describe_row,
            "If it stands for doing nothing, write a number there, such as 0.0, and pass "
            "actions=deeppqr.Mixed(atoms=[0.0], box=...).",
        )
    numbers = np.array([float(v) for v in entries])
    refuse_rows(~np.isfinite(numbers), f"{name} must be finite", values, describe_row)
    return numbers


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return not isinstance(value, (str, bytes))


def _refuse_constant(found: Amounts, names: Sequence[str], space: ActionSpace) -> None:
    inside = found[space.atom_of(found) < 0]
    if len(found) > 1 and (found == found[0]).all():
        raise DataError(
            f"Every row takes the same action, {_shown(found[0])}. Rewards are inferred "
            "from choices, so actions must vary."
        )
    if len(space.points) and not len(inside):
        raise DataError(
            f"Every row takes an atom of {space!r}, and none an amount in the box. If "
            "there are no amounts, leave out `actions`: finitely many actions need none."
        )
    for name, column in zip(names, inside.T, strict=True):
        if len(inside) > 1 and (column == column[0]).all():
            raise DataError(
                f"{name} must vary, but it is {plain(column[0])} in all "
                f"{counted(len(inside), 'row')}"
                f"{' that take no atom' if len(inside) < len(found) else ''}. A dimension "
                "in which nothing is chosen is no action: leave it out."
            )


def _refuse_rare_atoms(found: Amounts, space: ActionSpace) -> None:
    atom = space.atom_of(found)
    count = np.bincount(atom[atom >= 0], minlength=len(space.points))
    for point, rows in zip(space.points, count.tolist(), strict=True):
        if rows < min(FEWEST_AT_ATOM, max(1, len(found) // 20)):
            raise DataError(
                f"An atom must be taken often, but {_shown(point)} is the action of "
                f"{counted(rows, 'row')} among {len(found):,}. Its probability cannot be "
                "learned from so few: leave it out of `atoms`"
                + (
                    ", as amounts may be equal to it by chance."
                    if space.box.contains(point[None])[0]
                    else ", and drop these rows or widen the box."
                )
            )


def _refuse_hidden_atoms(found: Amounts, space: ActionSpace) -> None:
    inside = np.flatnonzero(space.atom_of(found) < 0)
    values, count = np.unique(found[inside], axis=0, return_counts=True)
    often = np.flatnonzero(count >= max(FEWEST_AT_ATOM, HIDDEN_SHARE * len(found)))
    if not len(often):
        return
    first = often[count[often].argmax()]
    if count[often].sum() > 0.9 * len(inside):
        raise DataError(
            f"`actions` is {space!r}, but nearly all rows take one of "
            f"{counted(len(often), 'value')}, most often {_shown(values[first])}. These "
            "are finitely many actions: leave out `actions`."
        )
    points = [*map(as_label, space.points), *map(as_label, values[often])]
    raise DataError(
        f"A density has no room for a value that is taken again and again, but "
        f"{_shown(values[first])} is the action of {counted(int(count[first]), 'row')} "
        f"among {len(found):,}, {count[first] / len(found):.1%} "
        f"({counted(len(often), 'such value')} in all). If it is a choice of its own, use "
        f"actions=deeppqr.Mixed(atoms={points}, box={space.box!r})."
    )


def action_columns(action: Any, actions: Any) -> list[Any]:
    """Names of the columns of the action: one, or one for each dimension of a space."""
    if not isinstance(action, (list, tuple)):
        names = [action]
    else:
        names = list(action)
    if is_space(actions):
        require_dimensions(len(names), actions)
        repeated = [name for name in names if names.count(name) > 1]
        if repeated:
            raise DataError(
                f"`action` must name different columns, but {repeated[0]!r} stands twice "
                f"in {names}."
            )
    elif len(names) == 1:
        return [action]  # a list is refused where columns are looked up
    else:
        raise DataError(
            "`action` must name one column of labels, but "
            f"{plain(action)} arrived. If actions are amounts in "
            "several dimensions, say between which bounds: actions=deeppqr.Box([...], "
            "[...])."
        )
    return names


def require_dimensions(number: int, space: ActionSpace) -> None:
    if number != space.dimensions:
        raise DataError(
            "`action` must have a column for each dimension of its space, "
            f"{space.dimensions} of {space!r}, but it has {number}."
        )


def action_fields(found: list[np.ndarray], actions: Any, names: Any) -> dict[str, Any]:
    """The action among the fields of `RawDecisions`."""
    if not is_space(actions):
        return {"action": found[0]}
    if names is not None:
        called = [f"Action column {name!r}" for name in names]
    elif len(found) == 1:
        called = ["`action`"]
    else:
        called = [f"Column {place} of `action`" for place in range(len(found))]
    # Columns of different types, such as text among numbers, keep each entry's own.
    same = len({column.dtype for column in found}) == 1
    parts = found if same else [column.astype(object) for column in found]
    return {"action": np.stack(parts, axis=1), "action_names": tuple(called)}
