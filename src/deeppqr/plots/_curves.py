r"""Numbers behind the curves: rewards along one state variable or two.

Either averaged over the other variables as they are in the data (partial dependence),
$$\bar r_a(x) = \tfrac{1}{n} \sum_i r\{(x, s_{-x,i}), a\},$$
or with the others at one typical state. Bands are pointwise.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float

from .._errors import DataError, DeepPQRError
from .._shapes import States
from ..panel._encoding import StateColumn
from ..reward._joint_reward import JointReward
from ..reward._table import TableReward
from ..reward._temperature import AffineReward
from ._axes import require_column, require_data
from ._style import number_text, text_of, value_text

if TYPE_CHECKING:
    from .._fit import Fit

Others = str  # "average" or "typical"
# States that curves are averaged over. What they leave of the sampling error, a fifteenth
# of the spread over states, is the same all along a curve and moves it up or down.
AVERAGED = 200
POINTS = 41
SURFACE_POINTS, SURFACE_AVERAGED = 25, 60  # (25 * 25 * 60 = 37,500 states)
MAX_VALUES = 12  # a number with so few values is shown at these values
MAX_LEVELS = 20  # levels of a category, the most frequent
INNER = (1, 99)  # percentiles between which curves are drawn


@dataclass(frozen=True, eq=False)
class Curves:
    """Rewards of all actions along one state variable, with their standard errors."""

    column: StateColumn
    values: tuple[Any, ...]
    """Where the curve is known: numbers, or levels of a category."""
    reward: Float[np.ndarray, "point action"]
    error: Float[np.ndarray, "point action"] | None
    """None where the fit has no errors in closed form."""
    inside: Bool[np.ndarray, " point"]
    """Whether half of the states that were averaged over lie inside the data."""
    others: str
    """What became of the other variables, in words."""
    sampled: bool
    """Whether the values are a grid over a range, and not all the values there are."""

    @property
    def spread(self) -> float:
        """How much the variable moves rewards: the largest range over the actions."""
        return float(np.nanmax(np.nanmax(self.reward, 0) - np.nanmin(self.reward, 0)))

    def margin(self, level: float) -> Float[np.ndarray, "point action"] | None:
        """Half the width of the pointwise intervals."""
        from scipy.special import ndtri

        return None if self.error is None else ndtri((1 + level) / 2) * self.error

    def sentence(self, action: int, label: Any, level: float) -> str:
        """What a curve shows, in words."""
        values, margin = self.reward[:, action], self.margin(level)
        low, high = int(np.nanargmin(values)), int(np.nanargmax(values))

        def at(point: int) -> str:
            where = f"{text_of(self.column.name)} = {value_text(self.values[point])}"
            said = f"{number_text(values[point])} at {where}"
            half = 0.0 if margin is None else margin[point, action]
            if not half > 0:
                return said
            ends = number_text(values[point] - half), number_text(values[point] + half)
            return f"{said} ({100 * level:g} % interval {ends[0]} to {ends[1]})"

        if values[high] - values[low] < 1e-12:
            return f"Action {text_of(label)}: {number_text(values[low])} everywhere."
        return f"Action {text_of(label)}: lowest, {at(low)}; highest, {at(high)}."


@dataclass(frozen=True, eq=False)
class Surface:
    """The rewards of all actions over two state variables."""

    x: Curves
    y: Curves
    reward: Float[np.ndarray, "y x action"]
    error: Float[np.ndarray, "y x action"] | None
    inside: Bool[np.ndarray, "y x"]


def reward_curves(fit: "Fit", column: Any, *, others: Others = "average") -> Curves:
    """The rewards along a state column; the other columns averaged over or typical."""
    spec, place = require_column(fit, column, "column")
    if knows_cells_only(fit):
        return _curves_of_table(fit, spec, place)
    values, grid, weight, words, sampled = _along(fit, spec, place, others)
    reward, error, inside = _averages(fit, grid, weight)
    return Curves(spec, values, reward, error, inside, words, sampled)


def mean_along(
    fit: "Fit", curves: Curves, function: Callable[[np.ndarray], Any]
) -> Float[np.ndarray, "point action"]:
    """The means of a function of the states where a curve has its rewards averaged."""
    spec, place = require_column(fit, curves.column.name, "column")
    _, grid, weight, _, _ = _along(fit, spec, place, "average")
    states = fit.encoding.decode(grid.reshape(-1, grid.shape[2]))
    return weight @ np.asarray(function(states)).reshape(*grid.shape[:2], -1)


def _along(fit: "Fit", spec: StateColumn, place: slice, others: Others):
    """The values along a column, and the states (point, sample, feature) with weights."""
    base, weight, words = base_states(fit, others, AVERAGED)
    values, encoded, sampled = _points(fit, spec, place)
    grid = np.repeat(base[None], len(values), axis=0)
    grid[:, :, place] = encoded[:, None, :]
    return values, grid, weight, words, sampled


def knows_cells_only(fit: "Fit") -> bool:
    """Whether the reward is a table, which says nothing of states that were not seen."""
    reward = fit.reward_function
    bare = reward.policy_part if isinstance(reward, AffineReward) else reward
    return isinstance(bare, TableReward)


def _curves_of_table(fit: "Fit", spec: StateColumn, place: slice) -> Curves:
    """Means over the states that have each value: the others cannot be held fixed."""
    seen, weight = np.unique(fit.seen.state, axis=0, return_inverse=True)
    weight = np.bincount(weight.ravel(), require_data(fit).weight, len(seen))
    keys, code = np.unique(seen[:, place], axis=0, return_inverse=True)
    code = code.ravel()
    rewards = fit._reward_of(seen)
    # NaN where a pair never occurred, and outside the table of known transitions.
    known = np.isfinite(rewards) & (weight[:, None] > 0)
    total = np.zeros((2, len(keys), rewards.shape[1]))
    np.add.at(total[0], code, np.where(known, weight[:, None] * rewards, 0.0))
    np.add.at(total[1], code, known * weight[:, None])
    with np.errstate(invalid="ignore"):
        mean = total[0] / total[1]
    shares = known * weight[:, None] / np.maximum(total[1], 1e-300)[code]
    error = _summed_errors(
        fit, [(seen[code == key], shares[code == key]) for key in range(len(keys))]
    )
    alone = len(fit.encoding.columns) == 1
    words = "" if alone else "means of the states in the data with each value"
    if spec.kind == "categorical":
        levels = np.where(keys.any(axis=1), keys.argmax(axis=1) + 1, 0)
        values: tuple[Any, ...] = tuple(spec.categories[level] for level in levels)
    else:
        values = tuple(map(bool if spec.kind == "boolean" else float, keys[:, 0]))
    order = np.argsort(levels) if spec.kind == "categorical" else np.arange(len(keys))
    return Curves(
        spec,
        tuple(values[at] for at in order),
        mean[order],
        None if error is None else error[order],
        np.ones(len(keys), dtype=bool),
        words,
        sampled=False,
    )


def reward_surface(
    fit: "Fit", column: Any, second: Any, *, others: Others = "average"
) -> Surface:
    """The rewards over two columns."""
    if column == second:
        raise DataError(
            f"A surface takes two different columns, but both are {column!r}. For a curve "
            f"along one: fit.plot.reward({column!r})."
        )
    if knows_cells_only(fit):
        raise DataError(
            "This fit's reward is a table, which says nothing between the states that were "
            f"seen, so there is no surface. Draw curves: fit.plot.reward({column!r})."
        )
    axes = []
    for name, role in ((column, "column"), (second, "second")):
        spec, place = require_column(fit, name, role)
        axes.append((spec, place, *_points(fit, spec, place, SURFACE_POINTS)))
    base, weight, words = base_states(fit, others, SURFACE_AVERAGED)
    (_, x_place, x_values, x_encoded, _), (_, y_place, y_values, y_encoded, _) = axes
    across, down = len(x_values), len(y_values)
    grid = np.repeat(base[None], across * down, axis=0)
    grid[:, :, x_place] = np.tile(x_encoded, (down, 1))[:, None, :]
    grid[:, :, y_place] = np.repeat(y_encoded, across, axis=0)[:, None, :]
    reward, error, inside = _averages(fit, grid, weight)
    shape = (down, across, -1)
    x, y = (
        Curves(spec, values, np.empty((0, 0)), None, np.empty(0, bool), words, sampled)
        for spec, _, values, _, sampled in axes
    )
    return Surface(
        x,
        y,
        reward.reshape(shape),
        None if error is None else error.reshape(shape),
        inside.reshape(down, across),
    )


def base_states(fit: "Fit", others: Others, count: int) -> tuple[States, np.ndarray, str]:
    """The states whose other columns stay as they are, their weights, and words."""
    if others not in ("average", "typical"):
        raise DataError(f'`others` must be "average" or "typical", but it is {others!r}.')
    seen, data = fit.seen.state, require_data(fit)
    if len(fit.encoding.columns) == 1:
        return seen[:1], np.ones(1), ""
    if others == "typical":
        state = seen[_most_typical(fit)][None]
        return state, np.ones(1), f"others as in a typical state, {describe(fit, state)}"
    counted = np.flatnonzero(data.weight > 0)
    rng = np.random.default_rng(0)
    rows = rng.choice(counted, min(count, len(counted)), replace=False)
    words = f"averaged over {len(rows)} states of the data"
    return seen[rows], data.weight[rows] / data.weight[rows].sum(), words


def _most_typical(fit: "Fit") -> int:
    """The row nearest to the medians: unlike a vector of medians, a state that exists."""
    data, seen = require_data(fit), fit.seen
    middle = np.where(_is_indicator(fit), data.mean, data.quantiles[50])
    return int(np.argmin(np.square((seen.state - middle) / seen.scale).sum(axis=1)))


def _is_indicator(fit: "Fit") -> Bool[np.ndarray, " state_feature"]:
    kinds = [c.kind != "numeric" for c in fit.encoding.columns for _ in c.feature_names]
    return np.array(kinds)


def describe(fit: "Fit", state: States, limit: int = 4) -> str:
    """The first of some states in words: its first columns."""
    decoded = fit.encoding.decode(state)[0]
    shown = [
        f"{text_of(name, 20)} = {value_text(value, 20)}"
        for name, value in zip(fit.encoding.names, decoded, strict=True)
    ]
    return ", ".join([*shown[:limit], *(["..."] if len(shown) > limit else [])])


def _points(fit: "Fit", spec: StateColumn, place: slice, number: int = POINTS):
    """The values along a column, as they are shown and as they are encoded."""
    data, seen = require_data(fit), fit.seen.state
    if spec.kind == "categorical":
        share = np.append(1 - data.mean[place].sum(), data.mean[place])
        kept = np.sort(np.argsort(-share, kind="stable")[:MAX_LEVELS])
        levels = tuple(spec.categories[index] for index in kept)
        return levels, np.eye(len(share))[kept, 1:], False
    if spec.kind == "boolean":
        return (False, True), np.array([[0.0], [1.0]]), False
    found = np.unique(seen[:, place.start])
    sampled = len(found) > MAX_VALUES
    if sampled:
        low, high = data.quantiles[list(INNER), place.start]
        if low == high:  # nearly all states share one value
            low, high = found[0], found[-1]
        found = np.linspace(low, high, number)
    return tuple(map(float, found)), found[:, None], sampled


def _averages(fit: "Fit", grid: np.ndarray, weight: np.ndarray):
    """Weighted means over the second axis of a grid of states, errors and support."""
    points, sample, width = grid.shape
    flat = np.ascontiguousarray(grid.reshape(-1, width))
    mean = weight @ fit._reward_of(flat).reshape(points, sample, -1)
    error = errors_of_means(fit, flat, weight)
    inside = fit.seen.inside(flat).reshape(points, sample) @ weight >= 0.5
    return mean, error, inside


def errors_of_means(
    fit: "Fit", states: States, weight: np.ndarray
) -> Float[np.ndarray, "point action"] | None:
    """Standard errors of rewards averaged over each run of `len(weight)` states.

    From the coefficients' covariance: errors at different states are correlated, so that
    those of the states cannot be averaged. None where there are none in closed form.
    """
    reward, sample = fit.reward_function, len(weight)
    if not isinstance(reward, JointReward):
        shares = np.repeat(weight[:, None], len(fit.actions), axis=1)
        parts = states.reshape(-1, sample, states.shape[1])
        return _summed_errors(fit, [(part, shares) for part in parts])
    columns = reward.basis.columns(states)
    # Slopes are linear in the columns: their means follow from the columns' means.
    mean = weight @ columns.reshape(-1, sample, columns.shape[1])
    found = np.zeros((len(mean), len(fit.actions)))
    for action in range(len(fit.actions)):
        if action == reward.anchor:
            continue  # known
        slopes, used = reward.basis.slopes(mean, action)
        variance = ((slopes @ reward.covariance[np.ix_(used, used)]) * slopes).sum(axis=1)
        found[:, action] = np.sqrt(np.maximum(variance, 0.0))
    return fit.temperature * found


def _summed_errors(fit: "Fit", sums: list[tuple[States, np.ndarray]]):
    """Standard errors of weighted sums of rewards, however the fit comes by errors."""
    try:
        uncertainty = fit._errors()
    except DeepPQRError:
        return None
    return np.array([uncertainty.mean_errors(*each, fit.estimate) for each in sums])
