"""The oracles and the variants: exact gradients, exact truths, theta near its value."""

import numpy as np
import pytest
from deeppqr.studies._methods import METHODS, estimate_pqr, oracle
from deeppqr.studies._oracle import PaperLikelihood, fit_bus, fit_paper
from deeppqr.studies._problem import pose
from deeppqr.studies._tables import Mean, Table
from deeppqr.studies._variants import TrueAnchorValue, true_continuation

from deeppqr import DataError
from deeppqr.policy import Given

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
    problem = pose(BUS, 3)
    found = fit_bus(problem.world, problem.panel)
    assert abs(found.theta - 1) < 0.1
    np.testing.assert_array_equal(found.reward(problem.states)[:, 1], -5.0)


def test_no_oracle_for_the_samq_bus():
    problem = pose(SAMQ, 1)
    with pytest.raises(DataError, match="no oracle for a SamqBus"):
        oracle(problem.world, problem.panel, 1)


def test_zero_knows_the_anchor():
    problem = pose(BUS, 3)
    found = METHODS["zero"](problem.world, problem.panel, 3).reward(problem.states)
    np.testing.assert_array_equal(np.unique(found, axis=0), [[0.0, -5.0]])


@pytest.mark.parametrize("cell", [BUS, SAMQ], ids=["known-cost-bus", "samq-bus"])
def test_the_true_value_is_true(cell):
    """Also where the anchor's reward is not zero and its part is kept apart."""
    problem = pose(cell, 1)
    truth = TrueAnchorValue(problem.world, problem.panel)
    stages = {"policy": Given(problem.world.log_policy), "reward": "regression"}
    found = estimate_pqr(problem.world, problem.panel, 1, anchor_value=truth, **stages)
    assert found.q is not None
    np.testing.assert_allclose(found.q(problem.states), problem.q, rtol=1e-10)


def test_the_true_continuation_leaves_the_policys_error():
    """r - r_hat is the error of the log-odds, and nothing else."""
    problem = pose({**BUS, "irrelevant": 0}, 1)
    found = true_continuation(problem.world, problem.panel, 1)
    assert found.log_policy is not None
    odds = lambda log_policy: log_policy[:, 0] - log_policy[:, 1]
    gap = odds(found.log_policy(problem.states)) - odds(problem.log_policy)
    error = found.reward(problem.states)[:, 0] - problem.reward[:, 0]
    np.testing.assert_allclose(error, gap, atol=1e-10)


def test_problems_are_split_as_they_say():
    problem = pose(BUS, 1)
    assert (problem.panel.num_units, len(problem.panel)) == (40, 4000)
    assert problem.held_out is not None
    assert (problem.held_out.num_units, len(problem.states)) == (10, 1000)
    assert problem.anchor == 1


def test_tables_print_alike():
    table = Table("t", ["method", "p = 5", "given"], [["a", str(Mean(0.5, 0.25, 2)), "-"]])
    assert table.text().splitlines()[2:] == ["-" * 25, "a       0.5 (0.25)  -"]
    assert table.markdown().splitlines()[-1] == "| a | 0.5 (0.25) | - |"
    assert str(Mean(2.0, None, 1)) == "2"
