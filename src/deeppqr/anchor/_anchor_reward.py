"""The anchor's known reward g(s): a number, a state column or a function."""

import reprlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._errors import DataError
from .._messages import counted, plain
from .._shapes import PerRow, States
from .._stored import ROLE, stored
from ..panel._encoding import Encoding
from ..panel._user_function import call_with_states


@stored
@dataclass(frozen=True)
class AnchorReward:
    """The anchor's reward at encoded states; exactly one of the three is set."""

    constant: float | None = None
    feature: int | None = None
    """Index of an encoded state column."""
    function: Callable[[np.ndarray], Any] | None = field(
        default=None, metadata={ROLE: "anchor_reward"}
    )
    """Of an array of the state columns as given, objects where one is categorical; it
    returns a number for each row."""
    encoding: Encoding | None = None
    """Gives a function the states as the user has them."""

    @property
    def is_zero(self) -> bool:
        return self.constant == 0

    def __call__(self, state: States) -> PerRow:
        if self.constant is not None:
            return np.full(len(state), self.constant)
        if self.feature is not None:
            return state[:, self.feature].copy()
        assert self.function is not None
        assert self.encoding is not None
        # The user's function gets the columns as the user named and typed them.
        states = self.encoding.decode(state)
        reward = _numbers(
            call_with_states(
                self.function,
                states,
                role="anchor_reward",
                names=self.encoding.names,
                shape=(len(state),),
                returns="one number per state",
            )
        )
        # At each call: a function may be finite on the panel and not elsewhere.
        wrong = np.flatnonzero(~np.isfinite(reward))
        if len(wrong):
            row = wrong[0]
            raise DataError(
                f"`anchor_reward` must be finite, but the function returned {reward[row]} "
                f"for the state {self.encoding.decode(state[row : row + 1])[0]} "
                f"({len(wrong)} in all)."
            )
        return reward


def _numbers(returned: np.ndarray) -> PerRow:
    try:
        return returned.astype(np.float64)
    except (TypeError, ValueError) as problem:
        text = [row for row, value in enumerate(returned) if isinstance(value, str)]
        row = text[0] if text else 0
        raise DataError(
            "`anchor_reward` must give one number per state, but the function returned "
            f"{plain(returned[row])} for row {row} ({counted(len(text), 'row')} in all). "
            "Compute with the numeric columns, or map categories to numbers."
        ) from problem


def resolve_anchor_reward(anchor_reward: Any, encoding: Encoding) -> AnchorReward:
    """The anchor's reward behind what the user passed."""
    if isinstance(anchor_reward, str):
        return AnchorReward(feature=encoding.feature(anchor_reward))
    if callable(anchor_reward):
        return AnchorReward(function=anchor_reward, encoding=encoding)
    try:
        constant = float(anchor_reward)
    except (TypeError, ValueError, OverflowError):
        constant = np.nan
    if not np.isfinite(constant):
        raise DataError(
            "`anchor_reward` must be a finite number, the name of a state column or a "
            f"function of the states, but {reprlib.repr(anchor_reward)} arrived. If it "
            "differs by row, add it as a state column and give the column's name."
        )
    return AnchorReward(constant=constant)
