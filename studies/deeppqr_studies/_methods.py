"""The methods that are compared, by name, each with what it was given of the truth.

A method is a function of the world, the panel and a seed. All know the discount, the
temperature and the anchor's reward; whatever else of the world they use is in `given`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

import deeppqr

from ._oracle import fit_bus, fit_paper
from ._problem import known_anchor, preferences

PQR_KINDS = (
    "default",
    "paper",
    "paper-epochs",
    "regression",
    "likelihood",
    "joint",
    "default-no-moves",
)
"""Kinds of PQR that know nothing else: claims about PQR are judged for each of them."""

DESCRIPTIONS = {
    "default": "PQR with every stage chosen by itself",
    "paper": "PQR as printed, its steps read as gradient steps",
    "paper-epochs": "PQR as printed, its steps read as passes over the data",
    "regression": "PQR with the anchor's value and the continuation by linear regression",
    "likelihood": "PQR with the reward refined by its likelihood",
    "joint": "PQR with the stages estimated together",
    "default-no-moves": "PQR with every stage chosen by itself, without the law of moves",
    "one-parameter": "PQR with the reward of keeping a bus known but for its slope",
    "maxent": "MaxEnt-IRL on a deep policy",
    "dairl": "D-AIRL with a reward of state and action",
    "splgd": "SPL-GD that plans for itself",
    "splgd-truth": "SPL-GD given the true Q and V",
    "cloning": "the log-odds of behavioural cloning",
    "zero": "zero for every action but the anchor",
    "oracle": "maximum likelihood that knows the form of the reward",
}

NOTHING = "nothing"
StateFunction = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True, eq=False)
class Estimate:
    """What a method found, as functions of the states; None for what it does not find."""

    reward: StateFunction
    q: StateFunction | None = None
    log_policy: StateFunction | None = None
    diagnostics: Any = None
    """Of the fit, where the method is PQR."""
    given: str = NOTHING
    """What the method was given of the truth, besides what all know."""
    note: str = ""
    fit: deeppqr.Fit | None = None
    """The fit, where the method is PQR."""


Method = Callable[[Any, Any, int], Estimate]


def estimate_pqr(world: Any, panel: deeppqr.Panel, seed: int, **stages: Any) -> Estimate:
    """PQR with some of its stages chosen."""
    model = deeppqr.PQR(**preferences(world), **known_anchor(world), seed=seed, **stages)
    return _of_pqr(model, panel)


def default(world: Any, panel: deeppqr.Panel, seed: int) -> Estimate:
    """PQR with every stage chosen by itself."""
    return estimate_pqr(world, panel, seed)


def regression(world: Any, panel: deeppqr.Panel, seed: int) -> Estimate:
    """PQR with the anchor's value and the continuation by linear regression."""
    return estimate_pqr(world, panel, seed, anchor_value="linear", reward="linear")


def likelihood(world: Any, panel: deeppqr.Panel, seed: int) -> Estimate:
    """PQR with the reward refined by its likelihood."""
    return estimate_pqr(world, panel, seed, reward="likelihood")


def joint(world: Any, panel: deeppqr.Panel, seed: int) -> Estimate:
    """PQR with the stages estimated together."""
    return estimate_pqr(world, panel, seed, reward="joint")


def default_no_moves(world: Any, panel: deeppqr.Panel, seed: int) -> Estimate:
    """PQR with every stage chosen by itself, without the law of moves.

    That law (typical steps, walls, resets) is how the paper's world moves: without it the
    comparison there does not favour PQR.
    """
    joint = deeppqr.reward.Joint(moves=False)
    return estimate_pqr(world, panel, seed, reward=deeppqr.reward.Auto(joint=joint))


def one_parameter(world: Any, panel: deeppqr.Panel, seed: int) -> Estimate:
    """PQR with the reward of keeping a bus known to be -theta times its mileage."""

    def cost(states: np.ndarray) -> np.ndarray:
        features = np.zeros((len(states), panel.num_actions, 1))
        features[:, panel.action_index("keep"), 0] = -states[:, 0]
        return features

    found = estimate_pqr(world, panel, seed, reward=deeppqr.reward.Joint(features=cost))
    return replace(found, given="the form of the reward")


def paper(
    world: Any,
    panel: deeppqr.Panel,
    seed: int,
    *,
    reading: str = "steps",
    progress: float = 1.0,
) -> Estimate:
    """The paper as written, its steps read as gradient steps; or a share of them."""
    known = {**preferences(world), **known_anchor(world)}
    model = deeppqr.PQR.paper(**known, reading=reading, progress=progress, seed=seed)
    return _of_pqr(model, panel)


def paper_epochs(
    world: Any, panel: deeppqr.Panel, seed: int, *, progress: float = 1.0
) -> Estimate:
    """The paper as written, its steps read as passes over the data."""
    return paper(world, panel, seed, reading="epochs", progress=progress)


def maxent(world: Any, panel: deeppqr.Panel, seed: int) -> Estimate:
    """MaxEnt-IRL on a deep policy."""
    return _of_baseline(
        deeppqr.baselines.MaxEntIRL(world.temperature, seed=seed), world, panel
    )


def dairl(world: Any, panel: deeppqr.Panel, seed: int) -> Estimate:
    """D-AIRL with g(s, a); one of the state alone would be zero, grounded at the anchor."""
    baseline = deeppqr.baselines.DAIRL(**preferences(world), state_only=False, seed=seed)
    return _of_baseline(baseline, world, panel)


def splgd(world: Any, panel: deeppqr.Panel, seed: int, **truth: Any) -> Estimate:
    """SPL-GD that plans for itself; actions that are no numbers get intercepts."""
    labelled = any(isinstance(label, str) for label in panel.actions)
    baseline = deeppqr.baselines.SPLGD(
        **preferences(world), intercepts=labelled, seed=seed, **truth
    )
    return _of_baseline(baseline, world, panel)


def splgd_truth(world: Any, panel: deeppqr.Panel, seed: int) -> Estimate:
    """SPL-GD given the true Q and V."""
    return splgd(world, panel, seed, q=world.q, value=world.value)


def cloning(world: Any, panel: deeppqr.Panel, seed: int) -> Estimate:
    """The log-odds of behavioural cloning."""
    anchor = known_anchor(world)["anchor"]
    baseline = deeppqr.baselines.BehaviouralCloning(
        anchor, temperature=world.temperature, seed=seed
    )
    return _of_baseline(baseline, world, panel)


def zero(world: Any, panel: deeppqr.Panel, seed: int) -> Estimate:
    """Zero for every action but the anchor, whose reward is known."""
    del seed
    known = known_anchor(world)
    row = np.zeros(panel.num_actions)
    row[panel.action_index(known["anchor"])] = known["anchor_reward"]
    return Estimate(lambda states: np.tile(row, (len(states), 1)))


def oracle(world: Any, panel: deeppqr.Panel, seed: int) -> Estimate:
    """Maximum likelihood that knows the form of the reward."""
    del seed
    if isinstance(world, deeppqr.worlds.PaperWorld):
        found = fit_paper(world, panel)
        given = "the form of the reward, the true continuation"
        note = f"{found.num_steps} steps, omega {np.round(found.omega, 3).tolist()}"
    elif isinstance(world, deeppqr.worlds.KnownCostBus):
        found = fit_bus(world, panel)
        given, note = "the form of the reward, the transitions", f"theta {found.theta:.6g}"
    else:
        raise deeppqr.DataError(f"There is no oracle for a {type(world).__name__}.")
    return Estimate(found.reward, found.q, found.log_policy, given=given, note=note)


def _of_pqr(model: deeppqr.PQR, panel: deeppqr.Panel) -> Estimate:
    fit = model.fit(panel)
    note = "; ".join(f"{stage}: {note}" for stage, note in fit.stages.items())
    return Estimate(fit.reward, fit.q, fit.log_policy, fit.diagnostics, note=note, fit=fit)


def _of_baseline(baseline: Any, world: Any, panel: deeppqr.Panel) -> Estimate:
    fit = baseline.fit(panel).grounded(**known_anchor(world))
    found = Estimate(fit.reward, given=fit.given, note=fit.note)
    return found if fit.policy is None else replace(found, log_policy=fit.log_policy)


METHODS: dict[str, Method] = {
    "default": default,
    "paper": paper,
    "paper-epochs": paper_epochs,
    "regression": regression,
    "likelihood": likelihood,
    "joint": joint,
    "default-no-moves": default_no_moves,
    "one-parameter": one_parameter,
    "maxent": maxent,
    "dairl": dairl,
    "splgd": splgd,
    "splgd-truth": splgd_truth,
    "cloning": cloning,
    "zero": zero,
    "oracle": oracle,
}


def methods_without(*names: str) -> list[str]:
    """The names of all methods but those that a study cannot run."""
    return [name for name in METHODS if name not in names]


def pqr_kinds(frame: pl.DataFrame) -> list[str]:
    """The methods of a table that are kinds of PQR."""
    present = set(frame["method"])
    return [name for name in PQR_KINDS if name in present]
