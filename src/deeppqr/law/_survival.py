"""Coordinates that a law of moves itself offers: how long until a reset or an end."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from .._shapes import States
from .._stored import stored
from ._moves import MOVES, Moves

# Repetitions at which survival is looked up. Between them it is taken as constant.
STEPS = (1, 2, 4, 8, 16)


@stored
@dataclass(frozen=True, eq=False)
class Survival:
    """For each action whose fate varies: the chance to move on now, and the discounted
    time until a reset or an end if the action were repeated.

    Where resets happen at walls, the value bends along these and along little else.
    """

    moves: Moves
    discount: float

    @property
    def width(self) -> int:
        return 0 if self.moves.fate is None else 2 * int(self.moves.varied.sum())

    def __call__(self, state: States) -> Float[np.ndarray, "row coordinate"]:
        found = np.empty((len(state), self.width))
        if self.width == 0:
            return found
        for place, action in enumerate(np.flatnonzero(self.moves.varied)):
            found[:, 2 * place : 2 * place + 2] = self._repeat(state, int(action))
        return found

    def _repeat(self, state: States, action: int) -> np.ndarray:
        moves, discount = self.moves, self.discount
        mean = moves.probability[action] @ moves.deviation[action]
        # A walk with fixed steps is at any later time where its steps add up to.
        walks = bool((moves.keeps[action] == 1).all() and not moves.is_smooth[action].any())
        here, done, before = state, 0, 0
        now = self._moves_on(state, action)
        alive, total = np.ones(len(state)), np.zeros(len(state))
        for steps in STEPS:
            if walks:
                here = state + (steps - 1) * (moves.step[action] + mean)
            else:
                for _ in range(steps - 1 - done):
                    here = moves.aimed(here)[:, action] + mean
                done = steps - 1
            alive = alive * (now if steps == 1 else self._moves_on(here, action))
            total += alive * (discount**before - discount**steps)
            before = steps
        return np.stack([now, total], axis=1)

    def _moves_on(self, state: States, action: int) -> np.ndarray:
        moves = self.moves
        assert moves.fate is not None
        start = state
        if moves.fate_of_aim:
            start = state * moves.keeps[action] + moves.step[action]
            if moves.is_smooth[action].any():
                start = start + moves.drift(state) @ moves.weight[action]
        label = np.full(len(state), float(action))
        inputs = moves.fate_inputs(start, label, of_aim=moves.fate_of_aim)
        return np.exp(moves.fate.log_prob(inputs)[:, MOVES])
