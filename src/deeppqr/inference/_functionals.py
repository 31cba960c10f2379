r"""Averages, slopes and contrasts of a fitted reward, with errors: one grammar.

Each is a weighted sum of rewards over states and actions, $\psi = \sum w(s,a)\,r(s,a)$,
at the states given: its variance is that of the reward's estimate, and the states count as
they are. An average over the population that they were drawn from varies more;
`one_step` counts that too.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float

from .._errors import DataError
from .._shapes import PerAction, PerRow, States
from .._uncertainty import AbstractUncertainty, TableUncertainty
from ..learners._chunks import row_slices
from ..panel._encoding import StateColumn
from ..panel._panel import action_index
from ..report._estimates import Estimates
from ..report._identification import lump_note
from ..report._interval import check_level
from ._groups import Groups, Sample, find_column, group_rows, sample_of

if TYPE_CHECKING:
    from .._fit import Fit

# States evaluated at once: with 5 actions and 600 coefficients 25 MB.
STATES_AT_ONCE = 5_000
# The step of a derivative, in standard deviations of the column: central differences then
# miss by 1e-6 of the third derivative, and rounding by 1e-12 of the reward.
STEP = 1e-3


@dataclass(frozen=True)
class _Means:
    """Weighted means of each action's reward in each group, with their common root."""

    value: Float[np.ndarray, "group action"]
    root: Float[np.ndarray, "group action direction"]

    def __sub__(self, other: "_Means") -> "_Means":
        return _Means(self.value - other.value, self.root - other.root)


def average(
    fit: "Fit",
    data: Any = None,
    *,
    by: Any = None,
    actions: Sequence[Any] | None = None,
    taken: bool = False,
    weights: Any = None,
    level: float = 0.95,
) -> "Estimates":
    """Average rewards by action, and by group where `by` is given.

    Parameters
    ----------
    data
        The states: a panel or a table of states; by default those that the fit keeps, up
        to about 5,000 of the panel's.
    by
        What to group by: a state column (categories and few values one by one, other
        numbers by quartiles), a list of columns, or one label for each state.
    actions
        Labels, where not all are wanted.
    taken
        Whether each action counts only where it was taken, which takes a panel: what its
        decisions earned, instead of what it would earn anywhere.
    weights
        One for each state, in place of the panel's.
    level
        Of the intervals.
    """
    sample = sample_of(fit, data, weights)
    groups = group_rows(fit.encoding, sample, by)
    counted = np.ones((len(sample.state), len(fit.actions)), bool)
    if taken:
        if sample.action is None:
            raise DataError(
                "`taken=True` asks what was decided in each state, which a panel says and "
                "states alone do not: fit.average(panel, taken=True)."
            )
        counted = sample.action[:, None] == np.arange(len(fit.actions))
    means = _means(fit, sample.state, sample.weight, groups, counted)
    chosen = _columns(fit, actions, anchor=True)
    where = "in the rows that took each action" if taken else "each action at all of them"
    note = ". ".join(filter(None, [f"{sample.note}, {where}", lump_note(fit)[:-1]]))
    return _table(fit, "Average reward", means, groups, chosen, note, level)


def slopes(
    fit: "Fit",
    column: str,
    data: Any = None,
    *,
    by: Any = None,
    actions: Sequence[Any] | None = None,
    weights: Any = None,
    level: float = 0.95,
) -> "Estimates":
    """Average slopes of the reward in a state column, by action.

    Of a numeric column the mean derivative; in a table of rewards the mean difference to
    the column's next value, per unit. Of a category the mean difference between each level
    and the first, all else equal. Other arguments are those of `average`.
    """
    sample = sample_of(fit, data, weights)
    groups = group_rows(fit.encoding, sample, by)
    spec, place = find_column(fit.encoding, column)
    chosen, how = _columns(fit, actions, anchor=False), sample.note
    if spec.kind == "categorical":
        first, *others = spec.categories
        pairs = [(first, other) for other in others]
        return _level_differences(fit, spec, place, pairs, sample, groups, chosen, level)
    if isinstance(fit._errors(), TableUncertainty):
        low, high, gap = _next_values(fit._errors(), sample.state, place)
        how += ", to the column's next value in the table"
    else:
        step = STEP * fit.seen.scale[place]
        low, high, gap = sample.state.copy(), sample.state.copy(), 2 * step
        low[:, place] -= step
        high[:, place] += step
    means, kept = _difference(fit, low, high, sample.weight, groups, gap)
    title = f"Average slope of the reward in {column}"
    return _table(fit, title, means, groups, chosen, how + kept, level)


def compare(
    fit: "Fit",
    column: str | None = None,
    data: Any = None,
    *,
    step: float | None = None,
    values: tuple[Any, Any] | None = None,
    actions: Sequence[Any] | None = None,
    by: Any = None,
    weights: Any = None,
    level: float = 0.95,
) -> "Estimates":
    """Average contrasts of rewards: between states that differ in one column, or between
    two actions.

    Parameters
    ----------
    column
        What is changed, all else equal: by `step`, or from the first to the second of
        `values`. None to compare the two `actions` at the same states.
    step
        How much is added: `fit.compare("competitors", step=1)` is one more competitor.
    values
        Two values of the column, or two levels of a category.
    actions
        Labels, where not all are wanted; without a column, the two that are compared: the
        second less the first.

    weights, by, data, level
        As in `average`.
    """
    sample = sample_of(fit, data, weights)
    groups = group_rows(fit.encoding, sample, by)
    if column is None:
        return _between_actions(fit, actions, sample, groups, level)
    if (step is None) == (values is None):
        raise DataError(
            "Give one of `step`, how much is added, and `values`, from what to what, as in "
            f"fit.compare({column!r}, step=1)."
        )
    spec, place = find_column(fit.encoding, column)
    chosen = _columns(fit, actions, anchor=False)
    if values is not None and (isinstance(values, str) or len(values) != 2):
        raise DataError(f"`values` must be a pair, from what to what, not {values!r}.")
    if spec.kind == "categorical":
        if values is None:
            raise DataError(
                f"{column!r} is a category, to which nothing can be added. Give two of its "
                f"levels: values={spec.categories[:2]}."
            )
        pairs = [tuple(values)]
        return _level_differences(fit, spec, place, pairs, sample, groups, chosen, level)
    low, high = sample.state.copy(), sample.state.copy()
    if values is not None:
        low[:, place], high[:, place] = values
        change = f"from {values[0]:g} to {values[1]:g}"
    else:
        high[:, place] += step
        change = f"{step:+g}"
    means, kept = _difference(fit, low, high, sample.weight, groups, 1.0)
    title = f"Change of the reward with {column} {change}"
    return _table(fit, title, means, groups, chosen, sample.note + kept, level)


def _between_actions(fit, actions, sample: Sample, groups: Groups, level: float):
    if actions is None or isinstance(actions, str) or len(actions) != 2:
        raise DataError(
            "Without a column, `actions` must name the two that are compared, as in "
            f"fit.compare(actions={fit.actions[:2]!r}), but {actions!r} arrived."
        )
    first, second = (action_index(fit.actions, each, role="action") for each in actions)
    known = np.isfinite(fit._reward_of(sample.state)[:, [first, second]]).all(axis=1)
    counted = np.repeat(known[:, None], len(fit.actions), axis=1)
    means = _means(fit, sample.state, sample.weight, groups, counted)
    gap = _Means(
        means.value[:, [second]] - means.value[:, [first]],
        means.root[:, [second]] - means.root[:, [first]],
    )
    name = f"{fit.actions[second]} less {fit.actions[first]}"
    title = "Difference of rewards between actions"
    return _table(fit, title, gap, groups, [0], sample.note, level, names=[name])


def _level_differences(fit, spec, place, pairs, sample: Sample, groups, chosen, level):
    """One row for each pair of levels, group and action."""
    parts, names, kept = [], [], ""
    for pair in pairs:
        low, high = (_at_level(sample.state, spec, place, each) for each in pair)
        means, kept = _difference(fit, low, high, sample.weight, groups, 1.0)
        parts.append(means)
        names.append(f"{pair[1]} less {pair[0]}")
    stacked = _Means(
        np.concatenate([part.value for part in parts]),
        np.concatenate([part.root for part in parts]),
    )
    every = Groups(
        [(name, *label) for name in names for label in groups.labels],
        (spec.name, *groups.names),
        np.tile(groups.member, (len(pairs), 1)),
    )
    title = f"Difference of the reward between levels of {spec.name}"
    return _table(fit, title, stacked, every, chosen, sample.note + kept, level)


def _difference(
    fit: "Fit", low: States, high: States, weight: PerRow, groups: Groups, gap: Any
) -> tuple[_Means, str]:
    """Means at one set of states less those at another, per unit of `gap`, over rows where
    both are known; and what is to be said of the rest."""
    usable = np.ones(len(low), bool)
    uncertainty = fit._errors()
    if isinstance(uncertainty, TableUncertainty):
        usable = uncertainty.cells.locate(low) >= 0
        usable &= uncertainty.cells.locate(high) >= 0
    if not usable.any():
        raise DataError(
            f"None of the {len(low):,} states is still in the fit's table of "
            "states after the change. Change it by a difference between states that occur."
        )
    low, high, weight = low[usable], high[usable], weight[usable]
    groups = groups._replace(member=groups.member[:, usable])
    counted = np.isfinite(fit._reward_of(low)) & np.isfinite(fit._reward_of(high))
    per = np.broadcast_to(np.asarray(gap, np.float64), usable.shape)[usable]
    after = _means(fit, high, weight, groups, counted, per)
    means = after - _means(fit, low, weight, groups, counted, per)
    kept = (
        "" if usable.all() else f"; {100 * usable.mean():.0f} % of them stay in the table"
    )
    outside = 1 - fit.seen.inside(high).mean()
    # A derivative's small step away from a lattice of states is not extrapolation.
    small = np.abs(high - low).max(axis=0) <= 3 * STEP * fit.seen.scale
    if outside > 0.005 and not small.all():
        kept += f"; {100 * outside:.0f} % of the changed states lie outside the data"
    return means, kept


def _means(
    fit: "Fit",
    state: States,
    weight: PerRow,
    groups: Groups,
    counted: Bool[np.ndarray, "row action"],
    gap: PerRow | None = None,
) -> _Means:
    """Means over the rows that count, one action and group at a time."""
    uncertainty, value = fit._errors(), fit.estimate
    root = uncertainty.root(value)
    number, count = len(groups.labels), len(fit.actions)
    total, mass = np.zeros((number, count)), np.zeros((number, count))
    mixed = np.zeros((number, count, root.shape[1]))
    for rows in row_slices(len(state), STATES_AT_ONCE):
        part, reward = state[rows], fit._reward_of(state[rows])
        own: PerAction = weight[rows, None] * (counted[rows] & np.isfinite(reward))
        per = 1.0 if gap is None else gap[rows]
        for action in range(count):
            share = groups.member[:, rows] * own[:, action]
            mass[:, action] += share.sum(axis=1)
            share = share / per
            total[:, action] += share @ np.nan_to_num(reward[:, action])
            if action != value.anchor and share.any():
                mixed[:, action] += share @ uncertainty.slopes(part, action, value)
    with np.errstate(invalid="ignore", divide="ignore"):
        mixed /= mass[:, :, None]
        found = total / mass
    # An entry of the table that was never seen is NaN, and NaN times zero is no number.
    used = (np.nan_to_num(mixed) != 0).any(axis=(0, 1))
    return _Means(found, mixed[:, :, used] @ root[:, used].T)


def _table(
    fit: "Fit",
    title: str,
    means: _Means,
    groups: Groups,
    chosen: list[int],
    note: str,
    level: float,
    names: Sequence[str] | None = None,
) -> "Estimates":

    check_level(level)
    actions = [str(each) for each in (fit.actions if names is None else names)]
    rows = [(g, a) for g in range(len(groups.labels)) for a in chosen]
    root = np.array([means.root[g, a] for g, a in rows])
    before = [", ".join(label) + ": " if label else "" for label in groups.labels]
    labels = {
        name: [groups.labels[g][place] for g, _ in rows]
        for place, name in enumerate(groups.names)
    }
    labels["action"] = [actions[a] for _, a in rows]
    return Estimates(
        title,
        tuple(before[g] + actions[a] for g, a in rows),
        np.array([means.value[g, a] for g, a in rows]),
        root @ root.T,
        {"anchor": str(fit.anchor), "discount": f"{fit.discount:g}"},
        f"{note}. Errors of the fitted reward, with the states as they are.",
        level=level,
        labels=labels,
    )


def _columns(fit: "Fit", actions: Sequence[Any] | None, *, anchor: bool) -> list[int]:
    """Indices of the actions asked for; the anchor's reward is known and has no slope that
    was estimated."""
    if actions is None:
        every = range(len(fit.actions))
        return [index for index in every if anchor or index != fit.estimate.anchor]
    if isinstance(actions, str) or not isinstance(actions, Sequence):
        raise DataError(f"`actions` must be a list of labels, but {actions!r} arrived.")
    return [action_index(fit.actions, each, role="action") for each in actions]


def _at_level(state: States, spec: StateColumn, place: int, level: Any) -> States:
    if level not in spec.categories:
        raise DataError(
            f"{spec.name!r} has the levels {list(spec.categories)}, and {level!r} is none "
            "of them."
        )
    found, number = state.copy(), spec.categories.index(level)
    found[:, place : place + len(spec.categories) - 1] = 0.0
    if number:
        found[:, place + number - 1] = 1.0
    return found


def _next_values(uncertainty: AbstractUncertainty, state: States, place: int):
    """Each state, the same with the column's next value in the table, and the gap."""
    assert isinstance(uncertainty, TableUncertainty)
    known = np.unique(uncertainty.cells.states[:, place])
    at = np.searchsorted(known, state[:, place], side="right")
    after = known[np.minimum(at, len(known) - 1)]
    moved = state.copy()
    # The last value has no next one: NaN is in no cell, and such rows drop out.
    moved[:, place] = np.where(at < len(known), after, np.nan)
    return state, moved, np.where(at < len(known), after - state[:, place], 1.0)
