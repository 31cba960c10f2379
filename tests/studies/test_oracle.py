"""Oracles and variants of the error budget: exact gradients, exact laws, theta near one."""

import numpy as np
import pytest

from deeppqr import DataError
from deeppqr.policy import Given
from deeppqr_studies._error_budget import DRAWS, VARIANTS, _law
from deeppqr_studies._methods import METHODS, estimate_pqr, oracle
from deeppqr_studies._oracle import PaperLikelihood, fit_bus, fit_paper
from deeppqr_studies._problem import make_problem
from deeppqr_studies._tables import Mean, Table

PAPER = {"world": "paper", "p": 2, "scale": 5.0, "steps": 2000, "units": 20}
BUS = {"world": "known-cost-bus", "trajectories": 50, "irrelevant": 1}
SAMQ = {"world": "samq-bus", "steps": 400}


def test_the_likelihoods_gradient_is_exact(paper):
    world, panel = paper
    ahead = world.q(panel.state) - world.reward(panel.state)
    loss = PaperLikelihood(world, panel.state, panel.action, ahead)
    omega, step = np.array([0.3, 0.9, 0.5, 0.7]), 1e-6
    for index, slope in enumerate(loss(omega)[1]):
        move = step * np.eye(len(omega))[index]
        numeric = (loss(omega + move)[0] - loss(omega - move)[0]) / (2 * step)
        # Central differences: step^2 in the third derivative, rounding over the step.
        np.testing.assert_allclose(slope, numeric, atol=1e-9)


def test_the_likelihood_at_the_truth_is_the_policys(paper):
    world, panel = paper
    ahead = world.q(panel.state) - world.reward(panel.state)
    loss = PaperLikelihood(world, panel.state, panel.action, ahead)
    taken = world.log_policy(panel.state)[np.arange(len(panel)), panel.action]
    np.testing.assert_allclose(loss(world.omega)[0], -taken.mean(), rtol=1e-12)


def test_the_paper_oracle_beats_the_truth_in_sample(paper):
    """A maximum of the likelihood is above every other point, the truth included."""
    world, panel = paper
    found = fit_paper(world, panel)
    rows = np.arange(len(panel)), panel.action
    fitted, true = (each.log_policy(panel.state)[rows] for each in (found, world))
    assert fitted.mean() >= true.mean()
    error = found.reward(panel.state) - world.reward(panel.state)
    assert np.mean(error**2) < 0.1 * np.mean(world.reward(panel.state) ** 2)


def test_the_bus_oracle_finds_theta():
    problem = make_problem(BUS, 3)
    found = fit_bus(problem.world, problem.panel)
    assert abs(found.theta - 1) < 0.1
    np.testing.assert_array_equal(found.reward(problem.states)[:, 1], -5.0)


def test_no_oracle_for_the_samq_bus():
    problem = make_problem(SAMQ, 1)
    with pytest.raises(DataError, match="no oracle for a SamqBus"):
        oracle(problem.world, problem.panel, 1)


def test_zero_knows_the_anchor():
    problem = make_problem(BUS, 3)
    found = METHODS["zero"](problem.world, problem.panel, 3).reward(problem.states)
    np.testing.assert_array_equal(np.unique(found, axis=0), [[0.0, -5.0]])


@pytest.mark.parametrize(
    "cell",
    [{**PAPER, "steps": 100, "units": 10}, {**BUS, "irrelevant": 0}],
    ids=["paper", "bus"],
)
def test_the_true_law_and_policy_give_the_true_reward(cell):
    """Theorem 1: nothing is estimated, and nothing is lost."""
    problem = make_problem(cell, 1)
    stages = {"policy": Given(problem.world.log_policy), "transition": _law(problem.world)}
    found = estimate_pqr(problem.world, problem.panel, 1, **stages)
    np.testing.assert_allclose(found.reward(problem.states), problem.reward, atol=1e-9)


def test_a_law_by_draws_has_their_error_and_no_other():
    """Twice the standard error of a mean over the draws, in an average over states."""
    problem = make_problem(SAMQ, 1)
    stages = {"policy": Given(problem.world.log_policy), "transition": _law(problem.world)}
    found = estimate_pqr(problem.world, problem.panel, 1, **stages)
    gap = found.reward(problem.states) - problem.reward
    spread = problem.world.discount * problem.world.value(problem.states).std()
    assert np.sqrt(np.mean(gap**2)) < 2 * spread / DRAWS**0.5


def test_the_true_law_leaves_the_error_of_the_policy():
    problem = make_problem({**BUS, "irrelevant": 0}, 1)
    found = VARIANTS["true law"](problem.world, problem.panel, 1)
    assert found.given == "the true transitions"
    stages = {"policy": "auto", "transition": _law(problem.world)}
    again = estimate_pqr(problem.world, problem.panel, 1, **stages)
    states = problem.states
    np.testing.assert_array_equal(found.reward(states), again.reward(states))


def test_problems_are_split_as_they_say():
    problem = make_problem(BUS, 1)
    assert (problem.panel.num_units, len(problem.panel)) == (40, 4000)
    assert problem.held_out is not None
    assert (problem.held_out.num_units, len(problem.states)) == (10, 1000)
    assert problem.anchor == 1


def test_tables_print_alike():
    table = Table("t", ["method", "p = 5", "given"], [["a", str(Mean(0.5, 0.25, 2)), "-"]])
    assert table.text().splitlines()[2:] == ["-" * 25, "a       0.5 (0.25)  -"]
    assert table.markdown().splitlines()[-1] == "| a | 0.5 (0.25) | - |"
    assert str(Mean(2.0, None, 1)) == "2"
