"""The interfaces of fitted rewards and of their estimators."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from jaxtyping import PRNGKeyArray

from .._shapes import PerAction, PerRow, States
from ..anchor._value import AbstractValue, AnchoredValue
from ..panel._panel import Panel


class AbstractReward(ABC):
    """A fitted reward: r(s, a) at any state, given the first stages' Q and V."""

    @abstractmethod
    def __call__(self, state: States, value: AnchoredValue) -> PerAction:
        """The estimated reward of every action, the anchor's not yet replaced by g."""


@dataclass(frozen=True, eq=False)
class RewardFit:
    """A reward and how it was found."""

    reward: AbstractReward
    note: str
    value: AnchoredValue | None = None
    """Policy and value that follow from the reward, where it was found with them; None
    where the first two stages' stay."""
    held_out: PerRow | None = None
    """Log-probability of each row's action as the reward explains it, found without its
    unit; NaN in rows that were not judged, None where the reward explains nothing."""


class AbstractRewardEstimator(ABC):
    """A way to turn a policy and its value into a reward."""

    @property
    def is_affine(self) -> bool:
        """Whether the reward may be estimated in two parts: one proportional to the
        temperature, and one due to g."""
        return True

    def known_part(self) -> "AbstractRewardEstimator":
        """The estimator of what g adds to the reward."""
        return self

    def chosen_for(self, panel: Panel) -> "AbstractRewardEstimator":
        """The estimator for this panel, where the data decide."""
        del panel
        return self

    @abstractmethod
    def fit(
        self, panel: Panel, value: AnchoredValue, *, key: PRNGKeyArray
    ) -> RewardFit: ...


def next_values(panel: Panel, value: AbstractValue) -> PerRow:
    """V(s') in the rows that are transitions; zero where the process ended."""
    # NaN elsewhere, so that a row without a next state cannot be used by mistake.
    ahead = np.full(len(panel), np.nan)
    ahead[panel.has_next] = value(panel.next_state[panel.has_next]).value
    ahead[panel.terminal] = 0.0
    return ahead
