"""The look of all figures: colours, lines, text, and where axes come from."""

import unicodedata
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..report._figures import FAINT as FAINT
from ..report._figures import INK as INK
from ..report._figures import PALETTE as PALETTE
from ..report._figures import STYLE as STYLE

# Figures are also printed in black and white.
LINES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)))
MARKERS = ("o", "s", "D", "^", "v", "P")
ANCHOR = {"color": "#6b6b6b", "linestyle": (0, (1, 1)), "linewidth": 1.4, "marker": ""}
MAX_TOGETHER = len(PALETTE)  # actions in one pair of axes
MAX_TEXT = 32  # characters of a name or label in a figure
NewAxes = Callable[..., Any]


def text_of(value: Any, limit: int = MAX_TEXT) -> str:
    """A name or label as a figure can show it: one short line, and no formula."""
    # Characters that control the direction of text would reorder the words around it.
    plain = "".join(
        " " if letter.isspace() else "\ufffd" if _controls(letter) else letter
        for letter in str(value)[: 4 * limit]
    )
    if len(plain) > limit or len(str(value)) > 4 * limit:
        plain = plain[: limit - 1] + "…"
    return plain.replace("$", r"\$")  # matplotlib would typeset a formula


def _controls(letter: str) -> bool:
    return unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Co", "Cn")


def number_text(value: float) -> str:
    """A number for a sentence or a tick: three digits, as -0.25 or 1,200."""
    if not np.isfinite(value):
        return "unknown"
    if value and not 1e-3 <= abs(value) < 1e6:
        return f"{value:.3g}"
    digits = int(np.clip(2 - np.floor(np.log10(abs(value))), 0, 3)) if value else 0
    return f"{round(value, digits) + 0.0:,.{digits}f}"


def value_text(value: Any, limit: int = MAX_TEXT) -> str:
    """A state variable's value: a number or a level."""
    return number_text(value) if isinstance(value, float) else text_of(value, limit)


def look(number: int) -> dict[str, Any]:
    """Colour, line and marker of the n-th action shown."""
    at = number % len(PALETTE)
    return {"color": PALETTE[at], "linestyle": LINES[at], "marker": MARKERS[at]}


def looks(actions: Sequence[int], anchor: int) -> dict[int, dict[str, Any]]:
    """By action; the anchor is grey and dotted everywhere."""
    estimated = [action for action in actions if action != anchor]
    found = {action: look(number) for number, action in enumerate(estimated)}
    return found | {anchor: dict(ANCHOR)}


def pyplot_axes(rows: int, columns: int, size: tuple[float, float], **shared: Any):
    """Axes of a new figure of pyplot's, which notebooks then show by themselves."""
    from matplotlib import pyplot

    figure = pyplot.figure(figsize=size, layout="constrained")
    return figure.subplots(rows, columns, squeeze=False, **shared)


def bare_axes(rows: int, columns: int, size: tuple[float, float], **shared: Any):
    """Axes of a figure that no window and no global state knows of."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    return figure.subplots(rows, columns, squeeze=False, **shared)


@contextmanager
def styled(ax: Any) -> Iterator[None]:
    """Our style where the figure is ours; a caller's axes keep the caller's."""
    if ax is not None:
        yield
        return
    from matplotlib import rc_context

    with rc_context(STYLE):
        yield


@contextmanager
def quiet_fonts() -> Iterator[None]:
    """Letters that matplotlib's font lacks are drawn by the reader's browser."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from")
        yield


def name_places(axis: Any, at: Any, names: list[str], longest: int = 30) -> None:
    """Tick labels along x, turned where they would overlap."""
    if sum(map(len, names)) > longest:
        axis.set_xticks(at, names, rotation=50, ha="right", rotation_mode="anchor")
    else:
        axis.set_xticks(at, names)


def figure_of(axes: Any) -> Any:
    """The figure that axes, or the first of an array of axes, belong to."""
    return np.ravel(np.asarray(axes, dtype=object))[0].figure
