"""The anchor's equation solved with averagers: nearest neighbours or a fixed forest.

If h(s) is an average of observed targets with weights that do not depend on them, the
equation for the targets, y = bonus' + discount W y, has a row-stochastic W. It is a
contraction for any data and cannot diverge, as least squares can; the price is the bias
of smoothing.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse.linalg import LinearOperator, gmres
from scipy.spatial import cKDTree

from .._errors import DataError
from .._random import integer_seed
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
    """The direct solution with averaging weights fixed beforehand.

    Parameters
    ----------
    weights
        `"neighbours"`: the mean of the nearest anchor rows in standardised states.
        `"forest"`: the mean over a random forest's leaves; the forest is grown once, on
        the first step's targets, and frozen.
    neighbours, trees, min_leaf
        Sizes: rows averaged, trees grown, smallest number of rows in a leaf.
    """

    weights: str = "neighbours"
    # Twenty rows average noise without much bias; with 40 of 46 anchor rows (paper world,
    # p = 2, 1,500 decisions) rewards move by 0.5 of their standard deviation. Twice the
    # trees change nothing there, and the forest is a single leaf with 46 rows.
    neighbours: int = 20
    trees: int = 50
    min_leaf: int = 20
    tol: float = 1e-10

    def solve(self, problem: AnchorProblem, *, key) -> AnchorSolution:
        bonus = problem.next_bonus()
        shape = self._grow(problem, bonus, key)
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
            note=f"{self.weights} average of {len(bonus):,} anchor rows",
            missing=float(residual / (1 - problem.discount)),
        )

    def _grow(self, problem: AnchorProblem, bonus: np.ndarray, key):
        if self.weights == "neighbours":
            return Neighbours.grow(problem.state, min(self.neighbours, len(bonus)))
        if self.weights == "forest":
            return Forest.grow(
                problem.state, bonus, problem.weight, self.trees, self.min_leaf, key
            )
        raise DataError(
            f'`weights` must be "neighbours" or "forest", but {self.weights!r} arrived.'
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
    rows: Int[np.ndarray, " row"]
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
class Forest:
    """A forest's splits as plain arrays; every leaf is a node.

    Kept as arrays rather than as a scikit-learn object so that it can be stored without
    pickle and applied without trusting a file.
    """

    feature: Int[np.ndarray, "tree node"]
    threshold: Float[np.ndarray, "tree node"]
    child: Int[np.ndarray, "tree node 2"]
    """Left and right child; a leaf is its own child."""
    depth: int
    rows: Int[np.ndarray, "row tree"]
    """The leaf of each training row, as an index into all trees' nodes."""

    @classmethod
    def grow(cls, state, target, weight, trees: int, min_leaf: int, key):
        from sklearn.ensemble import RandomForestRegressor

        forest = RandomForestRegressor(
            trees,
            min_samples_leaf=min_leaf,
            max_features=0.5,  # decorrelates the trees; half of the columns at each split
            random_state=integer_seed(key),
        ).fit(state, target, sample_weight=weight)
        grown = [estimator.tree_ for estimator in forest.estimators_]
        size = max(tree.node_count for tree in grown)
        feature = np.zeros((trees, size), dtype=np.int64)
        threshold = np.zeros((trees, size))
        child = np.tile(np.arange(size)[:, None], (trees, 1, 2))
        for index, tree in enumerate(grown):
            inner = np.flatnonzero(tree.children_left >= 0)
            feature[index, inner] = tree.feature[inner]
            threshold[index, inner] = tree.threshold[inner]
            child[index, inner, 0] = tree.children_left[inner]
            child[index, inner, 1] = tree.children_right[inner]
        depth = max(tree.max_depth for tree in grown)
        bare = cls(feature, threshold, child, depth, np.zeros((0, trees), np.int64))
        return cls(feature, threshold, child, depth, bare.locate(state))

    def locate(self, state: np.ndarray) -> Int[np.ndarray, "row tree"]:
        # scikit-learn grows its trees on float32, and a float64 near a threshold would go
        # the other way.
        values = state.astype(np.float32)
        rows = np.arange(len(state))
        leaves = np.empty((len(state), len(self.feature)), dtype=np.int64)
        for tree in range(len(self.feature)):
            node = np.zeros(len(state), dtype=np.int64)
            for _ in range(self.depth):
                split = self.feature[tree, node]
                right = values[rows, split] > self.threshold[tree, node]
                node = self.child[tree, node, right.astype(np.int64)]
            leaves[:, tree] = node + tree * self.feature.shape[1]
        return leaves

    def pool(self, target: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """The weighted mean of the targets in each leaf."""
        leaf = self.rows.ravel()
        trees = self.rows.shape[1]
        total = np.bincount(leaf, np.repeat(target * weight, trees), self.feature.size)
        mass = np.bincount(leaf, np.repeat(weight, trees), self.feature.size)
        return total / np.where(mass > 0, mass, 1.0)

    def average(self, pooled: np.ndarray, where: np.ndarray) -> np.ndarray:
        return pooled[where].mean(axis=1)


@stored
@dataclass(frozen=True, eq=False)
class AveragerFunction(AbstractStateFunction):
    """The average, at any state, of the solved targets."""

    shape: Neighbours | Forest
    pooled: np.ndarray

    def __call__(self, state, log_prob):
        del log_prob
        return self.shape.average(self.pooled, self.shape.locate(state))
