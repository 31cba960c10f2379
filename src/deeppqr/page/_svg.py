"""Figures as SVG in the page: its text and lines take the page's colours, light or dark."""

import io
import re
from typing import TYPE_CHECKING, Any

from ..plots._style import ANCHOR, FAINT, INK, STYLE, figure_of, quiet_fonts

if TYPE_CHECKING:
    from markupsafe import Markup

# Colours of the page, which change with the reader's light or dark screen.
PAGE_COLOURS = {INK: "currentColor", FAINT: "var(--rule)", ANCHOR["color"]: "var(--quiet)"}
# References to parts of a figure, which must differ between the figures of a page.
PART = re.compile(r'(\bid="|url\(#|href="#)')


def svg_of(axes, name: str, words: str) -> "Markup":
    """The figure of some axes as SVG, with `words` as its text for screen readers."""
    from markupsafe import Markup, escape
    from matplotlib import rc_context

    buffer = io.StringIO()
    # Text as text, so that it can be searched; a fixed salt, so that runs do not differ.
    settings: dict[Any, Any] = STYLE | {"svg.fonttype": "none", "svg.hashsalt": name}
    with rc_context(settings), quiet_fonts():
        figure_of(axes).savefig(
            buffer, format="svg", transparent=True, metadata={"Date": None}
        )
    drawn = buffer.getvalue()
    drawn = drawn[drawn.index("<svg") :]
    drawn = re.sub(r"<metadata>.*?</metadata>", "", drawn, flags=re.S)
    for colour, ours in PAGE_COLOURS.items():
        drawn = drawn.replace(colour, ours)
    drawn = PART.sub(lambda found: f"{found[0]}{name}-", drawn)
    head, body = drawn.split(">", 1)
    # The size follows the page's width; the view box keeps the proportions.
    head = re.sub(r' (width|height)="[^"]*"', "", head)
    return Markup(f'{head} role="img" aria-label="{escape(words)}">{body}')
