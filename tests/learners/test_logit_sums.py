"""Sums by shape against the design they stand for, and scores against the sums."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy.special import softmax

from deeppqr.learners import _logit_sums, _row_threads
from deeppqr.learners._build_basis import smooth_basis
from deeppqr.learners._logit_sums import choice_scores, logit_sums
from deeppqr.learners._ridge_logit import Choices
from deeppqr.learners._row_threads import over_blocks, row_threads

NAMES = ("stay", "left", "right", "jump", "swim")
ROWS, WIDE = 700, 7


@pytest.fixture(scope="module", params=["numbers", "labels"])
def problem(request, paper):
    """A basis with every kind of term, its design, and columns of each action beside it."""
    _, panel = paper
    state = panel.state[:ROWS]
    actions = panel.actions if request.param == "numbers" else NAMES
    direction = np.eye(3)[:, :1] / state[:, 0].std()
    curved = {"curved": True, "surface": True, "direction": direction}
    basis = smooth_basis(state, actions, 0, panel.encoding, **curved)
    rng = np.random.default_rng(0)
    other = rng.normal(size=(5, ROWS, WIDE))
    weight = rng.normal(size=(WIDE, len(basis))) / np.sqrt(len(basis))
    design = basis.design(state) + np.moveaxis(other @ weight, 0, 1)
    theta = rng.normal(size=len(basis)) / np.sqrt(len(basis))
    action, mass = rng.integers(5, size=ROWS), rng.exponential(size=ROWS)
    choices = Choices(design, np.zeros((ROWS, 5)), action, mass)
    columns, prob = basis.columns(state), softmax(design @ theta, axis=1)
    return choices, theta, (basis, columns, prob, action), other, weight


def agree(found, expected, choices, precision) -> None:
    """Within the roundings of sums over all rows and actions, and of a product or two."""
    eps = 10 * np.finfo(precision).eps
    (gradient, information), (slope, hessian) = found, expected
    largest = np.abs(choices.design).max()
    tolerance = eps * largest * choices.weight.sum()
    np.testing.assert_allclose(gradient, slope, atol=tolerance, rtol=0)
    # The smallest ridge that keeps the information regular comes in addition.
    ridge = 1.1e-6 * np.diag(hessian).max()
    tolerance = eps * largest**2 * choices.weight.sum() + ridge
    np.testing.assert_allclose(information, hessian, atol=tolerance, rtol=0)
    assert np.linalg.eigvalsh(information).min() > 0


@pytest.mark.parametrize("carried", [False, True], ids=["columns", "carried"])
def test_sums_are_the_derivatives_of_the_design(problem, carried, monkeypatch):
    """In blocks of 256 rows, either way round, and for products in float32."""
    choices, theta, arguments, other, weight = problem
    monkeypatch.setattr(_logit_sums, "BLOCK_NUMBERS", 1)
    told = {"other": other, "carried": weight} if carried else {"other": other}
    sums = logit_sums(*arguments, weight=choices.weight, **told)
    found = sums.through(np.eye(len(theta)) if carried else weight)
    agree(found, choices.derivatives(theta), choices, np.float64)
    light = logit_sums(*arguments, weight=choices.weight, other=other.astype(np.float32))
    agree(light.through(weight), choices.derivatives(theta), choices, np.float32)


def test_sums_of_products_alone(problem):
    """Without other columns: a logit on the basis."""
    choices, theta, (basis, columns, prob, action), _, _ = problem
    sums = logit_sums(basis, columns, prob, action, choices.weight)
    gradient, information = sums.through(None)
    taken = -prob * choices.weight[:, None]
    taken[np.arange(ROWS), action] += choices.weight
    by_action = np.zeros(len(theta))
    for one in range(5):
        slopes, used = basis.slopes(columns, one)
        by_action[used] += slopes.T @ taken[:, one]
    np.testing.assert_allclose(gradient, by_action, atol=1e-3 * np.abs(by_action).max())
    assert np.linalg.eigvalsh(information).min() > 0


def test_scores_add_up_to_the_gradient(problem):
    choices, theta, arguments, other, weight = problem
    total, rows = np.zeros(len(theta)), 0
    for at, z in choice_scores(*arguments, other=other, weight=weight):
        total += choices.weight[at] @ z
        rows += len(z)
    assert rows == ROWS
    gradient, _ = choices.derivatives(theta)
    np.testing.assert_allclose(total, gradient, atol=1e-10 * choices.weight.sum())


def test_threads_change_no_digit(problem, monkeypatch):
    """Blocks are summed in their order, whichever thread was first."""
    choices, _, arguments, other, weight = problem
    monkeypatch.setattr(_logit_sums, "BLOCK_NUMBERS", 1)
    found = []
    for number in (1, 3):
        with row_threads(), ThreadPoolExecutor(number) as pool:
            token = _row_threads._pool.set((pool, number))
            sums = logit_sums(*arguments, weight=choices.weight, other=other)
            _row_threads._pool.reset(token)
        found.append(sums.through(weight))
    for one, several in zip(*found, strict=True):
        np.testing.assert_array_equal(one, several)


def test_blocks_come_in_order_and_errors_come_through():
    with row_threads():
        assert list(over_blocks(lambda part: part**2, range(20))) == [
            i**2 for i in range(20)
        ]
        with pytest.raises(ZeroDivisionError):
            list(over_blocks(lambda part: 1 / part, [1, 0, 2]))
        with row_threads():  # within one another: still the same threads
            assert list(over_blocks(abs, [-1, 2])) == [1, 2]


def test_the_gradient_does_not_depend_on_where_blocks_begin(problem):
    """Of columns in float32: only float64 additions differ between the partitions."""
    choices, _, (basis, columns, prob, action), other, _ = problem
    single = other.astype(np.float32)

    def gradient(size):
        total = 0.0
        for first in range(0, ROWS, size):
            rows = slice(first, first + size)
            part = columns[rows], prob[rows], action[rows], choices.weight[rows]
            sums = logit_sums(basis, *part, other=single[:, rows])
            total = total + np.concatenate([sums.own, sums.other])
        return total

    np.testing.assert_allclose(gradient(300), gradient(171), rtol=1e-12, atol=1e-10)
