"""PQR and NFXP on Rust's buses, on the sample and on draws of it."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from jaxtyping import Float

import deeppqr

from ..published import SAMPLES

DISCOUNT = 0.9999  # a month's, Rust's
BINS = 90  # of 5,000 miles each, Rust's
MONTHS = 12
BOOTSTRAP_SEED = 0  # replicate i draws the same buses in every run
PRICES = tuple(round(0.25 + 0.05 * number, 2) for number in range(28))
"""Of an engine, as multiples of the estimated RC: 0.25 to 1.6."""
PARAMETERS = ("RC", "theta11")
COLUMNS = np.stack([np.ones(BINS), -0.001 * np.arange(BINS)], axis=1)
"""What RC and theta11 multiply in r(x, keep) = RC - 0.001 theta11 x."""


def estimates(sample: str) -> list[dict[str, Any]]:
    """The rows of PQR, of NFXP and of NFXP's agents who do not look ahead."""
    panel, law, transition = _read(sample)
    start = time.perf_counter()
    fit = model().fit(panel)
    seconds = time.perf_counter() - start
    keep, anchor = (fit.actions.index(name) for name in ("keep", "replace"))
    bins = np.arange(float(BINS))[:, None]
    mine = row(sample, "PQR", fit.reward(bins)[:, keep], panel, transition)
    found = fit.project(["1", "mileage_bin"], panel, weight="visits")
    # theta11 is -1000 times the slope; the same reward as above, so the same estimates.
    mine |= errors_of(np.array([1.0, 1000.0]) * found.standard_errors)
    about = {"seconds": round(seconds, 2), "note": fit.stages["reward"]}

    rows = [{**mine, **about}]
    for part, discount in (("NFXP", DISCOUNT), ("myopic", 0.0)):
        start = time.perf_counter()
        found = deeppqr.baselines.NFXP(
            discount, deeppqr.baselines.bus_costs("linear"), law
        ).fit(panel)
        seconds = time.perf_counter() - start
        reward = found.reward(bins)
        # PQR's normalisation: what keeping earns beyond replacing.
        beyond = reward[:, keep] - reward[:, anchor]
        rows.append(
            {
                **row(sample, part, beyond, panel, transition, discount),
                **errors_of(np.sqrt(np.diag(found.clustered_covariance))),
                "seconds": round(seconds, 2),
            }
        )
    return [{**one, "last_bin": int(panel.state.max())} for one in rows]


def draws(sample: str, replicates: list[int]) -> list[dict[str, Any]]:
    """A row per replicate, as of PQR's estimate; failures say why."""
    panel, _, transition = _read(sample)
    found = deeppqr.bootstrap(
        model(),
        panel,
        keep_and_convergence,
        replicates=range(*replicates),
        seed=BOOTSTRAP_SEED,
        estimate=np.zeros(BINS + 1),
    )
    rows = [
        {
            **row(sample, "draw", drawn[:BINS], panel, transition),
            "replicate": int(number),
            "converged": bool(drawn[BINS]),
        }
        for number, drawn in zip(found.replicates, found.draws, strict=True)
    ]
    return rows + [
        {
            "sample": sample,
            "part": "failure",
            "replicate": failure.replicate,
            "note": failure.message,
        }
        for failure in found.failures
    ]


def keep_and_convergence(fit: deeppqr.Fit) -> Float[np.ndarray, " entry"]:
    """The reward of keeping in every bin, then whether the fit's rounds converged."""
    bins = np.arange(float(BINS))[:, None]
    keep = fit.reward(bins)[:, fit.actions.index("keep")]
    return np.append(keep, "not converged" not in fit.stages["reward"])


def model() -> deeppqr.PQR:
    """PQR with its defaults."""
    return deeppqr.PQR(discount=DISCOUNT, anchor="replace")


def errors_of(errors: Float[np.ndarray, " parameter"]) -> dict[str, float]:
    """Standard errors of RC and theta11 by the names of their columns."""
    named = zip(PARAMETERS, errors, strict=True)
    return {f"{name} s.e.": float(error) for name, error in named}


def row(
    sample: str,
    part: str,
    keep: Float[np.ndarray, " state"],
    panel: deeppqr.Panel,
    transition: np.ndarray,
    discount: float = DISCOUNT,
) -> dict[str, Any]:
    """What is made of a reward of keeping: parameters, the reward itself, demand.

    Demand is that of the reward and that of the line RC - c(x) it is projected on.
    """
    theta = project(keep, visits(panel))
    named = {
        "{}": (PARAMETERS, theta),
        "r({})": (range(BINS), keep),
        "demand({})": (PRICES, demand_for_engines(keep, transition, discount)),
        "line({})": (PRICES, demand_for_engines(COLUMNS @ theta, transition, discount)),
    }
    return {"sample": sample, "part": part} | {
        name.format(label): float(value)
        for name, (labels, values) in named.items()
        for label, value in zip(labels, values, strict=True)
    }


def visits(panel: deeppqr.Panel) -> Float[np.ndarray, " state"]:
    """How often each bin was seen and the engine kept, where the next month was seen."""
    rows = panel.is_transition & (panel.action == panel.action_index("keep"))
    bins = panel.state[rows, 0].astype(np.int64)
    return np.bincount(bins, panel.weight[rows], minlength=BINS)


def project(
    keep: Float[np.ndarray, " state"], weight: Float[np.ndarray, " state"]
) -> Float[np.ndarray, " feature"]:
    """RC and theta11: what `fit.project` finds with weight="visits", for a curve."""
    weighted = COLUMNS * weight[:, None]
    return np.linalg.solve(weighted.T @ COLUMNS, weighted.T @ keep)


def demand_for_engines(
    keep: Float[np.ndarray, " state"], transition: np.ndarray, discount: float
) -> Float[np.ndarray, " price"]:
    """Replacements per bus and year at each price; keeping comes first in the law."""
    reward = np.stack([keep, np.zeros(BINS)], axis=1)
    price = float(keep[0])  # RC: what a new engine in the place of a new one costs
    transfers = [price * (1.0 - multiple) for multiple in PRICES]
    return deeppqr.counterfactual.demand(
        reward,
        transition,
        discount=discount,
        action=1,
        transfers=transfers,
        per_year=MONTHS,
    )


def _read(sample: str) -> tuple[deeppqr.Panel, Any, np.ndarray]:
    """The decisions, and the law of mileage: keeping comes first, then replacing."""
    panel = deeppqr.datasets.bus(SAMPLES[sample])
    law = deeppqr.baselines.MileageIncrements(
        counts=deeppqr.datasets.bus_increments(SAMPLES[sample])
    )
    return panel, law, law.fit(panel)[1].transition
