"""A fit that was saved knows where its actions lead: the same counterfactuals, no panel."""

from typing import Any

import numpy as np
import pytest

import deeppqr
from deeppqr.law._transition import Steps
from deeppqr.worlds import PaperWorld


def both(model, panel, folder) -> tuple[Any, Any]:
    fit = model.fit(panel)
    fit.save(folder)
    return fit, deeppqr.load(folder)


@pytest.mark.parametrize("reward", ["table", "joint"])
def test_tables(reward, tabular, tmp_path):
    _, panel = tabular
    model = deeppqr.PQR(discount=0.9, anchor=0, policy="frequency", reward=reward)
    before, after = both(model, panel, tmp_path / "run")
    for options in ({"transfer": {1: 0.5}}, {"remove": [2]}):
        mine, theirs = (fit.counterfactual(**options) for fit in (before, after))
        np.testing.assert_allclose(theirs.changes, mine.changes)


@pytest.mark.slow
def test_continuous_states(tmp_path):
    panel = PaperWorld(p=2, reward_scale=5.0, seed=1).simulate(steps=1_000, seed=2)
    before, after = both(deeppqr.PQR(discount=0.9, anchor=0), panel, tmp_path / "run")
    mine, theirs = (fit.counterfactual(transfer={1: 0.5}) for fit in (before, after))
    np.testing.assert_allclose(theirs.changes, mine.changes)
    np.testing.assert_allclose(theirs.covariance, mine.covariance)


def test_what_is_kept_is_bounded(monkeypatch, paper):
    """Every so many steps, over all units."""
    _, panel = paper
    steps = Steps.of(panel)
    assert steps.thinned() is steps
    monkeypatch.setattr("deeppqr.law._transition.MAX_KEPT", 2_000)
    kept = steps.thinned()
    one = 2 * kept.state.shape[1]
    assert kept.state.size + kept.next_state.size <= 2_000 + one
    assert len(kept.state) >= 200
