"""Theorem 1 for densities: with the true policy and law nothing is lost."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import deeppqr
from deeppqr.worlds import AmountWorld, LinearQuadratic


def recover(world, states, **changes):
    known = {
        "discount": world.discount,
        "temperature": world.temperature,
        "anchor": world.anchor,
        "anchor_reward": world.anchor_reward,
        **changes,
    }
    log_policy = known.pop("log_policy", world.log_policy)
    return deeppqr.exact_density(log_policy, world.outcomes, states, **known)


def decisions(world, rng, rows=40):
    spread = world._state_covariance
    states = rng.multivariate_normal(np.zeros(world.dim), spread, size=rows)
    return states, world.draw(states, rng)


@pytest.mark.parametrize("discount", [0.0, 0.9, 0.99])
@pytest.mark.parametrize("temperature", [0.1, 1.0, 10.0])
def test_recovery_on_linear_quadratic_control(discount, temperature, rng):
    """V is quadratic, so a basis of quadratic functions holds it, and rounding is left."""
    world = LinearQuadratic.random(3, 2, seed=1, discount=discount, temperature=temperature)
    states, actions = decisions(world, rng)
    found = recover(world, states)
    for name in ("reward", "q"):
        truth = getattr(world, name)(states, actions)
        np.testing.assert_allclose(getattr(found, name)(states, actions), truth, atol=1e-8)
    np.testing.assert_allclose(found.value(states), world.value(states), atol=1e-8)


@settings(max_examples=25, deadline=None)
@given(
    dim=st.integers(1, 4),
    action_dim=st.integers(1, 3),
    discount=st.floats(0.0, 0.99),
    temperature=st.floats(0.1, 10.0),
    seed=st.integers(0, 10_000),
)
def test_recovery_for_any_matrices(dim, action_dim, discount, temperature, seed):
    world = LinearQuadratic.random(
        dim, action_dim, seed=seed, discount=discount, temperature=temperature
    )
    states, actions = decisions(world, np.random.default_rng(seed))
    found, truth = recover(world, states), world.reward(states, actions)
    # Rounding of V, magnified by the solution of the anchor's equation.
    tol = 1e-12 * (1 + np.abs(world.value(states)).max()) / (1 - discount)
    np.testing.assert_allclose(found.reward(states, actions), truth, atol=tol)


def test_no_future_makes_the_reward_the_action_value(rng):
    world = LinearQuadratic.random(2, 2, seed=2, discount=0.0)
    states, actions = decisions(world, rng)
    found = recover(world, states)
    np.testing.assert_array_equal(found.reward(states, actions), found.q(states, actions))


def test_any_action_can_be_the_anchor(rng):
    world = LinearQuadratic.random(2, 2, seed=3)
    states, actions = decisions(world, rng)
    point = np.array([0.7, -1.1])
    known = lambda at: world.reward(at, np.tile(point, (len(at), 1)))
    found = recover(world, states, anchor=point, anchor_reward=known)
    truth = world.reward(states, actions)
    np.testing.assert_allclose(found.reward(states, actions), truth, atol=1e-11)


def test_wrong_anchor_reward_shapes_the_answer(rng):
    """Misstating g by c's shifts r by phi - discount E[phi(s') | s, a], with
    phi = c'(I - discount A)^-1 s: Lemma 2, in closed form where moves are linear."""
    world = LinearQuadratic.random(3, 2, seed=4)
    states, actions = decisions(world, rng)
    error = rng.normal(size=3)
    wrong = lambda at: world.anchor_reward(at) + at @ error
    found = recover(world, states, anchor_reward=wrong).reward(states, actions)
    slope = np.linalg.solve((np.eye(3) - 0.9 * world.drift).T, error)
    ahead = states @ world.drift.T + actions @ world.response.T
    expected = world.reward(states, actions) + states @ slope - 0.9 * ahead @ slope
    np.testing.assert_allclose(found, expected, atol=1e-11)


def test_the_anchor_keeps_its_reward(rng):
    """r(s, anchor) = g(s), also for a g that is wrong."""
    world = LinearQuadratic.random(2, 1, seed=5)
    states, _ = decisions(world, rng)
    wrong = lambda at: 3.0 + at[:, 0] ** 2
    found = recover(world, states, anchor_reward=wrong)
    held = found.reward(states, np.zeros((len(states), 1)))
    np.testing.assert_allclose(held, wrong(states), atol=1e-10)


@pytest.mark.parametrize("scale", [0.2, 7.0])
def test_units_do_not_matter_to_a_continuous_anchor(scale, rng):
    """Densities per unit of another length: V shifts by a constant, r not at all."""
    world = LinearQuadratic.random(2, 2, seed=6)
    states, actions = decisions(world, rng)
    rescaled = lambda at, action: world.log_policy(at, action) - np.log(scale)
    found = recover(world, states, log_policy=rescaled)
    truth = world.reward(states, actions)
    np.testing.assert_allclose(found.reward(states, actions), truth, atol=1e-10)
    level = found.value(states) - world.value(states)
    np.testing.assert_allclose(level, np.log(scale) / (1 - 0.9), atol=1e-10)


@pytest.fixture(scope="module")
def amounts():
    """A world with an atom, 30 states, and features that hold its anchor's continuation."""
    world = AmountWorld(dim=2, seed=3, temperature=0.5)
    rng = np.random.default_rng(1)
    states = rng.normal(size=(30, 2))
    anchored = lambda at: world.continuation(at, np.zeros((len(at), 1)))
    # The continuation is no polynomial: it is among the features, as the theorem needs.
    features = lambda at: np.column_stack([np.ones(len(at)), at, anchored(at)])
    actions = world.draw(states, rng)
    assert 3 < (actions == 0).sum() < 27
    return world, states, actions, features


def test_recovery_with_an_atom(amounts):
    world, states, actions, features = amounts
    found = recover(world, states, features=features)
    truth = world.reward(states, actions)
    np.testing.assert_allclose(found.reward(states, actions), truth, atol=1e-9)
    np.testing.assert_allclose(found.value(states), world.value(states), atol=1e-9)


def test_units_move_amounts_against_an_atom_by_a_constant(amounts):
    """Densities counted per unit of another length: r of amounts falls by alpha log c, r
    of the atom stays. Densities are with respect to the box; per unit of the amount c is
    the box's length."""
    world, states, actions, features = amounts
    length = 10.0
    per_unit = lambda at, action: (
        world.log_policy(at, action) - np.where(action[:, 0] == 0, 0.0, np.log(length))
    )
    found = recover(world, states, log_policy=per_unit, features=features)
    shift = np.where(actions[:, 0] == 0, 0.0, -0.5 * np.log(length))
    expected = world.reward(states, actions) + shift
    np.testing.assert_allclose(found.reward(states, actions), expected, atol=1e-9)
    assert world.actions.log_volume == pytest.approx(np.log(length))


def test_more_features_come_closer(rng):
    """Where no basis holds V, the error falls as bends are added.

    Over 400 states; with more than a tenth of that in bends the answer would depend on
    next states beyond them, which nothing here penalises."""
    world = AmountWorld(dim=2, atom=False, seed=1)
    states = world.initial_states(400, rng)
    actions = world.draw(states, rng)
    truth = world.reward(states, actions)
    slope, centre = rng.normal(size=(2, 40)), 2 * rng.normal(size=40)

    def bends(at, number):
        wavy = np.tanh(at @ slope[:, :number] + centre[:number])
        return np.column_stack([np.ones(len(at)), at, wavy])

    errors, residuals = [], []
    for number in (10, 40):
        found = recover(world, states, features=lambda at, n=number: bends(at, n))
        errors.append((found.reward(states, actions) - truth).std())
        residuals.append(found.residual)
    assert errors[0] > 2 * errors[1]
    assert residuals[0] > 2 * residuals[1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"states": np.zeros(4)}, r"`states` must be finite numbers .* shape is \(4,\)"),
        (
            {"states": np.eye(4)[:, :2]},
            "`states` must have at least 6 rows, .* there are 4",
        ),
        (
            {"law": lambda s, a: (s, np.ones(len(s)))},
            r"`law` must return next states of shape",
        ),
        ({"log_policy": lambda s, a: a}, r"`log_policy` must return \d+ finite numbers"),
        ({"temperature": -1.0}, "`temperature` must be positive and finite"),
    ],
)
def test_what_is_refused(change, message, rng):
    world = LinearQuadratic.random(2, 1)
    arguments = {
        "log_policy": world.log_policy,
        "law": world.outcomes,
        "states": rng.normal(size=(20, 2)),
        "discount": 0.9,
        "anchor": 0.0,
        **change,
    }
    with pytest.raises(deeppqr.DataError, match=message):
        deeppqr.exact_density(**arguments)
