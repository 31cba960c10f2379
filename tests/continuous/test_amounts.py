"""Fits over amounts: identities that hold exactly, recovery of known worlds, messages."""

import warnings

import numpy as np
import pytest

import deeppqr
from deeppqr import Box, Mixed, Panel

BOTH = pytest.mark.parametrize("name", ["control", "invested"])


@BOTH
def test_densities_have_mass_one(name, request):
    """Gauss-Legendre with other nodes than the fit's own: integrals are to its accuracy."""
    world, fit = request.getfixturevalue(name)
    states = world.panel.state[::400]
    nodes = fit.space.nodes(67)
    mass = sum(
        weight * np.exp(fit.log_policy(states, action))
        for action, weight in zip(nodes.action, nodes.weight, strict=True)
    )
    np.testing.assert_allclose(mass, 1.0, atol=1e-9)


@BOTH
def test_q_less_log_density_is_the_value_at_every_action(name, request):
    world, fit = request.getfixturevalue(name)
    states, actions = world.taken
    value = fit.value(states)
    left = fit.q(states, actions) - fit.temperature * fit.log_policy(states, actions)
    np.testing.assert_allclose(left, value, atol=1e-9)
    table = fit.q(states) - fit.temperature * fit.log_policy(states)
    np.testing.assert_allclose(
        table, np.repeat(value[:, None], table.shape[1], 1), atol=1e-9
    )


@BOTH
def test_the_anchor_earns_its_reward_without_error(name, request):
    world, fit = request.getfixturevalue(name)
    states = world.panel.state
    np.testing.assert_allclose(
        fit.reward(states, 0.0), world.anchor_reward(states), atol=1e-9
    )
    np.testing.assert_allclose(fit.standard_errors(states, 0.0), 0.0, atol=1e-9)
    low, high = fit.interval(states, world.panel.amount, level=0.9)
    assert (low <= fit.reward(states, world.panel.amount)).all()
    assert (high >= fit.reward(states, world.panel.amount)).all()


@BOTH
def test_the_grid_is_what_single_actions_say(name, request):
    world, fit = request.getfixturevalue(name)
    states = world.panel.state[::500]
    assert fit.anchor == 0.0
    for of in (fit.reward, fit.q, fit.log_policy, fit.standard_errors):
        table = of(states)
        for place, action in enumerate(fit.actions):
            np.testing.assert_allclose(table[:, place], of(states, action), atol=1e-9)


@BOTH
def test_rewards_are_affine_in_the_temperature(name, request):
    """r = alpha r_pi + r_g with r_g of g alone, and the density does not change."""
    world, fit = request.getfixturevalue(name)
    states, actions = world.taken
    one, two, three = (
        fit.at_temperature(each).reward(states, actions) for each in (1.0, 2.0, 3.0)
    )
    np.testing.assert_allclose(three - two, two - one, atol=1e-8)
    warm = fit.at_temperature(3.0)
    np.testing.assert_allclose(warm.log_policy(states), fit.log_policy(states))
    np.testing.assert_allclose(
        warm.reward(states, 0.0), world.anchor_reward(states), atol=1e-8
    )
    earned = np.average(two)
    assert fit.select_temperature(world.panel, average=earned) == pytest.approx(2.0)


@BOTH
def test_rewards_of_exact_worlds_are_within_their_errors(name, request):
    """No reward of a decision is farther from the truth than four standard errors.

    Coefficients are few, so that errors of thousands of decisions are nearly those of ten
    or so: the largest of these exceeds four with probability below 0.1 %.
    """
    world, fit = request.getfixturevalue(name)
    states, actions = world.taken
    error = fit.reward(states, actions) - world.reward(states, actions)
    spread = fit.standard_errors(states, actions)
    some = spread > 1e-9
    assert np.abs(error[some] / spread[some]).max() < 4
    # Of the reward beyond the anchor's, which is known, next to nothing is left.
    beyond = world.reward(states, actions) - world.anchor_reward(states)
    assert np.mean(error**2) < 0.02 * np.mean(beyond**2)


@BOTH
def test_the_density_is_nearly_the_true_one(name, request):
    """Its mean log falls short of the truth's by a coefficient's half nat each, in all."""
    world, fit = request.getfixturevalue(name)
    states, actions = world.taken
    gap = fit.log_policy(states, actions) - world.log_density(states, actions)
    # Ten or so coefficients: 2 (gap) is chi-squared, below 35 in sum but for one in 10^4.
    assert abs(gap.sum()) < 17.5


def test_without_a_future_the_reward_is_q(invested):
    world, _ = invested
    fit = world.fit(discount=0.0, anchor_reward=0.0)
    states, actions = world.taken
    np.testing.assert_allclose(
        fit.reward(states, actions), fit.q(states, actions), atol=1e-9
    )


def test_counting_amounts_in_another_unit_changes_no_reward(invested):
    """The box's mass is one whatever its length: only a density per unit changes."""
    world, fit = invested
    panel, (states, amounts) = world.panel, world.taken
    cents = Panel.from_arrays(
        states,
        100 * amounts,
        panel.next_state,
        unit=panel.unit,
        actions=Mixed(atoms=[0.0], box=Box(0.0, 1000.0)),
    )
    again = deeppqr.PQR(
        discount=world.discount, anchor=0.0, anchor_reward=world.anchor_reward
    ).fit(cents)
    np.testing.assert_allclose(
        again.reward(states, 100 * amounts), fit.reward(states, amounts), atol=1e-6
    )
    assert again.space
    assert again.space.log_volume - fit.space.log_volume == pytest.approx(np.log(100))


def test_saved_fits_say_the_same(control, tmp_path):
    world, fit = control
    fit.save(tmp_path / "fit")
    loaded = deeppqr.load(tmp_path / "fit", anchor_reward=world.anchor_reward)
    states, actions = world.taken
    for name in ("reward", "q", "log_policy", "standard_errors"):
        np.testing.assert_array_equal(
            getattr(loaded, name)(states, actions), getattr(fit, name)(states, actions)
        )
    assert loaded.space == fit.space
    assert loaded.summary() == fit.summary()


def test_the_summary_states_the_measure(control, invested):
    assert "actions   Box(-3.2, 3.2)   (anchor: 0.0)" in control[1].summary()
    assert "per unit of amount: log density - 1.856" in control[1].summary()
    summary = invested[1].summary()
    assert "measure   mass one on the box and on each atom" in summary
    assert "rewards of amounts against an atom: -2.303" in summary
    frame = invested[1].predict(invested[0].panel.state[:2])
    assert "density_10.0" in frame.columns


def test_diagnostics_speak_of_amounts(control, invested):
    for _, fit in (control, invested):
        assert [figure.name for figure in fit.diagnostics.warnings] == []
        assert (
            "beyond a histogram of all actions" in fit.diagnostics["held_out_gain"].meaning
        )
    near = control[1].diagnostics["anchor_share"]
    assert "lie within 17% of the box's length of the anchor" in near.meaning
    assert "the anchor was taken in" in invested[1].diagnostics["anchor_share"].meaning


def test_decisions_at_a_bound_are_pointed_out(control):
    world, _ = control
    states, actions = world.taken
    # Half of those beyond two are cut off there, a little apart so that none is an atom.
    rng = np.random.default_rng(1)
    cut = np.where(actions > 0.4, 0.4 - rng.uniform(0, 1e-4, actions.shape), actions)
    panel = Panel.from_arrays(
        states, cut, world.panel.next_state, unit=world.panel.unit, actions=Box(-3.2, 0.4)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = deeppqr.PQR(discount=0.9, anchor=0.0).fit(panel)
    edges = fit.diagnostics["edge_share"]
    assert edges.verdict == "trouble"
    assert "Mixed(atoms=[...]" in edges.advice


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"anchor": 9.0}, deeppqr.DataError, r"`anchor` must be an action of Box\(-3\.2, 3\.2\), but 9\.0 arrived"),
        ({"anchor": "wait"}, deeppqr.DataError, r"`anchor` must be an action of Box.*'wait' arrived"),
        ({"anchor": [0.0, 1.0]}, deeppqr.DataError, r"`anchor` must be one action of Box"),
        ({"policy": "logit"}, deeppqr.DataError, r"estimated together, but policy='logit' arrived"),
        ({"reward": "table"}, deeppqr.DataError, r"but reward='table' arrived.*panel\.binned"),
        ({"clip": 0.1}, deeppqr.DataError, r"but clip=0\.1 arrived"),
    ],
)  # fmt: skip
def test_settings_that_do_not_go_with_amounts_are_refused(
    control, settings, error, message
):
    with pytest.raises(error, match=message):
        control[0].fit(**settings)


def test_an_anchor_that_nobody_comes_near_is_refused(control):
    world, _ = control
    states, actions = world.taken
    wide = Panel.from_arrays(
        states, actions, world.panel.next_state, unit=world.panel.unit, actions=Box(-4, 30)
    )
    with pytest.raises(
        deeppqr.AnchorNeverTaken, match=r"near the anchor 20\.0: the nearest of [\d,]+ is \d\.\d+, and near is within 5\.67"
    ):  # fmt: skip
        deeppqr.PQR(discount=0.9, anchor=20.0).fit(wide)
    unseen = np.where(np.abs(actions) < 1.1, np.nan, world.panel.next_state)
    blind = Panel.from_arrays(
        states, actions, unseen, unit=world.panel.unit, actions=world.panel.space
    )
    with pytest.raises(
        deeppqr.AnchorNeverTaken, match=r"in none of them is the next state"
    ):
        deeppqr.PQR(discount=0.9, anchor=0.0).fit(blind)


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        (9.0, r"`actions` must be actions of Box.*row 0 has 9\.0 \(1 row in all\)"),
        ([1.0, 2.0], r"one action for each state, or one for all, but there are 2 for 3 states"),
        (["a", "b", "c"], r"`actions` must be actions of Box"),
        (np.zeros((3, 2)), r"with 1 number each, but an array of shape \(3, 2\)"),
        ([0.0, np.nan, 1.0], r"`actions` must be actions of Box"),
    ],
)  # fmt: skip
def test_actions_that_are_none_are_refused(control, actions, message):
    world, fit = control
    with pytest.raises(deeppqr.DataError, match=message):
        fit.reward(world.panel.state[:3], actions)


def test_what_needs_finitely_many_actions_says_so(control, paper):
    panel = control[0].panel
    with pytest.raises(
        deeppqr.DataError, match=r"finitely many.*Box\(-3\.2, 3\.2\)\. Group them"
    ):
        deeppqr.baselines.MaxEntIRL().fit(panel)
    with pytest.raises(deeppqr.DataError, match=r"finitely many.*panel\.binned"):
        control[1].counterfactual(panel, {"x1": [0.0]})
    _, finite = paper
    fit = deeppqr.PQR(discount=0.9, anchor=0, reward="linear", policy="logit").fit(finite)
    with pytest.raises(deeppqr.DataError, match=r"`actions` are for fits over amounts"):
        fit.reward(finite.state[:3], 0)


def test_a_reward_that_is_linear_in_features_is_found_as_it_is(control):
    """r - g = -a^2: the projection's coefficients are (0, -1) within their errors."""
    world, fit = control
    form = lambda states, actions: np.column_stack([actions, actions**2])
    found = fit.project(form, world.panel, names=["a", "a^2"])
    assert (np.abs(found.theta - [0.0, -1.0]) < 4 * found.standard_errors).all()
    assert "left unexplained" in found.summary()
    states, actions = world.taken
    # At the fitted reward itself nothing is left, and the errors are the reward's.
    own = lambda states, actions: fit.reward(states, actions) - world.anchor_reward(states)
    one = fit.project(own, world.panel)
    np.testing.assert_allclose(one.theta, 1.0, atol=1e-9)
    line = fit.project(lambda s, a: a, world.panel)
    slope = actions[:, 0]
    exact = slope @ (fit.reward(states, actions) - world.anchor_reward(states))
    np.testing.assert_allclose(line.theta, exact / (slope @ slope), atol=1e-9)


@pytest.mark.parametrize(
    ("features", "options", "message"),
    [
        (["1"], {}, r"`features` must be a function of the states and the actions"),
        (lambda s, a: 1 + a, {}, r"must be zero at the anchor 0\.0.*feature 0 is up to 1"),
        (lambda s, a: a[:3], {}, r"a row of numbers for each state and action, [\d,]+, but"),
        (lambda s, a: np.column_stack([a, 2 * a]), {}, r"2 features are collinear"),
        (lambda s, a: a / 0.0, {}, r"`features` must be finite, but row"),
        (lambda s, a: a, {"names": ["a", "b"]}, r"one for each of 1 feature, but there are 2"),
    ],
)  # fmt: skip
def test_features_over_amounts_are_checked(control, features, options, message):
    world, fit = control
    with np.errstate(all="ignore"), pytest.raises(deeppqr.DataError, match=message):
        fit.project(features, world.panel, **options)
