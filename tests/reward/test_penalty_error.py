"""The error of coefficients whose penalties were estimated, too."""

from types import SimpleNamespace

import numpy as np
import pytest

from deeppqr.learners import _penalty_error
from deeppqr.learners._penalty_error import PENALTIES
from deeppqr.learners._ridge_logit import best_penalty
from deeppqr.reward._rounds import Fitted


def fitted(information, right, group) -> Fitted:
    """The fit of a quadratic likelihood, with penalties of the largest evidence."""
    group = np.asarray(group)
    start = np.ones(group.max() + 1)
    penalty, effective = best_penalty(information, right, group, start)
    theta = np.linalg.solve(information + np.diag(penalty[group]), right)
    gradient, none = right - information @ theta, np.zeros((0, len(group)))
    basis = SimpleNamespace(group=group)
    return Fitted(basis, theta, penalty, effective, information, gradient, none, 1, True)


@pytest.fixture
def correlated(rng):
    root = rng.normal(size=(5, 5))
    information = 50 * (root @ root.T + np.eye(5))
    return fitted(information, information @ rng.normal(size=5) / 8, [0, 0, 1, 1, 1])


def test_it_is_the_integral_over_each_groups_penalty(correlated):
    """Against whole systems, solved anew at every penalty."""
    fit, total = correlated, np.zeros((5, 5))
    right = fit.information @ fit.theta + fit.gradient
    bare = np.linalg.inv(fit.information + np.diag(fit.diagonal))
    for number in range(2):
        terms, weights = [], []
        for penalty in PENALTIES:
            diagonal = np.where(fit.basis.group == number, penalty, fit.diagonal)
            inverse = np.linalg.inv(fit.information + np.diag(diagonal))
            theta = inverse @ right
            evidence = right @ theta + np.linalg.slogdet(inverse)[1]
            evidence += np.log(diagonal).sum()
            moved = theta - fit.theta
            terms.append(inverse + np.outer(moved, moved) - bare)
            prior = penalty**-0.5 / (1 + 1 / penalty)
            weights.append(prior * np.exp(0.5 * evidence))
        total += np.average(terms, axis=0, weights=weights)
    # Where no direction of a group is clipped, which would only add.
    np.testing.assert_allclose(fit.penalty_error, total, atol=1e-6 * np.abs(bare).max())


def test_a_group_shrunk_to_zero_keeps_an_error():
    """Two coefficients of estimates zero: less than without a penalty, but not nothing."""
    fit = fitted(100 * np.eye(2), np.zeros(2), [0, 0])
    assert fit.penalty[0] > 1e6
    found = fit.penalty_error * 100
    np.testing.assert_allclose(found, found[0, 0] * np.eye(2), atol=1e-9)
    assert 0.1 < found[0, 0] < 1


def test_a_penalty_that_many_coefficients_tell_adds_little(rng):
    information = 100 * np.eye(400)
    fit = fitted(information, information @ rng.normal(size=400) * 0.3, np.zeros(400, int))
    bare = np.linalg.inv(information + np.diag(fit.diagonal))
    # The penalty's own relative error is sqrt(2 / 400); a coefficient moves by the tenth of
    # itself that is shrunk, times this.
    assert np.trace(fit.penalty_error) < 0.01 * np.trace(bare)


@pytest.mark.parametrize("size", [0.0, 0.5, 1.0, 2.0, 5.0])
def test_intervals_hold_coefficients_of_any_size(size, rng):
    """Two coefficients, `size` standard errors large, in 400 draws."""
    information, group, held = 100 * np.eye(2), [0, 0], []
    for _ in range(400):
        truth = 0.1 * size * rng.normal(size=2)
        right = information @ (truth + 0.1 * rng.normal(size=2))
        fit = fitted(information, right, group)
        bare = np.linalg.inv(information + np.diag(fit.diagonal))
        error = np.sqrt(np.diag(bare + fit.penalty_error))
        held.append(np.abs(fit.theta - truth) < 1.96 * error)
    # Without the penalty's error 56 % at a size of 0.5 and 63 % at 1. Four errors of 400
    # pairs, whose coefficients share a penalty, below 95 %.
    assert np.mean(held) > 0.95 - 4 * np.sqrt(0.95 * 0.05 / 400)


def test_no_direction_is_surer_than_with_the_penalty_found(correlated, monkeypatch):
    values = np.linalg.eigvalsh(correlated.penalty_error)
    assert values.min() > -1e-12
    monkeypatch.setattr(_penalty_error, "TYPICAL", 1e-3)  # a prior that all is small
    assert np.linalg.eigvalsh(correlated.penalty_error).min() > -1e-12
