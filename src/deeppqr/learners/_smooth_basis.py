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

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.special import ndtri
from scipy.stats import qmc

from .._shapes import States
from .._stored import stored
from ..panel._cells import Cells
from ..panel._encoding import Encoding
from ._action_shapes import APART, COMMON, SMOOTH, action_shapes
from ._ridge_logit import FREE
from ._scaling import Scaling

# Centres of the tanh functions of one variable, as quantiles of it, and along a learned
# direction, in its standard deviations.
QUANTILES = (0.15, 0.5, 0.85)
KNOTS = np.linspace(-2.0, 2.0, 6)
STEEPNESS = 1.2
# Products of two numeric variables are tried up to ten of them: 45 products.
MAX_PAIRED = 10
# Ridges behind the surface, one less than a power of two; with 500 the smooth world's
# errors are 3 % smaller and columns cost twice as much. Steeper by half than usual draws:
# the evidence is then higher on the smooth world, and twice as steep changes little.
NUM_RIDGES, RIDGE_STEEPNESS = 255, 1.5
# Components of the surface: as many as make this many coefficients, between two bounds.
# On the smooth world 40 in place of 80 raise the error by 4 % and lower the coverage of
# 95 % intervals from 0.91 to 0.88.
SURFACE_COEFFICIENTS, MIN_COMPONENTS, MAX_COMPONENTS = 800, 8, 80
# All coefficients that the surface may bring them to, above the smallest number of
# components: sums over the rows cost their square, and choosing penalties their cube.
MAX_COEFFICIENTS = 1_200
# Rows on which the components are found.
SURFACE_ROWS = 3_000
# Distinct states up to which each has an effect of its own.
MAX_CELLS = 200
# Unordered actions up to which bends and products differ by action; beyond it they are
# common to all and only lines differ, which keeps the cost linear in the actions.
MAX_BENT_ACTIONS = 8


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


def smooth_basis(
    state: States,
    actions: Sequence[Any],
    anchor: int,
    encoding: Encoding | None = None,
    *,
    curved: bool = False,
    surface: bool = False,
    direction: np.ndarray | None = None,
    slope: np.ndarray | None = None,
) -> SmoothBasis:
    """Constants and lines for every action; `curved`, bends and products too.

    Bends along a `direction`, with a `slope` its tilts, and the `surface` come in addition.
    """
    scaling = Scaling.of(state)
    standard = scaling(state)
    dim = state.shape[1]
    numeric = _numeric_columns(state, encoding)
    shapes, kinds = action_shapes(actions, anchor)
    none = np.zeros(0, dtype=np.int64)
    bend_variable, bend_center, pair, cells = none, np.zeros(0), np.zeros((0, 2), int), None
    if curved:
        knots = [(j, c) for j in numeric for c in _knots(standard[:, j])]
        bend_variable = np.array([j for j, _ in knots], dtype=np.int64)
        bend_center = np.array([c for _, c in knots])
        if len(numeric) <= MAX_PAIRED:
            pairs = [(i, j) for n, i in enumerate(numeric) for j in numeric[n + 1 :]]
            pair = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        probe = Cells.of(state[:: max(1, len(state) // 5_000)])
        if len(probe) <= MAX_CELLS and len(Cells.of(state)) <= MAX_CELLS:
            cells = Cells.of(state)
    ridges = RIDGE_STEEPNESS * quasi_normal(NUM_RIDGES, dim + 1)
    bare = SmoothBasis(
        scaling,
        shapes,
        (),
        none,
        bend_variable,
        bend_center,
        pair,
        np.zeros((dim, 0)) if direction is None else direction,
        np.zeros(0) if slope is None else slope,
        ridges[:, :-1].T / np.sqrt(dim),
        ridges[:, -1],
        np.zeros((NUM_RIDGES, 0)),
        cells,
        np.zeros((dim + 1, 0)),
        np.zeros(0),
        dim + 1,
    )
    if surface:
        others = sum(
            (last - first) * sum(map(len, kinds.values()))
            for kind, first, last in _column_groups(bare, numeric, encoding)
            if kind[:5] in ("lines", "level")
        )
        room = min(SURFACE_COEFFICIENTS, MAX_COEFFICIENTS - others) // len(shapes)
        bare = replace(bare, component=_components(bare, standard, room))
    groups = _column_groups(bare, numeric, encoding)
    curves = bare._curved(state, standard)
    simple = np.concatenate([np.ones((len(state), 1)), standard], axis=1)
    # Linear parts are taken out: each term says what the simpler ones cannot.
    removed = np.linalg.lstsq(simple, curves, rcond=1e-10)[0]
    left = curves - simple @ removed
    scale = np.ones(curves.shape[1])
    for _, first, last in groups:
        if first > dim:
            at = slice(first - dim - 1, last - dim - 1)
            scale[at] = max(float(np.sqrt((left[:, at] ** 2).mean())), 1e-6)
    terms = []
    for kind, first, last in groups:
        for name, rows in kinds.items():
            if kind == "constants" and name != APART:
                continue
            if first > dim and kind != "surface" and not _bends_by(name, kinds):
                continue
            terms.append(Term(kind, first, last, rows))
    # Constants first, without a penalty: what leaving pays may be far from all else.
    group = np.repeat(np.arange(len(terms)) - 1, [term.width for term in terms])
    return replace(bare, removed=removed, scale=scale, terms=tuple(terms), group=group)


def _renumbered(group: np.ndarray) -> Int[np.ndarray, " coefficient"]:
    """The same groups as 0, 1, ..., without gaps."""
    penalised = group >= 0
    found = np.full(len(group), FREE)
    found[penalised] = np.unique(group[penalised], return_inverse=True)[1]
    return found


def _bends_by(name: str, kinds: dict[str, np.ndarray]) -> bool:
    """Whether curved columns get this kind of shape."""
    if SMOOTH in kinds:
        return name != APART
    return name == COMMON or len(kinds[APART]) < MAX_BENT_ACTIONS


def _components(basis: SmoothBasis, standard: States, room: int) -> np.ndarray:
    """Weights of the ridges' principal components, lines taken out, of total size one."""
    few = standard[:: max(1, len(standard) // SURFACE_ROWS)]
    ridges = np.tanh(few @ basis.ridge_weight + basis.ridge_bias)
    simple = np.concatenate([np.ones((len(few), 1)), few], axis=1)
    left = ridges - simple @ np.linalg.lstsq(simple, ridges, rcond=1e-10)[0]
    size, axes = np.linalg.eigh(left.T @ left / len(few))
    number = np.clip(room, MIN_COMPONENTS, MAX_COMPONENTS)
    number = min(int(number), len(standard) // 10, int((size > 1e-9 * size[-1]).sum()))
    return axes[:, ::-1][:, :number] / np.sqrt(size.sum())


def _column_groups(basis: SmoothBasis, numeric, encoding) -> list[tuple[str, int, int]]:
    """Kinds of columns with the first and last place of each."""
    dim = len(basis.scaling.center)
    groups, at = [("constants", 0, 1)], 1
    for name, width in _line_blocks(dim, encoding):
        groups.append((name, at, at + width))
        at += width
    for variable in numeric:
        width = int((basis.bend_variable == variable).sum())
        if width:
            groups.append((f"bends of {variable}", at, at + width))
            at += width
    sizes = [
        ("products", len(basis.pair)),
        ("bends along a direction", len(KNOTS) * basis.direction.shape[1]),
        ("tilts of the direction", dim if len(basis.slope) else 0),
        ("surface", basis.component.shape[1]),
        ("states", 0 if basis.cells is None else len(basis.cells)),
    ]
    for name, width in sizes:
        if width:
            groups.append((name, at, at + width))
            at += width
    return groups


def _line_blocks(dim: int, encoding: Encoding | None) -> list[tuple[str, int]]:
    """Runs of columns that share a penalty: numbers, and each category by itself."""
    if encoding is None:
        return [("lines", dim)]
    blocks: list[tuple[str, int]] = []
    for column in encoding.columns:
        width = len(column.feature_names)
        name = "lines" if column.kind != "categorical" else f"levels of {column.name}"
        if blocks and blocks[-1][0] == name:
            name, before = blocks.pop()
            width += before
        blocks.append((name, width))
    return blocks


def _numeric_columns(state: States, encoding: Encoding | None) -> list[int]:
    """Columns with at least four distinct values that are no category's indicators."""
    kinds = [True] * state.shape[1]
    if encoding is not None:
        kinds = [c.kind != "categorical" for c in encoding.columns for _ in c.feature_names]
    probe = state[:: max(1, len(state) // 5_000)]
    many = [len(np.unique(column)) >= 4 for column in probe.T]
    return [j for j in range(state.shape[1]) if kinds[j] and many[j]]


def _knots(standard: np.ndarray) -> np.ndarray:
    return np.unique(np.quantile(standard, QUANTILES).round(9))


def quasi_normal(number: int, dim: int) -> Float[np.ndarray, "point dim"]:
    """Deterministic normal draws: a Sobol sequence through the normal quantiles."""
    # A power of two points, as the sequence is balanced only then; the first is zero.
    power = max(int(np.ceil(np.log2(number + 1))), 1)
    points = qmc.Sobol(dim, scramble=False).random_base2(power)[1 : number + 1]
    return ndtri(np.clip(points, 1e-6, 1 - 1e-6))


def _bumps(along: np.ndarray) -> Float[np.ndarray, "row knot"]:
    centers = np.linspace(-2.5, 2.5, 9)
    return np.exp(-0.5 * ((np.clip(along, -3, 3)[:, None] - centers) / 0.6) ** 2)
