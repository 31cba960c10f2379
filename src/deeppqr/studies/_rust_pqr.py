"""PQR on Rust's buses: his two parameters, the cost curve, the demand for engines.

PQR never solves the agents' problem. The anchor is to replace, with reward zero, so that
r(x, keep) = RC - c(x). Prices are multiples of the estimated RC, on our reading of Rust's
axis: what is paid for an engine is known in dollars, and RC is that price in the units of
the reward.
"""

import time
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from jaxtyping import Float

from ._study import Option, Study, Task, choose
from ._table_ix import SAMPLES

if TYPE_CHECKING:
    from ..baselines import AbstractLaw
    from ..panel import Panel

DISCOUNT = 0.9999
BINS = 90
MONTHS = 12
REPLICATES_PER_TASK = 10
SEED = 0
"""Of the bootstrap: replicate i draws the same buses in every run."""
PRICES = tuple(round(0.25 + 0.05 * number, 2) for number in range(28))
"""Of an engine, as multiples of the estimated RC: 0.25 to 1.6."""
PARAMETERS = ("RC", "theta11")
COLUMNS = np.stack([np.ones(BINS), -0.001 * np.arange(BINS)], axis=1)
"""What RC and theta11 multiply in r(x, keep) = RC - 0.001 theta11 x."""
LEVEL = 0.95


class RustPQR(Study):
    """A task for the estimates on each sample, and one for ten bootstrap replicates."""

    name = "rust-pqr"
    title = "PQR on Rust's bus engines: RC and theta11, cost curve, demand for engines"
    options: ClassVar = {
        "samples": Option(str, "+", ["4", "1-4", "1-3"], "groups of buses"),
        "replicates": Option(int, None, 200, "of the bootstrap over buses"),
        "first_replicate": Option(int, None, 0, "the number of the first of them"),
    }

    def tasks(self, settings):
        # The bootstrap has its own seed: a replicate's number says which buses it draws.
        samples = choose("samples", settings["samples"], SAMPLES)
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
        from ._rust_pqr_report import report

        return report(frame, folder)


def estimates(sample: str) -> list[dict[str, Any]]:
    """The rows of PQR, of NFXP and of NFXP's agents who do not look ahead."""
    from ..baselines import NFXP, bus_costs

    panel, law, transition = _read(sample)
    start = time.perf_counter()
    fit = model().fit(panel)
    seconds = time.perf_counter() - start
    keep, anchor = (fit.actions.index(name) for name in ("keep", "replace"))
    bins = np.arange(float(BINS))[:, None]
    mine = row(sample, "PQR", fit.reward(bins)[:, keep], panel, transition)
    about = {"seconds": round(seconds, 2), "note": fit.stages["reward"]}

    rows = [{**mine, **about}]
    for part, discount in (("NFXP", DISCOUNT), ("myopic", 0.0)):
        start = time.perf_counter()
        found = NFXP(discount, bus_costs("linear"), law).fit(panel)
        seconds = time.perf_counter() - start
        reward = found.reward(bins)
        # PQR's normalisation: what keeping earns beyond replacing.
        beyond = reward[:, keep] - reward[:, anchor]
        errors = np.sqrt(np.diag(found.clustered_covariance))
        named = zip(PARAMETERS, errors, strict=True)
        rows.append(
            {
                **row(sample, part, beyond, panel, transition, discount),
                **{f"{name} s.e.": float(error) for name, error in named},
                "seconds": round(seconds, 2),
            }
        )
    return [{**one, "last_bin": int(panel.state.max())} for one in rows]


def draws(sample: str, replicates: list[int]) -> list[dict[str, Any]]:
    """A row per replicate, as of PQR's estimate; failures say why."""
    from .. import bootstrap
    from ..inference import RewardAt

    panel, _, transition = _read(sample)
    keep = panel.action_index("keep")
    bins = np.arange(float(BINS))[:, None]
    found = bootstrap(
        model(),
        panel,
        RewardAt(bins, np.full(BINS, keep)),
        replicates=range(*replicates),
        seed=SEED,
        estimate=np.zeros(BINS),
    )
    rows = [
        {**row(sample, "draw", reward, panel, transition), "replicate": int(number)}
        for number, reward in zip(found.replicates, found.draws, strict=True)
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


def model() -> Any:
    """PQR with its defaults but for the policy, a quadratic logit, which is quick."""
    from .. import PQR
    from ..policy import Logit

    return PQR(discount=DISCOUNT, anchor="replace", policy=Logit(degree=2))


def row(
    sample: str,
    part: str,
    keep: Float[np.ndarray, " state"],
    panel: "Panel",
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


def visits(panel: "Panel") -> Float[np.ndarray, " state"]:
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
    from ..counterfactual import demand

    reward = np.stack([keep, np.zeros(BINS)], axis=1)
    price = float(keep[0])  # RC: what a new engine in the place of a new one costs
    transfers = [price * (1.0 - multiple) for multiple in PRICES]
    return demand(
        reward,
        transition,
        discount=discount,
        action=1,
        transfers=transfers,
        per_year=MONTHS,
    )


def _read(sample: str) -> "tuple[Panel, AbstractLaw, np.ndarray]":
    """The decisions, and the law of mileage: keeping comes first, then replacing."""
    from .. import datasets
    from ..baselines import MileageIncrements

    panel = datasets.bus(SAMPLES[sample])
    law = MileageIncrements(counts=datasets.bus_increments(SAMPLES[sample]))
    return panel, law, law.fit(panel)[1].transition
