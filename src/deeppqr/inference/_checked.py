"""What a simulation check found: its table, and the file that it goes on from."""

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from .._errors import DataError
from .._files import explained
from .._messages import counted
from ..report._estimates import Estimates, decimals
from ..report._grid import MISSING, Grid
from ._bootstrap import Failure

if TYPE_CHECKING:
    import polars as pl

HEAD = ("", "fit", "mean of refits", "bias", "s.d.", "mean s.e.")
# Relative difference of a figure in a file of replicates, which is written in full.
SAME = 1e-9


class Checked(NamedTuple):
    """One figure over all replicates."""

    name: str
    truth: float
    """Of the fit that panels were drawn from."""
    mean: float
    bias: float
    deviation: float
    """Standard deviation of the estimates between replicates."""
    standard_error: float
    """The mean of the standard errors that the refits report; NaN where they have none."""
    coverage: float
    coverage_error: float
    """Monte-Carlo error of the coverage."""


@dataclass(frozen=True, eq=False, repr=False)
class SimulationCheck:
    """Bias and coverage where the fit is the truth; print it."""

    names: tuple[str, ...]
    truth: Float[np.ndarray, " figure"]
    draws: Float[np.ndarray, "replicate figure"]
    errors: Float[np.ndarray, "replicate figure"]
    """Standard errors of each replicate's figures; NaN where there are none."""
    covered: Float[np.ndarray, "replicate figure"]
    """Whether each interval holds the truth; NaN where there is none."""
    replicates: Int[np.ndarray, " replicate"]
    failures: tuple[Failure, ...]
    seed: int
    level: float
    size: str
    """How large the panels are, in words."""

    @property
    def note(self) -> str:
        """How many replicates there are, and how many failed."""
        tried = len(self.draws) + len(self.failures)
        if not self.failures:
            return f"{counted(tried, 'replicate')}, none failed"
        first = self.failures[0]
        return (
            f"{len(self.failures)} of {tried:,} replicates failed, the first of them "
            f"number {first.replicate}: {first.message}"
        )

    def table(self) -> list[Checked]:
        """A row for each figure."""
        number, rows = len(self.draws), []
        for at, name in enumerate(self.names):
            draws, truth = self.draws[:, at], float(self.truth[at])
            mean = float(draws.mean()) if number else np.nan
            deviation = float(draws.std(ddof=1)) if number > 1 else np.nan
            held = self.covered[:, at][~np.isnan(self.covered[:, at])]
            share = error = np.nan
            if len(held):
                share = float(held.mean())
                # Agresti and Coull's: at a share of one the plain formula says no error.
                near = (held.sum() + 2) / (len(held) + 4)
                error = float(np.sqrt(near * (1 - near) / (len(held) + 4)))
            reported = float(self.errors[:, at].mean()) if number else np.nan
            bias = mean - truth
            told = name, truth, mean, bias, deviation, reported, share, error
            rows.append(Checked(*told))
        return rows

    def frame(self) -> "pl.DataFrame":
        """A polars DataFrame with a row for each figure."""
        import polars as pl

        return pl.DataFrame([row._asdict() for row in self.table()])

    def join(self, other: "SimulationCheck") -> "SimulationCheck":
        """Both results as one; their replicates must differ and their seeds agree."""
        tried = [*self.replicates, *(one.replicate for one in self.failures)]
        again = [*other.replicates, *(one.replicate for one in other.failures)]
        same = self.names == other.names and np.allclose(self.truth, other.truth, SAME)
        if self.seed != other.seed or {*tried} & {*again} or not same:
            raise DataError(
                "Only results of one fit, one seed and of different replicates can be "
                f"joined, but the seeds are {self.seed} and {other.seed}, "
                f"{len({*tried} & {*again})} replicates are in both, and the figures "
                f"{'agree' if same else 'differ'}."
            )
        number = np.concatenate([self.replicates, other.replicates])
        order = np.argsort(number)
        both = lambda name: np.concatenate([getattr(self, name), getattr(other, name)])
        return replace(
            self,
            **{name: both(name)[order] for name in ("draws", "errors", "covered")},
            replicates=number[order],
            failures=tuple(sorted([*self.failures, *other.failures])),
        )

    def text(self) -> str:
        return self._grid().text()

    def markdown(self) -> str:
        return self._grid().markdown()

    def latex(self) -> str:
        return self._grid().latex()

    def html(self) -> str:
        return self._grid().html()

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"SimulationCheck(figures={len(self.names)}, {self.note})"

    def _repr_html_(self) -> str:
        return self.html()

    def _grid(self) -> Grid:
        lines = []
        for row in self.table():
            digits = decimals(row.deviation, row.truth)
            figures = [row.truth, row.mean, row.bias, row.deviation, row.standard_error]
            cells = [MISSING if x != x else f"{x:.{digits}f}" for x in figures]
            share = f"{row.coverage:.3f} ({row.coverage_error:.3f})"
            cells.append(MISSING if row.coverage != row.coverage else share)
            lines.append((row.name, *cells))
        notes = [
            f"Panels of {self.size} drawn from the fit and fitted again: {self.note}.",
            f"Coverage: the share of the {100 * self.level:g} % intervals that hold the "
            "fit's own figure, its Monte-Carlo error in brackets.",
        ]
        if len(self.draws) > 1:
            bound = 1 / np.sqrt(len(self.draws))
            notes.append(f"A bias below {bound:.2f} s.d. is within one Monte-Carlo error.")
        head = (*HEAD, f"{100 * self.level:g}% coverage")
        return Grid("Simulation check", head, tuple(lines), tuple(notes))


class Figures(NamedTuple):
    """What is compared: names, values, standard errors and intervals."""

    names: tuple[str, ...]
    value: Float[np.ndarray, " figure"]
    error: Float[np.ndarray, " figure"]
    low: Float[np.ndarray, " figure"]
    high: Float[np.ndarray, " figure"]


def figures_of(found: Any, level: float) -> Figures:
    """Tables of estimates as one list of figures; those that are known are left out."""
    tables = [found] if isinstance(found, Estimates) else list(found)
    wrong = [type(one).__name__ for one in tables if not isinstance(one, Estimates)]
    if wrong or not tables:
        raise DataError(
            "`statistic` must return a table of estimates or a list of them, such as "
            "`lambda fit: fit.average(states)`, but it returned "
            f"{'an empty list' if not tables else f'a {wrong[0]}'}."
        )
    names, parts = [], []
    for table in tables:
        error = table.standard_errors
        ends = table.interval(level)
        # Zero: known, not estimated. NaN: estimated, with an error nobody knows.
        at = np.flatnonzero(~(error == 0))
        shown = table.title.removeprefix("Average ").replace(" of the reward", "")
        names += [f"{table.names[i]}: {shown}" for i in at]
        parts.append(np.stack([table.values, error, *ends])[:, at])
    return Figures(tuple(names), *np.concatenate(parts, axis=1))


@dataclass(eq=False)
class Kept:
    """Replicates that are done, and the file that holds them."""

    path: Path | None
    own: Figures
    seed: int
    level: float
    found: dict[int, Figures | Failure]

    @classmethod
    def read(cls, out: Any, own: Figures, seed: int, level: float) -> "Kept":
        kept = cls(None if out is None else Path(out), own, seed, level, {})
        if kept.path is None or not kept.path.exists():
            return kept
        import polars as pl
        from polars.exceptions import PolarsError

        try:
            rows = pl.read_csv(kept.path, infer_schema_length=None).to_dicts()
            kept._take(rows)
        except (PolarsError, KeyError, TypeError, ValueError) as problem:
            raise DataError(
                f"{kept.path} must hold replicates of this very check, of the same fit, "
                f"seed, level and figures, but it does not ({problem}). Choose another "
                "file, or remove it."
            ) from problem
        return kept

    def _take(self, rows: list[dict[str, Any]]) -> None:
        own = self.own
        for number in dict.fromkeys(int(row["replicate"]) for row in rows):
            mine = [row for row in rows if int(row["replicate"]) == number]
            if {(int(row["seed"]), float(row["level"])) for row in mine} != {
                (self.seed, self.level)
            }:
                raise ValueError("its seed or level is another")
            if mine[0]["failure"]:
                self.found[number] = Failure(number, str(mine[0]["failure"]))
                continue
            column = lambda name, mine=mine: np.array(
                [np.nan if row[name] is None else float(row[name]) for row in mine]
            )
            names = tuple(str(row["figure"]) for row in mine)
            if names != own.names or not np.allclose(column("truth"), own.value, rtol=SAME):
                raise ValueError("its figures are others")
            values = (column(name) for name in ("value", "error", "low", "high"))
            self.found[number] = Figures(names, *values)

    def add(self, number: int, found: Figures | Failure) -> None:
        self.found[number] = found
        if self.path is not None:
            self._write(self.path)

    def _write(self, path: Path) -> None:
        import polars as pl

        rows, told = [], {"seed": self.seed, "level": self.level}
        for number, found in sorted(self.found.items()):
            if isinstance(found, Failure):
                blank = dict.fromkeys(("truth", "value", "error", "low", "high"))
                lines = [{"figure": None, **blank, "failure": found.message}]
            else:
                lines = [
                    {"figure": name, "truth": truth, "value": v, "error": e, "low": lo}
                    | {"high": hi, "failure": None}
                    for name, truth, v, e, lo, hi in zip(
                        found.names, self.own.value, *found[1:], strict=True
                    )
                ]
            rows += [{"replicate": number, **told, **line} for line in lines]
        frame = pl.DataFrame(rows, infer_schema_length=None).fill_nan(None)
        # Beside it first: whenever it is stopped, the file is whole.
        partial = path.with_name(f"{path.name}.partial")
        with explained(path):
            frame.write_csv(partial)
            os.replace(partial, path)
