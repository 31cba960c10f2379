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
from ._simulate import World, simulate_rule

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

    def choose(states: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        value = q(states)
        shocks = gumbel_shocks(value.shape, temperature=temperature, rng=rng)
        return (value + shocks).argmax(axis=1)

    return simulate_rule(world, choose, steps=steps, units=units, seed=seed)


def policy_log_likelihood(panel: Panel, q: ActionValues, *, temperature: float) -> float:
    r"""Lemma 1's log-likelihood of the decisions, the transitions' part left out.

    $$\sum_t \Big[ Q(s_t,a_t)/\alpha - \log \sum_b \exp\{Q(s_t,b)/\alpha\} \Big].$$
    """
    log_prob = log_softmax(q(panel.state) / temperature, axis=1)
    chosen = log_prob[np.arange(len(panel)), panel.action]
    return float(np.sum(panel.weight * chosen))


def maxent_log_likelihood(panel: Panel, reward: ActionValues) -> float:
    """MaxEnt-IRL's log-likelihood: Lemma 1's at temperature one with r in Q's place.

    It is correctly specified where the discount is zero; otherwise its maximum is Q.
    """
    return policy_log_likelihood(panel, reward, temperature=1.0)


def choice_log_likelihood(panel: Panel, choice_value: ActionValues) -> float:
    """The log-likelihood of dynamic discrete choice with standard shocks.

    `choice_value` are the choice-specific values v_j: Lemma 1 at temperature one.
    """
    return policy_log_likelihood(panel, choice_value, temperature=1.0)
