"""The interface of competing methods and of their fits, and grounding at an anchor."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax.random as jr
import numpy as np

from .._errors import DataError
from .._random import check_seed
from .._shapes import PerAction, States
from ..anchor._anchor_reward import AnchorReward, resolve_anchor_reward
from ..mdp._tabular import check_preferences
from ..panel._cells import Cells
from ..panel._encoding import Encoding
from ..panel._panel import Panel, action_index
from ..policy._policy import AbstractPolicy, clip
from ..policy._resolve import resolve as resolve_policy
from ..report._layout import framed, listed

NOTHING = "nothing"  # the truth that a method was given: none

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
        reward = partial(grounded_reward, self.reward_function, index, known)
        grounding = f"the anchor {anchor!r} in every state"
        return replace(self, reward_function=reward, grounding=grounding)

    def summary(self) -> str:
        """A printable table: the method, what it was given, and how it went."""
        lines = [
            f"given     {self.given}",
            f"actions   {listed(self.actions)}",
            f"states    {listed(self.encoding.columns)}",
            f"grounded  {self.grounding}",
            f"how       {self.note}",
        ]
        return framed(self.method, lines)

    def __repr__(self) -> str:
        return (
            f"BaselineFit(method={self.method!r}, given={self.given!r}, "
            f"grounding={self.grounding!r}, actions={list(self.actions)})"
        )


# Rewards and values are partial applications of functions like these, not closures, so that
# fits can be pickled.
def grounded_reward(
    reward: RewardFunction, anchor: int, known: AnchorReward, state: States
) -> PerAction:
    """A reward shifted in each state so that the anchor's is the known one."""
    found = reward(state)
    return found - found[:, [anchor]] + known(state)[:, None]


def look_up(cells: Cells, table: np.ndarray, state: States) -> np.ndarray:
    """The rows of a table over the cells at some states."""
    return table[cells.require(state)]


def check_settings(method: Any) -> None:
    """Refuse preferences, a seed or a policy that cannot be used."""
    check_preferences(getattr(method, "discount", 0.0), method.temperature)
    check_seed(method.seed)
    resolve_policy(method.policy)


def fit_policy(policy: Any, panel: Panel, *, seed: int) -> tuple[AbstractPolicy, str]:
    """The estimated policy and a note on it; zeros are raised to a small probability."""
    # The policies of PQR, so that methods differ in what follows the first stage only.
    fit = resolve_policy(policy).fit(panel, key=jr.key(seed))
    return clip(fit.policy, panel), fit.note
