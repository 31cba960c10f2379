"""What the tasks of the airline study compute: checks of the data, fits, replicates."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import polars as pl
from jaxtyping import Float

import deeppqr

NEVER = "TW"
"""TWA, which serves no market in these periods."""
POOLED = "pooled"
FITTED = ("default", "paper", "paper-epochs", "splgd")
"""Methods that estimate the reward of serving."""
TRAIN, TEST = (13, 14), 15
"""Periods that are fitted, and the one that is predicted: the paper's."""
DISCOUNT = 0.95
KNOWN: dict[str, Any] = {"discount": DISCOUNT, "anchor": "out"}
"""What every estimator is told; the reward of staying out is zero."""
SERVE = 1
"""The column of serving."""
NUM_MARKETS = 1770
COMPETITORS = (5, 6, 7, 8, 9)
"""Numbers of non-stop competitors that are compared."""
TOP = 5
"""Markets of a carrier that are shown: its most rewarding, as in the paper."""
LEVEL = 0.95
DRAWS = 2_000
"""From the joint covariance of a fit's rewards: shares are right to 1.1 points."""
BOOTSTRAP_SEED = 0
EARTH_RADIUS = 3.9588  # thousands of miles


@lru_cache(maxsize=1)
def every_row() -> pl.DataFrame:
    """The files, read once in a process."""
    return deeppqr.datasets.airline_frame()


def data() -> list[dict[str, Any]]:
    """What can be checked about the files and their codes."""
    frame = every_row()
    first = frame.filter(pl.col("carrier") == "AA", pl.col("period") == TRAIN[0])
    line = [
        great_circle(deeppqr.datasets.PLACES[start - 1], deeppqr.datasets.PLACES[end - 1])
        for start, end in zip(first["csa_code_origin"], first["csa_code_dest"], strict=True)
    ]
    sizes = frame.select(pl.col("carrier", "market", "period").n_unique()).row(0)
    linked = deeppqr.datasets.link_periods(frame, ["Segid"]).select("period", "next_Segid")
    rows = [
        ("carriers, markets, periods", " x ".join(f"{size:,}" for size in sizes)),
        ("rows", f"{len(frame):,}"),
        ("rows of periods 13 and 14 linked to the next", _linked(linked, TRAIN)),
        ("rows of period 15 with a next state", _linked(linked, (TEST,))),
        (
            "distance in the files and between the named airports, correlation",
            f"{np.corrcoef(line, first['Dist'])[0, 1]:.5f}",
        ),
        ("largest population", _largest(frame)),
    ]
    rows += [(f"largest share of {code}", text) for code, text in _hubs(frame).items()]
    for period in (*TRAIN, TEST):
        part = frame.filter(pl.col("period") == period)
        switch = (part["seg_entry_t"] != part["seg_entry_tplus1"]).mean()
        rows.append((f"rows that switch in period {period}", f"{switch:.1%}"))
    return [{"kind": "data", "check": check, "found": found} for check, found in rows]


def never() -> list[dict[str, Any]]:
    """The error message for a carrier that serves no market."""
    try:
        panel = deeppqr.datasets.airline(NEVER, periods=TRAIN)
        deeppqr.PQR(**KNOWN).fit(panel)
        said = "nothing"
    except deeppqr.ActionNeverTaken as problem:
        said = str(problem)
    return [{"kind": "never", "sample": NEVER, "note": said}]


def great_circle(start, end) -> float:
    """The distance of two places in thousands of miles, the unit of the files."""
    north = np.radians([start.latitude, end.latitude])
    east = np.radians([start.longitude, end.longitude])
    half = np.sin(np.diff(north) / 2) ** 2
    half = half + np.cos(north[0]) * np.cos(north[1]) * np.sin(np.diff(east) / 2) ** 2
    return float(2 * EARTH_RADIUS * np.arcsin(np.sqrt(half))[0])


def _linked(frame: pl.DataFrame, periods: tuple[int, ...]) -> str:
    part = frame.filter(pl.col("period").is_in(periods))
    return f"{part['next_Segid'].is_not_null().sum():,} of {len(part):,}"


def _largest(frame: pl.DataFrame) -> str:
    row = frame.sort("pop_origin", descending=True).row(0, named=True)
    return f"{row['origin']}, {row['pop_origin']:,.0f}"


def _hubs(frame: pl.DataFrame) -> dict[str, str]:
    ends = [("origin", "orig_share"), ("dest", "dest_share")]
    both = pl.concat(
        [
            frame.select(
                "carrier", pl.col(area).alias("area"), pl.col(share).alias("share")
            )
            for area, share in ends
        ]
    )
    means = both.group_by("carrier", "area").agg(pl.col("share").mean())
    best = means.sort("share", descending=True).unique("carrier", keep="first")
    return {
        row["carrier"]: f"{row['area']}, {row['share']:.2f}"
        for row in best.sort("carrier").iter_rows(named=True)
        if row["share"] > 0
    }


@dataclass(frozen=True, eq=False)
class Sample:
    """Decisions to fit, and those to predict."""

    panel: deeppqr.Panel
    test: pl.DataFrame

    @property
    def served(self) -> np.ndarray:
        return self.test["seg_entry_tplus1"].to_numpy()

    @property
    def present(self) -> np.ndarray:
        """Whether the carrier serves the market already."""
        return self.test["seg_entry_t"].to_numpy()


@lru_cache(maxsize=2)
def sample_of(name: str, markets: int) -> Sample:
    """A carrier's decisions, or those of all that ever serve a market."""
    frame = every_row().filter(pl.col("period") == TEST)
    carrier = None if name == POOLED else name
    panel = deeppqr.datasets.airline(carrier, periods=TRAIN)
    kept = set(np.unique(np.linspace(1, NUM_MARKETS, markets).round().astype(int)).tolist())
    test = frame.filter(
        pl.col("carrier") != NEVER if carrier is None else pl.col("carrier") == carrier
    ).filter(pl.col("Segid").is_in(kept))
    names = set(test["market"])
    inside = np.array([label in names for label in panel.unit_labels])
    return Sample(panel.select(inside[panel.unit]), test)


def fit(sample: str, method: str, markets: int, seed: int) -> list[dict[str, Any]]:
    """Rewards, chances and log-likelihoods of period 15, market by market."""
    found = sample_of(sample, markets)
    with warnings.catch_warnings():
        # Weak overlap is in the diagnostics of each fit; a warning for each adds nothing.
        warnings.simplefilter("ignore", deeppqr.WeakOverlapWarning)
        estimate, note = ESTIMATORS[method](found.panel, seed)
    states = found.test
    log_prob = estimate.log_policy(states)
    taken = log_prob[np.arange(len(log_prob)), found.served]
    serve_reward = np.full(len(taken), np.nan)
    if method in FITTED:
        serve_reward = estimate.reward(states)[:, SERVE]
    about = {"sample": sample, "method": method, "seed": seed}
    sure, hubs = _certainty(estimate, sample, states)
    columns = {
        "carrier": states["carrier"],
        "market": states["Segid"],
        "present": found.present.tolist(),
        "served": found.served.tolist(),
        "loglik": taken.tolist(),
        "probability": np.exp(log_prob[:, SERVE]).tolist(),
        "reward": [
            None if np.isnan(reward) else reward for reward in serve_reward.tolist()
        ],
        **sure,
    }
    rows = [
        {"kind": "market", **about, **dict(zip(columns, values, strict=True))}
        for values in zip(*columns.values(), strict=True)
    ]
    rows += [{"kind": "hub", **about, **hub} for hub in hubs]
    rows.append({"kind": "note", **about, "note": note})
    if isinstance(estimate, deeppqr.Fit):
        rows += [{**about, **row} for row in _competition(estimate, found)]
    return rows


def _certainty(
    estimate: Any, sample: str, states: pl.DataFrame
) -> tuple[dict[str, list[Any]], list[dict[str, Any]]]:
    """Errors of the rewards and of their order, from the fit that the rewards are of.

    By column: standard errors, shares of draws in the top, and of the top itself the ends
    of the intervals of ranks; then how often all of the top have an area in common. Empty
    for estimators without errors of their own. Of a fit for all carriers, errors alone:
    markets are ranked carrier by carrier.
    """
    if not isinstance(estimate, deeppqr.Fit):
        return {}, []
    try:
        error = estimate.standard_errors(states)[:, SERVE]
    except deeppqr.NoInfluenceFunction:
        return {}, []
    if sample == POOLED:
        return {"error": error.tolist()}, []
    order = deeppqr.inference.rank(
        estimate, states, estimate.actions[SERVE], top=TOP, level=LEVEL, draws=DRAWS
    )
    low, high = np.full((2, len(states)), None)
    low[order.best], high[order.best] = order.low, order.high
    sure = {"error": error, "top": order.top_share, "rank_low": low, "rank_high": high}
    ends = states.select("origin", "dest").to_numpy()
    shared = Counter(
        min(set.intersection(*(set(pair) for pair in ends[highest])), default="none")
        for highest in order.highest
    )
    hubs = [{"hub": hub, "draws": count} for hub, count in shared.items()]
    return {name: values.tolist() for name, values in sure.items()}, hubs


def replicates(sample: str, markets: int, replicates: list[int]) -> list[dict[str, Any]]:
    """How the effects of competition, and rewards, vary over draws of markets."""
    found = sample_of(sample, markets)
    statistic = RewardsAndMeans(found.test.select(found.panel.encoding.names).to_numpy())
    drawn = deeppqr.bootstrap(
        deeppqr.PQR(**KNOWN),
        found.panel,
        statistic,
        replicates=range(*replicates),
        seed=BOOTSTRAP_SEED,
        estimate=np.zeros(len(found.test) + 2 * (1 + len(COMPETITORS))),
    )
    size = len(found.test)
    serve_reward, means = drawn.draws[:, :size], drawn.draws[:, size:]
    rows: list[dict[str, Any]] = [
        {
            "kind": "spread",
            "sample": sample,
            "market": number,
            "draws": len(serve_reward),
            "sum": total,
            "squares": squares,
        }
        for number, total, squares in zip(
            found.test["Segid"],
            serve_reward.sum(axis=0).tolist(),
            (serve_reward**2).sum(axis=0).tolist(),
            strict=True,
        )
    ]
    for number, mean in zip(drawn.replicates, means, strict=True):
        about = {"sample": sample, "replicate": int(number)}
        for place, competitors in enumerate((None, *COMPETITORS)):
            reward, probability = mean.reshape(2, -1)[:, place].tolist()
            scenario = {"competitors": competitors, "reward": reward}
            rows.append({"kind": "drawn", **about, **scenario, "probability": probability})
    rows += [
        {"kind": "failure", "sample": sample, "replicate": n, "note": message}
        for n, message in drawn.failures
    ]
    return rows


@dataclass(frozen=True, eq=False)
class RewardsAndMeans:
    """The reward of serving each market, then its mean and the mean probability by the
    number of competitors: the statistic of the bootstrap."""

    states: np.ndarray

    def __call__(self, fit: deeppqr.Fit) -> Float[np.ndarray, " entry"]:
        column = fit.encoding.names.index("nonstop_comps")
        scenarios = [self.states]
        for competitors in COMPETITORS:
            scenarios.append(self.states.copy())
            scenarios[-1][:, column] = competitors
        weight = np.ones(len(self.states))
        means = deeppqr.counterfactual.MeansAt(tuple(scenarios), weight)(fit)
        serve_reward = fit.reward(self.states)[:, SERVE]
        return np.concatenate([serve_reward, *means[:, :, SERVE].T])


@dataclass(frozen=True, eq=False)
class PolicyOnly:
    """A policy without a reward."""

    panel: deeppqr.Panel
    policy: Any

    def log_policy(self, states: Any) -> np.ndarray:
        return self.policy.log_prob(self.panel.encoding.encode_any(states))


@dataclass(frozen=True, eq=False)
class SwitchRates:
    """Serving at the rate of those who served, or did not, in the panel."""

    rate: Float[np.ndarray, " present"]
    column: int

    def log_prob(self, state: np.ndarray) -> np.ndarray:
        rate = self.rate[state[:, self.column].astype(int)]
        return np.log(np.stack([1 - rate, rate], axis=1))


def _fit_policy(policy: Any, panel: deeppqr.Panel, seed: int) -> tuple[Any, str]:
    import jax  # half a second, which the list of studies does not need

    fitted = policy.fit(panel, key=jax.random.key(seed))
    return PolicyOnly(panel, fitted.policy), fitted.note


def _fit_rates(panel: deeppqr.Panel, seed: int) -> tuple[Any, str]:
    del seed
    column = panel.encoding.names.index("seg_entry_t")
    present, served = panel.state[:, column], panel.action == SERVE
    # Half a row more of each, so that what never happened does not get probability zero.
    rate = [(served[present == k].sum() + 0.5) / ((present == k).sum() + 1) for k in (0, 1)]
    return PolicyOnly(panel, SwitchRates(np.array(rate), column)), f"rates {rate}"


def _fit_splgd(panel: deeppqr.Panel, seed: int) -> tuple[Any, str]:
    baseline = deeppqr.baselines.SPLGD(DISCOUNT, intercepts=True, seed=seed)
    fitted = baseline.fit(panel).grounded("out")
    return fitted, fitted.note


def _fit_pqr(model: deeppqr.PQR, panel: deeppqr.Panel) -> tuple[Any, str]:
    fitted = model.fit(panel)
    return fitted, "; ".join(f"{stage}: {note}" for stage, note in fitted.stages.items())


def _paper(seed: int, reading: str) -> deeppqr.PQR:
    return deeppqr.PQR.paper(**KNOWN, study="airline", reading=reading, seed=seed)


ESTIMATORS: dict[str, Callable[[Any, int], tuple[Any, str]]] = {
    "default": lambda panel, seed: _fit_pqr(deeppqr.PQR(**KNOWN, seed=seed), panel),
    "paper": lambda panel, seed: _fit_pqr(_paper(seed, "steps"), panel),
    "paper-epochs": lambda panel, seed: _fit_pqr(_paper(seed, "epochs"), panel),
    "splgd": _fit_splgd,
    "logit": lambda panel, seed: _fit_policy(deeppqr.policy.Logit(), panel, seed),
    "network": lambda panel, seed: _fit_policy(deeppqr.policy.Network(), panel, seed),
    "same": _fit_rates,
}
"""By method: from a panel and a seed, something with `log_policy`, and a note."""


def _competition(estimate: deeppqr.Fit, found: Sample) -> list[dict[str, Any]]:
    """Mean reward and chance of serving by the number of competitors."""
    result = deeppqr.counterfactual.changed_states(
        estimate,
        found.panel,
        {"nonstop_comps": list(map(float, COMPETITORS))},
        states=found.test,
    )
    rows = [row for row in result.rows() if row["action"] == "serve"]
    return [
        {
            "kind": "competition",
            "competitors": competitors,
            "reward": row["reward"],
            "probability": row["probability"],
            "outside": row["outside"],
            "near": row["near"],
            "mark": row["mark"],
        }
        for competitors, row in zip((None, *COMPETITORS), rows, strict=True)
    ]


PARTS = {"data": data, "never": never, "fit": fit, "replicates": replicates}
"""What a task computes, by its parameter `part`."""
