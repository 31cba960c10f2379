"""Penalised least squares on tanh ridges: what it may and may not find."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deeppqr.learners._ridges import Ridges, penalised_least_squares

few = settings(max_examples=12, deadline=None)
seeds = st.integers(0, 10_000)


def draw(seed, *, rows=600, number=30):
    """Columns of states of two variables; the first three are the constant and lines."""
    rng = np.random.default_rng(seed)
    state = rng.normal(size=(rows, 2))
    return rng, state, Ridges.of(state, number)


def bent(state, noise):
    """Two functions that are no lines: a wave and a product."""
    clean = np.column_stack([np.sin(2 * state[:, 0]), state[:, 0] * state[:, 1]])
    return clean + 0.1 * noise


@few
@given(seed=seeds)
def test_the_first_columns_are_the_constant_and_the_standardised_state(seed):
    _, state, ridges = draw(seed)
    columns = ridges(state)
    assert columns.shape == (600, ridges.width)
    standard = (state - state.mean(axis=0)) / state.std(axis=0)
    lines = np.column_stack([np.ones(600), standard])
    np.testing.assert_allclose(columns[:, : ridges.linear], lines, atol=1e-12)
    assert (np.abs(columns[:, ridges.linear :]) <= 1).all()


@few
@given(seed=seeds, unit=st.floats(0.01, 100.0), shift=st.floats(-10, 10))
def test_the_units_of_the_state_do_not_matter(seed, unit, shift):
    _, state, ridges = draw(seed)
    moved = unit * state + shift
    # A shift of 10 beside a unit of 0.01 costs three digits.
    np.testing.assert_allclose(Ridges.of(moved, 30)(moved), ridges(state), atol=1e-9)


@few
@given(seed=seeds)
def test_it_is_exact_for_lines(seed):
    rng, state, ridges = draw(seed)
    columns = ridges(state)
    theta = rng.normal(size=(3, 2))
    weight = rng.uniform(0.5, 2, size=600)
    found = penalised_least_squares(columns, columns[:, :3] @ theta, weight, 3)
    # The lines' block carries 1e-10 of its diagonal: coefficients below 5, six of them.
    np.testing.assert_allclose(columns @ found, columns[:, :3] @ theta, atol=1e-8)


def test_noise_is_left_to_the_lines():
    """Where no penalty improves on the lines, what is found is their fit exactly."""
    alone = 0
    for seed in range(40):
        rng, state, ridges = draw(seed)
        columns, target = ridges(state), rng.normal(size=(600, 1))
        found = penalised_least_squares(columns, target, np.ones(600), 3)
        lines = np.linalg.lstsq(columns[:, :3], target, rcond=None)[0]
        if (found[3:] == 0).all():
            alone += 1
            # The lines' block carries 1e-10 of its diagonal.
            np.testing.assert_allclose(found[:3], lines, atol=1e-9)
        # What the curves explain of 600 rows of noise is no more than 30 of them could by
        # least squares: 0.05 of the variance and four standard errors.
        curves = columns @ found - columns[:, :3] @ lines
        assert curves.var() < 0.05 + 4 * np.sqrt(2 * 30) / 600
    # Measured 32 of 40; with a probability of 0.8 each, four standard errors below.
    assert alone >= 22


@few
@given(seed=seeds)
def test_a_curve_is_found(seed):
    rng, state, ridges = draw(seed)
    columns, noise = ridges(state), rng.normal(size=(600, 2))
    truth = bent(state, np.zeros((600, 2)))
    found = columns @ penalised_least_squares(columns, bent(state, noise), np.ones(600), 3)
    # Lines explain nothing of the product and half of the wave at most.
    left = ((found - truth) ** 2).mean(axis=0) / truth.var(axis=0)
    assert (left < 0.25).all()


@few
@given(seed=seeds)
def test_a_weight_of_two_is_the_row_twice(seed):
    rng, state, ridges = draw(seed)
    columns, target = ridges(state), bent(state, rng.normal(size=(600, 2)))
    twice = rng.random(600) < 0.5
    rows = np.append(np.arange(600), np.flatnonzero(twice))
    weighted = penalised_least_squares(columns, target, 1.0 + twice, 3)
    repeated = penalised_least_squares(columns[rows], target[rows], np.ones(len(rows)), 3)
    # The same sums in another order; the smallest ridge is 1e-8 of the largest eigenvalue.
    np.testing.assert_allclose(columns @ weighted, columns @ repeated, atol=1e-7)


@few
@given(seed=seeds)
def test_each_output_has_its_own_penalty(seed):
    """Outputs do not disturb each other: together they are what they are alone."""
    rng, state, ridges = draw(seed)
    columns, target = ridges(state), bent(state, rng.normal(size=(600, 2)))
    target[:, 1] = rng.normal(size=600)
    both = penalised_least_squares(columns, target, np.ones(600), 3)
    for output in range(2):
        alone = penalised_least_squares(columns, target[:, [output]], np.ones(600), 3)
        # Products of matrices and of vectors add up in different orders.
        np.testing.assert_allclose(columns @ both[:, [output]], columns @ alone, atol=1e-7)


@pytest.mark.parametrize("curves", [0, 5])
def test_without_curves_it_is_least_squares(curves):
    """No ridges at all, or ridges that are zero in every row."""
    rng, state, ridges = draw(0)
    lines = ridges(state)[:, :3]
    target = rng.normal(size=(600, 2))
    columns = np.column_stack([lines, np.zeros((600, curves))])
    found = penalised_least_squares(columns, target, np.ones(600), 3)
    oracle = np.linalg.lstsq(lines, target, rcond=None)[0]
    np.testing.assert_allclose(found[:3], oracle, atol=1e-9)
    assert (found[3:] == 0).all()
