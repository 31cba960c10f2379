"""A policy that is given as a function of the states, such as one trained elsewhere."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._errors import DataError
from .._stored import ROLE, stored
from ..mdp._tabular import as_floats
from ..panel._encoding import Encoding
from ..panel._user_function import call_with_states
from ._policy import AbstractPolicy, AbstractPolicyEstimator, PolicyFit


@dataclass(frozen=True)
class Given(AbstractPolicyEstimator):
    """A policy that needs no estimation.

    `function` maps an array of the panel's state columns to log-probabilities, one
    column per action in the panel's order. The whole panel counts as held out: the policy
    is assumed not to have been trained on it.
    """

    function: Callable[[np.ndarray], Any]

    def fit(self, panel, *, key):
        policy = GivenPolicy(self.function, panel.encoding, panel.num_actions)
        log_prob = policy.log_prob(panel.state)
        held_out = log_prob[np.arange(len(panel)), panel.action]
        # The note shows what was given: a function's name, or its class.
        name = getattr(self.function, "__qualname__", type(self.function).__name__)
        owner = getattr(self.function, "__self__", None)
        if owner is not None:  # by the object's class, which may inherit the method
            name = f"{type(owner).__name__}.{self.function.__name__}"
        return PolicyFit(policy, held_out, f"given: {name}")


@stored
@dataclass(frozen=True, eq=False)
class GivenPolicy(AbstractPolicy):
    """A user's function, checked at every call."""

    function: Callable[[np.ndarray], Any] = field(metadata={ROLE: "policy"})
    encoding: Encoding
    num_actions: int

    def log_prob(self, state):
        # A copy: a function that writes into its argument would rewrite the panel.
        decoded = self.encoding.decode(state).copy()
        returned = call_with_states(
            self.function,
            decoded,
            role="policy",
            names=self.encoding.names,
            shape=(len(state), self.num_actions),
            returns="log-probabilities by row and action",
        )
        found = as_floats("policy", returned)
        total = np.exp(found).sum(axis=1)
        # Loose, because policies trained elsewhere often compute in float32.
        wrong = ~(np.abs(total - 1) < 1e-4)
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raise DataError(
                "A given policy's probabilities must sum to one in each state, but those "
                f"of {state[row]} sum to {total[row]:.4g} ({int(wrong.sum())} states in "
                "all). Return logarithms of probabilities, not scores."
            )
        return found


def from_stable_baselines(model: Any) -> Given:
    """The policy of a stable-baselines3 model or of an imitation learner's generator.

    `model` is an algorithm (`PPO`, `A2C`, ...) or its actor-critic policy with a discrete
    action space; actions are taken in the order of the environment's numbers.
    """
    is_actor = hasattr(model, "get_distribution")
    actor: Any = model if is_actor else getattr(model, "policy", None)
    if not hasattr(actor, "get_distribution"):
        raise DataError(
            f"A {type(model).__name__} has no actor-critic policy with discrete actions. "
            "Pass a PPO or A2C model, or `Given(function)` with your own log-probabilities."
        )

    def log_prob(states: np.ndarray) -> np.ndarray:
        import torch  # pyright: ignore[reportMissingImports]

        with torch.no_grad():
            observation, _ = actor.obs_to_tensor(states.astype(np.float32))
            logits = actor.get_distribution(observation).distribution.logits
            return torch.log_softmax(logits, dim=1).cpu().numpy()

    return Given(log_prob)
