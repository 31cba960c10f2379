"""Policies over amounts: the interfaces of densities, and functions of the action."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
from jaxtyping import Float, PRNGKeyArray
from scipy.special import logsumexp

from .._errors import DataError
from .._shapes import PerAction, PerRow, States
from .._stored import stored
from ..actions._nodes import Nodes
from ..actions._space import ActionSpace, Amounts
from ..panel._panel import Panel

# Of the polynomials over the box, by its dimensions; in several dimensions degrees add up.
# Parabolas alone are normal densities, which the quadrature beyond two dimensions bears.
DEGREE = {1: 6, 2: 4}
DEGREE_BEYOND = 2


class AbstractDensity(ABC):
    """An estimated policy over amounts: log pi(a|s) with respect to the space's measure."""

    space: ActionSpace

    @abstractmethod
    def log_density(self, state: States, amount: Amounts) -> PerRow:
        """Log density of one action a state: log probability where it is an atom."""

    def log_densities(
        self, state: States, actions: Float[np.ndarray, "action action_dimension"]
    ) -> PerAction:
        """Log densities of each of these actions in each state."""
        each = [np.tile(action, (len(state), 1)) for action in actions]
        return np.stack([self.log_density(state, action) for action in each], axis=1)


@dataclass(frozen=True, eq=False)
class DensityFit:
    """An estimated density, and what it says of actions it was not fitted on."""

    density: AbstractDensity
    held_out: PerRow
    """Log density of each row's action under a version fitted without the row's unit; NaN
    where there is none."""
    note: str


class AbstractDensityEstimator(ABC):
    """A way to estimate a density of actions from a panel of amounts."""

    @abstractmethod
    def fit(self, panel: Panel, *, key: PRNGKeyArray) -> DensityFit: ...


def amounts_of(panel: Panel) -> tuple[ActionSpace, Amounts]:
    """The space and the actions of a panel of amounts, refusing another."""
    if panel.space is None or panel.amount is None:
        raise DataError(
            "A density needs actions that are amounts, but the panel's are the "
            f"{panel.num_actions} labels {list(panel.actions)}. Build it with "
            "actions=deeppqr.Box(low, high), or use a policy for labels."
        )
    return panel.space, panel.amount


@stored
@dataclass(frozen=True, eq=False)
class ActionBasis:
    """Functions of the action that log densities are made of.

    Legendre polynomials over the box up to a degree, and an indicator of each atom. The
    constant over the box is left out, as it would cancel in a density.
    """

    space: ActionSpace
    degree: int

    @classmethod
    def of(cls, space: ActionSpace) -> "ActionBasis":
        return cls(space, DEGREE.get(space.dimensions, DEGREE_BEYOND))

    @cached_property
    def powers(self) -> list[tuple[int, ...]]:
        """Degrees of each polynomial by dimension, lower ones first."""
        each = product(range(self.degree + 1), repeat=self.space.dimensions)
        return sorted((p for p in each if 1 <= sum(p) <= self.degree), key=sum)

    def __len__(self) -> int:
        return len(self.powers) + len(self.space.points)

    def __call__(self, amount: Amounts) -> Float[np.ndarray, "row function"]:
        atom = self.space.atom_of(amount)
        # Atoms may lie outside the box, where polynomials explode: theirs is not used.
        unit = np.clip(self.space.centred(amount), -1.0, 1.0)
        single = np.polynomial.legendre.legvander(unit, self.degree)
        # Divided so that each has a mean square of one over the box.
        single = single * np.sqrt(2 * np.arange(self.degree + 1) + 1)
        columns = [
            np.prod([single[:, i, power] for i, power in enumerate(powers)], axis=0)
            for powers in self.powers
        ]
        inside = np.where(atom >= 0, 0.0, columns)
        at = [(atom == index).astype(np.float64) for index in range(len(self.space.points))]
        return np.stack([*inside, *at], axis=1)

    @cached_property
    def nodes(self) -> Nodes:
        """Where densities are integrated."""
        return self.space.nodes()

    @cached_property
    def at_nodes(self) -> Float[np.ndarray, "node function"]:
        return self(self.nodes.action)


@stored
@dataclass(frozen=True, eq=False)
class BasisDensity(AbstractDensity):
    """Base of densities whose logarithm is linear in an `ActionBasis`, given the state."""

    basis: ActionBasis

    @property
    def space(self) -> ActionSpace:
        return self.basis.space

    def coefficients(self, state: States) -> Float[np.ndarray, "row function"]:
        """Those of the basis in each state, before the density is normalised."""
        raise NotImplementedError

    def log_density(self, state, amount):
        return log_density_of(self.basis, self.coefficients(state), amount)

    def log_densities(self, state, actions):
        size, basis = self.coefficients(state), self.basis
        return size @ basis(actions).T - log_integral(basis, size)[:, None]


def log_density_of(
    basis: ActionBasis, size: Float[np.ndarray, "row function"], amount: Amounts
) -> PerRow:
    """Log density of each row's action, from coefficients of the basis."""
    return np.einsum("rf,rf->r", size, basis(amount)) - log_integral(basis, size)


def log_integral(basis: ActionBasis, size: Float[np.ndarray, "row function"]) -> PerRow:
    """What normalises each row's density."""
    found, log_weight = np.empty(len(size)), np.log(basis.nodes.weight)
    # In blocks: 400 nodes of a plane for every row would be large.
    for rows in np.array_split(np.arange(len(size)), -(-len(size) // 10_000) or 1):
        found[rows] = logsumexp(size[rows] @ basis.at_nodes.T + log_weight, axis=1)
    return found
