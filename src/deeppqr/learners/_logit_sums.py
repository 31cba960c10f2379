r"""The derivatives of a multinomial logit on smooth terms, summed without its design.

Q changes with the coefficients of a basis by
$$Z_{ia} = \psi(s_i,a) + W'\phi_{ia}, \qquad \psi_{cq}(s,a) = x_c(s)\,\sigma_q(a),$$
columns of the state times shapes over the actions, and a linear map of columns $\phi$ that
may be anything. Under choice probabilities $\pi$ the information of two such products is
$\sum_i w_i\, x_c x_{c'}\, \mathrm{cov}_\pi(\sigma_q, \sigma_{q'})$: the actions are summed
over in one number for each row, which makes it as many times cheaper as there are actions.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from .._shapes import Codes, PerAction, PerRow
from ._chunks import row_slices
from ._row_threads import sum_over_blocks

# Numbers in the columns of a block of rows: 24 MB in float32. Twice or half as many take as
# long.
BLOCK_NUMBERS = 6_000_000
# Rows whose products of columns are held at once: 1 MB for 33 columns, which a core's
# cache holds.
PAIR_ROWS = 512


@dataclass(frozen=True, eq=False)
class LogitSums:
    """Gradient and information by the basis' own products and by the other columns."""

    own: Float[np.ndarray, " coefficient"]
    other: Float[np.ndarray, " column"]
    own_own: Float[np.ndarray, "coefficient coefficient"]
    own_other: Float[np.ndarray, "coefficient column"]
    other_other: Float[np.ndarray, "column column"]

    def through(self, weight: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Gradient and information of the coefficients, W being these weights."""
        gradient, information = self.own, self.own_own
        if weight is not None:
            cross = self.own_other @ weight
            gradient = gradient + weight.T @ self.other
            information = information + cross + cross.T
            information = information + weight.T @ self.other_other @ weight
        # Keeps it regular in directions on which no choice depends.
        ridge = 1e-6 * np.diag(information).max(initial=1.0)
        return gradient, information + ridge * np.eye(len(gradient))


def logit_sums(
    basis: Any,
    columns: Float[np.ndarray, "row column"],
    prob: PerAction,
    action: Codes,
    weight: PerRow,
    *,
    other: Float[np.ndarray, "action row other"] | None = None,
    carried: np.ndarray | None = None,
) -> LogitSums:
    """The sums over these rows; `other` are the columns phi of every action.

    With weights `carried`, phi is multiplied with them in each row: the cheaper way round
    where coefficients are fewer than columns.
    """
    number, width = prob.shape[1], len(basis)
    given = 0 if basis.products else width
    single = np.float32 if other is None else other.dtype
    light = None if carried is None else carried.astype(single)
    wide = 0 if other is None else other.shape[2]
    dense = given + (wide if carried is None else carried.shape[1])
    # Columns that are nearly collinear have large weights of opposite signs, which multiply
    # the rounding of these sums twice.
    precise = single if carried is not None or other is None else np.float64
    layout = _Layout.of(basis.products)

    def block(rows: slice) -> tuple[np.ndarray, ...]:
        mass, share, chosen = weight[rows], prob[rows], action[rows]
        z = _centred(basis, columns[rows], other, rows, share, light).astype(precise)
        weighted = mass[:, None] * share
        residual = -weighted
        residual[np.arange(len(chosen)), chosen] += mass
        own = columns[rows].astype(single)
        scale = weighted.T.astype(precise)[:, :, None]
        # The gradient in float64: it alone says where a step ends, and its sums in float32
        # would depend on where blocks of rows begin.
        taken = mass @ z[chosen, np.arange(len(chosen))].astype(np.float64)
        crossed = layout.crossed(own, z, scale)
        z *= np.sqrt(scale)
        flat = z.reshape(number * len(mass), dense)
        sums = layout.sums(columns[rows], own, residual, weighted, share)
        return (*sums, crossed, taken, flat.T @ flat)

    size = max(256, BLOCK_NUMBERS // (number * dense + 2 * width + 1))
    # Even blocks, at least two: each of two threads has one.
    size = max(256, -(-len(action) // max(2, -(-len(action) // size))))
    sums = sum_over_blocks(block, row_slices(len(action), size))
    own, own_own, crossed, by_dense, dense_dense = sums
    if given == 0:
        own, own_own, crossed = layout.in_order(width, own, own_own, crossed)
        return LogitSums(own, by_dense, own_own, crossed, dense_dense)
    at, rest = slice(0, given), slice(given, None)
    return LogitSums(
        by_dense[at],
        by_dense[rest],
        dense_dense[at, at],
        dense_dense[at, rest],
        dense_dense[rest, rest],
    )


class _Group(NamedTuple):
    """Shapes that are multiplied with the same columns, one shape's after another's."""

    shapes: Float[np.ndarray, "shape action"]
    column: Int[np.ndarray, " column"]
    at: slice
    """Their products among all."""

    @property
    def pairs_up(self) -> bool:
        """Whether products of columns are fewer than columns times pairs of shapes."""
        width, number = len(self.column), len(self.shapes)
        return width + 1 < number * (number + 1)


class _Layout(NamedTuple):
    """The products, ordered by their columns, then by their shapes."""

    groups: list[_Group]
    coefficient: Int[np.ndarray, " place"]

    @classmethod
    def of(cls, products: list) -> "_Layout":
        by_columns: dict[tuple, list] = {}
        for part in products:
            by_columns.setdefault(tuple(part.column), []).append(part)
        groups, at = [], 0
        for parts in by_columns.values():
            first, column = at, parts[0].column
            at += len(column) * len(parts)
            groups.append(
                _Group(np.array([part.shape for part in parts]), column, slice(first, at))
            )
        order = [part.coefficient for parts in by_columns.values() for part in parts]
        return cls(groups, np.concatenate([np.zeros(0, dtype=np.int64), *order]))

    def sums(self, exact: np.ndarray, columns: np.ndarray, residual, weighted, share):
        """A block's gradient, and its information above the groups' diagonal, of columns
        before and after they were rounded."""
        width = len(self.coefficient)
        gradient = np.zeros(width)
        information = np.zeros((width, width), columns.dtype)
        own = [columns[:, group.column] for group in self.groups]
        # Covariances of shapes under the policy: with one of them centred the other need
        # not be.
        centred = [
            [weighted * (shape - (share @ shape)[:, None]) for shape in group.shapes]
            for group in self.groups
        ]
        covariance = lambda left, group: (left @ group.shapes.T).astype(columns.dtype)
        for place, (one, x) in enumerate(zip(self.groups, own, strict=True)):
            taken = exact[:, one.column].T @ (residual @ one.shapes.T)
            gradient[one.at] = taken.T.ravel()
            within = [covariance(left, one) for left in centred[place]]
            fill = _by_pairs if one.pairs_up else _by_shapes
            information[one.at, one.at] = fill(x, within)
            for after in range(place + 1, len(self.groups)):
                other, y = self.groups[after], own[after]
                if x.shape[1] <= y.shape[1]:  # the narrower of the two is copied
                    for number, left in enumerate(centred[after]):
                        found = _times(x, covariance(left, one)).T @ y
                        at = other.at.start + number * y.shape[1]
                        information[one.at, at : at + y.shape[1]] = found
                else:
                    for number, left in enumerate(centred[place]):
                        found = x.T @ _times(y, covariance(left, other))
                        at = one.at.start + number * x.shape[1]
                        information[at : at + x.shape[1], other.at] = found
        return gradient, information

    def crossed(self, columns: np.ndarray, z: np.ndarray, weighted) -> np.ndarray:
        """A block's information of products with other columns, which are centred."""
        found = np.zeros((len(self.coefficient), z.shape[2]), z.dtype)
        if z.shape[2] == 0:
            return found
        for group in self.groups:
            own = columns[:, group.column].astype(z.dtype)
            for number, shape in enumerate(group.shapes):
                at = group.at.start + number * own.shape[1]
                # Other columns have a mean of zero: a constant less in the shape changes
                # nothing, and leaves fewer actions.
                value, count = np.unique(shape, return_counts=True)
                shape = shape - value[count.argmax()]
                acts = np.flatnonzero(shape)
                if len(acts) == 1:  # the narrower one is scaled
                    left, right = own * (shape[acts[0]] * weighted[acts[0]]), z[acts[0]]
                else:
                    part = shape[acts, None] * weighted[acts, :, 0]
                    left, right = own, _mixed(part, z, acts)
                found[at : at + own.shape[1]] = left.T @ right
        return found

    def in_order(self, width: int, gradient, information, crossed):
        """Gradient and information with the coefficients in the order of the basis."""
        for group in self.groups:
            at = group.at
            information[at.stop :, at] = information[at, at.stop :].T
        place = np.empty(width, dtype=np.int64)
        place[self.coefficient] = np.arange(width)
        information = information[np.ix_(place, place)]
        return gradient[place], (information + information.T) / 2, crossed[place]


def _mixed(part: np.ndarray, z: np.ndarray, acts: np.ndarray) -> np.ndarray:
    """sum_a part_a z_a over some actions, without a copy of their columns."""
    whole = np.zeros((len(z), z.shape[1]), z.dtype)
    whole[acts] = part
    return np.einsum("ar,ark->rk", whole, z)


def _times(columns: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Columns times several weights of the rows, one weight's after another's."""
    found = weight[:, :, None] * columns[:, None, :]
    return found.reshape(len(columns), -1)


def _by_pairs(x: np.ndarray, covariance: list[np.ndarray]) -> np.ndarray:
    """sum x x' cov(q, q'), by one product of all x x' with all cov(q, q').

    With 24 shapes and 33 columns a third of the time of one pair of shapes at a time.
    """
    width, number = x.shape[1], len(covariance)
    one, other = np.triu_indices(width)
    first, second = np.triu_indices(number)
    spread = np.concatenate([part[:, q:] for q, part in enumerate(covariance)], axis=1)
    total = np.zeros((len(one), len(first)), x.dtype)
    for rows in row_slices(len(x), PAIR_ROWS):
        total += (x[rows, one] * x[rows, other]).T @ spread[rows]
    found = np.empty((number, width, number, width), x.dtype)
    found[first[:, None], one, second[:, None], other] = total.T
    found[first[:, None], other, second[:, None], one] = total.T
    found[second[:, None], one, first[:, None], other] = total.T
    found[second[:, None], other, first[:, None], one] = total.T
    return found.reshape(number * width, number * width)


def _by_shapes(x: np.ndarray, covariance: list[np.ndarray]) -> np.ndarray:
    """The same, one shape at a time: for many columns."""
    width, number = x.shape[1], len(covariance)
    found = np.empty((number * width, number * width), x.dtype)
    for q, part in enumerate(covariance):
        at, after = slice(q * width, (q + 1) * width), slice(q * width, None)
        found[at, after] = x.T @ _times(x, part[:, q:])
        found[after, at] = found[at, after].T
    return found


def choice_scores(
    basis: Any,
    columns: Float[np.ndarray, "row column"],
    prob: PerAction,
    action: Codes,
    *,
    other: Float[np.ndarray, "action row other"] | None = None,
    weight: np.ndarray | None = None,
) -> Iterator[tuple[slice, Float[np.ndarray, "row coefficient"]]]:
    """Blocks of rows with Z of the action taken, less its mean over `prob`."""
    width = len(basis)
    size = max(256, BLOCK_NUMBERS // (width + 1))
    single = np.float32 if other is None else other.dtype
    light = None if weight is None else weight.astype(single)
    for rows in row_slices(len(action), size):
        share, chosen = prob[rows], action[rows]
        found = np.zeros((len(chosen), width), single)
        for part in basis.products:
            shape = part.shape[chosen] - share @ part.shape
            found[:, part.coefficient] = columns[rows][:, part.column] * shape[:, None]
        taken = _taken(basis, columns[rows], other, rows, share, chosen)
        given = 0 if basis.products else width
        found[:, :given] += taken[:, :given]
        if light is not None:
            found += taken[:, given:] @ light
        yield rows, found


def _taken(basis, columns, other, rows: slice, share, chosen) -> np.ndarray:
    """The columns that are no products, of the actions taken, less their means."""
    parts = [] if other is None else [other[:, rows]]
    if not basis.products:
        parts.insert(0, basis.by_action(columns))
    found, every = [], np.arange(len(chosen))
    for part in parts:
        mean = np.zeros(part.shape[1:], part.dtype)
        for one, columns_of_one in enumerate(part):
            mean += share[:, one, None].astype(part.dtype) * columns_of_one
        found.append(part[chosen, every] - mean)
    return np.concatenate(found, axis=1) if found else np.zeros((len(chosen), 0))


def _centred(basis, columns, other, rows: slice, share, carried=None) -> np.ndarray:
    """The columns that are no products, less their mean over the actions.

    Centred before anything is summed: the difference of two large sums would not be
    definite.
    """
    parts = [] if other is None else [other[:, rows]]
    if carried is not None:
        parts = [part @ carried for part in parts]
    if not basis.products:
        parts.insert(
            0, basis.by_action(columns).astype(np.float32 if other is None else other.dtype)
        )
    if not parts:
        return np.zeros((share.shape[1], len(share), 0), np.float32)
    fresh = len(parts) > 1 or carried is not None or other is None
    z = np.concatenate(parts, axis=2) if len(parts) > 1 else parts[0]
    z = z if fresh else z.copy()
    mean = np.zeros(z.shape[1:], z.dtype)
    for one, part in enumerate(z):
        mean += share[:, one, None].astype(z.dtype) * part
    z -= mean
    return z
