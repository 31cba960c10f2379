"""A share of the paper's training is how the whole of it began."""

import jax.random as jr
import numpy as np
import pytest

from deeppqr import PQR, DataError
from deeppqr._paper import paper_stages
from deeppqr.anchor import Surprise, anchor_problem
from deeppqr.policy import Given

TOLD = {"discount": 0.9, "anchor": 0}


@pytest.mark.parametrize("reading", ["steps", "epochs"])
def test_all_of_the_training_is_the_papers(reading):
    """The same settings, hence the same numbers."""
    stages = paper_stages("synthetic", reading, 1.0)
    assert PQR(**TOLD, **stages) == PQR.paper(**TOLD, reading=reading)


@pytest.mark.parametrize(("reading", "steps"), [("steps", 60), ("epochs", 3_000)])
def test_a_share_shortens_all_three(reading, steps):
    stages = paper_stages("synthetic", reading, 0.1)
    assert stages["policy"].training.max_steps == steps
    assert stages["reward"].training.max_steps == steps * 10 // 6
    assert stages["anchor_value"].max_rounds == {"steps": 10, "epochs": 100}[reading]


@pytest.mark.slow
def test_the_policys_beginning_is_a_prefix(paper):
    _, panel = paper
    short, long = (
        paper_stages("synthetic", "steps", share)["policy"].fit(panel, key=jr.key(1))
        for share in (0.05, 0.1)
    )
    assert (len(short.policy.loss_trace), len(long.policy.loss_trace)) == (3, 6)
    np.testing.assert_array_equal(long.policy.loss_trace[:3], short.policy.loss_trace)
    np.testing.assert_array_equal(long.policy.entropy_trace[:3], short.policy.entropy_trace)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::deeppqr.NotConvergedWarning")
def test_the_anchors_beginning_is_a_prefix(paper):
    world, panel = paper
    known = Given(world.log_policy).fit(panel, key=jr.key(0)).policy
    problem = anchor_problem(panel, known, Surprise(known, 0), 0, discount=0.9)
    traces = []
    for share in (0.02, 0.04):
        solver = paper_stages("synthetic", "steps", share)["anchor_value"]
        solution = solver.solve(problem, key=jr.key(1))
        traces.append(solution.continuation.ensemble.trace)
    assert [len(trace) for trace in traces] == [2, 4]
    np.testing.assert_array_equal(traces[1][:2], traces[0])


@pytest.mark.parametrize("share", [0.0, 1.1])
def test_other_shares_are_refused(share):
    with pytest.raises(DataError, match="`progress` must be above 0 and at most 1"):
        paper_stages("synthetic", "steps", share)
