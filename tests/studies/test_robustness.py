"""A reward of the state alone: what is run, what each method is scored on."""

import numpy as np
import polars as pl
import pytest

from deeppqr import DataError
from deeppqr_studies import complete_settings, find_study, run_study
from deeppqr_studies._problem import make_problem, random_anchor
from deeppqr_studies.paper._robustness import STATE_ONLY_METHODS

CELL = {
    "world": "paper",
    **{"p": 2, "scale": 5.0, "steps": 600, "units": 10},
    **{"state_only": True, "assumed": {"anchor": "random"}},
}


def test_the_study_end_to_end(small, tmp_path):
    methods = ["limit", "splgd-truth", "zero"]
    settings = {**small, "seeds": [1, 2], "methods": methods}
    outcome = run_study(find_study("robustness"), tmp_path / "run", settings)
    assert outcome.failures == {}
    assert outcome.num_tasks == 6
    for words in ("as it is", "up to a constant", "cannot tell: D-AIRL is closer"):
        assert words in outcome.text
    assert (tmp_path / "run" / "robustness.png").read_bytes()[:4] == b"\x89PNG"
    assert (tmp_path / "run" / "robustness.pdf").exists()
    assert "What the paper claims" in (tmp_path / "run" / "summary.md").read_text()
    table = pl.read_csv(tmp_path / "run" / "table.csv")
    zero = table.filter(method="zero")
    np.testing.assert_allclose(zero.select("nmse", "centred_nmse").to_numpy(), 1.0)
    # Handed Q and V, a linear form of a reward that hardly bends is nearly right.
    assert (table.filter(method="splgd-truth")["nmse"] < 0.1).all()
    assert table["anchor"].to_list() == [random_anchor(s) for s in (1, 2) for _ in methods]


def test_pqr_is_told_what_is_false_and_scored_on_what_is_true():
    problem = make_problem(CELL, 3)
    assert problem.anchor == random_anchor(3)
    assert problem.misstated is not None
    assert problem.misstated.anchor_reward == 0.0
    found = STATE_ONLY_METHODS["limit"](problem.assumed_world, problem.panel, 3).reward(
        problem.states
    )
    np.testing.assert_allclose(found[:, problem.anchor], 0, atol=1e-11)
    assert np.abs(problem.reward[:, problem.anchor]).mean() > 0.1


def test_rewards_of_the_state_are_the_same_for_all_actions():
    problem = make_problem(CELL, 3)
    found = STATE_ONLY_METHODS["splgd"](problem.assumed_world, problem.panel, 3).reward(
        problem.states
    )
    np.testing.assert_allclose(found, found[:, [0] * 5])
    assert found.std() > 0


def test_settings_are_checked():
    study = find_study("robustness")
    assert len(study.tasks(complete_settings(study, {}))) == 2 * 5 * 8
    with pytest.raises(DataError, match="`methods` must be among"):
        study.tasks(complete_settings(study, {"methods": ["maxent"]}))
    with pytest.raises(DataError, match="`demonstrations` must be among"):
        study.tasks(complete_settings(study, {"demonstrations": "guess"}))
