r"""A law of the next state with typical steps, deviations from them, and resets.

Under action a each state variable either moves, $s'_j = s_j + \delta_{aj}$, or is drawn
afresh around a level, plus a deviation whose law does not depend on the state. With a
probability that depends on the state it is reset instead, to a place that does not depend
on it. Mileage that grows until the engine is replaced is of this kind, and so is a walk
in a box that restarts when it would leave the box.

The advantage over a regression is that $E[f(s')|s,a]$ is f itself, evaluated at the few
places where the step can lead: f need not be approximated as a function of s again.
"""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, PRNGKeyArray

from .._random import numpy_rng
from .._shapes import Mask, States
from .._stored import stored
from ..learners._boosting import BoostedTrees
from ..learners._chunks import in_chunks
from ._transition import AbstractAhead, AbstractTransition, StateFunction, Steps

MOVES, RESETS, ENDS = 0, 1, 2
# Deviations beyond this many median absolute deviations are resets: four standard
# deviations of a normal variable. At 12 the rewards of the paper world (p = 2) and of the
# firms are the same.
OUTLYING = 6.0
# Deviations that represent all, and so evaluations of f per action. With 16 the rewards of
# the firms move by 1e-5 of their standard deviation; the paper world has one deviation.
MAX_OUTCOMES = 8
MAX_LANDINGS = 2_000  # evaluations of f for the mean over resets; more add no accuracy
# Share of the rows that decides between the two models of resets. At 0.4 the rewards of the
# paper world move by 0.03 of their standard deviation, since fewer rows grow the trees.
HELD_OUT = 0.2


@stored
@dataclass(frozen=True, eq=False)
class Moves(AbstractTransition):
    """Typical steps with their deviations, and resets."""

    keeps: Float[np.ndarray, "action state_feature"]
    """One where a variable moves from its old value, zero where it is drawn afresh."""
    step: Float[np.ndarray, "action state_feature"]
    deviation: Float[np.ndarray, "action outcome state_feature"]
    probability: Float[np.ndarray, "action outcome"]
    fate: BoostedTrees | None
    """The chances of moving, resetting and ending; None where every row moved."""
    fate_of_aim: bool
    """Whether these depend on where a step aims, rather than on where it starts."""
    landing: Float[np.ndarray, "point state_feature"]
    """Where resets landed."""
    low: Float[np.ndarray, " state_feature"]
    high: Float[np.ndarray, " state_feature"]
    """The range of the states seen: a step never leaves it."""

    @classmethod
    def learn(cls, steps: Steps, *, key: PRNGKeyArray) -> "Moves":
        rng = numpy_rng(key)
        shape = (steps.num_actions, steps.state.shape[1])
        keeps, step = np.zeros(shape), np.zeros(shape)
        resets = np.zeros(len(steps.state), dtype=bool)
        deviations = []
        for action in range(steps.num_actions):
            rows = np.flatnonzero((steps.action == action) & ~steps.ends)
            here, there = steps.state[rows], steps.next_state[rows]
            if len(rows) == 0:  # the action always ends the process
                deviations.append((np.zeros((1, shape[1])), np.ones(1)))
                continue
            keeps[action], step[action] = _typical_step(here, there)
            deviation = there - keeps[action] * here - step[action]
            outlies = _outlying(deviation, np.abs(there).max(axis=0, initial=1.0))
            resets[rows] = outlies
            deviations.append(_outcomes(deviation[~outlies], rng))
        number = max(len(found) for found, _ in deviations)
        pad = lambda part: np.pad(
            part, [(0, number - len(part))] + [(0, 0)] * (part.ndim - 1)
        )
        bare = cls(
            keeps,
            step,
            np.stack([pad(found) for found, _ in deviations]),
            np.stack([pad(chance) for _, chance in deviations]),
            None,
            False,
            steps.next_state[resets],
            steps.state.min(axis=0),
            steps.state.max(axis=0),
        )
        return bare._with_fate(steps, resets, key=key, rng=rng)

    def _with_fate(self, steps: Steps, resets, *, key, rng) -> "Moves":
        if not (resets.any() or steps.ends.any()):
            return self
        fate = np.where(steps.ends, ENDS, np.where(resets, RESETS, MOVES))
        trees, of_aim = self._learn_fate(steps, fate, key=key, rng=rng)
        landing = self.landing
        if len(landing) > MAX_LANDINGS:
            landing = landing[np.sort(rng.permutation(len(landing))[:MAX_LANDINGS])]
        return replace(self, fate=trees, fate_of_aim=of_aim, landing=landing)

    def _learn_fate(self, steps: Steps, fate, *, key, rng) -> tuple[BoostedTrees, bool]:
        """The probabilities of moving, resetting and ending.

        Either boosted trees on where a step starts, or one tree with exact thresholds on
        where it aims, which fits walls; the better one on a held-out fifth of the rows.
        """
        out = rng.random(len(fate)) < HELD_OUT
        number = 3 if steps.ends.any() else 2
        aimed = self._aimed(steps.state)[np.arange(len(fate)), steps.action]
        tried = []
        for inputs, learn in (
            (aimed, BoostedTrees.single),
            (steps.state, BoostedTrees.fit),
        ):
            inputs = np.column_stack([inputs, steps.action])
            trees = learn(inputs[~out], fate[~out], steps.weight[~out], number, key=key)
            judged = trees.log_prob(inputs[out])[np.arange(out.sum()), fate[out]]
            tried.append((float(steps.weight[out] @ judged), trees))
        (with_aim, exact), (with_start, boosted) = tried
        return (exact, True) if with_aim >= with_start else (boosted, False)

    def ahead(self, function: StateFunction) -> "MovedAhead":
        # Without resets the mean has weight zero; any state of the right width will do.
        places = self.landing if len(self.landing) else self.low[None]
        landed = in_chunks(function, places).mean(axis=0)
        return MovedAhead(self, function, landed)

    def _aimed(self, state) -> Float[np.ndarray, "row action state_feature"]:
        """Where each action's typical step leads, without the bounds of the state space."""
        return state[:, None] * self.keeps + self.step

    def chances(self, state) -> Float[np.ndarray, "row action fate"]:
        """The chances of moving, resetting and ending."""
        rows, number = len(state), len(self.keeps)
        if self.fate is None:
            return np.broadcast_to([1.0, 0.0, 0.0], (rows, number, 3))
        action = np.broadcast_to(np.arange(number)[:, None], (rows, number, 1))
        start = np.broadcast_to(state[:, None], (rows, number, state.shape[1]))
        inputs = self._aimed(state) if self.fate_of_aim else start
        inputs = np.concatenate([inputs, action], axis=2)
        found = np.exp(self.fate.log_prob(inputs.reshape(rows * number, inputs.shape[2])))
        return np.pad(found, [(0, 0), (0, 3 - found.shape[1])]).reshape(rows, number, 3)


@stored
@dataclass(frozen=True, eq=False)
class MovedAhead(AbstractAhead):
    """The expectation of a function after a move, a reset or the end."""

    moves: Moves
    function: StateFunction
    landed: Float[np.ndarray, " column"]
    """Mean of the function where resets land."""

    def __call__(self, state):
        return in_chunks(self._expect, state)

    def _expect(self, state: np.ndarray) -> np.ndarray:
        moves = self.moves
        chance = moves.chances(state)
        aimed = moves._aimed(state)
        expected = chance[:, :, RESETS, None] * self.landed
        for outcome in range(moves.deviation.shape[1]):
            used = np.flatnonzero(moves.probability[:, outcome] > 0)
            # Into the range of the data: f was fitted there, and a step at its edge would
            # otherwise be extrapolated.
            places = np.clip(
                aimed[:, used] + moves.deviation[used, outcome], moves.low, moves.high
            )
            values = self.function(places.reshape(-1, places.shape[2]))
            values = values.reshape(len(state), len(used), len(self.landed))
            weight = chance[:, used, MOVES] * moves.probability[used, outcome]
            expected[:, used] += weight[:, :, None] * values
        return expected


def _typical_step(here: np.ndarray, there: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Whether each variable moves or is drawn afresh, and its typical step or level."""
    # Medians and mean absolute deviations: resets are outliers and must not count.
    moved, fresh = np.median(there - here, axis=0), np.median(there, axis=0)
    spread_moved = np.abs(there - here - moved).mean(axis=0)
    spread_fresh = np.abs(there - fresh).mean(axis=0)
    keeps = spread_moved < spread_fresh
    return keeps.astype(np.float64), np.where(keeps, moved, fresh)


def _outlying(deviation: States, size: np.ndarray) -> Mask:
    """Rows in which some variable is too far from its typical step to belong to it."""
    distance = np.abs(deviation)
    # The second term for steps without noise, where the median deviation is zero.
    limit = OUTLYING * np.median(distance, axis=0) + 1e-9 * size
    return np.any(distance > limit, axis=1)


def _outcomes(deviation: np.ndarray, rng) -> tuple[np.ndarray, np.ndarray]:
    """A few deviations that represent all, and their probabilities.

    All distinct ones if they are few; otherwise a sample, shifted so that its mean is that
    of all rows: expectations of linear functions are then exact.
    """
    # Rounded, because differences such as 0.3 - 0.2 come out in several last digits.
    rounded, count = np.unique(deviation.round(9), axis=0, return_counts=True)
    if len(rounded) <= MAX_OUTCOMES:
        return rounded, count / count.sum()
    picked = deviation[rng.permutation(len(deviation))[:MAX_OUTCOMES]]
    picked = picked + (deviation.mean(axis=0) - picked.mean(axis=0))
    return picked, np.full(MAX_OUTCOMES, 1 / MAX_OUTCOMES)
