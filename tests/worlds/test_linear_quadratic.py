"""Linear-quadratic control: its closed form solves the soft Bellman equation."""

import numpy as np
import pytest

from deeppqr import Box, DataError
from deeppqr.worlds import LinearQuadratic
from deeppqr.worlds._amounts import walk

SIZES = [(1, 1), (3, 2), (2, 3)]


def states_of(world, rows, rng):
    return rng.multivariate_normal(np.zeros(world.dim), world._state_covariance, size=rows)


@pytest.mark.parametrize(("dim", "action_dim"), SIZES)
@pytest.mark.parametrize("discount", [0.0, 0.9, 0.99])
@pytest.mark.parametrize("temperature", [0.1, 10.0])
def test_value_and_density_belong_together(dim, action_dim, discount, temperature, rng):
    """Q - alpha log pi is V whatever the action, so pi is exp((Q - V) / alpha)."""
    world = LinearQuadratic.random(
        dim, action_dim, seed=dim, discount=discount, temperature=temperature
    )
    states = states_of(world, 50, rng)
    value = world.value(states)
    for actions in (world.draw(states, rng), np.zeros((50, action_dim))):
        q, log_policy = world.q(states, actions), world.log_policy(states, actions)
        # Rounding of numbers as large as V, which grows as 1 / (1 - discount).
        tol = 1e-13 * (1 + np.abs(value).max())
        np.testing.assert_allclose(q - temperature * log_policy, value, atol=tol)


@pytest.mark.parametrize("discount", [0.0, 0.9])
def test_value_is_the_integral_over_actions(discount, rng):
    """V = alpha log of the integral of exp(Q / alpha) over the box, by quadrature.

    The box leaves out 6e-7 of the policy on average and at most `mass_outside`.
    """
    world = LinearQuadratic(discount=discount, temperature=0.7)
    states = states_of(world, 5, rng)
    nodes = world.box.nodes(200)
    grid = np.stack([world.q(states, np.tile(a, (5, 1))) for a in nodes.action], axis=1)
    density = np.exp((grid - world.value(states)[:, None]) / 0.7)
    inside = density @ nodes.weight
    outside = world.mass_outside(states)
    np.testing.assert_allclose(inside, 1 - outside, atol=1e-12)
    assert outside.max() < 1e-3


def test_the_mass_outside_is_a_bound_in_two_dimensions(rng):
    world = LinearQuadratic.random(2, 2, seed=3, width=1.0)
    states = states_of(world, 4, rng)
    nodes = world.box.nodes(100)
    found = np.stack(
        [np.exp(world.log_policy(states, np.tile(a, (4, 1)))) for a in nodes.action], axis=1
    )
    inside = found @ nodes.weight
    bound = world.mass_outside(states)
    assert (1 - inside <= bound + 1e-12).all()
    assert (1 - inside >= bound / 2).all()  # the union of two events holds half their sum


def test_outcomes_have_the_moments_of_the_law(rng):
    world = LinearQuadratic.random(3, 2, seed=5)
    states, actions = rng.normal(size=(6, 3)), rng.normal(size=(6, 2))
    ahead, weight = world.outcomes(states, actions)
    mean = np.einsum("ro,ros->rs", weight, ahead)
    expected = states @ world.drift.T + actions @ world.response.T
    np.testing.assert_allclose(mean, expected, atol=1e-13)
    gap = ahead - mean[:, None]
    spread = np.einsum("ro,ros,rot->rst", weight, gap, gap)
    np.testing.assert_allclose(spread, np.tile(world.noise, (6, 1, 1)), atol=1e-13)


def test_simulated_decisions_follow_the_policy_and_the_law():
    """Means and covariances of actions and moves within five standard errors."""
    world = LinearQuadratic.random(2, 1, seed=2)
    state, action, after, _ = walk(world, steps=40_000, units=400, seed=6)
    chance = action - state @ world._optimum.gain.T
    step = after - state @ world.drift.T - action @ world.response.T
    for gap, covariance in ((chance, world._choice_covariance), (step, world.noise)):
        rows = len(gap)
        error = np.sqrt(np.diag(covariance) / rows)
        assert (np.abs(gap.mean(axis=0)) < 5 * error).all()
        relative = gap.var(axis=0) / np.diag(covariance) - 1
        assert (np.abs(relative) < 5 * np.sqrt(2 / rows)).all()


def test_panels():
    world = LinearQuadratic.random(2, 1, seed=2)
    panel = world.simulate(steps=600, units=30, seed=1)
    assert panel.space == world.box
    assert (len(panel), panel.num_units) == (600, 30)


def test_actions_outside_the_box_are_drawn_again(rng):
    """At a width of one a third of the draws falls outside; none is kept."""
    world = LinearQuadratic(width=1.0)
    states = states_of(world, 2_000, rng)
    assert world.mass_outside(states).mean() > 0.2
    assert world.box.contains(world.draw(states, rng)).all()


def test_wider_boxes_change_densities_by_a_constant_and_no_reward(rng):
    """Counted over a box of c times the length: log pi + log c, V - alpha log c / (1 - discount)."""
    narrow, wide = LinearQuadratic(width=3.0), LinearQuadratic(width=6.0)
    states = states_of(narrow, 20, rng)
    actions = narrow.draw(states, rng)
    shift = wide.log_policy(states, actions) - narrow.log_policy(states, actions)
    np.testing.assert_allclose(shift, np.log(2), atol=1e-12)
    level = wide.value(states) - narrow.value(states)
    np.testing.assert_allclose(level, -np.log(2) / (1 - 0.9), atol=1e-11)
    np.testing.assert_array_equal(
        wide.reward(states, actions), narrow.reward(states, actions)
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"drift": np.ones((2, 3))}, r"`drift` must have the shape \(2, 2\)"),
        ({"response": np.ones((2, 1))}, r"`response` must have the shape \(1, 1\)"),
        (
            {"action_cost": 0.0},
            "`action_cost` must be symmetric with only positive eigenvalues",
        ),
        (
            {"state_cost": -1.0},
            "`state_cost` must be symmetric with no negative eigenvalues",
        ),
        ({"noise": "much"}, "`noise` must be an array of numbers"),
        ({"discount": 1.0}, "`discount` must lie in"),
        ({"width": -1.0}, "`width` must be positive, but it is -1.0"),
    ],
)
def test_what_is_no_such_world(change, message):
    with pytest.raises(DataError, match=message):
        LinearQuadratic(**change)


def test_states_that_grow_have_no_long_run():
    world = LinearQuadratic(drift=1.5, response=0.01, discount=0.2)
    with pytest.raises(
        DataError, match="`drift` must let states settle .* grow by 1.5 a period"
    ):
        walk(world, steps=10, units=1, seed=0)


def test_actions_of_the_wrong_shape():
    world = LinearQuadratic.random(2, 2)
    with pytest.raises(
        DataError, match=r"`actions` must have 2 columns and a row for each of the 3 states"
    ):
        world.reward(np.zeros((3, 2)), np.zeros(3))
    assert isinstance(world.box, Box)
