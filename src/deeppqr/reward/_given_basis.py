"""Features that a user knows the reward to be linear in."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float, Int

from .._errors import DataError
from .._shapes import PerAction, States
from .._stored import ROLE, stored
from ..learners._ridge_logit import FREE
from ..panel._encoding import Encoding
from ..panel._panel import Panel


@stored
@dataclass(frozen=True, eq=False)
class GivenBasis:
    """Features that the reward is known to be linear in, with unpenalised weights.

    It has the methods of `SmoothBasis` that estimation needs.
    """

    features: Callable[[np.ndarray], Any] = field(metadata={ROLE: "reward_features"})
    encoding: Encoding
    anchor: int
    num_actions: int
    width: int = 0

    @classmethod
    def of(cls, panel: Panel, features: Callable, anchor: int) -> "GivenBasis":
        bare = cls(features, panel.encoding, anchor, panel.num_actions)
        return replace(bare, width=bare.design(panel.state[:2]).shape[2])

    def __len__(self) -> int:
        return self.width

    @property
    def group(self) -> Int[np.ndarray, " feature"]:
        return np.full(self.width, FREE)

    def design(self, state: States) -> Float[np.ndarray, "row action feature"]:
        given = self.features(self.encoding.decode(state))
        found = checked_features(given, state, self.num_actions).copy()
        found[:, self.anchor] = 0.0  # its reward is known
        return found

    def columns(self, state: States) -> Float[np.ndarray, "row column"]:
        """The features of all actions, side by side."""
        return self.design(state).reshape(len(state), -1)

    def __call__(self, state: States, theta: np.ndarray) -> PerAction:
        return self.design(state) @ theta

    def combine(self, columns: np.ndarray, theta: np.ndarray) -> PerAction:
        return columns.reshape(len(columns), self.num_actions, self.width) @ theta

    products: ClassVar[list] = []
    """None of the features is a product of a column with a shape over the actions."""

    def by_action(self, columns: np.ndarray) -> Float[np.ndarray, "action row feature"]:
        features = columns.reshape(len(columns), self.num_actions, self.width)
        return np.moveaxis(features, 1, 0)

    def slopes(self, columns: np.ndarray, action: int) -> tuple[np.ndarray, np.ndarray]:
        """The derivative by the coefficients, (row, coefficient), and which these are."""
        return self.by_action(columns)[action], np.arange(self.width)

    def average(self, columns: np.ndarray, prob: np.ndarray) -> np.ndarray:
        features = columns.reshape(len(columns), self.num_actions, self.width)
        return np.einsum("ra,rak->rk", prob, features)


def checked_features(
    given: Any, state: States, num_actions: int
) -> Float[np.ndarray, "row action feature"]:
    """The array that a user's `features` returned, its shape and values checked."""
    found = np.asarray(given, dtype=np.float64)
    if found.ndim == 2:
        found = found[:, :, None]
    if found.ndim != 3 or found.shape[:2] != (len(state), num_actions):
        raise DataError(
            "`features` must return, for each state and action, the features that the "
            f"reward is linear in: shape ({len(state)}, {num_actions}, number of "
            f"features), but the function returned shape {np.shape(given)}."
        )
    if not np.isfinite(found).all():
        row = int(np.flatnonzero(~np.isfinite(found).all(axis=(1, 2)))[0])
        raise DataError(
            "`features` must be finite, but the function returned something else for "
            f"the state {np.array2string(state[row], precision=4)}."
        )
    return found
