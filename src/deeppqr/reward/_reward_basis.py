"""Features of the reward: simple functions of the state, times shapes over the actions.

All are zero at the anchor, so that its reward stays the known one.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any

import jax.random as jr
import numpy as np
from jaxtyping import Bool, Float, Int, PRNGKeyArray

from .._errors import DataError
from .._shapes import States
from .._stored import ROLE, stored
from ..learners._scaling import Scaling
from ..panel._encoding import Encoding
from ..panel._panel import Panel
from ._ridge_logit import FREE

# Centres of the tanh functions along a learned direction, in its standard deviations. With
# twelve, rewards move by up to 0.006 of their standard deviation on the paper world and the
# random table; over twice the range by up to 0.10.
KNOTS = np.linspace(-2.0, 2.0, 6)
# tanh functions along random directions. With 60, rewards by joint estimation move by 3e-5
# of their standard deviation on the paper world, and not on Rust's group 4. By likelihood
# with 1,500 decisions random directions are then chosen, and rewards move by 0.42.
NUM_RIDGES = 30
FREE_SHAPE = 2  # the group of shapes with one coefficient per action
# Products with two-valued variables; beyond this none are used. 300 are 25 such variables,
# and with five actions 1,200 columns of the design.
MAX_PAIRS = 300
# Rewards from simple to complex; each contains those before it.
LEVELS = (
    "one number per action",
    "linear in the state",
    "lines that differ with two-valued variables",
    "bends along a learned direction",
    "bends along random directions",
)
# Which simple terms have penalties of their own, from few penalties to many. A constant
# with its own is hardly shrunk, however weak the signal: it is one coefficient.
APART = ("nothing", "constants", "variables")


@stored
@dataclass(frozen=True, eq=False)
class RewardBasis:
    """Constants, the state, its products with two-valued variables, and bends along given
    directions of it.

    Products and bends have what is linear in the state taken out of them: each group of
    features says what the simpler ones cannot.
    """

    scaling: Scaling
    shapes: Float[np.ndarray, "shape action"]
    """How each feature varies over the actions; zero at the anchor."""
    shape_group: Int[np.ndarray, " shape"]
    """Shapes that share a penalty."""
    pair: Int[np.ndarray, "product two"]
    """Variables that are multiplied; the first of each two has two values."""
    pair_removed: Float[np.ndarray, "linear_feature product"]
    """The linear part of the products, taken out of them."""
    pair_scale: Float[np.ndarray, " product"]
    direction: Float[np.ndarray, "state_feature bend"]
    offset: Float[np.ndarray, " bend"]
    removed: Float[np.ndarray, "linear_feature bend"]
    """The linear part of the bends, taken out of them."""
    bend_scale: float
    bend_group: Int[np.ndarray, " bend"]
    num_directions: int = 0
    """Bends whose group is this or more go along random directions."""
    apart: str = "nothing"
    """What has penalties of its own, among constants and linear terms: one of `APART`."""

    def __call__(self, state: States) -> Float[np.ndarray, "row action feature"]:
        columns = self._columns(state)
        product = columns[:, None, :, None] * self.shapes.T[None, :, None, :]
        width = product.shape[2] * product.shape[3]
        return product.reshape(len(state), self.shapes.shape[1], width)

    @property
    def dimension(self) -> int:
        """Columns of the encoded state."""
        return len(self.scaling.center)

    @property
    def group(self) -> Int[np.ndarray, " feature"]:
        """The penalty that each feature falls under."""
        dim = self.dimension
        simple = {
            "nothing": np.zeros(dim + 1, np.int64),
            "constants": np.minimum(np.arange(dim + 1), 1),
            "variables": np.arange(dim + 1),
        }[self.apart]
        products = np.full(len(self.pair), simple.max() + 1)
        bends = simple.max() + 1 + bool(len(self.pair)) + self.bend_group
        column = np.concatenate([simple, products, bends])
        number = int(self.shape_group.max()) + 1
        pairs = column[:, None] * number + self.shape_group
        return np.unique(pairs.ravel(), return_inverse=True)[1].astype(np.int64)

    @property
    def level(self) -> Int[np.ndarray, " feature"]:
        """How complex a reward needs each feature: an index into `LEVELS`."""
        dim = self.dimension
        products = np.full(len(self.pair), 2)
        bends = np.where(self.bend_group < self.num_directions, 3, 4)
        column = np.concatenate([[0], np.ones(dim, np.int64), products, bends])
        return np.repeat(column, len(self.shapes))

    @property
    def is_free(self) -> Bool[np.ndarray, " feature"]:
        """Features with which each action departs from a smooth function of its number."""
        number = 1 + self.dimension + len(self.pair) + len(self.offset)
        return np.tile(self.shape_group == FREE_SHAPE, number)

    def without_free_shapes(self) -> "RewardBasis":
        """This basis smooth in the actions' numbers."""
        kept = self.shape_group != FREE_SHAPE
        return replace(self, shapes=self.shapes[kept], shape_group=self.shape_group[kept])

    def _columns(self, state: np.ndarray) -> np.ndarray:
        standard = self.scaling(state)
        simple = _with_constant(standard)
        products = _products(standard, self.pair) - simple @ self.pair_removed
        bends = np.tanh(standard @ self.direction - self.offset) - simple @ self.removed
        return np.concatenate(
            [simple, products / self.pair_scale, bends / self.bend_scale], axis=1
        )

    def bent(self, state: np.ndarray, direction: np.ndarray, offset: np.ndarray, group):
        """This basis with bends, which are scaled on some states, in place of its own."""
        bare = replace(
            self,
            direction=direction,
            offset=offset,
            removed=np.zeros((self.dimension + 1, len(offset))),
            bend_scale=1.0,
            bend_group=np.asarray(group, dtype=np.int64),
        )
        standard = self.scaling(state)
        simple = _with_constant(standard)
        # Linear parts are taken out, so that without bends the linear coefficients still
        # mean the same.
        bends = np.tanh(standard @ direction - offset)
        removed = np.linalg.lstsq(simple, bends, rcond=1e-10)[0]
        size = float((bends - simple @ removed).std(axis=0).mean())
        return replace(bare, removed=removed, bend_scale=max(size, 1e-6))


def linear_basis(panel: Panel, anchor: int) -> RewardBasis:
    """A number per action and a linear function of the state per action.

    Where actions are numbers, a line and a parabola in them come first, and what each
    action adds to these is a group of its own. Where variables have two values, such as
    being in a market or not, the lines may differ between them.
    """
    shapes, group = _action_shapes(panel.actions, anchor)
    scaling = Scaling.of(panel.state)
    pair, pair_removed, pair_scale = _pairs(panel.state, scaling(panel.state))
    return RewardBasis(
        scaling,
        shapes,
        group,
        pair,
        pair_removed,
        pair_scale,
        direction=np.zeros((panel.state.shape[1], 0)),
        offset=np.zeros(0),
        removed=np.zeros((panel.state.shape[1] + 1, 0)),
        bend_scale=1.0,
        bend_group=np.zeros(0, dtype=np.int64),
    )


def _pairs(state: States, standard: States) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two-valued variables with every other one, where the product is something new.

    The variables, the linear part of their products, and the size of what it leaves.
    """
    dim = state.shape[1]
    few = np.ptp(state, axis=0) > 0
    few &= ((state == state.min(axis=0)) | (state == state.max(axis=0))).all(axis=0)
    two_valued = np.flatnonzero(few)
    pair = np.array(
        [
            (i, j)
            for i in two_valued
            for j in range(dim)
            if j != i and not (few[j] and j < i)
        ],
        dtype=np.int64,
    ).reshape(-1, 2)
    if len(pair) > MAX_PAIRS:
        pair = pair[:0]
    simple, product = _with_constant(standard), _products(standard, pair)
    removed = np.linalg.lstsq(simple, product, rcond=1e-10)[0]
    left = (product - simple @ removed).std(axis=0)
    # A product of two indicators of one category is zero, or linear in the others.
    new = left > 1e-6 * np.maximum(product.std(axis=0), 1e-300)
    return pair[new], removed[:, new], left[new]


def _products(standard: np.ndarray, pair: np.ndarray) -> np.ndarray:
    return standard[:, pair[:, 0]] * standard[:, pair[:, 1]]


def _with_constant(standard: np.ndarray) -> np.ndarray:
    return np.concatenate([np.ones((len(standard), 1)), standard], axis=1)


def _numeric(actions: tuple[Any, ...]) -> bool:
    """Whether the actions are numbers, and enough of them for a line to save anything."""
    numbers = all(isinstance(a, Real) and not isinstance(a, bool) for a in actions)
    # With three actions a line and a parabola are as many coefficients as intercepts.
    return numbers and len(actions) >= 4


def _action_shapes(actions, anchor: int) -> tuple[np.ndarray, np.ndarray]:
    apart = np.delete(np.eye(len(actions)), anchor, axis=0)
    if not _numeric(actions):
        return apart, np.zeros(len(apart), dtype=np.int64)
    distance = np.array([float(a) for a in actions]) - float(actions[anchor])
    line = distance / np.abs(distance).max()
    # The parabola orthogonal to the line, so that their penalties do not compete.
    curve = line**2 - line * (line**3).sum() / (line**2).sum()
    shapes = np.stack([line, curve / np.abs(curve).max()])
    group = np.concatenate([[0, 1], np.full(len(apart), FREE_SHAPE)])
    return np.concatenate([shapes, apart]), group


def bends_along(basis: RewardBasis, state: np.ndarray, direction: np.ndarray):
    """The basis with bends along each of the directions, which have unit spread."""
    number = direction.shape[1]
    return replace(basis, num_directions=number).bent(
        state,
        np.repeat(direction, len(KNOTS), axis=1),
        np.tile(KNOTS, number),
        np.repeat(np.arange(number), len(KNOTS)),
    )


def with_random_bends(basis: RewardBasis, state: np.ndarray, *, key: PRNGKeyArray):
    """The basis with bends along random directions added, a group of their own."""
    key_direction, key_offset = jr.split(key)
    dim = basis.dimension
    direction = np.asarray(jr.normal(key_direction, (dim, NUM_RIDGES)), np.float64)
    offset = np.asarray(jr.normal(key_offset, (NUM_RIDGES,)), np.float64)
    own = int(basis.bend_group.max(initial=-1)) + 1
    return basis.bent(
        state,
        np.concatenate([basis.direction, direction / np.sqrt(dim)], axis=1),
        np.concatenate([basis.offset, offset]),
        np.concatenate([basis.bend_group, np.full(NUM_RIDGES, own)]),
    )


def steepest_directions(
    basis: RewardBasis, theta: np.ndarray, state: np.ndarray, number: int = 1
) -> Float[np.ndarray, "state_feature direction"]:
    """Directions along which a reward changes most: of the mean outer product of its
    gradients, the leading eigenvectors, scaled to unit spread over the states."""
    # Finite differences in standard deviations: the basis has no derivative of its own, and
    # only directions are needed.
    step = 1e-3
    reward = basis(state) @ theta
    slopes = []
    for column in range(state.shape[1]):
        moved = state.copy()
        moved[:, column] += step * basis.scaling.scale[column]
        slopes.append((basis(moved) @ theta - reward) / step)
    gradient = np.stack(slopes, axis=-1).reshape(-1, state.shape[1])
    _, vectors = np.linalg.eigh(gradient.T @ gradient)
    # Eigenvectors have arbitrary signs; fixed, so that the same data give the same fit.
    leading = vectors[:, ::-1][:, :number]
    leading = leading * np.sign(leading[np.abs(leading).argmax(axis=0), range(number)])
    standard = basis.scaling(state)
    return leading / np.maximum((standard @ leading).std(axis=0), 1e-12)


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


@stored
@dataclass(frozen=True, eq=False)
class GivenBasis:
    """Features that the reward is known to be linear in, with unpenalised weights."""

    features: Callable[[np.ndarray], Any] = field(metadata={ROLE: "reward_features"})
    encoding: Encoding
    anchor: int
    num_actions: int
    width: int = 0

    @classmethod
    def of(cls, panel: Panel, features: Callable, anchor: int) -> "GivenBasis":
        bare = cls(features, panel.encoding, anchor, panel.num_actions)
        return replace(bare, width=bare(panel.state[:2]).shape[2])

    def __call__(self, state):
        given = self.features(self.encoding.decode(state))
        columns = checked_features(given, state, self.num_actions).copy()
        columns[:, self.anchor] = 0.0  # its reward is known
        return columns

    @property
    def group(self) -> Int[np.ndarray, " feature"]:
        return np.full(self.width, FREE)
