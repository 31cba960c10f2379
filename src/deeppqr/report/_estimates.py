"""Tables of estimates: parameters in three formats, and the draws of a bootstrap."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Float

from .._errors import DataError
from ._layout import columns, framed

if TYPE_CHECKING:
    from ..inference._bootstrap import Bootstrap

HEADINGS = ("estimate", "s.e.", "z", "p", "95% low", "95% high")
# The 97.5 % quantile of the standard normal, here as a number because importing
# scipy.stats for it takes a second.
NORMAL_975 = 1.959963984540054
MISSING = "-"
DRAWS_HEADINGS = ("estimate", "s.e.", "95% low", "95% high")
MAX_ROWS = 40  # of a printed table of draws: a screen; the rest is counted below it
_LATEX = {
    **{letter: rf"\{letter}" for letter in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
}


class EstimateRow(NamedTuple):
    """A parameter's row; without a standard error its z, p and interval are NaN."""

    name: str
    estimate: float
    standard_error: float
    z: float
    p: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Estimates:
    r"""A vector of estimates with its covariance, as a journal prints it.

    $$z = \hat\theta / \mathrm{se}, \qquad p = 2\,\Phi(-|z|), \qquad
    \hat\theta \pm 1.96\, \mathrm{se}.$$

    `text`, `markdown` and `latex` are the same table; printing gives `text`. A parameter
    that was fixed and not estimated has variance zero and shows no standard error, and so
    does one whose variance is unknown (NaN).

    Parameters
    ----------
    title
        What was estimated, and how.
    names, values, covariance
        The parameters, in one order.
    facts
        What stands under the table: observations, log-likelihood, discount.
    note
        A last line in words.
    df
        Degrees of freedom of the errors: with few, p and intervals are Student's.
    """

    title: str
    names: tuple[str, ...]
    values: Float[np.ndarray, " parameter"]
    covariance: Float[np.ndarray, "row column"]
    facts: Mapping[str, str] = field(default_factory=dict)
    note: str = ""
    df: float = np.inf

    def __post_init__(self):
        count = len(self.names)
        if self.values.shape != (count,) or self.covariance.shape != (count, count):
            raise DataError(
                f"`values` and `covariance` must have the shapes {(count,)} and "
                f"{(count, count)}, one entry for each of the {count} `names`, but they "
                f"have {self.values.shape} and {self.covariance.shape}."
            )
        wrong = np.flatnonzero(np.diag(self.covariance) < 0)
        if len(wrong):
            first = int(wrong[0])
            raise DataError(
                "`covariance` must have no negative entry on its diagonal, but that of "
                f"{self.names[first]!r} is {self.covariance[first, first]:.3g} "
                f"({len(wrong)} of {count} in all)."
            )

    @property
    def standard_errors(self) -> Float[np.ndarray, " parameter"]:
        """Roots of the covariance's diagonal."""
        return np.sqrt(np.diag(self.covariance))

    def table(self) -> list[EstimateRow]:
        """A row per parameter: name, estimate, s.e., z, p and the 95 % interval."""
        from scipy.stats import norm, t  # a second to import: only where it is needed

        # The normal quantile as a number: its digits are those of published tables.
        quantile = NORMAL_975 if np.isinf(self.df) else float(t.ppf(0.975, self.df))
        rows = []
        for name, value, error in zip(
            self.names, self.values, self.standard_errors, strict=True
        ):
            # Zero variance means fixed, not estimated precisely: no z and no interval.
            error = float(error) if error > 0 else float("nan")
            z = float(value) / error
            # 1 - cdf would lose all digits beyond z = 8.
            tail = norm.sf(abs(z)) if np.isinf(self.df) else t.sf(abs(z), self.df)
            p, margin = float(2 * tail), quantile * error
            rows.append(
                EstimateRow(name, float(value), error, z, p, value - margin, value + margin)
            )
        return rows

    def text(self) -> str:
        """Aligned columns between rules, for the terminal."""
        lines = [("", *HEADINGS), *map(_cells, self.table())]
        facts = [f"{name}  {value}" for name, value in self.facts.items()]
        return ruled(self.title, lines, facts, [self.note] if self.note else [])

    def markdown(self) -> str:
        """A Markdown table under a bold title, its facts below."""
        rule = ["---", *["---:"] * len(HEADINGS)]
        body = [[cell.replace("|", r"\|") for cell in _cells(row)] for row in self.table()]
        lines = ["| " + " | ".join(line) + " |" for line in (("", *HEADINGS), rule, *body)]
        parts = [f"**{self.title}**", "", *lines]
        if self.facts:
            facts = "; ".join(f"{name} {value}" for name, value in self.facts.items())
            parts += ["", facts + "."]
        if self.note:
            parts += ["", self.note]
        return "\n".join(parts)

    def latex(self) -> str:
        r"""A `table` float with the rules of booktabs, which the preamble loads."""
        head = " & ".join(["", *map(latex_escape, HEADINGS)])
        lines = [
            r"\begin{table}",
            r"  \centering",
            rf"  \caption{{{latex_escape(self.title)}}}",
            rf"  \begin{{tabular}}{{l{'r' * len(HEADINGS)}}}",
            r"    \toprule",
            rf"    {head.strip()} \\",
            r"    \midrule",
        ]
        for row in self.table():
            name, *figures = _cells(row)
            cells = [latex_escape(name), *map(latex_figure, figures)]
            lines.append(rf"    {' & '.join(cells)} \\")
        if self.facts:
            lines.append(r"    \midrule")
        for name, value in self.facts.items():
            cell = rf"\multicolumn{{{len(HEADINGS)}}}{{l}}{{{latex_figure(value)}}}"
            lines.append(rf"    {latex_escape(name)} & {cell} \\")
        lines += [r"    \bottomrule", r"  \end{tabular}"]
        if self.note:
            lines.append(rf"  \par\smallskip\footnotesize {latex_escape(self.note)}")
        return "\n".join([*lines, r"\end{table}"])

    def __str__(self) -> str:
        return self.text()


def summarise_draws(found: "Bootstrap") -> str:
    """The printable table of a bootstrap; intervals are quantiles of its draws."""
    values = found.estimate.ravel()
    # With one draw there is no spread: the table then has estimates alone.
    enough = len(found.draws) > 1
    unknown = np.full(values.shape, np.nan)
    errors, low, high = unknown, unknown, unknown
    if enough:
        errors = found.standard_errors.ravel()
    quantiles = enough and not found.few_draws(0.95)
    if quantiles:
        low, high = found.interval(0.95).reshape(2, -1)
    names = entry_names(found)
    lines: list[tuple[str, ...]] = [("", *DRAWS_HEADINGS)]
    for row in range(min(values.size, MAX_ROWS)):
        digits = decimals(float(errors[row]), float(values[row]))
        figures = (values[row], errors[row], low[row], high[row])
        lines.append((names[row], *_or_missing(f"{x:.{digits}f}" for x in figures)))
    notes = [f"Units drawn with replacement: {found.note}."]
    if quantiles:
        notes.append("Intervals are quantiles of the draws.")
    elif enough:
        notes.append("No intervals: at 95 % their quantiles take 39 draws at least.")
    if values.size > MAX_ROWS:
        notes.append(
            f"{values.size - MAX_ROWS:,} more entries: see `standard_errors`, `interval`."
        )
    return ruled("Bootstrap over units", lines, notes=notes)


def entry_names(found: "Bootstrap") -> list[str]:
    """What each entry of the statistic is called: its own name, or its place."""
    if found.names:
        return list(found.names)
    if not found.estimate.shape:
        return ["statistic"]
    places = np.ndindex(found.estimate.shape)
    return [f"[{', '.join(map(str, place))}]" for place in places]


def ruled(
    title: str,
    lines: Sequence[tuple[str, ...]],
    facts: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> str:
    """Lines of cells, headings first, aligned between rules; facts and notes below."""
    head, *body = columns(lines)
    width = max(map(len, [title, head, *body]))
    below = [facts] if facts else []
    return "\n".join([framed(title, [head], body, *below, width=width), *notes])


def latex_escape(text: str) -> str:
    """Text as LaTeX prints it literally."""
    return "".join(_LATEX.get(letter, letter) for letter in text)


def _cells(row: EstimateRow) -> tuple[str, ...]:
    """A row as it is printed: digits by the standard error, two of it at least."""
    # The same decimals for the estimate and its interval, so that they can be compared.
    digits = decimals(row.standard_error, row.estimate)
    figures = [
        f"{row.estimate:.{digits}f}",
        f"{row.standard_error:.{digits}f}",
        f"{row.z:.2f}",
        "<0.001" if row.p < 0.0005 else f"{row.p:.3f}",
        f"{row.low:.{digits}f}",
        f"{row.high:.{digits}f}",
    ]
    return (row.name, *_or_missing(figures))


def _or_missing(figures: Iterable[str]) -> list[str]:
    return [MISSING if figure == "nan" else figure for figure in figures]


def decimals(error: float, value: float) -> int:
    """At least four decimals, and more where the standard error is small."""
    scale = error if error > 0 else abs(value)
    if not scale > 0 or not np.isfinite(scale):
        return 4
    # Three significant digits of the standard error, and four decimals at least.
    return int(np.clip(2 - np.floor(np.log10(scale)), 4, 12))


def latex_figure(text: str) -> str:
    """A number as LaTeX, with a minus sign instead of a hyphen."""
    if text == MISSING:
        return "--"
    if text.startswith("<0"):
        return f"${text}$"
    try:
        float(text.replace(",", ""))
    except ValueError:
        return latex_escape(text)
    return "$-$" + text[1:] if text.startswith("-") else text
