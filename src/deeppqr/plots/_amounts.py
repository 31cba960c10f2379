"""Draws rewards and densities over amounts."""

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from .._errors import DataError
from ..continuous._anchor import as_points
from ..continuous._cells import cells_of
from ..continuous._reward import AbstractAmountReward, AmountReward
from ..panel._amounts import as_label
from ..panel._encoding import StateColumn
from ..report._interval import check_level
from ._axes import given_back, require_column, require_data, take_axes
from ._curves import AVERAGED, Others, base_states
from ._reward import BAND, STRIP
from ._style import (
    ANCHOR,
    FAINT,
    INK,
    LINES,
    MARKERS,
    MAX_TOGETHER,
    PALETTE,
    NewAxes,
    number_text,
    text_of,
    value_text,
)

if TYPE_CHECKING:
    from .._fit import Fit

POINTS = 81
BINS = 25
# Of a numeric column: where curves over the amount are drawn, and groups of states.
PERCENTILES = (10, 50, 90)
GROUPS = 3
LEVELS = 4  # of a category, the most frequent
MAX_STATES = 400  # that a fitted density is averaged over


@dataclass(frozen=True, eq=False)
class AmountCurves:
    """Mean rewards over the amount, a curve for each value of a column."""

    names: tuple[str, ...]
    amount: Float[np.ndarray, " point"]
    reward: Float[np.ndarray, "curve point"]
    error: Float[np.ndarray, "curve point"] | None
    atom: Float[np.ndarray, "atom action_dimension"]
    atom_reward: Float[np.ndarray, "curve atom"]
    atom_error: Float[np.ndarray, "curve atom"] | None
    others: str

    def sentence(self, curve: int, noun: str = "amount") -> str:
        """What a curve shows, in words."""
        low, high = int(self.reward[curve].argmin()), int(self.reward[curve].argmax())
        at = lambda point: (
            f"{number_text(float(self.reward[curve, point]))} at {noun} "
            f"{number_text(float(self.amount[point]))}"
        )
        where = f"Where {self.names[curve]}: " if self.names[curve] else ""
        return f"{where}lowest, {at(low)}; highest, {at(high)}."


def reward_of(fit: "Fit") -> AbstractAmountReward:
    """The reward of a fit over amounts, refusing others."""
    reward = fit.reward_function
    if not isinstance(reward, AbstractAmountReward):
        raise DataError(
            "This figure is for actions that are amounts, and this fit has finitely many: "
            f"{list(fit.actions)}. For curves over the states: fit.plot.reward(column)."
        )
    return reward


def amount_curves(
    fit: "Fit", column: Any = None, *, dimension: int = 0, others: Others = "average"
) -> AmountCurves:
    """The reward over one dimension of the amount, the others at their medians."""
    reward = reward_of(fit)
    space = reward.shapes.space
    if dimension not in range(space.dimensions):
        raise DataError(
            f"`dimension` must be one of 0 to {space.dimensions - 1}, the dimensions of "
            f"{space!r}, but it is {dimension!r}."
        )
    data = require_data(fit)
    assert data.amount is not None
    inside = data.amount[space.atom_of(data.amount) < 0]
    line = np.linspace(space.box.lower[dimension], space.box.upper[dimension], POINTS)
    actions = np.tile(np.median(inside, axis=0), (POINTS, 1))
    actions[:, dimension] = line
    # A point of the line that is an atom would be read as that, and break the curve.
    nudge = 1e-4 * (space.box.upper - space.box.lower)[dimension]
    hit = space.atom_of(actions) >= 0
    actions[hit, dimension] += (
        np.where(actions[hit, dimension] > line.mean(), -1, 1) * nudge
    )
    every = np.concatenate([actions, space.points])
    states, weight, words = base_states(fit, others, AVERAGED)
    groups: list[tuple[str, np.ndarray]] = [("", states)]
    if column is not None:
        groups = _at_values(fit, column, states)
    means, errors = [], []
    for _, rows in groups:
        means.append(weight @ reward.rewards_of(rows, every, fit.temperature))
        errors.append(_mean_errors(reward, rows, weight, every, fit.temperature))
    mean = np.stack(means)
    error = None if errors[0] is None else np.stack(errors)
    return AmountCurves(
        tuple(name for name, _ in groups),
        line,
        mean[:, :POINTS],
        None if error is None else error[:, :POINTS],
        space.points,
        mean[:, POINTS:],
        None if error is None else error[:, POINTS:],
        words,
    )


def _at_values(fit: "Fit", column: Any, states: np.ndarray):
    """The states with a column at some of its values, and these in words."""
    spec, place = require_column(fit, column, "column")
    found = []
    for name, encoded in _values(fit, spec, place):
        rows = states.copy()
        rows[:, place] = encoded
        found.append((name, rows))
    return found


def _values(fit: "Fit", spec: StateColumn, place: slice):
    data, name = require_data(fit), text_of(spec.name, 20)
    if spec.kind == "categorical":
        share = np.append(1 - data.mean[place].sum(), data.mean[place])
        kept = np.sort(np.argsort(-share, kind="stable")[:LEVELS])
        codes = np.eye(len(share))[:, 1:]
        return [(f"{name} = {text_of(spec.categories[k], 20)}", codes[k]) for k in kept]
    if spec.kind == "boolean":
        return [(f"{name} = {value}", np.array([float(value)])) for value in (False, True)]
    numbers = np.unique(data.quantiles[list(PERCENTILES), place.start])
    return [(f"{name} = {value_text(float(x))}", np.array([x])) for x in numbers]


def _mean_errors(reward, states, weight, actions, temperature):
    """Standard errors of the rewards averaged over the states, by action."""
    if not isinstance(reward, AmountReward):
        return None
    mean = weight @ reward.basis.columns(states)
    tiled = np.tile(mean, (len(actions), 1))
    slopes = reward.basis.average(tiled, reward.shapes(actions))
    variance = ((slopes @ reward.covariance) * slopes).sum(axis=1)
    return temperature * np.sqrt(np.maximum(variance, 0.0))


def plot_amounts(
    fit: "Fit",
    column: Any,
    dimension: int,
    others: Others,
    level: float,
    ax: Any,
    new: NewAxes,
    found: AmountCurves | None = None,
) -> Any:
    """Curves over the amount with bands; atoms as points beside them."""
    from scipy.special import ndtri

    check_level(level)
    curves = found or amount_curves(fit, column, dimension=dimension, others=others)
    axes = take_axes(ax, 1, new, size=(6.4, 4.0))
    axis, quantile = axes[0], float(ndtri((1 + level) / 2))
    step = 0.012 * (curves.amount[-1] - curves.amount[0])
    for number, name in enumerate(curves.names):
        colour, values = PALETTE[number % MAX_TOGETHER], curves.reward[number]
        line = LINES[number % MAX_TOGETHER]
        label = name or "mean over the states"
        axis.plot(curves.amount, values, color=colour, linestyle=line, label=label)
        if curves.error is not None:
            half = quantile * curves.error[number]
            axis.fill_between(
                curves.amount,
                values - half,
                values + half,
                color=colour,
                alpha=BAND,
                linewidth=0,
            )
        for place, atom in enumerate(curves.atom):
            error = None if curves.atom_error is None else curves.atom_error[number, place]
            axis.errorbar(
                atom[dimension] + step * (number - (len(curves.names) - 1) / 2),
                curves.atom_reward[number, place],
                None if error is None else quantile * error,
                color=colour,
                marker=MARKERS[number % MAX_TOGETHER],
                markersize=6,
                capsize=2.5,
                linestyle="none",
            )
    reward = reward_of(fit)
    point = reward.shapes.anchor_action[dimension]
    axis.axvline(point, color=ANCHOR["color"], linestyle=(0, (1, 1)), linewidth=1.2)
    _draw_strip(axis, fit, dimension)
    band = f"{100 * level:g} % pointwise bands" if curves.error is not None else "no bands"
    words = [
        curves.others,
        band,
        f"dotted: the anchor {as_label(reward.shapes.anchor_action)}",
    ]
    if len(curves.atom):
        words.append("points: atoms")
    axis.set_title(
        f"Reward by {_noun(fit, dimension)}\n({'; '.join(w for w in words if w)})",
        wrap=True,
    )
    axis.set_xlabel(_noun(fit, dimension))
    axis.set_ylabel("reward")
    axis.grid(axis="y", linewidth=0.6)
    axis.set_axisbelow(True)
    if len(curves.names) > 1:
        axis.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return given_back(axes)


def _noun(fit: "Fit", dimension: int) -> str:
    several = reward_of(fit).shapes.space.dimensions > 1
    return f"amount {dimension}" if several else "amount"


def _draw_strip(axis, fit: "Fit", dimension: int) -> None:
    """A grey strip at the foot: which amounts were chosen, and how often."""
    data, space = require_data(fit), reward_of(fit).shapes.space
    assert data.amount is not None
    inside = space.atom_of(data.amount) < 0
    ends = space.box.lower[dimension], space.box.upper[dimension]
    count, edges = np.histogram(
        data.amount[inside, dimension], 2 * BINS, range=ends, weights=data.weight[inside]
    )
    if not count.max() > 0:
        return
    axis.stairs(
        STRIP * count / count.max(),
        edges,
        fill=True,
        color=ANCHOR["color"],
        alpha=0.35,
        transform=axis.get_xaxis_transform(),
        zorder=0,
    )


def plot_density(fit: "Fit", column: Any, dimension: int, ax: Any, new: NewAxes) -> Any:
    """The fitted density of amounts beside a histogram of those taken, by groups."""
    reward, data = reward_of(fit), require_data(fit)
    assert data.amount is not None
    space = reward.shapes.space
    groups = _groups(fit, column)
    axes = take_axes(ax, len(groups), new, size=(4.4, 3.4), sharey=True)
    low, high = space.box.lower[dimension], space.box.upper[dimension]
    edges = np.linspace(low, high, BINS + 1)
    fine = space.nodes(400) if space.dimensions == 1 else space.nodes(100)
    atom = space.atom_of(data.amount)
    for axis, (name, rows) in zip(axes, groups, strict=True):
        weight = data.weight[rows] / data.weight[rows].sum()
        inside = atom[rows] < 0
        taken, _ = np.histogram(
            data.amount[rows][inside, dimension], edges, weights=weight[inside]
        )
        few = rows[:: max(1, -(-len(rows) // MAX_STATES))]
        own = data.weight[few] / data.weight[few].sum()
        mass = np.zeros(len(fine))
        for part in np.array_split(np.arange(len(few)), -(-len(few) // 50)):
            states = fit.seen.state[few[part]]
            mass += own[part] @ np.exp(reward.log_densities_of(states, fine.action))
        mass *= fine.weight
        box = fine.atom < 0
        found, _ = np.histogram(fine.action[box, dimension], edges, weights=mass[box])
        axis.stairs(
            BINS * taken, edges, fill=True, color=FAINT, edgecolor=INK, label="in the data"
        )
        if space.dimensions == 1:
            at = fine.action[box, 0]
            axis.plot(at, (mass / fine.weight)[box], color=PALETTE[0], label="fitted")
        else:
            axis.stairs(BINS * found, edges, color=PALETTE[0], linewidth=2, label="fitted")
        said = [
            f"{as_label(point)}: {weight[atom[rows] == place].sum():.1%} in the data, "
            f"{mass[fine.atom == place].sum():.1%} fitted"
            for place, point in enumerate(space.points)
        ]
        axis.set_title("\n".join([name, *said]))
        axis.set_xlabel(_noun(fit, dimension))
    # Only now: a fixed end would stop the shared axis from growing with later panels.
    axes[0].set_ylim(0.0, axes[0].get_ylim()[1])
    axes[0].set_ylabel("density (1 if all are alike)")
    axes[-1].legend(loc="upper right")
    return given_back(axes)


def _groups(fit: "Fit", column: Any) -> list[tuple[str, np.ndarray]]:
    """Rows of the seen states: all, or by thirds or levels of a column."""
    data = require_data(fit)
    counted = np.flatnonzero(data.weight > 0)
    if column is None:
        return [("all states", counted)]
    spec, place = require_column(fit, column, "column")
    states, name = fit.seen.state[counted], text_of(spec.name, 20)
    if spec.kind == "numeric":
        values = states[:, place.start]
        cuts = np.quantile(values, np.linspace(0, 1, GROUPS + 1))
        code = np.clip(np.searchsorted(cuts[1:-1], values, side="right"), 0, GROUPS - 1)
        words = [f"{name} {number_text(a)} to {number_text(b)}" for a, b in pairwise(cuts)]
    else:
        block = states[:, place]
        code = np.where(block.any(axis=1), block.argmax(axis=1) + 1, 0)
        every = spec.categories or (False, True)
        words = [f"{name} = {text_of(level, 20)}" for level in every]
        kept = np.argsort(-np.bincount(code, minlength=len(words)), kind="stable")[:LEVELS]
        code = np.where(np.isin(code, kept), code, -1)
    found = [(word, counted[code == k]) for k, word in enumerate(words)]
    return [(word, rows) for word, rows in found if len(rows)]


def at_amounts(fit: "Fit", actions: Any) -> "Fit":
    """The fit with these amounts, and the anchor, as the actions of its tables."""
    reward: Any = reward_of(fit)
    space, anchor = reward.shapes.space, reward.shapes.anchor_action
    given = as_points(actions, space)
    same = np.all(np.abs(space.centred(given) - space.centred(anchor[None])) < 1e-9, axis=1)
    grid = np.concatenate([anchor[None], given[~same]])
    order = np.lexsort((*grid.T[::-1], space.atom_of(grid) < 0))
    grid = grid[order]
    place = int(np.flatnonzero(order == 0)[0])
    data = require_data(fit)
    if data.amount is not None:
        cell = cells_of(space, grid, data.amount)
        share = np.bincount(cell, data.weight, len(grid))
        rows = np.bincount(cell, minlength=len(grid))
        # How the policy does by these cells is not known: figures of that use the grid.
        unknown = np.full((len(data.expected), len(grid)), np.nan)
        told = {"expected": unknown, "observed": unknown, "error": unknown, "rows": rows}
        data = replace(data, action=cell, share=share / share.sum(), **told)
    value = fit.estimate
    shown = replace(reward, grid=grid)
    policy: Any = value.policy
    about = {"reward": shown} if hasattr(policy, "reward") else {"grid": grid}
    return replace(
        fit,
        reward_function=shown,
        actions=tuple(map(as_label, grid)),
        estimate=replace(value, policy=replace(policy, **about), anchor=place),
        data=data,
    )
