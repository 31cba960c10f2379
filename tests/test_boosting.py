"""Boosted trees as arrays predict as scikit-learn's do, and know what they never saw."""

import jax.random as jr
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import HistGradientBoostingClassifier

from deeppqr.learners import _boosting
from deeppqr.learners._boosting import BoostedTrees
from deeppqr.learners._masked_trees import add_trees, mask_trees
from deeppqr.learners._trees import Trees


def draw(num_classes, num_rows=2_000, seed=0):
    """Inputs and labels whose odds step and bend."""
    rng = np.random.default_rng(seed)
    inputs = rng.normal(size=(num_rows, 4))
    scores = np.arange(num_classes) * (inputs[:, :1] > 0.3) + inputs[:, 1:2] ** 2
    scores = scores * np.linspace(-1, 1, num_classes)
    label = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
    return inputs, label, np.ones(num_rows)


@pytest.mark.parametrize("num_classes", [2, 3, 5])
@pytest.mark.parametrize("weighted", [False, True])
def test_arrays_predict_as_scikit_learn(num_classes, weighted, monkeypatch, key):
    """Everywhere, not only at the rows the fit itself checks."""
    inputs, label, weight = draw(num_classes)
    if weighted:
        weight = 0.5 + np.random.default_rng(1).random(len(label))
    models = []
    fit = HistGradientBoostingClassifier.fit

    def remember(self, *args, **kwargs):
        models.append(self)
        return fit(self, *args, **kwargs)

    monkeypatch.setattr(HistGradientBoostingClassifier, "fit", remember)
    trees = BoostedTrees.fit(inputs, label, weight, num_classes, key=key, max_iter=30)
    elsewhere = 3 * np.random.default_rng(2).normal(size=(20_000, 4))
    for where in (inputs, elsewhere):
        found = np.exp(trees.log_prob(where))
        np.testing.assert_allclose(found, models[0].predict_proba(where), atol=1e-12)


def test_ties_with_a_threshold_go_left(key):
    """The next number after it, in float64, does not."""
    inputs, _, weight = draw(2)
    label = (inputs[:, 0] > 0.3).astype(int)
    trees = BoostedTrees.fit(inputs, label, weight, 2, key=key, max_iter=5)
    edge = trees.trees.threshold[0, 0]
    at, above = (
        trees.log_prob(np.array([[x, 0.0, 0.0, 0.0]]))[0, 1]
        for x in (edge, np.nextafter(edge, 9))
    )
    assert at < above


def test_an_export_that_predicts_otherwise_is_refused(monkeypatch, key):
    export = _boosting._export

    def wrong(*args):
        trees = export(*args)
        trees.baseline[0] += 1e-6
        return trees

    monkeypatch.setattr(_boosting, "_export", wrong)
    with pytest.raises(RuntimeError, match=r"read from scikit-learn \d.* differ by up to"):
        BoostedTrees.fit(*draw(3), 3, key=key, max_iter=5)


@pytest.mark.parametrize("present", [[0, 2], [1, 2, 4]])
def test_classes_never_seen_get_one_pseudo_observation(present, key):
    inputs, label, weight = draw(len(present))
    held_out = np.arange(len(label)) % 5 == 0
    label = np.array(present)[label]
    trees = BoostedTrees.fit(
        inputs, label, weight, 5, key=key, max_iter=20, held_out=held_out
    )
    prob = np.exp(trees.log_prob(inputs))
    np.testing.assert_allclose(prob.sum(axis=1), 1, atol=1e-12)
    absent = [c for c in range(5) if c not in present]
    learned = np.sum(~held_out)
    np.testing.assert_allclose(prob[:, absent], 1 / (learned + len(absent)))


def test_a_class_among_the_held_out_only(key):
    inputs, label, weight = draw(2)
    held_out = np.arange(len(label)) < 400
    label[0] = 2
    trees = BoostedTrees.fit(
        inputs, label, weight, 3, key=key, max_iter=5, held_out=held_out
    )
    np.testing.assert_allclose(np.exp(trees.log_prob(inputs)[:, 2]), 1 / 1_601)


def test_one_class_is_a_constant(key):
    inputs, label, weight = draw(2, 100)
    held_out = np.arange(100) < 20
    trees = BoostedTrees.fit(inputs, 0 * label + 1, weight, 2, key=key, held_out=held_out)
    expected = np.tile([1 / 81, 80 / 81], (100, 1))
    np.testing.assert_allclose(np.exp(trees.log_prob(inputs)), expected)
    alone = BoostedTrees.fit(inputs, 0 * label, weight, 1, key=key)
    np.testing.assert_array_equal(alone.log_prob(inputs), np.zeros((100, 1)))


def test_held_out_rows_teach_nothing(key):
    """Their labels decide when to stop; before that, trees are the same."""
    inputs, label, weight = draw(2)
    held_out = np.arange(len(label)) % 4 == 0
    other = np.where(held_out, 1 - label, label)
    one, two = (
        BoostedTrees.fit(inputs, y, weight, 2, key=key, held_out=held_out, max_iter=5)
        for y in (label, other)
    )
    np.testing.assert_array_equal(one.value, two.value)


def test_weightless_rows_are_not_there(key):
    inputs, label, weight = draw(3)
    held_out = np.arange(len(label)) % 4 == 0
    out = label == 2
    none = BoostedTrees.fit(
        inputs, label, np.where(out, 0.0, weight), 3, key=key, held_out=held_out
    )
    gone = BoostedTrees.fit(
        inputs[~out], label[~out], weight[~out], 3, key=key, held_out=held_out[~out]
    )
    np.testing.assert_allclose(none.log_prob(inputs), gone.log_prob(inputs))


def test_same_key_same_trees():
    data = draw(3)
    one, two, other = (
        BoostedTrees.fit(*data, 3, key=jr.key(seed), max_iter=30) for seed in (0, 0, 1)
    )
    inputs = data[0]
    np.testing.assert_array_equal(one.log_prob(inputs), two.log_prob(inputs))
    assert np.abs(one.log_prob(inputs) - other.log_prob(inputs)).max() > 0


@settings(deadline=None, max_examples=40)  # a new number of trees is compiled for
@given(st.integers(0, 2**32 - 1), st.integers(2, 32), st.sampled_from([1, 3]))
def test_masks_of_leaves_lead_where_splits_do(seed, max_leaves, num_scores):
    """Random trees of every shape, to the last bit, ties with thresholds included."""
    rng = np.random.default_rng(seed)
    trees = grow_at_random(rng, 20, max_leaves, num_scores)
    inputs = rng.integers(0, 10, size=(300, 4)) / 2
    masked = mask_trees(trees.trees, trees.value, trees.tree_class, num_scores)
    assert masked is not None
    expected = np.tile(trees.baseline[:, None], len(inputs))
    parts = (*arrays(trees), trees.value)
    for scored, *tree in zip(trees.tree_class, *parts, strict=True):
        for row, values in enumerate(inputs):
            expected[scored, row] += walk(values, *tree)
    np.testing.assert_array_equal(add_trees(masked, trees.baseline, inputs), expected)


def test_a_tree_with_more_leaves_than_bits_is_walked(key):
    rng = np.random.default_rng(0)
    trees = grow_at_random(rng, 3, 33, 1)
    inputs = rng.normal(size=(50, 4))
    assert trees._masked is None
    parts = (*arrays(trees), trees.value)
    expected = [
        sum(walk(values, *tree) for tree in zip(*parts, strict=True)) for values in inputs
    ]
    np.testing.assert_allclose(trees._scores(inputs)[:, 0], expected, rtol=1e-12)


def arrays(boosted):
    return boosted.trees.feature, boosted.trees.threshold, boosted.trees.child


def walk(row, feature, threshold, child, value):
    """A row's way down a tree, split by split."""
    node = 0
    while child[node, 0] != node:
        node = child[node, int(row[feature[node]] > threshold[node])]
    return value[node]


def grow_at_random(rng, number, max_leaves, num_scores):
    """Trees that split leaves at random; the first has all the leaves it may have."""
    size = 2 * max_leaves - 1
    child = np.tile(np.arange(size)[:, None], (number, 1, 2))
    for tree in range(number):
        leaves, count = [0], 1
        for _ in range(rng.integers(0, max_leaves) if tree else max_leaves - 1):
            parent = leaves.pop(rng.integers(len(leaves)))
            child[tree, parent] = count, count + 1
            leaves += [count, count + 1]
            count += 2
    return BoostedTrees(
        Trees(
            rng.integers(0, 4, size=(number, size)),
            rng.integers(0, 10, size=(number, size)) / 2,
            child,
        ),
        rng.normal(size=(number, size)),
        rng.integers(0, num_scores, size=number),
        rng.normal(size=num_scores) if num_scores > 1 else np.zeros(1),
        np.ones(num_scores, dtype=bool),
        1.0,
    )
