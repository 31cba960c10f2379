"""The value of a state: features, and what they leave, by nearest neighbours."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int
from scipy.spatial import cKDTree

from .._shapes import States
from .._stored import stored
from ..law._survival import Survival
from ..learners._ridges import quasi_normal
from ..learners._scaling import Scaling
from ..panel._cells import Cells

# Ridges of the state: 30 for each variable, 150 at most. Twice as many move no error on the
# smooth world and the paper's by more than a tenth of itself, and cost four times as much.
RIDGES_PER_VARIABLE, MAX_RIDGES = 30, 150
# Ridges of the few coordinates (learned direction, survival) and their steepness.
INNER_RIDGES, INNER_STEEPNESS = 100, 2.0
# State variables up to which neighbours are sought among the states themselves, where a
# tree is quick; beyond it among the few coordinates.
MAX_NEAR = 6
NEIGHBOURS = 4


@stored
@dataclass(frozen=True, eq=False)
class ValueFeatures:
    """The constant, the state, the few coordinates and tanh ridges of both.

    With `cells`, an indicator of each distinct state instead: a linear function of these
    is any function of the state.
    """

    scaling: Scaling
    direction: Float[np.ndarray, "state_feature direction"]
    survival: Survival | None
    inner_scaling: Scaling
    ridge: Float[np.ndarray, "state_feature ridge"]
    ridge_bias: Float[np.ndarray, " ridge"]
    inner: Float[np.ndarray, "coordinate inner"]
    inner_bias: Float[np.ndarray, " inner"]
    output: Scaling
    cells: Cells | None = None
    precise: bool = False
    """In float64 rather than in float32, which takes half the memory and time."""

    @property
    def width(self) -> int:
        if self.cells is not None:
            return len(self.cells)
        few = len(self.inner_scaling.center)
        dim = len(self.scaling.center)
        return 1 + dim + few + len(self.ridge_bias) + len(self.inner_bias)

    def coordinates(self, state: States) -> Float[np.ndarray, "row coordinate"]:
        """The learned direction and survival, standardised."""
        found = self.scaling(state) @ self.direction
        if self.survival is not None:
            found = np.concatenate([found, self.survival(state)], axis=1)
        return self.inner_scaling(found)

    @property
    def dtype(self) -> type:
        return np.float64 if self.precise else np.float32

    def __call__(self, state: States, few: np.ndarray | None = None):
        """The columns; `few` are the coordinates, where they are at hand."""
        if self.cells is not None:
            # The constant in place of the first cell's indicator.
            cell = self.cells.require(state)
            found = (cell[:, None] == np.arange(len(self.cells))).astype(self.dtype)
            found[:, 0] = 1.0
            return found
        few = self.coordinates(state) if few is None else few
        standard, few = self.scaling(state).astype(self.dtype), few.astype(self.dtype)
        found, at = np.empty((len(state), self.width), self.dtype), 1
        found[:, 0] = 1.0
        for part in (standard, few):
            found[:, at : at + part.shape[1]] = part
            at += part.shape[1]
        for part, weight, bias in (
            (standard, self.ridge, self.ridge_bias),
            (few, self.inner, self.inner_bias),
        ):
            ridges = part @ weight.astype(self.dtype)
            ridges += bias.astype(self.dtype)
            np.tanh(ridges, out=found[:, at : at + len(bias)])
            at += len(bias)
        found -= self.output.center.astype(self.dtype)
        found /= self.output.scale.astype(self.dtype)
        return found


def value_features(
    state: States,
    *,
    direction: np.ndarray | None = None,
    survival: Survival | None = None,
    cells: Cells | None = None,
    precise: bool = False,
) -> ValueFeatures:
    """Features scaled on these states; the same for the same states."""
    dim, none = state.shape[1], Scaling(np.zeros(0), np.ones(0))
    direction = np.zeros((dim, 0)) if direction is None else direction
    drawn = quasi_normal(min(RIDGES_PER_VARIABLE * dim, MAX_RIDGES), dim + 1)
    few = direction.shape[1] + (0 if survival is None else survival.width)
    blank = Scaling(np.zeros(few), np.ones(few))
    empty = np.zeros((few, 0))
    bare = ValueFeatures(
        Scaling.of(state),
        direction,
        survival if survival is not None and survival.width else None,
        blank,
        drawn[:, :-1].T / np.sqrt(dim),
        drawn[:, -1],
        empty,
        np.zeros(0),
        none,
        cells,
        precise,
    )
    if cells is not None:
        return bare
    if few:
        bare = replace(bare, inner_scaling=Scaling.of(bare.coordinates(state)))
        drawn = quasi_normal(INNER_RIDGES if few > 1 else 20, few + 1) * INNER_STEEPNESS
        bare = replace(bare, inner=drawn[:, :-1].T / np.sqrt(few), inner_bias=drawn[:, -1])
    bare = replace(bare, output=Scaling(np.zeros(bare.width), np.ones(bare.width)))
    scaling = Scaling.of(bare(state).astype(np.float64))
    scaling.center[0], scaling.scale[0] = 0.0, 1.0
    return replace(bare, output=scaling)


@stored
@dataclass(frozen=True, eq=False)
class NearestStates:
    """Interpolating averages over the nearest of some states.

    Weights sum to one, so that an equation c = e + discount E[c] between the states is a
    contraction: it can always be solved. As states fill the space c becomes exact.
    """

    features: ValueFeatures
    place: Float[np.ndarray, "state coordinate"]
    among_states: bool

    @classmethod
    def of(cls, features: ValueFeatures, state: States) -> "NearestStates":
        among = state.shape[1] <= MAX_NEAR
        place = features.scaling(state) if among else features.coordinates(state)
        return cls(features, place, among)

    @staticmethod
    def exist_for(features: ValueFeatures) -> bool:
        """Whether there is a space of few dimensions to seek them in."""
        dim, few = len(features.scaling.center), len(features.inner_scaling.center)
        return dim <= MAX_NEAR or few > 0

    @cached_property
    def _tree(self) -> cKDTree:
        return cKDTree(self.place)

    def __call__(
        self, state: States, few: np.ndarray | None = None
    ) -> tuple[Int[np.ndarray, "row near"], Float[np.ndarray, "row near"]]:
        """Indices of the nearest states and their weights."""
        if self.among_states:
            place = self.features.scaling(state)
        else:
            place = self.features.coordinates(state) if few is None else few
        number = min(NEIGHBOURS + 1, len(self.place))
        # Neighbours up to a tenth farther than the nearest are as good, and quick to find.
        distance, index = self._tree.query(place, k=number, eps=0.1)
        distance, index = distance.reshape(-1, number), index.reshape(-1, number)
        # Shepard's weights of compact support: continuous, one at a state itself.
        far = distance[:, -1:] + 1e-12
        near = np.maximum(far - distance[:, :-1], 0) / (far * distance[:, :-1] + 1e-6)
        weight = near**2 + 1e-12
        weight /= weight.sum(axis=1, keepdims=True)
        return index[:, :-1].astype(np.int32), weight.astype(np.float32)


@stored
@dataclass(frozen=True, eq=False)
class ValueFunction:
    """V, and G where the anchor's reward is not zero, as columns over states."""

    features: ValueFeatures
    weight: Float[np.ndarray, "feature column"]
    neighbours: NearestStates | None
    left: Float[np.ndarray, " near_state"]
    """What the features leave of V at the neighbours' states."""

    def __call__(self, state: States) -> Float[np.ndarray, "row column"]:
        exact = self.features.cells is not None
        few = None if exact else self.features.coordinates(state)
        found = self.features(state, few).astype(np.float64) @ self.weight
        if self.neighbours is not None:
            index, weight = self.neighbours(state, few)
            found[:, 0] += (weight * self.left[index]).sum(axis=1)
        return found
