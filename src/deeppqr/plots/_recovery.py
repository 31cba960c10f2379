"""Draws a reward against a truth that is known, beside naive log-odds."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ._axes import chosen_actions, given_back, take_axes
from ._curves import mean_along, reward_curves
from ._reward import BAND
from ._style import NewAxes, looks, text_of

if TYPE_CHECKING:
    from .._fit import Fit


def plot_recovery(
    fit: "Fit", column: Any, truth: Callable[[np.ndarray], Any], ax: Any, new: NewAxes
) -> Any:
    """True and recovered reward with bands on the left, true reward and log-odds right."""
    curves = reward_curves(fit, column)
    true = mean_along(fit, curves, truth)
    anchor = fit.estimate.anchor

    def log_odds(states: np.ndarray) -> np.ndarray:
        log_policy = fit.log_policy(states)
        return log_policy - log_policy[:, [anchor]]

    naive = fit.temperature * mean_along(fit, curves, log_odds)
    axes = take_axes(ax, 2, new, size=(4.6, 3.9), sharey=True)
    shown = [a for a in chosen_actions(fit, None) if a != anchor]
    styles, margin = looks(shown, anchor), curves.margin(0.95)
    titles = ("Recovered by deeppqr, with 95 % bands", "Log-odds read as a reward")
    for axis, title, values in zip(axes, titles, (curves.reward, naive), strict=True):
        for action in shown:
            colour = styles[action]["color"]
            axis.plot(curves.values, true[:, action], color=colour, linewidth=1.2, ls="--")
            label = f"action {text_of(fit.actions[action])}"
            axis.plot(
                curves.values, values[:, action], color=colour, linewidth=2.2, label=label
            )
            if values is curves.reward and margin is not None:
                ends = (
                    values[:, action] - margin[:, action],
                    values[:, action] + margin[:, action],
                )
                axis.fill_between(
                    curves.values, *ends, color=colour, alpha=BAND, linewidth=0
                )
        axis.set_title(title)
        axis.set_xlabel(text_of(curves.column.name))
        axis.grid(axis="y", linewidth=0.6)
        axis.set_axisbelow(True)
    axes[0].set_ylabel(f"reward, beyond the anchor {text_of(fit.anchor)}")
    axes[1].plot([], [], color="0.35", linewidth=1.2, ls="--", label="true reward")
    axes[1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return given_back(axes)
