"""Bootstrap draws as a table: estimate, standard error and interval of each entry."""

from typing import TYPE_CHECKING

import numpy as np

from ._estimates import MISSING, decimals, ruled

if TYPE_CHECKING:
    from ..inference._bootstrap import Bootstrap

HEADINGS = ("estimate", "s.e.", "95% low", "95% high")
MAX_ROWS = 40  # of a printed table: a screen; the rest is counted below it


def summarise_draws(found: "Bootstrap") -> str:
    """The printable table of a bootstrap; intervals are quantiles of its draws."""
    values = found.estimate.ravel()
    # With one draw there is no spread: the table then has estimates alone.
    enough = len(found.draws) > 1
    unknown = np.full(values.shape, np.nan)
    errors, low, high = unknown, unknown, unknown
    if enough:
        errors = found.standard_errors.ravel()
        low, high = found.interval(0.95).reshape(2, -1)
    names = entry_names(found)
    lines: list[tuple[str, ...]] = [("", *HEADINGS)]
    for row in range(min(values.size, MAX_ROWS)):
        digits = decimals(float(errors[row]), float(values[row]))
        figures = (values[row], errors[row], low[row], high[row])
        cells = (f"{figure:.{digits}f}" for figure in figures)
        lines.append((names[row], *(MISSING if cell == "nan" else cell for cell in cells)))
    notes = [f"Units drawn with replacement: {found.note}."]
    if enough:
        notes.append("Intervals are quantiles of the draws.")
    if values.size > MAX_ROWS:
        notes.append(
            f"{values.size - MAX_ROWS:,} more entries: see `standard_errors`, `interval`."
        )
    return ruled("Bootstrap over units", lines, notes=notes)


def entry_names(found: "Bootstrap") -> list[str]:
    """What each entry of the statistic is called: its own name, or its place."""
    if found.names:
        return list(found.names)
    if not found.estimate.shape:
        return ["statistic"]
    places = np.ndindex(found.estimate.shape)
    return [f"[{', '.join(map(str, place))}]" for place in places]
