"""Draws rewards along one state variable, with bands, and over two as surfaces."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..report._interval import check_level
from ._axes import (
    chosen_actions,
    given_back,
    left_out,
    require_column,
    require_data,
    take_axes,
)
from ._curves import Curves, Others, Surface, reward_curves, reward_surface
from ._style import ANCHOR, FAINT, MAX_TOGETHER, NewAxes, looks, name_places, text_of

if TYPE_CHECKING:
    from .._fit import Fit

STRIP = 0.07  # height of the strip that shows where the data lie, as a share of the axes
BAND = 0.18  # opacity of bands: two of them over each other are still told apart


def plot_curves(
    fit: "Fit",
    column: Any,
    actions: Any,
    others: Others,
    level: float,
    ax: Any,
    new: NewAxes,
    found: Curves | None = None,
) -> Any:
    """Curves of all actions in one pair of axes; an action a pair if they are many."""
    check_level(level)
    shown = chosen_actions(fit, actions)
    curves = found or reward_curves(fit, column, others=others)
    anchor = fit.estimate.anchor
    estimated = [action for action in shown if action != anchor]
    together = len(estimated) <= MAX_TOGETHER
    panels = [shown] if together else [[action] for action in estimated]
    size = (6.4, 4.0) if together else (3.4, 2.7)
    axes = take_axes(ax, len(panels), new, size=size, sharey=True)
    look = looks(shown, anchor)
    for axis, inside in zip(axes, panels, strict=True):
        _draw_curves(axis, fit, curves, inside, look, level)
        if together:
            axis.set_title(_title(fit, curves, shown, actions, level), wrap=True)
            if len(shown) > 1:
                axis.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
        else:
            axis.set_title(f"action {text_of(fit.actions[inside[0]])}")
    if not together and ax is None:
        axes[0].figure.suptitle(
            _title(fit, curves, shown, actions, level), x=0.01, ha="left"
        )
    for axis in axes:
        axis.set_ylabel("reward")
        axis.set_xlabel(text_of(curves.column.name))
    return given_back(axes)


def _title(fit: "Fit", curves: Curves, shown: Sequence[int], actions, level: float) -> str:
    band = f"{100 * level:g} % pointwise bands" if curves.error is not None else "no bands"
    parts = [curves.others, band, left_out(fit, shown, actions)]
    words = "; ".join(part for part in parts if part)
    return f"Reward by {text_of(curves.column.name)}\n({words})"


def _draw_curves(axis, fit, curves: Curves, actions, look, level: float) -> None:
    margin = curves.margin(level)
    at = _places(curves)
    for number, action in enumerate(actions):
        style, values = dict(look[action]), curves.reward[:, action]
        known = action == fit.estimate.anchor
        label = text_of(fit.actions[action]) + (" (anchor, known)" if known else "")
        marker = style.pop("marker")
        if curves.sampled:
            _line(axis, at, values, curves.inside, label, style)
            if margin is not None and not known:
                ends = values - margin[:, action], values + margin[:, action]
                axis.fill_between(at, *ends, color=style["color"], alpha=BAND, linewidth=0)
            continue
        # Values side by side: levels have no between, and error bars must not overlap.
        aside = 0.0 if known else 0.08 * (number - (len(actions) - 1) / 2)
        step = float(np.min(np.diff(at))) if len(at) > 1 else 1.0
        error = None if margin is None or known else margin[:, action]
        line = style["linestyle"] if curves.column.kind == "numeric" or known else "none"
        axis.errorbar(
            at + aside * step,
            values,
            error,
            color=style["color"],
            linestyle=line,
            linewidth=1.2,
            marker=marker,
            markersize=5,
            capsize=2.5,
            label=label,
        )
    axis.grid(axis="y", linewidth=0.6)
    axis.set_axisbelow(True)
    _name_places(axis, curves, at)
    _draw_support(axis, fit, curves)


def _line(axis, at, values, inside, label: str, style: dict[str, Any]) -> None:
    """A line, faint where most of the states averaged over are outside the data."""
    width = style.pop("linewidth", 2.0)
    kept = np.where(inside, values, np.nan)
    # One point more at each end, so that the two parts meet.
    apart = ~inside | np.append(~inside[1:], False) | np.append(False, ~inside[:-1])
    axis.plot(at, kept, label=label, linewidth=width, **style)
    if apart.any():
        beyond = np.where(apart, values, np.nan)
        axis.plot(at, beyond, linewidth=width, alpha=0.35, **style)


def _places(curves: Curves) -> np.ndarray:
    if curves.column.kind == "numeric":
        return np.array(curves.values, dtype=float)
    return np.arange(len(curves.values), dtype=float)


def _name_places(axis, curves: Curves, at: np.ndarray) -> None:
    if curves.column.kind == "numeric":
        if not curves.sampled and len(at) <= 12:
            axis.set_xticks(at)
        return
    name_places(axis, at, [text_of(value, 18) for value in curves.values])
    axis.set_xlim(-0.5, len(at) - 0.5)


def _draw_support(axis, fit: "Fit", curves: Curves) -> None:
    """A grey strip at the foot of the axes: where the data lie, and how densely."""
    data, place = require_data(fit), require_column(fit, curves.column.name, "column")[1]
    if curves.column.kind == "numeric":
        states = fit.seen.state[:, place.start]
        at = _places(curves)
        bins = np.linspace(at[0], at[-1], 41) if curves.sampled else _around(at)
        count, edges = np.histogram(states, bins, weights=data.weight)
    else:
        share = np.append(1 - data.mean[place].sum(), data.mean[place])
        every = curves.column.categories or (False, True)
        count = np.array([share[every.index(value)] for value in curves.values])
        edges = np.arange(len(count) + 1) - 0.5
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


def _around(at: np.ndarray) -> np.ndarray:
    """Edges of bins around values."""
    if len(at) == 1:
        return np.array([at[0] - 0.5, at[0] + 0.5])
    middle = (at[1:] + at[:-1]) / 2
    return np.concatenate([[2 * at[0] - middle[0]], middle, [2 * at[-1] - middle[-1]]])


def plot_surfaces(
    fit: "Fit",
    column: Any,
    second: Any,
    actions: Any,
    others: Others,
    level: float,
    ax: Any,
    new: NewAxes,
) -> Any:
    """A surface for each action but the anchor, in one colour scale."""
    check_level(level)
    anchor = fit.estimate.anchor
    shown = [a for a in chosen_actions(fit, actions) if a != anchor] or [anchor]
    surface = reward_surface(fit, column, second, others=others)
    axes = take_axes(ax, len(shown), new, size=(3.2, 2.8))
    largest = float(np.nanmax(np.abs(surface.reward[..., shown]))) or 1.0
    for axis, action in zip(axes, shown, strict=True):
        mesh = _draw_surface(axis, surface, action, largest, level)
        axis.set_title(f"action {text_of(fit.actions[action])}")
        axis.set_xlabel(text_of(surface.x.column.name))
        axis.set_ylabel(text_of(surface.y.column.name))
        last = axis is axes[-1]
        if last:
            bar = axis.figure.colorbar(mesh, ax=axes, shrink=0.8)
            bar.set_label("reward")
            bar.outline.set_visible(False)
    if ax is None:
        words = [surface.x.others, "hatched: outside the data"]
        if surface.error is not None:
            words.insert(1, f"lines: half width of {100 * level:g} % intervals")
        words = "; ".join(word for word in words if word)
        names = (text_of(each.column.name) for each in (surface.x, surface.y))
        title = f"Reward by {' and '.join(names)}\n({words})"
        axes[0].figure.suptitle(title, x=0.01, ha="left", fontsize=10.5)
    return given_back(axes)


def _draw_surface(axis, surface: Surface, action: int, largest: float, level: float):
    x, y = _places(surface.x), _places(surface.y)
    # Blue to orange through white: the two that no kind of colour blindness confuses.
    mesh = axis.pcolormesh(
        _around(x),
        _around(y),
        surface.reward[..., action],
        cmap=_diverging(),
        vmin=-largest,
        vmax=largest,
        rasterized=True,
    )
    if not surface.inside.all() and min(surface.inside.shape) > 1:
        outside = np.where(surface.inside, np.nan, 1.0)
        axis.contourf(
            x, y, np.nan_to_num(outside), levels=[0.5, 1.5], hatches=["///"], colors="none"
        )
    if surface.error is not None and surface.x.sampled and surface.y.sampled:
        from scipy.special import ndtri

        half = ndtri((1 + level) / 2) * surface.error[..., action]
        lines = axis.contour(x, y, half, levels=4, colors="#101010", linewidths=0.7)
        axis.clabel(lines, fmt="±%.2g", fontsize=7)
    for curves, name_axis in ((surface.x, axis.set_xticks), (surface.y, axis.set_yticks)):
        if curves.column.kind != "numeric":
            places = _places(curves)
            name_axis(places, [text_of(value, 14) for value in curves.values])
    axis.set_facecolor(FAINT)
    return mesh


def _diverging():
    from matplotlib.colors import LinearSegmentedColormap

    colours = ["#0B3C6F", "#0072B2", "#9CC9E3", "#F7F7F7", "#F2BE97", "#D55E00", "#7A2E00"]
    return LinearSegmentedColormap.from_list("deeppqr", colours)
