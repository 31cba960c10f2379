"""Demonstrations that were learned: what is compared with whom, and where it is scored."""

import numpy as np
import pytest

from deeppqr_studies import _problem
from deeppqr_studies._problem import make_problem
from deeppqr_studies.paper._convergence import converge
from deeppqr_studies.paper._training_error import training_errors

CELL = {"world": "paper", "p": 2, "scale": 5.0, "steps": 600, "units": 20}
LEARNED = {**CELL, "demonstrations": "soft-q"}


@pytest.mark.slow
@pytest.mark.usefixtures("quick")
def test_the_floor_of_the_policy_is_the_demonstrators_own_loss():
    policy, *_ = training_errors(LEARNED, "default", seed=1)
    problem = make_problem(LEARNED, 1)
    taken = np.arange(600), problem.panel.action
    own = problem.demonstrator.log_policy(problem.panel.state)[taken]
    np.testing.assert_allclose(policy["floor"], -own.mean(), rtol=1e-12)
    assert problem.demonstrator_kl is not None
    assert policy["demonstrator_kl"] == problem.demonstrator_kl > 0


def test_the_optimal_agent_demonstrates_unless_one_had_to_learn():
    problem = make_problem(CELL, 1)
    assert problem.demonstrator is problem.world
    assert problem.demonstrator_kl is None


def test_many_decisions_are_scored_at_no_more_states(monkeypatch):
    monkeypatch.setattr(_problem, "MAX_SCORED", 400)
    assert len(make_problem(CELL, 7).states) == 40


@pytest.mark.slow
@pytest.mark.usefixtures("quick")
def test_one_variable_leaves_two_directions():
    """All inputs of FQI-I's labels are then 1 or -1 at unit norm."""
    row = converge({**CELL, "p": 1}, "default", kernel_rows=50, seed=1)
    assert row["rows_q"] == 2
    assert np.isfinite(row["complexity_q"])
