"""SPL-GD: exact with the truth, the maximum-likelihood estimate without it."""

import numpy as np
import pytest
from scipy.optimize import minimize

from deeppqr import NotConvergedWarning
from deeppqr.baselines import SPLGD
from deeppqr.mdp import TabularMDP, solve_soft
from deeppqr.worlds import TabularWorld
from oracles import empirical_transition

TRUE = np.array([0.15, -0.3])


def linear_reward(theta, num_states=7, num_actions=3):
    return theta[0] * np.arange(num_states)[:, None] + theta[1] * np.arange(num_actions)


def linear_world(kind="ring", discount=0.9):
    """A reward linear in (s, a): around a ring, or between random states."""
    after = (np.arange(7)[:, None] + np.arange(3)) % 7
    law = np.random.default_rng(1).dirichlet(np.full(7, 0.3), size=(7, 3))
    transition = np.eye(7)[after] if kind == "ring" else law
    return TabularWorld(TabularMDP(linear_reward(TRUE), transition, discount))


def slopes(world, fit):
    """What the likelihood identifies: the coefficients without the constant."""
    reward = fit.reward(world.states)
    return np.array([reward[1, 0] - reward[0, 0], reward[0, 1] - reward[0, 0]])


def likelihood(panel, discount):
    """The nested fixed point: the log-likelihood with the model solved at each theta."""
    transition = empirical_transition(panel, 7)
    taken = panel.state[:, 0].astype(int), panel.action

    def mean(theta):
        mdp = TabularMDP(linear_reward(theta), transition, discount)
        return solve_soft(mdp).log_policy[taken].mean()

    return mean


@pytest.mark.parametrize("intercepts", [False, True])
def test_exact_with_the_truth(intercepts):
    """Deterministic transitions leave the regression without noise."""
    world = linear_world()
    panel = world.simulate(steps=2_000, units=20, seed=1)
    fit = SPLGD(0.9, q=world.q, value=world.value, intercepts=intercepts).fit(panel)
    np.testing.assert_allclose(fit.reward(world.states), world.mdp.reward, atol=1e-11)
    assert fit.given == "the true Q and V"


def test_within_sampling_error_where_transitions_are_random():
    """V(s') is noise around its expectation; its spread is what the error scales with."""
    world = linear_world("random")
    panel = world.simulate(steps=20_000, units=20, seed=1)
    fit = SPLGD(0.9, q=world.q, value=world.value).fit(panel)
    x = np.column_stack([np.ones(len(panel)), panel.state[:, 0], panel.action])
    noise = 0.9 * world.solution.value.std()  # more than that given (s, a)
    error = noise * np.sqrt(np.diag(np.linalg.inv(x.T @ x)))[1:]
    assert (np.abs(slopes(world, fit) - TRUE) < 4 * error).all()


@pytest.mark.parametrize("discount", [0.0, 0.9, 0.98])
@pytest.mark.parametrize("kind", ["ring", "random"])
def test_without_the_truth_it_is_the_nested_fixed_point(kind, discount):
    """Planning and learning at once ends where solving at each theta ends."""
    world = linear_world(kind, discount)
    panel = world.simulate(steps=4_000, units=20, seed=1)
    fit = SPLGD(discount, ridge=1e-6).fit(panel)
    mean = likelihood(panel, discount)
    best = minimize(lambda theta: -mean(theta), TRUE, method="Nelder-Mead", tol=1e-9)
    found = slopes(world, fit)
    assert mean(found) >= -best.fun - 1e-9
    if discount > 0:  # without a future a reward of the state alone shows nowhere
        np.testing.assert_allclose(found, best.x, atol=1e-4)


def test_without_the_truth_it_is_close_to_it():
    """Within 4 standard errors: on the ring transitions are known once seen, so the
    likelihood's curvature is all there is to the error."""
    world = linear_world()
    panel = world.simulate(steps=20_000, units=100, seed=2)
    fit = SPLGD(0.9).fit(panel)
    mean, found, step = likelihood(panel, 0.9), slopes(world, fit), 1e-3
    bend = np.empty((2, 2))
    for i, j in np.ndindex(2, 2):
        a, b = step * np.eye(2)[i], step * np.eye(2)[j]
        corners = mean(found + a + b) - mean(found + a) - mean(found + b) + mean(found)
        bend[i, j] = -corners / step**2
    error = np.sqrt(np.diag(np.linalg.inv(bend)) / len(panel))
    assert (np.abs(found - TRUE) < 4 * error).all()
    assert (error < 0.1).all()
    miss = fit.log_policy(world.states) - world.solution.log_policy
    assert np.abs(miss).max() < 0.1


def test_it_generalises_where_states_are_many(paper):
    """On continuous states: converged, and better than fixed action shares."""
    _, panel = paper
    fit = SPLGD(0.9, max_rows=1_000).fit(panel)
    chosen = fit.log_policy(panel.state)[np.arange(len(panel)), panel.action]
    shares = np.bincount(panel.action) / len(panel)
    assert chosen.mean() > shares @ np.log(shares)


def test_it_says_when_it_stops_early():
    panel = linear_world().simulate(steps=2_000, units=20, seed=1)
    with pytest.warns(NotConvergedWarning, match="SPL-GD stopped after 5 steps"):
        SPLGD(0.9, max_steps=5).fit(panel)
