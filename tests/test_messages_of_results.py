"""What is said where something is asked of a fit that it cannot give."""

from typing import Any

import numpy as np
import pytest

import deeppqr
from deeppqr import DataError
from deeppqr.counterfactual import demand
from deeppqr.inference import (
    RewardAt,
    quantile_band,
    reward_influence,
    sup_t_bands_of_draws,
)
from deeppqr.mdp import Law
from deeppqr.policy import Frequency, Logit
from deeppqr.worlds import random_tabular

WORLD = random_tabular(num_states=4, num_actions=3, seed=0)
STATES = WORLD.states
REWARD, LAW = WORLD.mdp.reward, WORLD.mdp.transition
COUNTED: dict[str, Any] = {
    **{"discount": 0.9, "anchor": 0, "policy": "frequency"},
    **{"anchor_value": "exact", "reward": "table"},
}
FEW = np.zeros((3, 4))


@pytest.fixture(scope="module")
def panel():
    return WORLD.simulate(steps=1_200, units=30, seed=0)


@pytest.fixture(scope="module")
def fit(panel):
    return deeppqr.PQR(**COUNTED).fit(panel)


@pytest.mark.parametrize(
    ("features", "options", "message"),
    [
        (["s^400"], {}, r"\['1: s\^400', '2: s\^400'\] have values beyond 1e150"),
        (lambda s: 1 / 0, {}, "passed as `features` failed with ZeroDivisionError"),
        (lambda s: s["s"], {}, r"`features` failed with IndexError.*columns \['s'\]"),
        (lambda s: np.full((len(s), 3, 1), np.nan), {}, "`features` must be finite"),
        (["1"], {"min_rows": "ten"}, "`min_rows` must be a number of rows, but it is 'te"),
        (["1"], {"min_rows": -1}, "`min_rows` must be a number of rows, but it is -1"),
        (["1"], {"min_rows": np.nan}, "`min_rows` must be a number of rows"),
        ({1: 3, 2: 3}, {}, r"must hold lists of terms, such as \[3\], but 3 arr"),
        ({1: ["1"]}, {}, r"every action but the anchor, \[1, 2\]"),
        ([2], {}, "The feature 2 must be"),
        ([None], {}, "The feature None must be"),
        (["s^0"], {}, r"The feature 's\^0' must be"),
        (["1"], {"names": "theta"}, "`names` must name each of the 2 features"),
        (["1"], {"errors": "bootstrap", "replicates": 0}, "from 0 on, but 0 arrived"),
        (["1"], {"errors": "bootstrap", "replicates": -2}, "from 0 on, but -2 arrived"),
        (["1"], {"errors": "bootstrap", "seed": -1}, "`seed` must be a whole number"),
    ],
)
def test_projections(fit, panel, features, options, message):
    with pytest.raises(DataError, match=message):
        fit.project(features, panel, **options)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda f: f.functional(np.ones((1, 3))), r"per state and action, \(4, 3\)"),
        (lambda f: f.functional(np.full((4, 3), np.nan)), "finite, but 12 entries are not"),
        (lambda f: f.bands("x"), "`action` must be one of the actions"),
        (lambda f: f.bands(1, where=np.ones(3, bool)), r"bool of shape \(3,\)"),
        (lambda f: f.bands(1, where=np.zeros(4, bool)), "with 0 true arrived"),
        (lambda f: f.bands(1, level=2.0), "`level` must lie between 0 and 1"),
    ],
)
def test_influence_functions(fit, panel, ask, message):
    found = reward_influence(fit, panel)
    with pytest.raises(DataError, match=message):
        ask(found)


@pytest.mark.parametrize(
    ("band", "message"),
    [
        (lambda: quantile_band(FEW), r"95 % takes 39 draws at least.*shape is \(3, 4\)"),
        (lambda: quantile_band(FEW[:0]), r"takes 39 draws at least.*shape is \(0, 4\)"),
        (lambda: quantile_band(np.full((50, 4), np.nan)), "draw 0 is not in 4 of 4"),
        (lambda: sup_t_bands_of_draws(STATES, np.zeros(4), FEW[:1]), "takes 2 draws"),
    ],
)
def test_bands_of_draws(band, message):
    with pytest.raises(DataError, match=message):
        band()


@pytest.mark.parametrize(
    ("statistic", "message"),
    [
        (RewardAt(STATES, np.array([9, 1, 1, 1])), "IndexError: index 9 is out of bounds"),
        (RewardAt(STATES, np.array([1, 1])), r"could not be broadcast .* \(4,\) \(2,\)"),
        (RewardAt(STATES, None, np.ones((1, 3))), "size 4 is different from 3"),
    ],
)
def test_statistics_of_other_shapes(fit, panel, statistic, message):
    with pytest.raises(DataError, match=message):
        fit.bootstrap(panel, statistic, replicates=2)


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({"s": 1}, {"states": np.zeros((0, 1))}, "`states` must hold one state at least"),
        (
            {"s": 1},
            {"replicates": 2, "model": "m"},
            "`model` must be a deeppqr.PQR, but 'm",
        ),
        ({"s": 1}, {"replicates": -2}, "different whole numbers from 0 on, but -2"),
        ({"s": 77}, {}, r"knows 4 states, and row 0, \[77.\], is none of them"),
        ({"s": np.nan}, {}, "'s' must not be missing"),
        ({}, {}, "`change` must hold new values by column"),
    ],
)
def test_changed_states(fit, panel, change, options, message):
    with pytest.raises(DataError, match=message):
        fit.counterfactual(panel, change, **options)


def test_changed_states_of_another_panel(fit):
    other = WORLD.simulate(steps=900, units=30, seed=5)
    with pytest.raises(DataError, match="The panel must be the one that the fit was"):
        fit.counterfactual(other, {"s": 1}, replicates=2)
    fit.counterfactual(other, {"s": 1})  # without draws it is a set of states like others


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"action": "go"},
            r"`action` must be a column of `reward`, 0\.\.2, but it is 'go'",
        ),
        ({"action": True}, "`action` must be a column .* but it is True"),
        ({"per_year": "twelve"}, "`per_year` must be an array of numbers, but a str"),
        ({"transfers": "free"}, "`transfers` must be an array of numbers, but a str"),
        ({"reward": "high"}, "`reward` must be an array of numbers, but a str"),
        ({"transition": "law"}, "`transition` must be an array of numbers, but a str"),
        (
            {"reward": np.zeros((0, 2)), "transition": np.zeros((0, 2, 0))},
            r"`reward` must not be empty, but its shape is \(0, 2\)",
        ),
    ],
)
def test_demand(options, message):
    given = {"reward": REWARD, "transition": LAW, "action": 1, "transfers": [0.0]}
    with pytest.raises(DataError, match=message):
        demand(**{**given, **options}, discount=0.9)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Logit(degree=0), r"`Logit\(degree=...\)` must be a whole number, .* is 0"),
        (lambda: Logit(max_steps=0), r"`Logit\(max_steps=...\)` must be a whole number"),
        (lambda: Logit(ridge=-1.0), r"`Logit\(ridge=...\)` must be zero or more"),
        (lambda: Logit(ridge=np.nan), r"`Logit\(ridge=...\)` must be zero or more"),
        (lambda: Frequency(smoothing=-1.0), r"must be a number of rows, zero or more"),
        (lambda: Frequency(smoothing=np.inf), r"must be a number of rows, zero or more"),
        (
            lambda: Law(lambda s, a, r: s, draws=0),
            r"must be a number of samples, 1 or more",
        ),
    ],
)
def test_settings(make, message):
    with pytest.raises(DataError, match=message):
        make()


@pytest.mark.parametrize("told", [{"average": np.nan}, {"maximum": np.inf}])
def test_temperatures(fit, panel, told):
    with pytest.raises(DataError, match="must be a finite number, but it is"):
        fit.select_temperature(panel, **told)
