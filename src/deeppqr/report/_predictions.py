"""A table of what a fit says of new states; rows that cannot be predicted may be empty."""

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from scipy.special import ndtri

from .._errors import BadRows, DataError
from .._shapes import States

if TYPE_CHECKING:
    from .._fit import Fit

INSIDE = "inside_data"
LEAVE_EMPTY = (
    'To leave such rows empty instead: fit.predict(states, bad_rows="empty"), or '
    "`deeppqr predict ... --bad-rows empty`."
)


def predict(
    fit: "Fit", states: Any, bad_rows: str, level: float | None = None
) -> pl.DataFrame:
    """The table of `Fit.predict`; without a level there are no errors in it."""
    if bad_rows not in ("error", "empty"):
        raise DataError(f'`bad_rows` must be "error" or "empty", but it is {bad_rows!r}.')
    columns = fit.encoding.read(states)
    num_rows = len(next(iter(columns.values())))
    used = np.arange(num_rows)
    while True:
        try:
            state = fit.encoding.encode({name: c[used] for name, c in columns.items()})
            frame = pl.DataFrame(_predicted(fit, state, level))
            break
        except BadRows as problem:
            # A mask of other rows, such as the next states', says nothing of these.
            if bad_rows == "error" or len(problem.rows) != len(used):
                raise BadRows(f"{problem} {LEAVE_EMPTY}", problem.rows) from None
            used = used[~problem.rows]
    place = np.full(num_rows, -1)
    place[used] = np.arange(len(used))
    rows = pl.Series(place).replace(-1, None)
    return frame.select(pl.all().gather(rows))


def _predicted(fit: "Fit", state: States, level: float | None) -> dict[str, np.ndarray]:
    found = fit.estimate(state)
    tables = {"reward": fit._reward_of(state)}
    if level is not None and not (fit.provenance.get("no_errors") or fit.space is not None):
        error = fit._errors().standard_errors(state, fit.estimate, len(fit.actions))
        margin = ndtri((1 + level) / 2) * error
        tables |= {
            "reward_se": error,
            "reward_low": tables["reward"] - margin,
            "reward_high": tables["reward"] + margin,
        }
    tables |= {"q": found.q, "prob": np.exp(fit.estimate.policy.log_prob(state))}
    columns = {
        f"{name}_{label}": table[:, index]
        for name, table in tables.items()
        for index, label in enumerate(fit.actions)
        if not (name.startswith("reward_") and index == fit.estimate.anchor)
    }
    return columns | {"value": found.value, INSIDE: fit.seen.inside(state)}
