"""PQR on Rust's buses: his two parameters, the cost curve, the demand for engines.

PQR never solves the agents' problem. The anchor is to replace, with reward zero, so that
r(x, keep) = RC - c(x). Prices are multiples of the estimated RC, on our reading of Rust's
axis: the price of an engine is known in dollars, and RC is that price in the units of the
reward.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl
from jaxtyping import Bool, Float

import deeppqr

from .._figures import open_figure
from .._study import Option, Study, Task, check_choices
from .._tables import MISSING, Table, write_markdown
from ..published import SAMPLES, SOURCE, TABLE_IX
from ._rust_pqr_fits import BINS, PARAMETERS, PRICES, draws, estimates

REPLICATES_PER_TASK = 10  # what a stopped run computes again, at most
LEVEL = 0.95
RATES = [f"demand({price})" for price in PRICES]
LINES = [f"line({price})" for price in PRICES]
REWARDS = [f"r({x})" for x in range(BINS)]
SHOWN_BINS = (10, 20, 30, 40, 50, 60, 70)
SHOWN_PRICES = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.6)
NOTES = (
    "PQR: the default at discount 0.9999, anchor replace with reward 0. RC and theta11: "
    "the reward of keeping projected on 1 and -0.001 x, weighted by visits.\n"
    "Errors of PQR: those of the fit; in [ ] those of the bootstrap, buses drawn with "
    "replacement, and the middle 95 % of its draws. Bands are uniform: 95 % of the drawn "
    "curves lie in them as a whole. The band of "
    "lines is that of the drawn rewards projected on RC - 0.001 theta11 x.\n"
    "Demand: replacements per bus and year in the long run, the agents' problem solved at "
    "each price with Rust's law of mileage, which is held fixed over draws. Prices "
    "are multiples of the estimated RC, each draw's its own: our reading of Rust's axis."
)

Band = Float[np.ndarray, "end at"]


class RustPQR(Study):
    """A task for the estimates on each sample, and one for ten bootstrap replicates."""

    name = "rust-pqr"
    title = "PQR on Rust's bus engines: RC and theta11, cost curve, demand for engines"
    seeded = False  # a replicate's number says which buses it draws
    options: ClassVar = {
        "samples": Option(str, "+", ["4", "1-4", "1-3"], "groups of buses"),
        "replicates": Option(int, None, 200, "of the bootstrap over buses", 0),
        "first_replicate": Option(int, None, 0, "the number of the first of them"),
    }

    def tasks(self, settings):
        samples = check_choices("samples", settings["samples"], SAMPLES)
        first = settings["first_replicate"]
        last = first + settings["replicates"]
        tasks = [Task(f"{sample}_estimates", {"sample": sample}) for sample in samples]
        for sample in samples:
            for start in range(first, last, REPLICATES_PER_TASK):
                end = min(start + REPLICATES_PER_TASK, last)
                about = {"sample": sample, "replicates": [start, end]}
                tasks.append(Task(f"{sample}_replicates={start}-{end - 1}", about))
        return tasks

    def run(self, task):
        if "replicates" in task.parameters:
            return draws(**task.parameters)
        return estimates(**task.parameters)

    def report(self, frame, folder):
        return report(frame, folder)


@dataclass(frozen=True, eq=False)
class Sample:
    """All rows of one sample, as arrays."""

    name: str
    rows: dict[str, dict[str, Any]]
    """Of PQR, of NFXP and of the agents who do not look ahead."""
    theta: Float[np.ndarray, "draw parameter"]
    keep: Float[np.ndarray, "draw state"]
    rates: Float[np.ndarray, "draw price"]
    lines: Float[np.ndarray, "draw price"]
    """Demand if the reward is the line it is projected on."""
    converged: Bool[np.ndarray, " draw"]
    failures: list[str]

    @property
    def title(self) -> str:
        return f"groups {self.name}" if "-" in self.name else f"group {self.name}"

    @property
    def miles(self) -> Float[np.ndarray, " state"]:
        """Thousands at the bins that were seen."""
        return 5.0 * np.arange(self.rows["PQR"]["last_bin"] + 1)

    def cost(self, part: str) -> Float[np.ndarray, " state"]:
        """c(x) = r(0, keep) - r(x, keep), a month's, at the bins that were seen."""
        keep = np.array([self.rows[part][name] for name in REWARDS])
        return (keep[0] - keep)[: len(self.miles)]

    def demand(self, part: str) -> Float[np.ndarray, " price"]:
        return np.array([self.rows[part][name] for name in RATES])

    @property
    def cost_band(self) -> Band | None:
        return _band((self.keep[:, :1] - self.keep)[:, : len(self.miles)])

    @property
    def line_cost_band(self) -> Band | None:
        slope = self.theta[:, PARAMETERS.index("theta11")]
        return _band(np.outer(slope, 0.001 * np.arange(len(self.miles))))

    @property
    def demand_band(self) -> Band | None:
        return _band(self.rates)

    @property
    def line_demand_band(self) -> Band | None:
        return _band(self.lines)

    @property
    def num_bent(self) -> int:
        """Draws whose cost is not a line: it strays from one by 1 % of its range."""
        columns = np.stack([np.ones(BINS), np.arange(BINS)], axis=1)
        line = columns @ np.linalg.lstsq(columns, self.keep.T, rcond=None)[0]
        spread = np.ptp(self.keep, axis=1)
        return int((np.abs(self.keep - line.T).max(axis=1) > 0.01 * spread).sum())


def _band(drawn: Float[np.ndarray, "draw at"]) -> Band | None:
    return deeppqr.inference.quantile_band(drawn, level=LEVEL) if len(drawn) > 1 else None


def collect(frame: pl.DataFrame) -> list[Sample]:
    """The samples whose estimates have run."""
    samples = []
    for (name,), part in frame.group_by("sample", maintain_order=True):
        wanted = part.filter(pl.col("part").is_in(["PQR", "NFXP", "myopic"]))
        rows = {row["part"]: row for row in wanted.rows(named=True)}
        if not rows:
            continue
        drawn = part.filter(pl.col("part") == "draw")
        failed = part.filter(pl.col("part") == "failure")

        def table(names: Sequence[str], drawn: pl.DataFrame = drawn) -> np.ndarray:
            return drawn.select(names).to_numpy()

        samples.append(
            Sample(
                str(name),
                rows,
                theta=table(PARAMETERS),
                keep=table(REWARDS),
                rates=table(RATES),
                lines=table(LINES),
                converged=drawn["converged"].to_numpy()
                if len(drawn)
                else np.ones(0, dtype=bool),
                failures=failed["note"].to_list() if "note" in part.columns else [],
            )
        )
    return samples


def report(frame: pl.DataFrame, folder: Path) -> str:
    """Tables as text, Markdown and LaTeX; two figures."""
    samples = collect(frame)
    if not samples:
        return "No sample's estimates have run."
    tables = [parameter_table(samples), draw_table(samples)]
    tables += [table(one) for one in samples for table in (cost_table, demand_table)]
    write_markdown("PQR on Rust's buses", tables, folder)
    latex = "\n\n".join(table.latex() for table in tables)
    (folder / "tables.tex").write_text(latex + "\n", encoding="utf-8")
    draw_costs(samples, folder)
    draw_demand(samples, folder)
    words = "\n".join(verdict(sample) for sample in samples)
    text = "\n\n".join(table.text() for table in tables)
    return f"{text}\n\n{words}\n\n{NOTES}\nRust: {SOURCE}."


def parameter_table(samples: list[Sample]) -> Table:
    """RC and theta11 of Rust, NFXP and PQR, and how far PQR is from Rust."""
    lines = []
    for sample in samples:
        printed = TABLE_IX[sample.name, 0.9999]
        for number, name in enumerate(PARAMETERS):
            published = printed[name]
            assert published.error is not None
            mine, rival = sample.rows["PQR"][name], sample.rows["NFXP"]
            error, interval = "", MISSING
            if len(sample.theta) > 1:
                drawn = sample.theta[:, number]
                error = f" [{drawn.std(ddof=1):.3f}]"
                low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
                interval = f"[{low:.2f}, {high:.2f}]"
            lines.append(
                [
                    f"{sample.title}: {name}",
                    f"{published.value:.3f} ({published.error:.3f})",
                    f"{rival[name]:.3f} ({rival[f'{name} s.e.']:.3f})",
                    f"{mine:.3f} ({sample.rows['PQR'][f'{name} s.e.']:.3f}){error}",
                    interval,
                    f"{(mine - published.value) / published.error:+.2f}",
                ]
            )
    title = (
        "RC and theta11 at discount 0.9999: estimate (s.e.; clustered by bus but for "
        "Rust's) [s.e. by the bootstrap]; the last column in Rust's s.e."
    )
    columns = ["", "Rust", "NFXP", "PQR", "95 % of draws", "PQR - Rust"]
    return Table(title, columns, lines)


def draw_table(samples: list[Sample]) -> Table:
    """How the bootstrap went, and how long one fit took."""
    lines = []
    for sample in samples:
        drawn = len(sample.theta)
        middle = [MISSING] * 2
        if drawn:
            middle = [f"{value:.3f}" for value in np.median(sample.theta, axis=0)]
        tried, failed = str(drawn + len(sample.failures)), str(len(sample.failures))
        bent = str(sample.num_bent) if drawn else MISSING
        short = str(int((~sample.converged).sum())) if drawn else MISSING
        seconds = [f"{sample.rows[part]['seconds']:.1f}" for part in ("PQR", "NFXP")]
        lines.append([sample.title, tried, failed, bent, short, *middle, *seconds])
    columns = ["", "replicates", "failed", "costs not a line", "not converged"]
    columns += ["median RC", "median theta11", "seconds PQR", "seconds NFXP"]
    title = "The bootstrap over buses, and the time of the first fit, compilation included"
    return Table(title, columns, lines)


def cost_table(sample: Sample) -> Table:
    """The cost of running a bus by mileage, with its uniform bands."""
    curves = sample.cost("PQR"), sample.cost("NFXP")
    bands = sample.cost_band, sample.line_cost_band
    lines = []
    for x in (x for x in SHOWN_BINS if x < len(sample.miles)):
        mine, rival = (f"{curve[x]:.3f}" for curve in curves)
        lines.append([f"{5 * x}", mine, *(_ends(band, x) for band in bands), rival])
    columns = ["thousand miles", "PQR", "95 % band", "band of lines", "NFXP"]
    title = f"{sample.title.capitalize()}: monthly cost above a new engine's"
    return Table(title, columns, lines)


def demand_table(sample: Sample) -> Table:
    """Replacements per bus and year by price, with their uniform bands."""
    curves = [sample.demand(part) for part in ("PQR", "NFXP", "myopic")]
    bands = sample.demand_band, sample.line_demand_band
    lines = []
    for price in SHOWN_PRICES:
        at = PRICES.index(price)
        mine, *rivals = (f"{curve[at]:.3f}" for curve in curves)
        lines.append([f"{price:g} RC", mine, *(_ends(band, at) for band in bands), *rivals])
    columns = ["price", "PQR", "95 % band", "band of lines", "NFXP", "NFXP, discount 0"]
    title = f"{sample.title.capitalize()}: replacements per bus and year"
    return Table(title, columns, lines)


def _ends(band: Band | None, at: int) -> str:
    return MISSING if band is None else f"[{band[0, at]:.3f}, {band[1, at]:.3f}]"


def verdict(sample: Sample) -> str:
    """Whether the bands hold NFXP's curves, and how far those are from PQR's."""
    start = f"{sample.title.capitalize()}: "
    cost, wide, narrow = sample.cost_band, sample.demand_band, sample.line_demand_band
    if cost is None or wide is None or narrow is None:
        return start + "too few replicates for a band."
    rival, myopic = sample.demand("NFXP"), sample.demand("myopic")
    apart = np.abs(rival / sample.demand("PQR") - 1)
    return (
        f"{start}the band of demand holds NFXP's curve at {_held(wide, rival)} of "
        f"{len(PRICES)} prices, that of lines at {_held(narrow, rival)} (NFXP's differs "
        f"from PQR's by {100 * apart.max():.1f} % at most); agents who do not look ahead "
        f"are in them at {_held(wide, myopic)} and {_held(narrow, myopic)}. The band of "
        f"costs holds NFXP's at {_held(cost, sample.cost('NFXP'))} of {len(sample.miles)} "
        "bins."
    )


def _held(band: Band, curve: Float[np.ndarray, " at"]) -> int:
    return int(((band[0] <= curve) & (curve <= band[1])).sum())


PQR_LOOK: dict[str, Any] = {"color": "#1f5a94", "linewidth": 1.6}
WIDE_LOOK: dict[str, Any] = {"color": "#dbe5ef", "linewidth": 0}
NARROW_LOOK: dict[str, Any] = {"color": "#a9c3dc", "linewidth": 0}
NFXP_LOOK: dict[str, Any] = {"color": "#c8502d", "linewidth": 1.4, "linestyle": (0, (4, 2))}
MYOPIC_LOOK: dict[str, Any] = {"color": "0.4", "linewidth": 1.1, "linestyle": ":"}


def draw_costs(samples: list[Sample], folder: Path) -> None:
    """Monthly costs against mileage, a panel per sample."""
    with open_figure(folder, "costs", len(samples), sharey=True) as axes:
        for axis, sample in zip(axes, samples, strict=True):
            _fill(axis, sample.miles, sample.cost_band, sample.line_cost_band)
            axis.plot(sample.miles, sample.cost("PQR"), label="PQR", **PQR_LOOK)
            axis.plot(sample.miles, sample.cost("NFXP"), label="NFXP, linear", **NFXP_LOOK)
            axis.axhline(0.0, color="0.7", linewidth=0.6)
            axis.set_title(sample.title)
            axis.set_xlabel("thousand miles since replacement")
            axis.set_xlim(0, sample.miles[-1])
        axes[0].set_ylim(-0.05, 0.65)
        axes[0].set_ylabel("monthly cost above a new engine's")
        axes[0].legend(loc="upper left")


def draw_demand(samples: list[Sample], folder: Path) -> None:
    """Replacements per bus and year against the price, a panel per sample."""
    prices = np.array(PRICES)
    with open_figure(folder, "demand", len(samples), sharey=True) as axes:
        for axis, sample in zip(axes, samples, strict=True):
            _fill(axis, prices, sample.demand_band, sample.line_demand_band)
            axis.plot(prices, sample.demand("PQR"), label="PQR", **PQR_LOOK)
            axis.plot(prices, sample.demand("NFXP"), label="NFXP", **NFXP_LOOK)
            myopic = sample.demand("myopic")
            axis.plot(prices, myopic, label="NFXP, discount 0", **MYOPIC_LOOK)
            axis.axvline(1.0, color="0.7", linewidth=0.6, zorder=0.5)
            axis.set_yscale("log")
            axis.set_yticks(TICKS, [f"{tick:g}" for tick in TICKS])
            axis.minorticks_off()
            axis.set_ylim(TICKS[0], TICKS[-1])
            axis.set_xlim(prices[0], prices[-1])
            axis.set_title(sample.title)
            axis.set_xlabel("price of an engine / estimated RC")
        axes[0].set_ylabel("replacements per bus and year")
        axes[0].legend(loc="upper right")


TICKS = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)


def _fill(axis: Any, at: np.ndarray, wide: Band | None, narrow: Band | None) -> None:
    if wide is not None and narrow is not None:
        axis.fill_between(at, *wide, label="95 % band", **WIDE_LOOK)
        axis.fill_between(at, *narrow, label="95 % band of lines", **NARROW_LOOK)
