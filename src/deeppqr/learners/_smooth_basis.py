r"""Smooth functions of the state and the action, as columns with penalties.

$$f(s,a) = \sum_b \sum_{c \in b} \sum_{q \in b} \theta_{bcq}\, x_c(s)\, \sigma_q(a),$$

where $x_c$ are columns of the state (constant, lines, bends, products, a surface) and
$\sigma_q$ shapes over the actions, all zero at the anchor. A *term* is one kind of column
with one kind of shape; its coefficients share a penalty. Terms the data do not ask for are
dropped by their evidence, so the list may be long.

The surface is what stands for any smooth function: the leading principal components of
many ridges, each of the size it has among them. With one penalty on all of them it is a
Gaussian process cut off where it varies least, as mgcv cuts off thin plate splines.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from .._shapes import States
from .._stored import stored
from ..panel._cells import Cells
from ._chunks import in_chunks
from ._ridge_logit import FREE
from ._scaling import Scaling

# Knots along a learned direction, in its standard deviations, and the bends' steepness.
KNOTS = np.linspace(-2.0, 2.0, 6)
STEEPNESS = 1.2


@stored
@dataclass(frozen=True, eq=False)
class Term:
    """Columns `first` to `last` of the state, times some shapes over the actions."""

    kind: str
    first: int
    last: int
    shape: Int[np.ndarray, " shape"]
    """Rows of the basis' table of shapes."""

    @property
    def width(self) -> int:
        return (self.last - self.first) * len(self.shape)


class Product(NamedTuple):
    """Columns that are multiplied with one shape, and their coefficients' places."""

    shape: Float[np.ndarray, " action"]
    column: Int[np.ndarray, " column"]
    coefficient: Int[np.ndarray, " column"]


@stored
@dataclass(frozen=True, eq=False)
class SmoothBasis:
    """Columns of the state, shapes over actions, and the terms made of them."""

    scaling: Scaling
    shapes: Float[np.ndarray, "shape action"]
    terms: tuple[Term, ...]
    group: Int[np.ndarray, " coefficient"]
    """The penalty of each coefficient; `FREE` for the constants."""
    bend_variable: Int[np.ndarray, " bend"]
    bend_center: Float[np.ndarray, " bend"]
    pair: Int[np.ndarray, "pair two"]
    direction: Float[np.ndarray, "state_feature direction"]
    slope: Float[np.ndarray, " knot"]
    """f'(d's) along the first direction, at Gaussian bumps; empty for none."""
    ridge_weight: Float[np.ndarray, "state_feature ridge"]
    ridge_bias: Float[np.ndarray, " ridge"]
    component: Float[np.ndarray, "ridge component"]
    """Weights of the ridges in the surface."""
    cells: Cells | None
    removed: Float[np.ndarray, "linear column"]
    """The linear part of all other columns, which is taken out of them."""
    scale: Float[np.ndarray, " column"]
    linear: int = field(default=0)
    """Columns that are the constant and the lines."""

    def __len__(self) -> int:
        return len(self.group)

    @property
    def num_actions(self) -> int:
        return self.shapes.shape[1]

    def columns(self, state: States) -> Float[np.ndarray, "row column"]:
        """All columns of the state."""
        return in_chunks(self._columns, state)

    def _columns(self, state: States) -> np.ndarray:
        standard = self.scaling(state)
        simple = np.concatenate([np.ones((len(state), 1)), standard], axis=1)
        more = self._curved(state, standard)
        if more.shape[1] == 0:
            return simple
        return np.concatenate([simple, (more - simple @ self.removed) / self.scale], axis=1)

    def _curved(self, state: States, standard: States) -> np.ndarray:
        bends = np.tanh(STEEPNESS * (standard[:, self.bend_variable] - self.bend_center))
        products = standard[:, self.pair[:, 0]] * standard[:, self.pair[:, 1]]
        parts = [bends, products]
        along = standard @ self.direction
        parts += [np.tanh(t[:, None] - KNOTS) for t in along.T]
        if len(self.slope):
            # What a small turn of the direction towards each variable would add: the
            # direction's own error is then linear in the coefficients.
            parts.append((_bumps(along[:, 0]) @ self.slope)[:, None] * standard)
        if self.component.shape[1]:
            ridges = standard @ self.ridge_weight + self.ridge_bias
            parts.append(np.tanh(ridges, out=ridges) @ self.component)
        if self.cells is not None:
            cell = self.cells.locate(state)
            parts.append((cell[:, None] == np.arange(len(self.cells))).astype(np.float64))
        return np.concatenate(parts, axis=1)

    def weights(self, theta: np.ndarray) -> Float[np.ndarray, "column action"]:
        """What the coefficients make of each column for each action."""
        found = np.zeros((self.linear + self.removed.shape[1], self.shapes.shape[1]))
        at = 0
        for term in self.terms:
            block = theta[at : at + term.width].reshape(-1, len(term.shape))
            found[term.first : term.last] += block @ self.shapes[term.shape]
            at += term.width
        return found

    def __call__(self, state: States, theta: np.ndarray) -> Float[np.ndarray, "row action"]:
        """f(s, a) with these coefficients."""
        return self.combine(self.columns(state), theta)

    def combine(self, columns: np.ndarray, theta: np.ndarray) -> np.ndarray:
        """f(s, a) where the columns are at hand."""
        return columns @ self.weights(theta)

    @cached_property
    def products(self) -> list[Product]:
        """The columns and coefficients of each shape that occurs."""
        found, at = {}, 0
        for term in self.terms:
            column = np.arange(term.first, term.last)
            for place, shape in enumerate(term.shape):
                own = at + np.arange(len(column)) * len(term.shape) + place
                found.setdefault(int(shape), []).append((column, own))
            at += term.width
        parts = {shape: zip(*pairs, strict=True) for shape, pairs in found.items()}
        return [
            Product(self.shapes[shape], *(np.concatenate(part) for part in pairs))
            for shape, pairs in parts.items()
        ]

    def slopes(self, columns: np.ndarray, action: int) -> tuple[np.ndarray, np.ndarray]:
        """The derivative of f(., action) by the coefficients that it depends on, (row,
        coefficient), and which these are."""
        used = [part for part in self.products if part.shape[action] != 0]
        if not used:
            return np.zeros((len(columns), 0)), np.zeros(0, dtype=np.int64)
        values = [columns[:, part.column] * part.shape[action] for part in used]
        return np.concatenate(values, axis=1), np.concatenate(
            [part.coefficient for part in used]
        )

    def average(self, columns: np.ndarray, prob: np.ndarray) -> np.ndarray:
        """The derivative of sum_a prob(a) f(., a), (row, coefficient)."""
        out = np.empty((len(columns), len(self)), columns.dtype)
        at = 0
        for term in self.terms:
            mixed = (prob @ self.shapes[term.shape].T).astype(columns.dtype)
            part = columns[:, term.first : term.last, None] * mixed[:, None, :]
            out[:, at : at + term.width] = part.reshape(len(columns), -1)
            at += term.width
        return out

    def design(self, state: States) -> Float[np.ndarray, "row action coefficient"]:
        """The derivatives by the coefficients, for all actions."""
        columns = self.columns(state)
        out = np.zeros((len(state), self.num_actions, len(self)))
        for action in range(self.num_actions):
            values, used = self.slopes(columns, action)
            out[:, action, used] = values
        return out

    def narrowed(self, kept: np.ndarray) -> "SmoothBasis":
        """This basis with the terms for which `kept` is true."""
        terms = tuple(term for term, use in zip(self.terms, kept, strict=True) if use)
        number = np.repeat(kept, [term.width for term in self.terms])
        return replace(self, terms=terms, group=_renumbered(self.group[number]))

    def pruned(self) -> tuple["SmoothBasis", Int[np.ndarray, " column"]]:
        """This basis without columns that no term uses, and the columns that are left."""
        used = np.zeros(self.linear + self.removed.shape[1], dtype=bool)
        used[: self.linear] = True
        for term in self.terms:
            used[term.first : term.last] = True
        widths = [len(self.bend_variable), len(self.pair)]
        widths += [
            len(KNOTS) * self.direction.shape[1],
            len(self.slope) and self.linear - 1,
        ]
        widths += [self.component.shape[1]]
        ends = np.cumsum([self.linear, *widths, len(used)])
        bends, products, along, tilts, surface, states = map(slice, ends[:-1], ends[1:])
        # Tilts need the direction; of the others each kind goes as a whole.
        used[along] = used[along].any() or used[tilts].any()
        for part in (tilts, surface, states):
            used[part] = used[part].any()
        place = np.cumsum(used) - 1
        terms = tuple(
            replace(term, first=int(place[term.first]), last=int(place[term.last - 1]) + 1)
            for term in self.terms
        )
        curved = used[self.linear :]
        found = replace(
            self,
            terms=terms,
            bend_variable=self.bend_variable[used[bends]],
            bend_center=self.bend_center[used[bends]],
            pair=self.pair[used[products]],
            direction=self.direction if used[along].any() else self.direction[:, :0],
            slope=self.slope if used[tilts].any() else self.slope[:0],
            component=self.component if used[surface].any() else self.component[:, :0],
            cells=self.cells if used[states].any() else None,
            removed=self.removed[:, curved],
            scale=self.scale[curved],
        )
        return found, np.flatnonzero(used)

    @property
    def term_of(self) -> Int[np.ndarray, " coefficient"]:
        """The number of the term each coefficient belongs to."""
        return np.repeat(np.arange(len(self.terms)), [term.width for term in self.terms])

    def with_own_penalties(self, kind: str) -> "SmoothBasis":
        """This basis with a penalty for every column of the terms of one kind."""
        group, at = self.group.copy(), 0
        for term in self.terms:
            if term.kind == kind:
                column = np.repeat(np.arange(term.last - term.first), len(term.shape))
                group[at : at + term.width] = len(group) * (1 + at) + column
            at += term.width
        return replace(self, group=_renumbered(group))

    def tied(self, start: str) -> "SmoothBasis":
        """This basis with one penalty on all terms of kinds that start so, by shapes."""
        group, first = self.group.copy(), {}
        for place, term in enumerate(self.terms):
            if term.kind.startswith(start):
                rows = self.term_of == place
                group[rows] = first.setdefault(tuple(term.shape), group[rows][0])
        return (
            self if (group == self.group).all() else replace(self, group=_renumbered(group))
        )

    def gradient(self, state: States, theta: np.ndarray) -> np.ndarray:
        """d f(s, a) / d(standardised s), (row, action, state_feature), by differences."""
        # The basis has no derivative of its own, and only directions are needed.
        step, base, slopes = 1e-3, self(state, theta), []
        for column in range(state.shape[1]):
            moved = state.copy()
            moved[:, column] += step * self.scaling.scale[column]
            slopes.append((self(moved, theta) - base) / step)
        return np.stack(slopes, axis=-1)

    def steepest(self, state: States, theta: np.ndarray) -> np.ndarray:
        """The direction along which f changes most, of unit spread, (state_feature, 1).

        Of the mean outer product of the gradients, the leading eigenvector.
        """
        slopes = self.gradient(state, theta).reshape(-1, state.shape[1])
        leading = np.linalg.eigh(slopes.T @ slopes)[1][:, -1]
        # Eigenvectors have arbitrary signs; fixed, so that the same data give the same fit.
        leading = leading * np.sign(leading[np.abs(leading).argmax()] or 1.0)
        return (leading / max((self.scaling(state) @ leading).std(), 1e-12))[:, None]

    def slope_along(self, state: States, theta: np.ndarray, direction: np.ndarray):
        """f' along a direction, averaged over actions, as weights of Gaussian bumps."""
        slope = (self.gradient(state, theta) @ direction[:, 0]).sum(axis=1)
        bumps = _bumps(self.scaling(state) @ direction[:, 0])
        size = max(np.sqrt((slope**2).mean()), 1e-12)
        ridge = 1e-3 * len(state) / bumps.shape[1] * np.eye(bumps.shape[1])
        return np.linalg.solve(bumps.T @ bumps + ridge, bumps.T @ (slope / size))


def _renumbered(group: np.ndarray) -> Int[np.ndarray, " coefficient"]:
    """The same groups as 0, 1, ..., without gaps."""
    penalised = group >= 0
    found = np.full(len(group), FREE)
    found[penalised] = np.unique(group[penalised], return_inverse=True)[1]
    return found


def _bumps(along: np.ndarray) -> Float[np.ndarray, "row knot"]:
    centers = np.linspace(-2.5, 2.5, 9)
    return np.exp(-0.5 * ((np.clip(along, -3, 3)[:, None] - centers) / 0.6) ** 2)
