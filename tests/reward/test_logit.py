"""The kernels under joint estimation: the logit, its features, the choices, the levels."""

from dataclasses import replace

import jax.random as jr
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import log_softmax

import deeppqr
from deeppqr.learners._basis import Indicators
from deeppqr.reward import (
    Joint,
    Linear,
    _complexity,
    _decisions,
    _departure,
    _joint,
    _reward_basis,
    _ridge_logit,
)
from deeppqr.reward._ridge_logit import FREE

few = settings(max_examples=12, deadline=None)
seeds = st.integers(0, 10_000)


def draw_choices(seed, *, rows=400, actions=3, features=4, weighted=False):
    """Choices of a known logit; its coefficients are of the order of one."""
    rng = np.random.default_rng(seed)
    design = rng.normal(size=(rows, actions, features))
    offset = rng.normal(size=(rows, actions)) / 2
    theta = rng.normal(size=features)
    action = (design @ theta + offset + rng.gumbel(size=offset.shape)).argmax(axis=1)
    weight = rng.exponential(size=rows) if weighted else np.ones(rows)
    return _ridge_logit.Choices(design, offset, action, weight), theta


def total(choices, theta, penalty=0.0):
    return choices.weight @ choices.chosen(theta) - 0.5 * np.sum(penalty * theta**2)


# Newton stops where a step would gain less than 1e-3 nats and takes that step: what is
# left is of the order of (1e-3)^2 / rows relative to the information, 1e-4 with room.
NEWTON = 1e-4


@few
@given(seed=seeds)
def test_derivatives_are_those_of_the_likelihood(seed):
    choices, theta = draw_choices(seed, rows=50, weighted=True)
    gradient, hessian = choices.derivatives(theta)
    step, each = 1e-5, np.eye(len(theta))
    slopes = [
        (total(choices, theta + step * e) - total(choices, theta - step * e)) / (2 * step)
        for e in each
    ]
    # Central differences of a sum of 50: rounding 1e-14 * 50 / 1e-5, curvature 1e-10 * 50.
    np.testing.assert_allclose(gradient, slopes, atol=1e-6)
    bends = [
        (
            choices.derivatives(theta - step * e)[0]
            - choices.derivatives(theta + step * e)[0]
        )
        / (2 * step)
        for e in each
    ]
    # The Hessian carries 1e-9 (1 + itself) on its diagonal, so that a solve never fails.
    np.testing.assert_allclose(hessian, bends, atol=1e-6, rtol=1e-6)


@few
@given(seed=seeds, weighted=st.booleans())
def test_without_penalties_it_is_maximum_likelihood(seed, weighted):
    choices, _ = draw_choices(seed, weighted=weighted)
    fit = _ridge_logit.fit_ridge_logit(choices, np.full(4, FREE))
    oracle = minimize(
        lambda theta: -total(choices, theta),
        np.zeros(4),
        jac=lambda theta: -choices.derivatives(theta)[0],
        method="BFGS",
        options={"gtol": 1e-7},
    )
    np.testing.assert_allclose(fit.theta, oracle.x, atol=NEWTON)
    mean = -oracle.fun / choices.weight.sum()
    assert fit.log_likelihood == pytest.approx(mean, abs=1e-7)
    assert len(fit.penalty) == len(fit.effective) == 0


@few
@given(seed=seeds, size=st.floats(0.1, 5.0))
def test_any_start_leads_to_the_same_maximum(seed, size):
    """The likelihood is concave. Free coefficients: penalties have their own tolerance."""
    choices, _ = draw_choices(seed)
    free = np.full(4, FREE)
    fit = _ridge_logit.fit_ridge_logit(choices, free)
    elsewhere = replace(fit, theta=size * np.random.default_rng(seed).normal(size=4))
    again = _ridge_logit.fit_ridge_logit(choices, free, start=elsewhere)
    np.testing.assert_allclose(again.theta, fit.theta, atol=NEWTON)


@few
@given(seed=seeds)
def test_the_penalised_gradient_is_zero(seed):
    choices, _ = draw_choices(seed)
    group = np.array([0, 0, 1, FREE])
    fit = _ridge_logit.fit_ridge_logit(choices, group)
    penalty = np.append(fit.penalty, 0.0)[group]
    gradient = choices.derivatives(fit.theta)[0] - penalty * fit.theta
    # The information of 400 choices is about 100 a coefficient, times NEWTON.
    np.testing.assert_allclose(gradient, 0.0, atol=100 * NEWTON)


@few
@given(seed=seeds)
def test_weights_of_two_are_rows_twice(seed):
    choices, _ = draw_choices(seed)
    twice = np.random.default_rng(seed).random(400) < 0.5
    weighted = replace(choices, weight=1.0 + twice)
    repeated = choices.select(np.append(np.arange(400), np.flatnonzero(twice)))
    group = np.array([0, 0, 1, FREE])
    one, other = (_ridge_logit.fit_ridge_logit(c, group) for c in (weighted, repeated))
    # The same steps in another order of summation.
    np.testing.assert_allclose(one.theta, other.theta, atol=1e-9)
    np.testing.assert_allclose(one.penalty, other.penalty, rtol=1e-6)


@few
@given(seed=seeds)
def test_the_order_of_rows_and_alternatives_does_not_matter(seed):
    choices, _ = draw_choices(seed)
    rng = np.random.default_rng(seed)
    rows, order = rng.permutation(400), rng.permutation(3)
    mixed = choices.select(rows)
    mixed = replace(
        mixed,
        design=mixed.design[:, order],
        offset=mixed.offset[:, order],
        action=np.argsort(order)[mixed.action],
    )
    group = np.array([0, 0, 1, FREE])
    one, other = (_ridge_logit.fit_ridge_logit(c, group) for c in (choices, mixed))
    np.testing.assert_allclose(one.theta, other.theta, atol=1e-9)


@few
@given(seed=seeds, shift=st.floats(-5, 5))
def test_what_all_alternatives_share_says_nothing(seed, shift):
    """Adding a number to every alternative of a row leaves the choice as it was."""
    choices, theta = draw_choices(seed)
    shared = np.random.default_rng(seed).normal(size=(400, 1, 4))
    moved = replace(choices, design=choices.design + shared, offset=choices.offset + shift)
    np.testing.assert_allclose(moved.chosen(theta), choices.chosen(theta), atol=1e-12)
    one, other = (
        _ridge_logit.fit_ridge_logit(c, np.full(4, FREE)) for c in (choices, moved)
    )
    np.testing.assert_allclose(one.theta, other.theta, atol=1e-6)


@pytest.mark.parametrize("seed", range(6))
def test_a_group_of_noise_is_shrunk_away_and_a_signal_is_not(seed):
    """Of 3 coefficients of noise about one survives (a penalty is one number fitted to
    them); of 3 real ones, all do."""
    rng = np.random.default_rng(seed)
    design = rng.normal(size=(4_000, 3, 6))
    theta = np.array([1.0, -1.0, 0.5, 0.0, 0.0, 0.0])
    action = (design @ theta + rng.gumbel(size=(4_000, 3))).argmax(axis=1)
    choices = _ridge_logit.Choices(design, np.zeros((4_000, 3)), action, np.ones(4_000))
    fit = _ridge_logit.fit_ridge_logit(choices, np.array([0, 0, 0, 1, 1, 1]))
    _, hessian = choices.derivatives(fit.theta)
    error = np.sqrt(np.diag(np.linalg.inv(hessian)))
    assert (np.abs(fit.theta - theta) < 4 * error).all()
    assert fit.effective[0] > 2.9
    # Shrinkage brings noise closer to zero than the unpenalised estimate is.
    free = _ridge_logit.fit_ridge_logit(choices, np.full(6, FREE))
    assert np.linalg.norm(fit.theta[3:]) < np.linalg.norm(free.theta[3:])


def test_noise_alone_reaches_the_largest_penalty():
    """Coefficients smaller than their standard error ask for ever larger penalties."""
    reached = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        design = rng.normal(size=(500, 2, 1))
        choices = _ridge_logit.Choices(
            design, np.zeros((500, 2)), rng.integers(2, size=500), np.ones(500)
        )
        free = _ridge_logit.fit_ridge_logit(choices, np.array([FREE]))
        _, hessian = choices.derivatives(free.theta)
        t = free.theta[0] * np.sqrt(hessian[0, 0])
        fit = _ridge_logit.fit_ridge_logit(choices, np.array([0]))
        if abs(t) < 0.9:  # at |t| = 1 the evidence is flat
            reached += 1
            assert fit.effective[0] < 0.05
            assert abs(fit.theta[0]) < 0.05 * abs(free.theta[0])
        assert np.sign(fit.theta[0]) == np.sign(free.theta[0])
    assert reached >= 3  # |t| < 0.9 has a probability of 0.63


@few
@given(seed=seeds)
def test_held_out_predictions_do_not_see_their_own_fold(seed):
    """Whatever the units of a fold had chosen, their predictions are the same."""
    choices, _ = draw_choices(seed)
    rng = np.random.default_rng(seed)
    fold, free = np.arange(400) % 4, np.full(4, FREE)
    changed = choices.action.copy()
    changed[fold == 2] = rng.integers(3, size=100)
    found = []
    for action in (choices.action, changed):
        told = replace(choices, action=action)
        fit = _ridge_logit.fit_ridge_logit(told, free)
        found.append(_ridge_logit.held_out_predictor(told, fit, free, fold))
    one, other = found
    # They start from different places; the designs are below 5 and four coefficients add.
    np.testing.assert_allclose(one[fold == 2], other[fold == 2], atol=20 * NEWTON)
    assert np.abs(one - other)[fold != 2].max() > 100 * NEWTON


def test_held_out_predictions_are_those_of_a_fit_without_the_fold():
    choices, _ = draw_choices(1)
    group, fold = np.array([0, 0, 1, FREE]), np.arange(400) % 4
    fit = _ridge_logit.fit_ridge_logit(choices, group)
    found = _ridge_logit.held_out_predictor(choices, fit, group, fold)
    for number in range(4):
        out = fold == number
        alone = _ridge_logit.fit_ridge_logit(choices.select(~out), group)
        # Penalties are found to one per cent, from either start; coefficients are less
        # sensitive by their share of the information, one in a hundred.
        np.testing.assert_allclose(found[out], choices.design[out] @ alone.theta, atol=1e-2)


@few
@given(seed=seeds)
def test_the_better_is_clearly_better_only_one_way(seed):
    rng = np.random.default_rng(seed)
    one, other = rng.normal(size=(2, 50))
    weight = rng.integers(1, 4, size=50)
    forth = _complexity.clearly_better(one, other, weight.astype(float))
    back = _complexity.clearly_better(other, one, weight.astype(float))
    assert not (forth and back)
    assert not _complexity.clearly_better(one, one, np.ones(50))
    assert _complexity.clearly_better(one + 1.0, one, np.ones(50))
    # A weight of three is the row three times.
    repeated = np.repeat(one, weight), np.repeat(other, weight), np.ones(weight.sum())
    assert forth == _complexity.clearly_better(*repeated)


@pytest.fixture(scope="module")
def table():
    world = deeppqr.worlds.random_tabular(4, 3, seed=1)
    panel = world.simulate(steps=1_000, units=25, seed=2)
    return panel, panel.unit % 5


def test_pooling_leaves_the_likelihood_as_it_is(table):
    panel, fold = table
    pooled = _decisions.Decisions.of(panel, fold)
    assert pooled.pooled
    assert len(pooled.action) <= 4 * 3 * 5
    log_prob = log_softmax(np.random.default_rng(0).normal(size=(4, 3)), axis=1)

    def score(state, action):
        return log_prob[state[:, 0].astype(int), action]

    by_row = score(panel.state, panel.action)
    by_cell = score(pooled.state, pooled.action)
    # Sums of a thousand numbers of the order of one.
    assert pooled.weight @ by_cell == pytest.approx(panel.weight @ by_row, abs=1e-9)
    np.testing.assert_array_equal(by_cell[pooled.at], by_row)
    np.testing.assert_array_equal(pooled.fold[pooled.at], fold)
    for number in range(5):
        rows = fold == number
        part = pooled.fold == number
        assert pooled.weight[part].sum() == pytest.approx(panel.weight[rows].sum())


def test_distinct_states_are_not_pooled(paper):
    _, panel = paper
    decisions = _decisions.Decisions.of(panel, panel.unit % 5)
    assert not decisions.pooled
    np.testing.assert_array_equal(decisions.state, panel.state)


@pytest.mark.parametrize("number", [1, 7, 100, 999, 10_000])
def test_thinned_decisions_still_know_their_rows(number, paper):
    _, panel = paper
    decisions = _decisions.Decisions.of(panel, panel.unit % 5)
    few = decisions.thinned(number)
    # Every k-th row, k the whole part of the ratio: fewer than twice as many as asked.
    assert min(number, len(panel)) <= len(few.action) <= max(2 * number, 2)
    np.testing.assert_array_equal(few.state[few.at], panel.state[few.panel_row])
    np.testing.assert_array_equal(few.action[few.at], panel.action[few.panel_row])


@pytest.mark.xfail(
    strict=True, reason="every fifth of the pooled decisions, which are sorted by fold"
)
def test_thinned_decisions_keep_every_fold_and_action(table):
    panel, fold = table
    pooled = _decisions.Decisions.of(panel, fold)
    few = pooled.thinned(len(pooled.action) // 5)
    assert set(few.fold) == set(range(5))
    assert set(few.action) == set(range(3))


@pytest.fixture(scope="module")
def bases(paper):
    """A basis with lines, bends along two directions and random ones."""
    _, panel = paper
    lines = _reward_basis.linear_basis(panel, 0)
    direction = np.eye(3)[:, :2]
    bent = _reward_basis.bends_along(lines, panel.state, direction)
    return panel, lines, _reward_basis.with_random_bends(bent, panel.state, key=jr.key(0))


@few
@given(seed=seeds)
def test_every_feature_is_zero_at_the_anchor(bases, seed):
    panel, _, basis = bases
    state = np.random.default_rng(seed).normal(size=(5, 3))
    assert (basis(state)[:, 0] == 0).all()
    for anchor in range(1, 5):
        other = _reward_basis.linear_basis(panel, anchor)
        assert (other(state)[:, anchor] == 0).all()


def test_bends_say_nothing_that_lines_can_say(bases):
    panel, lines, basis = bases
    dim, columns = 3, basis._columns(panel.state)
    simple, bends = columns[:, : dim + 1], columns[:, dim + 1 :]
    np.testing.assert_allclose(simple, lines._columns(panel.state), atol=1e-12)
    # Normal equations of 6,000 rows whose entries are of the order of one.
    np.testing.assert_allclose(simple.T @ bends / len(panel), 0.0, atol=1e-10)


def test_bends_have_unit_size_on_average(bases):
    panel, _, basis = bases
    bends = basis._columns(panel.state)[:, 4:]
    assert bends.std(axis=0).mean() == pytest.approx(1.0, abs=1e-9)


@few
@given(seed=seeds, unit=st.floats(0.01, 100.0), shift=st.floats(-10, 10))
def test_the_units_of_the_state_do_not_matter(seed, unit, shift):
    """Features are those of the standardised state."""
    rng = np.random.default_rng(seed)
    state, action = rng.normal(size=(60, 2)), rng.integers(3, size=60)
    found = []
    for column in (state, unit * state + shift):
        panel = deeppqr.Panel.from_arrays(column, action, column, unit=np.arange(60) // 6)
        basis = _reward_basis.linear_basis(panel, 0)
        basis = _reward_basis.bends_along(basis, panel.state, np.eye(2)[:, :1])
        found.append(basis(panel.state))
    # A shift of 10 beside a unit of 0.01 costs three digits.
    np.testing.assert_allclose(*found, atol=1e-9)


def test_groups_and_levels_cover_every_feature(bases):
    panel, lines, basis = bases
    width = basis(panel.state[:1]).shape[2]
    assert len(basis.group) == len(basis.level) == len(basis.is_free) == width
    np.testing.assert_array_equal(np.unique(basis.group), np.arange(basis.group.max() + 1))
    assert set(basis.level) == {0, 1, 3, 4}  # no variable has two values
    assert len(lines.pair) == 0
    smooth = basis.without_free_shapes()
    np.testing.assert_array_equal(
        smooth(panel.state[:9]), basis(panel.state[:9])[:, :, ~basis.is_free]
    )
    for apart, groups in zip(_reward_basis.APART, (1, 2, 4), strict=True):
        plain = replace(lines.without_free_shapes(), apart=apart)
        assert len(np.unique(plain.group)) == 2 * groups  # a line and a parabola each


def test_named_actions_have_one_shape_each():
    state = np.random.default_rng(0).normal(size=(40, 1))
    action = np.array(["stay", "left", "right", "jump"])[np.arange(40) % 4]
    panel = deeppqr.Panel.from_arrays(state, action, state, unit=np.arange(40) // 4)
    basis = _reward_basis.linear_basis(panel, panel.action_index("stay"))
    assert basis.shapes.shape == (3, 4)
    assert not basis.is_free.any()
    np.testing.assert_array_equal(basis.shapes.sum(axis=1), 1.0)


def test_numbered_actions_are_smooth_first(bases):
    _, lines, _ = bases
    line, parabola, *free = lines.shapes
    np.testing.assert_allclose(line, np.arange(5) / 4)
    assert line @ parabola == pytest.approx(0.0, abs=1e-12)
    assert np.abs(parabola).max() == pytest.approx(1.0)
    np.testing.assert_array_equal(np.array(free), np.eye(5)[1:])


@few
@given(seed=seeds)
def test_the_steepest_direction_of_a_ridge_is_its_own(bases, seed):
    """r = a f(x'w): every gradient is a multiple of w."""
    panel, lines, _ = bases
    direction = np.random.default_rng(seed).normal(size=3)
    theta = np.zeros((4, len(lines.shapes)))
    theta[1:, 0] = direction  # linear in the standardised state, times the line in a
    found = _reward_basis.steepest_directions(lines, theta.ravel(), panel.state)[:, 0]
    along = found @ direction / np.linalg.norm(found) / np.linalg.norm(direction)
    # Finite differences with steps of 1e-3 of a function that is linear: rounding only.
    assert abs(along) == pytest.approx(1.0, abs=1e-9)
    standard = lines.scaling(panel.state)
    assert (standard @ found).std() == pytest.approx(1.0)


@pytest.mark.parametrize("level", [1, 3])
def test_the_simplest_level_that_explains_is_chosen(bases, level):
    """Choices drawn from lines need lines; choices drawn from bends need bends."""
    panel, _, basis = bases
    rng = np.random.default_rng(level)
    state = panel.state[::3]
    design = basis(state)
    theta = np.where(basis.level == level, rng.normal(size=len(basis.level)), 0.0)
    score = design @ (theta / (design @ theta).std())
    action = (score + rng.gumbel(size=score.shape)).argmax(axis=1)
    choices = _ridge_logit.Choices(
        design, np.zeros_like(score), action, np.ones(len(state))
    )
    chosen = _complexity.choose_level(choices, basis, np.arange(len(state)) % 5)
    assert chosen.name == _reward_basis.LEVELS[level]
    assert (chosen.theta[basis.level > level] == 0).all()
    names = [name for name, _ in chosen.evidence]
    assert names == [_reward_basis.LEVELS[i] for i in (0, 1, 3, 4)]


def test_no_level_is_needed_for_choices_by_coin(bases):
    """The reward of choices that nothing explains is shrunk to about zero."""
    panel, lines, _ = bases
    state = panel.state[::3]
    action = np.random.default_rng(0).integers(5, size=len(state))
    design = lines(state)
    choices = _ridge_logit.Choices(
        design, np.zeros(design.shape[:2]), action, np.ones(len(state))
    )
    chosen = _complexity.choose_level(choices, lines, np.arange(len(state)) % 5)
    # Unpenalised, 24 coefficients of noise give rewards of about sqrt(24 / 2,000) = 0.11.
    assert (design @ chosen.theta).std() < 0.11


class _Corrected(Joint):
    """A correction of whatever joint estimation finds."""

    def fit(self, panel, value, *, key):
        simple = Joint().fit(panel, value, key=key)
        return _departure.correct(panel, value, simple, key=key)


def test_pqr_on_a_departure_adds_up_to_pqr():
    """PQR is linear in log pi: whatever the simple reward, its correction makes up for it."""
    world = deeppqr.worlds.random_tabular(num_states=5, num_actions=3, seed=3)
    panel = world.simulate(steps=6_000, units=30, seed=4)
    told = {"discount": 0.9, "anchor": 0, "anchor_reward": 0.5, "policy": "frequency"}
    counted = deeppqr.PQR(**told, reward="table").fit(panel)
    corrected = deeppqr.PQR(**told, reward=_Corrected()).fit(panel)
    states = world.states
    # Rounding through solves whose condition number is 2 / (1 - discount).
    np.testing.assert_allclose(
        corrected.reward(states), counted.reward(states), atol=1e-9 / (1 - 0.9)
    )
    np.testing.assert_allclose(
        corrected.q(states), counted.q(states), atol=1e-9 / (1 - 0.9)
    )


def test_a_saturated_linear_regression_is_the_table(tabular):
    world, panel = tabular
    told = {"discount": 0.9, "anchor": 0}
    counted = deeppqr.PQR(reward="table", **told).fit(panel).reward(world.states)
    linear = deeppqr.PQR(reward=Linear(Indicators()), **told).fit(panel)
    # Normal equations of 20,000 rows, scaled by the inverse of 1 - discount.
    np.testing.assert_allclose(linear.reward(world.states), counted, atol=1e-9)


def test_decisions_that_memory_does_not_hold_are_counted(paper, monkeypatch):
    _, panel = paper
    monkeypatch.setattr(_joint, "MAX_ENTRIES", 500_000)
    quick = Joint(rounds=1, training=None)
    fit = deeppqr.PQR(discount=0.9, anchor=0, policy="logit", reward=quick).fit(panel)
    assert "joint on 1,500 of 6,000 decisions: " in fit.stages["reward"]
