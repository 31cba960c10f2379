"""Worlds, sizes and seeds of the benchmark: from a study's settings to a problem.

A *cell* is a world with its size and its number of decisions, as a dict that JSON can
hold. With a seed s it becomes a *problem*: a world, demonstrations in it, and states at
which estimates are compared with the truth. The world is drawn with s, the demonstrations
with 100,000 + s, the states that are scored with 200,000 + s; soft Q-learning and a random
anchor with 300,000 + s.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from itertools import product
from typing import Any

import numpy as np
from jaxtyping import Float

import deeppqr

from ._study import Option, Task, check_choices

# Offsets of seeds. Changing one changes every number of the benchmark.
SEED_DEMONSTRATIONS, SEED_SCORED, SEED_OTHER = 100_000, 200_000, 300_000
# Fresh decisions, of which every tenth state is scored: as many as the demonstrations have
# by default, and no more for a million of them, which would take as long to simulate.
MAX_SCORED = 50_000
PERIODS = 100  # decisions of each bus with a known replacement cost
TRAIN_SHARE = 0.8  # of these buses; MAPE is measured at the decisions of the others
IRRELEVANT_TRAJECTORIES = 1_000
"""Where irrelevant variables are added, as in the published comparison."""

WORLDS = ("paper", "known-cost-bus", "samq-bus")
"""The paper's world, buses with a known replacement cost, the buses of the SAmQ paper."""

PAPER_OPTIONS = {
    "p": Option(int, "+", [5, 10, 20, 40], "state variables (paper)", 1),
    "scale": Option(float, "+", [1.0, 10.0], "size of the reward (paper)"),
    "steps": Option(int, None, 50_000, "decisions in all (paper)", 1),
    "units": Option(int, None, 50, "units (paper)", 1),
    "demonstrations": Option(
        str, None, "exact", "whose decisions they are, exact or soft-q (paper)"
    ),
}

DEMONSTRATORS = ("exact", "soft-q")
"""Whose decisions are observed: the optimal agent's, or those of one that has learned its
policy by soft Q-learning."""

WORLD_OPTIONS = {
    "worlds": Option(str, "+", list(WORLDS), f"among {', '.join(WORLDS)}"),
    **PAPER_OPTIONS,
    "trajectories": Option(
        int, "*", [50, 250, 500, 1000, 2500, 5000], "buses (known-cost-bus)"
    ),
    "irrelevant": Option(
        int,
        "*",
        [2, 5, 20, 50, 100],
        f"irrelevant variables, with {IRRELEVANT_TRAJECTORIES:,} buses (known-cost-bus)",
    ),
    "samq_steps": Option(int, None, 5_000, "decisions of the one bus (samq-bus)", 1),
}


def paper_cells(settings: dict[str, Any]) -> list[dict[str, Any]]:
    """The cells of the paper's world: a scale and a number of state variables each.

    The demonstrator is part of a cell, and of its name, only where it is not the optimal
    agent.
    """
    sizes = {name: settings[name] for name in ("steps", "units")}
    (demonstrator,) = check_choices(
        "demonstrations", [settings["demonstrations"]], DEMONSTRATORS
    )
    if demonstrator != "exact":
        sizes["demonstrations"] = demonstrator
    return [
        {"world": "paper", "p": p, "scale": scale, **sizes}
        for scale, p in product(settings["scale"], settings["p"])
    ]


def cells(settings: dict[str, Any]) -> list[dict[str, Any]]:
    """Every cell under these settings: a world and its parameters, without a seed."""
    of_world = {
        "paper": paper_cells(settings),
        "known-cost-bus": [
            {"trajectories": number, "irrelevant": 0} for number in settings["trajectories"]
        ]
        + [
            {"trajectories": IRRELEVANT_TRAJECTORIES, "irrelevant": number}
            for number in settings["irrelevant"]
        ],
        "samq-bus": [{"steps": settings["samq_steps"]}],
    }
    names = check_choices("worlds", settings["worlds"], WORLDS)
    return [{"world": name, **cell} for name in names for cell in of_world[name]]


def cell_name(cell: dict[str, Any]) -> str:
    """A cell as part of a file name; nested values are left out, all cells share them."""

    def shown(value: str | float) -> str:
        if isinstance(value, str):
            return value
        if isinstance(value, int):
            return f"{value:d}"
        # Without an exponent: the + in 1e+06 is not allowed in a task's name.
        return np.format_float_positional(value, trim="-")

    sizes = {
        name: shown(value)
        for name, value in cell.items()
        if name != "world" and not isinstance(value, dict)
    }
    return "_".join([cell["world"], *(f"{key}={sizes[key]}" for key in sizes)])


def cell_tasks(
    settings: dict[str, Any],
    role: str,
    names: Sequence[str],
    *,
    without: Mapping[str, Sequence[str]],
) -> list[Task]:
    """A task per cell, seed and name, which is passed as the parameter `role`.

    `without` lists by name the worlds in which it cannot run. The names vary fastest, so
    that a problem is made once for all of them.
    """
    return [
        task
        for task in cell_tasks_of(cells(settings), settings["seeds"], role, names)
        if task.parameters["cell"]["world"] not in without.get(task.parameters[role], ())
    ]


def cell_tasks_of(
    cells: Sequence[dict[str, Any]], seeds: Sequence[int], role: str, names: Sequence[str]
) -> list[Task]:
    """A task per given cell, seed and name."""
    tasks = []
    for cell, seed, name in product(cells, seeds, names):
        label = f"{cell_name(cell)}_{name.replace(' ', '-')}_seed={seed}"
        tasks.append(Task(label, {"cell": cell, role: name, "seed": seed}))
    return tasks


@dataclass(frozen=True, eq=False)
class MisstatedWorld:
    """A world as estimators are told of it, where that is not the truth.

    The fields are what they are told. `q` and `value`, which some methods are given, are
    the true ones.
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
    """An agent whose decisions are observed."""

    simulate: Callable[..., deeppqr.Panel]
    log_policy: Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True, eq=False)
class Problem:
    """Demonstrations to learn from, and states at which the truth is known."""

    world: Any
    panel: deeppqr.Panel
    states: Float[np.ndarray, "row state_feature"]
    held_out: deeppqr.Panel | None = None
    """Decisions at `states`, where the decisions themselves are scored."""
    misstated: MisstatedWorld | None = None
    """The world as estimators are told of it, where that is not the truth."""
    learner: Demonstrator | None = None
    """The demonstrator, where it is not the optimal agent but one that has learned."""
    demonstrator_kl: float | None = None
    """The divergence of the learner's policy from the optimal one, in nats."""

    @property
    def demonstrator(self) -> Any:
        """The agent of the demonstrations: it has `simulate` and `log_policy`."""
        return self.learner or self.world

    @property
    def assumed_world(self) -> Any:
        """The world as estimators are told of it."""
        return self.world if self.misstated is None else self.misstated

    @property
    def anchor(self) -> int:
        """The anchor's column."""
        return self.panel.action_index(known_anchor(self.assumed_world)["anchor"])

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


def known_anchor(world: Any) -> dict[str, Any]:
    """The anchor and its reward, as every estimator is told them."""
    return {
        "anchor": getattr(world, "anchor", 0),
        "anchor_reward": getattr(world, "anchor_reward", 0.0),
    }


def preferences(world: Any) -> dict[str, Any]:
    """The agent's discount and temperature, as every estimator is told them."""
    return {"discount": world.discount, "temperature": world.temperature}


def make_problem(cell: dict[str, Any], seed: int) -> Problem:
    """The problem of a cell and a seed; the last one is kept for the next method."""
    return _make_problem(json.dumps(cell, sort_keys=True), seed)


@lru_cache(maxsize=1)
def _make_problem(cell: str, seed: int) -> Problem:
    sizes = json.loads(cell)
    return _MAKERS[sizes.pop("world")](seed, **sizes)


def _paper_problem(
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
    """The paper's world; `assumed` holds what estimators are told in place of the truth."""
    world = deeppqr.worlds.PaperWorld(p=p, reward_scale=scale, seed=seed, **features)
    misstated = None
    if assumed is not None:
        told = {**preferences(world), **assumed}
        if told.get("anchor") == "random":
            told["anchor"] = random_anchor(seed)
        misstated = MisstatedWorld(world, **told)
    states = scored_states(world, min(steps, MAX_SCORED), units, seed)
    sizes = {"steps": steps, "units": units}
    if demonstrations == "exact":
        panel = world.simulate(**sizes, seed=SEED_DEMONSTRATIONS + seed)
        return Problem(world, panel, states, misstated=misstated)
    learner = deeppqr.mdp.SoftQLearning(world.discount, world.temperature)
    learned = learner.solve(world, world.reward, seed=SEED_OTHER + seed)
    demonstrator = Demonstrator(partial(learned.simulate, world), learned.log_policy)
    panel = demonstrator.simulate(**sizes, seed=SEED_DEMONSTRATIONS + seed)
    return Problem(
        world,
        panel,
        states,
        misstated=misstated,
        learner=demonstrator,
        demonstrator_kl=deeppqr.metrics.policy_kl(
            learned.log_policy(states), world.log_policy(states)
        ),
    )


def scored_states(
    world: Any, steps: int, units: int, seed: int
) -> Float[np.ndarray, "row state_feature"]:
    """Every tenth state of fresh decisions by the optimal agent."""
    return world.simulate(steps=steps, units=units, seed=SEED_SCORED + seed).state[::10]


def random_anchor(seed: int) -> int:
    """An action of the paper's world, drawn with a seed."""
    return int(np.random.default_rng(SEED_OTHER + seed).integers(5))


def _known_cost_bus_problem(seed: int, *, trajectories: int, irrelevant: int) -> Problem:
    world = deeppqr.worlds.KnownCostBus(irrelevant=irrelevant)
    panel = world.simulate(
        steps=PERIODS * trajectories, units=trajectories, seed=SEED_DEMONSTRATIONS + seed
    )
    # Buses are independent and identically distributed: the first are as good as any.
    train = panel.unit < round(TRAIN_SHARE * trajectories)
    held_out = panel.select(~train)
    return Problem(world, panel.select(train), held_out.state, held_out)


def _samq_bus_problem(seed: int, *, steps: int) -> Problem:
    world = deeppqr.worlds.SamqBus()
    panel = world.simulate(steps=steps, units=1, seed=SEED_DEMONSTRATIONS + seed)
    fresh = world.simulate(steps=steps, units=1, seed=SEED_SCORED + seed)
    return Problem(world, panel, fresh.state)


_MAKERS: dict[str, Callable[..., Problem]] = {
    "paper": _paper_problem,
    "known-cost-bus": _known_cost_bus_problem,
    "samq-bus": _samq_bus_problem,
}
