"""The forward problem against a naive loop, and its simulation against its law."""

import time

import numpy as np
import pytest
from scipy import sparse
from scipy.special import logsumexp

from deeppqr import DataError
from deeppqr.mdp import TabularMDP, solve_soft
from deeppqr.mdp._simulate import simulate
from deeppqr.mdp._tabular import evaluate_policy, solve_bellman
from deeppqr.worlds import PaperWorld, random_tabular
from oracles import empirical_transition, frequency_table, value_iteration


@pytest.mark.parametrize("temperature", [0.1, 1.0, 10.0])
def test_newton_agrees_with_value_iteration(temperature):
    world = random_tabular(4, 3, discount=0.5, temperature=temperature, seed=1)
    mdp = world.mdp
    slow = value_iteration(mdp.reward, mdp.transition, 0.5, temperature, sweeps=60)
    np.testing.assert_allclose(world.solution.value, slow, atol=1e-12 + 40 * 0.5**60)


@pytest.mark.parametrize("discount", [0.0, 0.9, 0.9999])
@pytest.mark.parametrize("temperature", [0.1, 10.0])
def test_solution_satisfies_the_soft_bellman_equation(discount, temperature):
    world = random_tabular(30, 4, discount=discount, temperature=temperature, seed=2)
    q = world.mdp.reward + discount * world.mdp.transition @ world.solution.value
    value = temperature * logsumexp(q / temperature, axis=1)
    size = np.abs(world.solution.value).max()
    np.testing.assert_allclose(value, world.solution.value, atol=1e-13 * (1 + size))
    assert world.solution.num_steps < 30


def test_high_discounts_are_quick():
    start = time.perf_counter()
    solution = solve_soft(random_tabular(200, 4, discount=0.9999, seed=3).mdp)
    assert time.perf_counter() - start < 1.0
    assert solution.residual < 1e-8


def test_optimal_policy_is_worth_the_optimal_value():
    world = random_tabular(seed=4)
    value = evaluate_policy(world.mdp, world.solution.log_policy)
    np.testing.assert_allclose(value, world.solution.value, atol=1e-11)


def test_a_deterministic_policy_earns_no_entropy():
    world = random_tabular(seed=4)
    first = np.full((7, 3), -np.inf)
    first[:, 0] = 0.0
    value = evaluate_policy(world.mdp, first)
    expected = np.linalg.solve(
        np.eye(7) - 0.9 * world.mdp.transition[:, 0], world.mdp.reward[:, 0]
    )
    np.testing.assert_allclose(value, expected, atol=1e-11)


@pytest.mark.parametrize("columns", [(), (1,), (3,), (4,)])
def test_one_kernel_for_one_problem_or_many(columns, rng):
    """Stacked problems as one by one, sparse moves as dense ones, rows short of one."""
    moves = rng.dirichlet(np.ones(5), size=(3, 4))[:, :, :4]
    target = rng.normal(size=(3, 4, *columns))
    found = solve_bellman(moves, target, discount=0.9)
    assert found.shape == target.shape
    for one, right, at in zip(moves, target, found, strict=True):
        expected = np.linalg.inv(np.eye(4) - 0.9 * one) @ right
        np.testing.assert_allclose(at, expected, atol=1e-13)
        np.testing.assert_array_equal(solve_bellman(one, right, discount=0.9), at)
        sparse_one = solve_bellman(sparse.csr_array(one), right, discount=0.9)
        np.testing.assert_allclose(sparse_one, expected, atol=1e-13)


def test_simulation_follows_policy_and_law():
    """Shares are within five binomial standard errors of their probabilities."""
    world = random_tabular(5, 3, seed=5)
    panel = world.simulate(steps=100_000, units=100, seed=6)
    count = np.bincount(panel.state[:, 0].astype(int))
    policy = np.exp(world.solution.log_policy)
    error = np.sqrt(policy * (1 - policy) / count[:, None])
    assert (np.abs(frequency_table(panel, 5) - policy) < 5 * error).all()
    moves = world.mdp.transition
    visits = count[:, None] * policy
    error = np.sqrt(moves * (1 - moves) / visits[:, :, None]) + 1e-3
    assert (np.abs(empirical_transition(panel, 5) - moves) < 5 * error).all()


def test_simulation_keeps_units_apart_and_chains_states():
    world = random_tabular(seed=7)
    panel = world.simulate(steps=600, units=30, seed=8)
    assert panel.num_units == 30
    same = np.diff(panel.unit) == 0
    np.testing.assert_array_equal(panel.next_state[:-1][same], panel.state[1:][same])
    assert panel.has_next.all()


def test_simulation_takes_any_policy():
    world = random_tabular(seed=9)
    always_two = lambda states: np.tile(np.log([1e-12, 1e-12, 1.0]), (len(states), 1))
    panel = simulate(world, steps=100, units=10, seed=0, policy=always_two)
    assert (panel.action == 2).all()


def test_the_fast_simulation_is_the_general_one():
    """The walk along solved lines equals solving every state anew."""
    world = PaperWorld(p=2, seed=7)
    fast = world.simulate(steps=400, units=8, seed=9)
    slow = simulate(world, steps=400, units=8, seed=9)
    np.testing.assert_array_equal(fast.action, slow.action)
    np.testing.assert_allclose(fast.state, slow.state, atol=1e-12)


def test_simulation_repeats_with_its_seed():
    world = random_tabular(seed=9)
    first, again = (world.simulate(steps=200, units=10, seed=3) for _ in range(2))
    np.testing.assert_array_equal(first.state, again.state)
    assert (world.simulate(steps=200, units=10, seed=4).state != first.state).any()


def test_messages():
    world = random_tabular()
    with pytest.raises(DataError, match="70 steps do not split evenly over 30 units"):
        world.simulate(steps=70, units=30)
    with pytest.raises(DataError, match="row 1 is 9"):
        world.reward([0, 9])
    with pytest.raises(DataError, match="to match `reward`, but it has"):
        TabularMDP(world.mdp.reward, world.mdp.transition[:, :1], 0.9)
