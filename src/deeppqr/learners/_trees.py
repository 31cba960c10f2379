"""Trees grown by scikit-learn, kept as arrays: stored without pickle, applied by us."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from .._stored import stored
from ._chunks import row_slices

# Rows that go through the trees at once: their columns and partial results stay in the
# processor's second-level cache. Half or twice as many take as long.
CACHED_ROWS = 8_192


class Nodes(NamedTuple):
    """One tree's nodes, the root first and children after their parent."""

    feature: np.ndarray
    threshold: np.ndarray
    left: np.ndarray
    right: np.ndarray
    """Children; what stands there for a leaf is not used."""
    is_leaf: np.ndarray


@stored
@dataclass(frozen=True, eq=False)
class Trees:
    """Splits of several trees, padded to the same number of nodes."""

    feature: Int[np.ndarray, "tree node"]
    threshold: Float[np.ndarray, "tree node"]
    child: Int[np.ndarray, "tree node 2"]
    """Where values up to the threshold go, and the others; a leaf is its own child."""

    @classmethod
    def pack(cls, grown: Sequence[Nodes]) -> "Trees":
        """The arrays of some trees."""
        size = max((len(nodes.feature) for nodes in grown), default=1)
        feature = np.zeros((len(grown), size), dtype=np.int64)
        threshold = np.zeros((len(grown), size))
        child = np.tile(np.arange(size)[:, None], (len(grown), 1, 2))
        for tree, nodes in enumerate(grown):
            inner = np.flatnonzero(~nodes.is_leaf)
            feature[tree, inner] = nodes.feature[inner]
            threshold[tree, inner] = nodes.threshold[inner]
            child[tree, inner, 0] = nodes.left[inner]
            child[tree, inner, 1] = nodes.right[inner]
        return cls(feature, threshold, child)

    def __len__(self) -> int:
        return len(self.feature)

    def values(
        self, inputs: Float[np.ndarray, "row input_feature"], value: np.ndarray
    ) -> Iterator[tuple[int, slice, np.ndarray | float]]:
        """Each tree's value at some rows, `value` being that of every node.

        Each split is one comparison of a whole column, where walking down from the root
        would gather from the arrays at random.
        """
        parts = [a.tolist() for a in (self.feature, self.threshold, self.child, value)]
        for rows in row_slices(len(inputs), CACHED_ROWS):
            columns = np.ascontiguousarray(inputs[rows].T)
            for tree, arrays in enumerate(zip(*parts, strict=True)):
                yield tree, rows, _fold_up(columns, *arrays)


def sklearn_nodes(tree) -> Nodes:
    """The nodes of a fitted `sklearn.tree` estimator's `tree_`."""
    left = tree.children_left
    feature = np.maximum(tree.feature, 0)
    return Nodes(feature, tree.threshold, left, tree.children_right, left < 0)


def _fold_up(
    columns: np.ndarray, feature: list, threshold: list, child: list, value: list
) -> np.ndarray | float:
    """A tree's value in every row, from its last node up to its root."""
    below = list(value)
    for node in range(len(value) - 1, -1, -1):
        left, right = child[node]
        if left != node:
            goes_left = columns[feature[node]] <= threshold[node]
            below[node] = np.where(goes_left, below[left], below[right])
    return below[0]
