"""The states that a question about a fit is asked of, and the groups they fall into."""

from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Bool

from .._errors import DataError
from .._messages import did_you_mean
from .._shapes import Codes, PerRow, States
from ..panel._encoding import Encoding, StateColumn
from ..panel._panel import Panel
from ._influence import require_same_columns

if TYPE_CHECKING:
    from .._fit import Fit

# Values of a numeric column up to which each is a group of its own, and the number of
# groups by quantiles beyond.
MAX_VALUES, QUANTILES = 8, 4


class Sample(NamedTuple):
    """The states that an answer is about."""

    state: States
    weight: PerRow
    action: Codes | None
    """What was decided there, where a panel was given."""
    note: str


class Groups(NamedTuple):
    """Rows of each group, and what each is called."""

    labels: list[tuple[str, ...]]
    names: tuple[str, ...]
    member: Bool[np.ndarray, "group row"]


def sample_of(fit: "Fit", data: Any, weights: Any) -> Sample:
    if data is None:
        state, action = fit.seen.state, None
        weight, note = np.ones(len(state)), f"Over {len(state):,} states of the data"
    elif isinstance(data, Panel):
        require_same_columns(fit, data)
        state, action, weight = data.state, data.action, data.weight
        note = f"Over the states of {len(data):,} decisions"
    else:
        state, action = fit.encoding.encode_any(data), None
        weight, note = np.ones(len(state)), f"Over the {len(state):,} states given"
    if weights is not None:
        weight = np.asarray(weights, np.float64)
        if weight.shape != (len(state),) or not (weight >= 0).all() or not weight.any():
            raise DataError(
                f"`weights` must hold a number for each of the {len(state):,} states, none "
                f"negative and some positive, but an array of shape {weight.shape} arrived."
            )
        note += ", weighted"
    return Sample(state, weight, action, note)


def find_column(encoding: Encoding, column: str) -> tuple[StateColumn, int]:
    """A state column and its first place in the encoded matrix."""
    at = 0
    for spec in encoding.columns:
        if spec.name == column:
            return spec, at
        at += len(spec.feature_names)
    raise DataError(
        f"The column must be one of the state columns {encoding.names}, but {column!r} "
        f"arrived.{did_you_mean(column, encoding.names)}"
    )


def group_rows(encoding: Encoding, sample: Sample, by: Any) -> Groups:
    rows = len(sample.state)
    if by is None:
        return Groups([()], (), np.ones((1, rows), bool))
    columns = [by] if isinstance(by, str) else list(by)
    if (
        not isinstance(by, str)
        and len(columns) == rows
        and not _all_columns(columns, encoding)
    ):
        values, code = np.unique(np.asarray(columns).astype(str), return_inverse=True)
        member = code == np.arange(len(values))[:, None]
        return Groups([(str(each),) for each in values], ("group",), member)
    parts = [_levels(encoding, sample, column) for column in columns]
    labels, members = [], []
    for combination in product(*parts):
        member = np.logical_and.reduce([rows for _, rows in combination])
        if (sample.weight * member).any():
            labels.append(tuple(label for label, _ in combination))
            members.append(member)
    return Groups(labels, tuple(map(str, columns)), np.array(members))


def _all_columns(columns: list[Any], encoding: Encoding) -> bool:
    return all(isinstance(each, str) and each in encoding.names for each in columns)


def _levels(
    encoding: Encoding, sample: Sample, column: Any
) -> list[tuple[str, np.ndarray]]:
    """The groups of one column: labels with their rows."""
    if not isinstance(column, str) or column not in encoding.names:
        raise DataError(
            f"`by` must name state columns, of {encoding.names}, or hold one label for "
            f"each of the {len(sample.state):,} states, but {column!r} arrived."
        )
    spec, place = find_column(encoding, column)
    if spec.kind == "categorical":
        block = sample.state[:, place : place + len(spec.categories) - 1]
        level = np.where(block.any(axis=1), block.argmax(axis=1) + 1, 0)
        return [(str(each), level == i) for i, each in enumerate(spec.categories)]
    value = sample.state[:, place]
    distinct = np.unique(value[sample.weight > 0])
    if len(distinct) <= MAX_VALUES:
        return [(f"{column} {each:g}", value == each) for each in distinct]
    # Weighted quantiles exist in NumPy for this method alone.
    inner = np.arange(1, QUANTILES) / QUANTILES
    cuts = np.quantile(value, inner, weights=sample.weight, method="inverted_cdf")
    code = np.searchsorted(np.unique(cuts), value, side="left")
    found = []
    for number in np.unique(code):
        rows = code == number
        ends = value[rows & (sample.weight > 0)]
        found.append((f"{column} {ends.min():.4g} to {ends.max():.4g}", rows))
    return found
