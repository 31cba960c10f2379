"""Transition laws of the structural estimators: counted, known, or Rust's increments."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from .._errors import DataError
from .._shapes import TableValues
from ..anchor._known import resolve_table
from ..panel._cells import Cells
from ..panel._panel import Panel
from ._baseline import NOTHING


class FirstStep(NamedTuple):
    """How each observed transition moves an estimate through the estimated law.

    Items are moves, or kinds of them that occurred `count` times.
    """

    pull: Float[np.ndarray, "item parameter"]
    """Its effect on the choices' score: the score's slope in the law, along the item."""
    share: Float[np.ndarray, "item share"]
    """Its effect on the law's own parameters."""
    count: Float[np.ndarray, " item"]
    unit: Int[np.ndarray, " item"]


@dataclass(frozen=True, eq=False)
class AbstractLawFit(ABC):
    """An estimated law of the next state."""

    transition: np.ndarray
    """Shape (state, action, next_state)."""
    log_likelihood: float
    """Of the observed moves."""
    given: str

    @abstractmethod
    def first_step(
        self, value: TableValues, slope: Float[np.ndarray, "state action parameter"]
    ) -> FirstStep:
        """The moves' effects, given V and the score's slope in E[V(s') | s, a]."""


class AbstractLaw(ABC):
    """A way to estimate where actions lead; it also says which states there are."""

    @abstractmethod
    def fit(self, panel: Panel) -> tuple[Cells, AbstractLawFit]: ...


@dataclass(frozen=True)
class CountedLaw(AbstractLaw):
    """The shares of next states counted for every state and action of the panel."""

    def fit(self, panel):
        rows = panel.is_transition
        cells = Cells.of(np.concatenate([panel.state, panel.next_state[panel.has_next]]))
        here, there = cells.locate(panel.state[rows]), cells.locate(panel.next_state[rows])
        action, weight = panel.action[rows], panel.weight[rows]
        # The last column counts ends, whose next state is none of the cells: number -1.
        count = np.zeros((len(cells), panel.num_actions, len(cells) + 1))
        np.add.at(count, (here, action, there), weight)
        total = count.sum(axis=2)
        if (total == 0).any():
            state, index = np.argwhere(total == 0)[0]
            raise DataError(
                "Counting needs every action taken in every state at least once, but "
                f"{panel.actions[index]!r} never was in the state "
                f"{np.array2string(cells.states[state])} ({int((total == 0).sum())} of "
                f"{total.size} pairs in all). Use coarser states, a law with few "
                "parameters such as MileageIncrements(), or KnownLaw."
            )
        # No smoothing: these are the maximum-likelihood shares that the errors assume.
        share = count / total[:, :, None]
        seen = share[here, action, there]
        log_likelihood = float(np.sum(weight * np.log(seen)))
        moves = (here, action, there, weight / total[here, action], panel.unit[rows])
        return cells, CountedFit(share[:, :, :-1], log_likelihood, NOTHING, *moves)


@dataclass(frozen=True, eq=False)
class CountedFit(AbstractLawFit):
    """Counted shares and the moves they were counted from."""

    state: Int[np.ndarray, " item"]
    action: Int[np.ndarray, " item"]
    next_state: Int[np.ndarray, " item"]
    weight: Float[np.ndarray, " item"]
    """Within the item's state and action; these sum to one."""
    unit: Int[np.ndarray, " item"]

    def first_step(self, value, slope):
        mean = (self.transition @ value)[self.state, self.action]
        ahead = np.append(value, 0.0)[self.next_state]  # zero after an end, number -1
        innovation = self.weight * (ahead - mean)
        pull = innovation[:, None] * slope[self.state, self.action]
        return FirstStep(pull, pull[:, :0], np.ones(len(pull)), self.unit)


@dataclass(frozen=True, eq=False)
class KnownLaw(AbstractLaw):
    """A law given by the user: `transition[s, a, t]` between `states`, in their order.

    Where it sums to less than one over t the process ends with the rest, as in `PQR`.
    """

    states: Any
    transition: np.ndarray

    def fit(self, panel):
        known = resolve_table(self.states, self.transition, panel)
        return known.cells, KnownFit(known.probability, 0.0, "the transitions")


@dataclass(frozen=True, eq=False)
class KnownFit(AbstractLawFit):
    """A law without error."""

    def first_step(self, value, slope):
        none = np.zeros(0, dtype=np.int64)
        return FirstStep(slope[:0, 0], np.zeros((0, 0)), np.zeros(0), none)


@dataclass(frozen=True, eq=False)
class MileageIncrements(AbstractLaw):
    r"""Rust's law: the mileage rises by 0, 1, 2, ... bins, in every state alike.

    $$P(x + j \mid x, \text{keep}) = p_j, \qquad
    P(x' \mid x, \text{replace}) = P(x' \mid 0, \text{keep}).$$

    The last bin absorbs what would go beyond it. Moves that start so high that they could
    have been cut are not counted.

    Parameters
    ----------
    bins, first
        The states are the `bins` whole numbers from `first`.
    after_replacement
        `"increment"`: a new engine is driven for the rest of the month, as Rust has it;
        `"first"`: it is seen at the first bin.
    counts
        Increments counted elsewhere, one row per unit in the panel's order, such as
        `deeppqr.datasets.bus_increments()`, which keeps Rust's conventions. By default
        those of the panel.

    References
    ----------
    [rust1987], section 5.
    """

    bins: int = 90
    first: int = 0
    keep: Any = "keep"
    replace: Any = "replace"
    after_replacement: str = "increment"
    counts: Any = None

    def __post_init__(self):
        if self.after_replacement not in ("increment", "first"):
            raise DataError(
                '`after_replacement` must be "increment" or "first", but it is '
                f"{self.after_replacement!r}."
            )
        if self.bins < 2:
            raise DataError(f"`bins` must be at least 2, but it is {self.bins}.")

    def fit(self, panel):
        if panel.terminal.any():
            raise DataError(
                "Under MileageIncrements the process goes on forever, but "
                f"{int(panel.terminal.sum())} rows are terminal. Use CountedLaw(), or "
                "KnownLaw with probabilities that leave the rest to the end."
            )
        if len(panel.encoding.columns) != 1 or panel.num_actions != 2:
            raise DataError(
                "MileageIncrements needs one state column, the mileage, and two actions, "
                f"but the panel has the columns {list(map(str, panel.encoding.columns))} "
                f"and the actions {list(panel.actions)}."
            )
        states = np.arange(self.first, self.first + self.bins, dtype=np.float64)
        cells = Cells(states[:, None])
        cells.require(panel.state)
        keep = panel.action_index(self.keep, role="keep")
        replaced = panel.action_index(self.replace, role="replace")
        counts = self._count(panel, keep) if self.counts is None else self._given(panel)
        rises = np.flatnonzero(counts.sum(axis=0))  # others have the share zero
        counts = counts[:, rises]
        moves = _moves(self.bins, rises, keep, replaced)
        if self.after_replacement == "first":
            moves[:, :, replaced] = 0.0
            moves[:, :, replaced, 0] = 1.0
        total = counts.sum(axis=0)
        shares = total / total.sum()
        blank = MileageFit(moves[0], 0.0, NOTHING, rises, moves, shares, counts)
        return cells, blank.at(shares)

    def _count(self, panel: Panel, keep: int) -> Float[np.ndarray, "unit increment"]:
        rows = panel.has_next
        kept = panel.action[rows] == keep
        here = np.where(kept, panel.state[rows, 0], self.first)
        rise = (panel.next_state[rows, 0] - here).astype(np.int64)
        counted = np.ones(len(rise), dtype=bool)
        if self.after_replacement == "first":
            counted = kept
            elsewhere = int((panel.next_state[rows, 0][~kept] != self.first).sum())
            if elsewhere:
                raise DataError(
                    f'With after_replacement="first" a replaced engine must be seen at '
                    f"{self.first}, but in {elsewhere} rows it is not. Use "
                    'after_replacement="increment".'
                )
        if (rise[counted] < 0).any():
            raise DataError(
                f"Mileage must not fall unless an engine is replaced, but it does in "
                f"{int((rise[counted] < 0).sum())} rows. Is `keep` {self.keep!r}?"
            )
        last = self.first + self.bins - 1
        most = int(rise[counted].max(initial=0))
        # A move cut at the last bin would be counted as too small an increment.
        counted &= here + most <= last
        counts = np.zeros((panel.num_units, most + 1))
        at = panel.unit[rows][counted], rise[counted]
        np.add.at(counts, at, panel.weight[rows][counted])
        return counts

    def _given(self, panel: Panel) -> Float[np.ndarray, "unit increment"]:
        # By unit, because clustered errors need each unit's own increments.
        counts = np.asarray(self.counts, dtype=np.float64)
        if counts.ndim != 2 or len(counts) != panel.num_units or (counts < 0).any():
            raise DataError(
                "`counts` must have a row of counts, none negative, for each of the "
                f"{panel.num_units} units of the panel, but its shape is {counts.shape}."
            )
        return counts


@dataclass(frozen=True, eq=False)
class MileageFit(AbstractLawFit):
    """Shares of increments; the transition is their mixture of moves."""

    rises: Int[np.ndarray, " increment"]
    """The increments that occur, in bins."""
    moves: np.ndarray
    """Shape (increment, state, action, next_state): where each increment leads."""
    shares: Float[np.ndarray, " increment"]
    counts: Float[np.ndarray, "unit increment"]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"share +{rise}" for rise in self.rises)

    @property
    def total(self) -> float:
        return float(self.counts.sum())

    def at(self, shares: Float[np.ndarray, " increment"]) -> "MileageFit":
        """This law with other shares."""
        seen = self.counts.sum(axis=0)
        return replace(
            self,
            transition=np.tensordot(shares, self.moves, axes=1),
            log_likelihood=float(np.sum(seen * np.log(shares))),
            shares=shares,
        )

    def first_step(self, value, slope):
        gain = np.einsum("jsa,sap->jp", self.moves @ value, slope)
        pull = (gain - self.shares @ gain) / self.total
        share = (np.eye(len(self.shares)) - self.shares) / self.total
        units, kinds = self.counts.shape
        return FirstStep(
            np.tile(pull, (units, 1)),
            np.tile(share, (units, 1)),
            self.counts.ravel(),
            np.repeat(np.arange(units), kinds),
        )


def _moves(bins: int, rises: np.ndarray, keep: int, replaced: int) -> np.ndarray:
    """Where an increment leads from every bin, and from the first if replaced."""
    moves = np.zeros((len(rises), bins, 2, bins))
    for number, rise in enumerate(rises):
        reached = np.minimum(np.arange(bins) + rise, bins - 1)
        moves[number, np.arange(bins), keep, reached] = 1.0
        moves[number, :, replaced, reached[0]] = 1.0
    return moves
