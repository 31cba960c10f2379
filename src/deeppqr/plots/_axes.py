"""What the caller of a plot gives: axes, actions, columns; checked with a message."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .._errors import DataError
from .._messages import did_you_mean
from ..diagnostics._data_summary import DataSummary
from ..panel._encoding import StateColumn
from ..panel._panel import action_index
from ._style import MAX_TOGETHER, NewAxes

if TYPE_CHECKING:
    from .._fit import Fit


def take_axes(
    ax: Any, number: int, new: NewAxes, *, size: tuple[float, float], **shared: Any
) -> list[Any]:
    """The caller's axes, or those of a new figure; `size` is of each panel, in inches."""
    if ax is None:
        columns = 2 if number in (2, 4) else min(number, 3)
        rows = -(-number // columns)
        made = new(rows, columns, (size[0] * columns, size[1] * rows), **shared)
        for unused in made.ravel()[number:]:
            unused.set_visible(False)
        return list(made.ravel()[:number])
    given = list(np.ravel(np.asarray(ax, dtype=object)))
    wrong = [each for each in given if not hasattr(each, "plot")]
    if wrong or len(given) < number:
        arrived = f"a {type(wrong[0]).__name__}" if wrong else f"{len(given)}"
        raise DataError(
            f"`ax` must be matplotlib Axes, {number} of them for this figure, but "
            f"{arrived} arrived. Leave it out for a figure of its own."
        )
    return given[:number]


def given_back(axes: Sequence[Any]) -> Any:
    """One Axes as itself, several as an array."""
    return axes[0] if len(axes) == 1 else np.array(axes, dtype=object)


def require_data(fit: "Fit") -> DataSummary:
    """What the fit keeps of its data."""
    if fit.data is None:
        raise DataError(
            "This fit keeps no summary of its data, which plots and reports need: it was "
            "put together by hand. Fits by `PQR.fit` have one."
        )
    return fit.data


def inside_box(fit: "Fit") -> bool:
    """Whether the anchor is an amount among others, which is never taken exactly."""
    if fit.space is None:
        return False
    point = np.reshape(np.asarray(fit.anchor, np.float64), (1, -1))
    return bool(fit.space.atom_of(point)[0] < 0)


def require_column(fit: "Fit", name: Any, role: str) -> tuple[StateColumn, slice]:
    """A state column and its place in the encoded states."""
    start = 0
    for column in fit.encoding.columns:
        stop = start + len(column.feature_names)
        if column.name == name:
            return column, slice(start, stop)
        start = stop
    names = fit.encoding.names
    raise DataError(
        f"`{role}` must be one of the state columns {names}, but it is {name!r}."
        f"{did_you_mean(str(name), names)}"
    )


def chosen_actions(fit: "Fit", actions: Any) -> list[int]:
    """The indices of the actions asked for; by default those chosen most, the anchor first.

    More than `MAX_TOGETHER` besides the anchor would not be told apart in one figure.
    """
    anchor = fit.estimate.anchor
    if actions is None:
        share = require_data(fit).share
        order = [int(each) for each in np.argsort(-share, kind="stable") if each != anchor]
        return [anchor, *sorted(order[:MAX_TOGETHER])]
    if isinstance(actions, (str, bytes)) or not hasattr(actions, "__iter__"):
        actions = [actions]
    found = [action_index(fit.actions, label, role="actions") for label in actions]
    if not found:
        raise DataError("`actions` must name one action at least, but it is empty.")
    return list(dict.fromkeys(found))


def left_out(fit: "Fit", shown: Sequence[int], actions: Any) -> str:
    """A remark on actions that are not in a figure, unless the caller chose them."""
    if actions is not None or len(shown) == len(fit.actions):
        return ""
    return f"the {len(shown)} most chosen of {len(fit.actions)} actions"
