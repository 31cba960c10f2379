"""The world of amounts: its reward makes its action values optimal, exactly."""

import numpy as np
import pytest
from scipy.special import logsumexp

from deeppqr import Box, DataError, Mixed
from deeppqr.worlds import AmountWorld
from deeppqr.worlds._amounts import walk

KINDS = [(1, True), (1, False), (2, True), (2, False)]


def trapezoid(world, state, action, noise_points=401, per_dimension=81):
    """E[V(s') | s, a] by trapezoids over noise and amounts: rules other than the world's."""
    noise = np.linspace(-np.sqrt(3), np.sqrt(3), noise_points)
    still, direction = world._moves(state[None], action[None])
    ahead = still + noise[:, None] * direction
    grid = np.linspace(world.actions.box.lower, world.actions.box.upper, per_dimension)
    axes = np.meshgrid(*grid.T, indexing="ij")
    amounts = np.stack([axis.ravel() for axis in axes], axis=1)
    share = np.ones(per_dimension)
    share[[0, -1]] = 0.5
    weight = np.prod(np.meshgrid(*[share / share.sum()] * len(axes), indexing="ij"), axis=0)
    value = []
    for after in ahead:
        # Nudged off the corner, where an amount would be taken for the atom.
        q = world.q(
            np.tile(after, (len(amounts), 1)), np.maximum(amounts, amounts.min() + 1e-4)
        )
        mass = logsumexp(q / world.temperature, b=weight.ravel())
        if world.atom:
            nothing = world.q(after[None], np.zeros((1, world.action_dim)))[0]
            mass = np.logaddexp(mass, nothing / world.temperature)
        value.append(world.temperature * mass)
    return np.trapezoid(value, noise) / (noise[-1] - noise[0])


@pytest.mark.parametrize(("action_dim", "atom"), KINDS)
def test_q_satisfies_the_soft_bellman_equation(action_dim, atom, rng):
    """Trapezoids of 80 and 400 cells are right to about 1e-4: the error falls as the
    square of a cell's width, 1/40 of the box's half, times second derivatives below 5."""
    world = AmountWorld(dim=2, action_dim=action_dim, atom=atom, seed=7)
    states = rng.normal(size=(2, 2))
    actions = world.draw(states, rng)
    for state, action in zip(states, actions, strict=True):
        target = world.reward(state[None], action[None]) + 0.9 * trapezoid(
            world, state, action, noise_points=101 if action_dim == 2 else 401
        )
        q = world.q(state[None], action[None])
        np.testing.assert_allclose(q, target, atol=2e-3)


@pytest.mark.parametrize(("action_dim", "atom"), KINDS)
def test_densities_have_mass_one(action_dim, atom, rng):
    world = AmountWorld(dim=3, action_dim=action_dim, atom=atom, seed=2)
    states = rng.normal(size=(5, 3))
    nodes = world.actions.nodes(30)  # others than the world's own
    grid = [world.log_policy(states, np.tile(a, (5, 1))) for a in nodes.action]
    total = np.exp(np.stack(grid, axis=1)) @ nodes.weight
    np.testing.assert_allclose(total, 1, atol=1e-10)


@pytest.mark.parametrize(("action_dim", "atom"), KINDS)
def test_draws_follow_the_density(action_dim, atom, rng):
    """Means and squares of 20,000 draws in one state, within five standard errors."""
    world = AmountWorld(dim=2, action_dim=action_dim, atom=atom, seed=5)
    state = rng.normal(size=(1, 2))
    drawn = world.draw(np.tile(state, (20_000, 1)), rng)
    nodes = world.actions.nodes()
    states = np.tile(state, (len(nodes), 1))
    chance = np.exp(world.log_policy(states, nodes.action)) * nodes.weight
    for power in (1, 2):
        values = drawn**power
        error = values.std(axis=0) / np.sqrt(len(values))
        expected = chance @ nodes.action**power
        assert (np.abs(values.mean(axis=0) - expected) < 5 * error).all()
    if atom:
        share = (drawn == 0).all(axis=1).mean()
        assert abs(share - chance[0]) < 5 * np.sqrt(chance[0] / len(drawn))


@pytest.mark.parametrize("atom", [True, False])
def test_finite_worlds_become_this_one_as_bins_are_refined(atom, rng):
    """V over K amounts, each worth 1/K of the box, at the middles of K bins.

    The midpoint rule's error falls as 1 / K^2: by four each time bins are halved."""
    world = AmountWorld(dim=2, atom=atom, seed=4)
    states, truth = rng.normal(size=(20, 2)), None
    truth, errors = world.value(states), []
    box = world.actions.box
    for bins in (8, 16, 32):
        middle = box.lower + (np.arange(bins) + 0.5) / bins * (box.upper - box.lower)
        q = [world.q(states, np.full((20, 1), m)) - np.log(bins) for m in middle]
        if atom:
            q.append(world.q(states, np.zeros((20, 1))))
        errors.append(np.abs(logsumexp(q, axis=0) - truth).max())
    assert 3.6 < errors[0] / errors[1] < 4.4
    assert 3.6 < errors[1] / errors[2] < 4.4


def test_temperature_scales_everything(rng):
    """The same policy at every temperature; without a future the reward is Q."""
    one, two = AmountWorld(dim=2), AmountWorld(dim=2, temperature=2.0)
    states = rng.normal(size=(10, 2))
    actions = one.draw(states, rng)
    for name in ("reward", "q"):
        expected = 2 * getattr(one, name)(states, actions)
        np.testing.assert_allclose(
            getattr(two, name)(states, actions), expected, rtol=1e-12, atol=1e-12
        )
    found = two.log_policy(states, actions)
    np.testing.assert_allclose(
        found, one.log_policy(states, actions), rtol=1e-12, atol=1e-12
    )
    myopic = AmountWorld(dim=2, discount=0.0)
    np.testing.assert_array_equal(myopic.reward(states, actions), myopic.q(states, actions))


def test_simulated_moves_follow_the_law(rng):
    """The mean of V over simulated next states, within four standard errors."""
    world = AmountWorld(dim=2, action_dim=1, seed=2)
    for amount in (0.0, 4.0):
        state = rng.normal(size=(1, 2))
        states, actions = np.tile(state, (20_000, 1)), np.full((20_000, 1), amount)
        value = world.value(world.next_states(states, actions, rng))
        expected = world.continuation(state, actions[:1])[0]
        assert abs(value.mean() - expected) < 4 * value.std() / np.sqrt(len(value))


def test_panels_hold_the_same_walk():
    world = AmountWorld(dim=2, action_dim=2)
    panel = world.simulate(steps=400, units=20, seed=1)
    assert panel.space == world.actions
    assert (len(panel), panel.num_units) == (400, 20)
    state, action, after, _ = walk(world, steps=400, units=20, seed=1)
    for found, drawn in (
        (panel.state, state),
        (panel.amount, action),
        (panel.next_state, after),
    ):
        np.testing.assert_array_equal(found, drawn)
    assert 0.15 < (action == 0).all(axis=1).mean() < 0.6


def test_spaces():
    assert AmountWorld(dim=2, action_dim=2).actions == Mixed(
        atoms=[[0.0, 0.0]], box=Box([0.0, 0.0], [10.0, 10.0])
    )
    assert AmountWorld(dim=2, atom=False).actions == Box(-2.0, 2.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dim": 1}, "`dim` must be a whole number, 2 or more, but it is 1"),
        ({"action_dim": 3}, "`action_dim` must be a whole number, 1 to 2, but it is 3"),
        ({"spread": 0.0}, "`spread` must be positive, but it is 0.0"),
    ],
)
def test_what_is_no_such_world(arguments, message):
    with pytest.raises(DataError, match=message):
        AmountWorld(**arguments)


def test_actions_outside_are_named():
    world = AmountWorld(dim=2)
    with pytest.raises(
        DataError, match=r"`actions` must lie in .* row 1 has \[11.\] \(1 rows"
    ):
        world.reward(np.zeros((2, 2)), [3.0, 11.0])
