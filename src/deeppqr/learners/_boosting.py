"""Boosted trees for class probabilities, kept as plain arrays."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import sklearn
from jaxtyping import Bool, Float, Int, PRNGKeyArray
from scipy.special import log_softmax
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.tree import DecisionTreeClassifier
from threadpoolctl import threadpool_limits

from .._random import integer_seed, numpy_rng
from .._shapes import Codes, Mask, PerRow
from .._stored import stored
from ._masked_trees import MaskedTrees, add_trees, mask_trees
from ._trees import Nodes, Trees, sklearn_nodes

# The exported trees must reproduce scikit-learn's probabilities to TOL on CHECKED rows.
TOL, CHECKED = 1e-9, 1_000
# Trees up to which columns are compared one split at a time.
FEW_TREES = 3
# Rows times trees, in all calls so far, from which on a function is compiled: that takes
# the better part of a second, in which NumPy evaluates about as many.
COMPILED = 5_000_000
# Rows held out for early stopping where no units are: scikit-learn's default. At 0.2
# rewards on the paper world move by 0.005 of their standard deviation.
VALIDATION = 0.1


@stored
@dataclass(frozen=True, eq=False)
class BoostedTrees:
    """Gradient-boosted trees' splits and leaves, one score per class.

    Kept as arrays rather than as a scikit-learn object so that they can be stored
    without pickle and applied without trusting a file.
    """

    trees: Trees
    value: Float[np.ndarray, "tree node"]
    tree_class: Int[np.ndarray, " tree"]
    """The class whose score each tree adds to."""
    baseline: Float[np.ndarray, " class"]
    seen: Bool[np.ndarray, " class"]
    """Classes that occur in the training data; the trees score only these."""
    seen_share: float
    """Their probability in all: one, less a pseudo-observation for each of the others."""

    @classmethod
    def fit(
        cls,
        inputs: Float[np.ndarray, "row input_feature"],
        label: Codes,
        weight: PerRow,
        num_classes: int,
        *,
        key: PRNGKeyArray,
        max_leaf_nodes: int = 16,
        learning_rate: float = 0.1,
        max_iter: int = 200,
        held_out: Mask | None = None,
    ) -> "BoostedTrees":
        """Grow trees by maximum likelihood, stopped early on the rows `held_out`.

        Without a mask, a random tenth of the rows is held out.
        """
        if held_out is None:
            held_out = numpy_rng(key).random(len(label)) < VALIDATION
        learn = ~held_out & (weight > 0)
        mass = np.bincount(label[learn], weight[learn], num_classes)
        seen = mass > 0
        # One pseudo-row for each class that does not occur, so that log pi stays finite.
        seen_share = float(mass.sum() / (mass.sum() + np.sum(~seen)))
        if seen.sum() < 2:
            return _constant(seen, seen_share)
        # A held-out class that does not occur in training has no score to be judged by.
        judge = held_out & (weight > 0) & seen[label]
        even = bool(np.ptp(weight[learn | judge]) == 0)
        model = HistGradientBoostingClassifier(
            learning_rate=learning_rate,
            max_iter=max_iter,
            max_leaf_nodes=max_leaf_nodes,
            # Computing weighted quantiles takes longer than growing the trees, unless
            # there are few bins.
            max_bins=255 if even else 63,
            early_stopping=bool(judge.any()),
            random_state=integer_seed(key),
        )
        validation = {}
        if judge.any():
            validation = {"X_val": inputs[judge], "y_val": label[judge]}
            if not even:
                validation["sample_weight_val"] = weight[judge]
        # One thread: on a busy machine OpenMP's threads wait for one another at every
        # node, and two of them took four to ten times as long as one.
        with threadpool_limits(1, user_api="openmp"):
            model.fit(
                inputs[learn], label[learn], None if even else weight[learn], **validation
            )
            trees = _export(model, seen, seen_share)
            _check(trees, model, inputs[:: -(-len(inputs) // CHECKED)])
        return trees

    @classmethod
    def single(
        cls,
        inputs: Float[np.ndarray, "row input_feature"],
        label: Codes,
        weight: PerRow,
        num_classes: int,
        *,
        key: PRNGKeyArray,
        # Leaves of ten rows move rewards on the paper world (p = 2) by 0.11 of their
        # standard deviation; 800 leaves change nothing there.
        min_leaf: int = 5,
        max_leaf_nodes: int = 400,
    ) -> "BoostedTrees":
        """One tree with exact thresholds, its leaves' shares smoothed by half a row each.

        Boosting bins its inputs first, so its thresholds are edges of bins. Where a class
        begins at a sharp boundary, such as a wall, that is not accurate enough.
        """
        every = np.ones(num_classes, dtype=bool)
        model = DecisionTreeClassifier(
            criterion="log_loss",
            min_samples_leaf=min_leaf,
            max_leaf_nodes=max_leaf_nodes,
            random_state=integer_seed(key),
        ).fit(inputs, label, sample_weight=weight)
        tree = model.tree_
        mass = np.zeros((tree.node_count, num_classes))
        share = tree.value[:, 0] / tree.value[:, 0].sum(axis=1, keepdims=True)
        mass[:, model.classes_] = share * tree.weighted_n_node_samples[:, None]
        # Half a pseudo-row per class (Jeffreys' prior) bounds the log-probabilities; a
        # whole one moves rewards on the paper world by 0.05 of their standard deviation.
        value = np.log(mass + 0.5)
        # The same tree once per class, since boosted trees have one score each.
        return cls(
            Trees.pack([sklearn_nodes(tree)] * num_classes),
            np.ascontiguousarray(value.T),
            np.arange(num_classes),
            np.zeros(num_classes),
            every,
            1.0,
        )

    def log_prob(
        self, inputs: Float[np.ndarray, "row input_feature"]
    ) -> Float[np.ndarray, "row class"]:
        """Log-probabilities of all classes; each row's probabilities sum to one."""
        unseen = max(int(np.sum(~self.seen)), 1)
        with np.errstate(divide="ignore"):  # log 0 where all classes occur; it is unused
            pseudo = np.log((1 - self.seen_share) / unseen)
        log_prob = np.full((len(inputs), len(self.seen)), pseudo)
        scores = self._scores(inputs)[:, self.seen]
        log_prob[:, self.seen] = log_softmax(scores, axis=1) + np.log(self.seen_share)
        return log_prob

    def _scores(self, inputs: np.ndarray) -> np.ndarray:
        asked = self.__dict__.get("_asked", 0) + len(inputs) * len(self.trees)
        object.__setattr__(self, "_asked", asked)
        # A tree or two are quicker without a compiled function and its padding.
        few = len(self.trees) <= FEW_TREES
        if not few and asked > COMPILED and self._masked is not None:
            return add_trees(self._masked, self.baseline, inputs).T
        scores = np.tile(self.baseline[:, None], len(inputs))
        for tree, rows, value in self.trees.values(inputs, self.value):
            scores[self.tree_class[tree], rows] += value
        return scores.T

    @cached_property
    def _masked(self) -> MaskedTrees | None:
        return mask_trees(self.trees, self.value, self.tree_class, len(self.baseline))


def _constant(seen: np.ndarray, seen_share: float) -> BoostedTrees:
    """No trees: all of the seen probability on the only class there is."""
    none = np.zeros(0, dtype=np.int64)
    baseline = np.zeros(len(seen))
    return BoostedTrees(Trees.pack([]), np.zeros((0, 1)), none, baseline, seen, seen_share)


def _export(model, seen: np.ndarray, seen_share: float) -> BoostedTrees:
    grown = [tree.nodes for step in model._predictors for tree in step]
    # With two classes there is one tree a step, for the log-odds of the second.
    per_step = model.n_trees_per_iteration_
    scored = np.flatnonzero(seen)[-per_step:]
    trees = Trees.pack([_nodes(nodes) for nodes in grown])
    value = np.zeros(trees.feature.shape)
    for tree, nodes in enumerate(grown):
        value[tree, : len(nodes)] = nodes["value"]
    baseline = np.zeros(len(seen))
    baseline[scored] = np.ravel(model._baseline_prediction)
    tree_class = np.tile(scored, len(model._predictors))
    return BoostedTrees(trees, value, tree_class, baseline, seen, seen_share)


def _nodes(nodes: np.ndarray) -> Nodes:
    """The nodes of one of scikit-learn's boosted trees, a structured array."""
    feature, threshold = nodes["feature_idx"], nodes["num_threshold"]
    is_leaf = nodes["is_leaf"] == 1
    return Nodes(feature, threshold, nodes["left"], nodes["right"], is_leaf)


def _check(trees: BoostedTrees, model, inputs: np.ndarray) -> None:
    """Refuse an export that does not predict as scikit-learn does.

    The trees are read from private attributes, which another version may change.
    """
    ours = np.exp(trees.log_prob(inputs)[:, trees.seen]) / trees.seen_share
    error = np.abs(ours - model.predict_proba(inputs)).max()
    if not error < TOL:
        raise RuntimeError(
            f"The boosted trees read from scikit-learn {sklearn.__version__} must predict "
            f"as it does, but their probabilities differ by up to {error:.1e}. Install a "
            'version that is known to work, such as "scikit-learn>=1.7,<1.10", or use '
            'another estimator, such as policy="network".'
        )
