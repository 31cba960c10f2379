r"""Simulation and likelihoods of dynamic discrete choice.

In inverse reinforcement learning the agent randomises, because entropy is worth $\alpha$ to
it. In econometrics it maximises exactly, after seeing a shock for every action that the
analyst does not see. With extreme-value shocks of scale $\alpha$ and mean zero the two have
the same choice probabilities and the same values.
"""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int
from scipy.special import log_softmax

from .._errors import DataError
from .._random import check_seed
from .._shapes import Codes
from ..panel._panel import Panel

# Decisions in one simulation: each takes 50 bytes and more until it is in a panel.
MAX_STEPS = 100_000_000

ActionValues = Callable[[np.ndarray], np.ndarray]
"""From states to one column per action."""


@runtime_checkable
class World(Protocol):
    """The interface of a world that can be simulated."""

    @property
    def actions(self) -> tuple[Any, ...]: ...
    @property
    def state_names(self) -> list[str]: ...
    def initial_states(self, number: int, rng: np.random.Generator) -> np.ndarray: ...
    def next_states(
        self, state: np.ndarray, action: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray: ...
    def log_policy(self, states: np.ndarray) -> np.ndarray: ...


def simulate(
    world: World, *, steps: int, units: int, seed: int, policy: Any = None
) -> Panel:
    """Decisions of `units` independent units, `steps` in all, as a panel.

    `policy` is a function from states to log-probabilities, one column per action; by
    default the world's own optimal policy. The last row of each unit has a next state
    too, which was drawn like the others.
    """
    log_policy = world.log_policy if policy is None else policy
    choose = lambda states, rng: draw(np.exp(log_policy(states.copy())), rng)
    return simulate_rule(world, choose, steps=steps, units=units, seed=seed)


def simulate_rule(
    world: World, choose: Callable, *, steps: int, units: int, seed: int
) -> Panel:
    """Decisions by a rule: `choose(states, rng)` gives each state's action."""
    horizon = split_steps(steps, units)
    rng = generator(seed)
    path = [world.initial_states(units, rng)]
    action = []
    for _ in range(horizon):
        action.append(choose(path[-1], rng))
        path.append(world.next_states(path[-1], action[-1], rng))
    return panel_of_paths(world, np.stack(path), np.stack(action))


def generator(seed: int) -> np.random.Generator:
    """The random numbers of a seed."""
    check_seed(seed)
    return np.random.default_rng(seed)


def check_count(
    name: str, value: Any, *, least: int = 1, most: float = np.inf, why: str = ""
) -> None:
    """Raise unless the value is a whole number between the two; `why` explains `most`."""
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or not least <= value <= most:
        above = f"{least} or more" if most == np.inf else f"{least:,} to {most:,}"
        raise DataError(
            f"`{name}` must be a whole number, {above}, but it is {value!r}.{why}"
        )


def split_steps(steps: int, units: int) -> int:
    """Steps per unit, refusing a total that does not divide."""
    for name, value in (("steps", steps), ("units", units)):
        check_count(name, value, most=MAX_STEPS)
    if units < 1 or steps < units or steps % units:
        raise DataError(
            f"`steps` is the total over all units and must be a multiple of `units`, but "
            f"{steps} steps do not split evenly over {units} units."
        )
    return steps // units


def draw(probability: Float[np.ndarray, "row choice"], rng: np.random.Generator) -> Codes:
    """One choice per row, by inverting the cumulative distribution."""
    cumulative = np.cumsum(probability, axis=1)
    # Times the last sum, which rounding may leave below one.
    uniform = rng.random((len(probability), 1)) * cumulative[:, -1:]
    return (uniform > cumulative[:, :-1]).sum(axis=1)


def panel_of_paths(
    world: World,
    path: Float[np.ndarray, "time_and_end unit state_feature"],
    action: Int[np.ndarray, "time unit"],
) -> Panel:
    """The panel of complete paths, unit by unit."""
    horizon, units = action.shape
    # Paths are simulated period by period over all units, panels are stored unit by unit.
    by_unit = lambda values: values.swapaxes(0, 1).reshape(horizon * units, -1)
    return Panel.from_arrays(
        by_unit(path[:-1]),
        np.asarray(world.actions)[by_unit(action)[:, 0]],
        by_unit(path[1:]),
        unit=np.repeat(np.arange(units), horizon),
        actions=world.actions,
        state_names=world.state_names,
    )


def gumbel_shocks(
    shape: tuple[int, ...], *, temperature: float, rng: np.random.Generator
) -> np.ndarray:
    """Type-I extreme-value shocks of scale `temperature`, centred at mean zero."""
    # Centred: a Gumbel variable has mean 0.577, which would add a constant to V.
    return temperature * (rng.gumbel(size=shape) - np.euler_gamma)


def simulate_choices(
    world: World, q: ActionValues, *, temperature: float, steps: int, units: int, seed: int
) -> Panel:
    r"""Decisions of agents who see a shock per action and take the best.

    $$a_t = \arg\max_a \{Q(s_t, a) + \varepsilon_t(a)\}.$$
    """

    def choose(states: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        value = q(states.copy())
        shocks = gumbel_shocks(value.shape, temperature=temperature, rng=rng)
        return (value + shocks).argmax(axis=1)

    return simulate_rule(world, choose, steps=steps, units=units, seed=seed)


def policy_log_likelihood(
    panel: Panel, q: ActionValues, *, temperature: float = 1.0
) -> float:
    r"""Lemma 1's log-likelihood of the decisions, the transitions' part left out.

    $$\sum_t \Big[ Q(s_t,a_t)/\alpha - \log \sum_b \exp\{Q(s_t,b)/\alpha\} \Big].$$

    At temperature one it is that of dynamic discrete choice with standard shocks, `q` being
    the choice-specific values. It is also that of MaxEnt-IRL, which puts a reward in Q's
    place: correctly specified at discount zero, while elsewhere its maximum is Q.
    """
    log_prob = log_softmax(q(panel.state) / temperature, axis=1)
    chosen = log_prob[np.arange(len(panel)), panel.action]
    return float(np.sum(panel.weight * chosen))
