"""Evaluates sums of many small trees without descending any of them (QuickScorer).

A split sends a row to one side, which rules out the leaves of the other. Number a tree's
leaves from left to right and give each split a mask without the leaves on its left: of
the masks of all splits that send a row to the right, the lowest common bit is the row's
leaf. This takes one comparison per split and no jumps, so it compiles to vector
instructions, and to a GPU's.

References
----------
[lucchese2015quickscorer].
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, UInt32

from ._chunks import in_compiled_chunks
from ._trees import Trees

MAX_LEAVES = 32  # the bits of a uint32; larger trees are evaluated by NumPy instead
EVERY = np.uint32(0xFFFFFFFF)  # the mask of all leaves
# Arrays are padded to 15 or 31 splits and to multiples of 16 trees, so that few shapes are
# compiled. Padding costs time in proportion and changes no result.
SPLITS = (15, 31)
TREES = 16


class MaskedTrees(NamedTuple):
    """Trees as masks of leaves; splits and trees that pad the arrays change nothing."""

    feature: Int[np.ndarray, "score tree split"]
    threshold: Float[np.ndarray, "score tree split"]
    mask: UInt32[np.ndarray, "score tree split"]
    """The leaves that are left to a row above the threshold."""
    value: Float[np.ndarray, "score tree leaf"]


def mask_trees(
    trees: Trees,
    value: Float[np.ndarray, "tree node"],
    scored: Int[np.ndarray, " tree"],
    num_scores: int,
) -> MaskedTrees | None:
    """The same trees as masks, or None if one has too many leaves.

    Children come after their parent; a leaf is its own child.
    """
    feature, threshold, child = trees.feature, trees.threshold, trees.child
    tree, node = np.arange(len(trees))[:, None], np.arange(feature.shape[1])
    left, right = child[:, :, 0], child[:, :, 1]
    is_leaf = left == node
    leaves, first = _number_leaves(left, right, is_leaf)
    if leaves[:, :1].max(initial=1) > MAX_LEAVES:
        return None
    splits, ends = ~is_leaf & (first >= 0), is_leaf & (first >= 0)
    ruled_out = ((1 << leaves[tree, left]) - 1) << np.maximum(first, 0)
    mask = np.where(splits, EVERY & ~ruled_out.astype(np.uint32), EVERY)
    of_leaf = np.zeros((len(feature), MAX_LEAVES))
    of_leaf[np.nonzero(ends)[0], first[ends]] = value[ends]
    order = np.argsort(~splits, axis=1, kind="stable")  # splits first
    width = next(width for width in SPLITS if splits.sum(axis=1).max(initial=0) <= width)
    order = np.pad(order, [(0, 0), (0, max(0, width - len(node)))], mode="edge")[:, :width]
    most = np.bincount(scored, minlength=num_scores).max(initial=1)
    places = np.full((num_scores, -(-most // TREES) * TREES), -1)
    for score in range(num_scores):
        own = np.flatnonzero(scored == score)
        places[score, : len(own)] = own

    def arranged(array: np.ndarray, padding) -> np.ndarray:
        """By score; -1 picks the row of padding at the end."""
        last = np.full((1, *array.shape[1:]), padding, array.dtype)
        return np.concatenate([array, last])[places]

    of_split = lambda array: np.take_along_axis(array, order, axis=1)
    return MaskedTrees(
        arranged(of_split(feature).astype(np.int32), 0),
        arranged(of_split(threshold), 0.0),
        arranged(of_split(mask), EVERY),
        arranged(of_leaf, 0.0),
    )


def _number_leaves(left, right, is_leaf) -> tuple[np.ndarray, np.ndarray]:
    """How many leaves are below each node, and the number of the first of them.

    Leaves are numbered from left to right; a node that cannot be reached has no first.
    """
    tree, leaves = np.arange(len(left)), np.ones(left.shape, dtype=np.int64)
    first = np.full(left.shape, -1)
    first[:, 0] = 0
    for node in reversed(range(left.shape[1])):
        below = leaves[tree, left[:, node]] + leaves[tree, right[:, node]]
        leaves[:, node] = np.where(is_leaf[:, node], 1, below)
    for node in range(left.shape[1]):
        inner = np.flatnonzero(~is_leaf[:, node] & (first[:, node] >= 0))
        to_left = left[inner, node]
        first[inner, to_left] = first[inner, node]
        first[inner, right[inner, node]] = first[inner, node] + leaves[inner, to_left]
    return leaves, first


def add_trees(
    trees: MaskedTrees,
    start: Float[np.ndarray, " score"],
    inputs: Float[np.ndarray, "row input_feature"],
) -> Float[np.ndarray, "score row"]:
    """The trees' values added to where each score starts, in double precision."""
    with jax.enable_x64(True):
        return in_compiled_chunks(partial(_add_trees, trees, start), inputs)


@jax.jit
def _add_trees(trees: MaskedTrees, start: Array, inputs: Array) -> Array:
    columns = inputs.T

    def add_tree(score: Array, tree: MaskedTrees) -> tuple[Array, None]:
        goes_left = columns[tree.feature] <= tree.threshold[:, None]
        possible = jnp.where(goes_left, EVERY, tree.mask[:, None])
        left_over = jax.lax.reduce(possible, EVERY, jax.lax.bitwise_and, (0,))
        leaf = jax.lax.population_count(~left_over & (left_over - 1))  # its lowest bit
        return score + tree.value[leaf], None

    def add_all(of_score: tuple[Array, MaskedTrees]) -> Array:
        first, own = of_score
        return jax.lax.scan(add_tree, jnp.full(len(inputs), first), own)[0]

    return jax.lax.map(add_all, (start, trees))
