"""The demo's report: the section that compares with the truth, which data never have."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..plots._curves import mean_along, reward_curves
from ..plots._plots import Plots
from ..plots._style import STYLE, bare_axes, figure_of
from ..report._html import HtmlTable
from ._report import write_report
from ._section import ReportFigure, Section
from ._svg import svg_of

if TYPE_CHECKING:
    from .._fit import Fit


def write_demo_report(
    fit: "Fit", truth: Callable[[np.ndarray], Any], scores: Mapping[str, Any], folder: Path
) -> None:
    """Write `report.html` and `recovery.png` into a folder."""
    from matplotlib import rc_context

    column = fit.encoding.names[0]
    axes = Plots(fit, bare_axes).recovery(column, truth)
    with rc_context(STYLE):
        figure_of(axes).savefig(folder / "recovery.png")
    curves = reward_curves(fit, column)
    gap = np.abs(curves.reward - mean_along(fit, curves, truth))
    margin = curves.margin(0.95)
    text = (
        f"Dashed: the true reward along {column}, averaged over states. Left: as "
        f"recovered, at most {gap.max():.3f} away"
    )
    if margin is not None:
        other = [a for a in range(gap.shape[1]) if a != fit.estimate.anchor]
        inside = float(np.mean(gap[:, other] <= margin[:, other]))
        text += f"; {inside:.0%} of the points lie within their 95 % interval"
    text += (
        ". Right: log-odds of each action against the anchor, which hold the value of the "
        "future as well and are often read as a reward."
    )
    figure = ReportFigure("true and recovered reward", svg_of(axes, "truth", text), text)
    rows = [
        [name, f"{each.mse:.3g}", f"{each.nmse:.3g}", f"{each.correlation:.2f}"]
        for name, each in scores.items()
    ]
    note = "At states that were not fitted. An NMSE of 1 is as good as predicting zero."
    head = ["reward recovered by", "MSE", "NMSE", "correlation"]
    table = HtmlTable("Errors against the true reward", head, rows, note)
    section = Section("Against the truth", tables=[table], figures=[figure])
    title = "Demo: a reward recovered from simulated decisions"
    write_report(fit, folder / "report.html", title=title, more=[section])
