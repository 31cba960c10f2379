"""Warm refits: the sums of many replicates, their roots, and how far they may be trusted."""

from dataclasses import fields, replace

import jax
import numpy as np
import pytest

import deeppqr
from deeppqr import DataError
from deeppqr.inference import RewardAt
from deeppqr.inference._resample import draw_units
from deeppqr.inference.warm._law_shift import ColumnShift, PairShift, law_shift
from deeppqr.inference.warm._refits import ENOUGH, Refits
from deeppqr.inference.warm._start import hold
from deeppqr.inference.warm._sums import choice_sums, information
from deeppqr.law._regression import Regression
from deeppqr.law._table import Table
from deeppqr.law._transition import Steps
from deeppqr.reward import _rounds
from deeppqr.worlds import PaperWorld, random_tabular

UNITS = 40


def on_a_gpu():
    try:
        return bool(jax.devices("gpu"))
    except RuntimeError:
        return False


@pytest.fixture(scope="module")
def panel():
    world = PaperWorld(p=2, reward_scale=5.0, seed=3001)
    return world.simulate(steps=1_200, units=UNITS, seed=5)


@pytest.fixture(scope="module")
def fit(panel):
    return deeppqr.PQR(discount=0.9, anchor=0).fit(panel)


@pytest.fixture(scope="module")
def held(panel):
    return hold(deeppqr.PQR(discount=0.9, anchor=0), panel)


@pytest.fixture(scope="module")
def refits(held):
    return Refits(held, device="cpu")


@pytest.fixture(scope="module")
def count():
    return np.stack([draw_units(UNITS, 0, number)[0] for number in range(3)], axis=1)


def weighted(held, count):
    """The fit's problem, at rest, with the weights of a replicate."""
    member, problem = held.membership, held.problem
    given = {
        entry.name: getattr(problem, entry.name) for entry in fields(problem) if entry.init
    }
    found = type(problem)(**given | {"weight": member.weight * count[member.unit]})
    found.q, found.left, found.value_weight = problem.q, problem.left, problem.value_weight
    return found


def test_sums_are_those_of_the_fit(held, refits, count):
    """Single precision keeps seven digits, and sums of 8,000 products lose two of them."""
    shown = held.membership.count(count)
    at = refits._start(count)
    rest = {name: 0 * getattr(at, name) for name in ("law", "theta", "extra")}
    at = at._replace(**rest, left=np.float32(held.problem.left[:, None]) + 0 * at.left)
    one = at._replace(**{name: getattr(at, name)[..., :1] for name in at._fields})
    with jax.default_matmul_precision("highest"):
        slopes = [choice_sums(b, refits.shared, at, shown)[0] for b in refits.blocks]
        squares = [information(b, refits.shared, one, shown) for b in refits.blocks]
    gradient, square = np.sum(slopes, axis=0), np.sum(squares, axis=0)
    for place in range(count.shape[1]):
        problem, fitted = weighted(held, count[:, place]), held.fit
        columns = problem.columns(fitted.basis)
        slope, system = problem.derivatives(fitted.basis, columns, fitted.successor)
        scale = np.sqrt(np.diag(system))
        np.testing.assert_allclose(gradient[:, place] / scale, slope / scale, atol=1e-4)
        gap = (square[place] - system) / np.outer(scale, scale)
        assert np.abs(gap).max() < 1e-4


def test_a_replicate_is_the_root_of_the_fits_own_equations(held, count):
    """By NumPy's value and gradient, with the law held: one more step gains nothing."""
    kind = type(held.shift)
    still = type(
        "Still", (kind,), {"coefficients": lambda s, c: 0 * kind.coefficients(s, c)}
    )
    parts = {entry.name: getattr(held.shift, entry.name) for entry in fields(held.shift)}
    (found,) = Refits(replace(held, shift=still(**parts)), device="cpu").replicates(count)
    assert found.converged.all()
    for place in range(count.shape[1]):
        problem, fitted = weighted(held, count[:, place]), held.fit
        columns = problem.columns(fitted.basis)
        theta = fitted.theta + found.theta[:, place]
        reward = problem.default + fitted.basis.combine(columns, theta)
        own, problem.weight = (
            problem.weight,
            held.problem.weight,
        )  # the value's norm is held
        problem.evaluate(reward, rounds=30, tol=1e-6)
        problem.weight = own
        slope, system = problem.derivatives(fitted.basis, columns, fitted.successor)
        slope -= fitted.diagonal * theta
        step = np.linalg.solve(system + np.diag(fitted.diagonal), slope)
        # Both values are at rest to a thousandth of what features leave.
        assert 0.5 * slope @ step < 10 * ENOUGH


@pytest.mark.parametrize("kind", [Table, Regression])
def test_the_law_moves_as_if_it_were_learned_again(kind):
    """A unit's weight grows by a millionth: central differences, to their rounding."""
    panel = random_tabular(seed=4).simulate(steps=2_000, units=20, seed=5)
    steps, value = Steps.of(panel), lambda state: np.sin(3 * state[:, :1])
    states, step = panel.state[:50], 1e-5

    def learned(unit, change):
        weight = steps.weight * np.where(
            panel.unit[panel.is_transition] == unit, 1 + change, 1.0
        )
        return kind.learn(replace(steps, weight=weight)).ahead(value)(states)[:, :, 0]

    law = kind.learn(steps)
    shift = law_shift(panel, law, value)
    assert isinstance(shift, PairShift if kind is Table else ColumnShift)
    for unit in (0, 7):
        count = np.ones((20, 1))
        count[unit] += 1.0
        found = shift.at(states, shift.coefficients(count)[..., 0])
        slope = (learned(unit, step) - learned(unit, -step)) / (2 * step)
        # Changes of the weights are kept in single precision.
        np.testing.assert_allclose(found, slope, atol=1e-5 * np.abs(slope).max() + 1e-7)


@pytest.mark.slow
def test_a_replicate_is_the_same_alone_and_among_others(panel, fit):
    """To what is left of a round when it ends: 2 % of a standard error."""
    states = RewardAt(panel.state[::400])
    some = fit.bootstrap(panel, states, replicates=[1, 3, 4], warm=True)
    assert some.note == "3 replicates, none failed"
    np.testing.assert_allclose(some.estimate, fit.reward(panel.state[::400]))
    alone = fit.bootstrap(panel, states, replicates=[4], warm=True)
    errors = fit.standard_errors(panel.state[::400]) + 1e-9
    assert (np.abs(alone.draws[0] - some.draws[2]) / errors).max() < 0.05
    assert (np.abs(some.draws[2] - some.draws[1]) / errors).max() > 0.5


@pytest.mark.slow
def test_values_follow(panel, fit):
    """A replicate's policy is that of its reward and value: the anchor earns what it did."""
    states = panel.state[::400]
    gap = fit.bootstrap(panel, lambda one: _bellman(one, states), replicates=2, warm=True)
    # What features and neighbours leave of Bellman's equation at a state of the panel.
    assert np.abs(gap.draws).max() < 0.1


def _bellman(one, states):
    after = one.reward_function.look_ahead(one.encoding.encode_any(states))[:, :, 0]
    q = one.reward(states) + one.discount * after
    return np.log(np.exp(q).sum(axis=1)) - one.value(states)


def test_it_is_asked_for_as_other_bootstraps_are(panel, fit):
    found = fit.bootstrap(panel, RewardAt(panel.state[:2]), replicates=[5, 2], warm=True)
    assert found.replicates.tolist() == [2, 5]
    np.testing.assert_allclose(found.estimate, fit.reward(panel.state[:2]))


def test_other_fits_are_refused(panel, fit):
    states = RewardAt(panel.state[:2])
    with pytest.raises(DataError, match="run in batches in this process"):
        fit.bootstrap(panel, states, replicates=2, warm=True, workers=2)
    model = deeppqr.PQR(discount=0.9, anchor=0, reward="likelihood")
    with pytest.raises(DataError, match="every replicate is a fit from scratch"):
        deeppqr.bootstrap(model, panel, states, replicates=2, warm=True, fit=fit)
    with pytest.raises(DataError, match="must name a platform that JAX finds here"):
        fit.bootstrap(panel, states, replicates=2, warm=True, device="tpu")


@pytest.mark.slow
def test_errors_agree_with_those_of_the_fit(monkeypatch):
    """200 replicates know a standard error to 5 %.

    Replicates hold the penalties, whose error is left out of the fit's, too; these count
    the bias of the penalty, which makes them larger.
    """
    monkeypatch.setattr(_rounds.Fitted, "penalty_error", 0.0)
    world = PaperWorld(p=2, reward_scale=5.0, seed=3001)
    panel = world.simulate(steps=6_000, units=300, seed=5)
    fit, states = deeppqr.PQR(discount=0.9, anchor=0).fit(panel), panel.state[::300]
    found = fit.bootstrap(panel, RewardAt(states), replicates=200, warm=True)
    ratio = found.standard_errors[:, 1:] / fit.standard_errors(states)[:, 1:]
    assert 0.7 < np.median(ratio) < 1.25  # 0.82 and 0.84 on two other panels


@pytest.mark.skipif(not on_a_gpu(), reason="JAX finds no GPU here")
def test_a_gpu_gives_the_same(held, refits, count):
    """Rounds end within 2 % of a standard error on either."""
    (here,), (there,) = refits.replicates(count), refits.on("gpu").replicates(count)
    system = held.fit.information + np.diag(held.fit.diagonal)
    errors = np.sqrt(np.diag(np.linalg.inv(system)))[:, None]
    assert (np.abs(here.theta - there.theta) / errors).max() < 0.05
