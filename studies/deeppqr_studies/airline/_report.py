"""The report of the airline study: tables, the paper's claims one by one, figures."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import polars as pl

import deeppqr

from .._claims import AGREES, DISAGREES, UNDECIDED, Claim, Claims
from .._figures import open_figure
from .._tables import MISSING, Table, write_markdown
from ._findings import Findings, Market, full_name, interval
from ._fits import COMPETITORS, POOLED
from ._outline import LINES

DESCRIPTIONS = {
    "default": "PQR with every stage chosen by itself",
    "paper": "PQR.paper under the airline hyperparameters, steps read as gradient steps",
    "paper-epochs": "the same, steps read as passes over the rows",
    "splgd": "SPL-GD, planning for itself",
    "logit": "a logit of serving on the state",
    "network": "a network in its place",
    "same": "same as last period, at the rates of periods 13 and 14",
}
EACH = "each"
RANKED = ("default", "paper", "paper-epochs")
"""Methods whose most rewarding markets are shown."""
NOTES = (
    "Discount 0.95, temperature 1, the anchor is to stay out, with reward 0. Fitted on "
    "periods 13 and 14, each decision with the state that followed; predicted: period 15. "
    "Populations and flights enter in logarithms.\n"
    "Errors of log-likelihoods are clustered by market. Rewards: errors of the fit itself; "
    "shares in the top five are of draws from the joint covariance of a carrier's rewards, "
    "ranks those that differences from all other markets leave possible. Of competition: "
    "markets drawn with replacement, the default refitted.\n"
    "Competition: every market of period 15 with 5 to 9 non-stop competitors in place of "
    "its own. `outside`: more than half of these states lie farther from any that was seen "
    "than markets usually lie from each other."
)
DRAWN_METHODS = ("default", "paper", "paper-epochs", "splgd", "logit", "network", "same")
MAP = ((-130.0, -62.0), (23.0, 51.0))
"""Longitudes and latitudes of the map's edges."""
LETTER = (0.95, 1.9)
"""Width of a letter and height of a line of a label, in degrees."""
AT_THE_EDGE = {
    "Anchorage": (-127.0, 31.5),
    "Honolulu": (-127.0, 27.5),
    "Kahului": (-124.0, 26.5),
    "San Juan": (-70.0, 26.5),
}
"""Longitude and latitude at which the map shows areas that lie far outside it."""


def report(frame: pl.DataFrame, folder: Path) -> str:
    """Write the tables and figures; return the tables and the claims as text."""
    found = Findings(frame)
    tables = [_data(found), _likelihood(found)]
    tables += [_advantage(found), _present(found)]
    tables += [_best(found, method) for method in found.methods if method in RANKED]
    tables += [_errors(found), _competition(found), _claims(found)]
    if "default" in found.methods:
        draw_map(found, folder)
        draw_competition(found, folder, "reward", "mean reward of serving")
        draw_competition(found, folder, "probability", "mean chance of serving")
    for method in found.methods:
        if method in RANKED:
            draw_bars(found, folder, method)
    draw_likelihood(found, folder)
    never = "\n".join(row["note"] for row in found.rows_of("never"))
    parts = [table for table in tables if table is not None]
    write_markdown("The airline study", parts, folder)
    refusal = f"{full_name('TW')}: {never}" if never else ""
    texts = [NOTES, refusal, *(part.text() for part in parts), _failed(found)]
    return "\n\n".join(text for text in texts if text)


def _data(found: Findings) -> Table:
    rows = [[row["check"], row["found"]] for row in found.rows_of("data")]
    return Table("The data, checked", ["check", "found"], rows)


def _failed(found: Findings) -> str:
    """Of the bootstrap: errors that leave many replicates out are too small."""
    rows = found.rows_of("failure")
    if not rows:
        return ""
    first = rows[0]
    return (
        f"{len(rows)} replicates of the bootstrap failed, the first of them number "
        f"{first['replicate']} of {full_name(first['sample'])}: {first['note']}"
    )


def _samples(found: Findings) -> list[str]:
    pooled = [POOLED] if POOLED in set(found.markets["sample"]) else []
    return [*pooled, EACH, *found.carriers]


def _named(sample: str) -> str:
    names = {POOLED: "all carriers, one fit", EACH: "all carriers, a fit each"}
    return names.get(sample) or full_name(sample)


def _likelihood(found: Findings) -> Table:
    rows = []
    for sample in _samples(found):
        gains = [found.gain(sample, method) for method in found.methods]
        rows.append([_named(sample), *(str(gain or MISSING) for gain in gains)])
    title = "Mean log-likelihood of period 15 (standard error, clustered by market)"
    return Table(title, ["carrier", *found.methods], rows)


def _advantage(found: Findings) -> Table | None:
    if "default" not in found.methods:
        return None
    others = [method for method in found.methods if method != "default"]
    rows = []
    for sample in _samples(found):
        gains = [found.gain(sample, "default", over=method) for method in others]
        rows.append([_named(sample), *(str(gain or MISSING) for gain in gains)])
    title = "The default's advantage over each (standard error, clustered by market)"
    return Table(title, ["carrier", *others], rows)


def _present(found: Findings) -> Table:
    rows = []
    for sample in _samples(found):
        for present, words in ((1, "in the market"), (0, "not in it")):
            gains = [found.gain(sample, m, present=present) for m in found.methods]
            row = [f"{_named(sample)}, {words}", *(str(g or MISSING) for g in gains)]
            rows.append(row)
    title = "Mean log-likelihood of period 15, by whether the carrier serves already"
    return Table(title, ["carrier", *found.methods], rows)


def _best(found: Findings, method: str) -> Table:
    rows = []
    for carrier in found.carriers:
        for number, market in enumerate(found.best(carrier, method), start=1):
            ends = interval(market)
            rows.append(
                [
                    deeppqr.datasets.CARRIERS[carrier] if number == 1 else "",
                    market.name,
                    f"{market.reward:.2f}",
                    f"[{ends[0]:.2f}, {ends[1]:.2f}]" if ends else MISSING,
                    MISSING if market.top_share is None else f"{market.top_share:.0%}",
                    "{} to {}".format(*market.ranks) if market.ranks else MISSING,
                ]
            )
    title = (
        f"The five most rewarding markets of each carrier, {method}: {DESCRIPTIONS[method]}"
    )
    columns = ["carrier", "market", "reward", "95 % interval"]
    columns += ["in the top five of draws", "ranks in 95 %"]
    return Table(title, columns, rows)


def _errors(found: Findings) -> Table | None:
    """The fit's own standard errors beside those of refits on drawn markets."""
    rows = []
    for carrier in found.carriers:
        drawn = found.spread(carrier)
        fitted = found.markets.filter(sample=carrier, method="default")
        if not drawn or "error" not in fitted.columns:
            continue
        own = dict(fitted.select("market", "error").iter_rows())
        best = {market.number for market in found.best(carrier, "default")}
        ratios = {n: own[n] / error for n, error in drawn.items() if error > 0}
        low, middle, high = np.quantile(list(ratios.values()), [0.1, 0.5, 0.9])
        top = np.median([ratio for n, ratio in ratios.items() if n in best])
        cells = [f"{value:.2f}" for value in (middle, low, high, top)]
        rows.append([deeppqr.datasets.CARRIERS[carrier], *cells])
    if not rows:
        return None
    title = "Standard errors of the rewards by the fit, over those of the bootstrap"
    columns = ["carrier", "median market", "10 %", "90 %", "median of the top five"]
    return Table(title, columns, rows)


def _competition(found: Findings) -> Table | None:
    rows = []
    for carrier in found.carriers:
        curve = found.competition(carrier, "default")
        if curve is None:
            continue
        for quantity, form in (("reward", ".2f"), ("probability", ".3f")):
            change, error = curve.change(quantity)
            values = [f"{value:{form}}" for value in getattr(curve, quantity)]
            spread = "" if error is None else f" ({error:{form}})"
            first = quantity == "reward"
            rows.append(
                [
                    f"{deeppqr.datasets.CARRIERS[carrier]}, {quantity}",
                    *values,
                    f"{change:{form}}{spread}",
                    ", ".join(dict.fromkeys(curve.marks)) if first else "",
                    " ".join(map(str, curve.near)) if first else "",
                ]
            )
    if not rows:
        return None
    head = [f"{number}" for number in COMPETITORS]
    columns = ["carrier", *head, "from 5 to 9 (s.e.)", "support", "rows with so many"]
    title = "Mean reward and chance of serving by number of non-stop competitors, default"
    return Table(title, columns, rows)


def _claims(found: Findings) -> Claims:
    claims = []
    for method in ("default", "paper", "paper-epochs"):
        if method in found.methods and "AA" in found.carriers:
            claims.append(_at_dallas(found, method))
    claims += _prediction_claims(found)
    claims += _competition_claims(found)
    return Claims("The paper's claims", claims)


def _at_dallas(found: Findings, method: str) -> Claim:
    text = f"American's five most rewarding markets are all at Dallas ({method})"
    best = found.best("AA", method)
    number = sum(market.at("Dallas") for market in best)
    numbers = f"{number} of {len(best)}"
    verdict = AGREES if number == len(best) else DISAGREES
    share = found.hubs("AA").get("Dallas", 0.0)
    if method == "default" and found.hubs("AA"):
        numbers += f"; in {share:.0%} of the draws all five are"
        if 0.05 < share < 0.95:
            verdict = UNDECIDED
    return Claim(text, verdict, numbers)


def _prediction_claims(found: Findings) -> list[Claim]:
    claims = []
    for method, over in (("default", "splgd"), ("default", "same"), ("paper", "splgd")):
        if not {method, over} <= set(found.methods):
            continue
        gains = {c: found.gain(c, method, over=over) for c in found.carriers}
        ahead = [code for code, gain in gains.items() if gain and gain.mean > 0]
        clear = [code for code, gain in gains.items() if gain and gain.clear]
        total = found.gain(EACH, method, over=over)
        assert total is not None
        behind = total.mean < -2 * total.error
        verdict = AGREES if total.clear else DISAGREES if behind else UNDECIDED
        numbers = (
            f"{total} per decision over all carriers; ahead for {len(ahead)} of "
            f"{len(gains)}, clearly for {len(clear)}"
        )
        pooled = found.gain(POOLED, method, over=over)
        if pooled is not None:
            numbers += f"; one fit for all: {pooled}"
        claims.append(Claim(f"{method} predicts better than {over}", verdict, numbers))
    return claims


def _competition_claims(found: Findings) -> list[Claim]:
    change = {}
    for carrier in found.carriers:
        curve = found.competition(carrier, "default")
        if curve is not None:
            change[carrier] = curve.change("probability")
    if not change:
        return []
    less = [code for code, (size, _) in change.items() if size < 0]
    clear = [c for c, (size, error) in change.items() if error and size < -2 * error]
    more = [c for c, (size, error) in change.items() if error and size > 2 * error]
    most = AGREES if 2 * len(clear) > len(change) else UNDECIDED
    if 2 * len(more) > len(change):
        most = DISAGREES
    claims = [
        Claim(
            "with more competitors most carriers serve less",
            most,
            f"less: {len(less)} of {len(change)}, clearly {', '.join(clear) or 'none'}; "
            f"clearly more: {', '.join(more) or 'none'}",
        )
    ]
    if "AA" in change:
        size, error = change["AA"]
        alone = size > 0 and len(less) == len(change) - 1
        sure = error is not None and abs(size) > 2 * error
        verdict = (AGREES if alone else DISAGREES) if sure else UNDECIDED
        about = "" if error is None else f" (s.e. {error:.3f})"
        text = "American is the only exception: it serves more"
        rising = [code for code, (gap, _) in change.items() if gap > 0]
        numbers = f"from 5 to 9: {size:+.3f}{about}; serving more: {', '.join(rising)}"
        claims.append(Claim(text, verdict, numbers))
    return claims


def draw_bars(found: Findings, folder: Path, method: str) -> None:
    """A panel per carrier: its five most rewarding markets, with intervals, and with the
    share of draws in which each is among the five."""
    name = f"top-markets-{method}"
    with open_figure(folder, name, len(found.carriers), height=2.1) as axes:
        for axis, carrier in zip(axes, found.carriers, strict=True):
            best = found.best(carrier, method)[::-1]
            rewards = [market.reward for market in best]
            place = np.arange(len(best))
            axis.barh(place, rewards, color="C0", alpha=0.8, height=0.6)
            for at, market in zip(place, best, strict=True):
                ends = interval(market)
                if ends:
                    axis.plot(ends, [at, at], color="0.2", linewidth=0.9)
            axis.set_yticks(place, [_with_share(market) for market in best], fontsize=8)
            axis.axvline(0.0, color="0.6", linewidth=0.8)
            axis.set_title(deeppqr.datasets.CARRIERS[carrier])
            axis.set_xlabel("reward of serving")


def _with_share(market: Market) -> str:
    share = "" if market.top_share is None else f"  {market.top_share:.0%}"
    return f"{market.name}{share}"


def draw_map(found: Findings, folder: Path) -> None:
    """A panel per carrier: all areas, and lines for its five most rewarding markets."""
    with open_figure(folder, "map", len(found.carriers), height=2.6) as axes:
        points = np.array([_where(place) for place in deeppqr.datasets.PLACES])
        for axis, carrier in zip(axes, found.carriers, strict=True):
            for line in LINES:
                axis.plot(*np.array(line).T, color="0.75", linewidth=0.7, zorder=0)
            axis.scatter(*points.T, s=4, color="0.55", linewidths=0)
            named = {}
            for market in found.best(carrier, "default"):
                ends = [deeppqr.datasets.PLACES[code - 1] for code in market.places]
                axis.plot(*np.array([_where(end) for end in ends]).T, color="C1", lw=1.3)
                named.update({end.name: _where(end) for end in ends})
            for place in named.values():
                axis.plot(*place, "o", color="C1", markersize=4)
            label_places(axis, named)
            axis.set_title(deeppqr.datasets.CARRIERS[carrier])
            axis.set_xlim(*MAP[0])
            axis.set_ylim(*MAP[1])
            axis.set_aspect(1.25)
            axis.axis("off")


def label_places(axis, named: Mapping[str, tuple[float, float]]) -> None:
    """Names beside their dots, each where it covers no other name and no dot."""
    taken = [(x - 0.4, y - 0.4, x + 0.4, y + 0.4) for x, y in named.values()]
    for name, (x, y) in sorted(named.items(), key=lambda each: -each[1][1]):
        wide, high = LETTER[0] * len(name), LETTER[1]
        # Beside, above and below the dot, nearer places first.
        tried = [
            (x + dx if side > 0 else x - dx - wide, y + dy - high / 2)
            for dx in (0.7, 1.6)
            for dy in (0.0, 1.4, -1.4, 2.8, -2.8, 4.2, -4.2)
            for side in (1, -1)
        ]
        boxes = [(left, low, left + wide, low + high) for left, low in tried]
        inside = [box for box in boxes if box[0] > MAP[0][0] and box[2] < MAP[0][1]]
        free = [box for box in inside if not any(_overlap(box, other) for other in taken)]
        box = (free or inside or boxes)[0]
        taken.append(box)
        middle = (box[1] + box[3]) / 2
        axis.text(box[0], middle, name, fontsize=7, va="center")


def _overlap(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    apart = one[2] < other[0] or other[2] < one[0] or one[3] < other[1] or other[3] < one[1]
    return not apart


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
    methods = [
        method for method in DRAWN_METHODS if method in found.methods
    ] or found.methods
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
    return AT_THE_EDGE.get(place.name) or (place.longitude, place.latitude)
