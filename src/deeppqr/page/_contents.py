"""The sections of a report: what was estimated, rewards, policy, anchor, states, making."""

from typing import TYPE_CHECKING

import numpy as np

from ..plots._axes import chosen_actions, inside_box
from ..plots._checks import SMALL, calibration
from ..plots._curves import (
    Curves,
    describe,
    errors_of_means,
    knows_cells_only,
    reward_curves,
)
from ..plots._plots import Plots
from ..plots._reward import plot_curves
from ..plots._style import bare_axes, number_text, quiet_fonts, styled, value_text
from ..report._estimates import NORMAL_975
from ..report._html import HtmlTable, plain_name, quoted
from ..report._identification import lump_note, sentences, terminal_actions
from ._section import ReportFigure, Section
from ._slopes import slopes_table
from ._svg import svg_of
from ._words import Averages

if TYPE_CHECKING:
    from .._fit import Fit

# A report of many columns takes long to draw and longer to read: those that move rewards
# most are drawn, and the others are named.
MAX_COLUMNS, SCREENED = 8, 24
LISTED = 5  # states at the top and at the bottom
LEVEL = 0.95
NUMBERS = 9  # points of a curve in the table of its numbers


def estimated(fit: "Fit") -> Section:
    """What was estimated from what."""
    panel = fit.provenance["panel"]
    rows = [
        ["decisions", f"{panel['rows']:,}"],
        ["units", f"{panel['units']:,}"],
        ["next states seen", f"{panel['next_states']:,}"],
        ["rows at which the process ends", f"{panel['terminal']:,}"],
        ["state variables", ", ".join(plain_name(c, 40) for c in fit.encoding.columns)],
        ["actions", _actions(fit)],
        ["anchor", plain_name(fit.anchor)],
        ["discount per period", f"{fit.discount:g}"],
        ["temperature", f"{fit.temperature:g}"],
    ]
    stages = [[name.replace("_", " "), note] for name, note in fit.stages.items()]
    return Section(
        "What was estimated from what",
        tables=[
            HtmlTable("Data and settings", ["", "value"], rows),
            HtmlTable("Stages", ["stage", "how, and why"], stages),
        ],
    )


def identification(fit: "Fit") -> Section:
    """Which assumptions make the rewards known: the statement of `fit.identification`."""
    soft = (
        "Choices are soft if the probability of an action is proportional to "
        "exp(Q / temperature), where Q is the reward now plus the discounted value of what "
        "follows."
    )
    return Section("Identification", [*sentences(fit), soft])


def rewards(fit: "Fit", averages: Averages) -> Section:
    """Averages, curves along the columns that matter, and one surface."""
    names = fit.encoding.names
    found = {name: reward_curves(fit, name) for name in names[:SCREENED]}
    order = sorted(found, key=lambda name: -_finite(found[name].spread))
    shown = [name for name in names if name in order[:MAX_COLUMNS]]
    figures = [_curve_figure(fit, found[name], f"curve{i}") for i, name in enumerate(shown)]
    if len(order) > 1 and not knows_cells_only(fit):
        figures.append(_surface_figure(fit, order[0], order[1]))
    texts = []
    if len(shown) < len(names):
        texts.append(
            f"Curves of {len(shown)} of {len(names)} state variables, those that move "
            "rewards most."
        )
    tables = [averages_table(fit, averages), *slopes_table(fit, shown, averages)]
    return Section("Rewards", texts, tables, figures)


def policy(fit: "Fit") -> Section:
    """The policy's calibration and the shares of all actions."""
    data, found = fit.data, calibration(fit)
    assert data is not None
    text = (
        "Each point is a tenth of the states. On the line the policy is right; "
        f"{found.apart} of {found.groups} points lie beyond their 95 % interval, the "
        f"farthest by {found.largest:.3f}."
    )
    axes = Plots(fit, bare_axes).policy()
    figure = ReportFigure("Policy against the data", svg_of(axes, "policy", text), text)
    expected = np.nanmean(data.expected, axis=0)
    rows = [
        [
            plain_name(label),
            f"{data.rows[a]:,}",
            f"{data.share[a]:.4f}",
            f"{expected[a]:.4f}",
        ]
        for a, label in enumerate(fit.actions)
    ]
    head = ["action", "rows", "share", "mean probability"]
    table = HtmlTable("How often each action is taken", head, rows)
    return Section("The policy against the data", tables=[table], figures=[figure])


def anchor(fit: "Fit") -> Section:
    """The anchor's support."""
    prob = np.exp(fit.estimate.policy.log_prob(fit.seen.state)[:, fit.estimate.anchor])
    low, middle, high = np.quantile(prob, [0.0, 0.5, 1.0])
    noun = "density" if inside_box(fit) else "probability"
    text = (
        f"Over the states of the data the anchor's {noun} is {number_text(low)} to "
        f"{number_text(high)}, {number_text(middle)} in the median."
    )
    rare = float(np.mean(prob < SMALL))
    if rare:
        text += (
            f" In {rare:.1%} of the states it is below {SMALL:g}: levels there are a guess."
        )
    axes = Plots(fit, bare_axes).anchor()
    figure = ReportFigure("Support of the anchor", svg_of(axes, "anchor", text), text)
    return Section("The anchor's support", figures=[figure])


def extremes(fit: "Fit", averages: Averages) -> Section:
    """States with the largest and the smallest rewards of the main action."""
    shown = [a for a in chosen_actions(fit, None) if a != fit.estimate.anchor]
    spread = np.array([np.nanstd(averages.rewards[:, a]) for a in shown])
    action = shown[int(np.nanargmax(np.where(np.isfinite(spread), spread, -1.0)))]
    values = averages.rewards[:, action]
    known = np.flatnonzero(np.isfinite(values))
    order = known[np.argsort(values[known], kind="stable")]
    head = ["state", "reward", "s.e.", "probability" if fit.space is None else "density"]
    tables = [
        HtmlTable(f"The {LISTED} {word} rewards", head, _states(fit, rows, action, values))
        for word, rows in (("highest", order[::-1]), ("lowest", order))
    ]
    text = (
        f"Of action {quoted(fit.actions[action])}, whose reward differs most "
        "between states, among states that were seen; one state for each unit."
    )
    return Section("States with the highest and the lowest reward", [text], tables)


def diagnostics(fit: "Fit") -> Section:
    """All diagnostics with their meaning and what to do."""
    rows = [
        [each.name, number_text(each.value), each.verdict, each.meaning, each.advice]
        for each in fit.diagnostics
    ]
    head = ["diagnostic", "value", "verdict", "meaning", "what to do"]
    return Section("Diagnostics", tables=[HtmlTable("Every diagnostic", head, rows)])


def averages_table(fit: "Fit", averages: Averages) -> HtmlTable:
    tails = np.nanquantile(averages.rewards, [0.05, 0.95], axis=0)
    rows, error, lumps = [], averages.error, terminal_actions(fit)
    # Lump sums last: they are not to be read beside payments per period.
    for action in sorted(range(len(fit.actions)), key=lambda action: action in lumps):
        label = fit.actions[action]
        known = action == fit.estimate.anchor
        mean = averages.mean[action]
        cells = ["-", "-", "-"]
        if error is not None and not known:
            half = NORMAL_975 * error[action]
            cells = [
                number_text(each) for each in (error[action], mean - half, mean + half)
            ]
        name = plain_name(label) + (" (anchor, known)" if known else "")
        name += ", once" if action in lumps else ""
        rows.append([name, number_text(mean), *cells, *map(number_text, tails[:, action])])
    head = [
        "action",
        "mean",
        "s.e.",
        "95% low",
        "95% high",
        "5% of states",
        "95% of states",
    ]
    note = (
        "Means over the states of the data; the last two columns are quantiles over these "
        "states, not errors."
    )
    if lumps:
        note += f" {lump_note(fit)}"
    return HtmlTable("Average reward of each action", head, rows, note)


def _curve_figure(fit: "Fit", curves: Curves, name: str) -> ReportFigure:
    column = plain_name(curves.column.name, 40)
    shown = chosen_actions(fit, None)
    said = [curves.sentence(action, fit.actions[action], LEVEL) for action in shown]
    text = f"Reward by {column}. {' '.join(said)}".replace(r"\$", "$")
    with styled(None), quiet_fonts():
        name_of = curves.column.name
        axes = plot_curves(fit, name_of, None, "average", LEVEL, None, bare_axes, curves)
    numbers = _curve_numbers(fit, curves, shown)
    svg = svg_of(axes, name, text)
    return ReportFigure(f"reward by {column}", svg, text, numbers)


def _curve_numbers(fit: "Fit", curves: Curves, shown: list[int]) -> HtmlTable:
    count = len(curves.values)
    points = np.arange(count)
    if curves.sampled:
        points = np.unique(np.linspace(0, count - 1, NUMBERS).round().astype(int))
    margin = curves.margin(LEVEL)
    rows = []
    for point in points:
        row = [value_text(curves.values[point]).replace(r"\$", "$")]
        for action in shown:
            cell = number_text(curves.reward[point, action])
            if margin is not None and margin[point, action] > 0:
                cell += f" ± {number_text(margin[point, action])}"
            row.append(cell)
        rows.append(row)
    head = [plain_name(curves.column.name, 40)]
    head += [plain_name(fit.actions[action], 40) for action in shown]
    note = "± half the width of the 95 % interval." if margin is not None else ""
    return HtmlTable(f"Reward by {head[0]}", head, rows, note)


def _surface_figure(fit: "Fit", first: str, second: str) -> ReportFigure:
    title = f"reward by {plain_name(first, 40)} and {plain_name(second, 40)}"
    text = (
        f"Surfaces of the {title}, the two variables that move rewards most, other "
        "variables averaged. Lines: half the width of the 95 % interval. Hatched: outside "
        "the data."
    )
    axes = Plots(fit, bare_axes).reward(first, second)
    return ReportFigure(title, svg_of(axes, "surface", text), text)


def _states(fit: "Fit", rows: np.ndarray, action: int, values: np.ndarray):
    """Table rows of the first of these states, one for each unit and none twice."""
    chosen, units, states = [], set(), set()
    several = len(np.unique(fit.seen.unit)) > 2 * LISTED
    for row in rows:
        unit, state = int(fit.seen.unit[row]), fit.seen.state[row].tobytes()
        if state in states or (several and unit in units):
            continue
        chosen.append(int(row))
        units.add(unit)
        states.add(state)
        if len(chosen) == LISTED:
            break
    state = fit.seen.state[chosen]
    prob = np.exp(fit.estimate.policy.log_prob(state))[:, action]
    found = errors_of_means(fit, state, np.ones(1))
    error = None if found is None else found[:, action]
    return [
        [
            describe(fit, state[at : at + 1], limit=8).replace(r"\$", "$"),
            number_text(float(values[row])),
            "-" if error is None else number_text(float(error[at])),
            f"{prob[at]:.3f}",
        ]
        for at, row in enumerate(chosen)
    ]


def _actions(fit: "Fit") -> str:
    if fit.space is not None:
        return plain_name(repr(fit.space), 120)
    return _first_of([plain_name(a, 40) for a in fit.actions])


def _first_of(names: list[str], limit: int = 20) -> str:
    more = len(names) - limit
    return ", ".join(names[:limit]) + (f" and {more} more" if more > 0 else "")


def _finite(value: float) -> float:
    return value if np.isfinite(value) else -1.0
