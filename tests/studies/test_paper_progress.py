"""A share of the paper's training is how the whole of it began."""

from typing import Any

import jax.random as jr
import numpy as np
import pytest

from deeppqr import PQR, DataError
from deeppqr.policy import Given


def beginning(share, reading="steps"):
    """The paper's estimator with a share of its training."""
    return PQR.paper(discount=0.9, anchor=0, reading=reading, progress=share)


@pytest.mark.parametrize(("reading", "steps"), [("steps", 60), ("epochs", 3_000)])
def test_a_share_shortens_all_three(reading, steps):
    model = beginning(0.1, reading)
    assert model.policy.training.max_steps == steps
    assert model.reward.training.max_steps == steps * 10 // 6
    assert model.anchor_value.max_rounds == {"steps": 10, "epochs": 100}[reading]


@pytest.mark.slow
def test_the_policys_beginning_is_a_prefix(paper):
    _, panel = paper
    short, long = (
        beginning(share).policy.fit(panel, key=jr.key(1)).policy for share in (0.05, 0.1)
    )
    assert (len(short.loss_trace), len(long.loss_trace)) == (3, 6)
    np.testing.assert_array_equal(long.loss_trace[:3], short.loss_trace)
    np.testing.assert_array_equal(long.entropy_trace[:3], short.entropy_trace)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::deeppqr.NotConvergedWarning")
def test_the_anchors_beginning_is_a_prefix(paper):
    world, panel = paper
    traces = []
    for share in (0.02, 0.04):
        solver = beginning(share).anchor_value
        stages = {"policy": Given(world.log_policy), "reward": "linear"}
        fit = PQR(discount=0.9, anchor=0, anchor_value=solver, **stages).fit(panel)
        networks: Any = fit.estimate.policy_continuation
        traces.append(networks.ensemble.trace)
    assert [len(trace) for trace in traces] == [2, 4]
    np.testing.assert_array_equal(traces[1][:2], traces[0])


@pytest.mark.parametrize("share", [0.0, 1.1])
def test_other_shares_are_refused(share):
    with pytest.raises(DataError, match="`progress` must be above 0 and at most 1"):
        beginning(share)
