"""The anchor's equation solved with an averager: nearest neighbours.

If h(s) is an average of observed targets with weights that do not depend on them, the
equation for the targets, y = bonus' + discount W y, has a row-stochastic W. It is a
contraction for any data and cannot diverge, as least squares can; the price is the bias
of smoothing.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Int
from scipy.sparse.linalg import LinearOperator, gmres
from scipy.spatial import cKDTree

from .._shapes import Codes
from .._stored import stored
from ..learners._scaling import Scaling
from ..panel._cells import Cells
from ._problem import (
    AbstractAnchorSolver,
    AbstractStateFunction,
    AnchorProblem,
    AnchorSolution,
)


@dataclass(frozen=True)
class Averager(AbstractAnchorSolver):
    """The direct solution with h the mean over the nearest anchor rows.

    `neighbours` is how many rows are averaged, nearest in standardised states.
    """

    # Twenty rows average noise without much bias; with 40 of 46 anchor rows (paper world,
    # p = 2, 1,500 decisions) rewards move by 0.5 of their standard deviation.
    neighbours: int = 20
    tol: float = 1e-10

    def solve(self, problem: AnchorProblem, *, key) -> AnchorSolution:
        bonus = problem.next_bonus()
        shape = Neighbours.grow(problem.state, min(self.neighbours, len(bonus)))
        follows = ~problem.ends
        where = shape.locate(problem.next_state[follows])

        def continuation(target: np.ndarray) -> np.ndarray:
            ahead = np.zeros(len(target))
            ahead[follows] = shape.average(shape.pool(target, problem.weight), where)
            return ahead

        operator = LinearOperator(
            (len(bonus), len(bonus)),
            matvec=lambda y: y.ravel() - problem.discount * continuation(y.ravel()),
            dtype=np.float64,
        )
        # GMRES and not LU: W has neighbours times rows entries, its LU factors far more.
        target, _ = gmres(operator, bonus, rtol=self.tol, restart=100, maxiter=50)
        residual = np.abs(bonus + problem.discount * continuation(target) - target).max()
        return AnchorSolution(
            AveragerFunction(shape, shape.pool(target, problem.weight)),
            residual=float(residual),
            condition=(1 + problem.discount) / (1 - problem.discount),
            note=f"neighbours average of {len(bonus):,} anchor rows",
            missing=float(residual / (1 - problem.discount)),
        )


@stored
@dataclass(frozen=True, eq=False)
class Neighbours:
    """Nearest neighbours in standardised states; every distinct state is a node.

    The nearest nodes are averaged until they hold `number` rows: that many rows where
    states are continuous, a state's own rows where it repeats often enough.
    """

    cells: Cells
    scaling: Scaling
    rows: Codes
    """The node of each training row."""
    number: int

    @classmethod
    def grow(cls, state: np.ndarray, number: int) -> "Neighbours":
        cells = Cells.of(state)
        return cls(cells, Scaling.of(state), cells.locate(state), number)

    @cached_property
    def _tree(self) -> cKDTree:
        """Grown once, at the first query; it is not stored."""
        return cKDTree(self.scaling(self.cells.states))

    def locate(self, state: np.ndarray) -> Int[np.ndarray, "row neighbour"]:
        """The nodes to average, nearest first; -1 fills the places not needed."""
        most = min(self.number, len(self.cells))
        # On one thread: a worker process is promised one core, and SciPy's threads would
        # take them all, whatever limits BLAS and OpenMP were given.
        _, nodes = self._tree.query(self.scaling(state), k=[*range(1, most + 1)])
        # Nodes until they hold enough rows; one node may hold many equal states.
        size = np.bincount(self.rows, minlength=len(self.cells))[nodes]
        needed = np.cumsum(size, axis=1) - size < self.number
        return np.where(needed, nodes, -1)

    def pool(self, target: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Each node's weighted sum and weight; the last, empty one serves -1."""
        num_nodes = len(self.cells) + 1
        total = np.bincount(self.rows, target * weight, num_nodes)
        return np.stack([total, np.bincount(self.rows, weight, num_nodes)])

    def average(self, pooled: np.ndarray, where: np.ndarray) -> np.ndarray:
        mass = pooled[1][where].sum(axis=1)
        return pooled[0][where].sum(axis=1) / np.where(mass > 0, mass, 1.0)


@stored
@dataclass(frozen=True, eq=False)
class AveragerFunction(AbstractStateFunction):
    """The average, at any state, of the solved targets."""

    shape: Neighbours
    pooled: np.ndarray

    def __call__(self, state, log_prob):
        return self.shape.average(self.pooled, self.shape.locate(state))
