"""Observed decisions of many units: the one input of every estimator."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from .._errors import DataError
from .._messages import counted, did_you_mean, plain
from .._shapes import Codes, Mask, PerRow, States
from ._columns import (
    as_array,
    categorical_columns,
    columns_of_array,
    open_frame,
    read_columns,
    read_labels,
    refuse_repeated,
)
from ._encoding import Encoding
from ._numeric_text import mostly_numbers
from ._roles import refuse_other_roles, refuse_own_next_states
from ._trajectories import aligned_rows, read_episodes, read_trajectories
from ._validation import RawDecisions, validate


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
    """Index into `actions`."""
    next_state: States
    """NaN where the next state was not seen (truncated) or does not exist (terminal)."""
    unit: Codes
    """Who decided, as an index into `unit_labels`. Units are kept whole when data are
    split, and errors are clustered on them."""
    terminal: Mask
    """The process ended with this decision: nothing of value follows."""
    weight: PerRow
    actions: tuple[Any, ...]
    encoding: Encoding
    unit_labels: Sequence[Any]

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        state: Sequence[str] | str,
        action: str,
        unit: str | None = None,
        time: str | None = None,
        next_state: Sequence[str] | str | None = None,
        terminal: str | None = None,
        truncated: str | None = None,
        weight: str | None = None,
        actions: Sequence[Any] | None = None,
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
            Column of what it did; labels of any type.
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
            those that occur, sorted.
        gaps
            What to do when integer times skip a period: `"error"`, or `"split"` to end
            the sequence there.
        """
        opened = open_frame(frame)
        names = [state] if isinstance(state, str) else list(state)
        refuse_repeated(names)
        next_names = [next_state] if isinstance(next_state, str) else next_state
        refuse_repeated(next_names or [])
        roles = {"action": action, "unit": unit, "time": time}
        roles |= {"terminal": terminal, "truncated": truncated, "weight": weight}
        refuse_other_roles(roles, state=names, next_state=next_names)
        if next_names is not None and len(next_names) != len(names):
            raise DataError(
                f"`next_state` must name one column for each of the {len(names)} state "
                f"columns {names}, but it names {len(next_names)}: {list(next_names)}."
            )
        columns: dict[str, Any] = {"state": read_columns(opened, names, role="state")}
        if next_names is not None:
            columns["next_state"] = read_columns(opened, next_names, role="next_state")
        for role, name in roles.items():
            columns[role] = None if name is None else read_labels(opened, name, role=role)
        raw = RawDecisions(**columns, categorical=categorical_columns(opened, names))
        # Only here: an array has no column names that could stand for two things.
        refuse_own_next_states(raw)
        return cls(**validate(raw, actions=actions, gaps=gaps))

    @classmethod
    def from_file(cls, path: str | Path, **columns: Any) -> "Panel":
        """A panel from a CSV or Parquet file; the keywords are those of `from_frame`."""
        return cls.from_frame(read_file(path), **columns)

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
        actions: Sequence[Any] | None = None,
        state_names: Sequence[str] | None = None,
    ) -> "Panel":
        """A panel from aligned arrays, one row per decision.

        A row of NaN in `next_state` says that the next state was not seen; `terminal`
        marks the rows after which there is none. Other arguments as in `from_frame`.
        """
        state = _two_dimensional(state, "state")
        next_state = _two_dimensional(next_state, "next_state")
        columns = {"state": state, "action": np.asarray(action), "next_state": next_state}
        for role, values in (("unit", unit), ("terminal", terminal), ("weight", weight)):
            columns[role] = None if values is None else np.asarray(values)
        for role, values in columns.items():
            if values is not None and len(values) != len(state):
                raise DataError(
                    f"`{role}` must have one entry per row of `state` ({len(state)}), "
                    f"but it has {len(values)}."
                )
        # The names that the paper and `PaperWorld` use.
        if state_names is None:
            state_names = [f"x{i + 1}" for i in range(state.shape[1])]
        refuse_repeated(state_names)
        # From here on arrays and frames are the same: named columns.
        columns["state"] = columns_of_array(state, state_names)
        columns["next_state"] = columns_of_array(next_state, state_names)
        return cls(**validate(RawDecisions(**columns), actions=actions))

    @classmethod
    def from_trajectories(
        cls,
        trajectories: Any,
        *,
        actions: Sequence[Any] | None = None,
        state_names: Sequence[str] | None = None,
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
        actions, state_names
            As in `from_frame` and `from_arrays`.
        """
        rows = aligned_rows(read_trajectories(trajectories), "trajectory")
        return cls.from_arrays(**rows, actions=actions, state_names=state_names)

    @classmethod
    def from_minari(
        cls,
        dataset: Any,
        *,
        actions: Sequence[Any] | None = None,
        state_names: Sequence[str] | None = None,
    ) -> "Panel":
        """A panel from a Minari dataset with discrete actions, one unit per episode.

        Box observations become one column per entry, Discrete ones a single column. An
        episode that terminated ends there; one that was truncated keeps its last next
        state. By default `actions` are the numbers that occur.
        """
        rows = aligned_rows(read_episodes(dataset), "episode")
        return cls.from_arrays(**rows, actions=actions, state_names=state_names)

    def __len__(self) -> int:
        return len(self.action)

    def __repr__(self) -> str:
        return (
            f"Panel({counted(len(self), 'decision')} by {counted(self.num_units, 'unit')}; "
            f"states {[str(column) for column in self.encoding.columns]}; "
            f"actions {list(self.actions)}; "
            f"{counted(int(self.has_next.sum()), 'next state')} seen, "
            f"{counted(int(self.terminal.sum()), 'terminal row')})"
        )

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

    def action_index(self, label: Any, *, role: str = "anchor") -> int:
        """The column of an action label."""
        return action_index(self.actions, label, role=role)

    def select(self, rows: Mask) -> "Panel":
        """The panel of these rows alone, with the same actions and encoding."""
        # Units are numbered again from zero, because folds and clusters count them.
        labels, unit = np.unique(self.unit[rows], return_inverse=True)
        return take_rows(self, rows, unit, [self.unit_labels[label] for label in labels])

    def to_frame(self):
        """A polars DataFrame with columns `unit`, `time`, the states and `action`.

        `time` counts a unit's rows from zero and skips a number where the next row is not
        the next state. `terminal` and `weight` are added where they say anything. A next
        state that is no row's state is not kept.
        """
        import polars as pl

        decoded = self.encoding.decode(self.state)
        columns = {
            "unit": [self.unit_labels[code] for code in self.unit],
            "time": self._clock(),
            **dict(zip(self.encoding.names, decoded.T.tolist(), strict=True)),
            "action": [self.actions[code] for code in self.action],
        }
        if self.terminal.any():
            columns["terminal"] = self.terminal
        if np.any(self.weight != 1):
            columns["weight"] = self.weight
        frame = pl.DataFrame(columns, strict=False)
        # Codes such as "1" would be refused as numbers in text when the frame is read
        # again, unless the column's type says that they are categories.
        return frame.cast(
            {
                column.name: pl.Enum(column.categories)
                for column in self.encoding.columns
                if mostly_numbers(column.categories)
                and all(isinstance(level, str) for level in column.categories)
            }
        )

    def _clock(self) -> Codes:
        # A gap of two where the next row is not the next state: `from_frame` with
        # gaps="split" then cuts the sequence at the same places.
        same_unit = np.diff(self.unit) == 0
        chained = (self.next_state[:-1] == self.state[1:]).all(axis=1)
        ticks = np.append(0, np.where(chained | self.terminal[:-1], 1, 2) * same_unit)
        first = np.flatnonzero(np.append(True, ~same_unit))
        total = np.cumsum(ticks)
        return total - np.repeat(total[first], np.diff(np.append(first, len(self))))


def action_index(actions: tuple[Any, ...], label: Any, *, role: str = "anchor") -> int:
    """The place of a label among the actions."""
    # By equality, so that 1, 1.0 and NumPy's 1 are the same label.
    for index, candidate in enumerate(actions):
        if candidate == label:
            return index
    raise DataError(
        f"`{role}` must be one of the actions {list(actions)}, but it is {plain(label)}."
        f"{did_you_mean(label, actions)}"
    )


def take_rows(panel: Panel, rows: np.ndarray, unit: np.ndarray, labels: list) -> Panel:
    """The panel of these rows, as decisions of other units."""
    by_row = ("state", "action", "next_state", "terminal", "weight")
    chosen = {name: getattr(panel, name)[rows] for name in by_row}
    return replace(panel, unit=unit.astype(np.int64), unit_labels=labels, **chosen)


def require_panel(panel: Any) -> None:
    """Refuse what is not a panel."""
    if not isinstance(panel, Panel):
        raise DataError(
            f"`fit` needs a Panel, but a {type(panel).__name__} arrived. Build one first: "
            "deeppqr.Panel.from_frame(frame, state=[...], action=..., unit=..., time=...)."
        )


def read_file(path: str | Path):
    """A polars DataFrame from a CSV or Parquet file, told apart by its ending."""
    import polars as pl

    path = Path(path)
    # Types from the whole file: polars looks at 100 rows by default, and a column may hold
    # whole numbers there and fractions later.
    read_csv = partial(pl.read_csv, infer_schema_length=None, try_parse_dates=True)
    readers = {".csv": read_csv, ".parquet": pl.read_parquet, ".pq": pl.read_parquet}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise DataError(
            f"{path} must be a .csv, .parquet or .pq file, but it ends in {path.suffix!r}."
        )
    if not path.is_file():
        folder = path.parent.resolve()
        where = "" if folder.is_dir() else ", and no such folder"
        raise DataError(f"There is no file {path.name} in {folder}{where}.")
    try:
        return reader(path)
    # The first line alone: polars adds paragraphs on its own options.
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as problem:
        reason = str(problem).splitlines()[0] if str(problem) else type(problem).__name__
        raise DataError(f"{path} could not be read: {reason}") from problem


def _two_dimensional(values: Any, role: str) -> np.ndarray:
    array = as_array(values)
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim != 2:
        raise DataError(
            f"`{role}` must have one row per decision and one column per state variable, "
            f"but its shape is {array.shape}."
        )
    return array
