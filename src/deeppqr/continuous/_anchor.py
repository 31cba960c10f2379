"""The anchor among amounts, the grid of tables, and actions as users give them."""

from typing import Any

import numpy as np

from .._errors import AnchorNeverTaken, DataError
from .._messages import counted, plain
from .._shapes import Mask
from ..actions._space import ActionSpace, Amounts
from ..panel._amounts import FEWEST_AT_ATOM, as_label, grid_of
from ..panel._panel import Panel
from ._shapes import DEGREE

# What counts as near the anchor, in each dimension: the box's length divided by the largest
# degree of the reward in the action. A polynomial of that degree has as many turns, and
# what is said of the anchor rests on decisions no farther than one of them.
BEYOND = 2


def reach(space: ActionSpace) -> float:
    """How far a decision may lie from the anchor to say something of it, as a share of the
    box's length."""
    return 1.0 / DEGREE.get(space.dimensions, BEYOND)


def find_anchor(panel: Panel, anchor: Any) -> np.ndarray:
    """The anchor as a point, refusing one that the decisions say nothing of."""
    space = panel.space
    assert space is not None
    point = as_points(anchor, space, role="anchor")
    if len(point) != 1:
        raise DataError(f"`anchor` must be one action of {space!r}, but it is {anchor!r}.")
    near = near_anchor(panel, point[0])
    told = near & (panel.weight > 0)
    if space.atom_of(point)[0] >= 0:
        if told.sum() < min(FEWEST_AT_ATOM, len(panel)):
            raise AnchorNeverTaken(
                f"The anchor {as_label(point[0])} is the action of "
                f"{counted(int(told.sum()), 'row')} with weight among {len(panel):,}. The "
                "level of the reward is identified from such rows, and takes "
                f"{min(FEWEST_AT_ATOM, len(panel))} of them: choose an anchor that is "
                "taken more often, or add decisions."
            )
    elif not told.any():
        assert panel.amount is not None
        inside = panel.amount[space.atom_of(panel.amount) < 0]
        far = np.abs(space.centred(inside) - space.centred(point)).max(axis=1)
        nearest = as_label(inside[far.argmin()])
        raise AnchorNeverTaken(
            f"No decision lies near the anchor {as_label(point[0])}: the nearest of "
            f"{len(inside):,} is {nearest}, and near is within {_shown(space)}. Log "
            "density and next states would be read there from decisions elsewhere: choose "
            "an anchor that is taken, or nearly."
        )
    if not (told & panel.is_transition).any():
        raise AnchorNeverTaken(
            f"Decisions near the anchor {as_label(point[0])} occur, but in none of them is "
            "the next state known. PQR must see where the anchor leads: add the rows that "
            "follow, or name the next state's columns."
        )
    return point[0]


def near_anchor(panel: Panel, point: np.ndarray) -> Mask:
    """Decisions that say something of the anchor: its atom's, or those within reach."""
    space, amount = panel.space, panel.amount
    assert space is not None
    assert amount is not None
    atom, own = space.atom_of(amount), space.atom_of(point[None])[0]
    if own >= 0:
        return atom == own
    far = np.abs(space.centred(amount) - space.centred(point[None])).max(axis=1)
    # Centred, the box goes from -1 to 1 and is two long.
    return (atom < 0) & (far <= 2 * reach(space))


def _shown(space: ActionSpace) -> str:
    length = reach(space) * (space.box.upper - space.box.lower)
    return ", ".join(f"{each:.3g}" for each in length)


def grid_with(space: ActionSpace, anchor: np.ndarray) -> tuple[np.ndarray, int]:
    """The grid of a space with the anchor among it, and the anchor's place."""
    grid = np.array(grid_of(space)).reshape(-1, space.dimensions)
    same = np.flatnonzero(
        np.abs(space.centred(grid) - space.centred(anchor[None])).max(axis=1) < 1e-9
    )
    own = space.atom_of(anchor[None])[0]
    if own >= 0:
        return grid, int(own)
    same = same[same >= len(space.points)]
    if len(same):
        grid[same[0]] = anchor
        return grid, int(same[0])
    place = len(space.points)
    if space.dimensions == 1:
        place += int((grid[place:, 0] < anchor[0]).sum())
    return np.insert(grid, place, anchor, axis=0), place


def as_points(given: Any, space: ActionSpace, *, role: str = "actions") -> Amounts:
    """Actions as users give them, a row each, checked to be of the space."""
    try:
        raw = np.asarray(given)
        numbers = raw.astype(np.float64) if raw.dtype.kind in "iufO" else None
    except (TypeError, ValueError):
        numbers = None
    expected = (
        f"`{role}` must be {'an action' if role == 'anchor' else 'actions'} of {space!r}"
    )
    if numbers is None or not np.isfinite(numbers).all():
        raise DataError(f"{expected}, but {plain(given)} arrived.")
    dimensions = space.dimensions
    if numbers.ndim == 0 or (numbers.ndim == 1 and dimensions > 1):
        numbers = numbers.reshape(1, -1)
    elif numbers.ndim == 1:
        numbers = numbers[:, None]
    if numbers.ndim != 2 or numbers.shape[1] != dimensions:
        raise DataError(
            f"{expected}, with {counted(dimensions, 'number')} each, but an array of shape "
            f"{np.shape(given)} arrived."
        )
    outside = ~space.contains(numbers)
    if outside.any():
        row = int(outside.argmax())
        where = "" if role == "anchor" else f"row {row} has "
        more = f" ({counted(int(outside.sum()), 'row')} in all)" if role != "anchor" else ""
        raise DataError(
            f"{expected}, but {where}{as_label(numbers[row])}{'' if where else ' arrived'}"
            f"{more}. What was not possible in the data has no reward."
        )
    return numbers


def actions_at(given: Any, space: ActionSpace, number: int) -> Amounts:
    """An action for each of so many states; one alone is that of all."""
    found = as_points(given, space)
    if len(found) == 1:
        return np.repeat(found, number, axis=0)
    if len(found) != number:
        raise DataError(
            "`actions` must have one action for each state, or one for all, but there are "
            f"{len(found):,} for {counted(number, 'state')}."
        )
    return found
