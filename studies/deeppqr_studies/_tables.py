"""Tables of a report: means over seeds, as text, Markdown and LaTeX."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import polars as pl

import deeppqr

MISSING = "-"
TEXT_COLUMNS = ("given",)
"""Columns besides the first that hold words, which are aligned to the left."""
REFUSED = "refused"
"""How the note of a method that refused its data begins."""
WIDTH = 92  # of paragraphs, as wide as our code


class Mean(NamedTuple):
    """A mean over seeds, its standard error (None for one seed) and how many there are."""

    value: float
    error: float | None
    count: int

    def __str__(self) -> str:
        error = "" if self.error is None else f" ({self.error:.2g})"
        return f"{self.value:.3g}{error}"


@runtime_checkable
class Printable(Protocol):
    """A part of a report: a table, claims or a paragraph."""

    def text(self) -> str: ...

    def markdown(self) -> str: ...


@dataclass(frozen=True)
class Table:
    """A title, the heads of the columns and the cells, as they are printed."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    def text(self) -> str:
        """Aligned columns: words to the left, figures to the right."""
        lines = [list(self.columns), *map(list, self.rows)]
        width = [max(map(len, column)) for column in zip(*lines, strict=True)]
        sides = [
            str.ljust if number == 0 or name in TEXT_COLUMNS else str.rjust
            for number, name in enumerate(self.columns)
        ]
        aligned = (
            "  ".join(
                side(text, wide)
                for side, text, wide in zip(sides, line, width, strict=True)
            )
            for line in lines
        )
        head, *body = (line.rstrip() for line in aligned)
        return "\n".join([self.title, head, "-" * len(head), *body])

    def markdown(self) -> str:
        """A Markdown table under a bold title."""
        rule = ["---", *["---:"] * (len(self.columns) - 1)]
        lines = [
            "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |"
            for line in (self.columns, rule, *self.rows)
        ]
        return "\n".join([f"**{self.title}**", "", *lines])

    def latex(self) -> str:
        """A `table` float with the rules of booktabs, which the preamble loads."""
        escape = deeppqr.report.latex_escape
        head, *body = (
            "    " + " & ".join(map(escape, line)) + r" \\"
            for line in (self.columns, *self.rows)
        )
        lines = [
            r"\begin{table}",
            r"  \centering",
            rf"  \caption{{{escape(self.title)}}}",
            rf"  \begin{{tabular}}{{l{'r' * (len(self.columns) - 1)}}}",
            *(r"    \toprule", head, r"    \midrule", *body, r"    \bottomrule"),
            r"  \end{tabular}",
            r"\end{table}",
        ]
        return "\n".join(lines)


def write_markdown(heading: str, tables: Sequence[Printable], folder: Path) -> None:
    """The tables as `summary.md`."""
    parts = [f"# {heading}", *(table.markdown() for table in tables)]
    (folder / "summary.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def means(
    frame: pl.DataFrame, by: Sequence[str], score: str
) -> dict[tuple[Any, ...], Mean]:
    """The mean of a score over the rows that agree in `by`, in their order."""
    kept = frame.filter(pl.col(score).is_not_null())
    found = {}
    for key, group in kept.group_by(by, maintain_order=True):
        values = group[score].cast(pl.Float64).to_numpy()
        many = len(values) > 1
        error = float(values.std(ddof=1) / len(values) ** 0.5) if many else None
        found[key] = Mean(float(values.mean()), error, len(values))
    return found


def without_refused(frame: pl.DataFrame) -> pl.DataFrame:
    """The fits that were not refused."""
    if "note" not in frame.columns:
        return frame
    refused = pl.col("note").cast(pl.String).str.starts_with(REFUSED)
    return frame.filter(~refused.fill_null(False))


def size_text(size: float) -> str:
    """A size with separators: 1,000,000 rather than 1e+06."""
    return f"{size:,}" if isinstance(size, int) else f"{size:g}"


def method_table(
    frame: pl.DataFrame,
    title: str,
    *,
    over: str,
    score: str,
    published: Mapping[str, Mapping[Any, float]] | None = None,
) -> Table:
    """A row per method and a column per size, with seconds and what a method was given.

    Published means are in rows below ours. A cell with fewer seeds than the others says
    how many it has. Fits that were refused count neither in the seconds nor in `given`.
    """
    found = means(frame, ["method", over], score)
    sizes = sorted({size for _, size in found})
    full = max((mean.count for mean in found.values()), default=0)

    def cell(method: str, size: Any) -> str:
        mean = found.get((method, size))
        if mean is None:
            return MISSING
        return f"{mean} [{mean.count}]" if mean.count < full else str(mean)

    rows = []
    for (method,), group in frame.group_by(["method"], maintain_order=True):
        ran = without_refused(group)
        spent = ran["seconds"].cast(pl.Float64).median()
        seconds = MISSING if spent is None else f"{spent:.3g}"
        given = "; ".join(ran["given"].unique(maintain_order=True)) or MISSING
        rows.append([method, *(cell(method, size) for size in sizes), seconds, given])
    for name, values in (published or {}).items():
        cells = [f"{values[size]:.3g}" if size in values else MISSING for size in sizes]
        rows.append([f"{name}, published", *cells, MISSING, MISSING])
    columns = [
        "method",
        *(f"{over} = {size_text(size)}" for size in sizes),
        "seconds",
        "given",
    ]
    return Table(f"{title}; seeds: {full}", columns, rows)


def score_tables(frame: pl.DataFrame, title: str, *, over: str, score: str) -> list[Table]:
    """The table of a score by method, unless there is none to show."""
    if frame[score].is_null().all():
        return []
    return [method_table(frame, title, over=over, score=score)]


def write_summary(
    heading: str,
    about: str | None,
    parts: Sequence[Printable],
    frame: pl.DataFrame,
    folder: Path,
) -> str:
    """The whole report as text; the same is written to `summary.md`.

    Before its parts come `about` the study, the number of fits that were refused, and the
    quality of a demonstrator that has learned its policy.
    """
    notes = [*filter(None, [about]), *_refusals(frame), *_demonstrator(frame)]
    whole: list[Printable] = [*map(_Paragraph, notes), *parts]
    pages = "\n\n".join([f"# {heading}", *(part.markdown() for part in whole)])
    (folder / "summary.md").write_text(pages + "\n", encoding="utf-8")
    return "\n\n".join(part.text() for part in whole)


class _Paragraph(str):
    """Running text among tables."""

    def text(self) -> str:
        return textwrap.fill(self, WIDTH)

    def markdown(self) -> str:
        return str(self)


def _refusals(frame: pl.DataFrame) -> list[str]:
    refused = len(frame) - len(without_refused(frame))
    if refused == 0:
        return []
    return [
        f"{refused} of {len(frame)} fits were refused, because an action never "
        "occurs in the demonstrations; they have no score."
    ]


def _demonstrator(frame: pl.DataFrame) -> list[str]:
    if "demonstrator_kl" not in frame.columns:
        return []
    mean = frame["demonstrator_kl"].cast(pl.Float64).mean()
    if mean is None:
        return []
    return [
        "The demonstrations are of a policy that soft Q-learning found; on average it is "
        f"{mean:.3g} nats per decision from the optimal one, whose reward is scored."
    ]
