"""What worlds with continuous actions share: checked actions and simulation."""

from typing import Any, Protocol, runtime_checkable

import numpy as np

from .._errors import DataError
from .._shapes import States
from ..actions._space import ActionSpace, Amounts
from ..mdp._simulate import generator, split_steps
from ..panel._panel import Panel


@runtime_checkable
class AmountsWorld(Protocol):
    """A world with continuous actions that can be simulated."""

    @property
    def state_names(self) -> list[str]: ...
    def initial_states(self, number: int, rng: np.random.Generator) -> States: ...
    def draw(self, states: States, rng: np.random.Generator) -> Amounts: ...
    def next_states(
        self, states: States, actions: Amounts, rng: np.random.Generator
    ) -> States: ...


def check_actions(actions: Any, rows: int, dimensions: int) -> Amounts:
    """Actions as an array with a row for each state, refusing any other shape."""
    found = np.asarray(actions, dtype=np.float64)
    found = found[:, None] if found.ndim == 1 and dimensions == 1 else found
    if found.shape != (rows, dimensions):
        count = "1 column" if dimensions == 1 else f"{dimensions} columns"
        raise DataError(
            f"`actions` must have {count} and a row for each of the {rows} states, but its "
            f"shape is {np.shape(actions)}."
        )
    return found


def simulate_amounts(
    world: "AmountsWorld", space: ActionSpace, *, steps: int, units: int, seed: int
) -> Panel:
    """Decisions of the world's policy as a panel, as many for each unit."""
    state, action, after, unit = walk(world, steps=steps, units=units, seed=seed)
    names = world.state_names
    return Panel.from_arrays(
        state, action, after, unit=unit, actions=space, state_names=names
    )


def walk(
    world: "AmountsWorld", *, steps: int, units: int, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """States, actions, next states and units of simulated decisions, unit by unit."""
    horizon, rng = split_steps(steps, units), generator(seed)
    path, taken = [world.initial_states(units, rng)], []
    for _ in range(horizon):
        taken.append(world.draw(path[-1], rng))
        path.append(world.next_states(path[-1], taken[-1], rng))
    by_unit = lambda values: np.stack(values, axis=1).reshape(units * horizon, -1)
    unit = np.repeat(np.arange(units), horizon)
    return by_unit(path[:-1]), by_unit(taken), by_unit(path[1:]), unit
