r"""The quick default for amounts: a penalised log density on a tensor basis.

$$\log\pi(a|s) = \phi(s)^\top\Theta\,\psi(a) - \log\int
e^{\phi(s)^\top\Theta\,\psi(b)}\,d\mu(b).$$
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from .._shapes import Codes, PerRow, States
from .._stored import stored
from ..learners._ridge_logit import best_penalty, penalty_diagonal
from ..learners._scaling import Scaling
from ._density import (
    AbstractDensityEstimator,
    ActionBasis,
    BasisDensity,
    DensityFit,
    amounts_of,
    log_density_of,
)
from ._logit import monomials
from ._policy import FOLDS

# Coefficients beyond which ridges, and then products of states, are left out.
MAX_COEFFICIENTS = 600
RIDGES = 20
MAX_TURNS, STEPS_A_TURN = 12, 4
# By which a penalty changes in a turn.
MAX_FACTOR = 30.0
# Expected gain of a step at which it ends, in nats for each effective coefficient, as in
# `_smooth.py`.
ENOUGH = 5e-3
ROWS_AT_ONCE = 4_096


@dataclass(frozen=True)
class Tensor(AbstractDensityEstimator):
    """Log densities of amounts: functions of the state times polynomials of the action.

    The state enters by lines, products, squares and a few fixed bends. Each function of the
    action has a penalty for its lines and one for what is curved in the state, chosen by
    their evidence. Nothing is random.

    Parameters
    ----------
    degree
        Of the polynomials of the action; by default 6 in one dimension and 4 in two.
    """

    degree: int | None = None

    def fit(self, panel, *, key):
        del key
        space, amount = amounts_of(panel)
        basis = ActionBasis(space, self.degree) if self.degree else ActionBasis.of(space)
        features = StateFeatures.of(panel.state, len(basis))
        problem = _Newton(
            basis, features, features(panel.state), basis(amount), panel.weight
        )
        problem.maximise()
        few = panel.num_units < FOLDS
        rows = np.arange(len(panel))
        fold = rows * FOLDS // len(rows) if few else panel.unit % FOLDS
        density = TensorDensity(basis, features, problem.theta)
        held_out = problem.held_out(fold, amount)
        note = f"log density on {problem.theta.size} terms of state and action"
        return DensityFit(density, held_out, note)


@stored
@dataclass(frozen=True, eq=False)
class StateFeatures:
    """A constant, lines, squares and products, and bends along fixed directions."""

    scaling: Scaling
    degree: int
    direction: Float[np.ndarray, "state_feature ridge"]
    centre: Float[np.ndarray, " ridge"]

    @classmethod
    def of(cls, state: States, num_functions: int, ridges: int = RIDGES) -> "StateFeatures":
        """As many as the coefficients may be, for so many functions of the action."""
        dim = state.shape[1]
        room = MAX_COEFFICIENTS // num_functions
        products = 1 + dim + dim * (dim + 1) // 2
        degree = 2 if products <= room else 1
        width = products if degree == 2 else 1 + dim
        # A fixed seed: these are features, not estimates, and fits are to be repeatable.
        rng = np.random.default_rng(0)
        number = int(np.clip(room - width, 0, ridges))
        direction = rng.normal(size=(dim, number)) * np.sqrt(2 / dim)
        return cls(Scaling.of(state), degree, direction, rng.normal(size=number))

    def __call__(self, state: States) -> Float[np.ndarray, "row feature"]:
        scaled = self.scaling(state)
        bends = np.tanh(scaled @ self.direction + self.centre)
        return np.column_stack([np.ones(len(state)), monomials(scaled, self.degree), bends])

    @property
    def straight(self) -> int:
        """Columns that are the constant or a line; they come first."""
        return 1 + len(self.scaling.center)


@stored
@dataclass(frozen=True, eq=False)
class TensorDensity(BasisDensity):
    """Coefficients of a log density by state and action."""

    features: StateFeatures
    theta: Float[np.ndarray, "feature function"]

    def coefficients(self, state):
        return self.features(state) @ self.theta


class _Newton:
    """Newton's method for the log density, penalties chosen on the way."""

    def __init__(self, basis, features, columns, taken, weight: PerRow):
        self.basis, self.columns, self.taken, self.weight = basis, columns, taken, weight
        shape = columns.shape[1], len(basis)
        self.theta = np.zeros(shape)
        # Constants are free; lines and curves of each function have a penalty of their own.
        curved = np.arange(shape[0]) >= features.straight
        group = 2 * np.arange(shape[1]) + curved[:, None]
        group[0] = -1
        self.group = group.ravel()
        self.penalty = np.ones(2 * shape[1])
        self.information = np.zeros((self.theta.size, self.theta.size))

    def maximise(self) -> None:
        """Alternate between a few steps under fixed penalties and better penalties.

        Penalties rest on a quadratic likelihood: found far from the maximum they can be
        so small that the next ones are found farther away. So they come after steps, and
        move by a bounded factor.
        """
        for _ in range(MAX_TURNS):
            for _ in range(STEPS_A_TURN):
                gradient = self._sums()
                slope, gain = self._step(gradient)
                if slope < 0.05:
                    break
            right = self.information @ self.theta.ravel() + self._sums()
            found = best_penalty(self.information, right, self.group, self.penalty, 40)
            asked, effective = found
            moved = np.clip(asked / self.penalty, 1 / MAX_FACTOR, MAX_FACTOR)
            self.penalty = self.penalty * moved
            # Groups without effective coefficients may raise theirs for ever.
            settled = np.abs(np.log(moved)) * (effective > 0.05) < 0.1
            if settled.all() and gain < max(0.05, ENOUGH * effective.sum()):
                break

    def _step(self, gradient: np.ndarray) -> tuple[float, float]:
        """One step of Newton's: the gain it promised and what it gained."""
        flat, shape = self.theta.ravel(), self.theta.shape
        diagonal = penalty_diagonal(self.penalty, self.group)
        uphill = gradient - diagonal * flat
        step = np.linalg.solve(self.information + np.diag(diagonal), uphill)
        slope = float(step @ uphill)
        now, length = self._fit(self.theta, diagonal), 1.0
        while length > 1e-4:
            tried = (flat + length * step).reshape(shape)
            gain = self._fit(tried, diagonal) - now
            if gain >= 1e-4 * length * slope:
                self.theta = tried
                return slope, gain
            length /= 2
        return slope, 0.0

    def _fit(self, theta: np.ndarray, diagonal: np.ndarray) -> float:
        total = -0.5 * float(diagonal @ theta.ravel() ** 2)
        for rows in self._blocks():
            size = self.columns[rows] @ theta
            level, _ = self._density_at_nodes(size)
            chosen = np.einsum("rf,rf->r", size, self.taken[rows]) - level
            total += float(self.weight[rows] @ chosen)
        return total

    def _density_at_nodes(self, size: np.ndarray) -> tuple[PerRow, np.ndarray]:
        """Logarithm of each row's integral, and the probabilities of its nodes."""
        score = size @ self.basis.at_nodes.T
        top = score.max(axis=1, keepdims=True)
        prob = np.exp(score - top) * self.basis.nodes.weight
        total = prob.sum(axis=1, keepdims=True)
        return (top + np.log(total))[:, 0], prob / total

    def _sums(self) -> np.ndarray:
        """The gradient; the information is kept."""
        functions, at_nodes = len(self.basis), self.basis.at_nodes
        pairs = np.triu_indices(functions)
        products = at_nodes[:, pairs[0]] * at_nodes[:, pairs[1]]
        width = self.columns.shape[1]
        gradient = np.zeros(self.theta.shape)
        blocks = np.zeros((len(pairs[0]), width, width))
        for rows in self._blocks():
            columns, weight = self.columns[rows], self.weight[rows, None]
            _, prob = self._density_at_nodes(columns @ self.theta)
            mean = prob @ at_nodes
            gradient += (columns * weight).T @ (self.taken[rows] - mean)
            covariance = prob @ products - mean[:, pairs[0]] * mean[:, pairs[1]]
            for place, part in enumerate((covariance * weight).T):
                blocks[place] += (columns * part[:, None]).T @ columns
        whole = np.empty((width, functions, width, functions))
        for block, one, other in zip(blocks, *pairs, strict=True):
            whole[:, one, :, other] = block
            whole[:, other, :, one] = block
        self.information = whole.reshape(self.theta.size, self.theta.size)
        return gradient.ravel()

    def held_out(self, fold: Codes, amount: np.ndarray) -> PerRow:
        """Log densities of the actions under coefficients found without their fold.

        These are one Newton step away from those on all rows.
        """
        score = np.zeros((FOLDS, *self.theta.shape))
        for rows in self._blocks():
            _, prob = self._density_at_nodes(self.columns[rows] @ self.theta)
            gap = (self.taken[rows] - prob @ self.basis.at_nodes) * self.weight[rows, None]
            for number in range(FOLDS):
                own = fold[rows] == number
                score[number] += self.columns[rows][own].T @ gap[own]
        diagonal = np.diag(penalty_diagonal(self.penalty, self.group))
        found = np.empty(len(fold))
        for number in range(FOLDS):
            out = fold == number
            rest = 1 - self.weight[out].sum() / self.weight.sum()
            system = rest * self.information + diagonal
            moved = np.linalg.solve(system, score[number].ravel())
            theta = self.theta - moved.reshape(self.theta.shape)
            size = self.columns[out] @ theta
            found[out] = log_density_of(self.basis, size, amount[out])
        return found

    def _blocks(self) -> list[slice]:
        starts = range(0, len(self.columns), ROWS_AT_ONCE)
        return [slice(start, start + ROWS_AT_ONCE) for start in starts]
