"""Tables of estimates: parameters in four forms, and the draws of a bootstrap."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float

from .._errors import DataError
from ._grid import MISSING, Grid, PrintedTable

if TYPE_CHECKING:
    import polars as pl

    from ..inference._bootstrap import Bootstrap

# The 97.5 % quantile of the standard normal, here as a number because importing
# scipy.stats for it takes a second.
NORMAL_975 = 1.959963984540054
DRAWS_HEAD = ("", "estimate", "s.e.", "95% low", "95% high")
MAX_ROWS = 40  # of a printed table of draws: a screen; the rest is counted below it


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
class Estimates(PrintedTable):
    r"""A vector of estimates with its covariance, as a journal prints it.

    $$z = \hat\theta / \mathrm{se}, \qquad p = 2\,\Phi(-|z|), \qquad
    \hat\theta \pm 1.96\, \mathrm{se}.$$

    `text`, `markdown`, `latex` and `html` are the same table; printing gives `text`, a
    notebook shows `html`, and `frame` has the numbers. A parameter that was fixed and not
    estimated has variance zero and shows no standard error, and so does one whose variance
    is unknown (NaN).

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
    level
        Of the intervals.
    labels
        What each row is about, by column: actions, groups. `frame` has them beside the
        figures.
    """

    title: str
    names: tuple[str, ...]
    values: Float[np.ndarray, " parameter"]
    covariance: Float[np.ndarray, "row column"]
    facts: Mapping[str, str] = field(default_factory=dict)
    note: str = ""
    df: float = np.inf
    level: float = 0.95
    labels: Mapping[str, Sequence[Any]] = field(default_factory=dict)

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
        """A row per parameter: name, estimate, s.e., z, p and the interval."""
        from scipy.stats import norm, t  # a second to import: only where it is needed

        rows, quantile = [], self._quantile(self.level)
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

    def interval(self, level: float | None = None) -> Float[np.ndarray, "end parameter"]:
        """Low and high ends, at the table's own level unless another is given."""
        margin = self._quantile(self.level if level is None else level)
        margin = margin * self.standard_errors
        return np.stack([self.values - margin, self.values + margin])

    def _quantile(self, level: float) -> float:
        if np.isinf(self.df) and level == 0.95:
            return NORMAL_975  # its digits are those of published tables
        from scipy.special import ndtri, stdtrit

        share = (1 + level) / 2
        return float(ndtri(share) if np.isinf(self.df) else stdtrit(self.df, share))

    def frame(self) -> "pl.DataFrame":
        """A polars DataFrame: what each row is about, and its figures unrounded."""
        import polars as pl

        rows = self.table()
        labels: dict[str, Any] = dict(self.labels) or {"name": list(self.names)}
        figures = {
            name: [getattr(row, name) for row in rows] for name in EstimateRow._fields[1:]
        }
        return pl.DataFrame(labels | figures, strict=False)

    def printed(self) -> Grid:
        """Its cells, as every format shows them."""
        share = f"{100 * self.level:g}%"
        head = ("", "estimate", "s.e.", "z", "p", f"{share} low", f"{share} high")
        lines = tuple(_cells(row) for row in self.table())
        notes = (self.note,) if self.note else ()
        return Grid(self.title, head, lines, notes, self.facts)


def print_draws(found: "Bootstrap") -> Grid:
    """The table of a bootstrap; intervals are quantiles of its draws."""
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
    lines: list[tuple[str, ...]] = []
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
    return Grid("Bootstrap over units", DRAWS_HEAD, tuple(lines), tuple(notes))


def entry_names(found: "Bootstrap") -> list[str]:
    """What each entry of the statistic is called: its own name, or its place."""
    if found.names:
        return list(found.names)
    if not found.estimate.shape:
        return ["statistic"]
    places = np.ndindex(found.estimate.shape)
    return [f"[{', '.join(map(str, place))}]" for place in places]


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
