"""State columns as controls of a page, and what the page sends back as states."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .._errors import DataError
from .._messages import plain
from .._shapes import PerAction
from ..continuous._cells import CellShares
from ..continuous._reward import AbstractAmountReward
from ..panel._encoding import LARGEST, StateColumn
from ._text import shown

if TYPE_CHECKING:
    from .._fit import Fit

MAX_VALUES = 60  # of a numeric column that a slider visits one by one
SLIDER_STEPS = 100
CURVE_POINTS = 41
MAX_LEVELS = 60  # along a curve: more bars than that are no picture
SAMPLE = 200  # states of the data that a page can jump to


@dataclass(frozen=True, eq=False)
class Controls:
    """What can be set of a state, and where the data have it."""

    columns: tuple[StateColumn, ...]
    values: tuple[tuple[float, ...], ...]
    """Where a column has few values, these; codes of its levels if it is categorical."""
    low: tuple[float, ...]
    high: tuple[float, ...]
    typical: tuple[float, ...]
    """The state of the data that is nearest to all medians."""
    sample: tuple[tuple[float, ...], ...]

    @classmethod
    def of(cls, fit: "Fit") -> "Controls":
        """The controls of a fit, from the states that it keeps of its data."""
        columns = fit.encoding.columns
        codes = as_codes(fit, fit.seen.state)
        values, low, high = [], [], []
        for spec, column in zip(columns, codes.T, strict=True):
            distinct = np.unique(column)
            if spec.kind == "categorical":
                distinct = np.arange(float(len(spec.categories)))
            elif spec.kind == "boolean":
                distinct = np.array([0.0, 1.0])
            few = len(distinct) <= MAX_VALUES or spec.kind == "categorical"
            values.append(tuple(distinct.tolist()) if few else ())
            low.append(float(column.min()))
            high.append(float(column.max()))
        every = max(1, len(codes) // SAMPLE)
        typical = _nearest_to_medians(codes)
        sample = tuple(map(tuple, codes[::every][:SAMPLE].tolist()))
        return cls(columns, tuple(values), tuple(low), tuple(high), typical, sample)

    def described(self) -> list[dict[str, Any]]:
        """For the page: name, kind, range and levels of each column."""
        found = []
        for index, spec in enumerate(self.columns):
            one: dict[str, Any] = {"name": shown(spec.name), "kind": spec.kind}
            if spec.kind == "categorical":
                one["levels"] = [shown(level) for level in spec.categories]
            elif spec.kind == "boolean":
                one["levels"] = ["false", "true"]
            else:
                one |= {"low": self.low[index], "high": self.high[index]}
                one["values"] = self.values[index]
                one["step"] = _round_step(self.low[index], self.high[index])
            found.append(one)
        return found

    def read(self, values: Any) -> list[float]:
        """A state as the page sends it: a number, or a level's code, for each column."""
        names = [shown(spec.name) for spec in self.columns]
        if not isinstance(values, list) or len(values) != len(names):
            raise DataError(
                f"A state must be a list of {len(names)} values, one for each of {names}, "
                f"but {plain(values)} arrived."
            )
        pairs = zip(self.columns, values, strict=True)
        return [read_value(spec, value) for spec, value in pairs]

    def index(self, value: Any) -> int:
        """The number of a column, as the page sends it."""
        return read_index(value, len(self.columns), "column")

    def along(self, index: int, through: float) -> list[float]:
        """Values of a column to draw curves over; `through` is among them."""
        spec, values = self.columns[index], self.values[index]
        if spec.kind != "numeric":
            return list(values)[:MAX_LEVELS]
        if values:
            return sorted({*values, through})
        ends = min(self.low[index], through), max(self.high[index], through)
        return sorted({*np.linspace(*ends, CURVE_POINTS).tolist(), through})

    def raw(self, codes: list[list[float]]) -> np.ndarray:
        """States as a user has them, from numbers and codes."""
        table = np.array(codes, dtype=np.float64).reshape(-1, len(self.columns))
        if all(spec.kind != "categorical" for spec in self.columns):
            return table
        found = np.empty(table.shape, dtype=object)
        for index, spec in enumerate(self.columns):
            column = table[:, index]
            if spec.kind == "categorical":
                found[:, index] = [spec.categories[int(code)] for code in column]
            elif spec.kind == "boolean":
                found[:, index] = column.astype(bool).tolist()
            else:
                found[:, index] = column.tolist()
        return found


def probabilities(fit: "Fit", state: np.ndarray) -> PerAction:
    """How likely each action is; of amounts, all that are nearest to it on the grid."""
    reward = fit.reward_function
    if isinstance(reward, AbstractAmountReward):
        return np.exp(CellShares(reward).log_prob(state))
    return np.exp(fit.estimate.policy.log_prob(state))


def as_codes(fit: "Fit", state: np.ndarray) -> np.ndarray:
    """Encoded states as a number for each column: categories as codes of their levels."""
    found, start = [], 0
    for spec in fit.encoding.columns:
        width = len(spec.feature_names)
        block = state[:, start : start + width]
        if spec.kind == "categorical":
            # The first level is the reference, whose indicators are all zero.
            found.append(np.where(block.any(axis=1), block.argmax(axis=1) + 1.0, 0.0))
        else:
            found.append(block[:, 0])
        start += width
    return np.stack(found, axis=1)


def read_value(spec: StateColumn, value: Any) -> float:
    """One value of a state, checked."""
    name = repr(shown(spec.name))
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not abs(value) <= LARGEST:
        raise DataError(f"{name} must be a finite number, but it is {plain(value)}.")
    if spec.kind == "categorical" and value not in range(len(spec.categories)):
        raise DataError(
            f"{name} must be the number of one of its {len(spec.categories)} levels, "
            f"from 0, but it is {plain(value)}."
        )
    if spec.kind == "boolean" and value not in (0, 1):
        raise DataError(f"{name} must be 0 or 1, but it is {plain(value)}.")
    return float(value)


def read_index(value: Any, count: int, noun: str) -> int:
    """The number of one of `count` things, checked."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or not 0 <= value < count:
        raise DataError(
            f"The {noun} must be a whole number from 0 to {count - 1}, but it is "
            f"{plain(value)}."
        )
    return value


def _nearest_to_medians(codes: np.ndarray) -> tuple[float, ...]:
    # A state that occurred: medians of each column by itself may never meet.
    middle, scale = np.median(codes, axis=0), codes.std(axis=0)
    gap = (codes - middle) / np.where(scale > 0, scale, 1.0)
    return tuple(codes[np.square(gap).sum(axis=1).argmin()].tolist())


def _round_step(low: float, high: float) -> float:
    """A step with one digit, about a hundredth of the range."""
    width = (high - low) / SLIDER_STEPS
    return float(f"{width:.0e}") if width > 0 else 1.0
