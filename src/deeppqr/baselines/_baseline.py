"""The interface of competing methods and of their fits, and grounding at an anchor."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax.random as jr
import numpy as np

from .._errors import DataError
from .._shapes import PerAction, States
from ..anchor._anchor_reward import AnchorReward, resolve_anchor_reward
from ..panel._encoding import Encoding
from ..panel._panel import Panel, action_index
from ..policy._policy import AbstractPolicy, clip
from ..policy._resolve import resolve as resolve_policy

NOTHING = "nothing"  # the truth that a method was given: none
WIDTH = 78  # of printed summaries

RewardFunction = Callable[[np.ndarray], np.ndarray]
"""Encoded states to the reward of every action."""


class AbstractBaseline(ABC):
    """A competing method: its fields are its settings."""

    @abstractmethod
    def fit(self, panel: Panel) -> "BaselineFit":
        """Estimate the reward from a panel, in the method's own sense of the word."""


@dataclass(frozen=True, eq=False, repr=False)
class BaselineFit:
    """A competing method's reward, with what it was told and how it was found."""

    method: str
    given: str
    """Which truth the method was handed; "nothing" if none."""
    actions: tuple[Any, ...]
    """Labels, in the order of the columns of `reward` and `log_policy`."""
    encoding: Encoding
    reward_function: RewardFunction
    policy: AbstractPolicy | None
    """None where the method has no policy."""
    note: str
    grounding: str = "none"

    def reward(self, states: Any) -> PerAction:
        """The method's r(s, a) for every action."""
        return self.reward_function(self.encoding.encode_any(states))

    def log_policy(self, states: Any) -> PerAction:
        """log pi(a | s), where the method has a policy."""
        if self.policy is None:
            raise DataError(
                f"{self.method} estimates a reward and no policy. Take the policy of "
                "another fit, or solve for the optimum of this reward with `deeppqr.mdp`."
            )
        return self.policy.log_prob(self.encoding.encode_any(states))

    def grounded(self, anchor: Any, anchor_reward: Any = 0.0) -> "BaselineFit":
        r"""This fit with the anchor's reward made the known one in every state.

        $$\hat r(s,a) - \hat r(s,a^A) + g(s).$$

        It is the paper's way to compare methods: each is told what PQR is told. Whatever
        a method adds to all actions of a state drops out.

        Parameters
        ----------
        anchor
            Label of the action whose reward is known.
        anchor_reward
            That reward: a number, the name of a numeric state column, or a function of
            the states.

        References
        ----------
        [geng2020pqr], "Reward Recovery".
        """
        known = resolve_anchor_reward(anchor_reward, self.encoding)
        index = action_index(self.actions, anchor)
        return replace(
            self,
            reward_function=GroundedReward(self.reward_function, index, known),
            grounding=f"the anchor {anchor!r} in every state",
        )

    def summary(self) -> str:
        """A printable table: the method, what it was given, and how it went."""
        lines = [
            self.method.center(WIDTH).rstrip(),
            "=" * WIDTH,
            f"given     {self.given}",
            f"actions   {', '.join(map(str, self.actions))}",
            f"states    {', '.join(map(str, self.encoding.columns))}",
            f"grounded  {self.grounding}",
            f"how       {self.note}",
            "=" * WIDTH,
        ]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return (
            f"BaselineFit(method={self.method!r}, given={self.given!r}, "
            f"grounding={self.grounding!r}, actions={list(self.actions)})"
        )


@dataclass(frozen=True, eq=False)
class GroundedReward:
    """A reward shifted in each state so that the anchor's is the known one."""

    reward: RewardFunction
    anchor: int
    known: AnchorReward

    def __call__(self, state: States) -> PerAction:
        # In every state, which uses as much knowledge as PQR does; a single constant would
        # leave the shaping that the methods do not identify.
        reward = self.reward(state)
        return reward - reward[:, [self.anchor]] + self.known(state)[:, None]


def fit_policy(policy: Any, panel: Panel, *, seed: int) -> tuple[AbstractPolicy, str]:
    """The estimated policy and a note on it; zeros are raised to a small probability."""
    # The policies of PQR, so that methods differ in what follows the first stage only.
    fit = resolve_policy(policy).fit(panel, key=jr.key(seed))
    return clip(fit.policy, panel), fit.note
