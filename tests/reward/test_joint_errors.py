"""Standard errors and intervals of the default reward, and what it does on firms."""

import numpy as np
import pytest

import deeppqr
from deeppqr import DataError


def fitted(units):
    world = deeppqr.worlds.FirmWorld(seed=0)
    panel = world.simulate(units=units, periods=20, seed=5)
    told = {"discount": world.discount, "anchor": world.anchor}
    model = deeppqr.PQR(**told, anchor_reward=world.anchor_reward)
    return world, panel, model.fit(panel)


@pytest.fixture(scope="module")
def firms():
    return fitted(units=200)


def states_of(panel, rows=200):
    return panel.encoding.decode(panel.state[:rows])


def test_the_anchor_has_no_width_and_the_others_have_some(firms):
    _, panel, fit = firms
    error = fit.standard_errors(states_of(panel))
    known = fit.actions.index(fit.anchor)
    assert (error[:, known] == 0).all()
    assert (np.delete(error, known, axis=1) > 0).all()


def test_intervals_are_centred_and_widen_with_the_level(firms):
    _, panel, fit = firms
    states = states_of(panel)
    low, high = fit.interval(states)
    np.testing.assert_allclose((low + high) / 2, fit.reward(states), atol=1e-12)
    wider = fit.interval(states, level=0.99)
    assert (wider[0] <= low).all()
    assert (wider[1] >= high).all()


def test_errors_scale_with_the_temperature(firms):
    _, panel, fit = firms
    states = states_of(panel)
    np.testing.assert_allclose(
        fit.at_temperature(3.0).standard_errors(states), 3 * fit.standard_errors(states)
    )


@pytest.mark.slow
def test_slopes_of_firms_have_the_right_sign_and_their_intervals_hold_them():
    """Investment pays more in larger firms and with more demand: 0.15 to 0.80 a unit.

    Six slopes; at 95 % all lie within three standard errors but for one panel in 60.
    """
    world, panel, fit = fitted(units=400)
    found = fit.project(["1", "capital", "age", "demand", "industry"], panel)
    table = dict(
        zip(found.names, zip(found.theta, found.standard_errors, strict=True), strict=True)
    )
    for action in ("small", "large"):
        for column in ("capital", "demand"):
            name = next(n for n in table if action in n and n.endswith(column))
            slope, error = table[name]
            assert slope > 0, name
            assert abs(slope - world.slopes[action][column]) < 3 * error, name


def test_every_seed_gives_the_same_fit(firms):
    world, panel, fit = firms
    told = {"discount": world.discount, "anchor": world.anchor}
    other = deeppqr.PQR(**told, anchor_reward=world.anchor_reward, seed=7).fit(panel)
    states = states_of(panel)
    np.testing.assert_array_equal(other.reward(states), fit.reward(states))


def test_many_numeric_columns_without_resets_are_fitted():
    """More columns than neighbours are sought among, and no coordinates in their place."""
    rng = np.random.default_rng(0)
    state = rng.normal(size=(1_500, 9))
    action = (state[:, 0] + rng.logistic(size=1_500) > 0).astype(int)
    after = 0.5 * state + rng.normal(size=state.shape)
    panel = deeppqr.Panel.from_arrays(state, action, after, unit=np.arange(1_500) // 10)
    fit = deeppqr.PQR(discount=0.5, anchor=0).fit(panel)
    assert np.isfinite(fit.reward(state[:20])).all()


def test_what_is_wrong_is_said(firms, paper):
    _, panel, fit = firms
    with pytest.raises(
        DataError, match=r"`level` must lie between 0 and 1, such as 0.95, not 95"
    ):
        fit.interval(states_of(panel), level=95)
    _, other = paper
    plain = deeppqr.PQR(discount=0.9, anchor=0, policy="logit", reward="linear").fit(other)
    with pytest.raises(
        DataError, match=r"no standard errors in closed form.*fit\.bootstrap"
    ):
        plain.standard_errors(other.state[:3])
