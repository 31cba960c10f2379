"""Figures of the airline study: best markets as bars and on a map, competition, fit."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import deeppqr

from .._figures import open_figure
from ._findings import Findings, full_name, interval
from ._fits import COMPETITORS

SHOWN = ("default", "paper", "paper-epochs", "splgd", "logit", "network", "same")
FAR = {"Anchorage", "Honolulu", "Kahului", "San Juan"}
"""Areas that the map shows at its edge."""
EDGE = {
    "Anchorage": (-127.0, 31.5),
    "Honolulu": (-127.0, 27.5),
    "Kahului": (-124.0, 26.5),
    "San Juan": (-70.0, 26.5),
}


def draw_bars(found: Findings, folder: Path, method: str) -> None:
    """A panel per carrier: its five most rewarding markets, with intervals."""
    name = f"top-markets-{method}"
    with open_figure(folder, name, len(found.carriers), height=2.4) as axes:
        for axis, carrier in zip(axes, found.carriers, strict=True):
            best = found.best(carrier, method)[::-1]
            rewards = [market.reward for market in best]
            place = np.arange(len(best))
            axis.barh(place, rewards, color="C0", alpha=0.8, height=0.6)
            for at, market in zip(place, best, strict=True):
                ends = interval(market)
                if ends and method == "default":
                    axis.plot(ends, [at, at], color="0.2", linewidth=0.9)
            axis.set_yticks(place, [market.name for market in best], fontsize=6)
            axis.axvline(0.0, color="0.6", linewidth=0.8)
            axis.set_title(deeppqr.datasets.CARRIERS[carrier])
            axis.set_xlabel("reward of serving")


def draw_map(found: Findings, folder: Path) -> None:
    """A panel per carrier: all areas, and lines for its five most rewarding markets."""
    with open_figure(
        folder, "map", len(found.carriers), height=2.2, sharex=True, sharey=True
    ) as axes:
        points = np.array([_where(place) for place in deeppqr.datasets.PLACES])
        for axis, carrier in zip(axes, found.carriers, strict=True):
            axis.scatter(*points.T, s=3, color="0.7", linewidths=0)
            named = set()
            for market in found.best(carrier, "default"):
                ends = [deeppqr.datasets.PLACES[code - 1] for code in market.places]
                axis.plot(*np.array([_where(end) for end in ends]).T, color="C3", lw=0.9)
                named.update(ends)
            for place in named:
                at = _where(place)
                axis.plot(*at, "o", color="C3", markersize=2.5)
                axis.annotate(
                    place.name, at, (2, 2), textcoords="offset points", fontsize=5
                )
            axis.set_title(deeppqr.datasets.CARRIERS[carrier])
            axis.set_aspect(1.25)
            axis.set_xticks([])
            axis.set_yticks([])


def draw_competition(found: Findings, folder: Path, quantity: str, label: str) -> None:
    """A panel per carrier: an average against the number of competitors, with a band.

    Hollow where the changed states leave the data's support.
    """
    name = f"competition-{quantity}"
    with open_figure(folder, name, len(found.carriers), height=2.6) as axes:
        for axis, carrier in zip(axes, found.carriers, strict=True):
            curve = found.competition(carrier, "default")
            if curve is None:
                continue
            band = curve.band(quantity)
            if band is not None:
                axis.fill_between(COMPETITORS, *band, color="C0", alpha=0.2, linewidth=0)
            values = getattr(curve, quantity)
            axis.plot(COMPETITORS, values, color="C0", linewidth=1.0)
            for at, value, mark in zip(COMPETITORS, values, curve.marks, strict=True):
                face = "white" if mark == "outside" else "C0"
                axis.plot(at, value, "o", markersize=4, color="C0", markerfacecolor=face)
            axis.set_title(deeppqr.datasets.CARRIERS[carrier])
            axis.set_xticks(COMPETITORS)
            axis.set_xlabel("non-stop competitors")
            axis.set_ylabel(label)


def draw_likelihood(found: Findings, folder: Path) -> None:
    """Negative log-likelihood of period 15 by carrier and method."""
    methods = [method for method in SHOWN if method in found.methods] or found.methods
    with open_figure(folder, "likelihood", 2, sharey=True) as axes:
        for axis in axes:
            for number, method in enumerate(methods):
                gains = [found.gain(carrier, method) for carrier in found.carriers]
                at = np.arange(len(gains)) + 0.1 * (number - len(methods) / 2)
                axis.errorbar(
                    [-gain.mean if gain else np.nan for gain in gains],
                    at,
                    xerr=[gain.error if gain else 0.0 for gain in gains],
                    fmt="osD^vP*"[number % 7],
                    markersize=3,
                    elinewidth=0.6,
                    label=method,
                )
            axis.set_yticks(
                range(len(found.carriers)), [full_name(code) for code in found.carriers]
            )
            axis.set_xlabel("negative log-likelihood")
        worst = [found.gain(carrier, "same") for carrier in found.carriers]
        axes[1].set_xlim(
            0.0, 1.3 * max([-gain.mean for gain in worst if gain], default=1.0)
        )
        axes[0].set_title("period 15, per decision")
        axes[1].set_title("the same, nearer")
        axes[0].invert_yaxis()
        axes[1].legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _where(place) -> tuple[float, float]:
    if place.name in FAR:
        return EDGE[place.name]
    return place.longitude, place.latitude
