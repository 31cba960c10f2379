r"""The value of a reward, and the likelihood's derivatives, at the rows of a panel.

With $\phi$ the features of the value and $\pi$ a policy, its weights are
$$\arg\min_w \sum_i |L(s_i)'w - u(s_i)|^2, \quad
L = \phi - \gamma\sum_a \pi_a E[\phi(s')|\cdot,a], \quad
u = \sum_a \pi_a (r_a - \log\pi_a),$$
and what is left, e, is spread over time between the states, $c = e + \gamma E_\pi[c]$, c
between them an average over nearest neighbours. Expectations come from a law, so the
squared residual has no bias of double sampling. Replacing $\pi$ by the softmax of
$Q = r + \gamma E[V(s')|s,a]$ and repeating is policy iteration: it ends at the value of the
agent who maximises this reward. Everything is in units of the temperature.
"""

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import csr_array
from scipy.special import log_softmax

from .._shapes import Codes, PerAction, PerRow, States
from ..law._moves import Moves
from ..law._transition import AbstractTransition
from ..learners._chunks import in_chunks, row_slices
from ..learners._logit_sums import choice_scores, logit_sums
from ..learners._row_threads import over_blocks, sum_over_blocks
from ._value_function import NearestStates, ValueFeatures, ValueFunction

ROWS_AT_ONCE = 4_096
# Numbers in the features of the places that a block of rows may lead to: 40 MB, and as much
# again while they are made. Three times as many are no quicker.
PLACE_NUMBERS = 10_000_000
# Rows for the weights of the value's features, of which there are at most 300 or so.
VALUE_ROWS = 15_000
EVERY = slice(None)
# Rows whose neighbours a thread takes at once; a block takes a millisecond.
NEAR_ROWS = 2_048
# NearestStates' equation: relative change at which it is solved.
SPREAD_TOL, SPREAD_STEPS = 1e-3, 300


@dataclass(eq=False)
class ValueProblem:
    """Some rows with where their actions lead, in terms of the value's features."""

    state: States
    action: Codes
    weight: PerRow
    law: AbstractTransition
    features: ValueFeatures
    default: PerAction
    """The reward at zero coefficients, which estimates are shrunk towards."""
    discount: float
    neighbours: NearestStates | None
    here: Float[np.ndarray, "row feature"]
    ahead: Float[np.ndarray, "action row feature"]
    """E[phi(s')|s,a]."""
    near: tuple[np.ndarray, np.ndarray] | None
    """Nearest states of where each action leads, and their weights, (row, action, near)."""
    reset: Float[np.ndarray, "row action"]
    landing: Float[np.ndarray, " near_state"]
    """Weight of each of the neighbours' states in the mean over resets."""
    q: PerAction = field(init=False)
    value_weight: np.ndarray = field(init=False)
    left: Float[np.ndarray, " near_state"] = field(init=False)
    residual: float = 0.0
    """Root mean squared Bellman residual that the features left."""
    _kept: tuple[Any, np.ndarray] | None = None

    def columns(self, basis: Any) -> np.ndarray:
        """The reward's columns at the rows; those of the last basis are kept."""
        if self._kept is None or self._kept[0] is not basis:
            self._kept = basis, basis.columns(self.state)
        return self._kept[1]

    def keep_columns(self, basis: Any, columns: np.ndarray) -> None:
        """Columns that are at hand, as those of a wider basis."""
        self._kept = basis, columns

    @property
    def num_actions(self) -> int:
        return self.ahead.shape[0]

    @property
    def dtype(self) -> type:
        return self.features.dtype

    def log_prob(self) -> PerAction:
        return log_softmax(self.q, axis=1)

    def log_likelihood(self) -> float:
        chosen = self.log_prob()[np.arange(len(self.action)), self.action]
        return float(self.weight @ chosen)

    def evaluate(self, reward: PerAction, *, rounds: int, tol: float = 1e-3) -> None:
        """Policy iteration from `q`: sets q, and the value's weights and remainder."""
        for _ in range(rounds):
            log_prob = self.log_prob()
            prob = np.exp(log_prob)
            self.factor(prob)
            gain = (prob * (reward - log_prob)).sum(axis=1)
            self.value_weight = self.solve(gain[self.valued, None])[:, 0]
            expected = self.project(self.value_weight)
            if self.neighbours is not None:
                value = self.here @ self.value_weight.astype(self.dtype)
                error = gain - value + self.discount * (prob * expected).sum(axis=1)
                self.residual = float(np.sqrt((error**2).mean()))
                self.left = self._spread(error, prob)
                expected += self.expect_left(self.left)
            before = self.q - self.q.mean(axis=1, keepdims=True)
            self.q = reward + self.discount * expected
            change = self.q - self.q.mean(axis=1, keepdims=True) - before
            if np.sqrt((change**2).mean()) < tol:
                break

    def project(self, weight: np.ndarray) -> PerAction:
        """E[phi(s')'w | s, a]."""
        light = weight.astype(self.dtype)
        found = over_blocks(lambda part: part @ light, self.ahead)
        return np.stack(list(found), axis=1).astype(np.float64)

    def continuation(self, value_weight: np.ndarray, left: np.ndarray) -> PerAction:
        """E[V(s')|s,a] of a value found on other rows with the same features."""
        expected = self.project(value_weight)
        return expected if self.near is None else expected + self.expect_left(left)

    def expect_left(self, left: np.ndarray) -> PerAction:
        """E[c(s')|s,a] of a remainder at the neighbours' states."""
        assert self.near is not None
        index, weight = self.near
        light = left.astype(np.float32)

        def block(rows: slice) -> np.ndarray:
            return (weight[rows] * light[index[rows]]).sum(axis=2)

        parts = over_blocks(block, row_slices(len(index), NEAR_ROWS))
        return np.concatenate(list(parts)) + self.reset * float(self.landing @ left)

    def factor(self, prob: PerAction) -> None:
        """Left sides of the value's equation under a policy, and their normal equations."""
        here, root = self.here[self.valued], np.sqrt(self.weight[self.valued])
        ahead, prob = self.ahead[:, self.valued], self.discount * prob[self.valued]
        drop = np.empty_like(here)

        def block(rows: slice) -> tuple[np.ndarray]:
            drop[rows] = here[rows]
            for action, part in enumerate(ahead):
                share = prob[rows, action, None].astype(self.dtype)
                drop[rows] -= share * part[rows]
            # float64: features are nearly collinear, and float32 sums lose definiteness.
            part = drop[rows].astype(np.float64)
            part *= root[rows, None]
            return (part.T @ part,)  # a matrix with itself: BLAS fills in one half

        (gram,) = sum_over_blocks(block, row_slices(len(drop), ROWS_AT_ONCE))
        number = len(gram)
        # A ridge of one row whose value lasts for ever; none on the level of V.
        ridge = np.full(number, (1.0 - self.discount) ** 2)
        ridge[0] = 0.0
        ridge += 1e-10 * np.diag(gram).max() + 1e-10 * np.diag(gram)
        self._drop, self._ridge = drop, ridge
        self._gram = cho_factor(gram + np.diag(ridge), lower=True)

    @property
    def valued(self) -> slice:
        """The rows, evenly spaced, on which the features' weights are found."""
        return slice(None, None, max(1, len(self.action) // VALUE_ROWS))

    def solve(self, gain: Float[np.ndarray, "valued_row column"]) -> np.ndarray:
        """Weights of the values of some gains under the policy factored last."""
        weighted = (gain * self.weight[self.valued, None]).astype(self.dtype)
        return cho_solve(self._gram, (self._drop.T @ weighted).astype(np.float64))

    def closest_weights(self, value: ValueFunction) -> np.ndarray:
        """The features' weights that come closest to another value function."""
        # Every third of the rows that weights are found on: this is where rounds start.
        few = slice(None, None, 3 * (self.valued.step or 1))
        here = self.here[few].astype(np.float64)
        states = self.state[few]
        parts = np.array_split(states, -(-len(states) // ROWS_AT_ONCE))
        target = np.concatenate([part[:, 0] for part in over_blocks(value, parts)])
        gram = here.T @ here
        ridge = 1e-6 * np.diag(gram) + 1e-10 * np.diag(gram).max()
        return np.linalg.solve(gram + np.diag(ridge), here.T @ target)

    def transport_weights(self, target: Float[np.ndarray, "feature column"]):
        """(sum L L')^-1 times a target: the first half of the adjoint of `solve`.

        Both sums are over the rows on which weights are found.
        """
        return cho_solve(self._gram, target).astype(self.dtype)

    def transport(self, weight: np.ndarray, rows: slice) -> np.ndarray:
        """L times the transport weights at some rows, (row, column)."""
        prob = np.exp(log_softmax(self.q[rows], axis=1))
        drop = self.here[rows].copy()
        for action, part in enumerate(self.ahead):
            drop -= (self.discount * prob[:, action, None]).astype(self.dtype) * part[rows]
        return drop @ weight

    def _spread(self, error: PerRow, prob: PerAction) -> PerRow:
        """c = e + discount E_pi[c], by repetition; warm from the last one."""
        assert self.near is not None
        index, weight = self.near
        number, share = len(error), (self.discount * prob).astype(np.float32)

        def block(rows: slice) -> csr_array:
            flow = share[rows, :, None] * weight[rows]
            starts = np.arange(len(flow) + 1) * flow[0].size
            return csr_array(
                (flow.reshape(-1), index[rows].reshape(-1), starts),
                shape=(len(flow), number),
            )

        moves = list(over_blocks(block, row_slices(number, NEAR_ROWS)))
        resets = (self.discount * (prob * self.reset).sum(axis=1)).astype(np.float32)
        landing, error32 = self.landing.astype(np.float32), error.astype(np.float32)
        left = self.left.astype(np.float32)
        enough = SPREAD_TOL * (1 - self.discount) * float(np.abs(error).mean())
        for _ in range(SPREAD_STEPS):
            moved = over_blocks(partial(_product, vector=left), moves)
            update = np.concatenate(list(moved))
            update += resets * (landing @ left) + error32
            change = float(np.abs(update - left).mean())
            left = update
            if change < enough:
                break
        return left.astype(np.float64)

    def successor_weights(self, basis: Any, columns: np.ndarray) -> np.ndarray:
        """How the value's weights change with the reward's coefficients."""
        prob = np.exp(self.log_prob()[self.valued])
        columns, weight = columns[self.valued], self.weight[self.valued]

        def block(rows: slice) -> tuple[np.ndarray]:
            gain = basis.average(columns[rows], prob[rows]) * weight[rows, None]
            return (self._drop[rows].T @ gain.astype(self.dtype),)

        (total,) = sum_over_blocks(block, row_slices(len(columns), ROWS_AT_ONCE))
        return cho_solve(self._gram, total)

    def sums(self, basis: Any, columns: np.ndarray, carried=None, few: slice = EVERY):
        """The likelihood's derivatives by the reward and by E[phi(s')|s,a], at all rows
        or a few.

        Q changes with the coefficients by Z = psi + discount E[phi(s')]'W. What neighbours
        add to V is left out of Z: any Z gives moments that hold at the truth, and this one
        is close to the best.
        """
        return logit_sums(
            basis,
            columns[few],
            np.exp(log_softmax(self.q[few], axis=1)),
            self.action[few],
            self.weight[few],
            other=self.ahead[:, few],
            carried=carried,
        )

    def derivatives(self, basis: Any, columns: np.ndarray, successor: np.ndarray):
        """The log-likelihood's gradient and information."""
        weight = self.discount * successor
        if len(basis) < len(weight):
            return self.sums(basis, columns, weight).through(np.eye(len(basis)))
        return self.sums(basis, columns).through(weight)

    def scores(self, basis: Any, columns: np.ndarray, successor: np.ndarray):
        """Blocks of rows with Z of the action taken, less its mean over the policy."""
        return choice_scores(
            basis,
            columns,
            np.exp(self.log_prob()),
            self.action,
            other=self.ahead,
            weight=self.discount * successor,
        )

    def weights_of_repeating(self, action: int, earned: PerRow) -> np.ndarray:
        """Weights of what an action earns if it is taken for ever."""
        ahead = self.ahead[action].astype(np.float64)
        drop = self.here.astype(np.float64) - self.discount * ahead
        weighted = drop * self.weight[:, None]
        gram = drop.T @ weighted
        ridge = np.full(len(gram), (1.0 - self.discount) ** 2)
        ridge[0] = 1e-12
        ridge += 1e-10 * np.diag(gram)
        return np.linalg.solve(gram + np.diag(ridge), weighted.T @ earned)

    def value_function(self, known: np.ndarray | None) -> ValueFunction:
        """V as a function of any state; with the weights of G beside it."""
        columns = [self.value_weight] if known is None else [self.value_weight, known]
        return ValueFunction(
            self.features, np.stack(columns, axis=1), self.neighbours, self.left
        )


def _product(matrix: csr_array, vector: np.ndarray) -> np.ndarray:
    return matrix @ vector


def pose_value_problem(
    state: States,
    action: Codes,
    weight: PerRow,
    law: AbstractTransition,
    features: ValueFeatures,
    default: PerAction,
    discount: float,
    *,
    neighbours: NearestStates | None = None,
    correct: bool = True,
) -> ValueProblem:
    """Look up where the actions lead, once for all rounds.

    Where the law lists places, the value is corrected by neighbours: those given, or the
    rows themselves.
    """
    number, rows = default.shape[1], len(state)
    ahead = np.empty((number, rows, features.width), features.dtype)
    reset = np.zeros((rows, number))
    here = in_chunks(features, state)
    listed = isinstance(law, Moves) and features.cells is None
    if not listed:
        expect = law.ahead(features)

        def look(at: slice) -> None:
            ahead[:, at] = np.moveaxis(expect(state[at]), 1, 0)

        list(over_blocks(look, row_slices(rows, ROWS_AT_ONCE)))
        near, landing, neighbours = None, np.zeros(0), None
    else:
        assert isinstance(law, Moves)
        if neighbours is None and correct and NearestStates.exist_for(features):
            neighbours = NearestStates.of(features, state)
        near, landing = _list_places(law, features, state, ahead, reset, neighbours)
    problem = ValueProblem(
        state,
        action,
        weight,
        law,
        features,
        default,
        discount,
        neighbours,
        here,
        ahead,
        near,
        reset,
        landing,
    )
    problem.q = np.zeros((rows, number))
    problem.left = np.zeros(0 if neighbours is None else len(neighbours.place))
    return problem


def _list_places(law: Moves, features, state, ahead, reset, neighbours):
    """Fill in E[phi(s')] and resets; the neighbours of the places, and of landings."""
    landed = np.zeros(features.width, features.dtype)
    landing = np.zeros(0 if neighbours is None else len(neighbours.place))
    if len(law.landing):
        landed = features(law.landing).mean(axis=0, dtype=np.float64).astype(features.dtype)
        if neighbours is not None:
            index, weight = neighbours(law.landing)
            landing += np.bincount(index.ravel(), weight.ravel(), len(landing))
            landing /= len(law.landing)
    lookups = law.deviation.shape[0] * law.deviation.shape[1] * features.width

    def look(at: slice):
        places = law.outcomes(state[at])
        flat = places.flat
        few = features.coordinates(flat)
        ahead[:, at] = np.moveaxis(places.expect(features(flat, few), landed), 1, 0)
        reset[at] = places.reset
        if neighbours is None:
            return None
        index, weight = neighbours(flat, few)
        shape = (*places.weight.shape, -1)
        weight = weight.reshape(shape) * places.weight[..., None].astype(np.float32)
        shape = (len(places.weight), places.weight.shape[1], -1)
        return index.reshape(shape), weight.reshape(shape)

    size = max(64, min(ROWS_AT_ONCE, PLACE_NUMBERS // lookups))
    found = list(over_blocks(look, row_slices(len(state), size)))
    if neighbours is None:
        return None, landing
    index, weight = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return (index, weight), landing
