"""Draws how average rewards move with what was assumed."""

from typing import Any

import numpy as np

from ..counterfactual._sensitivity_table import BASE, Sensitivity
from ._axes import given_back, take_axes
from ._style import ANCHOR, MAX_TOGETHER, NewAxes, look, name_places, text_of

LONGEST = 26  # characters of all tick labels of a panel, beyond which they are turned


def plot_sensitivity(result: Sensitivity, actions: Any, ax: Any, new: NewAxes) -> Any:
    """A panel for each assumption: averages by its values, as fitted at the left."""
    estimated = [action for action in result.actions if action != result.anchor]
    shown = estimated[:MAX_TOGETHER] if actions is None else list(np.atleast_1d(actions))
    kinds = [k for k in dict.fromkeys(row.kind for row in result.rows) if k != BASE]
    axes = take_axes(ax, len(kinds) or 1, new, size=(4.2, 3.4), sharey=True)
    for axis, kind in zip(axes, kinds or [BASE], strict=True):
        rows = []
        for number, action in enumerate(shown):
            rows = result.of(kind, action)
            aside = 0.08 * (number - (len(shown) - 1) / 2)
            style = look(result.actions.index(action))
            _draw(axis, rows, np.arange(len(rows)) + aside, style, text_of(action))
        names = [text_of(row.value, 18) if row.kind != BASE else BASE for row in rows]
        name_places(axis, np.arange(len(rows)), names, LONGEST)
        axis.axvline(0.5, color="0.6", linewidth=0.8, linestyle=":")
        axis.axhline(0.0, color=ANCHOR["color"], linewidth=0.8)
        axis.set_title(text_of(kind))
        axis.grid(axis="y", linewidth=0.6)
        axis.set_axisbelow(True)
    axes[0].set_ylabel(f"average reward, {100 * result.level:g} % intervals")
    axes[-1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return given_back(axes)


def _draw(axis, rows: list[Any], at: np.ndarray, style: dict[str, Any], label: str) -> None:
    values = np.array([row.estimate for row in rows])
    low, high = (np.array([getattr(row, end) for row in rows]) for end in ("low", "high"))
    # Rows without an error, such as bounds, have no interval.
    error = np.nan_to_num(np.stack([values - low, high - values]), nan=0.0)
    axis.errorbar(
        at,
        values,
        np.maximum(error, 0.0),
        fmt=style["marker"],
        color=style["color"],
        markersize=5,
        elinewidth=1.0,
        capsize=2.5,
        label=label,
    )
