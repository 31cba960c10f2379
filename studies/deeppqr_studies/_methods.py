"""The methods that are compared, by name, each told the same and saying what else.

A method is a function of the world, the panel and a seed. All are told the discount, the
temperature and the anchor's reward; whatever else of the world they use is in `given`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from deeppqr._errors import DataError
from deeppqr._fit import Fit
from deeppqr._paper import paper_stages
from deeppqr._pqr import PQR
from deeppqr.baselines import (
    DAIRL,
    SPLGD,
    AbstractBaseline,
    BehaviouralCloning,
    MaxEntIRL,
)
from deeppqr.inference import Diagnostics
from deeppqr.panel import Panel
from deeppqr.reward import Joint
from deeppqr.worlds import KnownCostBus, PaperWorld
from ._oracle import fit_bus, fit_paper
from ._problem import anchoring, preferences

NOTHING = "nothing"
StateFunction = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True, eq=False)
class Estimate:
    """What a method found, as functions of the states; None for what it does not find."""

    reward: StateFunction
    q: StateFunction | None = None
    log_policy: StateFunction | None = None
    diagnostics: Diagnostics | None = None
    given: str = NOTHING
    """Which truth the method was handed."""
    note: str = ""
    fit: Fit | None = None
    """PQR's own fit, where the method is one of its kind."""


Method = Callable[[Any, Panel, int], Estimate]
METHODS: dict[str, Method] = {}
AnyMethod = TypeVar("AnyMethod", bound=Callable[..., Estimate])


def method(name: str) -> Callable[[AnyMethod], AnyMethod]:
    """Enter a function into the methods under a name."""

    def enter(function: AnyMethod) -> AnyMethod:
        METHODS[name] = function
        return function

    return enter


def estimate_pqr(world: Any, panel: Panel, seed: int, **stages: Any) -> Estimate:
    """PQR with some of its stages chosen."""
    return _of_pqr(
        PQR(**preferences(world), **anchoring(world), seed=seed, **stages), panel
    )


@method("default")
def default(world: Any, panel: Panel, seed: int) -> Estimate:
    """PQR with every stage chosen by itself."""
    return estimate_pqr(world, panel, seed)


@method("regression")
def regression(world: Any, panel: Panel, seed: int) -> Estimate:
    """PQR with the anchor's value and the continuation by linear regression."""
    return estimate_pqr(world, panel, seed, anchor_value="linear", reward="linear")


@method("likelihood")
def likelihood(world: Any, panel: Panel, seed: int) -> Estimate:
    """PQR with the reward refined by its likelihood."""
    return estimate_pqr(world, panel, seed, reward="likelihood")


@method("joint")
def joint(world: Any, panel: Panel, seed: int) -> Estimate:
    """PQR with the stages estimated together."""
    return estimate_pqr(world, panel, seed, reward="joint")


@method("one-parameter")
def one_parameter(world: Any, panel: Panel, seed: int) -> Estimate:
    """PQR with the reward of keeping a bus known to be -theta times its mileage."""

    def cost(states: np.ndarray) -> np.ndarray:
        features = np.zeros((len(states), panel.num_actions, 1))
        features[:, panel.action_index("keep"), 0] = -states[:, 0]
        return features

    found = estimate_pqr(world, panel, seed, reward=Joint(features=cost))
    return replace(found, given="the form of the reward")


@method("paper")
def paper(
    world: Any, panel: Panel, seed: int, *, reading: str = "steps", progress: float = 1.0
) -> Estimate:
    """The paper as written, its steps read as gradient steps; or its beginning."""
    stages = paper_stages("synthetic", reading, progress)
    return estimate_pqr(world, panel, seed, **stages)


@method("paper-epochs")
def paper_epochs(world: Any, panel: Panel, seed: int, **beginning: Any) -> Estimate:
    """The paper as written, its steps read as passes over the data."""
    return paper(world, panel, seed, reading="epochs", **beginning)


@method("maxent")
def maxent(world: Any, panel: Panel, seed: int) -> Estimate:
    """MaxEnt-IRL on a deep policy."""
    return _of_baseline(MaxEntIRL(world.temperature, seed=seed), world, panel)


@method("dairl")
def dairl(world: Any, panel: Panel, seed: int) -> Estimate:
    """D-AIRL with g(s, a): a state-only g, grounded at the anchor, is zero."""
    baseline = DAIRL(**preferences(world), state_only=False, seed=seed)
    return _of_baseline(baseline, world, panel)


@method("splgd")
def splgd(world: Any, panel: Panel, seed: int, **truth: Any) -> Estimate:
    """SPL-GD that plans for itself; actions that are not numbers get intercepts."""
    words = any(isinstance(label, str) for label in panel.actions)
    baseline = SPLGD(**preferences(world), intercepts=words, seed=seed, **truth)
    return _of_baseline(baseline, world, panel)


@method("splgd-truth")
def splgd_truth(world: Any, panel: Panel, seed: int) -> Estimate:
    """SPL-GD handed the true Q and V."""
    return splgd(world, panel, seed, q=world.q, value=world.value)


@method("cloning")
def cloning(world: Any, panel: Panel, seed: int) -> Estimate:
    """The log-odds of behavioural cloning."""
    anchor = anchoring(world)["anchor"]
    baseline = BehaviouralCloning(anchor, temperature=world.temperature, seed=seed)
    return _of_baseline(baseline, world, panel)


@method("zero")
def zero(world: Any, panel: Panel, seed: int) -> Estimate:
    """Zero for every action but the anchor, whose reward is known."""
    del seed
    known = anchoring(world)
    row = np.zeros(panel.num_actions)
    row[panel.action_index(known["anchor"])] = known["anchor_reward"]
    return Estimate(lambda states: np.tile(row, (len(states), 1)))


@method("oracle")
def oracle(world: Any, panel: Panel, seed: int) -> Estimate:
    """Maximum likelihood told the form of the reward."""
    del seed
    if isinstance(world, PaperWorld):
        found = fit_paper(world, panel)
        given = "the form of the reward, the true continuation"
        note = f"{found.num_steps} steps, omega {np.round(found.omega, 3).tolist()}"
    elif isinstance(world, KnownCostBus):
        found = fit_bus(world, panel)
        given, note = "the form of the reward, the transitions", f"theta {found.theta:.6g}"
    else:
        raise DataError(f"There is no oracle for a {type(world).__name__}.")
    return Estimate(found.reward, found.q, found.log_policy, given=given, note=note)


def _of_pqr(model: PQR, panel: Panel) -> Estimate:
    fit = model.fit(panel)
    note = "; ".join(f"{stage}: {note}" for stage, note in fit.stages.items())
    return Estimate(fit.reward, fit.q, fit.log_policy, fit.diagnostics, note=note, fit=fit)


def _of_baseline(baseline: AbstractBaseline, world: Any, panel: Panel) -> Estimate:
    fit = baseline.fit(panel).grounded(**anchoring(world))
    found = Estimate(fit.reward, given=fit.given, note=fit.note)
    return found if fit.policy is None else replace(found, log_policy=fit.log_policy)
