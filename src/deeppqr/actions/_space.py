"""Boxes of actions, and boxes with atoms: what may be done, and how it is counted.

Integrals over actions are taken over a measure mu that is fixed here: a box has mass one,
however long its sides, and each atom has mass one. A log density with respect to mu
becomes one per unit of the amount when `log_volume` is taken from it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from .._errors import DataError
from .._messages import counted, plain
from .._stored import stored
from ._nodes import Nodes, box_nodes

Amounts = Float[np.ndarray, "row action_dimension"]  # actions that are numbers, one a row

# How far a value may lie from an atom, or outside a box, as a share of the largest number
# that the space speaks of: float32 data agree with their float64 bounds to 6e-8.
ROUNDING = 1e-6


@stored
@dataclass(frozen=True, repr=False)
class Box:
    """Actions that are amounts between bounds: a price, a dose, two torques.

    Its measure is uniform with mass one, so `fit.log_policy` of a policy that chooses any
    action alike is zero. The density per unit of the amount is smaller by the volume:
    its logarithm is `fit.log_policy(...) - box.log_volume`.

    Parameters
    ----------
    low, high
        Bounds: two numbers, or two sequences with one number for each dimension.
    """

    low: Any
    high: Any

    def __post_init__(self):
        low, high = _bound(self.low, "low"), _bound(self.high, "high")
        if len(low) != len(high):
            raise DataError(
                "`low` and `high` of a Box must have one number for each dimension, but "
                f"`low` has {len(low)} and `high` {len(high)}."
            )
        empty = [at for at, (a, b) in enumerate(zip(low, high, strict=True)) if not a < b]
        if empty:
            where = f" in dimension {empty[0]}" if len(low) > 1 else ""
            raise DataError(
                "`low` of a Box must lie below `high`, but "
                f"{low[empty[0]]:g} is not below {high[empty[0]]:g}{where}"
                f"{f' ({len(empty)} dimensions in all)' if len(empty) > 1 else ''}. A "
                "dimension without length is no choice: leave it out. For finitely many "
                "actions pass no Box."
            )
        scalar = len(low) == 1
        object.__setattr__(self, "low", low[0] if scalar else low)
        object.__setattr__(self, "high", high[0] if scalar else high)

    @property
    def lower(self) -> Float[np.ndarray, " action_dimension"]:
        return np.atleast_1d(np.asarray(self.low, np.float64))

    @property
    def upper(self) -> Float[np.ndarray, " action_dimension"]:
        return np.atleast_1d(np.asarray(self.high, np.float64))

    @property
    def dimensions(self) -> int:
        return len(self.lower)

    @property
    def box(self) -> "Box":
        """Itself: what a `Mixed` space has beside its atoms."""
        return self

    @property
    def points(self) -> Float[np.ndarray, "atom action_dimension"]:
        """The atoms, of which a box has none."""
        return np.zeros((0, self.dimensions))

    @property
    def log_volume(self) -> float:
        """Logarithm of the product of the sides.

        Take it from a log density with respect to the box's own measure to have one per
        unit of the amount.
        """
        return float(np.log(self.upper - self.lower).sum())

    def contains(self, actions: Amounts) -> Bool[np.ndarray, " row"]:
        """Which actions lie within the bounds, up to rounding."""
        slack = ROUNDING * self._largest
        inside = (actions >= self.lower - slack) & (actions <= self.upper + slack)
        return np.all(inside, axis=1)

    def centred(self, actions: Amounts) -> Amounts:
        """Actions measured so that the box goes from -1 to 1."""
        return 2 * (actions - self.lower) / (self.upper - self.lower) - 1

    def atom_of(self, actions: Amounts) -> Int[np.ndarray, " row"]:
        """Index of the atom that each action is; -1 throughout."""
        return np.full(len(actions), -1)

    def nodes(self, number: int | None = None) -> Nodes:
        """Actions and weights that integrate functions of the action.

        Gauss-Legendre in one or two dimensions, `number` nodes for each; quasi-random
        points beyond, `number` in all. The weights sum to one.
        """
        return box_nodes(self.lower, self.upper, number)

    @property
    def _largest(self) -> float:
        return float(np.abs([self.lower, self.upper]).max())

    def __repr__(self) -> str:
        if self.dimensions == 1:
            return f"Box({self.low!r}, {self.high!r})"
        return f"Box({self.lower.tolist()}, {self.upper.tolist()})"


@stored
@dataclass(frozen=True, repr=False)
class Mixed:
    """Amounts in a box, beside atoms: values taken exactly, and often, such as nothing.

    An action equal to an atom is that atom, whether or not it lies in the box. The
    measure is the box's, with mass one, and one for each atom. `fit.log_policy` is the
    log probability at an atom; elsewhere it is a log density with respect to the box's
    measure, and per unit of the amount when `log_volume` is taken from it. The reward
    of an amount against an atom rests on this: counted per unit of the amount it would be
    smaller by temperature * `log_volume`.

    Parameters
    ----------
    atoms
        The values, such as `[0.0]`; in several dimensions a point each, `[[0.0, 0.0]]`.
    box
        The `Box` of all other actions.
    """

    atoms: Any
    box: Any

    def __post_init__(self):
        if not isinstance(self.box, Box):
            raise DataError(
                "`box` of Mixed must be a deeppqr.Box, such as Box(0.0, 10.0), but "
                f"{plain(self.box)} arrived. Actions that are all atoms need no space: "
                "leave out `actions`."
            )
        points = _points(self.atoms, self.box.dimensions)
        alike = [
            point for at, point in enumerate(points) if self._near(points[:at], point).any()
        ]
        if alike:
            raise DataError(
                "`atoms` of Mixed must differ from each other, but "
                f"{plain(_value(alike[0]))} stands there twice. Leave one out."
            )
        object.__setattr__(self, "atoms", tuple(_value(point) for point in points))

    @property
    def points(self) -> Float[np.ndarray, "atom action_dimension"]:
        """The atoms, a row each."""
        return np.reshape(np.asarray(self.atoms, np.float64), (-1, self.dimensions))

    @property
    def dimensions(self) -> int:
        return self.box.dimensions

    @property
    def log_volume(self) -> float:
        """That of the box: take it from a log density to have one per unit of amount."""
        return self.box.log_volume

    def contains(self, actions: Amounts) -> Bool[np.ndarray, " row"]:
        """Which actions are an atom or lie in the box, up to rounding."""
        return self.box.contains(actions) | (self.atom_of(actions) >= 0)

    def centred(self, actions: Amounts) -> Amounts:
        """Actions measured so that the box goes from -1 to 1."""
        return self.box.centred(actions)

    def atom_of(self, actions: Amounts) -> Int[np.ndarray, " row"]:
        """Index of the atom that each action is; -1 where it is none."""
        found = np.full(len(actions), -1)
        for index, point in enumerate(self.points):
            found[self._near(actions, point)] = index
        return found

    def nodes(self, number: int | None = None) -> Nodes:
        """The atoms, with weight one each, and then the nodes of the box."""
        inside, points = self.box.nodes(number), self.points
        return Nodes(
            np.concatenate([points, inside.action]),
            np.concatenate([np.ones(len(points)), inside.weight]),
            np.concatenate([np.arange(len(points)), inside.atom]),
        )

    def _near(self, actions: np.ndarray, point: np.ndarray) -> np.ndarray:
        slack = ROUNDING * max(self.box._largest, float(np.abs(point).max()))
        return np.all(np.abs(actions - point) <= slack, axis=1)

    def __repr__(self) -> str:
        return f"Mixed(atoms={_listed(self.atoms)}, box={self.box!r})"


ActionSpace = Box | Mixed


def _value(point: np.ndarray) -> Any:
    """A point as the user writes it: a number in one dimension."""
    return float(point[0]) if len(point) == 1 else tuple(point.tolist())


def _listed(value: Any) -> Any:
    return [list(v) if isinstance(v, tuple) else v for v in value]


def _bound(value: Any, name: str) -> tuple[float, ...]:
    numbers = _numbers(value, f"`{name}` of a Box", "a number, or one for each dimension")
    if numbers.ndim > 1 or not numbers.size:
        raise DataError(
            f"`{name}` of a Box must be a number, or one for each dimension, but it has "
            f"the shape {numbers.shape}."
        )
    return tuple(np.atleast_1d(numbers).tolist())


def _points(value: Any, dimensions: int) -> np.ndarray:
    expected = (
        "a list of numbers, such as [0.0]"
        if dimensions == 1
        else f"a list of points of {dimensions} numbers, such as [{[0.0] * dimensions}]"
    )
    numbers = _numbers(value, "`atoms` of Mixed", expected)
    if not numbers.size:
        raise DataError(
            f"`atoms` of Mixed must be {expected}, but there are none. Without atoms pass "
            "the Box itself."
        )
    if numbers.ndim == 1 and dimensions == 1:
        numbers = numbers[:, None]
    if numbers.ndim != 2 or numbers.shape[1] != dimensions:
        raise DataError(
            f"`atoms` of Mixed must be {expected}, as the box has "
            f"{counted(dimensions, 'dimension')}, but {plain(value)} arrived."
        )
    return numbers


def _numbers(value: Any, what: str, expected: str) -> np.ndarray:
    # Text and flags would be taken for numbers without a word.
    try:
        raw = np.asarray(value)
    except ValueError:  # lists of different lengths
        raw = np.asarray("")
    if raw.dtype.kind not in "iuf" and raw.size:
        raise DataError(f"{what} must be {expected}, but {plain(value)} arrived.")
    numbers = raw.astype(np.float64)
    if not np.isfinite(numbers).all():
        raise DataError(
            f"{what} must be finite, but {plain(value)} arrived. Where no bound is known, "
            "take the range of the data, a little widened."
        )
    return numbers
