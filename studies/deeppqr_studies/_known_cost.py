"""PQR and its intervals on buses with a known replacement cost, against the truth."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.stats import norm

from deeppqr._pqr import PQR
from deeppqr.inference import reward_influence
from deeppqr.inference._projection import MIN_ROWS
from deeppqr.panel import Panel
from deeppqr.worlds import KnownCostBus
from ._measure import mape
from ._methods import Estimate, one_parameter
from ._oracle import fit_bus
from ._problem import PERIODS, anchoring, pose, preferences

COVERED = 300_000
"""Replication i of the coverage part has its data drawn with this plus i."""


def errors(trajectories: int, method: str, seed: int) -> dict[str, Any]:
    """The row of a method: MAPE of r at held-out decisions, theta and its time."""
    cell = {"world": "known-cost-bus", "trajectories": trajectories, "irrelevant": 0}
    problem = pose(cell, seed)
    start = time.perf_counter()
    estimate, theta = ESTIMATORS[method](problem.world, problem.panel, seed)
    return {
        "part": "errors",
        "trajectories": trajectories,
        "method": method,
        "given": estimate.given,
        "seed": seed,
        "mape": mape(problem, estimate),
        "estimate": theta,
        "seconds": round(time.perf_counter() - start, 3),
    }


def coverage(trajectories: int, replication: int, *, level: float) -> list[dict[str, Any]]:
    """Rows of a data set: theta, rewards cell by cell, the band over them, the test."""
    world = KnownCostBus()
    panel = world.simulate(
        steps=PERIODS * trajectories, units=trajectories, seed=COVERED + replication
    )
    fit = tabular_pqr(world).fit(panel)
    found = fit.project(["mileage"], panel)
    assert found.test is not None
    about = {"trajectories": trajectories, "replication": replication}
    theta, error = float(found.theta[0]), float(found.standard_errors[0])
    rows = [
        {**about, "part": "theta", **_judged(theta, error, -1.0, level), "p": found.test.p},
        {**about, "part": "nfxp", "estimate": -fit_bus(world, panel).theta, "truth": -1.0},
    ]
    rewards = reward_influence(fit, panel)
    keep, replace = (world.actions.index(name) for name in world.actions)
    cell = rewards.cells.locate(panel.state)
    taken = np.bincount(cell[panel.action == replace], minlength=len(rewards.cells))
    enough = (rewards.rows[:, keep] >= MIN_ROWS) & (taken >= MIN_ROWS)
    truth = world.reward(rewards.states)[:, keep]
    errors = rewards.standard_errors[:, keep]
    for at in np.flatnonzero(enough):
        found_here = float(rewards.reward[at, keep]), float(errors[at])
        judged = _judged(*found_here, truth[at], level)
        mileage = float(rewards.states[at, 0])
        rows.append({**about, "part": "cell", "mileage": mileage, **judged})
    curve = rewards.bands("keep", level, where=enough)
    holds = (curve.low <= truth[enough]) & (truth[enough] <= curve.high)
    rows.append({**about, "part": "band", "covered": float(holds.all())})
    return rows


def _judged(estimate: float, error: float, truth: float, level: float) -> dict[str, float]:
    covered = abs(estimate - truth) <= norm.isf((1 - level) / 2) * error
    return {
        "estimate": estimate,
        "error": error,
        "truth": float(truth),
        "covered": float(covered),
    }


def tabular_pqr(world: Any) -> Any:
    """PQR by counting: every stage has a closed form."""
    return PQR(
        **preferences(world),
        **anchoring(world),
        policy="frequency",
        anchor_value="renewal",
        reward="table",
    )


def _projection(terms: list[str]) -> Callable[..., tuple[Any, float]]:
    """PQR by frequencies with the reward of keeping projected on terms of mileage."""

    def estimate(world: KnownCostBus, panel: Panel, seed: int) -> tuple[Any, float]:
        del seed
        theta = tabular_pqr(world).fit(panel).project(terms, panel).theta

        def reward(states: np.ndarray) -> np.ndarray:
            mileage = np.asarray(states)[:, 0]
            columns = [np.ones_like(mileage) if t == "1" else mileage for t in terms]
            found = world.reward(states).copy()  # the anchor's is known
            found[:, world.actions.index("keep")] = np.stack(columns, axis=1) @ theta
            return found

        found = Estimate(reward, given="the form of the reward")
        return found, float(theta[terms.index("mileage")])

    return estimate


def _one_parameter(world: KnownCostBus, panel: Panel, seed: int) -> tuple[Any, float]:
    found = one_parameter(world, panel, seed)
    at_one = found.reward(np.ones((1, 1)))
    return found, float(at_one[0, world.actions.index("keep")])


def _nfxp(world: KnownCostBus, panel: Panel, seed: int) -> tuple[Any, float]:
    del seed
    found = fit_bus(world, panel)
    given = "the form of the reward and the law of the mileage"
    return Estimate(found.reward, given=given), -found.theta


ESTIMATORS = {
    "projection": _projection(["mileage"]),
    "projection-2": _projection(["1", "mileage"]),
    "one-parameter": _one_parameter,
    "nfxp": _nfxp,
}
