"""The rows of the airline study as likelihoods, rewards and effects of competition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from jaxtyping import Float
from scipy.special import ndtri

import deeppqr

from ._fits import COMPETITORS, LEVEL, POOLED, TOP, every_row

IDENTIFIED = ("AA", "AS", "B6", "CO", "DL", "HP", "NW", "OTHER", "UA", "US", "WN")
"""Carriers that both serve markets and stay out of others."""


class Gain(NamedTuple):
    """A mean log-likelihood, or a difference of two, with its clustered error."""

    mean: float
    error: float

    def __str__(self) -> str:
        return f"{self.mean:.4f} ({self.error:.4f})"

    @property
    def clear(self) -> bool:
        """Whether it is more than two standard errors above zero."""
        return self.mean > 2 * self.error


@dataclass(frozen=True)
class Market:
    """One of a carrier's best markets."""

    number: int
    name: str
    places: tuple[int, int]
    """Codes of its two areas."""
    reward: float
    error: float | None
    top_share: float | None
    """The share of draws from the fit's covariance in which it is among the best five."""
    ranks: tuple[int, int] | None
    """Between which its place lies, in 95 % of samples."""

    def at(self, area: str) -> bool:
        return area in self.name.split(" - ")


@dataclass(frozen=True, eq=False)
class Findings:
    """Everything the report is made of."""

    frame: pl.DataFrame

    @cached_property
    def markets(self) -> pl.DataFrame:
        """A row per market, carrier, sample and method; of the first seed."""
        rows = self.frame.filter(pl.col("kind") == "market")
        return rows.filter(pl.col("seed") == rows["seed"].min())

    @property
    def carriers(self) -> list[str]:
        return [code for code in IDENTIFIED if code in set(self.markets["sample"])]

    @property
    def methods(self) -> list[str]:
        return list(dict.fromkeys(self.markets["method"]))

    def loglik(self, sample: str, method: str, present: int | None = None) -> pl.DataFrame:
        """Log-likelihoods of period 15 by market; `sample` may be "each", all carriers
        with a fit of their own."""
        found = self.markets.filter(pl.col("method") == method)
        if sample == "each":
            found = found.filter(pl.col("sample") != POOLED)
        else:
            found = found.filter(pl.col("sample") == sample)
        if present is not None:
            found = found.filter(pl.col("present") == present)
        return found.group_by("market", maintain_order=True).agg(
            pl.col("loglik").sum(), pl.len().alias("rows")
        )

    def gain(
        self, sample: str, method: str, over: str | None = None, present: int | None = None
    ) -> Gain | None:
        """The mean log-likelihood of a method, or its advantage over another's, with a
        standard error that is clustered by market."""
        found = self.loglik(sample, method, present)
        if over is not None:
            other = self.loglik(sample, over, present).rename({"loglik": "other"})
            found = found.join(other.select("market", "other"), on="market")
            found = found.with_columns(found["loglik"] - found["other"])
        if found.is_empty():
            return None
        total, rows = found["loglik"].to_numpy(), found["rows"].to_numpy()
        mean = total.sum() / rows.sum()
        influence = (total - mean * rows) / rows.sum()
        variance = deeppqr.inference.clustered_covariance(influence[:, None])[0, 0]
        return Gain(float(mean), float(np.sqrt(variance)))

    def best(self, sample: str, method: str, carrier: str | None = None) -> list[Market]:
        """A carrier's five most rewarding markets."""
        carrier = carrier or sample
        rows = self.markets.filter(
            pl.col("sample") == sample,
            pl.col("method") == method,
            pl.col("carrier") == carrier,
        )
        found = []
        for row in rows.sort("reward", descending=True).head(TOP).iter_rows(named=True):
            name, places = self.names[row["market"]]
            error, share = row.get("error"), row.get("top")
            ranks = None if share is None else (int(row["rank_low"]), int(row["rank_high"]))
            found.append(
                Market(row["market"], name, places, row["reward"], error, share, ranks)
            )
        return found

    def spread(self, carrier: str) -> Mapping[int, float]:
        """By market: the standard error of its reward in the bootstrap over markets."""
        if "draws" not in self.frame.columns:
            return {}
        rows = self.frame.filter(pl.col("kind") == "spread", pl.col("sample") == carrier)
        if rows.is_empty():
            return {}
        sums = rows.group_by("market").agg(pl.col("draws", "sum", "squares").sum())
        found = {}
        for row in sums.iter_rows(named=True):
            number = row["draws"]
            if number > 1:
                around = row["squares"] - row["sum"] ** 2 / number
                found[row["market"]] = float(np.sqrt(max(around, 0.0) / (number - 1)))
        return found

    def hubs(self, carrier: str, method: str = "default") -> dict[str, float]:
        """The share of draws in which the best five markets all have an area in common."""
        rows = self.frame.filter(
            pl.col("kind") == "hub", pl.col("sample") == carrier, pl.col("method") == method
        )
        if rows.is_empty():
            return {}
        rows = rows.filter(pl.col("seed") == rows["seed"].min())
        total = rows["draws"].sum()
        return {row["hub"]: row["draws"] / total for row in rows.iter_rows(named=True)}

    @cached_property
    def names(self) -> dict[int, tuple[str, tuple[int, int]]]:
        """Name and areas by number of a market."""
        frame = every_row().unique("Segid")
        columns = ("Segid", "market", "csa_code_origin", "csa_code_dest")
        return {
            n: (name, (start, end)) for n, name, start, end in frame.select(columns).rows()
        }

    def competition(self, carrier: str, method: str) -> Competition | None:
        """Mean reward and chance of serving by the number of competitors."""
        if "competition" not in set(self.frame["kind"]):
            return None
        rows = self.frame.filter(
            pl.col("kind") == "competition",
            pl.col("sample") == carrier,
            pl.col("method") == method,
            pl.col("competitors").is_not_null(),
        ).sort("competitors")
        if rows.is_empty():
            return None
        draws = self.frame.filter(
            pl.col("kind") == "drawn",
            pl.col("sample") == carrier,
            pl.col("competitors").is_not_null(),
        )
        if not draws.is_empty():
            draws = draws.sort("replicate", "competitors")

        def drawn(column: str) -> np.ndarray:
            return draws[column].to_numpy().astype(float).reshape(-1, len(COMPETITORS))

        return Competition(
            rows["reward"].to_numpy().astype(float),
            rows["probability"].to_numpy().astype(float),
            drawn("reward"),
            drawn("probability"),
            rows["mark"].to_list(),
            rows["outside"].to_numpy().astype(float),
            rows["near"].to_numpy(),
        )

    def rows_of(self, kind: str) -> list[dict[str, Any]]:
        """Rows of a kind, as they are."""
        return list(self.frame.filter(pl.col("kind") == kind).iter_rows(named=True))


@dataclass(frozen=True, eq=False)
class Competition:
    """How serving responds to the number of non-stop competitors."""

    reward: Float[np.ndarray, " number"]
    probability: Float[np.ndarray, " number"]
    drawn_reward: Float[np.ndarray, "draw number"]
    drawn_probability: Float[np.ndarray, "draw number"]
    marks: Sequence[str]
    outside: Float[np.ndarray, " number"]
    near: np.ndarray

    def band(self, quantity: str) -> Float[np.ndarray, "end number"] | None:
        """A uniform band: the spread of the draws, put around the estimate."""
        estimate, drawn = getattr(self, quantity), getattr(self, f"drawn_{quantity}")
        if len(drawn) < 2:
            return None
        found = deeppqr.inference.sup_t_bands_of_draws(
            np.array(COMPETITORS), estimate, drawn, level=LEVEL
        )
        return np.stack([found.low, found.high])

    def change(self, quantity: str) -> tuple[float, float | None]:
        """From 5 to 9 competitors, with its standard error."""
        estimate, drawn = getattr(self, quantity), getattr(self, f"drawn_{quantity}")
        error = None
        if len(drawn) > 1:
            error = float((drawn[:, -1] - drawn[:, 0]).std(ddof=1))
        return float(estimate[-1] - estimate[0]), error


def interval(market: Market) -> tuple[float, float] | None:
    """Of the reward, at the level of the study."""
    if market.error is None:
        return None
    margin = float(ndtri((1 + LEVEL) / 2) * market.error)
    return market.reward - margin, market.reward + margin


def full_name(carrier: str) -> str:
    return (
        "all carriers"
        if carrier == POOLED
        else f"{deeppqr.datasets.CARRIERS[carrier]} ({carrier})"
    )
