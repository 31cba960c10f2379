"""The structural estimators: derivatives, fixed points, recovery and refusals."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import oracles
from deeppqr import DataError, Panel, exact
from deeppqr.baselines import (
    NFXP,
    NPL,
    TDCCP,
    CountedLaw,
    HotzMiller,
    KnownLaw,
    LinearReward,
    MileageIncrements,
    bus_costs,
)
from deeppqr.baselines._ascent import law_slope
from deeppqr.baselines._ccp import value_policy
from deeppqr.baselines._nfxp import (
    Inner,
    complete_shares,
    joint_choices,
    maximise_jointly,
    share_terms,
    solve_at,
)
from deeppqr.worlds import KnownCostBus

LAW = MileageIncrements(bins=20, first=1, after_replacement="first")
THETA = np.array([4.0, 0.7])


def costs(states):
    """Keeping costs theta per mile, replacing RC."""
    features = np.zeros((len(states), 2, 2))
    features[:, 0, 1] = -states[:, 0]
    features[:, 1, 0] = -1.0
    return features


FORM = LinearReward(("RC", "theta"), costs)


@pytest.fixture(scope="module")
def bus():
    world = KnownCostBus()
    return world, world.simulate(steps=20_000, units=200, seed=3)


@pytest.fixture(scope="module")
def problem(bus):
    return NFXP(0.95, FORM, LAW).problem(bus[1])


def central(function, at, size=1e-5):
    """Slopes by central differences, one column per argument."""
    columns = []
    for place in range(len(at)):
        step = np.zeros(len(at))
        step[place] = size
        columns.append((function(at + step) - function(at - step)) / (2 * size))
    return np.stack(columns, axis=-1)


def test_the_gradient_is_that_of_finite_differences(problem):
    inner = Inner(problem)
    likelihood = lambda theta: inner.choices(theta).point(problem.counts).log_likelihood
    slope = central(likelihood, THETA)
    found = inner.choices(THETA).point(problem.counts).gradient
    # Rounding of a likelihood near 1e4, divided by the step of 1e-5.
    np.testing.assert_allclose(found, slope, rtol=1e-6, atol=1e-16 * 1e4 / 1e-5 * 50)


def test_scores_are_slopes_of_the_log_policy(problem):
    slope = central(lambda theta: solve_at(problem, theta).log_policy, THETA)
    np.testing.assert_allclose(Inner(problem).choices(THETA).score, slope, atol=1e-7)


def test_the_joint_gradient_is_that_of_finite_differences(problem):
    law = problem.law
    size = len(THETA)

    def likelihood(parameters):
        moved = law.at(complete_shares(parameters[size:]))
        shifted = replace(problem, law=moved)
        choices = joint_choices(shifted, parameters[:size])
        return choices.point(problem.counts).log_likelihood + moved.log_likelihood

    at = np.concatenate([THETA, [0.2, 0.3, 0.26]])
    shares = complete_shares(at[size:])
    found = joint_choices(replace(problem, law=law.at(shares)), THETA)
    gradient = found.point(problem.counts).gradient
    gradient[size:] += share_terms(law, shares)[0]
    np.testing.assert_allclose(gradient, central(likelihood, at), rtol=1e-6, atol=1e-3)


def test_newton_kantorovich_is_long_value_iteration(problem):
    solution = solve_at(problem, THETA)
    reward = problem.known + problem.design @ THETA
    sweeps = 600  # 0.95^600 = 4e-14 of values near 50
    value = oracles.value_iteration(reward, problem.law.transition, 0.95, 1.0, sweeps)
    np.testing.assert_allclose(solution.value, value, atol=1e-10)


def test_a_start_changes_nothing_but_the_number_of_steps(problem):
    cold = solve_at(problem, THETA)
    warm = solve_at(problem, THETA, start=cold.value + 0.1)
    np.testing.assert_allclose(warm.value, cold.value, atol=1e-10)
    assert warm.num_steps < cold.num_steps


def test_an_optimal_policy_values_itself(problem):
    """Hotz and Miller's representation at the optimum is the optimum's Q."""
    solution = solve_at(problem, THETA)
    values = value_policy(problem, solution.log_policy)
    np.testing.assert_allclose(values.q(THETA), solution.q, atol=1e-10)


def test_a_small_change_of_policy_has_no_effect_to_first_order(problem):
    """The zero Jacobian of Aguirregabiria and Mira, on which the standard errors rest."""
    solution = solve_at(problem, THETA)
    tilt = np.linspace(-1, 1, len(solution.value))[:, None] * np.array([1.0, -1.0])

    def q(size):
        tilted = solution.log_policy + size[0] * tilt
        tilted -= np.log(np.exp(tilted).sum(axis=1, keepdims=True))
        return value_policy(problem, tilted).q(THETA)

    slope = central(q, np.zeros(1), size=1e-4)
    np.testing.assert_allclose(slope, 0.0, atol=1e-5)


def test_the_slope_in_the_law_is_that_of_finite_differences(problem):
    """Cross information of theta and a share, against a policy solved at moved shares."""
    law = problem.law
    solution, choices = Inner(problem).solve(THETA)
    tilt = np.array([1.0, 0.0, 0.0, -1.0])
    moved = lambda size: replace(problem, law=law.at(law.shares + size[0] * tilt))
    along = central(lambda size: solve_at(moved(size), THETA).log_policy, np.zeros(1))
    mass = problem.counts.sum(axis=1, keepdims=True) * choices.policy
    expected = np.einsum("sa,sak,sa->k", mass, choices.score, along[:, :, 0])
    slope = law_slope(problem, choices, choices.policy)
    ahead = np.tensordot(tilt, law.moves, axes=1) @ solution.value
    found = np.einsum("sa,sak->k", ahead, slope)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize(
    "estimator",
    [
        NFXP(0.95, FORM, LAW),
        NFXP(0.95, FORM, LAW, full=True),
        HotzMiller(0.95, FORM, LAW),
        NPL(0.95, FORM, LAW),
        TDCCP(0.95, FORM),
    ],
    ids=["nfxp", "full", "ccp", "npl", "tdccp"],
)
def test_the_truth_is_within_four_standard_errors(bus, estimator):
    world, panel = bus
    fit = estimator.fit(panel)
    assert (np.abs(fit.theta - [5.0, 1.0]) < 4 * fit.standard_errors).all()
    by_unit = np.sqrt(np.diag(fit.clustered_covariance))
    # Units are independent and alike: both kinds of error estimate the same.
    np.testing.assert_allclose(by_unit, fit.standard_errors, rtol=0.25)
    states = np.array([[1.0], [4.0]])
    np.testing.assert_allclose(fit.reward(states), world.reward(states), atol=0.5)
    np.testing.assert_allclose(fit.log_policy(states), world.log_policy(states), atol=0.1)
    gap = lambda q: q[:, 0] - q[:, 1]
    np.testing.assert_allclose(gap(fit.q(states)), gap(world.q(states)), atol=0.2)
    np.testing.assert_allclose(
        fit.value(states), np.log(np.exp(fit.q(states)).sum(axis=1)), rtol=1e-12
    )
    assert fit.given == "the form of the reward"


def test_npl_rests_at_nfxp(bus):
    nfxp, npl = (kind(0.95, FORM, LAW).fit(bus[1]) for kind in (NFXP, NPL))
    np.testing.assert_allclose(npl.theta, nfxp.theta, atol=1e-5)
    np.testing.assert_allclose(npl.covariance, nfxp.covariance, rtol=1e-4)


def test_the_full_likelihood_is_at_least_that_of_two_steps(bus, problem):
    two = NFXP(0.95, FORM, LAW).fit(bus[1])
    full = NFXP(0.95, FORM, LAW, full=True).fit(bus[1])
    assert full.full_log_likelihood >= two.full_log_likelihood
    assert full.shares.sum() == pytest.approx(1, abs=1e-12)
    _, theta, _ = maximise_jointly(problem, two.theta, ["RC", "theta"], max_steps=50)
    np.testing.assert_allclose(theta, full.theta, atol=1e-6)


@pytest.mark.parametrize("kind", [NFXP, TDCCP])
def test_standard_errors_are_those_of_the_jackknife(kind):
    """Leaving one bus out at a time counts every step, the law's and the basis's too."""
    panel = KnownCostBus().simulate(steps=4_000, units=40, seed=5)
    estimator = TDCCP(0.95, FORM) if kind is TDCCP else NFXP(0.95, FORM, LAW)
    full = estimator.fit(panel)
    left = [estimator.fit(panel.select(panel.unit != unit)).theta for unit in range(40)]
    spread = (np.array(left) - np.mean(left, axis=0)) * np.sqrt(39 / 40)
    jackknife = np.sqrt((spread**2).sum(axis=0))
    by_unit = np.sqrt(np.diag(full.clustered_covariance))
    # They agree up to terms of the order of one unit in forty, and its root.
    np.testing.assert_allclose(by_unit, jackknife, rtol=1 / np.sqrt(40))


def test_a_known_replacement_cost_is_not_estimated(bus):
    world, panel = bus
    form = replace(FORM, fixed={"RC": 5.0})
    fit = NFXP(0.95, form, LAW).fit(panel)
    free = NFXP(0.95, FORM, LAW).fit(panel)
    assert fit.theta[0] == 5.0
    assert fit.standard_errors[0] == 0.0
    assert fit.standard_errors[1] < free.standard_errors[1]
    assert abs(fit.theta[1] - 1) < 4 * fit.standard_errors[1]
    assert fit.given == "the form of the reward, RC = 5"
    assert "fixed     RC = 5" in fit.summary()
    error = fit.reward(panel.state) - world.reward(panel.state)
    assert np.abs(error / world.reward(panel.state)).mean() < 0.02


def test_a_known_law_is_said_and_has_no_first_step(bus):
    world, panel = bus
    states = np.arange(1.0, 21.0)[:, None]
    fit = NFXP(0.95, FORM, KnownLaw(states, world.mdp.transition)).fit(panel)
    assert fit.given == "the form of the reward, the transitions"
    counted = NFXP(0.95, FORM, LAW).fit(panel)
    assert (fit.standard_errors < counted.standard_errors).all()
    assert fit.shares.size == 0
    shuffled = np.random.default_rng(0).permutation(20)
    table = world.mdp.transition[shuffled][:, :, shuffled]
    again = NFXP(0.95, FORM, KnownLaw(states[shuffled], table)).fit(panel)
    np.testing.assert_allclose(again.theta, fit.theta, rtol=1e-8)


def test_a_saturated_reward_is_the_exact_one(tabular):
    """With a parameter per state and action NFXP is PQR's exact solution on counts."""
    world, panel = tabular
    known = world.mdp.reward[:, 0]

    def indicators(states):
        cell = states[:, 0].astype(int)
        features = np.zeros((len(states), 3, 15))
        features[:, 0, 0] = known[cell]
        for action in (1, 2):
            features[np.arange(len(states)), action, 1 + 7 * (action - 1) + cell] = 1.0
        return features

    names = ("anchor", *(f"r({s},{a})" for a in (1, 2) for s in range(7)))
    form = LinearReward(names, indicators, fixed={"anchor": 1.0})
    fit = NFXP(world.discount, form, temperature=world.temperature).fit(panel)
    solution = exact(
        np.log(oracles.frequency_table(panel, 7)),
        CountedLaw().fit(panel)[1].transition,
        discount=world.discount,
        temperature=world.temperature,
        anchor=0,
        anchor_reward=known,
    )
    np.testing.assert_allclose(fit.reward(world.states), solution.reward, atol=1e-5)
    np.testing.assert_allclose(fit.q(world.states), solution.q, atol=1e-4)
    truth = np.append(1.0, world.mdp.reward[:, 1:].T.ravel())
    error = np.abs(fit.theta - truth)[1:]
    assert (error < 4 * fit.standard_errors[1:]).all()


def test_counting_is_that_of_the_oracle(tabular):
    world, panel = tabular
    rows = panel.select(panel.has_next)
    cells, law = CountedLaw().fit(panel)
    np.testing.assert_array_equal(cells.states, world.states)
    expected = oracles.empirical_transition(rows, 7)
    np.testing.assert_allclose(law.transition, expected, atol=1e-12)


def test_without_a_future_it_is_a_logit(bus):
    """At discount zero no law matters, and every method is the same logit."""
    fits = [
        NFXP(0.0, FORM, LAW).fit(bus[1]),
        HotzMiller(0.0, FORM, LAW).fit(bus[1]),
        NPL(0.0, FORM, LAW).fit(bus[1]),
        TDCCP(0.0, FORM).fit(bus[1]),
    ]
    for fit in fits[1:]:
        np.testing.assert_allclose(fit.theta, fits[0].theta, atol=1e-6)
        np.testing.assert_allclose(fit.covariance, fits[0].covariance, rtol=1e-5)


@pytest.mark.parametrize("kind", [NFXP, HotzMiller, TDCCP])
def test_rewards_scale_with_the_temperature(bus, kind):
    """Twice the temperature, twice the reward: the same choices, the same precision."""
    law: dict[str, Any] = {} if kind is TDCCP else {"law": LAW}
    one, two = (kind(0.95, FORM, temperature=a, **law).fit(bus[1]) for a in (1.0, 2.0))
    np.testing.assert_allclose(two.theta, 2 * one.theta, rtol=1e-6)
    np.testing.assert_allclose(two.covariance, 4 * one.covariance, rtol=1e-5)
    np.testing.assert_allclose(
        two.clustered_covariance, 4 * one.clustered_covariance, rtol=1e-5
    )
    assert two.log_likelihood == pytest.approx(one.log_likelihood, rel=1e-9)


@pytest.mark.parametrize("kind", [NFXP, TDCCP])
def test_a_weight_of_two_is_two_units(kind):
    panel = KnownCostBus().simulate(steps=2_000, units=20, seed=7)
    state, action, after = (
        panel.state,
        np.array(panel.actions)[panel.action],
        panel.next_state,
    )
    twice = panel.unit < 10
    weighted = Panel.from_arrays(state, action, after, unit=panel.unit, weight=1.0 + twice)
    both = lambda x: np.concatenate([x, x[twice]])
    unit = np.concatenate([panel.unit, 100 + panel.unit[twice]])
    doubled = Panel.from_arrays(both(state), both(action), both(after), unit=unit)
    estimator = NFXP(0.95, FORM, LAW) if kind is NFXP else TDCCP(0.95, FORM, knots=1)
    np.testing.assert_allclose(
        estimator.fit(weighted).theta, estimator.fit(doubled).theta, rtol=1e-5
    )


def test_increments_cut_short_by_the_last_bin_do_not_count():
    state = np.array([0.0, 1.0, 2.0, 2.0, 0.0, 1.0])
    after = np.array([1.0, 2.0, 2.0, 0.0, 1.0, 1.0])
    action = ["keep", "keep", "keep", "replace", "keep", "keep"]
    panel = Panel.from_arrays(state, action, after, state_names=["bin"])
    _, law = MileageIncrements(bins=3).fit(panel)
    # From 2, the last bin, a rise by 1 would not be seen; a new engine counts.
    assert law.counts.sum(axis=0).tolist() == [2.0, 3.0]
    np.testing.assert_allclose(law.transition.sum(axis=2), 1.0)
    np.testing.assert_allclose(law.transition[2, 0], [0, 0, 1])
    np.testing.assert_allclose(law.transition[2, 1], [0.4, 0.6, 0])


@pytest.mark.parametrize(
    ("form", "slope"),
    [
        ("linear", [0.003]),
        ("square root", [0.02]),
        ("quadratic", [0.003, 9e-5]),
        ("cubic", [0.003, 9e-5, 27e-7]),
        ("hyperbolic", [0.1 / 87]),
    ],
)
def test_cost_functions(form, slope):
    features = bus_costs(form).features(np.array([[3.0]]))
    np.testing.assert_allclose(features[0, 0], [0.0, *(-s for s in slope)], rtol=1e-12)
    assert features[0, 1, 0] == -1.0


def test_estimates_show_theta_and_shares(bus):
    fit = NFXP(0.95, FORM, LAW).fit(bus[1])
    table = fit.estimates()
    assert table.names == ("RC", "theta", *(f"share +{j}" for j in (1, 2, 3, 4)))
    np.testing.assert_allclose(table.standard_errors[:2], fit.standard_errors)
    share = fit.shares
    total = np.sum(LAW.fit(bus[1])[1].counts)
    np.testing.assert_allclose(
        table.standard_errors[2:], np.sqrt(share * (1 - share) / total), rtol=1e-10
    )
    assert "clustered by unit" in fit.estimates(clustered=True).note
    assert "scoring steps" in fit.summary()
    assert repr(fit).startswith("StructuralFit(method='NFXP, two steps', RC=")


MESSAGES = [
    (
        lambda panel: NFXP(0.95, FORM).fit(panel),
        "Counting needs every action taken in every state",
    ),
    (
        lambda panel: NFXP(
            0.95,
            FORM,
            full=True,
            law=KnownLaw(np.arange(1.0, 21)[:, None], KnownCostBus().mdp.transition),
        ).fit(panel),
        "needs law=MileageIncrements",
    ),
    (lambda panel: NFXP(1.0, FORM), r"`discount` must lie in \[0, 1\)"),
    (
        lambda panel: replace(FORM, fixed={"R": 1.0}),
        r"may name the parameters \['RC', 'theta'\], but it names 'R'",
    ),
    (
        lambda panel: replace(FORM, fixed={"RC": 1.0, "theta": 1.0}),
        "there is nothing to estimate",
    ),
    (
        lambda panel: bus_costs("cosine"),
        "`form` must be one of .*'hyperbolic'.*, but it is 'cosine'",
    ),
    (
        lambda panel: NFXP(0.9, LinearReward(("RC",), costs), LAW).fit(panel),
        r"each of the 1 parameters \[.RC.\], but the function returned 2",
    ),
    (
        lambda panel: NFXP(0.9, LinearReward(("a", "b"), lambda s: 0 * costs(s)), LAW).fit(
            panel
        ),
        "Nothing in the data depends on 'a' \\(2 such",
    ),
    (
        lambda panel: NFXP(
            0.9, LinearReward(("a", "b"), lambda s: costs(s)[:, :, [0, 0]]), LAW
        ).fit(panel),
        r"\['a', 'b'\] cannot be told apart",
    ),
    (
        lambda panel: NFXP(
            0.9, LinearReward(("a", "b"), lambda s: costs(s) / 0.0), LAW
        ).fit(panel),
        "`features` must be finite",
    ),
    (
        lambda panel: MileageIncrements(after_replacement="x"),
        'must be "increment" or "first"',
    ),
    (lambda panel: MileageIncrements(bins=1), "`bins` must be at least 2"),
    (
        lambda panel: MileageIncrements(bins=20, first=1, counts=np.ones((3, 2))).fit(
            panel
        ),
        "for each of the 200 units",
    ),
    (
        lambda panel: MileageIncrements(
            bins=20, first=1, keep="replace", replace="keep"
        ).fit(panel),
        "Mileage must not fall",
    ),
    (
        lambda panel: MileageIncrements(bins=20, first=1, keep="stay").fit(panel),
        r"`keep` must be one of the actions",
    ),
    (
        lambda panel: KnownLaw(np.zeros((2, 1)), np.ones((2, 2, 2)) / 2).fit(panel),
        "its table of states has 2 rows, 1 of them distinct",
    ),
    (lambda panel: TDCCP(0.9, FORM, knots=0), "`knots` must be at least 1"),
    (lambda panel: NFXP(0.9, FORM).fit("x"), "needs a Panel"),  # pyright: ignore[reportArgumentType]
]


@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")
@pytest.mark.parametrize(("act", "message"), MESSAGES)
def test_refusals_speak(bus, act, message):
    with pytest.raises(DataError, match=message):
        act(bus[1])


def test_terminal_rows_are_refused():
    state = np.array([0.0, 1.0])
    panel = Panel.from_arrays(
        state, ["keep", "replace"], [1.0, np.nan], terminal=[False, True]
    )
    for act in (LAW.fit, TDCCP(0.9, bus_costs(), policy="logit").fit):
        with pytest.raises(DataError, match="1 rows are terminal"):
            act(panel)
