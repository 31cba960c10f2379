"""Figures of a report, as PNG and PDF."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import deeppqr

from ._tables import Mean, size_text

MARKERS = "osD^vP*X<>hp"
COLOURS = 6  # of the style; with more lines than these their dashes differ
# Two panels fill the width of a page of the documentation at the size they are drawn.
PANELS_PER_ROW = 2


@dataclass(frozen=True)
class Chart:
    """One panel of a figure: lines over a size, on logarithmic axes."""

    title: str
    x_label: str
    y_label: str
    lines: Mapping[str, Mapping[Any, Mean]]
    """By method, the mean at each size."""
    published: Mapping[str, Mapping[Any, float]] = field(default_factory=dict)
    level: float | None = None
    """Where a dotted line marks the score of an estimate without information."""
    y_scale: str = "log"
    levels: Mapping[str, Mean] = field(default_factory=dict)
    """Means of methods that have no size: dashed lines, with their standard errors."""
    ticks: Mapping[Any, str] | None = None
    """Labels of the sizes, where these are categories side by side."""


def chart_of(found: Mapping[tuple[Any, ...], Mean], **words: Any) -> Chart:
    """A chart of means by (method, size)."""
    lines: dict[str, dict[Any, Mean]] = {}
    for (method, size), mean in found.items():
        lines.setdefault(method, {})[size] = mean
    return Chart(lines=lines, **words)


def draw_charts(
    charts: Sequence[Chart], folder: Path, name: str, *, sharey: bool = True
) -> None:
    """The charts side by side; a method has the same look in all of them.

    Charts without a mean are left out; if all are, no figure is written.
    """
    charts = [chart for chart in charts if chart.lines or chart.levels]
    if not charts:
        return
    named = [line for chart in charts for line in (*chart.lines, *chart.levels)]
    names = list(dict.fromkeys(named))
    looks = {line: _look(number) for number, line in enumerate(names)}
    with open_figure(folder, name, len(charts), sharey=sharey) as axes:
        for axis, chart in zip(axes, charts, strict=True):
            _draw(axis, chart, looks)
        handles = {}
        for axis in axes:
            found = axis.get_legend_handles_labels()
            handles.update(zip(found[1], found[0], strict=True))
        axes[-1].legend(
            handles.values(), handles.keys(), loc="upper left", bbox_to_anchor=(1.0, 1.0)
        )


def draw_dots(
    dots: Mapping[str, Mapping[str, Mean]], folder: Path, name: str, *, x_label: str
) -> None:
    """A panel per title, a line per label with a dot at its mean, on one log axis.

    Panels without a mean are left out; if all are, no figure is written.
    """
    dots = {title: values for title, values in dots.items() if values}
    if not dots:
        return
    labels = list(dict.fromkeys(label for values in dots.values() for label in values))
    with open_figure(folder, name, len(dots), sharex=True, sharey=True) as axes:
        for axis, (title, values) in zip(axes, dots.items(), strict=True):
            # A logarithmic axis has no place for an exact zero.
            shown = [label for label in values if values[label].value > 0]
            axis.errorbar(
                [values[label].value for label in shown],
                [labels.index(label) for label in shown],
                xerr=[values[label].error or 0.0 for label in shown],
                **{**_look(0), "linestyle": "none", "markersize": 4},
            )
            axis.set_xscale("log")
            axis.axvline(1.0, color="0.6", linewidth=0.8, linestyle=":")
            axis.set_yticks(range(len(labels)), labels)
            axis.set_ylim(len(labels) - 0.5, -0.5)
            axis.set_title(title)
            axis.set_xlabel(x_label)


@contextmanager
def open_figure(
    folder: Path, name: str, number: int, *, height: float = 3.0, **shared: Any
) -> Iterator[Any]:
    """The axes of a figure that is written when the block ends; `height` of each row."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = -(-number // PANELS_PER_ROW)
    columns = min(number, PANELS_PER_ROW)
    with rc_context(deeppqr.report.STYLE):
        size = (3.4 * columns + 1.8, height * rows)
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots(rows, columns, squeeze=False, **shared).ravel()
        for unused in axes[number:]:
            unused.set_visible(False)
        yield axes[:number]
        for ending in ("png", "pdf"):
            figure.savefig(folder / f"{name}.{ending}")


def _draw(axis: Any, chart: Chart, looks: Mapping[str, dict[str, Any]]) -> None:
    sizes = sorted({size for line in chart.lines.values() for size in line})
    places = _places(chart, sizes)
    for name, line in chart.lines.items():
        # A logarithmic axis has no place for an exact zero.
        at = [size for size in sorted(line) if line[size].value > 0]
        axis.errorbar(
            [places[name, size] for size in at],
            [line[size].value for size in at],
            [line[size].error or 0.0 for size in at],
            label=name,
            **looks[name],
        )
    for name, mean in chart.levels.items():
        color = looks[name]["color"]
        axis.axhline(mean.value, label=name, color=color, linestyle="--", linewidth=1.0)
        low, high = mean.value - (mean.error or 0.0), mean.value + (mean.error or 0.0)
        axis.axhspan(max(low, 0.0), high, color=color, alpha=0.15, linewidth=0)
    for name, line in chart.published.items():
        at = [size for size in sorted(line) if size in sizes]
        style = {"color": "0.5", "linestyle": "--", "linewidth": 0.8}
        axis.plot(at, [line[size] for size in at], **style)
        if at:
            axis.annotate(name, (at[-1], line[at[-1]]), color="0.4", fontsize=8)
    if chart.level is not None:
        axis.axhline(chart.level, color="0.6", linewidth=0.8, linestyle=":")
    axis.set_yscale(chart.y_scale)
    if not sizes:
        axis.set_xticks([])  # nothing but levels
    elif chart.ticks is None:
        axis.set_xscale("log")
        axis.set_xticks(sizes, [size_text(size) for size in sizes])
        axis.set_xlim(sizes[0] / 1.25, sizes[-1] * 1.25)
        axis.minorticks_off()
    else:
        axis.set_xticks(range(len(sizes)), [chart.ticks[size] for size in sizes])
        axis.set_xlim(-0.5, len(sizes) - 0.5)
    axis.set_title(chart.title)
    axis.set_xlabel(chart.x_label)
    axis.set_ylabel(chart.y_label)


def _places(chart: Chart, sizes: Sequence[Any]) -> dict[tuple[str, Any], float]:
    """The position of each mean on the axis; in a category, methods are side by side."""
    if chart.ticks is None:
        return {(name, size): size for name in chart.lines for size in sizes}
    middle = (len(chart.lines) - 1) / 2
    return {
        (name, size): place + 0.07 * (number - middle)
        for number, name in enumerate(chart.lines)
        for place, size in enumerate(sizes)
    }


def _look(number: int) -> dict[str, Any]:
    return {
        "color": f"C{number}",
        "marker": MARKERS[number % len(MARKERS)],
        "linestyle": ("-", "--", ":")[number // COLOURS % 3],
        "markersize": 4.5,
        "linewidth": 1.3,
        "elinewidth": 0.8,
    }
