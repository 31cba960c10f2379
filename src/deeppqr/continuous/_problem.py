r"""The value of a reward over amounts, and the likelihood's derivatives, at some rows.

$Q(s,a) = \sum_t q_t(s)\tau_t(a)$ in the shapes of `_shapes.py`. The policy is
$\pi = \exp Q / \int \exp Q\, d\mu$, the integral a weighted sum over nodes, and the action
taken is looked up as it is. What the policy does to any quantity goes through the means
and covariances of the shapes under it: with $m_t(s) = E_\pi[\tau_t]$ the value's equation
is that of `reward/_value_problem.py` with $m_t$ in place of the probabilities of actions,
$$L = \phi - \gamma\sum_k m_k E[\phi(s')]_k, \qquad u = E_\pi[r - \log\pi].$$
Everything is in units of the temperature.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.linalg import cho_factor, cho_solve
from scipy.special import logsumexp

from .._shapes import PerRow, States
from ..actions._nodes import Nodes
from ..actions._space import Amounts
from ..law._transition import AbstractTransition
from ..learners._chunks import in_chunks, row_slices
from ..learners._row_threads import over_blocks, sum_over_blocks
from ..learners._smooth_basis import SmoothBasis
from ..reward._value_function import ValueFeatures, ValueFunction
from ._shapes import ActionShapes

PerShape = Float[np.ndarray, "row shape"]

ROWS_AT_ONCE = 4_096
# Rows for the weights of the value's features, of which there are at most 300 or so.
VALUE_ROWS = 15_000
# Numbers in the columns of a block of rows: 24 MB in float32.
BLOCK_NUMBERS = 6_000_000


@dataclass(eq=False)
class AmountProblem:
    """Some rows with where amounts lead, in terms of the value's features and shapes."""

    state: States
    action: Amounts
    weight: PerRow
    shapes: ActionShapes
    nodes: Nodes
    features: ValueFeatures
    default: PerShape
    """The reward at zero coefficients, which estimates are shrunk towards."""
    discount: float
    here: Float[np.ndarray, "row feature"]
    ahead: Float[np.ndarray, "law_shape row feature"]
    """E[phi(s')|s,.], by shapes."""
    q: PerShape = field(init=False)
    value_weight: np.ndarray = field(init=False)
    left: Float[np.ndarray, " none"] = field(default_factory=lambda: np.zeros(0))
    residual: float = 0.0
    """Root mean squared Bellman residual that the features left."""
    _kept: tuple[Any, np.ndarray] | None = None

    def __post_init__(self):
        self.at_nodes = self.shapes(self.nodes.action)
        self.taken = self.shapes(self.action)
        self.log_weight = np.log(self.nodes.weight)
        self.q = np.zeros((len(self.state), len(self.shapes)))

    def columns(self, basis: SmoothBasis) -> np.ndarray:
        """The reward's columns at the rows; those of the last basis are kept."""
        if self._kept is None or self._kept[0] is not basis:
            self._kept = basis, basis.columns(self.state)
        return self._kept[1]

    def keep_columns(self, basis: SmoothBasis, columns: np.ndarray) -> None:
        """Columns that are at hand, as those of a wider basis."""
        self._kept = basis, columns

    def log_masses(self, rows: slice = slice(None)) -> Float[np.ndarray, "row node"]:
        """Logarithms of the policy's probabilities of the nodes."""
        masses = self.q[rows] @ self.at_nodes.T + self.log_weight
        return masses - logsumexp(masses, axis=1, keepdims=True)

    def taken_log_density(self, q: PerShape | None = None) -> PerRow:
        """log pi of each row's own action with respect to the space's measure."""
        q = self.q if q is None else q
        total = logsumexp(q @ self.at_nodes.T + self.log_weight, axis=1)
        return np.einsum("rt,rt->r", q, self.taken) - total

    def log_likelihood(self) -> float:
        return float(self.weight @ self.taken_log_density())

    def evaluate(self, reward: PerShape, *, rounds: int, tol: float = 1e-3) -> None:
        """Policy iteration from `q`: sets q, and the value's weights."""
        for _ in range(rounds):
            mean, gain = self._means_and_gains(reward)
            self._factor(mean)
            self.value_weight = self._solve(gain[self.valued])
            expected = self.project(self.value_weight)
            updated = reward + self.discount * expected
            value = self.here[self.valued] @ self.value_weight.astype(self.dtype)
            after = np.einsum("rt,rt->r", mean[self.valued], expected[self.valued])
            error = gain[self.valued] - value + self.discount * after
            self.residual = float(np.sqrt((error**2).mean()))
            change = (updated - self.q) @ self.at_nodes.T
            mass = np.exp(self.log_masses())
            change -= (mass * change).sum(axis=1, keepdims=True)
            size = float(np.sqrt((mass * change**2).sum(axis=1).mean()))
            self.q = updated
            if size < tol:
                break

    def _means_and_gains(self, reward: PerShape) -> tuple[PerShape, PerRow]:
        """The shapes' means under the policy, and E[r - log pi]."""
        mean, gain = np.empty_like(reward), np.empty(len(reward))

        def block(rows: slice) -> None:
            log_mass = self.log_masses(rows)
            mass = np.exp(log_mass)
            mean[rows] = mass @ self.at_nodes
            earned = reward[rows] @ self.at_nodes.T - (log_mass - self.log_weight)
            gain[rows] = (mass * earned).sum(axis=1)

        list(over_blocks(block, row_slices(len(gain), ROWS_AT_ONCE)))
        return mean, gain

    def means(self) -> PerShape:
        return self._means_and_gains(np.zeros_like(self.q))[0]

    def covariances(self, rows: slice) -> Float[np.ndarray, "row shape shape"]:
        """Of the shapes under the policy."""
        mass = np.exp(self.log_masses(rows))
        tau = self.at_nodes
        number = tau.shape[1]
        products = (tau[:, :, None] * tau[:, None, :]).reshape(len(tau), -1)
        mean = mass @ tau
        second = (mass @ products).reshape(-1, number, number)
        return second - mean[:, :, None] * mean[:, None, :]

    @property
    def dtype(self) -> type:
        return self.features.dtype

    @property
    def valued(self) -> slice:
        """The rows, evenly spaced, on which the features' weights are found."""
        return slice(None, None, max(1, len(self.state) // VALUE_ROWS))

    def project(self, weight: np.ndarray) -> PerShape:
        """E[phi(s')'w | s, .], by shapes; those beyond the law's are zero."""
        light = weight.astype(self.dtype)
        found = np.zeros_like(self.q)
        for place, part in enumerate(self.ahead):
            found[:, place] = part @ light
        return found

    def drop(self, mean: PerShape, rows: slice) -> Float[np.ndarray, "row feature"]:
        """L: the left side of the value's equation."""
        found = self.here[rows].copy()
        share = (self.discount * mean).astype(self.dtype)
        for place, part in enumerate(self.ahead):
            found -= share[:, place, None] * part[rows]
        return found

    def value_under_policy(self) -> np.ndarray:
        """The value's weights for the default reward under the policy of `q`."""
        mean, gain = self._means_and_gains(self.default)
        self._factor(mean)
        return self._solve(gain[self.valued])

    def _factor(self, mean: PerShape) -> None:
        valued = self.valued
        self._drop = self.drop(mean[valued], valued)
        root = np.sqrt(self.weight[valued])

        def block(rows: slice) -> tuple[np.ndarray]:
            # float64: features are nearly collinear, and float32 sums lose definiteness.
            part = self._drop[rows].astype(np.float64) * root[rows, None]
            return (part.T @ part,)

        (gram,) = sum_over_blocks(block, row_slices(len(root), ROWS_AT_ONCE))
        # A ridge of one row whose value lasts for ever; none on the level of V.
        ridge = np.full(len(gram), (1.0 - self.discount) ** 2)
        ridge[0] = 0.0
        ridge += 1e-10 * np.diag(gram).max() + 1e-10 * np.diag(gram)
        self._gram = cho_factor(gram + np.diag(ridge), lower=True)

    def _solve(self, gain: Float[np.ndarray, " valued_row"]) -> np.ndarray:
        weighted = (gain * self.weight[self.valued]).astype(self.dtype)
        return cho_solve(self._gram, (self._drop.T @ weighted).astype(np.float64))

    def successor_weights(self, basis: SmoothBasis, columns: np.ndarray) -> np.ndarray:
        """How the value's weights change with the reward's coefficients."""
        valued = self.valued
        mean, columns = self.means()[valued], columns[valued]
        weight = self.weight[valued]

        def block(rows: slice) -> tuple[np.ndarray]:
            gain = basis.average(columns[rows], mean[rows]) * weight[rows, None]
            return (self._drop[rows].T @ gain.astype(self.dtype),)

        (total,) = sum_over_blocks(block, row_slices(len(columns), ROWS_AT_ONCE))
        return cho_solve(self._gram, total.astype(np.float64))

    def slopes(self, basis: SmoothBasis, columns: np.ndarray, light, rows: slice):
        """How q changes with the coefficients, (row, shape, coefficient), at some rows."""
        part = columns[rows]
        found = np.zeros((len(part), len(self.shapes), len(basis)), self.dtype)
        for each in basis.products:
            own = part[:, each.column].astype(self.dtype)
            for shape in np.flatnonzero(each.shape):
                found[:, shape, each.coefficient] += own * self.dtype(each.shape[shape])
        for place, phi in enumerate(self.ahead):
            found[:, place] += phi[rows] @ light
        return found

    def blocks(self, basis: SmoothBasis) -> Iterator[slice]:
        size = max(128, BLOCK_NUMBERS // (len(basis) * len(self.shapes) + 1))
        return row_slices(len(self.state), size)

    def derivatives(self, basis: SmoothBasis, columns: np.ndarray, successor: np.ndarray):
        """The log-likelihood's gradient and information."""
        light = (self.discount * successor).astype(self.dtype)

        def block(rows: slice) -> tuple[np.ndarray, np.ndarray]:
            slopes = self.slopes(basis, columns, light, rows)
            covariance = self.covariances(rows)
            mean = np.exp(self.log_masses(rows)) @ self.at_nodes
            mass = self.weight[rows]
            pull = (mass[:, None] * (self.taken[rows] - mean)).astype(self.dtype)
            gradient = np.einsum("rt,rtc->c", pull, slopes, dtype=np.float64)
            # A root of each row's covariance makes the information a product with itself.
            root = _roots(covariance * mass[:, None, None]).astype(self.dtype)
            rooted = np.matmul(root.transpose(0, 2, 1), slopes)
            flat = rooted.reshape(-1, len(basis))
            return gradient, flat.T @ flat

        gradient, information = sum_over_blocks(block, self.blocks(basis))
        information = information.astype(np.float64)
        # Keeps it regular in directions on which no choice depends.
        ridge = 1e-6 * np.diag(information).max(initial=1.0)
        return gradient, information + ridge * np.eye(len(gradient))

    def scores(self, basis: SmoothBasis, columns: np.ndarray, successor: np.ndarray):
        """Blocks of rows with the gradient of the log density of the action taken."""
        light = (self.discount * successor).astype(self.dtype)
        for rows in self.blocks(basis):
            slopes = self.slopes(basis, columns, light, rows)
            mean = np.exp(self.log_masses(rows)) @ self.at_nodes
            pull = (self.taken[rows] - mean).astype(self.dtype)
            yield rows, np.einsum("rt,rtc->rc", pull, slopes)

    def closest_weights(self, value: ValueFunction) -> np.ndarray:
        """The features' weights that come closest to another value function."""
        # Every third of the rows that weights are found on: this is where rounds start.
        few = slice(None, None, 3 * (self.valued.step or 1))
        here, states = self.here[few].astype(np.float64), self.state[few]
        gram = here.T @ here
        ridge = 1e-6 * np.diag(gram) + 1e-10 * np.diag(gram).max()
        return np.linalg.solve(gram + np.diag(ridge), here.T @ value(states)[:, 0])

    def continuations(self, known: np.ndarray | None) -> np.ndarray:
        """E[V(s')|s,.], and E[G(s')|s,.] unless g is zero, by the law's shapes."""
        weights = [self.value_weight] if known is None else [self.value_weight, known]
        number = self.shapes.num_law
        return np.stack([self.project(each)[:, :number] for each in weights], axis=2)

    def value_function(self, known: np.ndarray | None) -> ValueFunction:
        """V as a function of any state; with the weights of G beside it."""
        columns = [self.value_weight] if known is None else [self.value_weight, known]
        return ValueFunction(self.features, np.stack(columns, axis=1), None, np.zeros(0))

    def weights_of_repeating(
        self, anchor: Float[np.ndarray, " shape"], earned: PerRow
    ) -> np.ndarray:
        """Weights of what an action, given by its shapes, earns if taken for ever."""
        mean = np.repeat(anchor[None], len(self.state), axis=0)
        drop = self.drop(mean, slice(None)).astype(np.float64)
        weighted = drop * self.weight[:, None]
        gram = drop.T @ weighted
        ridge = np.full(len(gram), (1.0 - self.discount) ** 2)
        ridge[0] = 1e-12
        ridge += 1e-10 * np.diag(gram)
        return np.linalg.solve(gram + np.diag(ridge), weighted.T @ earned)

    def transport_weights(self, target: np.ndarray) -> np.ndarray:
        """(sum L L')^-1 times a target: the first half of the adjoint of the solution."""
        return cho_solve(self._gram, target).astype(self.dtype)


def _roots(covariance: Float[np.ndarray, "row shape shape"]) -> np.ndarray:
    """Lower triangular roots; a little is added where a policy knows no variation."""
    size = np.einsum("rtt->r", covariance) / covariance.shape[1]
    jitter = (1e-10 * size + 1e-300)[:, None, None] * np.eye(covariance.shape[1])
    try:
        return np.linalg.cholesky(covariance + jitter)
    except np.linalg.LinAlgError:  # rounding made one indefinite
        values, axes = np.linalg.eigh(covariance)
        return axes * np.sqrt(np.maximum(values, 0.0))[:, None, :]


def pose_amount_problem(
    state: States,
    action: Amounts,
    weight: PerRow,
    law: AbstractTransition,
    shapes: ActionShapes,
    nodes: Nodes,
    features: ValueFeatures,
    known: PerRow,
    discount: float,
) -> AmountProblem:
    """Look up where actions lead, once for all rounds; `known` is the anchor's reward."""
    ahead = np.zeros((shapes.num_law, len(state), features.width), features.dtype)
    expect = law.ahead(features)

    def look(at: slice) -> None:
        ahead[:, at] = np.moveaxis(expect(state[at]), 1, 0)

    list(over_blocks(look, row_slices(len(state), ROWS_AT_ONCE)))
    default = known[:, None] * shapes.constant
    here = in_chunks(features, state)
    return AmountProblem(
        state, action, weight, shapes, nodes, features, default, discount, here, ahead
    )
