"""Draws counterfactuals: rewards and choices by scenario, before and after."""

from typing import Any

import numpy as np

from .._errors import DataError
from ..counterfactual._answer import Counterfactual
from ..counterfactual._changed import AS_SEEN, QUANTITIES, ChangedStates
from ..counterfactual._measures import AMOUNT, SHARE
from ._axes import given_back, take_axes
from ._style import ANCHOR, MAX_TOGETHER, PALETTE, NewAxes, look, text_of

MAX_ROWS = 12  # actions of a counterfactual, those whose probability moves most
WORDS = {"reward": "mean reward", "probability": "mean probability"}


def plot_changed(
    result: ChangedStates, quantity: Any, actions: Any, ax: Any, new: NewAxes
) -> Any:
    """The means of each scenario, with bands where the result has them.

    Hollow where the changed states leave the data's support.
    """
    shown = _quantities(quantity)
    labels = list(result.actions) if actions is None else list(np.atleast_1d(actions))
    if actions is None and len(labels) > MAX_TOGETHER:
        labels = _most_moved(result, labels)
    axes = take_axes(ax, len(shown), new, size=(4.6, 3.6))
    at = np.arange(len(result.labels))
    for axis, name in zip(axes, shown, strict=True):
        for number, label in enumerate(labels):
            _draw(axis, result, name, label, at + 0.06 * (number - (len(labels) - 1) / 2))
        axis.set_ylabel(WORDS[name])
        names = [text_of(label, 24) for label in result.labels]
        long = sum(map(len, names)) > 36
        axis.set_xticks(
            at, names, rotation=40 if long else 0, ha="right" if long else "center"
        )
        axis.set_xlim(-0.4, len(at) - 0.6)
        axis.axvline(0.5, color="0.6", linewidth=0.8, linestyle=":")
        axis.grid(axis="y", linewidth=0.6)
        axis.set_axisbelow(True)
    axes[-1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    band = ""
    if _has_bands(result):
        band = f"; bands {100 * result.level:g} %, over all scenarios at once"
    axes[0].set_title(f"Changed states\n(hollow: outside the data{band})")
    return given_back(axes)


def _quantities(quantity: Any) -> tuple[str, ...]:
    if quantity is None:
        return QUANTITIES
    if quantity not in QUANTITIES:
        raise DataError(f"`quantity` must be one of {QUANTITIES}, not {quantity!r}.")
    return (quantity,)


def _most_moved(result: ChangedStates, labels: list[Any]) -> list[Any]:
    """The actions whose probability changes most, in their own order."""
    moved = [np.ptp(result.mean("probability", label)) for label in labels]
    kept = np.sort(np.argsort(moved)[::-1][:MAX_TOGETHER])
    return [labels[index] for index in kept]


def _draw(axis, result: ChangedStates, quantity: str, label: Any, at: np.ndarray) -> None:
    style = look(list(result.actions).index(label))
    values, error = result.mean(quantity, label), None
    if _has_bands(result):
        band = result.band(quantity, label)
        error = np.abs(np.stack([values - band.low, band.high - values]))
    axis.errorbar(
        at,
        values,
        error,
        color=style["color"],
        linestyle=style["linestyle"],
        linewidth=1.2,
        elinewidth=1.0,
        capsize=2.5,
        label=text_of(label),
    )
    marks = ["ok" if name == AS_SEEN else each.mark for name, each in _supports(result)]
    for place, value, mark in zip(at, values, marks, strict=True):
        face = "white" if mark == "outside" else style["color"]
        axis.plot(
            place, value, style["marker"], color=style["color"], mfc=face, markersize=6
        )


def _supports(result: ChangedStates):
    return zip(result.labels, result.support, strict=True)


def _has_bands(result: ChangedStates) -> bool:
    return result.bootstrap is not None and len(result.bootstrap.draws) > 1


def plot_counterfactual(result: Counterfactual, ax: Any, new: NewAxes) -> Any:
    """What is done before and after: probabilities and mean amounts by horizon."""
    panels: dict[tuple[str, str], list[Any]] = {}
    for each in result.figures:
        if each.quantity in (SHARE, AMOUNT):
            panels.setdefault((each.horizon, each.quantity), []).append(each)
    rows = max(map(len, panels.values()))
    size = (4.8, 1.3 + 0.45 * min(rows, MAX_ROWS))
    axes = take_axes(ax, len(panels), new, size=size)
    for axis, ((horizon, quantity), figures) in zip(axes, panels.items(), strict=True):
        if len(figures) > MAX_ROWS:  # those that move most, in their own order
            moved = np.argsort([-abs(each.change) for each in figures], kind="stable")
            figures = [figures[at] for at in np.sort(moved[:MAX_ROWS])]
        _draw_dumbbells(axis, figures, quantity, result.level)
        axis.set_title(text_of(horizon))
    axes[-1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return given_back(axes)


def _draw_dumbbells(axis, figures: list[Any], quantity: str, level: float) -> None:
    from scipy.special import ndtri

    quantile = float(ndtri((1 + level) / 2))
    at = np.arange(len(figures))
    for name, aside, face, colour in (
        ("before", -0.14, "white", ANCHOR["color"]),
        ("after", 0.14, PALETTE[0], PALETTE[0]),
    ):
        values = np.array([getattr(each, name) for each in figures])
        error = np.array([getattr(each, f"standard_error_{name}") for each in figures])
        axis.errorbar(
            values,
            at + aside,
            xerr=quantile * np.nan_to_num(error),
            fmt="o",
            color=colour,
            markerfacecolor=face,
            elinewidth=1.2,
            label=name,
        )
    names = ["" if each.action is None else each.action for each in figures]
    axis.set_yticks(at, [text_of(name, 24) for name in names])
    axis.set_ylim(len(figures) - 0.5, -0.5)
    axis.set_xlabel(f"{quantity}, {100 * level:g} % intervals")
    axis.grid(axis="x", linewidth=0.6)
    axis.set_axisbelow(True)
