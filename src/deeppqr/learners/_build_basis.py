"""Which columns and terms a smooth basis has, for the states of a panel."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .._shapes import States
from ..panel._cells import Cells
from ..panel._encoding import Encoding
from ._action_shapes import APART, COMMON, HIGHER, SMOOTH, action_shapes
from ._ridge_logit import FREE
from ._ridges import quasi_normal
from ._scaling import Scaling
from ._smooth_basis import KNOTS, SmoothBasis, Term

# Centres of the tanh functions of one variable, as quantiles of it.
QUANTILES = (0.15, 0.5, 0.85)
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
# Constants from which on shrinking them together lowers their error whatever they are.
MIN_SHRUNK = 3
# Unordered actions up to which bends and products differ by action; beyond it they are
# common to all and only lines differ, which keeps the cost linear in the actions.
MAX_BENT_ACTIONS = 8


def smooth_basis(
    state: States,
    actions: Sequence[Any],
    anchor: int,
    encoding: Encoding | None = None,
    *,
    curved: bool = False,
    surface: int | None = 0,
    direction: np.ndarray | None = None,
    slope: np.ndarray | None = None,
    shared: bool = False,
    shapes_of: tuple[np.ndarray, dict[str, np.ndarray]] | None = None,
    higher: bool = False,
) -> SmoothBasis:
    """Constants and lines for every action; `curved`, bends and products too.

    With `shared`, constants have a part that actions share: a parabola where they are
    numbers, one level where they are four or more other labels. Not for lines, with which
    rounds begin: from a rare exit they lost their way with it.

    `shapes_of` are other shapes over the actions than those of their labels, and kinds;
    with `higher` the surface goes with the higher of them, too.

    Bends along a `direction`, with a `slope` its tilts, come in addition, and as many
    components of the surface as asked for; None for as many as there is room for.
    """
    scaling = Scaling.of(state)
    standard = scaling(state)
    dim = state.shape[1]
    numeric = _numeric_columns(state, encoding)
    shapes, kinds = shapes_of or action_shapes(actions, anchor)
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
    if surface is None:
        others = sum(
            (last - first) * sum(map(len, kinds.values()))
            for kind, first, last in _column_groups(bare, numeric, encoding)
            if kind[:5] in ("lines", "level")
        )
        room = min(SURFACE_COEFFICIENTS, MAX_COEFFICIENTS - others) // len(shapes)
        surface = int(np.clip(room, MIN_COMPONENTS, MAX_COMPONENTS))
    if surface:
        bare = replace(bare, component=_components(bare, standard, surface))
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
    of_constants = _shapes_of_constants(kinds, shared)
    terms = []
    for kind, first, last in groups:
        for name, rows in (of_constants if kind == "constants" else kinds).items():
            if kind == "constants" and name == HIGHER:
                terms.append(Term(f"levels of {HIGHER}", first, last, rows))
                continue
            both = kind == "surface" and (higher or name != HIGHER)
            if first > dim and not both and not _bends_by(name, kinds):
                continue
            terms.append(Term(kind, first, last, rows))
    # Constants have a penalty of their own: what leaving pays may be far from all else.
    # They have none where they are too few to tell its size.
    few = sum(term.width for term in terms if term.kind == "constants") < MIN_SHRUNK
    free = np.array([few and term.kind == "constants" for term in terms])
    number = np.where(free, FREE, np.cumsum(~free) - 1)
    group = np.repeat(number, [term.width for term in terms])
    return replace(bare, removed=removed, scale=scale, terms=tuple(terms), group=group)


def _shapes_of_constants(kinds: dict[str, np.ndarray], shared: bool):
    """Kinds of shapes that constants have, with their rows."""
    if APART not in kinds:
        return kinds
    # One penalty on the line and the parabola: of one coefficient it cannot be told.
    of_all = [rows for name, rows in kinds.items() if name.startswith((SMOOTH, COMMON))]
    found = {COMMON: np.concatenate(of_all)} if of_all and shared else {}
    return found | {name: kinds[name] for name in (APART, HIGHER) if name in kinds}


def _bends_by(name: str, kinds: dict[str, np.ndarray]) -> bool:
    """Whether curved columns get this kind of shape."""
    if SMOOTH in kinds:
        return name not in (APART, HIGHER)
    return name == COMMON or len(kinds[APART]) < MAX_BENT_ACTIONS


def _components(basis: SmoothBasis, standard: States, number: int) -> np.ndarray:
    """Weights of the ridges' principal components, lines taken out, of total size one."""
    few = standard[:: max(1, len(standard) // SURFACE_ROWS)]
    ridges = np.tanh(few @ basis.ridge_weight + basis.ridge_bias)
    simple = np.concatenate([np.ones((len(few), 1)), few], axis=1)
    left = ridges - simple @ np.linalg.lstsq(simple, ridges, rcond=1e-10)[0]
    size, axes = np.linalg.eigh(left.T @ left / len(few))
    number = min(number, len(standard) // 10, int((size > 1e-9 * size[-1]).sum()))
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
