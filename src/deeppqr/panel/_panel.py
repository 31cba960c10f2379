"""Observed decisions of many units: the one input of every estimator."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._errors import DataError
from .._messages import counted, did_you_mean, plain
from .._shapes import Codes, Mask, PerRow, States
from ..actions._space import ActionSpace, Amounts
from ._amounts import action_fields, binned, is_space, require_dimensions
from ._columns import (
    as_array,
    column_names,
    columns_of_array,
    label_array,
    refuse_repeated,
    require_among,
)
from ._encoding import MAX_LEVELS, Encoding
from ._file import read_file
from ._roles import raw_of_frame
from ._trajectories import (
    Trajectory,
    aligned_rows,
    read_episodes,
    read_trajectories,
    space_of,
)
from ._validation import RawDecisions, validate

if TYPE_CHECKING:
    from .scan._scan import ScannedPanel


@dataclass(frozen=True, eq=False, repr=False)
class Panel:
    """Observed decisions of many units, one row per decision.

    Rows are aligned: seeing `state[i]`, unit `unit[i]` took `action[i]` and one period
    later saw `next_state[i]`, which is never another unit's first row. Build one with
    `from_frame`, `from_file`, `from_arrays`, `from_trajectories` or `from_minari`; all
    pass the same checks.
    """

    state: States
    """Encoded states: numbers as they are, categories as indicator columns."""
    action: Codes
    """Index into `actions`; of amounts, that of the nearest there."""
    next_state: States
    """NaN where the next state was not seen (truncated) or does not exist (terminal)."""
    unit: Codes
    """Who decided, as an index into `unit_labels`. Units are kept whole when data are
    split, and errors are clustered on them."""
    terminal: Mask
    """The process ended with this decision: nothing of value follows."""
    weight: PerRow
    actions: tuple[Any, ...]
    """Labels; where actions are amounts, a grid of them that tables speak of."""
    encoding: Encoding
    unit_labels: Sequence[Any]
    space: ActionSpace | None = None
    """The Box or Mixed space of the amounts; None for finitely many actions."""
    amount: Amounts | None = None
    """The actions themselves where they are amounts, a column for each dimension."""

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        state: Sequence[str] | str,
        action: Sequence[str] | str,
        unit: str | None = None,
        time: str | None = None,
        next_state: Sequence[str] | str | None = None,
        terminal: str | None = None,
        truncated: str | None = None,
        weight: str | None = None,
        actions: Sequence[Any] | ActionSpace | None = None,
        categorical: Sequence[str] | str = (),
        gaps: str = "error",
    ) -> "Panel":
        """A panel from a DataFrame: pandas, polars, pyarrow or any that narwhals reads.

        Parameters
        ----------
        frame
            One row per decision, in any order.
        state
            Columns that describe what the unit saw: numeric, boolean or categorical
            (text counts as categorical). Text that is mostly numbers is refused, unless
            the column's type is categorical.
        action
            Column of what it did: labels of any type, or an amount; of amounts in several
            dimensions a list of columns.
        unit, time
            Who decided and when. Without `unit` all rows belong to one unit; without
            `time` a unit's rows are taken to be in order.
        next_state
            Columns of the state that followed, one for each column of `state`; one that
            never changes within a unit may be named as its own next value. Without them
            it is the unit's next row, and its last row has none.
        terminal
            Column that is true where the process ended with the decision, so that
            nothing of value follows. An unmarked last row is merely *truncated*: its
            next state exists and was not seen, and it is never valued at zero.
        truncated
            Column that is true where the observed sequence breaks off although the unit
            has later rows, as between episodes. A next state given by name is kept.
        weight
            Column of sampling weights; they count in every step, and only their ratios
            matter: they are divided by their mean.
        actions
            All labels in the order wanted for the columns of the reward; by default
            those that occur, sorted. Where actions are amounts, their space: a
            `deeppqr.Box`, or `deeppqr.Mixed` if some values are taken again and again.
        categorical
            State columns whose values are codes and no quantities, whatever their type.
        gaps
            What to do when integer times skip a period: `"error"`, or `"split"` to end
            the sequence there. Where dates skip one there is a warning.
        """
        raw = raw_of_frame(
            frame,
            state=state,
            action=action,
            unit=unit,
            time=time,
            next_state=next_state,
            terminal=terminal,
            truncated=truncated,
            weight=weight,
            actions=actions,
            categorical=categorical,
        )
        return cls(**validate(raw, actions=actions, gaps=gaps))

    @classmethod
    def from_file(cls, path: str | Path, **columns: Any) -> "Panel":
        """A panel from a CSV or Parquet file; the keywords are those of `from_frame`."""
        coded = _names(columns.get("categorical"))
        labels = [columns.get("unit"), *coded]
        if not is_space(columns.get("actions")):
            labels.append(columns.get("action"))
        quantities = [name for name in _names(columns.get("state")) if name not in coded]
        frame = read_file(path, labels=labels, quantities=quantities)
        return cls.from_frame(frame, **columns)

    @classmethod
    def scan(
        cls,
        source: Any,
        *,
        state: Sequence[str] | str,
        action: str,
        unit: str | None = None,
        **columns: Any,
    ) -> "ScannedPanel":
        """Decisions that stay on disk: Parquet files, together larger than memory.

        `PQR.fit` takes it in place of a panel. The rows of evenly spaced units are held in
        memory; the last step of the estimate is a sum over all rows, read in parts.

        Parameters
        ----------
        source
            A file, a pattern such as `"decisions/*.parquet"`, a folder of Parquet files,
            or a list of files. A unit's rows may lie in several files.
        state, action, unit, columns
            As in `from_frame`; `unit` is needed, since parts are made of whole units. All
            checks of `from_frame` are made here, on every part and across them.
        """
        from .scan._scan import scan

        named = {"state": state, "action": action, "unit": unit, **columns}
        return scan(source, named)

    @classmethod
    def from_arrays(
        cls,
        state: Any,
        action: Any,
        next_state: Any,
        *,
        unit: Any = None,
        terminal: Any = None,
        weight: Any = None,
        actions: Sequence[Any] | ActionSpace | None = None,
        state_names: Sequence[str] | None = None,
        categorical: Sequence[str] | str = (),
    ) -> "Panel":
        """A panel from aligned arrays, one row per decision.

        A row of NaN in `next_state` says that the next state was not seen; `terminal`
        marks the rows after which there is none. Other arguments as in `from_frame`.
        """
        state = _two_dimensional(state, "state")
        next_state = _two_dimensional(next_state, "next_state")
        columns = {"state": state, "next_state": next_state}
        if is_space(actions):
            columns["action"] = _two_dimensional(action, "action", "dimension")
            require_dimensions(columns["action"].shape[1], actions)
        else:
            columns["action"] = label_array(action, "action")
        for role, values in (("unit", unit), ("terminal", terminal), ("weight", weight)):
            columns[role] = None if values is None else label_array(values, role)
        for role, values in columns.items():
            if values is not None and len(values) != len(state):
                raise DataError(
                    f"`{role}` must have one entry per row of `state` ({len(state)}), "
                    f"but it has {len(values)}."
                )
        # The names that the paper and `PaperWorld` use.
        if state_names is None:
            state_names = [f"x{i + 1}" for i in range(state.shape[1])]
        state_names = column_names(state_names, role="state_names")
        refuse_repeated(state_names)
        # From here on arrays and frames are the same: named columns.
        coded = require_among(categorical, state_names)
        for role in ("state", "next_state"):
            array = columns[role]
            columns[role] = columns_of_array(array, state_names, categorical=coded)
        if is_space(actions):
            columns |= action_fields(list(columns["action"].T), actions, None)
        raw = RawDecisions(**columns, categorical=coded)
        return cls(**validate(raw, actions=actions))

    @classmethod
    def from_trajectories(
        cls,
        trajectories: Any,
        *,
        actions: Sequence[Any] | ActionSpace | None = None,
        state_names: Sequence[str] | None = None,
        categorical: Sequence[str] | str = (),
    ) -> "Panel":
        """A panel from a list of trajectories, each of them one unit.

        A trajectory has T actions and T + 1 states, or T states where the last next state
        was not seen. If it is *terminal* nothing of value follows its last decision; if
        not it was merely cut short there, and its next state is kept.

        Parameters
        ----------
        trajectories
            Objects with `obs`, `acts` and `terminal`, such as imitation's; tuples
            (states, actions) or (states, actions, terminal); or dicts with these keys.
        actions, state_names, categorical
            As in `from_frame` and `from_arrays`. Recorded observations that are single
            integers, as those of a Discrete space, are categories.
        """
        paths = read_trajectories(trajectories, wide=is_space(actions))
        return panel_of_paths(paths, "trajectory", actions, state_names, categorical)

    @classmethod
    def from_minari(
        cls,
        dataset: Any,
        *,
        actions: Sequence[Any] | ActionSpace | None = None,
        state_names: Sequence[str] | None = None,
    ) -> "Panel":
        """A panel from a Minari dataset, one unit per episode.

        Box observations become one column per entry, Discrete ones a category. An
        episode that terminated ends there; one that was truncated keeps its last next
        state. By default `actions` are the numbers that occur; of an action space that is
        a Box, or a Dict of them, the same box. Pass `deeppqr.Mixed` where it has atoms.
        """
        if actions is None:
            actions = space_of(getattr(dataset, "action_space", None))
        paths = read_episodes(dataset, wide=is_space(actions))
        return panel_of_paths(paths, "episode", actions, state_names)

    def __len__(self) -> int:
        return len(self.action)

    def __repr__(self) -> str:
        return (
            f"Panel({counted(len(self), 'decision')} by {counted(self.num_units, 'unit')}; "
            f"states {[str(column) for column in self.encoding.columns]}; "
            f"actions {list(self.actions) if self.space is None else self.space}; "
            f"{counted(int(self.has_next.sum()), 'next state')} seen, "
            f"{counted(int(self.terminal.sum()), 'terminal row')})"
        )

    def _repr_html_(self) -> str:
        from ..page._panel_notebook import panel_html

        return panel_html(self)

    @property
    def num_actions(self) -> int:
        return len(self.actions)

    @property
    def num_units(self) -> int:
        return len(self.unit_labels)

    @cached_property
    def has_next(self) -> Mask:
        """Rows whose next state was seen."""
        # The first column suffices: validation makes a next state whole or all NaN.
        return ~np.isnan(self.next_state[:, 0])

    @property
    def is_transition(self) -> Mask:
        """Rows that say what a decision led to: a next state, or the end."""
        return self.has_next | self.terminal

    @property
    def effective_units(self) -> float:
        """Kish's effective number of units: few heavy units count as few."""
        # (sum w)^2 / sum w^2 over units: equal units count in full, one heavy unit as one.
        total = np.bincount(self.unit, weights=self.weight)
        return float(total.sum() ** 2 / (total**2).sum())

    @cached_property
    def digest(self) -> str:
        """A checksum of the decisions, the same in any order of rows and units."""
        action = self.action if self.amount is None else self.amount
        columns = [self.state, self.next_state, action, self.terminal, self.weight]
        # + 0.0: -0.0 and 0.0 are equal numbers and different bytes, and so are NaNs.
        rows = np.nan_to_num(np.column_stack(columns).astype(np.float64), nan=0.1) + 0.0
        whole = rows.view(np.dtype((np.void, rows.strides[0])))
        ordered = np.sort(whole, axis=0).tobytes()
        return hashlib.blake2b(ordered, digest_size=8).hexdigest()

    def action_index(self, label: Any, *, role: str = "anchor") -> int:
        """The column of an action label."""
        return action_index(self.actions, label, role=role)

    def binned(self, number: int) -> "Panel":
        """This panel with amounts in one dimension grouped into bins of equal length.

        The actions are then finitely many: the atoms, and the middles of those bins in
        which anything was done. What fits finitely many actions fits this panel.
        """
        return binned(self, number)

    def select(self, rows: Mask) -> "Panel":
        """The panel of these rows alone, with the same actions and encoding."""
        # Units are numbered again from zero, because folds and clusters count them.
        labels, unit = np.unique(self.unit[rows], return_inverse=True)
        return take_rows(self, rows, unit, [self.unit_labels[label] for label in labels])

    def to_frame(self):
        """A polars DataFrame with columns `unit`, `time`, the states and `action`.

        `time` counts a unit's rows from zero and skips a number where the next row is not
        the next state. `terminal`, `truncated` (at such breaks) and `weight` are added
        where they say anything; amounts in several dimensions are `action1`, `action2` and
        so on. A next state that is no row's state is not kept. Where a
        state column has one of these names, the panel's own is called `panel_unit`,
        `panel_time` and so on.
        """
        from ._to_frame import to_frame

        return to_frame(self)


def _names(given: Any) -> list[Any]:
    """Column names as far as they are any; `from_frame` refuses what is not."""
    return [given] if isinstance(given, str) else list(given) if _is_list(given) else []


def _is_list(given: Any) -> bool:
    return isinstance(given, (list, tuple, set, frozenset))


def panel_of_paths(
    paths: Iterable[Trajectory],
    noun: str,
    actions: Sequence[Any] | ActionSpace | None = None,
    state_names: Sequence[str] | None = None,
    categorical: Sequence[str] | str = (),
) -> Panel:
    """The panel of checked trajectories; `noun` is their name in messages."""
    rows, discrete = aligned_rows(paths, noun)
    # One state is a constant, which no category can be; more than categories may have
    # levels are left to estimators that work on tables.
    if discrete and 2 <= len(np.unique(rows["state"])) <= MAX_LEVELS:
        categorical = state_names or ["x1"]
    return Panel.from_arrays(
        **rows, actions=actions, state_names=state_names, categorical=categorical
    )


def action_index(actions: tuple[Any, ...], label: Any, *, role: str = "anchor") -> int:
    """The place of a label among the actions."""
    # By equality, so that 1, 1.0 and NumPy's 1 are the same label.
    for index, candidate in enumerate(actions):
        if _same(candidate, label):
            return index
    raise DataError(
        f"`{role}` must be one of the actions {list(actions)}, but it is {plain(label)}."
        f"{did_you_mean(label, actions)}"
    )


def _same(label: Any, other: Any) -> bool:
    try:
        return bool(label == other)
    except (TypeError, ValueError):  # pandas' NA and arrays have no truth value
        return False


def take_rows(panel: Panel, rows: np.ndarray, unit: np.ndarray, labels: list) -> Panel:
    """The panel of these rows, as decisions of other units."""
    by_row = ("state", "action", "next_state", "terminal", "weight")
    chosen = {name: getattr(panel, name)[rows] for name in by_row}
    if panel.amount is not None:
        chosen["amount"] = panel.amount[rows]
    return replace(panel, unit=unit.astype(np.int64), unit_labels=labels, **chosen)


def require_panel(panel: Any, *, amounts: bool = False) -> None:
    """Refuse what is not a panel, and one of amounts where finitely many are needed."""
    if not isinstance(panel, Panel):
        raise DataError(
            f"`fit` needs a Panel, but a {type(panel).__name__} arrived. Build one first: "
            "deeppqr.Panel.from_frame(frame, state=[...], action=..., unit=..., time=...)."
        )
    if panel.space is not None and not amounts:
        raise DataError(
            "This needs finitely many actions, but the panel's are amounts, "
            f"{panel.space}. Group them: panel.binned(11). `PQR.fit` takes amounts as "
            "they are."
        )


def _two_dimensional(values: Any, role: str, column: str = "state variable") -> np.ndarray:
    array = as_array(values)
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim != 2:
        raise DataError(
            f"`{role}` must have one row per decision and one column per {column}, "
            "but " + ("None arrived." if values is None else f"its shape is {array.shape}.")
        )
    return array
