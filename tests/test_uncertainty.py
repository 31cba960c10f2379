"""Errors that come with a fit: derivatives of the estimator, kept by the folder."""

from dataclasses import replace

import numpy as np
import pytest

import deeppqr
from deeppqr import NoInfluenceFunction
from deeppqr.inference import reward_influence
from deeppqr.mdp import Law
from deeppqr.panel._clusters import clustered_covariance
from deeppqr.worlds import random_tabular

STATES = np.arange(7.0)[:, None]
COUNTED = {"policy": "frequency", "anchor_value": "exact", "reward": "table"}
STEP = 1e-4


def g(states):
    return np.sin(states[:, 0])


@pytest.fixture(scope="module")
def world():
    return random_tabular(seed=4)


@pytest.fixture(scope="module")
def panel(world):
    return world.simulate(steps=3_000, units=12, seed=5)


def pqr(**settings):
    return deeppqr.PQR(**{"discount": 0.9, "anchor": 0, "temperature": 1.3, **settings})


def as_law(world, common=False):
    """The world's law as a function; with `common`, a part of it drawn from all states."""
    moves = world.mdp.transition

    def law(states, action):
        row = moves[states[:, 0].astype(int), action]
        return np.tile(STATES, (len(states), 1, 1)), 0.6 * row if common else row

    return Law(law, common=STATES) if common else Law(law)


def by_refits(model, panel):
    """Standard errors from derivatives in each unit's weight, by refitting."""
    slopes = []
    for unit in range(panel.num_units):
        ends = []
        for sign in (1, -1):
            factor = 1 + sign * STEP * (panel.unit == unit)
            ends.append(
                model.fit(replace(panel, weight=panel.weight * factor)).reward(STATES)
            )
        slopes.append((ends[0] - ends[1]).ravel() / (2 * STEP))
    return np.sqrt(np.diag(clustered_covariance(np.array(slopes)))).reshape(7, -1)


@pytest.mark.parametrize("g_of", [0.0, g], ids=["g zero", "g varies"])
@pytest.mark.parametrize("known", [False, True], ids=["counted law", "known law"])
def test_errors_are_those_of_the_estimators_derivatives(world, panel, known, g_of):
    """Central differences miss by the step squared, 1e-8, times third derivatives."""
    told = {"transition": world.mdp.transition} if known else COUNTED
    model = pqr(**{**told, "policy": "frequency", "anchor_reward": g_of})
    found = model.fit(panel).standard_errors(STATES)
    slow = by_refits(model, panel)
    np.testing.assert_allclose(found, slow, rtol=0, atol=1e-6 * slow.max())
    assert (found[:, 0] == 0).all()


def test_they_are_those_of_the_influence_functions_at_any_temperature(panel):
    fit = pqr(**COUNTED, anchor_reward=g).fit(panel)
    for each in (fit, fit.at_temperature(0.4)):
        np.testing.assert_allclose(
            each.standard_errors(STATES),
            reward_influence(each, panel).standard_errors,
            atol=1e-12,
        )


@pytest.mark.parametrize("policy", ["frequency", "logit", "auto"])
def test_a_law_as_a_function_gives_the_errors_of_its_table(world, panel, policy):
    table = pqr(policy=policy, transition=world.mdp.transition).fit(panel)
    function = pqr(policy=policy, transition=as_law(world)).fit(panel)
    np.testing.assert_allclose(
        function.standard_errors(STATES), table.standard_errors(STATES), atol=1e-10
    )


def test_a_common_draw_is_followed_too(world, panel):
    moves = 0.6 * world.mdp.transition + 0.4 / 7
    table = pqr(policy="logit", transition=moves).fit(panel)
    function = pqr(policy="logit", transition=as_law(world, common=True)).fit(panel)
    np.testing.assert_allclose(function.reward(STATES), table.reward(STATES), atol=1e-10)
    np.testing.assert_allclose(
        function.standard_errors(STATES), table.standard_errors(STATES), atol=1e-10
    )


def test_known_laws_leave_less_to_estimate(world, panel):
    counted = pqr(**COUNTED).fit(panel).standard_errors(STATES)
    known = pqr(policy="frequency", transition=world.mdp.transition).fit(panel)
    assert (known.standard_errors(STATES) ** 2).mean() < (counted**2).mean()


def test_a_saved_fit_keeps_them(world, panel, tmp_path):
    fit = pqr(**COUNTED, anchor_reward=0.5).fit(panel)
    again = deeppqr.load(fit.save(tmp_path / "fit"))
    np.testing.assert_array_equal(
        again.standard_errors(STATES), fit.standard_errors(STATES)
    )


def test_pairs_never_seen_have_no_errors_and_spoil_no_others(panel):
    rows = ~((panel.state[:, 0] == 3) & (panel.action == 2))
    with np.errstate(invalid="ignore"):
        fit = pqr(**COUNTED).fit(panel.select(rows))
    found = fit.standard_errors(STATES)
    assert np.isnan(found[3, 2])
    assert np.isnan(found).sum() == 1


def test_bands_hold_a_whole_curve(panel):
    """Between a point's 1.96 and Bonferroni's 2.69 for seven, and four simulation errors
    of a quantile of 10,000 draws."""
    fit = pqr(**COUNTED).fit(panel)
    point, band = fit.interval(STATES), fit.interval(STATES, simultaneous=True)
    ratio = (band[1] - band[0])[:, 1:] / (point[1] - point[0])[:, 1:]
    assert np.ptp(ratio, axis=0).max() < 1e-12
    assert (ratio * 1.96 > 1.96).all()
    assert (ratio * 1.96 < 2.69 + 4 * 0.018).all()
    np.testing.assert_array_equal(band[0][:, 0], band[1][:, 0])


def test_a_band_of_one_state_is_its_interval(panel):
    """Within four standard errors of the quantile of 10,000 draws, 0.019 of 1.96."""
    fit = pqr(**COUNTED).fit(panel)
    point = fit.interval(STATES[:1])
    band = fit.interval(STATES[:1], simultaneous=True)
    width = (band[1] - band[0])[0, 1:] / (point[1] - point[0])[0, 1:]
    np.testing.assert_allclose(width, 1.0, atol=4 * 0.019 / 1.96)


def test_other_stages_say_why_there_are_none(world, panel):
    boosted = pqr(policy="boosted", reward="linear", anchor_value="exact").fit(panel)
    with pytest.raises(NoInfluenceFunction, match=r"A LinearReward has no .* fit\.boots"):
        boosted.standard_errors(STATES)
    sampled = Law(lambda s, a, rng: rng.permuted(s, axis=0), draws=2)
    drawn = pqr(policy="logit", transition=sampled).fit(panel)
    with pytest.raises(NoInfluenceFunction, match="Under a law of 2 draws"):
        drawn.interval(STATES)
