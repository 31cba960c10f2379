"""The table of average slopes that a report shows beside the curves."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .._errors import DeepPQRError
from ..inference._functionals import slopes
from ..plots._axes import chosen_actions
from ..plots._style import number_text
from ..report._html import HtmlTable, plain_name
from ._words import Averages

if TYPE_CHECKING:
    from .._fit import Fit
    from ..report._estimates import Estimates

# Columns of the table: more do not fit on a page, and `fit.slopes` has them all.
MOST = 10


def slopes_table(fit: "Fit", names: Sequence[str], averages: Averages) -> list[HtmlTable]:
    """`fit.slopes` of some state columns, actions by columns; no table without errors."""
    if averages.error is None:
        return []
    shown = [a for a in chosen_actions(fit, None) if a != fit.estimate.anchor]
    head, cells, left = [""], [[] for _ in shown], []
    for name in names:
        try:
            found = slopes(
                fit, name, actions=[fit.actions[a] for a in shown], weights=averages.weight
            )
        except DeepPQRError:  # a table of rewards in which no state has a neighbour
            left.append(name)
            continue
        # Of a category a run of actions for each pair of levels.
        pairs = len(found.names) // len(shown)
        if len(head) + pairs > MOST + 1:
            left.append(name)
            continue
        for pair in range(pairs):
            part = slice(pair * len(shown), (pair + 1) * len(shown))
            head.append(_heading(found, name, part.start))
            figures = zip(found.values[part], found.standard_errors[part], strict=True)
            for row, (value, error) in zip(cells, figures, strict=True):
                row.append(f"{number_text(value)} ({number_text(error)})")
    if len(head) == 1:
        return []
    rows = [[plain_name(fit.actions[a]), *row] for a, row in zip(shown, cells, strict=True)]
    return [HtmlTable("Average slope of the reward", head, rows, _note(left))]


def _heading(found: "Estimates", name: str, at: int) -> str:
    """The column, with the pair of levels where it is a category."""
    column = plain_name(name, 40)
    pair = found.labels.get(name)
    return column if pair is None else f"{column}: {plain_name(pair[at], 40)}"


def _note(left: Sequence[str]) -> str:
    note = (
        "Mean change of the reward per unit of a state variable, all else equal, over the "
        "states of the data; of a category the difference between levels. Standard errors "
        "in brackets, clustered by unit."
    )
    if left:
        named = ", ".join(plain_name(name, 40) for name in left)
        note += f" Not shown: {named}; fit.slopes(column) has what there is."
    return note
