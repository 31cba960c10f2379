"""What the tasks of the airline study compute."""

import warnings
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import jax.random as jr
import numpy as np
from jaxtyping import Float

from deeppqr import policy as policies
from deeppqr._errors import WeakOverlapWarning
from deeppqr._fit import Fit
from deeppqr._pqr import PQR
from deeppqr.baselines import SPLGD
from deeppqr.counterfactual import MeansAt, changed_states
from deeppqr.datasets import airline
from deeppqr.inference import bootstrap
from deeppqr.panel import Panel
from deeppqr.reward import Joint
from ._airline import COMPETITORS, DISCOUNT, FITTED, NEVER, POOLED, TEST, TOP, TRAIN
from ._airline_data import data, every_row, never

if TYPE_CHECKING:
    import polars as pl

TOLD = {"discount": DISCOUNT, "anchor": "out"}
SERVE = 1
"""The column of serving."""
BOOTSTRAP_SEED = 0


@dataclass(frozen=True, eq=False)
class Sample:
    """Decisions to fit, and those to foresee."""

    panel: Panel
    test: "pl.DataFrame"

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
    import polars as pl

    frame = every_row().filter(pl.col("period") == TEST)
    carrier = None if name == POOLED else name
    panel = airline(carrier, periods=TRAIN)
    kept = set(np.unique(np.linspace(1, 1770, markets).round().astype(int)).tolist())
    test = frame.filter(
        pl.col("carrier") != NEVER if carrier is None else pl.col("carrier") == carrier
    ).filter(pl.col("Segid").is_in(kept))
    names = set(test["market"])
    inside = np.array([label in names for label in panel.unit_labels])
    return Sample(panel.select(inside[panel.unit]), test)


def light(seed: int = 0) -> PQR:
    """What the bootstrap refits: quick, and of the default's kind."""
    reward = Joint(training=None, rounds=1)
    return PQR(**TOLD, policy="logit", reward=reward, seed=seed)


def fit(sample: str, method: str, markets: int, seed: int) -> list[dict[str, Any]]:
    """Rewards, chances and log-likelihoods of period 15, market by market."""
    found = sample_of(sample, markets)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakOverlapWarning)  # the diagnostics say it
        estimate, note = _estimate(found, method, seed)
    states = found.test
    log_prob = estimate.log_policy(states)
    taken = log_prob[np.arange(len(log_prob)), found.served]
    worth = np.full(len(taken), np.nan)
    if method in FITTED:
        worth = estimate.reward(states)[:, SERVE]
    about = {"sample": sample, "method": method, "seed": seed}
    rows = [
        {
            "kind": "market",
            **about,
            "carrier": carrier,
            "market": number,
            "present": present,
            "served": served,
            "loglik": gain,
            "probability": chance,
            "reward": None if np.isnan(reward) else reward,
        }
        for carrier, number, present, served, gain, chance, reward in zip(
            states["carrier"],
            states["Segid"],
            found.present.tolist(),
            found.served.tolist(),
            taken.tolist(),
            np.exp(log_prob[:, SERVE]).tolist(),
            worth.tolist(),
            strict=True,
        )
    ]
    rows.append({"kind": "note", **about, "note": note})
    if isinstance(estimate, Fit):
        rows += [{**about, **row} for row in _competition(estimate, found)]
    return rows


def replicates(sample: str, markets: int, replicates: list[int]) -> list[dict[str, Any]]:
    """How rewards and the effects of competition vary over draws of markets."""
    found = sample_of(sample, markets)
    statistic = Drawn(found.test.select(found.panel.encoding.names).to_numpy())
    drawn = bootstrap(
        light(),
        found.panel,
        statistic,
        replicates=range(*replicates),
        seed=BOOTSTRAP_SEED,
        estimate=np.zeros(len(found.test) + 2 * (1 + len(COMPETITORS))),
    )
    size = len(found.test)
    worth, means = drawn.draws[:, :size], drawn.draws[:, size:]
    best = np.argsort(-worth, axis=1)[:, :TOP]
    times = np.bincount(best.ravel(), minlength=size)
    rows: list[dict[str, Any]] = [
        {
            "kind": "spread",
            "sample": sample,
            "market": number,
            "draws": len(worth),
            "sum": total,
            "squares": squares,
            "top": top,
        }
        for number, total, squares, top in zip(
            found.test["Segid"],
            worth.sum(axis=0).tolist(),
            (worth**2).sum(axis=0).tolist(),
            times.tolist(),
            strict=True,
        )
    ]
    ends = found.test.select("origin", "dest").to_numpy()
    for number, top, mean in zip(drawn.replicates, best, means, strict=True):
        shared = set.intersection(*(set(pair) for pair in ends[top].tolist()))
        about = {"sample": sample, "replicate": int(number)}
        rows.append({"kind": "hub", **about, "hub": min(shared, default="none")})
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
class Drawn:
    """Of a fit: the reward of serving each market, and its mean and chance by the number
    of competitors."""

    states: np.ndarray

    def __call__(self, fit: Fit) -> Float[np.ndarray, " entry"]:
        column = fit.encoding.names.index("nonstop_comps")
        scenarios = [self.states]
        for competitors in COMPETITORS:
            scenarios.append(self.states.copy())
            scenarios[-1][:, column] = competitors
        means = MeansAt(tuple(scenarios), np.ones(len(self.states)))(fit)
        worth = fit.reward(self.states)[:, SERVE]
        return np.concatenate([worth, *means[:, :, SERVE].T])


PARTS = {"data": data, "never": never, "fit": fit, "replicates": replicates}


@dataclass(frozen=True, eq=False)
class Chooser:
    """A policy without a reward."""

    panel: Panel
    policy: Any

    def log_policy(self, states: Any) -> np.ndarray:
        return self.policy.log_prob(self.panel.encoding.encode_any(states))


@dataclass(frozen=True, eq=False)
class SameAgain:
    """Serving at the rate of those who served, or did not, in the panel."""

    rate: Float[np.ndarray, " present"]
    column: int

    def log_prob(self, state: np.ndarray) -> np.ndarray:
        rate = self.rate[state[:, self.column].astype(int)]
        return np.log(np.stack([1 - rate, rate], axis=1))


def _estimate(found: Sample, method: str, seed: int) -> tuple[Any, str]:
    panel = found.panel
    if method in ("logit", "network"):
        fitted = policies.resolve(method).fit(panel, key=jr.key(seed))
        return Chooser(panel, fitted.policy), fitted.note
    if method == "same":
        column = panel.encoding.names.index("seg_entry_t")
        present, served = panel.state[:, column], panel.action == SERVE
        # Half a row more of each, so that what never happened is not impossible.
        rate = [
            (served[present == k].sum() + 0.5) / ((present == k).sum() + 1) for k in (0, 1)
        ]
        return Chooser(panel, SameAgain(np.array(rate), column)), f"rates {rate}"
    if method == "splgd":
        fitted = SPLGD(DISCOUNT, intercepts=True, seed=seed).fit(panel).grounded("out")
        return fitted, fitted.note
    models = {
        "default": lambda: PQR(**TOLD, seed=seed),
        "light": lambda: light(seed),
        "paper": lambda: PQR.paper(**TOLD, study="airline", seed=seed),
        "paper-epochs": lambda: PQR.paper(
            **TOLD, study="airline", reading="epochs", seed=seed
        ),
    }
    fitted = models[method]().fit(panel)
    return fitted, "; ".join(f"{stage}: {note}" for stage, note in fitted.stages.items())


def _competition(estimate: Fit, found: Sample) -> list[dict[str, Any]]:
    """Mean reward and chance of serving by the number of competitors."""
    result = changed_states(
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
