"""The answer to a counterfactual: figures before and after, with their errors."""

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from .._errors import DataError
from .._shapes import PerAction, PerRow
from ..report._estimates import Estimates
from ..report._grid import Grid, PrintedTable, figure
from ._support import Support

if TYPE_CHECKING:
    import polars as pl

HEADINGS = ("before", "after", "change", "s.e.", "low", "high")


@dataclass(frozen=True)
class Figure:
    """One figure before and after."""

    horizon: str
    """ "now", the first periods, or "long run"."""
    quantity: str
    """ "probability", "reward" and "transfer" per decision, "value", or "decisions"; of
    amounts also "mean amount"."""
    action: Any
    """Whose probability it is, or the dimension of the amount where there are several; None
    for the others."""
    before: float
    after: float
    change: float
    standard_error: float
    """Of the change."""
    low: float
    high: float
    standard_error_before: float
    standard_error_after: float
    depends_on_anchor: bool
    """Whether another reward of the anchor would change the change."""
    anchor_low: float = float("nan")
    anchor_high: float = float("nan")
    """The change's range over the anchor's rewards in `anchor_bounds`."""

    @property
    def name(self) -> str:
        label = "" if self.action is None else f" of {self.action!r}"
        return f"{self.horizon}: {self.quantity}{label}"


@dataclass(frozen=True, eq=False)
class AtStates:
    """A solved problem at the states that were asked about."""

    actions: tuple[Any, ...]
    probability: PerAction
    """Where actions are amounts, of the atoms, and `actions` are these."""
    reward: Float[np.ndarray, "row reward"]
    """With transfers; where actions are amounts its mean over them, one column."""
    value: PerRow
    amount: Float[np.ndarray, "row action_dimension"] | None = None
    """The mean amount; None for finitely many actions."""


@dataclass(frozen=True, eq=False)
class Counterfactual(PrintedTable):
    """What a change does; print it. Changes have intervals, and say what they rest on."""

    title: str
    figures: tuple[Figure, ...]
    covariance: Float[np.ndarray, "figure figure"]
    """Of the changes, in the order of `figures`."""
    level: float
    states: np.ndarray
    """Those asked about, as the user has them."""
    before: AtStates
    after: AtStates
    support: Support
    identification: str
    """Whether the anchor's normalisation can move the answer."""
    notes: tuple[str, ...] = field(default=())

    @property
    def changes(self) -> Float[np.ndarray, " figure"]:
        """After less before, in the order of `figures`."""
        return np.array([each.change for each in self.figures])

    def __getitem__(self, key: Any) -> Figure:
        """By horizon and quantity, and the action for a probability."""
        wanted = key if isinstance(key, tuple) else (key,)
        for each in self.figures:
            name = (each.horizon, each.quantity)
            full = name if each.action is None else (*name, each.action)
            if wanted == full:
                return each
        raise DataError(
            f"There is no figure {wanted!r}; there are "
            f"{', '.join(repr(each.name) for each in self.figures)}. Ask as in "
            "answer['now', 'value'] or answer['now', 'probability', action]."
        )

    def frame(self) -> "pl.DataFrame":
        """A polars DataFrame with a row for each figure."""
        import polars as pl

        rows = [vars(each) | {"action": _text(each.action)} for each in self.figures]
        return pl.DataFrame(rows)

    def at_states(self) -> "pl.DataFrame":
        """A row for each state asked about: probabilities, mean amounts and values, before
        and after."""
        import polars as pl

        names = self.states.shape[1]
        found: dict[str, Any] = {f"state_{at}": self.states[:, at] for at in range(names)}
        for when, part in (("before", self.before), ("after", self.after)):
            for code, action in enumerate(part.actions):
                found[f"probability_{action}_{when}"] = part.probability[:, code]
            if part.amount is not None:
                several = part.amount.shape[1] > 1
                for place, column in enumerate(part.amount.T):
                    name = f"amount_{place}" if several else "amount"
                    found[f"{name}_{when}"] = column
            found[f"value_{when}"] = part.value
        return pl.DataFrame(found, strict=False)

    def estimates(self) -> Estimates:
        """The changes as a table of estimates, with z and p."""
        names = tuple(each.name for each in self.figures)
        told = {"states": f"{len(self.states):,}"}
        return Estimates(
            self.title, names, self.changes, self.covariance, told, self.identification
        )

    def printed(self) -> Grid:
        """Its cells, as every format shows them."""
        bounded = any(np.isfinite(each.anchor_low) for each in self.figures)
        head = ("", *HEADINGS, *(("g low", "g high") if bounded else ()))
        notes = [*self._said()]
        wrapped = [
            line
            for note in notes
            for line in textwrap.wrap(note, 96, subsequent_indent="  ")
        ]
        body = tuple(_cells(each, bounded) for each in self.figures)
        return Grid(self.title, head, body, tuple(wrapped))

    def _said(self) -> Iterator[str]:
        ends = f"{100 * self.level:g} % intervals of the change"
        if np.isfinite(self.covariance).any():
            yield f"low, high: {ends}. * depends on the reward assumed for the anchor."
        else:
            yield "* depends on the reward assumed for the anchor."
        yield self.identification
        yield f"{self.support.mark}: {self.support}."
        yield from self.notes


def _cells(each: Figure, bounded: bool) -> tuple[str, ...]:
    digits = 4 if each.quantity == "probability" else 3
    figures = [
        each.before,
        each.after,
        each.change,
        each.standard_error,
        each.low,
        each.high,
    ]
    if bounded:
        figures += [each.anchor_low, each.anchor_high]
    star = " *" if each.depends_on_anchor else ""
    return (each.name + star, *(figure(value, digits) for value in figures))


def _text(action: Any) -> str | None:
    return None if action is None else str(action)
