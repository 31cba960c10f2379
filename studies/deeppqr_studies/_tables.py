"""Tables of a report: means over seeds, as text and as Markdown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    import polars as pl

MISSING = "-"
WORDS = ("given",)
"""Columns that hold no figures."""
REFUSED = "refused"
"""How the note of a fit begins that a method refused."""


class Mean(NamedTuple):
    """A mean over seeds, its standard error (None for one seed) and how many there are."""

    value: float
    error: float | None
    count: int

    def __str__(self) -> str:
        error = "" if self.error is None else f" ({self.error:.2g})"
        return f"{self.value:.3g}{error}"


@runtime_checkable
class Printed(Protocol):
    """What a report consists of: tables, and what is printed like them."""

    def text(self) -> str: ...

    def markdown(self) -> str: ...


@dataclass(frozen=True)
class Table:
    """Cells as they are printed."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    def text(self) -> str:
        """Aligned columns: words to the left, figures to the right."""
        lines = [list(self.columns), *map(list, self.rows)]
        width = [max(map(len, column)) for column in zip(*lines, strict=True)]
        sides = [
            str.ljust if number == 0 or name in WORDS else str.rjust
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
        from deeppqr.report import latex_escape

        head, *body = (
            "    " + " & ".join(map(latex_escape, line)) + r" \\"
            for line in (self.columns, *self.rows)
        )
        lines = [
            r"\begin{table}",
            r"  \centering",
            rf"  \caption{{{latex_escape(self.title)}}}",
            rf"  \begin{{tabular}}{{l{'r' * (len(self.columns) - 1)}}}",
            *(r"    \toprule", head, r"    \midrule", *body, r"    \bottomrule"),
            r"  \end{tabular}",
            r"\end{table}",
        ]
        return "\n".join(lines)


def write_markdown(heading: str, tables: Sequence[Printed], folder: Path) -> None:
    """The tables as `summary.md`."""
    parts = [f"# {heading}", *(table.markdown() for table in tables)]
    (folder / "summary.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def means(
    frame: "pl.DataFrame", by: Sequence[str], score: str
) -> dict[tuple[Any, ...], Mean]:
    """The mean of a score over the rows that agree in `by`, in their order."""
    import polars as pl

    kept = frame.filter(pl.col(score).is_not_null())
    found = {}
    for key, group in kept.group_by(by, maintain_order=True):
        values = group[score].cast(pl.Float64).to_numpy()
        many = len(values) > 1
        error = float(values.std(ddof=1) / len(values) ** 0.5) if many else None
        found[key] = Mean(float(values.mean()), error, len(values))
    return found


def without_refused(frame: "pl.DataFrame") -> "pl.DataFrame":
    """The fits that were not refused."""
    import polars as pl

    if "note" not in frame.columns:
        return frame
    refused = pl.col("note").cast(pl.String).str.starts_with(REFUSED)
    return frame.filter(~refused.fill_null(False))


def size_text(size: float) -> str:
    """A size as it is read: 1,000,000 rather than 1e+06."""
    return f"{size:,}" if isinstance(size, int) else f"{size:g}"


def method_table(
    frame: "pl.DataFrame",
    title: str,
    *,
    over: str,
    score: str,
    published: Mapping[str, Mapping[Any, float]] | None = None,
) -> Table:
    """A row per method and a column per size, with seconds and what a method was given.

    Published means stand below ours. A cell with fewer seeds than the others says how
    many it has. What was refused took no time and was given nothing worth saying.
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
        seconds = MISSING if ran.is_empty() else f"{ran['seconds'].median():.3g}"
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
