"""Clusters: the same for diagnostics, standard errors and baselines."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deeppqr import Panel
from deeppqr.panel import _clusters


def make_panel(unit, weight=None):
    number = len(unit)
    state, action = np.cos(np.arange(number))[:, None], np.arange(number) % 2
    return Panel.from_arrays(state, action, state + 1, unit=unit, weight=weight)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(10, 40))
def test_the_error_of_a_mean_is_that_of_the_units_sums(seed, number):
    """C / (C - 1) times the sum of squares over units, by a loop over them."""
    rng = np.random.default_rng(seed)
    unit = np.sort(np.concatenate([np.arange(number), rng.integers(0, number, 60)]))
    panel = make_panel(unit, rng.uniform(0.5, 2.0, len(unit)))
    values, rows = rng.normal(size=len(unit)), rng.random(len(unit)) < 0.8
    mean, error = _clusters.clustered_mean(panel, values, rows)
    assert mean == pytest.approx(np.average(values[rows], weights=panel.weight[rows]))
    total = panel.weight[rows].sum()
    sums = [
        np.sum((panel.weight * (values - mean))[rows & (panel.unit == u)]) / total
        for u in range(number)
    ]
    expected = np.sqrt(number / (number - 1) * np.sum(np.square(sums)))
    assert error == pytest.approx(expected, rel=1e-9)


def test_few_units_are_cut_into_blocks_of_rows():
    """A single path of 1,000 rows: twenty blocks of fifty, each one cluster."""
    clusters = _clusters.Clusters.of(make_panel(np.zeros(1_000, int)))
    assert clusters.count == 20
    assert (np.bincount(clusters.code) == 50).all()
    assert "20 blocks of consecutive rows, since there is 1 unit only" in clusters.note


def test_rows_without_weight_are_in_no_cluster():
    weight = np.ones(40)
    weight[:4] = 0.0
    panel = make_panel(np.repeat(np.arange(20), 2), weight)
    clusters = _clusters.Clusters.of(panel)
    assert clusters.count == 18
    assert clusters.sum(np.ones((40, 1))).sum() == 36


def test_influences_that_sum_to_zero_need_no_centring(rng):
    """As those of a maximum likelihood estimate do: centring changes nothing there."""
    influence = rng.normal(size=(30, 3))
    influence -= influence.mean(axis=0)
    expected = 30 / 29 * influence.T @ influence
    np.testing.assert_allclose(_clusters.clustered_covariance(influence), expected)
