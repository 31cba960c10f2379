r"""Simulation and likelihoods of dynamic discrete choice.

In inverse reinforcement learning the agent randomises, because entropy is worth $\alpha$ to
it. In econometrics it maximises exactly, after seeing a shock for every action that the
analyst does not see. With extreme-value shocks of scale $\alpha$ and mean zero the two have
the same choice probabilities and the same values.
"""

from collections.abc import Callable

import numpy as np
from scipy.special import log_softmax

from ..panel._panel import Panel
from ._simulate import World, generator, panel_of_paths, split_steps

ActionValues = Callable[[np.ndarray], np.ndarray]
"""From states to one column per action."""


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
    horizon = split_steps(steps, units)
    rng = generator(seed)
    start = world.initial_states(units, rng)
    path = np.empty((horizon + 1, *start.shape))
    action = np.empty((horizon, units), dtype=np.int64)
    path[0] = start
    for t in range(horizon):
        value = q(path[t])
        shocks = gumbel_shocks(value.shape, temperature=temperature, rng=rng)
        # Exact maximisation after seeing the shocks; its frequencies are the softmax of Q.
        action[t] = (value + shocks).argmax(axis=1)
        path[t + 1] = world.next_states(path[t], action[t], rng)
    return panel_of_paths(world, path, action)


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
