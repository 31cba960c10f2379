"""Clusters for standard errors and folds for validation: units, or blocks of rows."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy import sparse

from .._shapes import Codes, Mask, PerRow
from ._panel import Panel

# Clustered standard errors are too small with few clusters (Cameron, Gelbach and Miller
# 2008), and a variance of fewer than ten terms is itself uncertain by half its size. Below
# ten units, blocks of 50 consecutive rows serve as clusters instead, which is longer than
# most dependence within a path. Doubling `BLOCK_ROWS` leaves half as many blocks in paths
# of less than 5,000 rows; more than 50 blocks would be shorter and add little precision.
MIN_UNITS = 10
BLOCK_ROWS = 50
MAX_BLOCKS = 50


@dataclass(frozen=True, eq=False)
class Clusters:
    """A number for every row; rows of different clusters count as independent."""

    code: Codes
    count: int
    note: str

    @classmethod
    def of(cls, panel: Panel) -> "Clusters":
        """Units; or blocks of consecutive rows where there are too few of them.

        Blocks of a long stationary path are nearly independent. Rows without weight are
        in no cluster's sum and their units are not counted.
        """
        counted = panel.weight > 0
        units, code = np.unique(panel.unit[counted], return_inverse=True)
        number = len(units)
        note = f"clustered by unit ({number:,} units)"
        if number < MIN_UNITS:
            rows = int(counted.sum())
            number = int(np.clip(rows // BLOCK_ROWS, min(rows, MIN_UNITS), MAX_BLOCKS))
            code = np.arange(rows) * number // max(rows, 1)
            note = (
                f"clustered by {number} blocks of consecutive rows, since there "
                f"{'is 1 unit' if len(units) == 1 else f'are {len(units)} units'} only"
            )
        # Rows without weight get a number beyond the last cluster; `sum` skips it.
        every = np.full(len(panel), number, dtype=np.int64)
        every[counted] = code
        return cls(every, number, note)

    @classmethod
    def by_row(cls, panel: Panel) -> "Clusters":
        """Every row its own cluster: influence functions without clustering."""
        return cls(np.arange(len(panel)), len(panel), "every row for itself")

    def sum(self, rows, at: Any = slice(None)) -> Float[np.ndarray, "cluster column"]:
        """Sums over each cluster of the rows of a matrix, dense or sparse.

        The matrix has a row for each of the panel's, or for each of those in `at`.
        """
        code = self.code[at]
        kept = np.flatnonzero(code < self.count)
        shape = (self.count, len(code))
        total = sparse.csr_array((np.ones(len(kept)), (code[kept], kept)), shape) @ rows
        return total.toarray() if sparse.issparse(total) else np.asarray(total)


def clustered_covariance(
    influence: Float[np.ndarray, "cluster column"],
) -> Float[np.ndarray, "column column"]:
    r"""Covariance of an estimate from its clusters' influences $\psi_c$:
    $$\frac{C}{C-1} \sum_c (\psi_c - \bar\psi)(\psi_c - \bar\psi)'.$$
    """
    count = len(influence)
    centred = influence - influence.mean(axis=0)
    return centred.T @ centred * (count / max(count - 1, 1))


def clustered_mean(panel: Panel, values: PerRow, rows: Mask) -> tuple[float, float]:
    """The weighted mean over some rows and its standard error, clustered by unit."""
    weight = panel.weight[rows] / panel.weight[rows].sum()
    mean = float(np.sum(weight * values[rows]))
    influence = (weight * (values[rows] - mean))[:, None]
    covariance = clustered_covariance(Clusters.of(panel).sum(influence, at=rows))
    return mean, float(np.sqrt(covariance[0, 0]))


def unit_folds(panel: Panel, num_folds: int, *, rng: np.random.Generator) -> Codes:
    """The fold of each row: whole units, assigned so that folds have similar sizes.

    With fewer units than folds, rows are cut into consecutive blocks instead. Neighbours in
    time are alike, so random rows would be predicted from their own past and future.
    """
    if panel.num_units >= num_folds:
        sizes = np.bincount(panel.unit)
        shuffled = rng.permutation(panel.num_units)
        # Longest first, in turn: one long unit would else make its fold twice as large.
        by_size = shuffled[np.argsort(-sizes[shuffled], kind="stable")]
        fold_of_unit = np.empty(panel.num_units, dtype=np.int64)
        fold_of_unit[by_size] = np.arange(panel.num_units) % num_folds
        return fold_of_unit[panel.unit]
    position = np.arange(len(panel)) * num_folds // len(panel)
    return position.astype(np.int64)
