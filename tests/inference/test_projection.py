"""Theta by minimum distance: right, clustered, tested, and told in words."""

from dataclasses import replace

import numpy as np
import pytest

import deeppqr
from deeppqr import DataError, NoInfluenceFunction
from deeppqr.inference._features import resolve_features, with_extras
from deeppqr.inference._projection import Moments, _match, specification_test
from deeppqr.panel._encoding import Encoding, StateColumn
from deeppqr.policy import Logit
from deeppqr.policy._logit import LogitPolicy
from deeppqr.worlds import KnownCostBus, SamqBus, random_tabular

BUS = KnownCostBus()


def bus_pqr(**settings):
    stages = {"policy": "frequency", "anchor_value": "renewal", "reward": "table"}
    told = {"discount": 0.95, "anchor": "replace", "anchor_reward": -5.0}
    return deeppqr.PQR(**{**told, **stages, **settings})


@pytest.fixture(scope="module")
def bus():
    panel = BUS.simulate(steps=10_000, units=100, seed=2)
    return panel, bus_pqr().fit(panel)


def mileage(states):
    features = np.zeros((len(states), 2, 1))
    features[:, 0, 0] = states[:, 0]
    return features


def test_the_cost_per_mile_is_found(bus):
    panel, fit = bus
    found = fit.project(["mileage"], panel)
    assert abs(found.theta[0] + 1) < 4 * found.standard_errors[0]
    assert found.standard_errors[0] < 0.03
    assert found.test is not None
    assert found.test.p > 1e-4
    assert "clustered by unit (100 units); optimally weighted." in found.note
    low, high = found.interval(0.95)
    assert high[0] - low[0] == pytest.approx(2 * 1.959964 * found.standard_errors[0])


def test_features_are_the_same_however_given(bus):
    panel, fit = bus
    named = fit.project(["mileage"], panel)
    for features in (mileage, {"keep": ["mileage"]}, ("mileage",)):
        other = fit.project(features, panel)
        np.testing.assert_allclose(other.theta, named.theta)
        np.testing.assert_allclose(other.covariance, named.covariance)
    square = fit.project(["mileage * mileage"], panel)
    np.testing.assert_allclose(square.theta, fit.project(["mileage^2"], panel).theta)
    assert fit.project(mileage, panel).names == ("theta1",)
    assert fit.project(mileage, panel, names=["cost"]).names == ("cost",)


def test_a_category_stands_for_its_levels():
    town = StateColumn("town", "categorical", ("north", "south", "west"))
    encoding = Encoding((StateColumn("stock", "numeric"), town))
    terms = ["1", "town", "stock * town", "town=west"]
    found = resolve_features(terms, None, encoding, ("wait", "order"), 0)
    assert found.names == (
        *("1", "town=south", "town=west"),
        *("stock * town=south", "stock * town=west", "town=west"),
    )
    at_west = found.columns(np.array([[3.0, 0.0, 1.0]]))[0, 1]
    np.testing.assert_array_equal(at_west, [1.0, 0.0, 1.0, 0.0, 3.0, 1.0])
    with pytest.raises(DataError, match="A category by its own name stands for all"):
        resolve_features(["town^2"], None, encoding, ("wait", "order"), 0)


def test_the_test_sees_a_wrong_form(bus):
    panel, fit = bus
    assert fit.project(["1"], panel).test.p < 1e-6
    right = fit.project(["1", "mileage"], panel)
    assert right.test.p > 1e-3
    assert right.test.df == fit.project(["mileage"], panel).test.df - 1


def test_visits_weigh_as_least_squares_over_decisions(bus):
    panel, fit = bus
    found = fit.project(["1", "mileage"], panel, weight="visits", min_rows=1)
    rows = panel.action == 0
    columns = np.column_stack([np.ones(rows.sum()), panel.state[rows]])
    # Mileages at which replacing was never seen have no row of the anchor.
    taken = np.isin(panel.state[:, 0], panel.state[panel.action == 1, 0])[rows]
    reward = fit.reward(panel.state[rows])[:, 0]
    theta = np.linalg.lstsq(columns[taken], reward[taken], rcond=None)[0]
    np.testing.assert_allclose(found.theta, theta, rtol=1e-8)
    assert "weighted by visits" in found.note


def test_rows_and_cells_give_one_answer(bus, monkeypatch):
    """A regression of realised rewards on features is that of the cells' means.

    Errors differ a little: over rows, how often cells are visited is random too.
    """
    panel, fit = bus
    cells = fit.project(["mileage"], panel, weight="visits", min_rows=0)
    monkeypatch.setattr(deeppqr.inference._projection, "CLUSTERS_PER_MOMENT", 1_000)
    rows = fit.project(["mileage"], panel)
    np.testing.assert_allclose(rows.theta, cells.theta, rtol=1e-8)
    np.testing.assert_allclose(rows.covariance, cells.covariance, rtol=0.01)
    assert "few for 3 estimates" in rows.note


def test_continuous_states_need_no_table():
    world = SamqBus()
    panel = world.simulate(steps=3_000, units=30, seed=5)
    model = deeppqr.PQR(
        discount=0.9,
        anchor=0,
        policy=Logit(degree=2),
        anchor_value="renewal",
        reward="linear",
    )
    found = model.fit(panel).project(["1", "s1", "s2", "s3"], panel)
    away = np.abs(found.theta - [5, -1, 0, 0]) / found.standard_errors
    assert away.max() < 4
    assert found.test is not None
    assert found.test.df == 6
    assert "realised rewards" in found.note
    assert "weighted by visits, since the policy is parametric" in found.note


def test_the_bootstrap_agrees_with_influence_functions(bus):
    """Two estimates of one standard error; 100 replicates know it to 7 %."""
    panel, fit = bus
    one = fit.project(["mileage"], panel, weight="visits", min_rows=0)
    two = fit.project(
        ["mileage"], panel, weight="visits", errors="bootstrap", replicates=100
    )
    assert two.theta[0] == pytest.approx(one.theta[0], rel=1e-8)
    assert two.standard_errors[0] == pytest.approx(one.standard_errors[0], rel=0.25)
    assert "replicates" in two.note


def test_what_has_no_influence_function_is_bootstrapped(bus):
    panel, _ = bus
    few = panel.select(panel.unit < 20)
    fit = bus_pqr(reward="linear", anchor_value="averager").fit(few)
    with pytest.raises(NoInfluenceFunction, match="AveragerFunction"):
        fit.project(["mileage"], few, errors="influence")
    found = fit.project(["mileage"], few, replicates=4)
    assert "bootstrap over units (4 replicates, none failed)" in found.note


def test_minimum_distance_by_hand(rng):
    """Two estimates of one number: weighted by their precisions, J their distance."""
    covariance = np.diag([1.0, 4.0])
    moments = Moments(
        np.array([1.0, 3.0]), covariance, np.ones((2, 1)), np.eye(2), 10**9, ""
    )
    theta, variance, how = _match(moments, "optimal", ("theta",))
    assert theta[0] == pytest.approx(1.4)
    assert variance[0, 0] == pytest.approx(0.8)
    assert how == "optimally weighted"
    test, untested = specification_test(moments)
    assert test is not None
    assert untested == ""
    assert test.statistic == pytest.approx(4 / 5)
    assert test.df == 1
    assert test.p == pytest.approx(0.371093, rel=1e-4)  # chi-squared with one degree
    theta, variance, _ = _match(moments, "visits", ("theta",))
    assert theta[0] == pytest.approx(2.0)
    assert variance[0, 0] == pytest.approx(5 / 4)


def test_too_few_clusters_are_refused():
    moments = Moments(np.ones(8), np.eye(8), np.ones((8, 1)), np.eye(8), 9, "")
    assert specification_test(moments) == (
        None,
        " No specification test: 9 clusters or draws are too few for 8 estimates.",
    )
    with pytest.raises(DataError, match="more clusters than the 8 estimates it weighs"):
        _match(moments, "optimal", ("theta",))
    theta, _, how = _match(moments, "auto", ("theta",))
    assert theta[0] == pytest.approx(1)
    assert how.endswith("since 9 clusters are few for 8 estimates")


def test_few_clusters_are_allowed_for():
    """Rao's factor: normal estimates, their covariance from 24 clusters, 8 of them."""
    rng = np.random.default_rng(5)
    clusters, size, hits, rejections = 24, 8, 0, 0
    for _ in range(1_000):
        psi = rng.normal(size=(clusters, size)) / np.sqrt(clusters)
        away = psi - psi.mean(axis=0)
        covariance = away.T @ away / (clusters - 1)
        beta = rng.normal(size=size) / np.sqrt(clusters)
        moments = Moments(beta, covariance, np.ones((size, 1)), np.eye(size), clusters, "")
        theta, variance, _ = _match(moments, "optimal", ("theta",))
        hits += abs(theta[0]) < 1.96 * np.sqrt(variance[0, 0])
        test, _ = specification_test(moments)
        rejections += test is not None and test.p < 0.05
    # Without the factor 85 % are covered and 40 % rejected.
    assert abs(hits / 1_000 - 0.95) < 4 * np.sqrt(0.95 * 0.05 / 1_000)
    assert abs(rejections / 1_000 - 0.05) < 4 * np.sqrt(0.05 * 0.95 / 1_000)


def test_extras_are_new_columns(rng):
    state = rng.normal(size=(200, 2))
    action = rng.integers(1, 3, 200)
    features = resolve_features(
        ["1", "x1"],
        None,
        deeppqr.Panel.from_arrays(state, action, state).encoding,
        (0, 1, 2),
        0,
    )
    columns = with_extras(features, state, action, np.ones(200))
    assert features.names == ("1: 1", "1: x1", "2: 1", "2: x1")
    # Two actions times: x2, and the three squares and products.
    assert columns.shape[1] == 4 + 2 * 4
    assert np.linalg.matrix_rank(columns) == 12


def test_a_journals_table(bus):
    panel, fit = bus
    found = fit.project(["1", "mileage"], panel)
    text = found.summary()
    assert str(found) == text
    assert "mileage" in text
    assert "specification test  J = " in text
    assert "| mileage | -" in found.estimates().markdown()
    assert r"\begin{tabular}" in found.estimates().latex()


@pytest.mark.parametrize(
    ("features", "options", "message"),
    [
        ([], {}, "at least one feature, but it is empty"),
        (
            ["miles"],
            {},
            r"The feature 'miles' must be \"1\" \(a constant\), one of the state",
        ),
        (["mileage^x"], {}, "product or power of these"),
        ({"replace": ["1"]}, {}, r"every action but the anchor, \['keep'\]"),
        (["1", "mileage", "mileage"], {}, r"only 2 are independent. Leave out \['mil"),
        (["mileage"], {"names": ["a", "b"]}, "`names` must name each of the 1 features"),
        (["mileage"], {"weight": "best"}, "`weight` must be one of"),
        (["mileage"], {"errors": "none"}, "`errors` must be one of"),
        (["mileage"], {"min_rows": 1e9}, "None of the .* pairs has the 1e\\+09 rows"),
        (mileage, {"names": ["a", "b"]}, "features that the function returns"),
        (lambda states: states, {}, "shape .*, 2, number of features"),
    ],
)
def test_what_is_wrong_is_said(bus, features, options, message):
    panel, fit = bus
    with pytest.raises(DataError, match=message):
        fit.project(features, panel, **options)


def test_a_stored_fit_projects_by_influence_only(bus, tmp_path):
    panel, fit = bus
    again = deeppqr.load(fit.save(tmp_path / "fit"))
    assert again.model is None
    one, two = fit.project(["mileage"], panel), again.project(["mileage"], panel)
    np.testing.assert_array_equal(one.theta, two.theta)
    with pytest.raises(DataError, match="does not know its model"):
        again.project(["mileage"], panel, errors="bootstrap")


def test_another_temperature_projects_as_refitted(bus):
    panel, fit = bus
    warm = fit.at_temperature(2.0)
    again = bus_pqr(temperature=2.0).fit(panel)
    assert warm.model == again.model
    np.testing.assert_allclose(
        warm.project(["mileage"], panel).theta, again.project(["mileage"], panel).theta
    )


@pytest.mark.slow
def test_theta_is_covered_and_the_test_has_its_size():
    """Two hundred data sets of 250 buses; four Monte-Carlo errors are 6 %."""
    covered, rejected = [], []
    for seed in range(200):
        panel = BUS.simulate(steps=25_000, units=250, seed=500_000 + seed)
        found = bus_pqr().fit(panel).project(["mileage"], panel)
        low, high = found.interval(0.95)
        covered.append(low[0] <= -1 <= high[0])
        assert found.test is not None
        rejected.append(found.test.p < 0.05)
    error = np.sqrt(0.95 * 0.05 / 200)
    assert abs(np.mean(covered) - 0.95) < 4 * error
    assert abs(np.mean(rejected) - 0.05) < 4 * error


def test_three_actions_have_their_own_features():
    world = random_tabular(seed=4)
    panel = world.simulate(steps=4_000, units=40, seed=5)
    model = deeppqr.PQR(
        discount=0.9, anchor=0, policy="frequency", anchor_value="exact", reward="table"
    )
    found = model.fit(panel).project(["1"], panel)
    assert found.names == ("1: 1", "2: 1")
    assert found.test is not None
    assert found.test.p < 1e-6


def decisions(seed, *, rows=1_000, terminal=None, x2=0.5):
    """Choices of three actions by a logit in two variables; action 0 is the anchor."""
    rng = np.random.default_rng(seed)
    state = rng.normal(size=(rows, 2))
    coefficient = np.array([[0.0, 0.0, 0.0], [0.5, 1.0, -x2], [-0.5, 0.3, x2]])
    score = np.column_stack([np.ones(rows), state]) @ coefficient.T
    action = (score + rng.gumbel(size=score.shape)).argmax(axis=1)
    over = np.zeros(rows, bool) if terminal is None else terminal(action)
    following = np.where(over[:, None], np.nan, rng.normal(size=(rows, 2)))
    unit = np.arange(rows) // 10
    options = {"unit": unit, "terminal": over}
    return deeppqr.Panel.from_arrays(state, action, following, **options)


def quick(discount, **stages):
    stages = {"policy": "logit", "reward": "linear", **stages}
    return deeppqr.PQR(discount=discount, anchor=0, **stages)


def test_what_cannot_vary_is_not_tested():
    """Under a logit at discount 0 the reward is linear whatever the data: J would be a
    ratio of rounding errors. Features that leave something out are tested on it alone."""
    for seed in range(2):
        panel = decisions(seed)
        fit = quick(0.0).fit(panel)
        found = fit.project(["1", "x1", "x2"], panel)
        assert found.test is None
        assert "lies in the features' span whatever the data" in found.note
        short = fit.project(["1", "x1"], panel)
        assert short.test is not None
        assert short.test.df == 2  # the two actions' coefficients of x2
        assert short.test.p < 1e-3


@pytest.mark.slow
def test_what_can_vary_is_tested_at_its_size():
    rejected = []
    for seed in range(300):
        panel = decisions(seed, x2=0.0)
        found = quick(0.0).fit(panel).project(["1", "x1"], panel)
        assert found.test is not None
        assert found.test.df == 2
        rejected.append(found.test.p < 0.05)
    assert abs(np.mean(rejected) - 0.05) < 4 * np.sqrt(0.05 * 0.95 / 300)


@pytest.mark.parametrize("reward", ["table", "linear", "regression"])
def test_an_exit_as_the_anchor_projects(reward):
    """r(s, a) = log pi(a|s) - log pi(0|s) - discount E[V], V = -log pi(0|.)."""
    panel = decisions(1, terminal=lambda action: action == 0)
    fit = quick(0.9, reward=reward).fit(panel)
    found = fit.project(["1", "x1", "x2"], panel, min_rows=2)
    by_hand = []
    policy = fit.estimate.policy
    for action in (1, 2):
        rows = panel.action == action
        log_prob = policy.log_prob(panel.state[rows])
        ahead = -policy.log_prob(panel.next_state[rows])[:, 0]
        realised = log_prob[:, action] - log_prob[:, 0] - 0.9 * ahead
        columns = np.column_stack([np.ones(rows.sum()), panel.state[rows]])
        by_hand += np.linalg.lstsq(columns, realised, rcond=None)[0].tolist()
    np.testing.assert_allclose(found.theta, by_hand, atol=1e-8)
    assert (found.standard_errors > 0.01).all()


@pytest.mark.parametrize("reward", ["table", "linear", "regression", "joint"])
def test_a_panel_whose_rows_all_end_projects(reward):
    panel = decisions(2, terminal=lambda action: action >= 0)
    found = quick(0.0, reward=reward).fit(panel).project(["1", "x1", "x2"], panel)
    assert (np.abs(found.theta - [0.5, 1.0, -0.5, -0.5, 0.3, 0.5]) < 0.5).all()
    assert (found.standard_errors > 0.01).all()


def test_few_replicates_are_allowed_for():
    """Two draws know a standard error to a factor: one degree of freedom, no z of 198."""
    panel = decisions(3, rows=300)
    fit = quick(0.9, anchor_value="averager").fit(panel)
    found = fit.project(["1"], panel, replicates=2)
    assert found.df == 1
    assert "Student's t, 1 d.f." in found.note
    low, high = found.interval()
    np.testing.assert_allclose(high - low, 2 * 12.7062047 * found.standard_errors)
    for row, end in zip(found.estimates().table(), low, strict=True):
        assert row.low == pytest.approx(end)
        # The tail of a Cauchy distribution.
        assert row.p == pytest.approx(1 - 2 * np.arctan(abs(row.z)) / np.pi)
    with pytest.raises(DataError, match="Errors need two draws at least: 1 replicate"):
        fit.project(["1"], panel, replicates=1)
    with pytest.raises(DataError, match='weight="optimal" needs more clusters'):
        fit.project(["1"], panel, replicates=2, weight="optimal")


@pytest.mark.parametrize(
    ("reward", "features", "again"),
    [
        ("linear", ["1", "x1", "x1"], r"\['1: x1', '2: x1'\]"),
        ("linear", ["x1^2", "1", "x1*x1"], r"\['1: x1\*x1', '2: x1\*x1'\]"),
        ("joint", ["1", "x1", "x1"], r"\['1: x1', '2: x1'\]"),
        ("joint", {1: ["1", "1"], 2: ["x2"]}, r"\['1: 1'\]"),
    ],
)
def test_repeated_terms_are_named(reward, features, again):
    panel = decisions(4, rows=300)
    fit = quick(0.5, reward=reward).fit(panel)
    with pytest.raises(DataError, match=f"Leave out {again}"):
        fit.project(features, panel)
    with pytest.raises(DataError, match=f"Leave out {again}"):
        fit.project(features, panel, errors="bootstrap", replicates=2)


def test_weights_by_what_cannot_vary_are_refused():
    panel = decisions(5, rows=300)
    fit = deeppqr.PQR(
        discount=0.0, anchor=0, policy=lambda s: np.full((len(s), 3), -np.log(3))
    )
    fit = replace(fit, anchor_value="renewal", reward="linear").fit(panel)
    assert fit.project(["1"], panel).theta.tolist() == pytest.approx([0.0, 0.0])
    with pytest.raises(DataError, match="only 0 of the 2 coefficients .* vary"):
        fit.project(["1"], panel, weight="optimal")


def test_another_panel_is_refused():
    panel, other = decisions(6, rows=300), decisions(7, rows=300)
    for reward, options in (("joint", {}), ("linear", {"errors": "bootstrap"})):
        fit = quick(0.5, reward=reward).fit(panel)
        with pytest.raises(DataError, match="The panel must be the one that the fit was"):
            fit.project(["1"], other, replicates=2, **options)


WIDE = np.array([[0.0] * 5, [-4.0, 100.0, 0.2, 0.0, 1e-4], [-14.3, -300, 0.4, 6e-4, -2e-4]])
"""Constants and slopes, by action, of columns whose scales are 1e-2 to 1e4."""


def wide(seed, rows=800):
    """Two columns correlated at 0.95, one skewed; the third action in 6 % of the rows."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(rows, 4))
    z[:, 1] = 0.95 * z[:, 0] + np.sqrt(1 - 0.95**2) * z[:, 1]
    state = np.column_stack([z[:, 0] * 1e-2, 3 * z[:, 1] + 20, 1e3 * np.exp(z[:, 2])])
    state = np.column_stack([state, 1e4 * z[:, 3]])
    score = np.column_stack([np.ones(rows), state]) @ WIDE.T
    action = (score + rng.gumbel(size=score.shape)).argmax(axis=1)
    over, nothing = np.ones(rows, bool), np.full_like(state, np.nan)
    unit = np.arange(rows)
    return deeppqr.Panel.from_arrays(state, action, nothing, terminal=over, unit=unit)


TERMS = ["1", "x1", "x2", "x3", "x4"]


def test_columns_of_any_scale_are_projected_on():
    """At discount 0 under a logit, theta are the log-odds' own coefficients."""
    panel = wide(0)
    fit = quick(0.0).fit(panel)
    logit = fit.estimate.policy
    assert isinstance(logit, LogitPolicy)
    slope = (logit.coefficient - logit.coefficient[0]) / logit.scaling.scale
    constant = logit.intercept - logit.intercept[0] - slope @ logit.scaling.center
    expected = np.column_stack([constant, slope])[1:].ravel()
    for reward in ("linear", "regression"):
        found = quick(0.0, reward=reward).fit(panel).project(TERMS, panel)
        np.testing.assert_allclose(found.theta, expected, rtol=1e-6)


@pytest.mark.slow
def test_the_logits_ridge_does_not_bias_a_rare_action():
    """Coefficients and coverage over forty panels, the exact ones within four
    Monte-Carlo errors; with a ridge of one row they are not."""
    own, strong = [], []
    true = WIDE[1:].ravel()
    covered = []
    for seed in range(40):
        panel = wide(1_000 + seed)
        found = quick(0.0).fit(panel).project(TERMS, panel)
        low, high = found.interval()
        own.append(found.theta)
        covered.append((low <= true) & (true <= high))
        strong.append(
            quick(0.0, policy=Logit(ridge=1.0)).fit(panel).project(TERMS, panel).theta
        )
    error = 4 * np.std(own, axis=0) / np.sqrt(40)
    assert (np.abs(np.mean(own, axis=0) - true) < error).all()
    assert (np.abs(np.mean(strong, axis=0) - true)[5:8] > error[5:8]).all()
    # 400 intervals; those of one panel are correlated, so that 40 is the safe number.
    assert np.mean(covered) > 0.95 - 4 * np.sqrt(0.05 * 0.95 / 40)
    assert np.mean(covered, axis=0).min() > 0.8
