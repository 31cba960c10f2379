r"""A law of the next state with typical steps, deviations from them, resets and ends.

Under action a each state variable moves, $s'_j = s_j + \delta_{aj}$, or is drawn afresh
around a level; where the data say so, a smooth function of the state is added to either.
What is left is a deviation whose law does not depend on the state. With a probability that
depends on the state it is reset instead, to a place that does not depend on it, or the
process ends. Mileage that grows until the engine is replaced is of this kind, and so are
capital that depreciates and a walk in a box that restarts when it would leave the box.

The advantage over a regression is that $E[f(s')|s,a]$ is f itself, evaluated at the few
places where the step can lead: f need not be approximated as a function of s again.
"""

from dataclasses import dataclass, replace
from functools import partial

import jax.random as jr
import numpy as np
from jaxtyping import Bool, Float

from .._shapes import PerRow, States
from .._stored import stored
from ..learners._boosting import BoostedTrees
from ..learners._chunks import in_chunks
from ..learners._ridges import Ridges
from ..mdp._simulate import draw
from ._transition import AbstractAhead, AbstractSampledTransition, StateFunction, Steps
from ._typical_steps import learn_action

MOVES, RESETS, ENDS = 0, 1, 2
MAX_LANDINGS = 4_000  # evaluations of f for the mean over resets; more add no accuracy
# Places at which a function is evaluated at once: 90 MB with the value's 270 features.
PLACES_AT_ONCE = 40_000
# Every fifth row decides between the two models of resets, of as many rows as this.
HELD_OUT, MAX_JUDGED = 5, 20_000


@stored
@dataclass(frozen=True, eq=False)
class Moves(AbstractSampledTransition):
    """Typical steps with their deviations, resets and ends."""

    keeps: Float[np.ndarray, "action state_feature"]
    """One where a variable moves from its old value, zero where it is drawn afresh."""
    step: Float[np.ndarray, "action state_feature"]
    drift: Ridges
    """Columns of the state that the smooth part of a step is linear in."""
    weight: Float[np.ndarray, "action column state_feature"]
    deviation: Float[np.ndarray, "action outcome state_feature"]
    probability: Float[np.ndarray, "action outcome"]
    share: Float[np.ndarray, "action fate"]
    """Each action's chances of moving, resetting and ending, over all states."""
    fate: BoostedTrees | None
    """These chances by state, for the actions in `varied`; None where there are none."""
    fate_of_aim: bool
    """Whether they depend on where a step aims, rather than on where it starts."""
    landing: Float[np.ndarray, "point state_feature"]
    """Where resets landed."""
    low: Float[np.ndarray, " state_feature"]
    high: Float[np.ndarray, " state_feature"]
    """The range of the states seen: a step without a smooth part never leaves it."""
    reached: Float[np.ndarray, "two state_feature"]
    """The range of the places where moves led: resets happen beyond it, if at walls."""

    @classmethod
    def learn(cls, steps: Steps) -> "Moves":
        steps = steps.select(steps.weight > 0)
        number, dim = steps.num_actions, steps.state.shape[1]
        drift = Ridges.of(steps.state, min(60, 15 * dim))
        # Next states count: a step out of the range of the states alone is no reset.
        seen = np.concatenate([steps.state, steps.next_state])
        bounds = seen.min(axis=0), seen.max(axis=0)
        resets = np.zeros(len(steps.state), dtype=bool)
        found = []
        for action in range(number):
            rows = np.flatnonzero((steps.action == action) & ~steps.ends)
            one = learn_action(
                steps.state[rows], steps.next_state[rows], steps.weight[rows], drift, bounds
            )
            resets[rows] = one.resets
            found.append(one)
        most = max(len(one.probability) for one in found)
        pad = lambda part: np.pad(
            part, [(0, most - len(part))] + [(0, 0)] * (part.ndim - 1)
        )
        fate = np.where(steps.ends, ENDS, np.where(resets, RESETS, MOVES))
        share = np.zeros((number, 3))
        np.add.at(share, (steps.action, fate), steps.weight)
        total = share.sum(axis=1, keepdims=True)
        landing = _spaced_by_weight(steps.next_state[resets], steps.weight[resets])
        bare = cls(
            np.stack([one.keeps for one in found]),
            np.stack([one.step for one in found]),
            drift,
            np.stack([one.weight for one in found]),
            np.stack([pad(one.deviation) for one in found]),
            np.stack([pad(one.probability) for one in found]),
            np.where(total > 0, share / np.maximum(total, 1e-300), [1.0, 0.0, 0.0]),
            None,
            False,
            landing,
            *bounds,
            _range(steps.next_state[fate == MOVES], bounds),
        )
        return bare._with_fate(steps, fate)

    @property
    def varied(self) -> Bool[np.ndarray, " action"]:
        """Actions that do not always have the same fate."""
        return self.share.max(axis=1) < 1

    @property
    def is_smooth(self) -> Bool[np.ndarray, "action state_feature"]:
        """Variables whose step has a smooth part."""
        return (self.weight != 0).any(axis=1)

    def _with_fate(self, steps: Steps, fate: np.ndarray) -> "Moves":
        """Chances by state, where an action does not always have the same fate.

        Either one tree with exact thresholds on where a step aims, which fits walls, or
        boosted trees on where it starts; the better one on every fifth row.
        """
        if not self.varied.any():
            return self
        rows = np.flatnonzero(self.varied[steps.action])
        state, action, fate = steps.state[rows], steps.action[rows], fate[rows]
        weight, number = steps.weight[rows], 3 if steps.ends.any() else 2
        aimed = self.aimed(state)[np.arange(len(rows)), action]
        few = slice(None, None, max(1, len(rows) // MAX_JUDGED))
        out = np.arange(len(rows[few])) % HELD_OUT == 0
        tried = []
        inputs_of_aim = self.fate_inputs(aimed, action, of_aim=True)
        inputs_of_start = self.fate_inputs(state, action, of_aim=False)
        for inputs, learn in (
            (inputs_of_aim, BoostedTrees.single),
            (inputs_of_start, BoostedTrees.fit),
        ):
            # A fixed key: ties between splits are broken the same way for every seed.
            learn = partial(learn, num_classes=number, key=jr.key(0))
            learned = (inputs[few][~out], fate[few][~out], weight[few][~out])
            trees = learn(*learned)
            judged = trees.log_prob(inputs[few][out])[np.arange(out.sum()), fate[few][out]]
            tried.append((float(weight[few][out] @ judged), inputs, learn))
        (with_aim, *exact), (with_start, *boosted) = tried
        of_aim = with_aim >= with_start
        inputs, learn = exact if of_aim else boosted
        return replace(self, fate=learn(inputs, fate, weight), fate_of_aim=of_aim)

    def fate_inputs(self, start: np.ndarray, action: np.ndarray, *, of_aim: bool):
        """What chances depend on: where a step starts or aims, and the action.

        How far an aim lies beyond all places that moves led to comes in addition: one
        split on it stands for a wall in every direction.
        """
        parts = [start]
        if of_aim:
            # One variable after another: NumPy is slow along an axis that is short.
            beyond = np.full((*start.shape[:-1], 1), -np.inf)
            for place, (low, high) in enumerate(self.reached.T):
                column = start[..., place, None]
                np.maximum(beyond, np.maximum(column - high, low - column), out=beyond)
            parts.append(beyond)
        label = np.broadcast_to(
            np.asarray(action, float)[..., None], (*start.shape[:-1], 1)
        )
        return np.concatenate([*parts, label], axis=-1)

    @property
    def every(self) -> np.ndarray:
        """The codes of all actions."""
        return np.arange(len(self.keeps))

    def aimed(
        self, state: States, acts=None
    ) -> Float[np.ndarray, "row action state_feature"]:
        """Where the typical steps of some actions lead, without bounds and deviations."""
        acts = self.every if acts is None else acts
        found = state[:, None] * self.keeps[acts] + self.step[acts]
        smooth = np.flatnonzero(self.is_smooth[acts].any(axis=1))
        if len(smooth):
            columns = self.drift(state)
            for place in smooth:
                found[:, place] += columns @ self.weight[acts[place]]
        return found

    def chances(
        self, state: States, aimed=None, acts=None
    ) -> Float[np.ndarray, "row action fate"]:
        """The chances of moving, resetting and ending of some actions."""
        acts = self.every if acts is None else acts
        chance = np.repeat(self.share[None, acts], len(state), axis=0)
        at = np.flatnonzero(self.varied[acts])
        if self.fate is None or len(at) == 0:
            return chance
        if self.fate_of_aim:
            start = (self.aimed(state, acts) if aimed is None else aimed)[:, at]
        else:
            start = np.repeat(state[:, None], len(at), axis=1)
        inputs = self.fate_inputs(start, acts[at], of_aim=self.fate_of_aim)
        inputs = inputs.reshape(-1, inputs.shape[2])
        found = np.exp(self.fate.log_prob(inputs))
        found = found.reshape(*start.shape[:2], found.shape[1])
        chance[:, at] = 0.0
        chance[:, at, : found.shape[2]] = found
        return chance

    def outcomes(self, state: States, acts=None) -> "Places":
        """Where each action, or some of them, may lead."""
        acts = self.every if acts is None else acts
        aimed = self.aimed(state, acts)
        chance = self.chances(state, aimed, acts)
        places = np.clip(aimed, self.low, self.high)[:, :, None] + self.deviation[acts]
        # Into the range of the data where steps are typical ones: f was fitted there. Where
        # they have a smooth part, cutting off the tails would move the mean.
        bounded = np.clip(places, self.low, self.high)
        places = np.where(self.is_smooth[acts][:, None], places, bounded)
        weight = chance[:, :, MOVES, None] * self.probability[acts]
        return Places(places, weight, chance[:, :, RESETS])

    def survival(self, state, action):
        found = np.empty(len(state))
        for one in np.unique(action):
            rows = action == one
            found[rows] = 1 - self.chances(state[rows], acts=np.array([one]))[:, 0, ENDS]
        return found

    def land(self, state, action, rng):
        # The few outcomes that expectations are taken over: what is drawn then has this
        # law exactly, and not one that only shares its mean and covariance.
        found = np.empty((len(state), state.shape[1]))
        for one in np.unique(action):
            rows = np.flatnonzero(action == one)
            places = self.outcomes(state[rows], np.array([one]))
            chance = np.concatenate([places.weight[:, 0], places.reset], axis=1)
            picked = draw(chance, rng)
            moves = picked < places.weight.shape[2]
            at = np.where(moves, picked, 0)
            found[rows] = places.states[np.arange(len(rows)), 0, at]
            if not moves.all():
                point = rng.integers(len(self._landing), size=int((~moves).sum()))
                found[rows[~moves]] = self._landing[point]
        return found

    def ahead(self, function: StateFunction) -> "MovedAhead":
        return MovedAhead(self, function, in_chunks(function, self._landing).mean(axis=0))

    @property
    def _landing(self) -> States:
        # Without resets their chance is next to zero; any state of the right width will do.
        return self.landing if len(self.landing) else self.low[None]


@dataclass(frozen=True, eq=False)
class Places:
    """Where each action may lead, with what probability, and the chance of a reset.

    What is missing to one is the chance of an end.
    """

    states: Float[np.ndarray, "row action outcome state_feature"]
    weight: Float[np.ndarray, "row action outcome"]
    reset: Float[np.ndarray, "row action"]

    def expect(self, values: np.ndarray, landed: np.ndarray) -> np.ndarray:
        """E[f] from f at the places, (row * action * outcome, column), and at resets."""
        rows, number, outcomes = self.weight.shape
        values = values.reshape(rows, number, outcomes, values.shape[1])
        weight = self.weight.astype(values.dtype)
        expected = weight[:, :, 0, None] * values[:, :, 0]
        for outcome in range(1, outcomes):
            expected += weight[:, :, outcome, None] * values[:, :, outcome]
        at = np.nonzero(self.reset)
        expected[at] += self.reset[at][:, None].astype(values.dtype) * landed
        return expected

    @property
    def flat(self) -> States:
        return self.states.reshape(-1, self.states.shape[-1])


@stored
@dataclass(frozen=True, eq=False)
class MovedAhead(AbstractAhead):
    """The expectation of a function after a move, a reset or the end."""

    moves: Moves
    function: StateFunction
    landed: Float[np.ndarray, " column"]
    """Mean of the function where resets land."""

    def __call__(self, state):
        number, outcomes, _ = self.moves.deviation.shape
        return in_chunks(
            self._expect, state, max(16, PLACES_AT_ONCE // (number * outcomes))
        )

    def of_taken(self, state, action):
        found = np.empty((len(state), len(self.landed)))
        for one in np.unique(action):
            rows = action == one
            only = partial(self._expect, acts=np.array([one]))
            size = max(16, PLACES_AT_ONCE // self.moves.deviation.shape[1])
            found[rows] = in_chunks(only, state[rows], size)[:, 0]
        return found

    def _expect(self, state: np.ndarray, acts=None) -> np.ndarray:
        places = self.moves.outcomes(state, acts)
        return places.expect(self.function(places.flat), self.landed)


def _range(places: States, otherwise: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """The smallest and largest of each column; of no rows, the given ones."""
    if len(places) == 0:
        return np.stack(otherwise)
    return np.stack([places.min(axis=0), places.max(axis=0)])


def _spaced_by_weight(state: States, weight: PerRow) -> np.ndarray:
    """Up to `MAX_LANDINGS` of some states, each as often as its weight says."""
    if len(state) == 0 or (len(state) <= MAX_LANDINGS and np.ptp(weight) == 0):
        return state
    share = np.cumsum(weight) / weight.sum()
    at = np.searchsorted(share, (np.arange(MAX_LANDINGS) + 0.5) / MAX_LANDINGS)
    return state[np.minimum(at, len(state) - 1)]
