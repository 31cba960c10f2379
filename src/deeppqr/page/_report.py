"""`fit.report`: one HTML file: what was found, how sure it is, how it was made."""

import json
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from .._errors import DataError
from .._files import check_output, new_file
from .._stage_names import ANCHOR_VALUES, POLICIES, REWARDS
from ..counterfactual._answer import Counterfactual
from ..counterfactual._changed import ChangedStates
from ..counterfactual._measures import AMOUNT, SHARE
from ..counterfactual._sensitivity_table import Sensitivity
from ..plots._axes import require_data
from ..plots._results import plot_changed, plot_counterfactual
from ..plots._sensitivity import plot_sensitivity
from ..plots._style import bare_axes, number_text, quiet_fonts, styled
from ..report._estimates import Estimates
from ..report._grid import Grid
from ..report._html import HtmlTable, digest_of, plain_name, quoted, render, template_source
from . import _contents
from ._amounts import amounts
from ._section import Code, ReportFigure, Section
from ._svg import svg_of
from ._words import Averages, words_of

if TYPE_CHECKING:
    from .._fit import Fit

CITATION = """@inproceedings{geng2020pqr,
  title     = {Deep {PQR}: Solving Inverse Reinforcement Learning using Anchor Actions},
  author    = {Geng, Sinong and Nassif, Houssam and Manzanares, Carlos A. and
               Reppen, A. Max and Sircar, Ronnie},
  booktitle = {Proceedings of the 37th International Conference on Machine Learning},
  year      = {2020}
}"""


def write_report(
    fit: "Fit",
    path: str | Path,
    *,
    results: Any = (),
    title: str | None = None,
    more: Iterable[Section] = (),
) -> Path:
    """Write the report of a fit to a new file; see `Fit.report`."""
    check_output(path, "path")  # before the work, which takes seconds
    page = report_page(fit, results=results, title=title, more=more)
    with new_file(path) as partial:
        partial.write_text(page, encoding="utf-8")
    return Path(path)


def report_page(
    fit: "Fit", *, results: Any = (), title: str | None = None, more: Iterable[Section] = ()
) -> str:
    """The report as HTML."""
    require_data(fit)
    averages = Averages(fit)
    script, panel = template_source("report.js"), fit.provenance["panel"]
    over_amounts = [] if fit.space is None else [amounts(fit)]
    sections = [
        *more,
        *over_amounts,
        _contents.rewards(fit, averages),
        _contents.estimated(fit),
        _contents.identification(fit),
        *_results(results),
        _contents.policy(fit),
        _contents.anchor(fit),
        _contents.extremes(fit, averages),
        _contents.diagnostics(fit),
        _making(fit),
    ]
    return render(
        "report.html.jinja",
        title=plain_name(title or "The reward behind observed decisions"),
        lead=(
            f"{panel['rows']:,} decisions by {panel['units']:,} units; rewards of "
            f"{_actions(fit)}, identified by the anchor {quoted(fit.anchor)}."
        ),
        words=words_of(fit, averages),
        sections=sections,
        version=version("deeppqr"),
        style=Markup(template_source("report.css")),
        script=Markup(script),
        script_digest=Markup(digest_of(script)),
    )


def _actions(fit: "Fit") -> str:
    """What the rewards are of, in words."""
    if fit.space is None:
        return f"{len(fit.actions)} actions"
    return f"amounts in {plain_name(repr(fit.space), 80)}"


def _results(results: Any) -> list[Section]:
    """A section for each table or counterfactual that the user adds."""
    given = results if isinstance(results, Sequence) else [results]
    return [_result_section(each, number) for number, each in enumerate(given)]


def _result_section(result: Any, number: int) -> Section:
    if isinstance(result, ChangedStates):
        return _changed(result, number)
    if isinstance(result, Counterfactual):
        return _counterfactual(result, number)
    if isinstance(result, Sensitivity):
        return _sensitivity(result, number)
    table = result.estimates() if hasattr(result, "estimates") else result
    if isinstance(table, Estimates):
        return Section(table.title, tables=[estimates_table(table)])
    raise DataError(
        "`results` must be tables of estimates or counterfactuals, such as what "
        "fit.project(...) and fit.counterfactual(...) return, but number "
        f"{number} is a {type(result).__name__}."
    )


def estimates_table(table: Estimates) -> HtmlTable:
    """A table of estimates as a page shows it."""
    return _grid_table(table.printed())


def _grid_table(grid: Grid) -> HtmlTable:
    facts = "; ".join(f"{name} {value}" for name, value in grid.facts.items())
    note = ". ".join(part.rstrip(".") for part in [facts, *grid.notes] if part)
    return HtmlTable(grid.title, grid.head, grid.body, f"{note}." if note else "")


def _changed(result: ChangedStates, number: int) -> Section:
    rows = [
        [
            row["scenario"],
            str(row["action"]),
            number_text(row["reward"]),
            f"{row['probability']:.4f}",
            row["mark"],
        ]
        for row in result.rows()
    ]
    head = ["scenario", "action", "reward", "probability", "support"]
    text = "Averages over the states as seen and as changed; hollow: outside the data."
    with styled(None), quiet_fonts():
        axes = plot_changed(result, None, None, None, bare_axes)
    svg = svg_of(axes, f"result{number}", text)
    table = HtmlTable("Average reward and choice by scenario", head, rows)
    figure = ReportFigure("changed states", svg, text)
    return Section("Counterfactual: changed states", tables=[table], figures=[figure])


def _counterfactual(result: Counterfactual, number: int) -> Section:
    with styled(None), quiet_fonts():
        axes = plot_counterfactual(result, None, bare_axes)
    said = [
        f"{each.name} {each.before:.3f} before, {each.after:.3f} after"
        for each in result.figures
        if each.quantity in (SHARE, AMOUNT)
    ]
    text = f"Choices before (hollow) and after (filled): {'; '.join(said)}."
    figure = ReportFigure(result.title, svg_of(axes, f"result{number}", text), text)
    table = _grid_table(result.printed())
    return Section(f"Counterfactual: {result.title}", [], [table], [figure])


def _sensitivity(result: Sensitivity, number: int) -> Section:
    with styled(None), quiet_fonts():
        axes = plot_sensitivity(result, None, None, bare_axes)
    text = (
        "Average rewards as fitted, at the left of each panel, and under other "
        "assumptions; the table has the figures."
    )
    figure = ReportFigure("sensitivity", svg_of(axes, f"result{number}", text), text)
    return Section("Sensitivity", [], [_grid_table(result.printed())], [figure])


def _making(fit: "Fit") -> Section:
    """How the fit was made, how to make it again, and whom to cite."""
    made = fit.provenance
    rows = [
        [f"seconds for {name}", f"{value:.1f}"] for name, value in made["seconds"].items()
    ]
    rows += [[name, value] for name, value in made["versions"].items()]
    rows.append(["checksum of the decisions", made["panel"]["digest"]])
    return Section(
        "How it was made",
        ["The same data, settings, seed and versions give the same figures again."],
        [HtmlTable("Times and versions", ["", "value"], rows)],
        codes=[Code("To fit again", program(fit)), Code("To cite", CITATION)],
    )


def program(fit: "Fit") -> str:
    """The program that makes this fit, as far as its settings are plain values."""
    defaults = {"anchor_reward": 0.0, "temperature": 1.0, "clip": None, "seed": 0}
    defaults |= {"policy": "auto", "anchor_value": "auto", "reward": "auto"}
    settings = [
        f"    {name}={_written(name, value)},"
        for name, value in fit.provenance["settings"].items()
        if name not in defaults or defaults[name] != value
    ]
    states = ", ".join(json.dumps(str(name)) for name in fit.encoding.names)
    space = "" if fit.space is None else f" actions=deeppqr.{fit.space!r},"
    space = space.replace("box=Box", "box=deeppqr.Box")
    return "\n".join(
        [
            "import deeppqr",
            "",
            f"panel = deeppqr.Panel.from_frame(frame, state=[{states}],",
            f"                                 action=...,{space} unit=..., time=...)",
            "model = deeppqr.PQR(",
            *settings,
            ")",
            "fit = model.fit(panel)",
            f'assert panel.digest == "{fit.provenance["panel"]["digest"]}"',
        ]
    )


def _written(name: str, value: Any) -> str:
    """A setting as Python; stages that are no names are stored as they print."""
    stages = {"policy": POLICIES, "anchor_value": ANCHOR_VALUES, "reward": REWARDS}
    printed = name in stages and value not in stages[name]
    return json.dumps(value) if isinstance(value, str) and not printed else str(value)
