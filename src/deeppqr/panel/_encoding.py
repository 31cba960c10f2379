"""Encodes state columns as a numeric matrix, categories as indicator columns."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from .._errors import BadRows, DataError
from .._messages import counted, did_you_mean, plain
from .._shapes import States
from .._stored import stored
from ._numeric_text import refuse_numeric_text

Kind = Literal["numeric", "boolean", "categorical"]
Column = np.ndarray
"""One column as read: float64, bool or object; a missing entry is NaN or None."""

# Each level is a coefficient in every regression and an input of every network. A column
# with more is nearly always an identifier or a number that was read as text.
MAX_LEVELS = 1_000

# Regressions square the states, and float64 ends at 1.8e308.
LARGEST = 1e150


@stored
@dataclass(frozen=True)
class StateColumn:
    """One state column: its name, kind and, if categorical, its levels in order."""

    name: str
    kind: Kind
    categories: tuple[Any, ...] = ()

    def __str__(self) -> str:
        if self.kind == "categorical":
            return f"{self.name} ({counted(len(self.categories), 'level')})"
        return str(self.name)

    @property
    def feature_names(self) -> list[str]:
        # The first category is the reference: K levels take K - 1 indicator columns,
        # so that the encoded states never contain the constant.
        if self.kind == "categorical":
            return [f"{self.name}={level}" for level in self.categories[1:]]
        return [self.name]


@stored
@dataclass(frozen=True)
class Encoding:
    """How the user's state columns become the numeric matrix every kernel works on.

    Learned when the panel is built and stored with the fit, so that states given for
    prediction are encoded in the same way.
    """

    columns: tuple[StateColumn, ...]

    @classmethod
    def learn(
        cls,
        columns: Mapping[str, Column],
        *,
        categorical: Collection[str] = (),
        following: Mapping[str, Column] | None = None,
        describe_row: Callable[[int], str] = "row {}".format,
    ) -> "Encoding":
        """The encoding that fits these columns: kinds by type, categories sorted.

        `categorical` names the columns that are categories whatever they look like: text
        that looks like numbers is accepted there, as codes. Where all levels are numbers,
        those of the next states, `following`, count too: an episode may end in a state
        that no decision is taken in. In text such a level is more likely a typing error.
        """
        learned = []
        later = iter((following or {}).values())
        for name, values in columns.items():
            after = next(later, values[:0])
            if values.dtype == np.float64:
                learned.append(StateColumn(name, "numeric"))
            elif values.dtype == np.bool_:
                learned.append(StateColumn(name, "boolean"))
            else:
                levels = _levels(values)
                if not levels:
                    expected = f"State column {name!r} must not be missing"
                    everywhere = np.ones(len(values), dtype=bool)
                    advice = "Leave the column out."
                    refuse_rows(everywhere, expected, "no value", describe_row, advice)
                refuse_alike(values, f"State column {name!r}")
                if all(isinstance(level, (int, float)) for level in levels):
                    levels = _levels(np.append(values, after.astype(object)))
                if name not in categorical:
                    refuse_numeric_text(name, values, levels, describe_row)
                _refuse_too_many_or_few(name, levels)
                learned.append(StateColumn(name, "categorical", tuple(levels)))
        return cls(tuple(learned))

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]

    @property
    def feature_names(self) -> list[str]:
        return [name for column in self.columns for name in column.feature_names]

    def feature(self, name: str) -> int:
        """The index, in the encoded matrix, of the numeric or boolean column `name`."""
        matches = [column for column in self.columns if column.name == name]
        if not matches or matches[0].kind == "categorical":
            kind = "a categorical column" if matches else "not a state column"
            raise DataError(
                f"`anchor_reward` names the column {name!r}, which is {kind}. It must be "
                f"one of the numeric state columns {self.names}, a number, or a function "
                f"of the states.{'' if matches else did_you_mean(name, self.names)} Add "
                "the column to `state`, or pass a function."
            )
        return self.feature_names.index(name)

    def encode(
        self,
        columns: Mapping[str, Column],
        *,
        describe_row: Callable[[int], str] = "row {}".format,
        missing_allowed: np.ndarray | None = None,
    ) -> States:
        """The encoded matrix; rows in `missing_allowed` may miss, and become NaN."""
        num_rows = len(next(iter(columns.values())))
        matrix = np.empty((num_rows, len(self.feature_names)))
        blocks = self._blocks(matrix)
        for spec, block, (name, values) in zip(*blocks, columns.items(), strict=True):
            _encode_column(spec, name, values, block, describe_row, missing_allowed)
        return matrix

    def _blocks(self, matrix: np.ndarray) -> tuple[tuple[StateColumn, ...], list[Any]]:
        """The columns, and the part of an encoded matrix that is each one's."""
        ends = np.cumsum([len(column.feature_names) for column in self.columns])
        return self.columns, np.split(matrix, ends[:-1], axis=1)

    def encode_any(self, states: Any) -> States:
        """Encode the states of a prediction: a frame, or an array of raw columns."""
        return self.encode(self.read(states))

    def read(self, states: Any) -> dict[str, Column]:
        """The columns of the states of a prediction, not encoded yet."""
        from ._columns import columns_of_array, is_frame, read_columns

        coded = {column.name for column in self.columns if column.kind == "categorical"}
        if is_frame(states):
            return read_columns(states, self.names, role="state", categorical=coded)
        return columns_of_array(states, self.names, categorical=coded)

    def decode(self, matrix: States) -> np.ndarray:
        """The user's columns back: float64 if all are numeric, objects otherwise.

        Always an array of its own: a user's function may write into what it is given.
        """
        if all(column.kind != "categorical" for column in self.columns):
            return matrix.copy()
        out = np.empty((len(matrix), len(self.columns)), dtype=object)
        for index, column in enumerate(map(_decode_column, *self._blocks(matrix))):
            out[:, index] = column
        return out


def _levels(values: Column) -> list[Any]:
    """The distinct values in order; whole numbers as integers, whatever their type."""
    levels = set(values[~missing_entries(values)].tolist())
    if all(isinstance(level, float) and level.is_integer() for level in levels):
        levels = set(map(int, levels))
    return sort_labels(levels)


def _refuse_too_many_or_few(name: str, levels: list[Any]) -> None:
    if not 2 <= len(levels) <= MAX_LEVELS:
        raise DataError(
            f"State column {name!r} is categorical with {counted(len(levels), 'level')}. "
            + (
                "A column with a single level is a constant: leave it out."
                if len(levels) < 2
                else f"At most {MAX_LEVELS:,} are supported, since each has coefficients "
                "of its own. Group them, such as by region or kind, or use what "
                "distinguishes them as states. As numbers they would count as quantities."
            )
        )


def _encode_column(spec, name, values, block, describe_row, missing_allowed) -> None:
    if spec.kind == "categorical":
        code_of = {level: code for code, level in enumerate(spec.categories)}
        # -1 for unknown and for missing categories, which are told apart below.
        codes = np.array([code_of.get(value, -1) for value in values.tolist()], int)
        missing = missing_entries(values)
        unseen = (codes < 0) & ~missing
        if unseen.any():
            row = int(np.flatnonzero(unseen)[0])
            known = ", ".join(repr(level) for level in spec.categories[:8])
            raise BadRows(
                f"State column {name!r} has the category {plain(values[row])} in "
                f"{describe_row(row)}, which was not in the data the encoding was "
                f"learned from ({counted(int(unseen.sum()), 'such row')}). Known "
                f"categories: {known}{', ...' if len(spec.categories) > 8 else ''}. Drop "
                "these rows or map them to a known category.",
                unseen,
            )
        block[:] = codes[:, None] == np.arange(1, len(spec.categories))
    else:
        numbers = _as_float(values, name)
        missing = np.isnan(numbers)
        block[:, 0] = numbers
        advice = "Remove these rows or cap the value."
        for wrong, bound in (
            (np.isinf(numbers), "finite"),
            (np.abs(numbers) > LARGEST, f"below {LARGEST:g} in size"),
        ):
            expected = f"State column {name!r} must be {bound}"
            refuse_rows(wrong, expected, numbers, describe_row, advice)
    block[missing] = np.nan
    if missing_allowed is not None:
        missing = missing & ~missing_allowed
    expected = f"State column {name!r} must not be missing"
    advice = (
        "Drop these rows, or give what is missing a level of its own, such as 'none'."
        if spec.kind == "categorical"
        else "Drop these rows, or fill the column in and add an indicator column for the "
        "filled rows."
    )
    refuse_rows(missing, expected, "no value", describe_row, advice)


def _decode_column(column: StateColumn, block: np.ndarray) -> np.ndarray:
    if column.kind == "categorical":
        codes = np.where(block.any(axis=1), block.argmax(axis=1) + 1, 0)
        return np.array(column.categories, dtype=object)[codes]
    return block[:, 0] if column.kind == "numeric" else block[:, 0].astype(bool)


def _as_float(values: Column, name: str) -> np.ndarray:
    if values.dtype != object:
        return values.astype(np.float64)
    text = [v for v in values.tolist() if not isinstance(v, (int, float, type(None)))]
    if text:
        raise DataError(
            f"State column {name!r} was numeric when the encoding was learned, but holds "
            f"{plain(text[0])} now ({counted(len(text), 'row')} in all). Convert the "
            "column to numbers."
        )
    return np.array([np.nan if v is None else v for v in values.tolist()], dtype=np.float64)


def missing_entries(values: np.ndarray) -> np.ndarray:
    """Which entries are missing, for columns of any type."""
    if values.dtype == object:
        # NaN is the only value that differs from itself; pandas' NA is None by now.
        return np.array([v is None or v != v for v in values.tolist()], dtype=bool)
    if values.dtype.kind in "fmM":
        return np.isnat(values) if values.dtype.kind in "mM" else np.isnan(values)
    return np.zeros(len(values), dtype=bool)


def refuse_rows(
    wrong: np.ndarray, expected: str, found: str | Column, describe_row, advice: str = ""
) -> None:
    """Raise where rows are wrong, with the first one, what it has, and their number."""
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise BadRows(
            f"{expected}, but {describe_row(row)} has "
            f"{found if isinstance(found, str) else plain(found[row])} "
            f"({counted(int(wrong.sum()), 'row')} in all). {advice}".rstrip(),
            wrong,
        )


def refuse_alike(values: np.ndarray, what: str) -> None:
    """Raise where labels of different types look the same, such as 1 and '1'."""
    if values.dtype != object:
        return
    # By type and text: a set would take True for 1, and 1 for 1.0, which is as it should.
    kinds = {(type(value), str(value)): value for value in values.tolist()}
    seen: dict[str, Any] = {}
    for (_, text), value in kinds.items():
        first = seen.setdefault(text, value)
        if first != value and first == first:  # NaN is no label
            _refuse_two_types(values, what, first, value)
    flags = [value for value in kinds.values() if isinstance(value, (bool, np.bool_))]
    for flag in flags:
        for value in kinds.values():
            if value == flag and not isinstance(value, (bool, np.bool_)):
                _refuse_two_types(values, what, flag, value)


def _refuse_two_types(values: np.ndarray, what: str, first: Any, other: Any) -> None:
    rows = [
        next(
            row
            for row, value in enumerate(values.tolist())
            if type(value) is type(wanted) and value == wanted
        )
        for wanted in (first, other)
    ]
    raise DataError(
        f"{what} must hold labels of one type, but row {rows[0]} has {plain(first)} "
        f"({type(first).__name__}) and row {rows[1]} has {plain(other)} "
        f"({type(other).__name__}). Convert the column to one type, such as text with "
        ".astype(str)."
    )


def sort_labels(labels: Sequence[Any] | set[Any]) -> list[Any]:
    """Labels in their natural order; by type and text where they do not compare."""
    try:
        return sorted(labels)
    # Labels such as 1 and "a" in one column: any order will do that is always the same.
    except TypeError:
        return sorted(labels, key=lambda label: (type(label).__name__, str(label)))
