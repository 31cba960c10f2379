"""The worlds of the benchmark as cells: which world, how large, how much data."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from ._study import Option, Task, choose

IRRELEVANT_TRAJECTORIES = 1_000
"""Where irrelevant variables are added, as in the published comparison."""

WORLDS = {
    "paper": "the paper's world",
    "known-cost-bus": "buses with a known replacement cost",
    "samq-bus": "the buses of the SAmQ paper",
}

PAPER_OPTIONS = {
    "p": Option(int, "+", [5, 10, 20, 40], "state variables (paper)", 1),
    "scale": Option(float, "+", [1.0, 10.0], "size of the reward (paper)"),
    "steps": Option(int, None, 50_000, "decisions in all (paper)", 1),
    "units": Option(int, None, 50, "units (paper)", 1),
    "demonstrations": Option(
        str, None, "exact", "whose decisions they are, exact or soft-q (paper)"
    ),
}

DEMONSTRATIONS = {
    "exact": "the optimal policy's",
    "soft-q": "those of the policy that soft Q-learning finds",
}

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

    Who decided is named where it is not the optimal policy.
    """
    sizes = {name: settings[name] for name in ("steps", "units")}
    (whose,) = choose("demonstrations", [settings["demonstrations"]], DEMONSTRATIONS)
    if whose != "exact":
        sizes["demonstrations"] = whose
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
    names = choose("worlds", settings["worlds"], WORLDS)
    return [{"world": name, **cell} for name in names for cell in of_world[name]]


def cell_name(cell: dict[str, Any]) -> str:
    """A cell as part of a file name; what is nested in it is common to all cells."""
    import numpy as np

    def shown(value: str | float) -> str:
        if isinstance(value, str):
            return value
        if isinstance(value, int):
            return f"{value:d}"
        # Without an exponent: a file name of ours has no + in it.
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
    """A task per cell, seed and name of a method or variant, whose `role` that is.

    `without` lists by name the worlds in which there is no such thing. The names vary
    fastest, so that a world is made once for all of them.
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
