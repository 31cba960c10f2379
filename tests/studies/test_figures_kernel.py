"""The kernel of Theorem 2 and its complexity, against naive loops."""

import math

import numpy as np
import pytest

from deeppqr_studies.paper._regressions import kernel_complexity, relu_kernel


@pytest.fixture
def inputs(rng):
    return rng.normal(size=(12, 3)) * rng.uniform(0.1, 5.0, size=(12, 1))


def naive_kernel(inputs):
    unit = [[value / math.dist(row, [0.0] * len(row)) for value in row] for row in inputs]
    kernel = np.empty((len(unit), len(unit)))
    for i, one in enumerate(unit):
        for j, other in enumerate(unit):
            inner = sum(a * b for a, b in zip(one, other, strict=True)) if i != j else 1.0
            kernel[i, j] = inner * (math.pi - math.acos(inner)) / (2 * math.pi)
    return kernel


def test_the_kernel_is_the_naive_loops(inputs):
    np.testing.assert_allclose(relu_kernel(inputs), naive_kernel(inputs), atol=1e-13)


def test_the_complexity_is_the_naive_one(inputs, rng):
    target = rng.normal(size=12)
    solved = np.linalg.inv(naive_kernel(inputs)) @ target
    expected = math.sqrt(2 * sum(target * solved) / 12)
    np.testing.assert_allclose(kernel_complexity(inputs, target), expected, rtol=1e-9)


def test_the_kernel_is_a_mean_over_random_units(inputs, rng):
    """H_ij = E[x_i'x_j 1{w'x_i >= 0, w'x_j >= 0}] over normal w."""
    unit = inputs / np.linalg.norm(inputs, axis=1, keepdims=True)
    active = (unit @ rng.normal(size=(3, 200_000)) >= 0).astype(float)
    sampled = (unit @ unit.T) * (active @ active.T) / 200_000
    # Four standard errors of a mean of 200,000 zeros and ones.
    np.testing.assert_allclose(sampled, relu_kernel(inputs), atol=4 * 0.5 / 200_000**0.5)


def test_the_scale_of_inputs_does_not_matter_and_that_of_labels_does(inputs, rng):
    target = rng.normal(size=12)
    of = kernel_complexity(inputs, target)
    np.testing.assert_allclose(kernel_complexity(7.0 * inputs, target), of, rtol=1e-9)
    np.testing.assert_allclose(kernel_complexity(inputs, 3 * target), 3 * of, rtol=1e-9)
