"""The table of a sensitivity analysis: average rewards under other assumptions."""

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from .._errors import DataError
from ..report._grid import Grid, PrintedTable, figure

if TYPE_CHECKING:
    import polars as pl

BASE = "as fitted"
MOST_COLUMNS = 6  # actions of a printed table; the frame has all
WRAPPED = 96


@dataclass(frozen=True)
class SensitivityRow:
    """An action's average reward under one assumption."""

    kind: str
    """What differs: "anchor's reward", "anchors pooled", "discount", "temperature",
    "seed" or "units"; "as fitted" for the estimate itself."""
    value: str
    action: Any
    estimate: float
    standard_error: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Sensitivity(PrintedTable):
    """How average rewards move with what was assumed; print it."""

    rows: tuple[SensitivityRow, ...]
    actions: tuple[Any, ...]
    anchor: Any
    level: float
    states: np.ndarray
    """Those averaged over, as the user has them."""
    weight: Float[np.ndarray, " node"]
    curve: Float[np.ndarray, "node action"]
    """h(s, a): psi(g) = psi(0) + E[h(S, a) g(S)]."""
    notes: tuple[str, ...] = ()

    def of(self, kind: str, action: Any) -> list[SensitivityRow]:
        """The rows of one assumption and action, beginning with the one as fitted."""
        kinds = list(dict.fromkeys(row.kind for row in self.rows))
        if kind not in kinds or action not in self.actions:
            raise DataError(
                f"`kind` must be one of {kinds} and `action` one of {list(self.actions)}, "
                f"but they are {kind!r} and {action!r}."
            )
        return [
            row for row in self.rows if row.kind in (BASE, kind) and row.action == action
        ]

    def frame(self) -> "pl.DataFrame":
        """A polars DataFrame with a row for each assumption and action."""
        import polars as pl

        return pl.DataFrame([vars(row) | {"action": str(row.action)} for row in self.rows])

    def printed(self) -> Grid:
        """Its cells, as every format shows them."""
        shown = [action for action in self.actions if action != self.anchor][:MOST_COLUMNS]
        lines: dict[tuple[str, str], dict[Any, SensitivityRow]] = {}
        for row in self.rows:
            lines.setdefault((row.kind, row.value), {})[row.action] = row
        body = []
        for (kind, value), found in lines.items():
            name = f"{kind} {value}".strip()
            body.append((name, *(_cell(found[action]) for action in shown)))
        notes = [
            f"Average rewards over the panel's states, standard errors in brackets. The "
            f"anchor is {self.anchor!r}.",
            *self.notes,
        ]
        hidden = len(self.actions) - 1 - len(shown)
        if hidden > 0:
            notes.append(f"{hidden} more actions: see `frame()`.")
        wrapped = [line for note in notes for line in textwrap.wrap(note, WRAPPED)]
        head = ("", *map(str, shown))
        return Grid("Sensitivity of average rewards", head, tuple(body), tuple(wrapped))


def _cell(row: SensitivityRow) -> str:
    error = row.standard_error
    shown = f" ({figure(error, 3)})" if error == error and error > 0 else ""
    return figure(row.estimate, 3) + shown
