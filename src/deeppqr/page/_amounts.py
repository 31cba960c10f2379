"""The section of a report that only fits over amounts have: rewards over the amount."""

from typing import TYPE_CHECKING

from ..plots._amounts import AmountCurves, amount_curves, plot_amounts
from ..plots._curves import reward_curves
from ..plots._plots import Plots
from ..plots._style import bare_axes, number_text, quiet_fonts, styled
from ..report._estimates import NORMAL_975
from ..report._html import HtmlTable, plain_name
from ._section import ReportFigure, Section
from ._svg import svg_of

if TYPE_CHECKING:
    from .._fit import Fit

LEVEL = 0.95
NUMBERS = 9  # points of a curve in the table of its numbers
SCREENED = 24  # columns among which the one that moves rewards most is sought


def amounts(fit: "Fit") -> Section:
    """Curves over the amount, over all states and by the column that matters most."""
    assert fit.space is not None
    found = {name: reward_curves(fit, name) for name in fit.encoding.names[:SCREENED]}
    main = max(found, key=lambda name: found[name].spread)
    figures = []
    for dimension in range(fit.space.dimensions):
        for column in (None, main):
            figures.append(_curves(fit, column, dimension))
        figures.append(_density(fit, main, dimension))
    volume = fit.space.log_volume
    text = (
        "Amounts count by a measure in which the box has mass one and each atom has mass "
        f"one; a log density per unit of the amount is smaller by {number_text(volume)}. "
        "In the sections below rewards are of amounts on a grid, and shares those of all "
        "amounts nearest to them."
    )
    return Section("Rewards over the amount", [text], figures=figures)


def _curves(fit: "Fit", column: str | None, dimension: int) -> ReportFigure:
    curves = amount_curves(fit, column, dimension=dimension)
    said = " ".join(curves.sentence(place) for place in range(len(curves.names)))
    by = "" if column is None else f", by {plain_name(column, 40)}"
    which = "" if dimension == 0 else f" {dimension}"
    text = f"Reward by the amount{which}{by}. {said}".replace(r"\$", "$")
    with styled(None), quiet_fonts():
        told = (column, dimension, "average", LEVEL, None, bare_axes, curves)
        axes = plot_amounts(fit, *told)
    svg = svg_of(axes, f"amount{dimension}{'' if column is None else 'by'}", text)
    return ReportFigure(f"reward by amount{which}{by}", svg, text, _numbers(curves))


def _numbers(curves: AmountCurves) -> HtmlTable:
    every = (len(curves.amount) - 1) // (NUMBERS - 1)
    rows = []
    for point in range(0, len(curves.amount), every):
        row = [number_text(float(curves.amount[point]))]
        for place in range(len(curves.names)):
            error = None if curves.error is None else curves.error[place, point]
            row.append(_cell(curves.reward[place, point], error))
        rows.append(row)
    for at, atom in enumerate(curves.atom):
        row = [f"{', '.join(number_text(float(x)) for x in atom)} (atom)"]
        for place in range(len(curves.names)):
            error = None if curves.atom_error is None else curves.atom_error[place, at]
            row.append(_cell(curves.atom_reward[place, at], error))
        rows.append(row)
    head = ["amount", *(name.replace(r"\$", "$") or "reward" for name in curves.names)]
    note = "" if curves.error is None else "± half the width of the 95 % interval."
    return HtmlTable("Reward by the amount", head, rows, note)


def _cell(value: float, error: float | None) -> str:
    shown = number_text(float(value))
    if error is None or not error > 0:
        return shown
    return f"{shown} ± {number_text(float(NORMAL_975 * error))}"


def _density(fit: "Fit", column: str, dimension: int) -> ReportFigure:
    by = plain_name(column, 40)
    text = (
        f"The amounts taken, by {by}: a histogram of the data, and the fitted density "
        "averaged over the same states. A density of one is that of choosing any amount "
        "alike."
    )
    axes = Plots(fit, bare_axes).density(column, dimension=dimension)
    svg = svg_of(axes, f"density{dimension}", text)
    return ReportFigure(f"density of amounts by {by}", svg, text)
