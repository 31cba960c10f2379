"""Draws what there is to check: the policy against the data, the anchor, the verdicts."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..report._estimates import NORMAL_975 as NORMAL_95
from ._axes import chosen_actions, given_back, inside_box, left_out, require_data, take_axes
from ._style import ANCHOR, FAINT, INK, PALETTE, NewAxes, looks, number_text, text_of

if TYPE_CHECKING:
    from .._fit import Fit

# Verdicts by place, colour and sign: none of the three alone carries the meaning.
VERDICTS = {
    "ok": (0, PALETTE[2], "o"),
    "watch": (1, PALETTE[4], "^"),
    "trouble": (2, PALETTE[1], "X"),
    "no signal": (2, PALETTE[1], "X"),
}
SMALL = 1e-3  # an anchor's probability below which its logarithm is extrapolated


@dataclass(frozen=True)
class Calibration:
    """How far the policy's probabilities are from what was done, in two numbers."""

    groups: int
    """Tenths of the states, by action."""
    apart: int
    """Of these, how many lie beyond two standard errors."""
    largest: float
    """The largest difference of a share."""


def calibration(fit: "Fit") -> Calibration:
    """A summary of the calibration plot."""
    data = require_data(fit)
    gap = np.abs(data.observed - data.expected)
    known = np.isfinite(gap)
    apart = known & (gap > NORMAL_95 * data.error) & (gap > 1e-9)
    largest = float(gap[known].max(initial=0.0))
    return Calibration(int(known.sum()), int(apart.sum()), largest)


def plot_policy(fit: "Fit", actions: Any, ax: Any, new: NewAxes) -> Any:
    """Observed shares against the policy's probabilities, in tenths of the states."""
    data, shown = require_data(fit), chosen_actions(fit, actions)
    axes = take_axes(ax, 1, new, size=(5.6, 4.2))
    axis, style = axes[0], looks(shown, fit.estimate.anchor)
    low, high = 1.0, 0.0
    for action in shown:
        look, expected = dict(style[action]), data.expected[:, action]
        known = np.isfinite(expected)
        points = [*expected[known], *data.observed[known, action]]
        low, high = min(low, *points), max(high, *points)
        axis.errorbar(
            expected[known],
            data.observed[known, action],
            NORMAL_95 * data.error[known, action],
            color=look["color"],
            marker=look["marker"] or "x",
            markersize=5,
            linestyle="none",
            elinewidth=1.0,
            label=text_of(fit.actions[action])
            + (" (anchor)" if action == fit.estimate.anchor else ""),
        )
    axis.plot([low, high], [low, high], color=INK, linewidth=0.8, zorder=0)
    axis.grid(linewidth=0.6)
    axis.set_axisbelow(True)
    axis.set_xlabel("probability by the policy")
    axis.set_ylabel("share in the data")
    words = "tenths of the states; 95 % intervals, clustered by unit"
    if fit.space is not None:
        words = f"shares of amounts nearest to each; {words}"
    more = left_out(fit, shown, actions)
    said = "; ".join(filter(None, [words, more]))
    axis.set_title(f"Policy against the data\n({said})", wrap=True)
    axis.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return given_back(axes)


def plot_anchor(fit: "Fit", ax: Any, new: NewAxes) -> Any:
    """How likely the anchor is over the states of the data, and where it was taken."""
    data, anchor = require_data(fit), fit.estimate.anchor
    log_prob = fit.estimate.policy.log_prob(fit.seen.state)[:, anchor]
    prob, taken = np.exp(log_prob), data.action == anchor
    axes = take_axes(ax, 1, new, size=(5.6, 3.6))
    axis = axes[0]
    low, high = max(float(prob.min()), 1e-12), float(prob.max())
    logarithmic = high > 20 * low
    space = np.geomspace if logarithmic else np.linspace
    # Wider than the range, so that a constant policy has a bar.
    bins = space(low * 0.98, max(1.02 * high, 1.05 * low), 31)
    weight = data.weight / data.weight.sum()
    common = {"bins": bins, "edgecolor": INK, "linewidth": 0.5}
    everywhere = {"color": FAINT, "label": "all decisions"}
    axis.hist(np.maximum(prob, low), weights=weight, **everywhere, **common)
    near = "nearest" if inside_box(fit) else "taken"
    there = {"color": PALETTE[0], "hatch": "//", "label": f"those in which it was {near}"}
    axis.hist(np.maximum(prob[taken], low), weights=weight[taken], **there, **common)
    if logarithmic:
        axis.set_xscale("log")
        axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    if low < SMALL:
        axis.axvspan(bins[0], SMALL, color=PALETTE[1], alpha=0.12, linewidth=0)
    axis.axvline(float(prob.min()), color=ANCHOR["color"], linestyle="--", linewidth=1.0)
    noun, taken_in = "probability", "taken in"
    if inside_box(fit):
        noun, taken_in = "density", "nearest of the grid in"
    axis.set_xlabel(f"estimated {noun} of the anchor in a state")
    axis.set_ylabel("share of decisions")
    axis.set_title(
        f"Support of the anchor {text_of(fit.anchor)}\n({taken_in} "
        f"{data.share[anchor]:.1%} of decisions; smallest {noun} "
        f"{number_text(float(prob.min()))})"
    )
    axis.legend(loc="upper right")
    axis.margins(y=0.25)
    return given_back(axes)


def plot_diagnostics(fit: "Fit", ax: Any, new: NewAxes) -> Any:
    """Every figure with its verdict, the worst first."""
    figures = sorted(fit.diagnostics, key=lambda each: -VERDICTS[each.verdict][0])
    axes = take_axes(ax, 1, new, size=(6.4, 0.6 + 0.3 * len(figures)))
    axis = axes[0]
    for row, figure in enumerate(figures):
        place, color, marker = VERDICTS[figure.verdict]
        axis.plot(place, row, marker, color=color, markersize=9)
        axis.annotate(
            figure.verdict, (place, row), (9, 0), textcoords="offset points", va="center"
        )
        axis.annotate(
            number_text(figure.value),
            (1.0, row),
            xycoords=axis.get_yaxis_transform(),
            ha="right",
            va="center",
        )
    axis.set_yticks(range(len(figures)), [each.name for each in figures])
    axis.set_ylim(len(figures) - 0.4, -0.6)
    axis.set_xlim(-0.3, 3.6)
    axis.set_xticks([])
    axis.spines["bottom"].set_visible(False)
    axis.grid(axis="y", linewidth=0.5)
    axis.set_axisbelow(True)
    warned = len(fit.diagnostics.warnings)
    axis.set_title(f"Diagnostics ({warned} of {len(figures)} need attention)")
    return given_back(axes)
