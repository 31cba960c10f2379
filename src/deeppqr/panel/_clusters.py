"""Clusters for standard errors: units, or blocks of rows where units are few."""

from dataclasses import dataclass

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

    def sum(self, rows) -> Float[np.ndarray, "cluster column"]:
        """Sums over each cluster of the rows of a matrix, dense or sparse."""
        kept = np.flatnonzero(self.code < self.count)
        pairs = (self.code[kept], kept)
        shape = (self.count, len(self.code))
        # A product with the membership matrix works for dense and sparse rows alike.
        total = sparse.csr_array((np.ones(len(kept)), pairs), shape=shape) @ rows
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
    influence = np.zeros((len(panel), 1))
    influence[rows, 0] = weight * (values[rows] - mean)
    covariance = clustered_covariance(Clusters.of(panel).sum(influence))
    return mean, float(np.sqrt(covariance[0, 0]))
