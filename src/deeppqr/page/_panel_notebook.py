"""How a panel shows itself in a notebook: what is in it, and its first decisions."""

from typing import TYPE_CHECKING

import numpy as np

from ..report._html import HtmlTable, plain_name, render

if TYPE_CHECKING:
    from ..panel._panel import Panel

SHOWN = 5  # decisions
MAX_ACTIONS = 12


def panel_html(panel: "Panel") -> str:
    """The HTML of a panel."""
    facts = (
        f"{len(panel):,} decisions by {panel.num_units:,} units; "
        f"{int(panel.has_next.sum()):,} next states seen; "
        f"{int(panel.terminal.sum()):,} rows end the process."
    )
    frame = panel.select(np.arange(len(panel)) < SHOWN).to_frame()
    rows = [[str(value) for value in row] for row in frame.rows()]
    first = HtmlTable(f"The first {len(rows)} decisions", list(frame.columns), rows)
    tables = [first]
    if panel.space is None:
        tables.append(_shares(panel))
    return render("notebook.html.jinja", title="Panel", texts=[facts], tables=tables)


def _shares(panel: "Panel") -> HtmlTable:
    count = np.bincount(panel.action, minlength=panel.num_actions)
    shown = np.argsort(-count, kind="stable")[:MAX_ACTIONS]
    rows = [
        [plain_name(panel.actions[a]), f"{count[a]:,}", f"{count[a] / len(panel):.1%}"]
        for a in shown
    ]
    more = panel.num_actions - len(rows)
    note = f"{more} more actions are taken less often." if more else ""
    return HtmlTable("Actions", ["action", "rows", "share"], rows, note)
