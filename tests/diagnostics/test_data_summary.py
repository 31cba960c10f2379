"""What a fit keeps of its data."""

import numpy as np
import pytest

import deeppqr
from deeppqr.diagnostics._data_summary import BINS, DataSummary
from deeppqr.panel._clusters import Clusters, clustered_covariance

QUICK = {"discount": 0.9, "anchor": 0, "policy": "logit", "reward": "regression"}


@pytest.fixture(scope="module")
def fit(paper):
    return deeppqr.PQR(**QUICK).fit(paper[1])


def test_frequencies_are_calibrated_exactly(tabular):
    """A policy of counted shares expects in every group of states what was done there."""
    _, panel = tabular
    counted = deeppqr.policy.Frequency(smoothing=0.0)
    model = deeppqr.PQR(discount=0.9, anchor=0, policy=counted, reward="table")
    found = model.fit(panel).data
    assert found is not None
    seen = ~np.isnan(found.expected)
    np.testing.assert_allclose(found.expected[seen], found.observed[seen], atol=1e-12)
    assert found.expected.shape == (BINS, panel.num_actions)
    # Seven states cannot be told apart into ten groups.
    assert np.isnan(found.expected).any()


def test_shares_are_those_of_the_panel(fit, paper):
    (_, panel), found = paper, fit.data
    counts = np.bincount(panel.action, minlength=panel.num_actions)
    np.testing.assert_array_equal(found.rows, counts)
    np.testing.assert_allclose(found.share, counts / len(panel))
    np.testing.assert_allclose(found.mean, panel.state.mean(axis=0))
    middle = np.quantile(panel.state, 0.5, axis=0, method="inverted_cdf")
    np.testing.assert_array_equal(found.quantiles[50], middle)


def test_errors_of_calibration_are_those_of_clustered_ratios(fit, paper):
    """Against the formula, bin by bin and cluster by cluster."""
    _, panel = paper
    found = DataSummary.of(panel, fit.estimate.policy)
    prob = np.exp(fit.estimate.policy.log_prob(panel.state))[:, 1]
    lowest = prob <= np.quantile(prob, 0.1)
    gap = np.where(lowest, (panel.action == 1) - prob, 0.0)
    mean = gap.sum() / lowest.sum()
    influence = np.where(lowest, gap - mean, 0.0) / lowest.sum()
    sums = Clusters.of(panel).sum(influence[:, None])
    expected = np.sqrt(clustered_covariance(sums)[0, 0])
    np.testing.assert_allclose(found.observed[0, 1] - found.expected[0, 1], mean)
    np.testing.assert_allclose(found.error[0, 1], expected, rtol=1e-12)


def test_a_saved_fit_keeps_its_summary(fit, tmp_path):
    fit.save(tmp_path / "run")
    again = deeppqr.load(tmp_path / "run").data
    assert again is not None
    np.testing.assert_array_equal(again.action, fit.data.action)
    np.testing.assert_array_equal(again.observed, fit.data.observed)
