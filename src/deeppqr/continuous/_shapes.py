r"""Functions of an action of which everything here is a sum.

$$Q(s,a) = \sum_t q_t(s)\,\tau_t(a)$$
with $\tau_t$ an indicator for each atom and, inside the box, products of Legendre
polynomials. The reward's own shapes are those combinations of them that are zero at the
anchor. Sums over actions then need the shapes at some nodes, once for all states.
"""

from dataclasses import dataclass
from itertools import product

import numpy as np
from jaxtyping import Float, Int
from numpy.polynomial import legendre

from .._stored import stored
from ..actions._space import ActionSpace, Amounts
from ..learners._action_shapes import HIGHER, SMOOTH

# Largest total degree of the products, by dimensions; two beyond three. Six in one
# dimension follow a reward with two turns between the bounds.
DEGREE = {1: 6, 2: 4, 3: 3}
# The same of where actions lead, which is smoother: noise blurs it, and V is smooth.
LAW_DEGREE = {1: 4, 2: 3}
LAW_DEGREE_BEYOND = 2


@stored
@dataclass(frozen=True, eq=False)
class ActionShapes:
    """The shapes of a space of actions, atoms first, and the anchor among the actions."""

    space: ActionSpace
    anchor_action: Float[np.ndarray, " action_dimension"]
    exponent: Int[np.ndarray, "product action_dimension"]
    """Degrees of the box's products; the constant first, then by total degree."""

    @classmethod
    def of(cls, space: ActionSpace, anchor: np.ndarray) -> "ActionShapes":
        most, dimensions = DEGREE.get(space.dimensions, 2), space.dimensions
        every = np.array(list(product(range(most + 1), repeat=dimensions)))
        every = every[every.sum(axis=1) <= most]
        return cls(space, anchor, every[np.argsort(every.sum(axis=1), kind="stable")])

    def __len__(self) -> int:
        return self.num_atoms + len(self.exponent)

    @property
    def num_atoms(self) -> int:
        return len(self.space.points)

    @property
    def num_law(self) -> int:
        """The first of the shapes, by which laws speak of actions."""
        most = LAW_DEGREE.get(self.space.dimensions, LAW_DEGREE_BEYOND)
        return self.num_atoms + int((self.degree <= most).sum())

    @property
    def degree(self) -> Int[np.ndarray, " product"]:
        return self.exponent.sum(axis=1)

    def __call__(self, actions: Amounts) -> Float[np.ndarray, "row shape"]:
        """The shapes at some actions."""
        atom = self.space.atom_of(actions)
        most = int(self.exponent.max())
        powers = legendre.legvander(self.space.centred(actions), most)
        inside = np.ones((len(actions), len(self.exponent)))
        for dimension, exponent in enumerate(self.exponent.T):
            inside *= powers[:, dimension, exponent]
        inside[atom >= 0] = 0.0
        indicator = (atom[:, None] == np.arange(self.num_atoms)).astype(np.float64)
        return np.concatenate([indicator, inside], axis=1)

    @property
    def constant(self) -> Float[np.ndarray, " shape"]:
        """The function that is one at every action."""
        found = np.zeros(len(self))
        found[: self.num_atoms + 1] = 1.0
        return found

    def of_reward(self) -> tuple[Float[np.ndarray, "own shape"], dict[str, np.ndarray]]:
        """Shapes that are zero at the anchor, as sums of all, and which are of what kind.

        Lines and curves of the action, what more it bends, and atoms apart.
        """
        every = np.eye(len(self))
        own = self.space.atom_of(self.anchor_action[None])[0]
        if own < 0:  # inside the box: atoms have rewards of their own
            inside = slice(self.num_atoms, None)
            every[inside, self.num_atoms] -= self(self.anchor_action[None])[0, inside]
        # Without the one that is zero, or would stand for the anchor itself.
        left_out = own if own >= 0 else self.num_atoms
        rows = np.delete(np.arange(len(self)), left_out)
        degree = np.concatenate([np.zeros(self.num_atoms, int), self.degree])[rows]
        is_atom = rows < self.num_atoms
        kinds = {
            "atoms": is_atom,
            "amounts": ~is_atom & (degree == 0),
            SMOOTH: degree == 1,
            "smooth curve": degree == 2,
            "smooth cubic": (degree == 3) & (self.space.dimensions == 1),
            HIGHER: degree > (3 if self.space.dimensions == 1 else 2),
        }
        at = {name: np.flatnonzero(which) for name, which in kinds.items()}
        return every[rows], {name: rows for name, rows in at.items() if len(rows)}
