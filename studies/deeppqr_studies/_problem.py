"""A cell with a seed becomes a problem: a world, decisions in it, states to be scored at.

Of a seed s, the world is drawn with s, the demonstrations with 100,000 + s and the states
that are scored with 200,000 + s; soft Q-learning and a random anchor with 300,000 + s.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np
from jaxtyping import Float

from deeppqr.mdp import SoftQLearning
from deeppqr.panel import Panel
from deeppqr.worlds import KnownCostBus, PaperWorld, SamqBus

DEMONSTRATIONS, SCORED, OTHER = 100_000, 200_000, 300_000
MAX_SCORED = 50_000
"""Fresh decisions, of which every tenth state is scored at, however many are fitted."""
PERIODS = 100
"""Decisions of each bus with a known replacement cost."""
TRAIN_SHARE = 0.8


@dataclass(frozen=True, eq=False)
class Told:
    """A world of which estimators are told something else than what is true.

    What they are told are the fields. What some are handed of the truth is the truth.
    """

    world: Any
    discount: float
    temperature: float
    anchor: Any = 0
    anchor_reward: float = 0.0

    def q(self, states) -> Float[np.ndarray, "row action"]:
        return self.world.q(states)

    def value(self, states) -> Float[np.ndarray, " row"]:
        return self.world.value(states)


@dataclass(frozen=True, eq=False)
class Demonstrator:
    """Whose decisions are demonstrated."""

    simulate: Callable[..., Panel]
    log_policy: Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True, eq=False)
class Problem:
    """What a method is given to learn from, and where it is compared with the truth."""

    world: Any
    panel: Panel
    states: Float[np.ndarray, "row state_feature"]
    held_out: Panel | None = None
    """Decisions at `states`, where the decisions themselves are scored."""
    told: Told | None = None
    """What estimators are told of the world, where it is not the truth."""
    learner: Demonstrator | None = None
    """Who demonstrates, where that is not the optimal agent but one that had to learn."""
    demonstrator_kl: float | None = None
    """How far the learner's policy is from the optimal one, in nats."""

    @property
    def demonstrator(self) -> Any:
        """Who demonstrates: something with `simulate` and `log_policy`."""
        return self.learner or self.world

    @property
    def as_told(self) -> Any:
        """The world as estimators are told of it."""
        return self.world if self.told is None else self.told

    @property
    def anchor(self) -> int:
        """The anchor's column."""
        return self.panel.action_index(anchoring(self.as_told)["anchor"])

    @cached_property
    def reward(self) -> Float[np.ndarray, "row action"]:
        """The true reward at the scored states."""
        return self.world.reward(self.states)

    @cached_property
    def q(self) -> Float[np.ndarray, "row action"]:
        """The true Q at the scored states."""
        return self.world.q(self.states)

    @cached_property
    def log_policy(self) -> Float[np.ndarray, "row action"]:
        """The true policy at the scored states."""
        return self.world.log_policy(self.states)


def anchoring(world: Any) -> dict[str, Any]:
    """The anchor and its reward, as every estimator is told them."""
    return {
        "anchor": getattr(world, "anchor", 0),
        "anchor_reward": getattr(world, "anchor_reward", 0.0),
    }


def preferences(world: Any) -> dict[str, Any]:
    """The agent's discount and temperature, as every estimator is told them."""
    return {"discount": world.discount, "temperature": world.temperature}


def pose(cell: dict[str, Any], seed: int) -> Problem:
    """The problem of a cell and a seed; the last one is kept for the next method."""
    return _pose(json.dumps(cell, sort_keys=True), seed)


@lru_cache(maxsize=1)
def _pose(cell: str, seed: int) -> Problem:
    sizes = json.loads(cell)
    return POSERS[sizes.pop("world")](seed, **sizes)


def _paper(
    seed: int,
    *,
    p: int,
    scale: float,
    steps: int,
    units: int,
    demonstrations: str = "exact",
    assumed: dict[str, Any] | None = None,
    **features: Any,
) -> Problem:
    """The paper's world; `assumed` holds what estimators are told that is not so."""
    world = PaperWorld(p=p, reward_scale=scale, seed=seed, **features)
    told = None
    if assumed is not None:
        believed = {**preferences(world), **assumed}
        if believed.get("anchor") == "random":
            believed["anchor"] = random_anchor(seed)
        told = Told(world, **believed)
    states = scored_states(world, min(steps, MAX_SCORED), units, seed)
    sizes = {"steps": steps, "units": units}
    if demonstrations == "exact":
        panel = world.simulate(**sizes, seed=DEMONSTRATIONS + seed)
        return Problem(world, panel, states, told=told)
    learner = SoftQLearning(world.discount, world.temperature)
    learned = learner.solve(world, world.reward, seed=OTHER + seed)
    demonstrator = Demonstrator(partial(learned.simulate, world), learned.log_policy)
    panel = demonstrator.simulate(**sizes, seed=DEMONSTRATIONS + seed)
    best = world.log_policy(states)
    gap = float(np.mean(np.sum(np.exp(best) * (best - learned.log_policy(states)), axis=1)))
    return Problem(
        world, panel, states, told=told, learner=demonstrator, demonstrator_kl=gap
    )


def scored_states(
    world: Any, steps: int, units: int, seed: int
) -> Float[np.ndarray, "row state_feature"]:
    """Every tenth state of fresh decisions by the optimal agent."""
    return world.simulate(steps=steps, units=units, seed=SCORED + seed).state[::10]


def random_anchor(seed: int) -> int:
    """An action of the paper's world, drawn with a seed."""
    return int(np.random.default_rng(OTHER + seed).integers(5))


def _known_cost_bus(seed: int, *, trajectories: int, irrelevant: int) -> Problem:
    world = KnownCostBus(irrelevant=irrelevant)
    panel = world.simulate(
        steps=PERIODS * trajectories, units=trajectories, seed=DEMONSTRATIONS + seed
    )
    # Units are independent and alike: the first of them are as good as any.
    train = panel.unit < round(TRAIN_SHARE * trajectories)
    held_out = panel.select(~train)
    return Problem(world, panel.select(train), held_out.state, held_out)


def _samq_bus(seed: int, *, steps: int) -> Problem:
    world = SamqBus()
    panel = world.simulate(steps=steps, units=1, seed=DEMONSTRATIONS + seed)
    fresh = world.simulate(steps=steps, units=1, seed=SCORED + seed)
    return Problem(world, panel, fresh.state)


POSERS = {"paper": _paper, "known-cost-bus": _known_cost_bus, "samq-bus": _samq_bus}
