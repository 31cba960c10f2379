"""A panel as a DataFrame that `Panel.from_frame` reads again."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from .._shapes import Codes, Mask
from ._numeric_text import mostly_numbers

if TYPE_CHECKING:
    from ._panel import Panel


def to_frame(panel: "Panel") -> pl.DataFrame:
    """Columns `unit`, `time`, the states and the action; see `Panel.to_frame`."""
    decoded = panel.encoding.decode(panel.state)
    names = panel.encoding.names
    breaks = _breaks(panel)
    own = {
        "unit": [panel.unit_labels[code] for code in panel.unit],
        "time": _clock(panel, breaks),
        **_action(panel),
    }
    if panel.terminal.any():
        own["terminal"] = panel.terminal
    if breaks.any():
        own["truncated"] = breaks
    if np.any(panel.weight != 1):
        own["weight"] = panel.weight
    own = {_free_name(name, names): values for name, values in own.items()}
    first = dict(list(own.items())[:2])
    states = zip(names, map(list, decoded.T), strict=True)
    columns = {**first, **dict(states), **own}
    frame = pl.DataFrame(columns, strict=False)
    # Codes such as "1" would be refused as numbers in text when the frame is read
    # again, unless the column's type says that they are categories.
    return frame.cast(
        {
            column.name: pl.Enum(column.categories)
            for column in panel.encoding.columns
            if mostly_numbers(column.categories)
            and all(isinstance(level, str) for level in column.categories)
        }
    )


def _action(panel: "Panel") -> dict[str, Any]:
    if panel.amount is None:
        return {"action": [panel.actions[code] for code in panel.action]}
    if panel.amount.shape[1] == 1:
        return {"action": panel.amount[:, 0]}
    return {f"action{i + 1}": column for i, column in enumerate(panel.amount.T)}


def _breaks(panel: "Panel") -> Mask:
    """Rows whose unit goes on with a row that is not their next state."""
    chained = (panel.next_state[:-1] == panel.state[1:]).all(axis=1)
    same_unit = np.diff(panel.unit) == 0
    return np.append(same_unit & ~chained & ~panel.terminal[:-1], False)


def _clock(panel: "Panel", breaks: Mask) -> Codes:
    # A gap of two where the next row is not the next state: `from_frame` with
    # gaps="split" then cuts the sequence at the same places.
    same_unit = np.diff(panel.unit) == 0
    ticks = np.append(0, np.where(breaks[:-1], 2, 1) * same_unit)
    first = np.flatnonzero(np.append(True, ~same_unit))
    total = np.cumsum(ticks)
    return total - np.repeat(total[first], np.diff(np.append(first, len(panel))))


def _free_name(name: str, taken: Sequence[str]) -> str:
    while name in taken:
        name = f"panel_{name}"
    return name
