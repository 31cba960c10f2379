"""Transition laws that are known as functions of the state and the action."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from .._errors import DataError, DeepPQRError
from .._shapes import Mask, PerRow, States
from .._stored import ROLE, stored
from ._simulate import draw
from ._tabular import ROUNDING, as_floats


class Outcomes(NamedTuple):
    """The possible next states of some states under one action."""

    states: Float[np.ndarray, "row outcome state_feature"]
    probability: Float[np.ndarray, "row outcome"]
    rest: PerRow
    """The probability of the common draw. What is then missing to one is an end."""


@stored
@dataclass(frozen=True, eq=False)
class Law:
    """A known law of the next state, for states of any kind.

    Parameters
    ----------
    function
        Called as `function(states, action)` with an array of states and an action's
        label. It returns the next states, (row, state), where they are certain; or a
        pair of next states (row, outcome, state) and their probabilities (row, outcome)
        where they are finitely many. With `draws`, it is called as
        `function(states, action, rng)` and returns one sample for each row. The process
        ends with the probability that the outcomes leave, unless there is a `common` draw,
        and where a next state is a row of NaN.
    draws
        Average over this many samples, with the same random numbers for every action and
        every call.
    common
        States from which the next one is drawn, each equally likely, with the probability
        that the outcomes leave: a jump whose target does not depend on the state.
    """

    function: Callable = field(metadata={ROLE: "transition"})
    draws: int | None = None
    common: Float[np.ndarray, "point state_feature"] | None = None
    seed: int = 0

    def __post_init__(self):
        if self.draws is not None and self.draws < 1:
            raise DataError(
                f"`Law(draws=...)` must be a number of samples, 1 or more, or None, but it "
                f"is {self.draws!r}."
            )

    def outcomes(self, state: States, action: Any) -> Outcomes:
        """Where `action` leads from each state."""
        if self.draws is not None:
            # Common random numbers: differences between actions then have less noise, and
            # a function of the expectation is the same at every call.
            samples = [
                self._call(state, action, np.random.default_rng([self.seed, draw]))
                for draw in range(self.draws)
            ]
            found = np.stack([as_floats("transition", s) for s in samples], axis=1)
            probability = np.full(found.shape[:2], 1 / self.draws)
        else:
            found, probability = self._listed(state, action)
        if found.shape != (len(state), found.shape[1], state.shape[1]):
            raise DataError(
                "`transition` must return next states with one row per state and "
                f"{state.shape[1]} columns, but their shape is {found.shape}."
            )
        rest = self._rest(probability, action)
        # In place of an end any state will do, as its probability is zero.
        ends = np.asarray(np.isnan(found).all(axis=2))
        if ends.any():
            found = np.where(ends[:, :, None], state[:, None], found)
            probability = np.where(ends, 0.0, probability)
        return Outcomes(found, probability, rest)

    def draw(
        self, state: States, action: Any, rng: np.random.Generator
    ) -> tuple[States, Mask]:
        """A next state of each row, and whether the process ended instead."""
        if self.draws is not None:
            # Fresh numbers: those of `outcomes` are the same at every call.
            found = as_floats("transition", self._call(state, action, rng))
            ends = np.asarray(np.isnan(found).all(axis=1))
            return np.where(ends[:, None], state, found), ends
        outcomes = self.outcomes(state, action)
        listed = outcomes.probability
        ended = 1 - listed.sum(axis=1) - outcomes.rest
        chance = np.column_stack(
            [listed, outcomes.rest, np.where(ended > ROUNDING, ended, 0)]
        )
        picked, number = draw(chance, rng), listed.shape[1]
        found = outcomes.states[np.arange(len(state)), np.minimum(picked, number - 1)]
        jumps = picked == number
        if jumps.any():
            assert self.common is not None
            found[jumps] = self.common[
                rng.integers(len(self.common), size=int(jumps.sum()))
            ]
        return found, picked > number

    def missing(self, state: States, action: Any) -> PerRow:
        """What the outcomes lack to one where that is an end nobody named: with a common
        draw, or where a next state is NaN, it is named."""
        if self.common is not None:
            return np.zeros(len(state))
        return 1 - self._listed(state, action)[1].sum(axis=1)

    def _listed(self, state: np.ndarray, action: Any) -> tuple[np.ndarray, np.ndarray]:
        answer = self._call(state, action)
        # A tuple is (next states, probabilities); an array alone is a certain next state.
        if isinstance(answer, tuple):
            if len(answer) != 2:
                raise DataError(
                    "`transition` must return next states, or a pair with their "
                    f"probabilities, but it returned a tuple of {len(answer)}."
                )
            found, probability = (as_floats("transition", part) for part in answer)
            if found.ndim != 3 or probability.shape != found.shape[:2]:
                raise DataError(
                    "`transition` must return (next_states, probability) of shapes "
                    "(row, outcome, state) and (row, outcome), but they are "
                    f"{found.shape} and {probability.shape}."
                )
            return found, probability
        found = as_floats("transition", answer)
        if found.ndim != 2:
            raise DataError(
                "`transition` must return next states of shape (row, state), or a pair "
                f"with their probabilities, but their shape is {found.shape}."
            )
        return found[:, None], np.ones((len(found), 1))

    def _call(self, state: States, action: Any, *rng: np.random.Generator) -> Any:
        """The user's function, given a copy: it may write into its argument."""
        try:
            return self.function(state.copy(), action, *rng)
        except DeepPQRError:
            raise
        except Exception as problem:
            given = "states, action, rng" if rng else "states, action"
            raise DataError(
                f"The function passed as `transition` failed with "
                f"{type(problem).__name__}: {str(problem).rstrip('.')}. It is called as "
                f"function({given}) with an array of states, here of shape {state.shape}, "
                f"and one action's label, here {action!r}."
            ) from problem

    def _rest(self, probability: np.ndarray, action: Any) -> np.ndarray:
        rest = 1 - probability.sum(axis=1)
        wrong = ~((probability >= 0).all(axis=1) & (rest >= -ROUNDING))
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raise DataError(
                f"`transition` must give probabilities, none negative, that sum to at most "
                f"one, but those of row {row} under action {action!r} sum to "
                f"{1 - rest[row]:.6g} with smallest entry {probability[row].min():.3g} "
                f"({int(wrong.sum())} rows in all)."
            )
        # Rounding may leave -1e-17. Without a common draw the rest is an end, worth zero.
        return np.maximum(rest, 0.0) if self.common is not None else np.zeros(len(rest))

    def expect(
        self,
        function: Callable[[np.ndarray], np.ndarray],
        state: States,
        action: Any,
        *,
        common_value: float,
    ) -> PerRow:
        """E[function(s') | s, action]; `common_value` is its mean over the common draw."""
        outcomes = self.outcomes(state, action)
        rows, number, width = outcomes.states.shape
        values = function(outcomes.states.reshape(-1, width)).reshape(rows, number)
        # A next state of probability zero may lie anywhere; its value must not count.
        known = np.where(outcomes.probability > 0, values, 0.0)
        return (outcomes.probability * known).sum(axis=1) + outcomes.rest * common_value

    def common_mean(self, function: Callable[[np.ndarray], np.ndarray]) -> float:
        """The mean of a function over the common draw; zero where there is none."""
        return 0.0 if self.common is None else float(function(self.common).mean())
