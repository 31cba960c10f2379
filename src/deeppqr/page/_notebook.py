"""How a fit shows itself in a notebook: the verdict, its figures, average rewards."""

from typing import TYPE_CHECKING

from ..report._html import HtmlTable, quoted, render
from . import _contents
from ._words import Averages, words_of

if TYPE_CHECKING:
    from .._fit import Fit


def fit_html(fit: "Fit") -> str:
    """The HTML of a fit."""
    panel = fit.provenance["panel"]
    facts = (
        f"{panel['rows']:,} decisions by {panel['units']:,} units, anchor "
        f"{quoted(fit.anchor)}, discount {fit.discount:g}, temperature "
        f"{fit.temperature:g}."
    )
    texts, tables = [facts], []
    if fit.data is not None:
        averages = Averages(fit)
        texts.append(words_of(fit, averages).verdict)
        tables.append(_contents.averages_table(fit, averages))
    rows = [[each.name, f"{each.value:.4g}", each.verdict] for each in fit.diagnostics]
    tables.append(HtmlTable("Diagnostics", ["", "value", "verdict"], rows))
    return render(
        "notebook.html.jinja", title="Fit: rewards by PQR", texts=texts, tables=tables
    )
